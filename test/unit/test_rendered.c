/* SPDX-License-Identifier: Apache-2.0 */
/* core/pod/rendered: what the API server and others make of an object that was injected, and what
 * is no longer ours. */
#include "test/unit/test.h"

#include "webhook/core/pod/rendered.h"

/* ours, theirs; single quotes stand for double ones */
static const struct {
	const char *ours, *theirs;
	bool there;
} cases[] = {
	{"{'name':'v','secret':{'secretName':'s'}}", "{'name':'v','secret':{'secretName':'s'}}",
		true},
	/* defaults, other order, left out */
	{"{'name':'v','secret':{'secretName':'s'}}",
		"{'name':'v','secret':{'defaultMode':420,'secretName':'s'}}", true},
	{"{'name':'v','a':1}", "{'a':1,'name':'v'}", true},
	{"{'name':'v','readOnly':false,'s':'','n':0,'l':[],'z':null}", "{'name':'v'}", true},
	{"{'a':'\\u0061b'}", "{'a':'ab','b':0}", true},
	{"{'sizeLimit':'1024Mi'}", "{'sizeLimit':'1Gi','medium':'x'}", true},
	{"{'a':'x && y > z','b':'\\n\\\\'}",
		"{'a':'x \\u0026\\u0026 y \\u003e z','b':'\\n\\\\','c':1}", true},
	{"{'a':'x && y'}", "{'a':'x \\u0026\\u003e y'}", false},
	{"{'a':'\\n'}", "{'a':'\\t'}", false},
	{"{'a':'x'}", "{'a':'x\\n'}", false},
	{"{'a':'xy&'}", "{'a':'xy\\u0026'}", true},
	/* lists of objects may have more, words not */
	{"{'m':[{'name':'a'},{'name':'b'}]}",
		"{'m':[{'name':'x'},{'name':'a','v':1},{'name':'y'},{'name':'b'}]}", true},
	{"{'m':[{'name':'a'},{'name':'b'}]}", "{'m':[{'name':'b'},{'name':'a'}]}", false},
	{"{'m':[{'name':'a'},{'name':'a'}]}", "{'m':[{'name':'a'}],'n':0}", false},
	{"{'c':['sh','-c','x']}", "{'c':['sh','-c','x'],'d':1}", true},
	{"{'c':['sh','-c','x']}", "{'c':['sh','-c','x','y']}", false},
	{"{'c':['sh','-c','x']}", "{'c':['sh','-c','z']}", false},
	{"{'c':['sh']}", "{'c':[]}", false},
	{"{'c':[]}", "{'c':['sh']}", false},
	/* something else */
	{"{'name':'v','emptyDir':{}}", "{'hostPath':{'path':'/'},'name':'v'}", false},
	{"{'image':'a'}", "{'image':'b'}", false},
	{"{'image':'a'}", "{'images':'a'}", false},
	{"{'readOnly':true}", "{'name':'v'}", false},
	{"{'readOnly':true}", "{'readOnly':false}", false},
	{"{'mode':42}", "{'mode':420}", false},
	{"{'mode':42}", "{'mode':42,'x':1}", true},
	{"{'a':{'b':1}}", "{'a':7}", false},
	{"{'a':7}", "{'a':{'b':1}}", false},
	{"{'a':[{'b':1}]}", "{'a':{'b':1}}", false},
	{"{'name':'v'}", "['v']", false},
};

TEST(test_table)
{
	for (size_t i = 0; i < COUNT(cases); i++) {
		char *ours = fixture_quotes(cases[i].ours),
		     *theirs = fixture_quotes(cases[i].theirs), *copy;
		struct json j = {0};
		struct arena a;

		arena_init(&a, 1 << 20);
		assert_int_equal(json_read_copy(&j, theirs, strlen(theirs), 1000, &copy, NULL), 0);
		if (rendered_there(slice_of(ours), &j, json_root(&j), &a) != cases[i].there)
			fail_msg("row %zu: %s in %s", i, ours, theirs);
		assert_false(rendered_there(slice_of(ours), &j, NULL, &a));
		assert_false(a.failed);
		json_release(&j);
		free(copy);
		free(ours);
		free(theirs);
		arena_release(&a);
	}
}

/* What is no object at all is nowhere, and whoever asks is told that nobody could look. */
TEST(test_what_cannot_be_read)
{
	static const char *const rows[] = {"{}{}", "{\"a\":1}{\"b\":2}", "{\"a\":1", "x"};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct json j = {0};
		struct arena a;
		char *copy;

		arena_init(&a, 1 << 20);
		assert_int_equal(json_read_copy(&j, i == 0 ? "{}" : "{\"a\":1}", i == 0 ? 2 : 7, 10,
					 &copy, NULL),
			0);
		if (rendered_there(slice_of(rows[i]), &j, json_root(&j), &a) || !a.failed)
			fail_msg("row %zu: %s", i, rows[i]);
		json_release(&j);
		free(copy);
		arena_release(&a);
	}
}

TESTS(test_table, test_what_cannot_be_read)
