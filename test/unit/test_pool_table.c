/* SPDX-License-Identifier: Apache-2.0 */
/* test: the pool's tables, with names that want to do something to a terminal. */
#include "test/unit/test.h"
#include "webhook/cli/pool.h"

static const char pool[] =
	"{\"servers\":["
	"{\"name\":\"gpu-01\",\"address\":\"10.0.0.1:1\",\"drain\":false,\"gpus\":["
	"{\"id\":\"gpu-0\",\"model\":\"T4\",\"bytes\":8000000000,\"freeBytes\":999999,\"fit\":true,"
	"\"fresh\":true,\"missing\":false,\"why\":\"\"},"
	"{\"id\":\"gpu-1\",\"model\":\"Gr\xc3\xbc\xc3\x9f\",\"bytes\":8000000,\"freeBytes\":"
	"1000000,\"fit\":false,\"fresh\":true,\"missing\":false,\"why\":\"ECC \\u001b[31m\"}]},"
	"{\"name\":\"b\",\"address\":\"h:2\",\"drain\":true,\"gpus\":[{\"id\":\"g\",\"fit\":true,"
	"\"fresh\":true}]},"
	"{\"name\":\"c\",\"address\":\"h:3\",\"gpus\":[]},"
	"{\"name\":\"d\",\"address\":\"h:4\",\"gpus\":[{\"id\":\"g\",\"model\":\"m\",\"bytes\":1,"
	"\"freeBytes\":1.5,\"fit\":true,\"fresh\":false,\"why\":\"\"},{\"id\":\"g2\",\"model\":"
	"\"m\",\"missing\":true,\"why\":\"\"}]}],"
	"\"claims\":[{\"namespace\":\"lab\",\"name\":\"a\\nb\\u202e\",\"uid\":\"u-1\",\"state\":"
	"\"pending\",\"since\":\"2024-06-07T10:00:00Z\",\"parts\":["
	"{\"server\":\"gpu-01\",\"gpu\":\"gpu-0\",\"bytes\":7999000000},{\"server\":\"b\",\"gpu\":"
	"\"g\",\"bytes\":1000000}]}],"
	"\"summary\":{\"gpus\":5,\"fit\":1,\"freeBytes\":999999,\"claims\":1}}";

static const char want[] =
	"SERVER  ADDRESS     GPU    MODEL  FREE MB  OF MB  STATE\n"
	"gpu-01  10.0.0.1:1  gpu-0  T4           0   8000  ok\n"
	"gpu-01  10.0.0.1:1  gpu-1  Gr\xc3\xbc\xc3\x9f         1      8  unfit: ECC \\u001b[31m\n"
	"b       h:2         g      ?            ?      ?  draining\n"
	"c       h:3         -      -            -      -  no GPUs\n"
	"d       h:4         g      m            ?      0  stale\n"
	"d       h:4         g2     m            ?      ?  missing\n"
	"\n"
	"POD                 GPU             MB  STATE    SINCE                 UID\n"
	"lab/a\\u000ab\\u202e  gpu-01/gpu-0  7999  pending  2024-06-07T10:00:00Z  u-1\n"
	"lab/a\\u000ab\\u202e  b/g              1  pending  2024-06-07T10:00:00Z  u-1\n"
	"\n"
	"5 GPUs, 1 can take pods, 0 MB free, 1 claim\n";

TEST(test_table)
{
	struct buf out;
	struct err e = {0};

	buf_init(&out, 1u << 16);
	assert_int_equal(pool_table_write(SLICE(pool), &out, &e), 0);
	assert_string_equal(out.data, want);
	buf_release(&out);
}

#define SOME "{\"servers\":[],\"claims\":[],\"summary\":{},\"waiting\":"
#define WAITS(place, name, why)                                                                    \
	"{\"namespace\":\"lab\",\"name\":\"" name                                                  \
	"\",\"gang\":\"\",\"asks\":\"1 GPU with 50 %\",\"since\":\"2024-06-07T10:00:00Z\","        \
	"\"place\":" place ",\"why\":\"" why "\"}"

/* Who waits stands behind who holds; a replica that cannot tell says so. */
TEST(test_who_waits)
{
	static const struct {
		const char *json, *want;
	} cases[] = {
		{SOME "{\"ordered\":true,\"pods\":[" WAITS("1", "a\\u202e", "no room") "," WAITS(
			 "0", "b", "") "],\"total\":2,\"more\":false}}",
			"\nPLACE  WAITS        GANG  SINCE                 ASKS             WHY\n"
			"    1  lab/a\\u202e        2024-06-07T10:00:00Z  1 GPU with 50 %  no "
			"room\n"
			"    -  lab/b              2024-06-07T10:00:00Z  1 GPU with 50 %  \n"
			"\n0 GPUs, 0 can take pods, ? MB free, 0 claims, 2 pods waiting\n"},
		{SOME "{\"ordered\":false,\"pods\":[" WAITS(
			 "0", "b", "") "],\"total\":256,\"more\":true}}",
			", 0 claims, more than 256 pods waiting\n"},
		{SOME "{\"ordered\":true,\"pods\":[],\"total\":0,\"more\":false}}", ", 0 claims\n"},
		{SOME "null}", ", 0 claims; who waits is not known to this replica now\n"},
		{SOME "[7]}", ", 0 claims\n"},
		{SOME "{\"pods\":[8,{}]}}",
			"    -  ?/?    ?     ?      ?     ?\n"
			"\n0 GPUs, 0 can take pods, ? MB free, 0 claims, 0 pods waiting\n"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct buf out;
		struct err e = {0};
		size_t len = strlen(cases[i].want);

		buf_init(&out, 1u << 16);
		assert_int_equal(pool_table_write(slice_of(cases[i].json), &out, &e), 0);
		if (out.len < len || strcmp(out.data + out.len - len, cases[i].want) != 0)
			fail_msg("case %zu: %s", i, out.data);
		buf_release(&out);
	}
}

TEST(test_refused)
{
	static const struct {
		const char *json;
		int want;
	} cases[] = {
		{"", ERR_SYNTAX},
		{"<html>", ERR_SYNTAX},
		{"{} x", ERR_SYNTAX},
		{"{}", ERR_INVALID},
		{"[]", ERR_INVALID},
		{"{\"servers\":[],\"claims\":{}}", ERR_INVALID},
		{"{\"servers\":[],\"claims\":[]}", 0},
		{"{\"servers\":[1,null,{}],\"claims\":[7,{\"parts\":[0]}],\"summary\":3}", 0},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct buf out;
		struct err e = {0};

		buf_init(&out, 1u << 16);
		assert_int_equal(
			pool_table_write(slice_of(cases[i].json), &out, &e), cases[i].want);
		buf_release(&out);
	}
}

TESTS(test_table, test_who_waits, test_refused)
