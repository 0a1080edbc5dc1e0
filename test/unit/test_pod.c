/* SPDX-License-Identifier: Apache-2.0 */
/* test: what a pod says of itself: where it can run, how long it may run on, why it does not. */
#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/pod/pod.h"

static struct fixture fix;

FIXTURES(fixture_init, fixture_release)

static struct pod pod_of(const char *text)
{
	struct pod pod = {0};
	const struct json_node *root = fixture_pod(&fix, text);
	struct err err = {0};

	if (pod_read(&fix.json, root, &fix.scratch, &pod, &err) != 0)
		fail_msg("%s: %s", err.path, err.msg);
	return pod;
}

/* ---- where it can run ---- */

#define SPEC(more) "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'a'}]" more "}}"
#define AFFINITY(terms)                                                                            \
	",'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':{"          \
	"'nodeSelectorTerms':[" terms "]}}}"
#define TERM(expressions) "{'matchExpressions':[" expressions "]}"
#define WHERE(key, operator, values)                                                               \
	"{'key':'" key "','operator':'" operator"','values':[" values "]}"
#define ARCH "kubernetes.io/arch"
#define SELECTOR "spec/nodeSelector/kubernetes.io~1arch"
#define NODES "spec/affinity/nodeAffinity"

TEST(test_on_which_nodes)
{
	static const struct {
		const char *pod;
		bool amd64, arm64;
		const char *path; /* where it says no */
	} rows[] = {
		{SPEC(""), true, true, NULL},
		{SPEC(",'nodeSelector':{'a':'b'}"), true, true, NULL},
		{SPEC(",'nodeSelector':{'kubernetes.io/arch':'amd64'}"), true, false, SELECTOR},
		{SPEC(",'nodeSelector':{'kubernetes.io/arch':'s390x'}"), false, false, SELECTOR},
		{SPEC(AFFINITY("")), true, true, NULL},
		{SPEC(AFFINITY("{}")), true, true, NULL},
		{SPEC(AFFINITY(TERM(WHERE(ARCH, "In", "'amd64'")))), true, false, NODES},
		{SPEC(AFFINITY(TERM(WHERE(ARCH, "In", "'s390x','arm64'")))), false, true, NODES},
		{SPEC(AFFINITY(TERM(WHERE(ARCH, "In", "")))), false, false, NODES},
		{SPEC(AFFINITY(TERM(WHERE(ARCH, "NotIn", "'amd64'")))), false, true, NODES},
		{SPEC(AFFINITY(TERM(WHERE(ARCH, "NotIn", "'s390x'")))), true, true, NULL},
		/* what is not asked of it may say anything */
		{SPEC(AFFINITY(TERM(WHERE(ARCH, "Exists", "")))), true, true, NULL},
		{SPEC(AFFINITY(TERM(WHERE("zone", "In", "'b'")))), true, true, NULL},
		/* all expressions of a term, and one term of several */
		{SPEC(AFFINITY(TERM(WHERE("zone", "In", "'b'") "," WHERE(ARCH, "In", "'amd64'")))),
			true, false, NODES},
		{SPEC(AFFINITY(TERM(WHERE(ARCH, "In", "'amd64','arm64'") "," WHERE(
			 ARCH, "NotIn", "'arm64'")))),
			true, false, NODES},
		{SPEC(AFFINITY(TERM(WHERE(ARCH, "In", "'s390x'")) "," TERM(
			 WHERE(ARCH, "In", "'arm64'")))),
			false, true, NODES},
		{SPEC(AFFINITY(
			 TERM(WHERE(ARCH, "In", "'s390x'")) "," TERM(WHERE("zone", "In", "'b'")))),
			true, true, NULL},
		/* both must leave it */
		{SPEC(",'nodeSelector':{'kubernetes.io/arch':'arm64'}" AFFINITY(
			 TERM(WHERE(ARCH, "In", "'amd64'")))),
			false, false, NULL},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct pod pod = pod_of(rows[i].pod);
		const char *path = "";

		if (pod_allows_arch(&pod, SLICE("amd64"), &path) != rows[i].amd64 ||
			(!rows[i].amd64 && rows[i].path && strcmp(path, rows[i].path) != 0))
			fail_msg("row %zu: amd64, %s", i, path);
		if (pod_allows_arch(&pod, SLICE("arm64"), &path) != rows[i].arm64 ||
			(!rows[i].arm64 && rows[i].path && strcmp(path, rows[i].path) != 0))
			fail_msg("row %zu: arm64, %s", i, path);
	}
}

TEST(test_windows)
{
	static const struct {
		const char *pod, *path; /* NULL: it does not run there */
	} rows[] = {
		{SPEC(""), NULL},
		{SPEC(",'os':{'name':'linux'}"), NULL},
		{SPEC(",'os':{'name':'windows'}"), "spec/os"},
		{SPEC(",'nodeSelector':{'kubernetes.io/os':'linux'}"), NULL},
		{SPEC(",'nodeSelector':{'kubernetes.io/os':'windows'}"),
			"spec/nodeSelector/kubernetes.io~1os"},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct pod pod = pod_of(rows[i].pod);
		const char *path = "";

		assert_int_equal(pod_is_windows(&pod, &path), rows[i].path != NULL);
		if (rows[i].path)
			assert_string_equal(path, rows[i].path);
	}
}

TEST(test_whom_nobody_touches)
{
	struct pod pod = pod_of(SPEC(""));

	assert_true(pod_is_exempt(&pod, SLICE("kube-system")));
	assert_true(pod_is_exempt(&pod, SLICE("kube-public")));
	assert_false(pod_is_exempt(&pod, SLICE("ml")));
	pod = pod_of("{'metadata':{'annotations':{'kubernetes.io/config.mirror':'x'}},'spec':{"
		     "'containers':[{'name':'a'}]}}");
	assert_true(pod_is_exempt(&pod, SLICE("ml")));
	assert_null(pod_container(&pod, SLICE("b")));
	assert_ptr_equal(pod_container(&pod, SLICE("a")), &pod.containers[0]);
}

/* ---- how long it runs on ---- */

TEST(test_seconds)
{
	static const struct {
		const char *value;
		uint32_t grace, deleted;
	} rows[] = {
		{"7", 7, 7},
		{"1", 1, 1},
		{"0", 1, 0},
		{"-5", 1, 0},
		{"2147483647", INT32_MAX, INT32_MAX},
		{"2147483648", INT32_MAX, INT32_MAX},
		{"1.5", POD_GRACE_S, 0},
		{"'7'", POD_GRACE_S, 0},
		{"null", POD_GRACE_S, 0},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		char text[256];
		const struct json_node *root;

		(void)snprintf(text, sizeof(text),
			"{'metadata':{'deletionGracePeriodSeconds':%s},'spec':{"
			"'terminationGracePeriodSeconds':%s}}",
			rows[i].value, rows[i].value);
		root = fixture_pod(&fix, text);
		assert_int_equal(pod_grace(&fix.json, root), rows[i].grace);
		assert_int_equal(pod_delete_grace(&fix.json, root), rows[i].deleted);
	}
}

/* ---- why it does not run ---- */

#define PENDING(more) "{'status':{'phase':'Pending'" more "}}"
#define WAITS(reason) "{'name':'a','state':{'waiting':{'reason':" reason "}}}"
#define SCHEDULED(status, reason)                                                                  \
	",'conditions':[{'type':'Ready','status':'False','reason':'NotThis'},{'type':"             \
	"'PodScheduled','status':'" status "','reason':" reason "}]"

TEST(test_why_it_waits)
{
	static const char *const rows[][2] = {
		{"{}", ""},
		{"{'status':{'phase':'Running'" SCHEDULED("False", "'Unschedulable'") "}}", ""},
		{PENDING(""), "Pending"},
		{PENDING(",'containerStatuses':[" WAITS("'ImagePullBackOff'") "]"),
			"ImagePullBackOff"},
		{PENDING(",'initContainerStatuses':[" WAITS(
			 "'ErrImagePull'") "],"
					   "'containerStatuses':["
					   "" WAITS("'Other'") "]"),
			"ErrImagePull"},
		/* as any does for a while */
		{PENDING(",'containerStatuses':[" WAITS("'ContainerCreating'") "]"), "Pending"},
		{PENDING(",'containerStatuses':[" WAITS("'PodInitializing'") "," WAITS(
			 "'CrashLoopBackOff'") "]"),
			"CrashLoopBackOff"},
		{PENDING(SCHEDULED("False", "'Unschedulable'")), "Unschedulable"},
		{PENDING(SCHEDULED("True", "'Unschedulable'")), "Pending"},
		{PENDING(",'containerStatuses':[" WAITS("'Image'") "]" SCHEDULED(
			 "False", "'Unschedulable'")),
			"Image"},
		/* what is no word says nothing; a long one is cut */
		{PENDING(",'containerStatuses':[" WAITS("'No way'") "]"), "Pending"},
		{PENDING(",'containerStatuses':[" WAITS("'E2BIG'") "]"), "Pending"},
		{PENDING(",'containerStatuses':[" WAITS("''") "]"), "Pending"},
		{PENDING(",'containerStatuses':[" WAITS("7") "]"), "Pending"},
		{PENDING(",'containerStatuses':[" WAITS("'azAZ'") "]"), "azAZ"},
		{PENDING(",'containerStatuses':[" WAITS(
			 "'abcdefghijklmnopqrstuvwxyzabcdefgh'") "]"),
			"abcdefghijklmnopqrstuvwxyzabcde"},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		char why[POD_WHY_SIZE];
		const struct json_node *root = fixture_pod(&fix, rows[i][0]);

		pod_waits(&fix.json, root, why);
		if (strcmp(why, rows[i][1]) != 0)
			fail_msg("row %zu: \"%s\", expected \"%s\"", i, why, rows[i][1]);
	}
}

TEST(test_its_addresses)
{
#define IPS(more) "{'spec':{},'status':{" more "}}"
	static const char *const rows[][2] = {
		{IPS(""), ""},
		{"{'spec':{}}", ""},
		{IPS("'podIP':'10.1.2.3','podIPs':[{'ip':'10.1.2.3'}]"), "10.1.2.3"},
		{IPS("'podIP':'fd00::3','podIPs':[{'ip':'fd00::3'},{'ip':'10.1.2.3'}]"),
			"fd00::3,10.1.2.3"},
		{IPS("'podIP':'10.1.2.3'"), "10.1.2.3"},
		{IPS("'podIP':'10.1.2.3','podIPs':[]"), "10.1.2.3"},
		/* nobody writes these but who should not */
		{IPS("'podIPs':[{'ip':'a,b'},{'ip':7},{},7,{'ip':'::1'},{'ip':'::2'},{'ip':'::3'}"
		     "]"),
			"::1,::2"},
		{IPS("'podIPs':'10.1.2.3','podIP':'10.1.2.3 '"), ""},
		{"{'spec':{'hostNetwork':true},'status':{'podIP':'10.1.2.3','podIPs':[{'ip':"
		 "'10.1.2.3'}]}}",
			""},
		{"{'spec':{'hostNetwork':false},'status':{'podIP':'10.1.2.3'}}", "10.1.2.3"},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		char ips[POD_IPS_SIZE];
		const struct json_node *root = fixture_pod(&fix, rows[i][0]);

		pod_ips(&fix.json, root, ips);
		if (strcmp(ips, rows[i][1]) != 0)
			fail_msg("row %zu: \"%s\", expected \"%s\"", i, ips, rows[i][1]);
	}
}

TESTS_BETWEEN(set_up, tear_down, test_on_which_nodes, test_windows, test_whom_nobody_touches,
	test_seconds, test_why_it_waits, test_its_addresses)
