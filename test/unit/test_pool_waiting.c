/* SPDX-License-Identifier: Apache-2.0 */
/* test: who waits, as JSON. */
#include "test/unit/test.h"
#include "webhook/edge/pool/pool_waiting.h"

TEST(a_list)
{
	struct buf out;

	buf_init(&out, 1 << 16);
	pool_waiting_begin(&out, true);
	pool_waiting_add(&out, &(struct pool_waiting){.namespace = SLICE("lab"),
				       .name = SLICE("a\"}"),
				       .gang = SLICE("g"),
				       .asks = SLICE("1 GPU with 50 %"),
				       .why = SLICE("no \"room\"\n"),
				       .since_ms = 1717754400123,
				       .place = 7});
	pool_waiting_add(
		&out, &(struct pool_waiting){.namespace = SLICE("lab"), .name = SLICE("b")});
	pool_waiting_end(&out, 12, true);
	assert_string_equal(out.data,
		"{\"ordered\":true,\"pods\":["
		"{\"namespace\":\"lab\",\"name\":\"a\\\"}\",\"gang\":\"g\",\"asks\":\"1 GPU with "
		"50 "
		"%\",\"since\":\"2024-06-07T10:00:00Z\",\"place\":7,\"why\":\"no "
		"\\\"room\\\"\\n\"},"
		"{\"namespace\":\"lab\",\"name\":\"b\",\"gang\":\"\",\"asks\":\"\",\"since\":"
		"\"1970-01-01T00:00:00Z\",\"place\":0,\"why\":\"\"}],\"total\":12,\"more\":true}");
	buf_release(&out);
}

/* A sentence that somebody else has written is as long as ours, and whole characters. */
TEST(a_long_sentence)
{
	char text[3 * POOL_WAITING_WHY];

	for (size_t i = 0; i < sizeof(text); i += 3)
		memcpy(text + i, "\xe2\x82\xac", 3);
	assert_int_equal(pool_waiting_why((struct slice){text, sizeof(text)}).len, 900);
	assert_int_equal(pool_waiting_why((struct slice){text + 2, sizeof(text) - 2}).len, 0);
	assert_int_equal(pool_waiting_why((struct slice){text, 900}).len, 900);
	assert_int_equal(pool_waiting_why((struct slice){0}).len, 0);
	text[2] = 'a';
	assert_int_equal(pool_waiting_why((struct slice){text + 2, sizeof(text) - 2}).len, 898);
}

TEST(what_is_asked)
{
	struct demand_container many[100];
	struct arena a;
	struct slice s;

	arena_init(&a, 1 << 16);
	many[0] = (struct demand_container){.amount = 2, .percent = 50};
	many[1] = (struct demand_container){.amount = 0};
	many[2] = (struct demand_container){.amount = 1, .memory_mb = 8000};
	s = pool_waiting_asks(&(struct demand){.containers = many, .n_containers = 3}, &a);
	assert_true(slice_is(s, "2 GPUs with 50 % each, 1 GPU with 8000 MB"));
	for (size_t i = 0; i < COUNT(many); i++)
		many[i] = many[0];
	s = pool_waiting_asks(
		&(struct demand){.containers = many, .n_containers = COUNT(many)}, &a);
	assert_true(s.len > 300 && s.len < 400 && memcmp(s.at + s.len - 3, "...", 3) == 0);
	arena_release(&a);
}

TESTS(a_list, a_long_sentence, what_is_asked)
