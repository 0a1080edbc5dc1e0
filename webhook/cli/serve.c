/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate serve`: the listeners, and the main thread that waits for signals and for
 * changed files. */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "net/http_server.h"
#include "webhook/cli/usage/cli.h"
#include "webhook/cluster/cluster.h"
#include "webhook/edge/admin/plain_routes.h"
#include "webhook/edge/admin/reload.h"
#include "webhook/edge/admin/usage_page.h"
#include "webhook/edge/admission/admission.h"
#include "webhook/edge/admission/plan_keys.h"
#include "webhook/edge/metrics/metrics.h"
#include "webhook/edge/pool/ledger_memory.h"
#include "webhook/edge/settings/config_store.h"

/* After the drain delay nobody should send any more; what is in flight has the API server's own 30
 * s at most. */
#define FINISH_MS 30000
#define PLAIN_FINISH_MS 1000
/* Probes, a scraper, a few people. */
#define PLAIN_CONNECTIONS 64
#define SMALL_BODY_MAX 16384
/* So many questions about tokens reach the API server at one time. */
#define USAGE_WORKERS 2

struct server {
	struct log log;
	struct log_pipe log_pipe;
	struct config_store store;
	struct reload reload;
	struct plain_listeners plain;
	struct admission *admission;
	struct decisions *decisions;
	struct plan_keys *keys;
	struct image_look *images;
	struct cluster *cluster;          /* NULL: the pool is a file */
	struct settings cluster_settings; /* of the cluster: as they were at the start */
	struct http_server *tls, *plain_http, *admin_http, *usage_http;
	sigset_t signals; /* blocked everywhere, taken by the main thread */
};

int serve_exit_code(const struct err *err)
{
	switch (err->code) {
	case ERR_NONE:
		return SERVE_DONE;
	case ERR_SYNTAX:
	case ERR_INVALID:
	case ERR_NOTFOUND:
	case ERR_CONFLICT:
	case ERR_TOOBIG:
	case ERR_IO:
	case ERR_REFUSED:
		return SERVE_UNREADABLE;
	case ERR_NOMEM:
	case ERR_TIMEOUT:
	case ERR_INTERNAL:
		return SERVE_FAILED;
	}
	return SERVE_FAILED;
}

static void plain_transport(void *ctx, const char *msg)
{
	const struct plain_listeners *p = ctx;

	log_line(p->log, LOG_LEVEL_WARN, "transport", log_str("msg", msg));
}

/* ---- start ---- */

static const char *unready(void *ctx)
{
	return cluster_unready(ctx);
}

/* The ledger: in the cluster, or in memory. */
static int make_ledger(struct server *s, struct err *err)
{
	struct reload *r = &s->reload;
	struct cluster_config cfg = {.settings = &r->settings.cluster,
		.own_certificate = r->settings.tls_cert != NULL,
		.api_host = getenv("KUBERNETES_SERVICE_HOST"),
		.api_port = getenv("KUBERNETES_SERVICE_PORT"),
		.pod_name = getenv("POD_NAME"),
		.source = {&s->store, config_store_acquire, config_store_give_back},
		.identity = r->identity,
		.keys = s->keys,
		.metrics = r->metrics,
		.log = &s->log};
	int rc;

	if (!r->settings.cluster.on) {
		r->ledger = ledger_memory_new(r->settings.claim_ttl_ms);
		s->plain.ledger = r->ledger;
		if (!r->ledger)
			return err_set(err, ERR_NOMEM, "out of memory");
		ledger_memory_tell(r->ledger, r->metrics);
		return 0;
	}
	/* A reload puts other settings in force, and what is borrowed must stay. */
	rc = settings_load(r->argc, r->argv, r->total_gpu_memory, &s->cluster_settings, err);
	if (rc != 0)
		return rc;
	cfg.settings = &s->cluster_settings.cluster;
	rc = cluster_new(&cfg, &s->cluster, err);
	if (rc != 0)
		return rc;
	r->heard = cluster_heard(s->cluster);
	s->plain.ledger = cluster_ledger(s->cluster);
	s->plain.waiting = cluster_waiting(s->cluster);
	s->plain.unready = unready;
	s->plain.unready_ctx = s->cluster;
	return 0;
}

static int make_parts(struct server *s, struct err *err)
{
	struct reload *r = &s->reload;

	config_store_init(&s->store);
	plain_listeners_init(&s->plain);
	r->store = &s->store;
	r->log = &s->log;
	r->metrics = metrics_new(metric_table, M_COUNT);
	r->identity = tls_identity_new();
	r->clients = r->settings.client_ca ? tls_trust_new() : NULL;
	s->decisions = decisions_new();
	s->keys = plan_keys_new(err);
	if (!s->keys)
		return (int)err->code;
	if (!r->metrics || !r->identity || !s->decisions)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (r->settings.client_ca && !r->clients)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (make_ledger(s, err) != 0)
		return (int)err->code;
	/* who waits for a registry takes a worker from who waits for a claim */
	s->images = image_look_new(
		&(struct image_look_config){.logins = s->cluster ? cluster_logins(s->cluster)
								 : (struct login_source){0},
			.at_once = r->settings.workers > 1 ? r->settings.workers / 2 : 1},
		err);
	if (!s->images)
		return (int)err->code;
	s->plain.identity = r->identity;
	s->plain.metrics = r->metrics;
	s->plain.decisions = s->decisions;
	s->plain.version = POOLGATE_VERSION;
	s->plain.log = &s->log;
	s->admission = admission_new(
		&(struct admission_deps){
			.source = {&s->store, config_store_acquire, config_store_give_back},
			.ledger = s->plain.ledger,
			.secrets = s->cluster ? cluster_secrets(s->cluster)
					      : (struct secrets_check){0},
			.quotas =
				s->cluster ? cluster_quotas(s->cluster) : (struct quotas_check){0},
			.waiters = s->cluster ? cluster_waiters(s->cluster) : (struct waiters){0},
			.policies = s->cluster ? cluster_policies(s->cluster)
					       : (struct policies_known){NULL, config_policies_any,
							 config_policies_of},
			.images = s->images,
			.signer = plan_keys_signer(s->keys),
			.metrics = r->metrics,
			.decisions = s->decisions,
			.log = &s->log,
		},
		err);
	return s->admission ? 0 : (int)err->code;
}

/* A listener without TLS; nothing when it is off. */
static int listen_plain(struct server *s, const char *listen, const struct http_route *routes,
	size_t n, unsigned workers, struct http_server **ret, struct err *err)
{
	struct http_config cfg = {.listen = listen,
		.workers = workers,
		.connections = PLAIN_CONNECTIONS,
		.body_max = SMALL_BODY_MAX};
	struct http_app app = {
		.routes = routes, .nroutes = n, .ctx = &s->plain, .log = plain_transport};

	return listen ? http_server_start(&cfg, &app, ret, err) : 0;
}

/* With TLS, for those whom the API server knows; nothing when it is off. */
static int listen_usage(struct server *s, struct err *err)
{
	struct http_config cfg = {.listen = s->cluster_settings.cluster.usage_listen,
		.identity = s->reload.identity,
		.workers = USAGE_WORKERS,
		.connections = PLAIN_CONNECTIONS,
		.body_max = SMALL_BODY_MAX};
	struct http_app app = {.routes = usage_routes,
		.nroutes = USAGE_ROUTES,
		.done = usage_page_done,
		.log = usage_page_transport};

	if (!s->cluster || !cfg.listen)
		return 0;
	app.ctx = cluster_usage(s->cluster);
	return http_server_start(&cfg, &app, &s->usage_http, err);
}

static int listen_all(struct server *s, struct err *err)
{
	const struct settings *st = &s->reload.settings;
	struct http_config cfg = {.listen = st->listen,
		.identity = s->reload.identity,
		.clients = s->reload.clients,
		.workers = st->workers,
		.connections = st->max_connections};
	struct http_app app = {.routes = admission_routes,
		.nroutes = ADMISSION_ROUTES,
		.ctx = s->admission,
		.queued = admission_queued,
		.done = admission_done,
		.log = admission_transport};
	int rc;

	if ((rc = listen_plain(s, st->listen_plain, plain_routes, PLAIN_ROUTES, 0, &s->plain_http,
		     err)) != 0 ||
		(rc = listen_plain(s, st->listen_admin, admin_routes, ADMIN_ROUTES, 1,
			 &s->admin_http, err)) != 0 ||
		(rc = listen_usage(s, err)) != 0 ||
		(rc = http_server_start(&cfg, &app, &s->tls, err)) != 0)
		return rc;
	plain_listeners_show(&s->plain, s->tls);
	return 0;
}

static void log_start(const struct server *s)
{
	const struct settings *st = &s->reload.settings;

	for (size_t i = 0; i < st->n_notes; i++)
		log_line(&s->log, LOG_LEVEL_WARN, "settings", log_str("warning", st->notes[i]));
	if (!st->total_gpu_mb)
		log_line(&s->log, LOG_LEVEL_WARN, "settings",
			log_str("warning",
				"TOTAL_GPU_MEMORY is not set: requests by gpu-memory are "
				"refused"));
	if (!st->pool && !s->cluster)
		log_line(&s->log, LOG_LEVEL_WARN, "settings",
			log_str("warning", "no pool (--pool): every pod that asks for a GPU is "
					   "refused"));
	log_line(&s->log, LOG_LEVEL_INFO, "serving", log_str("version", POOLGATE_VERSION),
		log_str("listen", st->listen), log_str("plain", st->listen_plain),
		log_str("admin", st->listen_admin), log_str("usage", st->cluster.usage_listen),
		log_int("port", http_server_port(s->tls)), log_int("workers", st->workers),
		log_int("max_connections", st->max_connections),
		log_int("claim_ttl_ms", st->claim_ttl_ms),
		log_int("drain_delay_ms", st->drain_delay_ms),
		log_int("reload_interval_ms", st->reload_interval_ms));
}

/* ---- run ---- */

/* The next signal, or 0 after that many milliseconds; < 0: wait for ever. */
static int wait_signal(const struct server *s, int64_t ms)
{
	struct timespec limit = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	for (;;) {
		int sig = sigtimedwait(&s->signals, NULL, ms < 0 ? NULL : &limit);

		if (sig > 0)
			return sig;
		if (errno != EINTR)
			return 0;
	}
}

static void run(struct server *s)
{
	for (;;) {
		int64_t every = s->reload.settings.reload_interval_ms;
		int sig = wait_signal(s, every > 0 ? every : -1);

		if (sig == SIGTERM || sig == SIGINT)
			return;
		if (sig == SIGHUP) {
			log_text(&s->log, LOG_LEVEL_INFO, "reload: SIGHUP");
			reload_now(&s->reload);
		} else {
			reload_poll(&s->reload);
		}
	}
}

/* Readiness off; answer on until nobody sends new reviews here; a second signal ends the wait. */
static void drain(struct server *s)
{
	int64_t end = clock_ms() + s->reload.settings.drain_delay_ms, left;

	log_line(&s->log, LOG_LEVEL_INFO, "draining",
		log_int("drain_delay_ms", s->reload.settings.drain_delay_ms));
	atomic_store(&s->plain.draining, true);
	http_server_drain_begin(s->tls);
	/* Another replica leads from now on; reviews are answered on. */
	cluster_stop(s->cluster);
	while ((left = end - clock_ms()) > 0) {
		int sig = wait_signal(s, left);

		if (sig == SIGTERM || sig == SIGINT)
			return;
	}
}

static bool stop(struct server *s)
{
	struct http_server *tls = s->tls;
	bool whole;

	/* /readyz answers 503 by now; /metrics lets go of the TLS server before it ends. */
	(void)http_server_stop(s->admin_http, PLAIN_FINISH_MS);
	(void)http_server_stop(s->usage_http, PLAIN_FINISH_MS);
	s->admin_http = s->usage_http = NULL;
	plain_listeners_show(&s->plain, NULL);
	whole = http_server_stop(tls, FINISH_MS);
	(void)http_server_stop(s->plain_http, PLAIN_FINISH_MS);
	s->tls = s->plain_http = NULL;
	return whole;
}

static void free_parts(struct server *s)
{
	(void)stop(s);
	admission_free(s->admission);
	image_look_free(s->images);
	cluster_free(s->cluster);
	plan_keys_free(s->keys);
	settings_release(&s->cluster_settings);
	ledger_memory_free(s->reload.ledger);
	tls_identity_free(s->reload.identity);
	tls_trust_free(s->reload.clients);
	metrics_free(s->reload.metrics);
	decisions_free(s->decisions);
	config_store_release(&s->store);
	plain_listeners_release(&s->plain);
}

static int serve(struct server *s)
{
	struct err err = {0};
	int code;

	if (make_parts(s, &err) != 0 || reload_first(&s->reload, &err) != 0) {
		log_line(&s->log, LOG_LEVEL_ERROR, "cannot start", log_str("error", err.msg));
		code = serve_exit_code(&err);
	} else if (listen_all(s, &err) != 0) {
		log_line(&s->log, LOG_LEVEL_ERROR, "cannot listen", log_str("error", err.msg));
		code = SERVE_FAILED;
	} else if (s->cluster && cluster_start(s->cluster, &err) != 0) {
		log_line(&s->log, LOG_LEVEL_ERROR, "cannot start", log_str("error", err.msg));
		code = SERVE_FAILED;
	} else {
		log_start(s);
		run(s);
		drain(s);
		if (!stop(s))
			log_text(&s->log, LOG_LEVEL_WARN,
				"ended with reviews that were answered 500 because they took too "
				"long");
		log_text(&s->log, LOG_LEVEL_INFO, "ended");
		code = SERVE_DONE;
	}
	free_parts(s);
	return code;
}

/* Lists of thousands of objects come and go, on any thread: what they took goes back to the system
 * instead of staying in a heap of each thread. Before any thread exists. */
static void keep_heap_small(void)
{
	(void)mallopt(M_ARENA_MAX, 2);
	(void)mallopt(M_MMAP_THRESHOLD, 512 * 1024);
	(void)mallopt(M_TRIM_THRESHOLD, 1024 * 1024);
}

int serve_main(int argc, char **argv)
{
	struct server *s = calloc(1, sizeof(*s));
	struct err err = {0};
	struct settings *st;
	int code;

	if (!s) {
		(void)fputs("poolgate serve: out of memory\n", stderr);
		return SERVE_FAILED;
	}
	thread_hold_signals(&s->signals);
	keep_heap_small();
	st = &s->reload.settings;
	s->reload.argc = argc > 0 ? argc - 1 : 0;
	s->reload.argv = argc > 0 ? argv + 1 : argv;
	s->reload.total_gpu_memory = getenv("TOTAL_GPU_MEMORY");
	code = settings_load(s->reload.argc, s->reload.argv, s->reload.total_gpu_memory, st, &err);
	if (code == 0 && !st->help && !st->check)
		code = settings_check_serve(st, &err);
	log_init(&s->log, STDERR_FILENO);
	if (code != 0) {
		(void)fprintf(stderr, "poolgate serve: %s\n", err.msg);
		/* What was read is never ERR_SYNTAX here: settings_load keeps that for flags. */
		code = code == ERR_SYNTAX ? SERVE_USAGE : serve_exit_code(&err);
	} else if (st->help) {
		settings_help(stdout);
	} else if (st->check) {
		code = serve_check(st);
	} else {
		(void)log_set_format(&s->log, st->log_format, NULL);
		(void)log_set_level(&s->log, st->log_level, NULL);
		log_never_wait(&s->log, &s->log_pipe);
		code = serve(s);
	}
	reload_release(&s->reload);
	free(s);
	return code;
}
