/* SPDX-License-Identifier: Apache-2.0 */
/* sim: a replica: the product's cluster and admission as cli/serve puts them together, and the way
 * of a review into it. */
#define _GNU_SOURCE 1 /* memfd_create */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "net/http_server.h"
#include "test/sim/sim_world.h"
#include "webhook/cluster/cluster.h"
#include "webhook/edge/admission/admission.h"
#include "webhook/edge/metrics/metrics.h"

/* The transport answers that much before the time in ?timeout= is over. */
#define MARGIN_US (SECOND / 2)
/* Of a review that is not the simulator's own. */
#define TIMEOUT_MS 9500
/* Reviews that run at the same time. */
#define WORKERS 4

struct replica {
	bool runs, ready, stopping;
	unsigned epoch; /* a process that was started anew is another one */
	unsigned busy;
	unsigned in_force; /* since it was last idle: a set of versions of the configuration */
	struct cluster *cluster;
	struct admission *admission;
	struct plan_keys *keys;
	struct metrics *metrics;
	struct log log;
	unsigned configs; /* that were acquired and not given back */
};

static struct replica replica[REPLICAS_MAX + 1];
static int runs_with[REPLICAS_MAX + 1];
static char kubeconfig[32];
static struct cluster_settings settings = {.on = true,
	.kubeconfig = kubeconfig,
	.namespace = "poolgate",
	.service = "poolgate",
	.lease = "poolgate",
	.tls_secret = "poolgate-tls",
	.ca_secret = "poolgate-ca",
	.probe_every_ms = 10000,
	.priority_classes = &(struct slice){"high", 4},
	.n_priority_classes = 1};

/* ---- before the first run ---- */

void replicas_prepare(void)
{
	static const char text[] = "apiVersion: v1\nkind: Config\ncurrent-context: sim\n"
				   "clusters: [{name: sim, cluster: {server: 'https://sim'}}]\n"
				   "users: [{name: sim, user: {token: sim}}]\n"
				   "contexts: [{name: sim, context: {cluster: sim, user: sim}}]\n";
	int fd = memfd_create("kubeconfig", 0); /* each run inherits it */

	if (fd < 0 || write(fd, text, sizeof(text) - 1) != (ssize_t)sizeof(text) - 1)
		sim_fail("simulator", "no kubeconfig can be written");
	(void)snprintf(kubeconfig, sizeof(kubeconfig), "/proc/self/fd/%d", fd);
	configs_prepare();
}

/* ---- a process ---- */

static const struct config *acquire(void *ctx)
{
	struct replica *r = ctx;

	sim_point();
	r->configs++;
	return config_of(runs_with[r - replica]);
}

static void release(void *ctx, const struct config *config)
{
	struct replica *r = ctx;

	(void)config;
	r->configs--;
}

static void start_parts(struct replica *r, int owner)
{
	struct cluster_config cfg = {.settings = &settings,
		.own_certificate = true,
		.pod_name = owner == 1   ? "poolgate-1"
			    : owner == 2 ? "poolgate-2"
			    : owner == 3 ? "poolgate-3"
					 : "poolgate-4",
		.servers_at_once = at_once,
		.carrier = slips_on ? &carrier_slips : NULL,
		.source = {r, acquire, release},
		.log = &r->log};
	struct admission_deps deps = {.source = cfg.source, .log = &r->log};
	struct err err = {0};

	settings.policies = habits.caps;
	settings.pending_share = pending_share;
	settings.reserve_ms = reserve_us / 1000;
	settings.usage = usage_on;
	r->configs = 0;
	log_init(&r->log, sim_tracing() ? STDOUT_FILENO : -1);
	(void)log_set_level(&r->log, sim_tracing() ? "info" : "error", NULL);
	r->metrics = cfg.metrics = deps.metrics = metrics_new(metric_table, M_COUNT);
	r->keys = cfg.keys = plan_keys_new(&err);
	if (!r->keys)
		sim_fail("simulator", "a replica has no key: %s", err.msg);
	deps.signer = plan_keys_signer(r->keys);
	if (cluster_new(&cfg, &r->cluster, &err) != 0)
		sim_fail("simulator", "a replica cannot be made: %s", err.msg);
	deps.ledger = cluster_ledger(r->cluster);
	deps.policies = cluster_policies(r->cluster);
	r->admission = admission_new(&deps, &err);
	if (cluster_start(r->cluster, &err) != 0)
		sim_fail("simulator", "a replica cannot start: %s", err.msg);
}

/* What it counted. */
static void replica_said(const struct replica *r)
{
	struct buf b;

	if (!sim_steady)
		return;
	buf_init(&b, 1 << 20);
	metrics_render(r->metrics, &b);
	sim_said("r%d: %s", (int)(r - replica), b.data);
	buf_release(&b);
}

void replicas_said(void)
{
	for (int i = 1; i <= REPLICAS_MAX; i++)
		if (replica[i].runs && replica[i].metrics)
			replica_said(&replica[i]);
}

static void replica_main(void *arg)
{
	struct replica *r = arg;

	start_parts(r, (int)(r - replica));
	r->ready = true;
	while (!r->stopping)
		(void)sim_wait(r, FOREVER);
	cluster_stop(r->cluster);
	while (r->busy > 0)
		(void)sim_wait(&r->busy, FOREVER);
	admission_free(r->admission);
	cluster_free(r->cluster);
	plan_keys_free(r->keys);
	replica_said(r);
	metrics_free(r->metrics);
	if (r->configs != 0)
		sim_fail("release", "%u uses of the configuration have no end", r->configs);
	r->runs = false;
	r->epoch++;
	sim_trace(10, "ended");
}

bool replica_runs(int owner)
{
	return replica[owner].runs;
}

bool replica_is_ready(int owner)
{
	return replica[owner].ready;
}

void replica_start(int owner)
{
	struct replica *r = &replica[owner];

	sim_trace(11, "r%d starts", owner);
	knows[owner] = 0;
	http_hears(owner);
	*r = (struct replica){.runs = true, .epoch = r->epoch + 1};
	sim_spawn(owner, "main", replica_main, r);
}

int replica_config(int owner)
{
	return runs_with[owner];
}

void replica_configure(int owner, int version)
{
	sim_trace(14, "r%d has version %d of the configuration", owner, version);
	runs_with[owner] = version;
	replica[owner].in_force |= 1u << version;
}

void replica_stop(int owner)
{
	sim_trace(12, "r%d is asked to end", owner);
	replica[owner].stopping = true;
	sim_wake(&replica[owner]);
}

void replica_kill(int owner)
{
	sim_trace(13, "r%d is killed", owner);
	replica[owner].runs = false;
	replica[owner].epoch++;
	sim_wake(&replica[owner].epoch);
	sim_kill(owner);
}

/* ---- a review ---- */

struct visit {
	struct replica *r;
	struct attempt *a;
	int64_t deadline_ms;
	bool done, told;   /* the handler is through; the law of refusals has its answer */
	bool gone;         /* the client has gone: the transport knows */
	bool knew_keys;    /* of plans, when it came */
	enum verdict said; /* that was queued */
	unsigned users;
};

static char *review_text(const struct attempt *a)
{
	cJSON *pod = pod_made(a), *meta = store_at(pod, "metadata", NULL);
	size_t size;
	char *out, *text;

	cJSON_DeleteItemFromObjectCaseSensitive(meta, "name");
	cJSON_AddStringToObject(meta, "name", a->name);
	cJSON_AddStringToObject(meta, "uid", a->uid);
	text = cJSON_PrintUnformatted(pod);
	size = strlen(text) + 1500;
	out = calloc(1, size);
	(void)snprintf(out, size,
		"{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/"
		"v1\",\"request\":{\"uid\":\"r\","
		"\"kind\":{\"group\":\"\",\"version\":\"v1\",\"kind\":\"Pod\"},\"resource\":{"
		"\"group\":\"\",\"version\":"
		"\"v1\",\"resource\":\"pods\"},\"namespace\":\"%s\",\"name\":\"%s\",\"operation\":"
		"\"CREATE\","
		"\"dryRun\":false,\"oldObject\":null,\"object\":%s}}",
		a->namespace, a->name, text);
	free(text);
	cJSON_Delete(pod);
	return out;
}

static void let_go(struct visit *v)
{
	if (--v->users == 0)
		free(v);
}

static void comes_in(int owner)
{
	struct replica *r = &replica[owner];

	if (r->busy++ == 0)
		r->in_force = 1u << runs_with[owner];
}

/* The law of the configuration: a pod is admitted exactly where it would be written so, or where it
 * has a proof that holds. */
static void check_config(const struct visit *v, bool yes, const char *reply)
{
	enum writer by = v->a->writer;
	unsigned own = by == WRITER_CHANGED ? 0 : 1u << v->a->config;
	bool has_keys = v->knew_keys && metric_value(v->r->metrics, M_PLAN_KEYS, 0, 0) > 0;

	if (yes && by != WRITER_OURS && !(v->r->in_force & own))
		sim_fail("config",
			"%s was told yes, and no configuration of its replica writes it so, nor "
			"does a replica vouch for it",
			v->a->name);
	if (!yes && by != WRITER_CHANGED &&
		(v->r->in_force == own || (by == WRITER_OURS && has_keys)) &&
		(strstr(reply, "\"ProfileChanged\"") || strstr(reply, "\"PlanMismatch\"")))
		sim_fail("config", "%s is what replicas write, and was refused: %s", v->a->name,
			reply);
}

static void judge(struct visit *v, const struct http_reply *reply, bool sent)
{
	bool yes = reply->status == 200 && strstr(reply->body, "\"allowed\":true");

	v->told = true;
	laws_asks(v->a, 0);
	if (sent && reply->status == 200)
		check_config(v, yes, reply->body);
	if (sent && yes) {
		v->said = VERDICT_YES;
		laws_yes(v->a);
	} else if (sent && reply->status == 200) {
		v->said = VERDICT_NO;
		laws_no(v->a, reply->body);
	} else {
		laws_silent(v->a);
	}
}

static void worker(void *arg)
{
	struct visit *v = arg;
	struct replica *r = v->r;
	char *text = review_text(v->a);
	struct http_request req = {.body = calloc(1, strlen(text) + HTTP_BODY_PAD),
		.body_len = strlen(text),
		.received_ms = http_now_ms(),
		.whole_us = http_now_us()};
	struct http_reply reply = {0};
	bool sent;

	laws_asks(v->a, sim_self());
	memcpy(req.body, text, req.body_len);
	free(text);
	req.deadline_ms = v->deadline_ms;
	(void)admission_validate_slow(r->admission, &req, &reply);
	sim_point();
	sent = !v->gone && http_now_ms() < req.deadline_ms;
	req.status = reply.status;
	sim_said("r%d: %s: %u %d %s", (int)(r - replica), v->a->name, reply.status, sent,
		reply.body ? reply.body : "");
	if (sent)
		judge(v, &reply, true);
	admission_queued(r->admission, &req, sent);
	if (!sent)
		judge(v, &reply, false);
	admission_done(r->admission, &req);
	free(req.body);
	free(reply.body);
	v->done = true;
	r->busy--;
	sim_wake(&r->busy);
	sim_wake(v);
	let_go(v);
}

enum verdict replica_review(int owner, struct attempt *a, int64_t timeout_us)
{
	struct replica *r = &replica[owner];
	unsigned epoch = r->epoch;
	int64_t until = sim_now() + timeout_us;
	struct visit *v;
	enum verdict said = VERDICT_NONE;

	sim_sleep(200 + (int64_t)sim_below(2000));
	if (!r->runs || r->epoch != epoch || r->stopping || !r->ready || r->busy >= WORKERS)
		return VERDICT_NONE;
	v = calloc(1, sizeof(*v));
	*v = (struct visit){.r = r,
		.a = a,
		.users = 2,
		.knew_keys = metric_value(r->metrics, M_PLAN_KEYS, 0, 0) > 0,
		.deadline_ms = (sim_mono(owner) + timeout_us - MARGIN_US) / 1000};
	comes_in(owner);
	laws_review(a, owner);
	sim_spawn(owner, "review", worker, v);
	while (!v->done && r->epoch == epoch && sim_now() < until)
		(void)sim_wait(v, sim_now() + SECOND / 4 < until ? sim_now() + SECOND / 4 : until);
	if (!v->done && r->epoch != epoch && !v->told)
		a->reviews--; /* it died with its process */
	v->gone = true;
	sim_chain((uint64_t)v->done << 2 | v->said);
	/* The answer, too, can be lost on its way. */
	if (v->done && !sim_chance(weather.lost_after))
		said = v->said;
	let_go(v);
	return said;
}

/* ---- a review of somebody else's ---- */

struct letter {
	struct replica *r;
	const char *path, *body;
	char *answer;
};

static void open_letter(void *arg)
{
	struct letter *l = arg;
	size_t len = strlen(l->body);
	struct http_request req = {.body = calloc(1, len + HTTP_BODY_PAD),
		.body_len = len,
		.received_ms = http_now_ms(),
		.deadline_ms = http_now_ms() + TIMEOUT_MS,
		.whole_us = http_now_us()};
	struct http_reply reply = {0};

	memcpy(req.body, l->body, len);
	if (strcmp(l->path, "/mutate") == 0)
		(void)admission_mutate_slow(l->r->admission, &req, &reply);
	else
		(void)admission_validate_slow(l->r->admission, &req, &reply);
	req.status = reply.status;
	admission_queued(l->r->admission, &req, true);
	admission_done(l->r->admission, &req);
	free(req.body);
	/* Without memory it has none. */
	l->answer = reply.body ? reply.body : strdup("");
	sim_said("r%d: %s: %s", (int)(l->r - replica), l->path, l->answer);
	l->r->busy--;
	sim_wake(&l->r->busy);
	sim_wake(l);
}

char *replica_answer(int owner, const char *path, const char *body)
{
	struct letter l = {.r = &replica[owner], .path = path, .body = body};

	unsigned epoch = l.r->epoch;

	if (!l.r->runs || !l.r->ready || l.r->stopping)
		return NULL;
	comes_in(owner);
	sim_spawn(owner, "review", open_letter, &l);
	while (!l.answer && l.r->epoch == epoch)
		(void)sim_wait(&l, sim_now() + SECOND / 4);
	return l.answer;
}
