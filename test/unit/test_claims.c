/* SPDX-License-Identifier: Apache-2.0 */
/* test: claims are bound and ended by what their pods do (ledger rules R1, R5, R6). */
#include "base/clock.h"
#include "base/rfc3339.h"
#include "test/unit/claims_api.h"
#include "test/unit/test.h"

static void with(const char *claims_status)
{
	pool_api_put(api->pool, "a", OURS, SPEC, claims_status);
}

#define PENDING "'state':'pending'"
#define BOUND "'state':'bound'"

/* Not before its time, then by a 404 alone. */
TEST(r5_a_pending_claim_ends_after_its_time)
{
	with(STATUS(CLAIM("u1", "w", "pending")));
	claims_api_run(api);
	assert_true(status_keeps(api, "a", "'u1'", PENDING_MS - 200));
	assert_int_equal(pod_asked(api, "w"), 0);
	assert_true(status_has_not(api, "a", "'u1'", SOON));
	assert_int_equal(pod_asked(api, "w"), 1);
}

/* Without an answer nothing ends. */
TEST(r5_no_answer_is_no_404)
{
	with(STATUS(CLAIM("u1", "w", "pending")));
	pods_get_status(api, 504);
	claims_api_run(api);
	assert_true(status_keeps(api, "a", "'u1'", 3 * PENDING_MS));
	assert_true(pod_asked(api, "w") > 1);
	pods_get_status(api, 404); /* of something in between: not the API server's reason word */
	assert_true(status_keeps(api, "a", "'u1'", PENDING_MS));
	pods_get_status(api, 0);
	assert_true(status_has_not(api, "a", "'u1'", SOON));
}

/* No pod has such a name, so it needs no answer, and does not keep others from being asked for. */
TEST(r5_a_name_that_no_pod_has)
{
	with(STATUS(CLAIM("u1", "..", "pending") "," CLAIM("u2", "a/b", "pending") "," CLAIM(
		"u3", "A", "pending") "," CLAIM("u4", "w", "pending")));
	pods_get_status(api, 504);
	claims_api_run(api);
	assert_true(status_has_not(api, "a", "'u1'", SOON));
	assert_true(status_has_not(api, "a", "'u2'", SOON));
	assert_true(status_has_not(api, "a", "'u3'", SOON));
	assert_true(status_keeps(api, "a", "'u4'", PENDING_MS));
	pods_get_status(api, 0);
	assert_true(status_has_not(api, "a", "'u4'", SOON));
}

/* generateName, or two creates of one name: the loser's claim ends in its time, the winner's stays.
 */
TEST(r5_another_pod_of_the_name_says_nothing)
{
	with(STATUS(CLAIM("loser", "w", "pending") "," CLAIM("winner", "w", "pending")));
	claims_api_run(api);
	pod_put(api, "w", "winner", NULL);
	assert_true(status_has(api, "a", BOUND, SOON));
	assert_true(status_keeps(api, "a", "'loser'", PENDING_MS - 400));
	assert_true(status_has_not(api, "a", "'loser'", SOON));
	assert_true(status_keeps(api, "a", "'winner'", PENDING_MS));
}

/* The label was taken away before the watch saw the pod: the GET binds. */
TEST(r5_a_get_that_shows_the_pod_binds)
{
	with(STATUS(CLAIM("u1", "w", "pending")));
	pod_put(api, "w", "u1", NULL);
	pod_strip(api, "u1");
	claims_api_run(api);
	assert_true(status_keeps(api, "a", PENDING, PENDING_MS - 300));
	assert_true(status_has(api, "a", BOUND, SOON));
	assert_true(status_keeps(api, "a", "'u1'", 2 * ASK_MS));
}

/* Created and deleted at once: the watch has shown it, so nobody waits for it any more (R12). */
TEST(r12_a_pod_that_came_and_went)
{
	with(STATUS(CLAIM("u1", "w", "pending") "," CLAIM("u2", "w2", "pending")));
	api->cfg.pending_ms = 20000;
	api->cfg.bind_every_ms = 20000;
	claims_api_run(api);
	pod_put(api, "w", "u1", NULL);
	pod_gone(api, "u1");
	assert_true(status_has_not(api, "a", "'u1'", SOON));
	assert_true(status_keeps(api, "a", "'u2'", 300));
	assert_true(pod_asked(api, "w") >= 1);
	assert_true(status_has_not(api, "a", "phantoms", 0));
	assert_int_equal(metric_value(api->pool->metrics, M_CLAIMS_ENDED, END_GONE, 0), 1);
}

/* Rule R12: that a pod never came is told to all replicas with its claim's end, for ten minutes. */
TEST(r12_a_pod_that_never_came)
{
	char status[1000], old[RFC3339_SIZE], young[RFC3339_SIZE];

	rfc3339_write(clock_wall_ms() - SERVER_PHANTOM_MS - 1000, old);
	rfc3339_write(clock_wall_ms() - SERVER_PHANTOM_MS / 2, young);
	(void)snprintf(status, sizeof(status),
		"{'version':1,'gpus':[" GPU("gpu-0") "],'claims':[" CLAIM(
			"u1", "w", "pending") "],'phantoms':[{'namespace':'old','since':'%s'},{'"
					      "namespace':'young','since':'%s'}]}",
		old, young);
	with(status);
	claims_api_run(api);
	assert_true(status_has_not(api, "a", "'old'", SOON));
	assert_true(status_has_not(api, "a", "'u1'", SOON));
	assert_true(status_has(api, "a", "'young'", 0));
	assert_true(status_has(api, "a", "{'namespace':'n','since':'20", 0));
	assert_int_equal(metric_value(api->pool->metrics, M_CLAIMS_ENDED, END_EXPIRED, 0), 1);
}

#define TAKEN_AGAIN STATUS(CLAIM_WITH("u1", "w", "pending", "bb", "'a'", "", HOLDS("gpu-0", "5")))

/* Taken once more by another review: the clock starts again. */
TEST(r5_another_take_starts_the_clock_again)
{
	with(STATUS(CLAIM("u1", "w", "pending")));
	claims_api_run(api);
	api_nap(PENDING_MS - 300);
	status_put(api, "a", TAKEN_AGAIN);
	assert_true(status_keeps(api, "a", "'u1'", PENDING_MS - 200));
	assert_true(status_has_not(api, "a", "'u1'", SOON));
}

/* Half of a claim that crashed in between ends like a whole one that nobody used. */
TEST(r1_a_pending_half_claim_ends)
{
	with(STATUS(CLAIM_ON("u1", "w", "pending", "'a','b'", "gpu-0", "5")));
	pool_api_put(api->pool, "b", OURS, SPEC, STATUS(""));
	claims_api_run(api);
	assert_true(status_keeps(api, "a", "'u1'", PENDING_MS - 200));
	assert_true(status_has_not(api, "a", "'u1'", SOON));
}

/* A conflict on one of two servers: what is left is no other review's claim, and its time is over.
 */
TEST(r5_half_an_end_does_not_start_the_clock_again)
{
	with(STATUS(CLAIM_ON("u1", "w", "pending", "'a','b'", "gpu-0", "5")));
	pool_api_put(api->pool, "b", OURS, SPEC,
		STATUS(CLAIM_ON("u1", "w", "pending", "'a','b'", "gpu-0", "5")));
	api_expect(api->pool->api, "PUT", SERVERS_PATH "/a/status", 409,
		"{\"kind\":\"Status\",\"reason\":\"Conflict\",\"message\":\"x\",\"code\":409}");
	claims_api_run(api);
	assert_true(status_has_not(api, "b", "'u1'", PENDING_MS + SOON));
	assert_true(status_has_not(api, "a", "'u1'", PENDING_MS - 200));
}

/* One write for all that wait. */
TEST(r6_binding_is_batched)
{
	char name[8];
	unsigned puts;

	with(STATUS(CLAIM("p0", "p0", "pending") "," CLAIM("p1", "p1", "pending") "," CLAIM(
		"p2", "p2", "pending") "," CLAIM("p3", "p3", "pending")));
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "p%d", i);
		pod_put(api, name, name, PLAN_HALF);
	}
	claims_api_run(api);
	assert_true(status_has_not(api, "a", PENDING, SOON));
	puts = api->pool->puts;
	assert_true(puts <= 2); /* a round may come in the middle of the list */
	assert_true(status_keeps(api, "a", "'p3'", PENDING_MS));
	assert_int_equal(api->pool->puts, puts);
	/* shown by the watch, they are not asked for; their plans, which differ from their claims',
	 * were looked at once */
	assert_true(pod_asked(api, "p0") <= 1);
}

/* Those that come one after the other wait for their second. */
TEST(r6_binding_waits_for_its_second)
{
	char name[8];

	api->cfg.bind_every_ms = 1500;
	with(STATUS(CLAIM("p0", "p0", "pending") "," CLAIM("p1", "p1", "pending") "," CLAIM(
		"p2", "p2", "pending") "," CLAIM("p3", "p3", "pending")));
	api->cfg.pending_ms = 60000;
	pod_put(api, "p0", "p0", NULL);
	claims_api_run(api);
	assert_true(status_has(api, "a", BOUND, SOON));
	for (int i = 1; i < 4; i++) {
		snprintf(name, sizeof(name), "p%d", i);
		pod_put(api, name, name, NULL);
		api_nap(250);
	}
	assert_true(status_has_not(api, "a", PENDING, SOON));
	assert_true(api->pool->puts <= 2);
}

static int64_t ended(enum metric_end why)
{
	return metric_value(api->pool->metrics, M_CLAIMS_ENDED, why, 0);
}

TEST(r6_ends_when_finished)
{
	with(STATUS(CLAIM("u1", "w", "bound") "," CLAIM("u2", "x", "pending") "," CLAIM(
		"u3", "y", "adopted")));
	pod_put(api, "w", "u1", NULL);
	pod_put(api, "x", "u2", NULL);
	pod_put(api, "y", "u3", NULL);
	claims_api_run(api);
	pod_phase(api, "u1", "Succeeded");
	assert_true(status_has_not(api, "a", "'u1'", SOON));
	pod_phase(api, "u2", "Failed");
	assert_true(status_has_not(api, "a", "'u2'", SOON));
	pod_phase(api, "u3", "Failed");
	assert_true(status_has_not(api, "a", "'u3'", SOON));
	/* Counted when the write is answered. */
	for (int i = 0; i < 500 && ended(END_FINISHED) < 3; i++)
		api_nap(10);
	assert_int_equal(ended(END_FINISHED), 3);
	assert_int_equal(ended(END_GONE) + ended(END_EXPIRED), 0);
}

/* Deleted with grace: it lives until it is gone. Forced: gone at once. */
TEST(r6_ends_when_gone)
{
	with(STATUS(CLAIM("u1", "w", "bound") "," CLAIM("u2", "x", "bound")));
	pod_put(api, "w", "u1", NULL);
	pod_put(api, "x", "u2", NULL);
	claims_api_run(api);
	pod_delete(api, "u1", 30);
	assert_true(status_keeps(api, "a", "'u1'", 2 * ASK_MS));
	pod_gone(api, "u1");
	assert_true(status_has_not(api, "a", "'u1'", 3000));
	pod_gone(api, "u2"); /* --force */
	assert_true(status_has_not(api, "a", "'u2'", 3000));
}

/* What a server's status says of a claim's end that is waited for. */
static bool lingers(const char *server)
{
	return status_has(api, server, "'lingers':'", SOON);
}

/* Forced, on a node that is alive: the kubelet ends it later. */
TEST(r13_what_vanished_lingers)
{
	with(STATUS(CLAIM("u1", "w", "bound") "," CLAIM("u2", "x", "bound") "," CLAIM(
		"u3", "y", "bound") "," CLAIM("u4", "z", "bound")));
	api->cfg.margin_ms = 500;
	api->cfg.grace_ms = 1500;
	for (int i = 0; i < 4; i++) {
		static const char *const names[] = {"w", "x", "y", "z"};
		static const char *const uids[] = {"u1", "u2", "u3", "u4"};

		pod_put(api, names[i], uids[i], NULL);
		if (i < 3)
			pod_place(api, uids[i]);
	}
	claims_api_run(api);
	pod_gone(api, "u1");
	pod_delete(api, "u2", 1);
	pod_phase(api, "u2", "Failed"); /* the kubelet says so, then it goes */
	pod_gone(api, "u2");
	pod_phase(api, "u3", "Succeeded");
	pod_gone(api, "u4"); /* no node had it */
	assert_true(status_has_not(api, "a", "'u2'", 1000));
	assert_true(status_has_not(api, "a", "'u3'", 1000));
	assert_true(status_has_not(api, "a", "'u4'", 1000));
	assert_true(lingers("a"));
	assert_true(status_keeps(api, "a", "'u1'", 500));
	assert_true(status_has_not(api, "a", "'u1'", SOON));
	assert_int_equal(ended(END_FINISHED), 2);
	assert_int_equal(ended(END_GONE), 2);
}

/* As long as its claim says; as its delete said, where that is more; but not longer than any pod
 * may. */
TEST(r13_the_longest_grace_period_counts)
{
#define GRACE(uid, name, seconds)                                                                  \
	CLAIM_WITH(uid, name, "bound", "aa", "'a'", "'grace':" seconds ",", HOLDS("gpu-0", "1"))
	int64_t began;

	with(STATUS(GRACE("u1", "w", "2") "," GRACE("u2", "x", "1") "," GRACE("u3", "y", "3600")));
	api->cfg.max_grace_ms = 3000;
	for (int i = 0; i < 3; i++) {
		static const char *const names[] = {"w", "x", "y"};
		static const char *const uids[] = {"u1", "u2", "u3"};

		pod_put(api, names[i], uids[i], NULL);
		pod_place(api, uids[i]);
	}
	claims_api_run(api);
	pod_delete(api, "u2", 60);
	/* the next leader knows it from there */
	assert_true(status_has(api, "a", "'grace':3,", SOON));
	pod_delete(api, "u2", 0);
	began = api_now_ms();
	for (int i = 0; i < 3; i++) {
		static const char *const uids[] = {"u1", "u2", "u3"};

		pod_gone(api, uids[i]);
	}
	assert_true(status_has_not(api, "a", "'u1'", SOON));
	assert_true(api_now_ms() - began >= 1900);
	assert_true(status_keeps(api, "a", "'u2'", 300));
	assert_true(status_has_not(api, "a", "'u2'", SOON));
	assert_true(api_now_ms() - began >= 2900);
	assert_true(status_has_not(api, "a", "'u3'", SOON));
	assert_true(api_now_ms() - began < 8000);
}

/* Nobody knows whether it ended while nobody led; what another leader has counted is not known
 * either. */
TEST(r13_a_new_leader_waits_itself)
{
	with(STATUS(CLAIM("u1", "w", "bound")));
	api->cfg.margin_ms = 300;
	api->cfg.grace_ms = 900;
	claims_api_run(api);
	assert_true(lingers("a"));
	assert_true(status_keeps(api, "a", "'u1'", 700));
	assert_true(status_has_not(api, "a", "'u1'", SOON));
	assert_int_equal(pod_asked(api, "w"), 2);
}

/* A restore of etcd brings it back. */
TEST(r13_a_pod_that_is_back_lingers_no_more)
{
	with(STATUS(CLAIM("u1", "w", "bound")));
	api->cfg.grace_ms = 60000;
	claims_api_run(api);
	assert_true(lingers("a"));
	pod_put(api, "w", "u1", NULL);
	assert_true(status_has_not(api, "a", "'lingers'", SOON));
	assert_true(status_keeps(api, "a", "'u1'", 300));
}

/* So many questions for that pod have been asked. */
static bool asked_for(const char *name, size_t n)
{
	for (int i = 0; i < SOON / 10 && pod_asked(api, name) < n; i++)
		api_nap(10);
	return pod_asked(api, name) >= n;
}

/* No watch shows it. A restore of etcd brings it back, and it is gone once more: from then on its
 * whole time counts. */
TEST(r13_a_pod_that_was_back_lingers_anew)
{
	struct api_reply gone = {0};

	with(STATUS(CLAIM("u1", "w", "bound")));
	api->cfg.grace_ms = 2000;
	pod_put(api, "w", "u1", NULL);
	pod_strip(api, "u1");
	api_status(&gone, 404, "NotFound", "no such pod");
	api_expect_reply(api->api, "GET", "/api/v1/namespaces/n/pods/w", &gone);
	claims_api_run(api);
	assert_true(lingers("a"));
	assert_true(asked_for("w", 3));
	pod_gone_unseen(api, "u1");
	assert_true(status_keeps(api, "a", "'u1'", 3 * ASK_MS));
	assert_true(status_has_not(api, "a", "'u1'", SOON));
}

/* Lines of a log, in a file that nobody else sees. */
static int log_begin(void)
{
	char path[] = "/tmp/test_claims_XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	(void)unlink(path);
	api->pool->log = (struct log){.fd = fd, .level = LOG_LEVEL_WARN};
	return fd;
}

static size_t log_lines(int fd, const char *what, const char *uid)
{
	char text[16384] = "", *rest = text;
	size_t n = 0;

	assert_true(pread(fd, text, sizeof(text) - 1, 0) >= 0);
	for (char *line; (line = strtok_r(rest, "\n", &rest));)
		n += strstr(line, what) && strstr(line, uid);
	return n;
}

/* Until when a claim lingers is said, and told, once; of what another leader has said as well where
 * it is far from what this one counts. Words of others are none of it, nor is what could not be
 * written. */
TEST(r13_until_when_it_lingers_is_said_once)
{
#define UNTIL(uid, name, until)                                                                    \
	CLAIM_WITH(uid, name, "bound", "aa", "'a'", "'lingers':'%s',", HOLDS("gpu-0", "1"))
	char status[2000], near[RFC3339_SIZE], far[RFC3339_SIZE];
	int fd = log_begin();
	unsigned puts;

	rfc3339_write(clock_wall_ms() + 62000, near);
	rfc3339_write(clock_wall_ms() + 40000, far);
	(void)snprintf(status, sizeof(status),
		"{'version':1,'gpus':[" GPU("gpu-0") "],'claims':[" CLAIM(
			"u1", "w", "bound") "," UNTIL("u2", "x", near) "," UNTIL("u3", "y",
			far) "," CLAIM("u4", "z", "bound") "]}",
		near, far);
	with(status);
	api->cfg.grace_ms = 60000;
	pod_put(api, "z", "u4", NULL);
	api_expect(api->pool->api, "PUT", SERVERS_PATH "/a/status", 403, "{}");
	claims_api_run(api);
	assert_true(api_wait(api->pool->api, "PUT", SERVERS_PATH "/a/status", 2));
	(void)snprintf(status, sizeof(status), "'lingers':'%s'", near);
	assert_true(status_has(api, "a", status, 0));
	(void)snprintf(status, sizeof(status), "'lingers':'%s'", far);
	assert_true(status_has_not(api, "a", status, SOON));
	pod_delete(api, "u4", 120);
	assert_true(status_has(api, "a", "'grace':120,", SOON));
	api_nap(1000);
	puts = api->pool->puts;
	api_nap(2500);
	assert_int_equal(api->pool->puts, puts);
	assert_int_equal(log_lines(fd, "claim lingers", ""), 2);
	assert_int_equal(log_lines(fd, "claim lingers", "u1"), 1);
	assert_int_equal(log_lines(fd, "claim lingers", "u3"), 1);
	(void)close(fd);
}

/* A status that says more than the phase. */
#define PULL                                                                                       \
	"Pending\",\"containerStatuses\":[{\"state\":{\"waiting\":{\"reason\":"                    \
	"\"ImagePullBackOff\"}}}],\"x\":\""
#define UNSCHEDULABLE                                                                              \
	"Pending\",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\",\"reason\":"    \
	"\"Unschedulable\"}],\"x\":\""

static int64_t unstarted(enum metric_why why)
{
	return metric_value(api->pool->metrics, M_UNSTARTED, why, 0);
}

/* It holds GPUs, and does not run: told in the status, by an Event for each reason, and counted. */
TEST(a_pod_that_does_not_start)
{
	with(STATUS(CLAIM("u1", "w", "bound") "," CLAIM("u2", "x", "bound")));
	api->cfg.unstarted_ms = 600;
	pod_put(api, "w", "u1", NULL);
	pod_put(api, "x", "u2", NULL);
	pod_phase(api, "u1", UNSCHEDULABLE);
	claims_api_run(api);
	assert_true(status_keeps(api, "a", "'gpu-0'", 300));
	assert_false(status_has(api, "a", "'waits'", 0));
	assert_true(status_has(api, "a", "'waits':'Unschedulable'", SOON));
	assert_int_equal(unstarted(WHY_UNSCHEDULABLE), 1);
	assert_int_equal(unstarted(WHY_IMAGE) + unstarted(WHY_OTHER), 0);
	for (int i = 0; i < 500 && pod_events(api, "WaitsForNode") == 0; i++)
		api_nap(10);
	pod_phase(api, "u1", PULL);
	/* at once, since it has waited all the time */
	assert_true(status_has(api, "a", "'waits':'ImagePullBackOff'", SOON));
	for (int i = 0; i < 500 && pod_events(api, "ImagePullBackOff") == 0; i++)
		api_nap(10);
	assert_int_equal(pod_events(api, "WaitsForNode"), 1);
	assert_int_equal(pod_events(api, "does not run: ImagePullBackOff"), 1);
	assert_int_equal(pod_events(api, "HoldsUnstarted"), 1);
	assert_int_equal(unstarted(WHY_IMAGE), 1);
	pod_phase(api, "u1", "Running");
	assert_true(status_has_not(api, "a", "'waits'", SOON));
	assert_int_equal(unstarted(WHY_IMAGE) + unstarted(WHY_OTHER), 0);
}

/* What another leader has said stays until this one has waited as long. */
TEST(a_pod_that_another_leader_knew)
{
	with(STATUS(CLAIM_WITH(
		"u1", "w", "bound", "aa", "'a'", "'waits':'Unschedulable',", HOLDS("gpu-0", "1"))));
	api->cfg.unstarted_ms = 60000;
	pod_put(api, "w", "u1", NULL);
	pod_phase(api, "u1", UNSCHEDULABLE);
	claims_api_run(api);
	assert_true(status_keeps(api, "a", "'waits'", 1000));
	pod_phase(api, "u1", "Running");
	assert_true(status_has_not(api, "a", "'waits'", SOON));
	assert_int_equal(pod_events(api, "HoldsUnstarted"), 0);
}

/* Nobody watched while it went. */
TEST(r6_a_new_leader_asks_at_once)
{
	with(STATUS(CLAIM("u1", "w", "bound") "," CLAIM("u2", "x", "bound")));
	pod_put(api, "x", "u2", NULL);
	claims_api_run(api);
	assert_true(status_has_not(api, "a", "'u1'", 3000));
	assert_true(status_keeps(api, "a", "'u2'", 2 * ASK_MS));
	assert_true(pod_asked(api, "x") <= 1);
}

TEST(r6_a_stripped_label_frees_nothing)
{
	size_t asked;

	with(STATUS(CLAIM("u1", "w", "bound")));
	pod_put(api, "w", "u1", NULL);
	claims_api_run(api);
	pod_strip(api, "u1");
	assert_true(status_keeps(api, "a", "'u1'", 3 * ASK_MS));
	asked = pod_asked(api, "w");
	assert_true(asked >= 3 && asked <= 5);
	pod_gone(api, "u1");
	assert_true(status_has_not(api, "a", "'u1'", SOON));
}

/* A StatefulSet's next pod has the name of the last one. */
TEST(r6_a_name_used_again)
{
	with(STATUS(CLAIM("u1", "web-0", "bound") "," CLAIM("u2", "web-0", "pending")));
	pod_put(api, "web-0", "u1", NULL);
	claims_api_run(api);
	pod_gone(api, "u1");
	pod_put(api, "web-0", "u2", NULL);
	assert_true(status_has_not(api, "a", "'u1'", 3000));
	assert_true(status_has(api, "a", BOUND, SOON));
	assert_true(status_keeps(api, "a", "'u2'", PENDING_MS));
}

/* Somebody else wrote: the question is asked anew. */
TEST(r6_after_a_conflict_it_is_asked_anew)
{
	with(STATUS(CLAIM("u1", "w", "bound")));
	api_expect(api->pool->api, "PUT", SERVERS_PATH "/a/status", 409,
		"{\"kind\":\"Status\",\"reason\":\"Conflict\",\"message\":\"x\",\"code\":409}");
	claims_api_run(api);
	assert_true(status_has_not(api, "a", "'u1'", SOON));
	/* A slow machine may ask once more before it hears of its own write. */
	assert_in_range(pod_asked(api, "w"), 2, 3);
}

/* Between the leader's GET and its PUT the GPU goes to somebody else. */
static void give_it_to_another(struct claims_api *c)
{
	status_put(c, "a", STATUS(CLAIM("u2", "w", "pending")));
	api_cut(c->pool->api, SERVERS_PATH "*");
}

TEST(r6_a_leader_that_stands_still_frees_no_other)
{
	with(STATUS(CLAIM("u1", "w", "bound")));
	api->between = give_it_to_another;
	claims_api_run(api);
	assert_true(status_has(api, "a", "'u2'", SOON));
	assert_true(status_keeps(api, "a", "'u2'", PENDING_MS - 300));
	assert_true(status_has_not(api, "a", "'u1'", 0));
}

/* The same, and a review has taken the same uid once more. */
static void take_it_again(struct claims_api *c)
{
	status_put(c, "a", TAKEN_AGAIN);
}

TEST(r5_a_leader_that_stands_still_ends_no_new_take)
{
	with(STATUS(CLAIM("u1", "w", "pending")));
	api->between = take_it_again;
	claims_api_run(api);
	assert_true(status_has(api, "a", "'00000000000000bb'", SOON));
	assert_true(status_keeps(api, "a", "'u1'", PENDING_MS - 300));
	assert_true(status_has_not(api, "a", "'u1'", SOON));
}

/* Two leaders at once are harmless. */
TEST(r8_two_leaders)
{
	struct claims_config second;
	struct leader_duty duty;
	void *running = NULL;

	with(STATUS(CLAIM("u1", "w", "bound") "," CLAIM("u2", "x", "pending") "," CLAIM(
		"u3", "y", "pending")));
	pod_put(api, "w", "u1", PLAN_HALF);
	pod_put(api, "x", "u2", PLAN_HALF);
	claims_api_run(api);
	memcpy(&second, &api->cfg, sizeof(second));
	duty = claims_duty(&second);
	assert_int_equal(duty.start(duty.ctx, &running, NULL), 0);
	assert_true(status_has_not(api, "a", "'u3'", SOON));
	assert_true(status_has_not(api, "a", PENDING, SOON));
	pod_gone(api, "u1");
	assert_true(status_has_not(api, "a", "'u1'", SOON));
	pod_put(api, "z", "u4", PLAN_HALF);
	assert_true(status_has(api, "a", "'u4'", SOON));
	assert_true(status_keeps(api, "a", "'u2'", PENDING_MS));
	duty.stop(running);
}

/* So many bound claims on that server, from that number on, as its status; valid until the next
 * call. */
static const char *many(const char *server, int first, int n)
{
	static char status[1 << 17];
	size_t at = 0;

	at += (size_t)snprintf(
		status, sizeof(status), "{'version':1,'gpus':[" GPU("gpu-0") "],'claims':[");
	for (int i = first; i < first + n; i++)
		at += (size_t)snprintf(status + at, sizeof(status) - at,
			"%s" CLAIM_ON("q%d", "q%d", "bound", "'%s'", "gpu-0", "1"),
			i > first ? "," : "", i, i, server);
	snprintf(status + at, sizeof(status) - at, "]}");
	return status;
}

/* Server a with so many bound claims, q0 and on. */
static void with_many(int n)
{
	with(many("a", 0, n));
}

/* Questions that nobody answers keep none from being asked for ever, wherever the table holds it.
 */
TEST(r6_nobody_starves)
{
	for (int i = 0; i < 3; i++) {
		static const char *const names[] = {"q0", "q13", "q29"};
		char uid[16];

		if (i > 0) {
			claims_api_free(api);
			api = claims_api_new();
		}
		api->cfg.retry_ms = 100;
		with_many(30);
		pods_get_status(api, 504);
		api->get_true = names[i];
		claims_api_run(api);
		(void)snprintf(uid, sizeof(uid), "'%s'", names[i]);
		assert_true(status_has_not(api, "a", uid, 2 * SOON));
	}
}

/* Where nobody answers, a round ends after a few questions, and does not wait for all of them. */
TEST(r6_silence_is_asked_a_few_times)
{
	size_t asked = 0;
	char name[8];

	with_many(60);
	api->cfg.retry_ms = 60000;
	pods_get_status(api, 504);
	claims_api_run(api);
	for (int i = 0; i < 100 && asked < 8; i++) {
		api_nap(20);
		asked = 0;
		for (int k = 0; k < 60; k++) {
			snprintf(name, sizeof(name), "q%d", k);
			asked += pod_asked(api, name);
		}
	}
	/* Some are asked side by side: eight, and those that were on their way. */
	assert_in_range(asked, 8, 24);
}

/* Many at once: all are asked for, and gone in time. */
TEST(r6_many_at_once)
{
	char name[8];

	with_many(60);
	claims_api_run(api);
	assert_true(status_has(api, "a", "'claims':[]", SOON));
	/* That they linger (R13), and that they are gone. */
	assert_in_range(api->pool->puts, 1, 2);
	for (int i = 0; i < 60; i++) {
		snprintf(name, sizeof(name), "q%d", i);
		assert_in_range(pod_asked(api, name), 1, 2);
	}
}

/* More holders than the table begins with: it grows, and forgets each of them, which the sanitizers
 * tell. */
TEST(r6_a_table_that_grows)
{
	with_many(300);
	claims_api_run(api);
	assert_true(status_has(api, "a", "'claims':[]", 2 * SOON));
	/* counted when the answer has come */
	for (int i = 0; ended(END_GONE) < 300 && i < SOON / 10; i++)
		api_nap(10);
	assert_int_equal(ended(END_GONE), 300);
}

#define MOST 256
static const char *const full[] = {"a", "b", "c"};

static size_t asked_of(int first, int n)
{
	size_t asked = 0;
	char name[8];

	for (int i = first; i < first + n; i++) {
		(void)snprintf(name, sizeof(name), "q%d", i);
		asked += pod_asked(api, name);
	}
	return asked;
}

/* More than twice as many as the table begins with, at once, and then so many that it grows once
 * more: whom it has it knows as before, and asks for no more often. */
TEST(r6_a_table_that_grows_by_more)
{
	size_t asked;

	for (size_t i = 0; i < COUNT(full); i++)
		pool_api_put(api->pool, full[i], OURS, SPEC, many(full[i], (int)i * MOST, MOST));
	pool_api_put(api->pool, "d", OURS, SPEC, STATUS(""));
	api->cfg.retry_ms = 60000;
	api->cfg.grace_ms = 600000;
	claims_api_run(api);
	for (int i = 0; i < 100 && asked_of(0, 3 * MOST) < 3 * MOST; i++)
		api_nap(100);
	api_nap(1000);
	asked = asked_of(0, 3 * MOST);
	assert_in_range(asked, 3 * MOST, 4 * MOST);
	status_put(api, "d", many("d", 3 * MOST, MOST));
	for (int i = 0; i < 100 && asked_of(3 * MOST, MOST) < MOST; i++)
		api_nap(100);
	api_nap(1000);
	assert_int_equal(asked_of(0, 3 * MOST), asked);
	assert_in_range(asked_of(3 * MOST, MOST), MOST, 2 * MOST);
}

/* More than are asked, or written, side by side. */
#define SERVERS 30
#define SIDE_BY_SIDE 16

/* So many servers, each with the claim of a pod that is not there. */
static void with_servers(void)
{
	for (int i = 0; i < SERVERS; i++) {
		char name[8], status[1000];

		(void)snprintf(name, sizeof(name), "s%d", i);
		(void)snprintf(status, sizeof(status),
			"{'version':1,'gpus':[" GPU("gpu-0") "],'claims':[" CLAIM_ON(
				"u%d", "p%d", "bound", "'s%d'", "gpu-0", "1") "]}",
			i, i, i);
		pool_api_put(api->pool, name, OURS, SPEC, status);
	}
}

/* A leader that is told to go, while it asks or writes, ends what is on its way and begins nothing
 * more: the next one does. */
TEST(r8_a_leader_that_goes_begins_nothing_more)
{
	static const struct {
		bool pods;
		const char *method, *path;
		int status;
		const char *reason;
	} cases[] = {{true, "GET", "/api/v1/namespaces/n/pods/*", 404, "NotFound"},
		{false, "PUT", SERVERS_PATH "/*", 403, "Forbidden"}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct api *asked = cases[i].pods ? api->api : api->pool->api;

		with_servers();
		for (int k = 0; k < SERVERS; k++) {
			struct api_reply reply = {0};

			api_status(&reply, cases[i].status, cases[i].reason, "no");
			/* the watch ends first */
			reply.delay_ms = 4000;
			api_expect_reply(asked, cases[i].method, cases[i].path, &reply);
		}
		claims_api_run(api);
		assert_true(api_wait(asked, cases[i].method, cases[i].path, SIDE_BY_SIDE));
		claims_api_end_leader(api);
		assert_int_equal(api_seen_of(asked, cases[i].method, cases[i].path), SIDE_BY_SIDE);
		if (cases[i].pods)
			assert_int_equal(api->pool->puts, 0);
		claims_api_free(api);
		api = claims_api_new();
	}
}

/* Not before its time, and asked anew behind a conflict: that one, too, whose holder is the first
 * of all. */
TEST(r5_the_first_of_the_table)
{
	char status[1000], uid[32];

	(void)snprintf(uid, sizeof(uid), "'%s'", first_uid(0));
	(void)snprintf(status, sizeof(status),
		"{'version':1,'gpus':[" GPU("gpu-0") "],'claims':[" CLAIM_ON(
			"%s", "w", "pending", "'a'", "gpu-0", "1") "]}",
		first_uid(0));
	with(status);
	api_expect(api->pool->api, "PUT", SERVERS_PATH "/a/status", 409,
		"{\"kind\":\"Status\",\"reason\":\"Conflict\",\"message\":\"x\",\"code\":409}");
	claims_api_run(api);
	assert_true(status_keeps(api, "a", uid, PENDING_MS - 200));
	assert_int_equal(pod_asked(api, "w"), 0);
	assert_true(status_has_not(api, "a", uid, SOON));
	assert_int_equal(pod_asked(api, "w"), 2);
}

/* A claim that has ended cannot be taken out, since its server cannot be read: that is tried again,
 * and its pod asked for, as often as what nobody answers. */
TEST(r6_an_end_that_nobody_can_write)
{
	size_t asked;

	api->cfg.retry_ms = 1000;
	pool_api_put(api->pool, "a", OURS, SPEC, STATUS(CLAIM("u1", "p", "bound")));
	pods_get_status(api, 500);
	claims_api_run(api);
	status_put(api, "a", "{'version':1,'gpus':[],'claims':7}");
	pods_get_status(api, 0);
	api_nap(2000);
	asked = claims_api_asked(api);
	api_nap(10000);
	asked = claims_api_asked(api) - asked;
	assert_in_range(asked, 5, 15);
}

TESTS_BETWEEN(claims_api_begin, claims_api_end, r5_a_pending_claim_ends_after_its_time,
	r5_no_answer_is_no_404, r5_a_name_that_no_pod_has, r5_another_pod_of_the_name_says_nothing,
	r5_a_get_that_shows_the_pod_binds, r5_another_take_starts_the_clock_again,
	r5_half_an_end_does_not_start_the_clock_again, r12_a_pod_that_came_and_went,
	r12_a_pod_that_never_came, r5_a_leader_that_stands_still_ends_no_new_take,
	r1_a_pending_half_claim_ends, r6_binding_is_batched, r6_binding_waits_for_its_second,
	r6_ends_when_finished, r6_ends_when_gone, r13_what_vanished_lingers,
	r13_the_longest_grace_period_counts, r13_a_new_leader_waits_itself,
	a_pod_that_does_not_start, a_pod_that_another_leader_knew,
	r13_a_pod_that_is_back_lingers_no_more, r13_a_pod_that_was_back_lingers_anew,
	r13_until_when_it_lingers_is_said_once, r6_a_new_leader_asks_at_once,
	r6_a_stripped_label_frees_nothing, r6_a_name_used_again,
	r6_after_a_conflict_it_is_asked_anew, r6_a_leader_that_stands_still_frees_no_other,
	r6_many_at_once, r6_a_table_that_grows, r6_a_table_that_grows_by_more, r6_nobody_starves,
	r6_silence_is_asked_a_few_times, r8_two_leaders, r8_a_leader_that_goes_begins_nothing_more,
	r5_the_first_of_the_table, r6_an_end_that_nobody_can_write)
