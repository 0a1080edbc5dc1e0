/* SPDX-License-Identifier: Apache-2.0 */
/* test: a GPUPolicy is read, or it is said what is wrong with it. */
#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/policy/policy.h"

#define POLICY(spec)                                                                               \
	"{'apiVersion':'poolgate.io/v1alpha1','kind':'GPUPolicy','metadata':{'name':'research'},"  \
	"'spec':" spec "}"

struct reading {
	struct arena arena;
	struct policy p;
	struct err err;
	int rc;
};

static void reading(struct reading *r, const char *text)
{
	struct json j = {0};
	char *doubled = fixture_quotes(text), *copy;

	*r = (struct reading){0};
	arena_init(&r->arena, 1 << 20);
	assert_int_equal(json_read_copy(&j, doubled, strlen(doubled), 10000, &copy, &r->err), 0);
	r->rc = policy_read(&j, json_root(&j), &r->arena, &r->p, &r->err);
	/* nothing of what was read points into the text */
	memset(copy, 'x', strlen(copy));
	free(copy);
	free(doubled);
	json_release(&j);
}

TEST(test_what_it_says)
{
	struct reading r;

	reading(&r,
		POLICY("{'inject':true,'share':10,'defaults':{'launcher':'lupine','os':'ubuntu20',"
		       "'version':'450','whenFull':'wait','percent':25,'priority':-7},"
		       "'accepts':['nvidia.com/gpu','nvidia.com/gpucores'],'ties':'keep',"
		       "'onOutage':'local','allow':{'servers':{'team':'research','zone':'a'},"
		       "'launchers':['lupine'],'models':['T4','V100'],'gpus':4,'memory':'64G',"
		       "'waiting':0}}"));
	assert_int_equal(r.rc, 0);
	assert_string_equal(r.p.name, "research");
	assert_true(r.p.inject);
	assert_int_equal(r.p.share, 10);
	assert_string_equal(r.p.launcher, "lupine");
	assert_string_equal(r.p.os, "ubuntu20");
	assert_string_equal(r.p.version, "450");
	assert_string_equal(r.p.when_full, "wait");
	assert_int_equal(r.p.percent, 25);
	assert_int_equal(r.p.priority, -7);
	assert_int_equal(r.p.accepts, 1U << FOREIGN_GPU | 1U << FOREIGN_CORES);
	assert_true(r.p.keep_ties);
	assert_true(r.p.local_on_outage);
	assert_int_equal(r.p.n_servers, 2);
	assert_string_equal(r.p.servers[1].key, "zone");
	assert_string_equal(r.p.servers[1].value, "a");
	assert_int_equal(r.p.n_launchers, 1);
	assert_string_equal(r.p.launchers[0], "lupine");
	assert_int_equal(r.p.n_models, 2);
	assert_string_equal(r.p.models[1], "V100");
	assert_int_equal(r.p.gpus, 4);
	assert_int_equal(r.p.bytes, 64000000000);
	assert_int_equal(r.p.waiting, 0);
	arena_release(&r.arena);
}

TEST(test_what_it_does_not_say)
{
	struct reading r;

	reading(&r, POLICY("{'ties':'remove','onOutage':'refuse','later':[1]}"));
	assert_int_equal(r.rc, 0);
	assert_false(r.p.inject);
	assert_int_equal(r.p.share, 100);
	assert_null(r.p.launcher);
	assert_null(r.p.os);
	assert_null(r.p.version);
	assert_null(r.p.when_full);
	assert_int_equal(r.p.percent, 0);
	assert_int_equal(r.p.priority, 0);
	assert_int_equal(r.p.accepts, 0);
	assert_false(r.p.keep_ties);
	assert_false(r.p.local_on_outage);
	assert_int_equal(r.p.n_servers + r.p.n_launchers + r.p.n_models, 0);
	assert_int_equal(r.p.gpus, UINT32_MAX);
	assert_int_equal(r.p.waiting, UINT32_MAX);
	assert_true(r.p.bytes == UINT64_MAX);
	arena_release(&r.arena);
}

TEST(test_wrong)
{
	static const struct {
		const char *spec, *path, *msg;
	} cases[] = {
		{"[]", "/spec", "an object"},
		{"{'inject':'yes'}", "/spec/inject", "\"yes\""},
		{"{'share':101}", "/spec/share", "101"},
		{"{'share':-1}", "/spec/share", "from 0 to 100"},
		{"{'share':'10'}", "/spec/share", "from 0 to 100"},
		{"{'defaults':{'percent':0}}", "/spec/defaults/percent", "from 1 to 100"},
		{"{'defaults':{'priority':1000000001}}", "/spec/defaults/priority",
			"to 1000000000"},
		{"{'defaults':{'priority':'high'}}", "/spec/defaults/priority", "a priority"},
		{"{'defaults':{'whenFull':'queue'}}", "/spec/defaults/whenFull",
			"\"wait\" or \"refuse\""},
		{"{'defaults':{'launcher':''}}", "/spec/defaults/launcher", "launcher profile"},
		{"{'accepts':'nvidia.com/gpu'}", "/spec/accepts", "a list of"},
		{"{'accepts':['amd.com/gpu']}", "/spec/accepts", "amd.com/gpu"},
		{"{'ties':'drop'}", "/spec/ties", "\"remove\" or \"keep\""},
		{"{'onOutage':true}", "/spec/onOutage", "\"refuse\" or \"local\""},
		{"{'allow':{'servers':{}}}", "/spec/allow/servers", "1 to 64 labels"},
		{"{'allow':{'servers':{'a':1}}}", "/spec/allow/servers", "strings"},
		{"{'allow':{'launchers':[]}}", "/spec/allow/launchers", "1 to 64"},
		{"{'allow':{'models':[1]}}", "/spec/allow/models", ""},
		{"{'allow':{'gpus':-1}}", "/spec/allow/gpus", "from 0"},
		{"{'allow':{'gpus':1.5}}", "/spec/allow/gpus", "from 0"},
		{"{'allow':{'memory':'-1'}}", "/spec/allow/memory", "a quantity"},
		{"{'allow':{'memory':'much'}}", "/spec/allow/memory", "a quantity"},
		{"{'allow':{'waiting':1000001}}", "/spec/allow/waiting", "1000000"},
	};
	char text[400];
	struct reading r;

	for (size_t i = 0; i < COUNT(cases); i++) {
		snprintf(text, sizeof(text), POLICY("%s"), cases[i].spec);
		reading(&r, text);
		assert_int_equal(r.rc, ERR_INVALID);
		assert_int_equal(strncmp(r.err.path, cases[i].path, strlen(cases[i].path)), 0);
		assert_non_null(strstr(r.err.msg, cases[i].msg));
		arena_release(&r.arena);
	}
}

/* Files are held to more than objects of an API server, which knows its own members. */
TEST(test_members_that_nobody_knows)
{
	static const char *const cases[][2] = {
		/* spec, where; NULL: nowhere */
		{"{'share':10,'defaults':{'percent':5},'allow':{'gpus':1}}", NULL},
		{"{}", NULL},
		{"{'shares':10}", "/spec"},
		{"{'defaults':{'percent':5,'percents':5}}", "/spec/defaults"},
		{"{'allow':{'gpu':1}}", "/spec/allow"},
	};
	char text[400];
	struct reading r;

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct json j = {0};
		struct arena a;
		struct err err = {0};
		char *quoted, *copy = NULL;
		int rc;

		snprintf(text, sizeof(text), POLICY("%s"), cases[i][0]);
		reading(&r, text);
		assert_int_equal(r.rc, 0);
		arena_release(&r.arena);
		quoted = fixture_quotes(text);
		arena_init(&a, 1 << 16);
		assert_int_equal(json_read_copy(&j, quoted, strlen(quoted), 1000, &copy, &err), 0);
		rc = policy_check_keys(&j, json_root(&j), &a, &err);
		assert_int_equal(rc, cases[i][1] ? ERR_INVALID : 0);
		if (cases[i][1]) {
			assert_string_equal(err.path, cases[i][1]);
			assert_non_null(strstr(err.msg, "expected members that a GPUPolicy has"));
		}
		json_release(&j);
		arena_release(&a);
		free(copy);
		free(quoted);
	}
}

/* What is just within its bounds. */
TEST(test_bounds)
{
	struct reading r;

	reading(&r, POLICY("{'share':100,'defaults':{'percent':100,'priority':1000000000},'allow':"
			   "{'waiting':1000000,'gpus':0}}"));
	assert_int_equal(r.rc, 0);
	assert_int_equal(r.p.share, 100);
	assert_int_equal(r.p.percent, 100);
	assert_int_equal(r.p.priority, 1000000000);
	assert_int_equal(r.p.waiting, 1000000);
	assert_int_equal(r.p.gpus, 0);
	arena_release(&r.arena);
	reading(&r, POLICY("{'share':0,'defaults':{'percent':1,'priority':0}}"));
	assert_int_equal(r.rc, 0);
	assert_int_equal(r.p.share, 0);
	assert_int_equal(r.p.percent, 1);
	arena_release(&r.arena);
}

/* A policy's name is a label's value, too. */
TEST(test_names)
{
	static const struct {
		const char *name;
		int rc;
	} cases[] = {
		{"a", 0},
		{"a-b.c9", 0},
		{"123456789-123456789-123456789-123456789-123456789-123456789-123", 0},
		{"123456789-123456789-123456789-123456789-123456789-123456789-1234", ERR_INVALID},
		{"", ERR_INVALID},
		{"-a", ERR_INVALID},
		{"a.", ERR_INVALID},
		{"A", ERR_INVALID},
		{"a/b", ERR_INVALID},
	};
	char text[400];
	struct reading r;

	for (size_t i = 0; i < COUNT(cases); i++) {
		snprintf(text, sizeof(text),
			"{'apiVersion':'" POLICY_API "','kind':'" POLICY_KIND
			"','metadata':{'name':'%s'},'spec':{}}",
			cases[i].name);
		reading(&r, text);
		assert_int_equal(r.rc, cases[i].rc);
		arena_release(&r.arena);
	}
}

TEST(test_no_policy)
{
	struct reading r;

	reading(&r, "{'apiVersion':'v1','kind':'GPUPolicy','metadata':{'name':'a'},'spec':{}}");
	assert_int_equal(r.rc, ERR_SYNTAX);
	arena_release(&r.arena);
	reading(&r, "{'apiVersion':'" POLICY_API "','kind':'" POLICY_KIND "','spec':{}}");
	assert_int_equal(r.rc, ERR_INVALID);
	arena_release(&r.arena);
	reading(&r,
		"{'apiVersion':'" POLICY_API "','kind':'" POLICY_KIND "','metadata':{'name':'a'}}");
	assert_int_equal(r.rc, ERR_INVALID);
	arena_release(&r.arena);
}

TESTS(test_what_it_says, test_what_it_does_not_say, test_wrong, test_members_that_nobody_knows,
	test_bounds, test_names, test_no_policy)
