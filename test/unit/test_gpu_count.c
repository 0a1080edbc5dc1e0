/* SPDX-License-Identifier: Apache-2.0 */
/* test: GPUs counted from tables, as the API server sends them. */
#include "base/buf.h"
#include "deviceplugin/gpu_count.h"
#include "test/unit/test.h"

#define COLUMNS                                                                                    \
	"'columnDefinitions':[{'name':'Name'},{'name':'GPUs'},{'name':'Fit'},{'name':'Age'}],"
#define TABLE(columns, rows) "{'kind':'Table'," columns "'rows':[" rows "]}"
#define ROW(name, fit) "{'cells':['" name "',9," fit ",'5d'],'object':null}"

/* Single quotes stand for double ones. */
static int take(struct gpu_count *c, const char *text, bool gone, struct err *err)
{
	char *quoted = fixture_quotes(text), *copy = NULL;
	struct json j = {0};
	int rc;

	assert_int_equal(json_read_copy(&j, quoted, strlen(quoted), 1000000, &copy, err), 0);
	rc = gpu_count_table(c, &j, json_root(&j), gone, err);
	json_release(&j);
	free(copy);
	free(quoted);
	return rc;
}

TEST(test_servers_come_and_go)
{
	struct gpu_count c = {0};
	struct err e;

	assert_int_equal(
		take(&c, TABLE(COLUMNS, ROW("b", "2") "," ROW("a", "1") "," ROW("ba", "3")), false,
			&e),
		0);
	assert_int_equal(c.n, 3);
	assert_int_equal(c.fit, 6);
	assert_string_equal(c.server[0].name, "a");
	assert_string_equal(c.server[2].name, "ba");
	/* Events have no columns, but for the first. */
	assert_int_equal(take(&c, TABLE("'columnDefinitions':null,", ROW("b", "0")), false, &e), 0);
	assert_int_equal(c.fit, 4);
	assert_int_equal(take(&c, TABLE("", ROW("a", "5")), true, &e), 0);
	assert_int_equal(c.fit, 3);
	assert_int_equal(c.n, 2);
	assert_int_equal(take(&c, TABLE("", ROW("nobody", "5")), true, &e), 0);
	assert_int_equal(take(&c, TABLE("", ROW("z", "5") "," ROW("z", "7")), false, &e), 0);
	assert_int_equal(c.fit, 10);
	/* Other columns, as another version of the CRD has them. */
	assert_int_equal(
		take(&c,
			"{'kind':'Table','columnDefinitions':[{'name':'Fit'},{'x':1},{'name':"
			"'Name'}],'rows':[{'cells':[1,2,'z']}]}",
			false, &e),
		0);
	assert_int_equal(c.fit, 4);
	assert_int_equal(take(&c, TABLE("", ""), false, &e), 0);
	assert_int_equal(take(&c, "{'kind':'Table','rows':null}", false, &e), 0);
	gpu_count_release(&c);
	assert_int_equal(c.n, 0);
}

TEST(test_cells_that_say_nothing)
{
	static const char *const none[] = {
		"null", "-1", "'2'", "1.5", "true", "[]", "1e300", "65537"};
	struct gpu_count c = {0};
	struct err e;
	char text[512];

	for (size_t i = 0; i < COUNT(none); i++) {
		(void)snprintf(text, sizeof(text), TABLE(COLUMNS, ROW("a", "3") "," ROW("a", "%s")),
			none[i]);
		assert_int_equal(take(&c, text, false, &e), 0);
		assert_int_equal(c.n, 1);
		assert_int_equal(c.fit, 0);
	}
	/* A row that is short. */
	assert_int_equal(take(&c, TABLE("", "{'cells':['b']}"), false, &e), 0);
	assert_int_equal(c.n, 2);
	gpu_count_release(&c);
}

TEST(test_what_is_no_table)
{
	static const struct {
		const char *text;
		int code;
	} cases[] = {
		{"{}", ERR_SYNTAX},
		{"[]", ERR_SYNTAX},
		{"null", ERR_SYNTAX},
		{"{'kind':'GPUServerList','items':[]}", ERR_SYNTAX},
		{TABLE("", ROW("a", "1")), ERR_SYNTAX},
		{TABLE("'columnDefinitions':[],", ""), ERR_SYNTAX},
		{TABLE("'columnDefinitions':{},", ""), ERR_SYNTAX},
		{TABLE("'columnDefinitions':[{'name':'Fit'}],", ""), ERR_SYNTAX},
		{TABLE("'columnDefinitions':[{'name':'Name'},{'name':'Age'}],", ROW("a", "1")),
			ERR_INVALID},
		{"{'kind':'Table'," COLUMNS "'rows':{}}", ERR_SYNTAX},
		{"{'kind':'Table'," COLUMNS "'rows':[1]}", ERR_SYNTAX},
		{"{'kind':'Table'," COLUMNS "'rows':[{'cells':[]}]}", ERR_SYNTAX},
		{"{'kind':'Table'," COLUMNS "'rows':[{'cells':['',1,2]}]}", ERR_SYNTAX},
		{"{'kind':'Table'," COLUMNS "'rows':[{'cells':[7,1,2]}]}", ERR_SYNTAX},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gpu_count c = {0};
		struct err e = {0};

		if (take(&c, cases[i].text, false, &e) != cases[i].code)
			fail_msg("%s: %s", cases[i].text, e.msg);
		gpu_count_release(&c);
	}
}

TEST(test_many)
{
	struct gpu_count c = {0};
	struct buf text;
	struct err e;

	buf_init(&text, 16 << 20);
	buf_str(&text, "{'kind':'Table'," COLUMNS "'rows':[");
	for (unsigned i = 0; i <= GPU_COUNT_SERVERS_MAX; i++)
		buf_fmt(&text, "%s{'cells':['s%05u',1,65536]}", i ? "," : "", i);
	buf_str(&text, "]}");
	assert_int_equal(take(&c, text.data, false, &e), ERR_TOOBIG);
	assert_int_equal(c.n, GPU_COUNT_SERVERS_MAX);
	assert_int_equal(c.fit, (uint64_t)GPU_COUNT_SERVERS_MAX * 65536);
	gpu_count_release(&c);
	buf_release(&text);
}

TESTS(test_servers_come_and_go, test_cells_that_say_nothing, test_what_is_no_table, test_many)
