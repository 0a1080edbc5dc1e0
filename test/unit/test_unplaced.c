/* SPDX-License-Identifier: Apache-2.0 */
/* test: pods that find no node, who would make another, and what their Job makes of an eviction. */
#include "webhook/core/pod/unplaced.h"

#include <string.h>

#include "test/unit/core_fixture.h"
#include "test/unit/test.h"

#define SAYS(status, reason)                                                                       \
	"{'type':'PodScheduled','status':'" status "','reason':'" reason                           \
	"','message':'0/3 nodes are available'}"
#define POD(meta, spec, phase, conditions)                                                         \
	"{'metadata':{'name':'p'" meta "},'spec':{" spec "},'status':{'phase':'" phase             \
	"','conditions':[" conditions "]}}"
#define NO_NODE SAYS("False", "Unschedulable")
#define OWNED(api, kind, more)                                                                     \
	",'ownerReferences':[{'apiVersion':'x/v1','kind':'X','name':'x','uid':'x1'},{"             \
	"'apiVersion':'" api "','kind':'" kind "','name':'o','uid':'o1'" more "}]"
#define BY(api, kind) POD(OWNED(api, kind, ",'controller':true"), "", "Pending", NO_NODE)

/* Reads both; the caller releases. */
struct doc {
	char *copy;
	struct json json;
};

static const struct json_node *doc_read(struct doc *d, const char *text)
{
	char *quotes = fixture_quotes(text);

	json_init(&d->json);
	assert_int_equal(
		json_read_copy(&d->json, quotes, strlen(quotes), 10000, &d->copy, NULL), 0);
	free(quotes);
	return json_root(&d->json);
}

static void doc_release(struct doc *d)
{
	json_release(&d->json);
	free(d->copy);
}

static const struct {
	const char *what, *pod;
	bool unplaced;
	enum unplaced_owner owner;
} rows[] = {
	{"bare", POD("", "", "Pending", NO_NODE), true, OWNER_NONE},
	{"other conditions before it",
		POD("", "", "Pending", "{'type':'poolgate.io/Admitted','status':'True'}," NO_NODE),
		true, OWNER_NONE},
	{"an empty node is none", POD("", "'nodeName':''", "Pending", NO_NODE), true, OWNER_NONE},
	{"it has a node", POD("", "'nodeName':'n'", "Pending", NO_NODE), false, OWNER_NONE},
	{"it has found one", POD("", "", "Pending", SAYS("True", "")), false, OWNER_NONE},
	{"it stands behind a gate", POD("", "", "Pending", SAYS("False", "SchedulingGated")), false,
		OWNER_NONE},
	{"the scheduler has failed", POD("", "", "Pending", SAYS("False", "SchedulerError")), false,
		OWNER_NONE},
	{"nobody has looked for one", POD("", "", "Pending", ""), false, OWNER_NONE},
	{"it has ended", POD("", "", "Failed", NO_NODE), false, OWNER_NONE},
	{"it is being deleted",
		POD(",'deletionTimestamp':'2026-11-21T09:30:00Z'", "", "Pending", NO_NODE), false,
		OWNER_NONE},
	{"nothing", "{}", false, OWNER_NONE},
	{"no object", "[]", false, OWNER_NONE},
	{"a Deployment's", BY("apps/v1", "ReplicaSet"), true, OWNER_REPLACES},
	{"a StatefulSet's", BY("apps/v1", "StatefulSet"), true, OWNER_REPLACES},
	{"an old controller's", BY("v1", "ReplicationController"), true, OWNER_REPLACES},
	{"a Job's", BY("batch/v1", "Job"), true, OWNER_JOB},
	{"a Job of somebody else's", BY("batch.volcano.sh/v1alpha1", "Job"), true, OWNER_OTHER},
	{"a DaemonSet's: another would find no node either", BY("apps/v1", "DaemonSet"), true,
		OWNER_OTHER},
	{"an owner that controls nothing",
		POD(OWNED("apps/v1", "ReplicaSet", ""), "", "Pending", NO_NODE), true, OWNER_NONE},
};

TEST(who_finds_no_node)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct doc d;
		struct unplaced u;
		struct arena a;
		const struct json_node *pod = doc_read(&d, rows[i].pod);

		arena_init(&a, 4096);
		if (unplaced_read(&d.json, pod, &a, &u) != rows[i].unplaced)
			fail_msg("%s: unplaced", rows[i].what);
		if (rows[i].unplaced && u.owner != rows[i].owner)
			fail_msg("%s: owner %d", rows[i].what, (int)u.owner);
		if (rows[i].unplaced && !slice_is(u.message, "0/3 nodes are available"))
			fail_msg("%s: message", rows[i].what);
		if (rows[i].unplaced && u.owner != OWNER_NONE &&
			!(slice_is(u.owner_name, "o") && slice_is(u.owner_uid, "o1")))
			fail_msg("%s: name", rows[i].what);
		arena_release(&a);
		doc_release(&d);
	}
}

#define JOB(rules) "{'spec':{'podFailurePolicy':{'rules':[" rules "]}}}"
#define RULE(action, patterns) "{'action':'" action "','onPodConditions':[" patterns "]}"
#define ON(type) "{'type':'" type "'}"
#define CODES(action) "{'action':'" action "','onExitCodes':{'operator':'NotIn','values':[0]}}"
#define IGNORED RULE("Ignore", ON("DisruptionTarget"))

static const struct {
	const char *what, *job;
	bool ignores;
} jobs[] = {
	{"it says so", JOB(IGNORED), true},
	{"with the status in words",
		JOB(RULE("Ignore", "{'type':'DisruptionTarget','status':'True'}")), true},
	{"behind rules that do not match", JOB(CODES("FailJob") "," IGNORED), true},
	{"among others", JOB(RULE("Ignore", ON("ConfigIssue") "," ON("DisruptionTarget"))), true},
	{"no policy", "{'spec':{}}", false},
	{"no rules", JOB(""), false},
	{"it counts", JOB(RULE("Count", ON("DisruptionTarget"))), false},
	{"it fails the Job", JOB(RULE("FailJob", ON("DisruptionTarget"))), false},
	{"the first one that matches decides",
		JOB(RULE("FailJob", ON("DisruptionTarget")) "," IGNORED), false},
	{"the other way about", JOB(IGNORED "," RULE("FailJob", ON("DisruptionTarget"))), true},
	{"another condition of the pod matches before it",
		JOB(RULE("FailJob", "{'type':'PodScheduled','status':'False'}") "," IGNORED),
		false},
	{"that condition with another status", JOB(RULE("FailJob", ON("PodScheduled")) "," IGNORED),
		true},
	{"a target that is none",
		JOB(RULE("Ignore", "{'type':'DisruptionTarget','status':'False'}")), false},
	{"exit codes alone", JOB(CODES("Ignore")), false},
	{"a pattern without a type", JOB(RULE("Ignore", "{}")), false},
	{"words that are none", JOB("1,{'onPodConditions':[1,{'type':2}]}"), false},
	{"nothing", "{}", false},
};

TEST(what_a_job_makes_of_it)
{
	struct doc p;
	const struct json_node *pod = doc_read(&p, BY("batch/v1", "Job"));

	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		struct doc d;
		struct arena a;
		const struct json_node *job = doc_read(&d, jobs[i].job);

		arena_init(&a, 4096);
		if (unplaced_job_ignores(&d.json, job, &p.json, pod, &a) != jobs[i].ignores)
			fail_msg("%s", jobs[i].what);
		arena_release(&a);
		doc_release(&d);
	}
	doc_release(&p);
}

TESTS(who_finds_no_node, what_a_job_makes_of_it)
