/* SPDX-License-Identifier: Apache-2.0 */
/* test: the sums of a pool, as a GPUPool shows them. */
#include "test/unit/pool_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/pool/pool_status.h"

static char *text_of(const char *pool, const char *since)
{
	struct pool_status s;
	struct pool_view v;
	struct pool p;
	struct buf out;
	struct err err;
	char *text;

	pool_init(&p, pool);
	v = (struct pool_view){.inventory = p.inv, .usage = p.use};
	assert_int_equal(pool_status_of(&v, &p.arena, &s, &err), 0);
	assert_null(s.since);
	s.since = since;
	buf_init(&out, 1 << 20);
	pool_status_write(&s, &out);
	assert_false(out.failed);
	text = strdup(out.data);
	buf_release(&out);
	pool_release(&p);
	return text;
}

TEST(nothing)
{
	char *text = text_of("", NULL);

	assert_string_equal(text, "{\"servers\":0,\"ready\":0,\"gpus\":0,\"fit\":0,\"idle\":0,"
				  "\"memory\":0,\"free\":0,"
				  "\"largest\":0,\"models\":[]}");
	free(text);
}

/* Unfit, stale, missing and drained GPUs are there but take nothing, one that is promised twice has
 * no room; models stand in order. */
TEST(sums_and_models)
{
	char *text = text_of("a v100:16000/4000 v100:16000 k80:11000/12000 k80:11000u; "
			     "b drain v100:16000; c v100:16000s k80:11000m; d",
		"2026-11-21T09:30:00Z");

	assert_string_equal(text,
		"{\"servers\":4,\"ready\":1,\"gpus\":7,\"fit\":3,\"idle\":1,\"memory\":97000,"
		"\"free\":28000,\"largest\":16000,\"models\":["
		"{\"model\":\"k80\",\"gpus\":3,\"fit\":1,\"idle\":0,\"memory\":33000,\"free\":0,"
		"\"largest\":0},"
		"{\"model\":\"v100\",\"gpus\":4,\"fit\":2,\"idle\":1,\"memory\":64000,\"free\":"
		"28000,"
		"\"largest\":16000}],\"since\":\"2026-11-21T09:30:00Z\"}");
	free(text);
}

/* A GPU one byte short of its MB, beside one that is promised twice. */
TEST(bytes)
{
	struct pool_status s;
	struct pool_view v;
	struct pool p;
	struct err err;

	pool_init(&p, "a t4:100 t4:50/60");
	p.inv.servers[0].gpus[0].bytes--;
	v = (struct pool_view){.inventory = p.inv, .usage = p.use};
	assert_int_equal(pool_status_of(&v, &p.arena, &s, &err), 0);
	assert_int_equal(s.all.memory, 149);
	assert_int_equal(s.all.free, 99);
	assert_int_equal(s.all.largest, 99);
	pool_release(&p);
}

/* More models than are listed stand in the sums all the same. */
TEST(many_models)
{
	char pool[8192] = "", *text;
	size_t listed = 0;

	for (int i = 0; i < 100; i++)
		(void)snprintf(pool + strlen(pool), sizeof(pool) - strlen(pool), "%ss%03d m%d:10",
			i ? "; " : "", i, i);
	text = text_of(pool, NULL);
	assert_non_null(strstr(text, "\"gpus\":100,\"fit\":100,\"idle\":100,\"memory\":1000,"));
	for (const char *at = text; (at = strstr(at, "\"model\":")) != NULL; at++)
		listed++;
	assert_int_equal(listed, POOL_MODELS_MAX);
	free(text);
}

TEST(no_memory)
{
	struct pool_view v = {0};
	struct pool_status s;
	struct err err = {0};
	struct arena a;

	arena_init(&a, 1);
	assert_int_equal(pool_status_of(&v, &a, &s, &err), ERR_NOMEM);
	assert_int_equal(err.code, ERR_NOMEM);
	arena_release(&a);
}

TESTS(nothing, sums_and_models, bytes, many_models, no_memory)
