/* SPDX-License-Identifier: Apache-2.0 */
/* gate: `gpugate serve`: one thread, which waits in the loop of connections alone, for the few
 * other descriptors as for them. */
#define _GNU_SOURCE
#include "gate/serve.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/signals.h"
#include "gate/gate_impl.h"
#include "gate/process/family.h"
#include "gate/process/mps_ask.h"
#include "net/listener.h"
#include "net/tls_identity.h"

#define PROFILE_BYTES_MAX (1u << 20)
#define PROFILE_ARENA_MAX (64u << 20)
/* Between two looks at the certificate's files. */
#define CERT_LOOK_MS 5000
/* Between two looks at descriptors that the loop has no room for. */
#define BLIND_MS 50
/* Until all servers have ended, at the end. */
#define FAREWELL_MS 3000
/* Where MPS is asked, beyond the grace: whoever manages us may kill them all with us, and those
 * that MPS has not ended would take others along. */
#define FAREWELL_MPS_MS (MPS_PATIENCE_MS + 1000)
/* What systemd's unit and the DaemonSet give us. */
#define STOP_MS 15000
#define POLL_MAX (3 + REVIEWS_MAX + 2 * STATUS_POLL_MAX)
#define EXIT_USAGE 2

_Static_assert(POLL_MAX <= LOOP_OTHERS_MAX, "the loop must have room for each of them");
_Static_assert(
	SERVER_PROFILE_GRACE_MAX_MS + FAREWELL_MPS_MS < STOP_MS, "else we are killed before");

/* What follows from another picture. */
static void heed(struct gate *g)
{
	if (!g->changed)
		return;
	g->changed = false;
	readmit_claims(&g->readmit, &g->picture);
	children_claims(g->children, &g->picture);
	guests_claims(g);
}

/* ---- the certificate ---- */

static int load_certificate(struct gate *g, struct err *err)
{
	g->mark = files_mark(g->o->cert) ^ files_mark(g->o->key);
	g->mark_ms = clock_ms();
	return tls_identity_load_files(g->identity, g->o->cert, g->o->key, err);
}

static void look_at_certificate(struct gate *g)
{
	struct err err = {0};

	if (clock_ms() - g->mark_ms < CERT_LOOK_MS)
		return;
	g->mark_ms = clock_ms();
	if (g->mark == (files_mark(g->o->cert) ^ files_mark(g->o->key)))
		return;
	if (load_certificate(g, &err) != 0)
		log_line(&g->log, LOG_LEVEL_ERROR, "the certificate in force stays",
			log_str("error", err.msg));
	else
		log_line(&g->log, LOG_LEVEL_INFO, "the certificate was read again",
			log_str("file", g->o->cert));
}

/* ---- the loop ---- */

static int64_t sooner(int64_t a, int64_t b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* False: a signal said so. */
static bool wait_for_something(struct gate *g, int64_t limit_ms)
{
	struct pollfd fd[POLL_MAX] = {
		{.fd = g->signals, .events = POLLIN},
		{.fd = g->listener, .events = POLLIN},
	};
	const char *signal;
	nfds_t n = 3;
	int64_t ms = g->accept_ms - clock_ms();

	if (ms > 0) {
		fd[1].fd = -1;
		limit_ms = sooner(limit_ms, ms);
	}
	limit_ms = sooner(limit_ms, object_watch_poll(g->watch, &fd[2]));
	n += reviews_poll(g->reviews, fd + n, &ms);
	limit_ms = sooner(limit_ms, ms);
	for (size_t i = 0; i < 2; i++)
		if (i ? g->tell : g->status) {
			n += status_server_poll(i ? g->tell : g->status, fd + n, &ms);
			limit_ms = sooner(limit_ms, ms);
		}
	/* A millisecond more than too early. */
	if (limit_ms > 0)
		limit_ms = limit_ms < CERT_LOOK_MS ? limit_ms + 1 : CERT_LOOK_MS;
	/* Whoever is not told of is looked at. */
	if (!loop_others_are(&g->others, fd, n))
		limit_ms = sooner(limit_ms, BLIND_MS);
	guests_carry(g, limit_ms);
	if (poll(fd, n, 0) < 0 && errno != EINTR) {
		log_line(
			&g->log, LOG_LEVEL_ERROR, "poll", log_str("error", strerrordesc_np(errno)));
		return false;
	}
	if (fd[1].revents)
		guests_accept(g);
	signal = fd[0].revents ? signals_came(g->signals) : NULL;
	if (!signal)
		return true;
	log_line(&g->log, LOG_LEVEL_INFO, "ends", log_str("signal", signal));
	return false;
}

static void run(struct gate *g)
{
	int64_t limit_ms = 0;

	while (wait_for_something(g, limit_ms)) {
		object_watch_turn(g->watch);
		heed(g);
		reviews_turn(g->reviews);
		limit_ms = children_turn(g->children);
		guests_turn(g);
		/* What they have started. */
		limit_ms = sooner(limit_ms, children_turn(g->children));
		limit_ms = sooner(limit_ms, guests_patience(g));
		limit_ms = sooner(limit_ms, CERT_LOOK_MS);
		if (g->gpus)
			limit_ms = sooner(limit_ms, gate_usage_turn(g));
		limit_ms = sooner(
			limit_ms, selftest_turn(&g->selftest, g->readable ? &g->picture : NULL));
		if (g->status)
			status_server_turn(g->status);
		if (g->tell)
			status_server_turn(g->tell);
		look_at_certificate(g);
	}
}

static bool has_servers(const struct gate *g, int64_t began)
{
	struct children_facts f = children_facts(g->children);
	int64_t ms = f.under_mps > 0 ? g->profile.grace_ms + FAREWELL_MPS_MS : FAREWELL_MS;

	return f.running + f.ending > 0 && clock_ms() < began + ms;
}

/* From now on the kernel refuses whoever comes: he would wait for one that looks at nobody. */
static void close_ports(struct gate *g)
{
	status_server_free(g->status);
	status_server_free(g->tell);
	g->status = g->tell = NULL;
	if (g->listener >= 0)
		(void)close(g->listener);
	g->listener = -1;
}

/* Connections and servers are ours alone: nothing of them stays. */
static void farewell(struct gate *g)
{
	int64_t began = clock_ms();

	(void)loop_others_are(&g->others, NULL, 0);
	close_ports(g);
	guests_cut_all(g);
	selftest_end(&g->selftest);
	children_end(g->children);
	while (has_servers(g, began)) {
		(void)loop_turn(g->loop, 20);
		(void)children_turn(g->children);
	}
}

/* ---- start and end ---- */

static int open_profile(struct gate *g, struct err *err)
{
	struct buf text;
	int rc;

	arena_init_small(&g->profile_arena, PROFILE_ARENA_MAX, 16384);
	buf_init(&text, PROFILE_BYTES_MAX);
	rc = files_read(g->o->profile, &text, err);
	if (rc == 0)
		rc = server_profile_read(
			g->o->profile, buf_as_slice(&text), &g->profile_arena, &g->profile, err);
	buf_release(&text);
	return rc;
}

static int open_gate(struct gate *g, struct err *err)
{
	uint16_t port;
	int rc;

	g->identity = tls_identity_new();
	g->tls = g->identity ? server_tls_new(g->identity) : NULL;
	g->metrics = gate_metrics_new();
	if (!g->tls || !g->metrics)
		return err_set(err, ERR_NOMEM, "out of memory");
	rc = load_certificate(g, err);
	if (rc == 0)
		rc = loop_open(&g->loop, err);
	if (rc == 0)
		rc = loop_others_open(g->loop, &g->others, err);
	if (rc == 0)
		rc = children_new(
			&(struct children_config){&g->profile, g->o->state, &g->log, g->loop},
			&g->children, err);
	g->selftest = (struct selftest){.log = &g->log,
		.children = g->children,
		.loop = g->loop,
		.looks = g->o->look_ms > 0,
		.usual = g->profile.usage.context_bytes};
	if (rc == 0)
		rc = listener_open(g->o->listen, 1024, 0, &g->listener, &port, err);
	if (rc == 0 && g->profile.mps_control && !family_of_machine())
		log_line(&g->log, LOG_LEVEL_WARN,
			"under MPS nobody will be ended, unless its daemon is where gpugate is",
			log_str("error", "gpugate does not see the machine's processes: as a pod "
					 "it needs hostPID"));
	if (rc == 0)
		log_line(&g->log, LOG_LEVEL_INFO, "serving", log_str("version", POOLGATE_VERSION),
			log_str("mode", gate_mode(g)), log_str("server", g->o->server),
			log_str("listen", g->o->listen), log_int("port", port),
			log_str("profile", g->profile.name));
	return rc;
}

static int start(struct gate *g, struct err *err)
{
	struct status_app app = {.ctx = g,
		.unready = gate_unready,
		.metrics = gate_metrics,
		.page = GATE_PAGE_PATH,
		.write_page = gate_usage_page};
	struct rlimit files;
	int rc = signals_open(&g->signals, err);

	/* Two for each connection. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	/* The key and tokens are in our memory. */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (rc == 0 && getrandom(&g->secret, sizeof(g->secret), 0) != (ssize_t)sizeof(g->secret))
		rc = err_set(err, ERR_IO, "no random numbers: %s", strerrordesc_np(errno));
	if (rc == 0)
		rc = open_profile(g, err);
	if (rc == 0)
		rc = gate_watch_open(g, err);
	if (rc == 0)
		rc = reviews_new(&g->kube, &g->reviews, err);
	if (rc == 0)
		rc = open_gate(g, err);
	if (rc == 0 && g->o->look_ms)
		rc = gate_usage_open(g, err);
	if (rc == 0 && g->o->status)
		rc = status_server_new(g->o->status, &app, &g->status, err);
	app.tls = g->tls;
	app.may = gate_usage_may;
	if (rc == 0 && g->o->tell)
		rc = status_server_new(g->o->tell, &app, &g->tell, err);
	return rc;
}

static void close_all(struct gate *g)
{
	close_ports(g);
	object_watch_free(g->watch);
	reviews_free(g->reviews);
	gate_usage_close(g);
	children_free(g->children);
	server_tls_free(g->tls);
	tls_identity_free(g->identity);
	metrics_free(g->metrics);
	picture_release(&g->picture);
	arena_release(&g->profile_arena);
	kube_config_release(&g->kube);
	loop_others_close(&g->others);
	if (g->loop >= 0)
		(void)close(g->loop);
	if (g->signals >= 0)
		(void)close(g->signals);
	carry_close_pipe(g->spare);
}

static int serve(struct gate *g)
{
	struct err err = {0};
	int status = EXIT_SUCCESS;

	g->loop = g->others.fd = g->listener = g->signals = g->spare[0] = -1;
	g->peers.per_minute = g->o->tries;
	g->nets.per_minute = g->o->tries * GUESTS_OF_NET_TRIES;
	/* What kube_config_release may be given before anything was read. */
	g->kube = (struct kube_config){.ca_fd = -1, .cert_fd = -1, .key_fd = -1};
	if (start(g, &err) == 0) {
		run(g);
		farewell(g);
	} else {
		log_line(&g->log, LOG_LEVEL_ERROR, "cannot serve", log_str("error", err.msg));
		status = err.code == ERR_INVALID || err.code == ERR_SYNTAX ||
					 err.code == ERR_NOTFOUND
				 ? EXIT_USAGE
				 : EXIT_FAILURE;
	}
	close_all(g);
	return status;
}

int gate_serve_main(int argc, char **argv)
{
	struct gate_serve_options options;
	struct gate *g = calloc(1, sizeof(*g));
	struct log_pipe pipe;
	struct err err = {0};
	int status = EXIT_SUCCESS;

	if (!g)
		return EXIT_FAILURE;
	memory_begin(CARRY_SPARE);
	log_init(&g->log, STDERR_FILENO);
	log_never_wait(&g->log, &pipe);
	g->o = &options;
	if (gate_serve_options_read(argc, argv, &options, &g->log, &err) != 0) {
		(void)fprintf(stderr, "gpugate: %s; `gpugate --help` tells more\n", err.msg);
		status = EXIT_USAGE;
	} else if (options.answer == GATE_HELP) {
		gate_help(stdout);
	} else {
		status = serve(g);
	}
	free(g);
	return status;
}
