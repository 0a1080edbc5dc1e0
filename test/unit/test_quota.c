/* SPDX-License-Identifier: Apache-2.0 */
/* test: what a ResourceQuota is sure to refuse, and what it may let pass. */
#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/pool/quota.h"

#define QUOTA(spec, hard, used)                                                                    \
	"{'metadata':{'name':'gpus'},'spec':{" spec "},'status':{'hard':{" hard "},'used':{" used  \
	"}}}"
#define GPU(n) "'resources':{'limits':{'bitfusion.io/gpu':'" n "'}}"
#define POD "{'spec':{'containers':[{'name':'a'," GPU("20") "},{'name':'b'," GPU("5") "}]}}"
#define CPUS                                                                                       \
	"{'spec':{'initContainers':[{'name':'i','resources':{'requests':{'cpu':'9'}}}],"           \
	"'containers':[{'name':'a','resources':{'requests':{'cpu':'250m','memory':'1Gi'},"         \
	"'limits':{'cpu':1}}},{'name':'b','resources':{'limits':{'cpu':'500m'}}},{'name':'c'},7]}" \
	"}"

static const struct row {
	const char *quota, *pod;
	const char *says; /* NULL: it lets the pod pass, as far as anybody can tell */
} rows[] = {
	{QUOTA("", "'requests.bitfusion.io/gpu':'0'", "'requests.bitfusion.io/gpu':'0'"), POD,
		"exceeded quota: gpus, requested: requests.bitfusion.io/gpu=25, used: "
		"requests.bitfusion.io/gpu=0, limited: requests.bitfusion.io/gpu=0"},
	{QUOTA("", "'requests.bitfusion.io/gpu':'50'", "'requests.bitfusion.io/gpu':'25'"), POD,
		NULL},
	{QUOTA("", "'requests.bitfusion.io/gpu':'50'", "'requests.bitfusion.io/gpu':'26'"), POD,
		"exceeded quota: gpus, requested: requests.bitfusion.io/gpu=25, used: "
		"requests.bitfusion.io/gpu=26, limited: requests.bitfusion.io/gpu=50"},
	/* its own names for what it counts; the first that does not fit is told of */
	{QUOTA("", "'services':'0','requests.cpu':'1','pods':3", "'pods':3"), POD,
		"exceeded quota: gpus, requested: pods=1, used: pods=3, limited: pods=3"},
	{QUOTA("", "'count/pods':'0'", ""), POD,
		"exceeded quota: gpus, requested: count/pods=1, used: count/pods=0, limited: "
		"count/pods=0"},
	{QUOTA("", "'cpu':'1','memory':'2Gi'", "'cpu':'250m','memory':'1Gi'"), CPUS, NULL},
	{QUOTA("", "'cpu':'1'", "'cpu':'251m'"), CPUS,
		"exceeded quota: gpus, requested: cpu=750m, used: cpu=251m, limited: cpu=1"},
	{QUOTA("", "'requests.memory':'2Gi'", "'requests.memory':'1025Mi'"), CPUS,
		"exceeded quota: gpus, requested: requests.memory=1073741824, used: "
		"requests.memory=1025Mi, limited: requests.memory=2Gi"},
	{QUOTA("", "'limits.cpu':'1'", ""), CPUS,
		"exceeded quota: gpus, requested: limits.cpu=1500m, used: limits.cpu=0, limited: "
		"limits.cpu=1"},
	/* said for the whole pod */
	{QUOTA("", "'limits.cpu':'1'", ""),
		"{'spec':{'resources':{'limits':{'cpu':'1'}},'containers':[{'name':'a','resources':"
		"{"
		"'limits':{'cpu':'9'}}}]}}",
		NULL},
	/* other pods, perhaps */
	{QUOTA("'scopes':['Terminating']", "'pods':'0'", ""), POD, NULL},
	{QUOTA("'scopeSelector':{'matchExpressions':[]}", "'pods':'0'", ""), POD, NULL},
	{QUOTA("'scopes':[]", "'pods':'0'", ""), POD,
		"exceeded quota: gpus, requested: pods=1, used: pods=0, limited: pods=0"},
	/* what nobody understands refuses nobody */
	{QUOTA("", "'pods':'many'", ""), POD, NULL},
	{QUOTA("", "'pods':'0'", "'pods':{}"), POD, NULL},
	{QUOTA("", "'pods':[]", ""), POD, NULL},
	{"{'metadata':{},'spec':{'hard':{'pods':'0'}}}", POD, NULL},
	{"7", POD, NULL},
	{QUOTA("", "'cpu':'0'", ""), "{}", NULL},
};

TEST(test_rows)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct json q = {0}, p = {0};
		char *quota = fixture_quotes(rows[i].quota), *pod = fixture_quotes(rows[i].pod);
		char *copy_q, *copy_p;
		struct err err = {0};
		struct arena a;

		arena_init(&a, 1 << 16);
		assert_int_equal(json_read_copy(&q, quota, strlen(quota), 1000, &copy_q, NULL), 0);
		assert_int_equal(json_read_copy(&p, pod, strlen(pod), 1000, &copy_p, NULL), 0);
		assert_int_equal(quota_check(&q, json_root(&q), &p, json_root(&p), &a, &err),
			rows[i].says ? ERR_REFUSED : 0);
		if (rows[i].says) {
			assert_string_equal(err.reason, "QuotaExceeded");
			assert_string_equal(err.msg, rows[i].says);
		}
		arena_release(&a);
		json_release(&q);
		json_release(&p);
		free(copy_q);
		free(copy_p);
		free(quota);
		free(pod);
	}
}

TESTS(test_rows)
