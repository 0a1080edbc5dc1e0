/* SPDX-License-Identifier: Apache-2.0 */
/* test: reading and writing a GPUServer object for tests of the core. */
#include "test/unit/server_fixture.h"
#include "test/unit/test.h"

void server_fixture_init(struct server_fixture *f)
{
	*f = (struct server_fixture){0};
	arena_init(&f->arena, 16u << 20);
	buf_init(&f->out, 16u << 20);
}

void server_fixture_release(struct server_fixture *f)
{
	buf_release(&f->out);
	arena_release(&f->arena);
}

int server_fixture_read(struct server_fixture *f, const char *text)
{
	char *quoted = fixture_quotes(text), *copy;
	struct json j = {0};
	int rc;

	err_clear(&f->err);
	if (json_read_copy(&j, quoted, strlen(quoted), 1000000, &copy, &f->err) != 0)
		fail_msg("%s", f->err.msg);
	free(quoted);
	rc = server_object_read(&j, json_root(&j), &f->arena, &f->o, &f->err);
	/* nothing may point into what was read */
	memset(copy, '#', strlen(copy));
	free(copy);
	json_release(&j);
	assert_int_equal(rc, f->err.code);
	return rc;
}

void server_fixture_load(struct server_fixture *f, const char *text)
{
	if (server_fixture_read(f, text) != 0)
		fail_msg("%s: %s", f->err.path, f->err.msg);
}

const char *server_fixture_status(struct server_fixture *f)
{
	const char *status;

	buf_clear(&f->out);
	server_object_write(&f->o, &f->out);
	assert_false(f->out.failed);
	status = strstr(f->out.data, "\"status\":{");
	assert_non_null(status);
	/* the object's own closing brace belongs to no status */
	f->out.data[f->out.len - 1] = '\0';
	return status + strlen("\"status\":");
}
