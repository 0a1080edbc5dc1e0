/* SPDX-License-Identifier: Apache-2.0 */
/* test: the n-th allocation fails, for each n, while a plugin is made, shows lists, answers and
 * counts the pool: the right answer, or one that says so; and the next one is right. Linked with
 * --wrap for malloc, calloc, realloc and grpc_stream_show. */
#include <deviceplugin.pb-c.h>

#include "deviceplugin/gpu_count.h"
#include "deviceplugin/plugin.h"
#include "test/unit/oom_wrap.h"
#include "test/unit/test.h"

struct grpc_stream {
	size_t len;
};

int __wrap_grpc_stream_show(struct grpc_stream *stream, struct slice message, struct err *err);
int __wrap_grpc_stream_show(struct grpc_stream *stream, struct slice message, struct err *err)
{
	(void)err;
	stream->len = message.len;
	return 0;
}

static const struct grpc_method *method(const char *name)
{
	const struct grpc_method *m = plugin_methods();

	while (!strstr(m->path, name))
		m++;
	return m;
}

/* An Allocate for u1 and u2. */
#define TWO "\x0a\x08\x0a\x02u1\x0a\x02u2"

/* The answer's length when nothing fails. */
static size_t learned[3];
static bool learning;

static void call(struct plugin *p, const char *name, struct slice request, size_t at)
{
	struct err err = {0};
	struct buf reply;
	enum grpc_status status;

	buf_init(&reply, GRPC_MESSAGE_MAX);
	status = method(name)->call(p, request, &reply, &err);
	if (status != GRPC_OK) {
		assert_true(oom_failed());
		assert_int_equal(status, GRPC_RESOURCE_EXHAUSTED);
		assert_true(err.msg[0] != '\0');
	} else {
		if (learning)
			learned[at] = reply.len;
		assert_int_equal(reply.len, learned[at]);
	}
	buf_release(&reply);
}

/* False: there is no plugin for want of memory. */
static bool work(void)
{
	static const char *const envs[] = {"A=b"}, *const mounts[] = {"/a:/b"};
	static const struct plugin_gives gives = {envs, 1, mounts, 1};
	static const struct log quiet = {.fd = -1};
	struct grpc_stream streams[6] = {{0}};
	struct plugin *p = NULL;
	struct err err = {0};
	size_t open = 0;
	int rc = plugin_new("/x", 0, &gives, &quiet, &p, &err);

	if (rc != 0) {
		assert_int_equal(rc, ERR_NOMEM);
		return false;
	}
	for (size_t i = 0; i < 6; i++) {
		enum grpc_status status =
			method("ListAndWatch")->open(p, &streams[open], SLICE(""), &err);

		assert_true(
			status == GRPC_OK || (oom_failed() && status == GRPC_RESOURCE_EXHAUSTED));
		open += status == GRPC_OK;
	}
	assert_int_equal(plugin_facts(p).streams, open);
	call(p, "/Allocate", SLICE(TWO), 0);
	call(p, "/GetInfo", SLICE(""), 1);
	call(p, "/PreStartContainer", SLICE("\x0a\x02u1"), 2);
	rc = plugin_pool(p, true, 500, &err);
	assert_true(rc == 0 || (oom_failed() && rc == ERR_NOMEM));
	/* What could not be shown is shown by the next call. */
	(void)oom_end();
	assert_int_equal(plugin_pool(p, true, 500, &err), 0);
	for (size_t i = 0; i < open; i++)
		assert_true(streams[i].len > 5000 * 15);
	plugin_free(p);
	return true;
}

TEST(test_plugin)
{
	bool made = false;

	learning = true;
	assert_true(work());
	learning = false;
	assert_true(learned[0] && learned[1]);
	for (enum oom_extent extent = OOM_ONE; extent <= OOM_ALL_AFTER; extent++) {
		for (long n = 0; n < 10000; n++) {
			oom_begin(n, extent);
			made |= work();
			if (!oom_end())
				break;
		}
		assert_true(made);
		assert_false(oom_failed());
	}
}

#define ROWS "{\"cells\":[\"a\",1]},{\"cells\":[\"b\",2]},{\"cells\":[\"c\",3]}"

TEST(test_count)
{
	static const char text[] = "{\"kind\":\"Table\",\"columnDefinitions\":[{\"name\":\"Name\"},"
				   "{\"name\":\"Fit\"}],\"rows\":[" ROWS "]}";
	struct json j = {0};
	char *copy = NULL;
	struct err err;

	assert_int_equal(json_read_copy(&j, text, sizeof(text) - 1, 100, &copy, &err), 0);
	for (long n = 0; n < 100; n++) {
		struct gpu_count c = {0};
		int rc;

		oom_begin(n, OOM_ONE);
		rc = gpu_count_table(&c, &j, json_root(&j), false, &err);
		assert_int_equal(rc, oom_end() ? ERR_NOMEM : 0);
		assert_int_equal(gpu_count_table(&c, &j, json_root(&j), false, &err), 0);
		assert_int_equal(c.fit, 6);
		gpu_count_release(&c);
	}
	json_release(&j);
	free(copy);
}

TESTS(test_plugin, test_count)
