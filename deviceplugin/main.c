/* SPDX-License-Identifier: Apache-2.0 */
/* poolgate-device-plugin: offers bitfusion.io/gpu on its node for as long as the pool has GPUs that
 * take claims. One thread, which waits in poll() alone. */
#define _GNU_SOURCE

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/metric.h"
#include "base/signals.h"
#include "deviceplugin/alone.h"
#include "deviceplugin/device_options.h"
#include "deviceplugin/pool_watch.h"
#include "net/status_server.h"

/* Lists are shown this far apart at least: what comes in between is one change. */
#define SHOW_EVERY_MS 500
/* What could not be shown for want of memory is tried again after that. */
#define SHOW_AGAIN_MS 1000
/* For the kubelet to hear that the devices are withdrawn. */
#define FAREWELL_MS 1000
/* Without a place to listen for that long: a container may have to be made anew. */
#define PLACELESS_MS 60000
/* Nobody listens for that long: the kubelet may have passed over the socket. It looks at one that
 * appears. Then twice as long, and so on. */
#define UNHEARD_MS 15000
#define UNHEARD_MAX_MS 600000
#define EXIT_USAGE 2
#define EXIT_NOT_SERVED 1

struct program {
	struct device_options options;
	struct log log;
	struct log_pipe log_pipe;
	struct kube_config config;
	struct plugin *plugin;
	struct pool_watch *pool;
	struct grpc_server *server;
	struct status_server *status;
	struct alone alone;
	bool lockless; /* it was taken away, and not got back yet */
	int signals;
	/* What the plugin was told last, and when. */
	bool told, known;
	uint64_t units;
	int64_t told_ms;
	int64_t listening_ms; /* when it last had a place, */
	int64_t heard_ms;     /* and when somebody listened, or was called */
	int64_t unheard_ms;   /* how long it is waited until that is done again */
	bool settled;         /* everything runs, and did already */
};

/* ---- health and metrics ---- */

static const char *unready(void *ctx)
{
	const struct program *p = ctx;
	struct plugin_facts f = plugin_facts(p->plugin);

	if (!grpc_server_listens(p->server))
		return "the socket is gone and cannot be made anew";
	if (f.streams == 0)
		return "the kubelet does not listen";
	return NULL;
}

static void gauge(struct buf *out, const char *name, const char *help, uint64_t value)
{
	metric_head(out, name, help, METRIC_GAUGE);
	metric_sample(out, name, NULL, 0, (int64_t)value, 1);
}

static void counter(struct buf *out, const char *name, const char *help, uint64_t value)
{
	metric_head(out, name, help, METRIC_COUNTER);
	metric_sample(out, name, NULL, 0, (int64_t)value, 1);
}

static void metrics(void *ctx, struct buf *out)
{
	const struct program *p = ctx;
	struct plugin_facts f = plugin_facts(p->plugin);
	struct pool_now pool = pool_watch_now(p->pool);

	gauge(out, "poolgate_device_plugin_devices", "Devices in the list.", f.units);
	gauge(out, "poolgate_device_plugin_healthy", "1 while they are offered.", f.healthy);
	gauge(out, "poolgate_device_plugin_registered",
		"1 when the kubelet has taken up this plugin.", f.registered);
	gauge(out, "poolgate_device_plugin_streams", "Kubelets that listen: 1 is right.",
		f.streams);
	counter(out, "poolgate_device_plugin_refused_total",
		"Registrations that the kubelet refused.", f.refused);
	counter(out, "poolgate_device_plugin_lists_total", "Lists that were shown.", f.lists);
	counter(out, "poolgate_device_plugin_allocated_total",
		"Containers that were given devices.", f.allocated);
	gauge(out, "poolgate_device_plugin_pool_known",
		"0 when the pool was not listed yet, or the API server is away.", pool.known);
	gauge(out, "poolgate_device_plugin_pool_watched", "1 while the pool is watched.",
		pool.connected);
	gauge(out, "poolgate_device_plugin_pool_servers", "GPUServers.", pool.servers);
	gauge(out, "poolgate_device_plugin_pool_units",
		"100 for each GPU of the pool that takes claims.", pool.units);
	counter(out, "poolgate_device_plugin_watch_breaks_total",
		"Times that the watch of the pool broke.", pool.breaks);
}

/* ---- the loop ---- */

static int64_t sooner(int64_t a, int64_t b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* Tell the plugin of the pool when it changed, but not too often. Milliseconds until it is to be
 * done; -1: nothing is. */
static int64_t offer(struct program *p)
{
	struct pool_now pool = pool_watch_now(p->pool);
	int64_t now = clock_ms();
	struct err err = {0};

	if (p->told && p->known == pool.known && p->units == pool.units)
		return -1;
	if (now < p->told_ms)
		return p->told_ms - now;
	p->told_ms = now + SHOW_EVERY_MS;
	p->known = pool.known;
	p->units = pool.units;
	p->told = plugin_pool(p->plugin, pool.known, pool.units, &err) == 0;
	if (p->told)
		return -1;
	log_line(&p->log, LOG_LEVEL_ERROR, "the kubelet is not told", log_str("error", err.msg));
	p->told_ms = now + SHOW_AGAIN_MS;
	return SHOW_AGAIN_MS;
}

/* A kubelet that lost us looks at sockets that appear. */
static void be_heard(struct program *p)
{
	int64_t now = clock_ms();

	if (plugin_facts(p->plugin).streams > 0) {
		p->heard_ms = now;
		p->unheard_ms = UNHEARD_MS;
	}
	if (now - p->heard_ms < p->unheard_ms || !grpc_server_listens(p->server))
		return;
	log_line(&p->log, LOG_LEVEL_WARN, "no kubelet listens: the socket is made anew",
		log_str("socket", p->options.socket), log_int("waited_s", p->unheard_ms / 1000));
	(void)unlink(p->options.socket);
	p->heard_ms = now;
	p->unheard_ms = p->unheard_ms < UNHEARD_MAX_MS / 2 ? 2 * p->unheard_ms : UNHEARD_MAX_MS;
}

static bool has_place(struct program *p)
{
	int64_t now = clock_ms();

	if (grpc_server_listens(p->server))
		p->listening_ms = now;
	if (now - p->listening_ms < PLACELESS_MS)
		return true;
	log_line(&p->log, LOG_LEVEL_ERROR, "no place to listen: ends",
		log_str("socket", p->options.socket));
	return false;
}

/* Whoever empties the folder takes the lock away, and another plugin could begin. False: one has.
 */
static bool is_alone(struct program *p)
{
	struct err err = {0};
	bool anew;
	int rc = alone_still(&p->alone, &anew, &err);

	if (rc == ERR_CONFLICT) {
		log_line(&p->log, LOG_LEVEL_ERROR, "the lock was taken away: ends",
			log_str("error", err.msg));
		return false;
	}
	if (rc != 0 && !p->lockless)
		log_line(&p->log, LOG_LEVEL_WARN, "the lock was taken away",
			log_str("error", err.msg));
	if (anew)
		log_line(&p->log, LOG_LEVEL_WARN, "the lock was taken away, and is held anew",
			log_str("lock", p->alone.path));
	p->lockless = rc != 0;
	return true;
}

/* Milliseconds until the place and the kubelet want to look again. */
static int64_t patience(const struct program *p)
{
	int64_t now = clock_ms(), left = -1;

	if (!grpc_server_listens(p->server))
		left = p->listening_ms + PLACELESS_MS - now;
	else if (plugin_facts(p->plugin).streams == 0)
		left = p->heard_ms + p->unheard_ms - now;
	else
		return -1;
	return left > 0 ? left : 0;
}

/* False: a signal said so. */
static bool wait_for_something(struct program *p, int64_t limit_ms)
{
	struct pollfd fd[3 + STATUS_POLL_MAX] = {
		{.fd = p->signals, .events = POLLIN},
		{.fd = grpc_server_fd(p->server), .events = POLLIN},
	};
	const char *signal;
	int64_t ms;
	nfds_t n = 3;

	limit_ms = sooner(limit_ms, pool_watch_poll(p->pool, &fd[2]));
	if (p->status) {
		n += (nfds_t)status_server_poll(p->status, fd + 3, &ms);
		limit_ms = sooner(limit_ms, ms);
	}
	/* A millisecond more than too early, and never longer than poll() can count. */
	if (limit_ms > 0)
		limit_ms = limit_ms < 3600000 ? limit_ms + 1 : 3600000;
	if (poll(fd, n, (int)limit_ms) < 0 && errno != EINTR) {
		log_line(
			&p->log, LOG_LEVEL_ERROR, "poll", log_str("error", strerrordesc_np(errno)));
		return false;
	}
	signal = signals_came(p->signals);
	if (!signal)
		return true;
	log_line(&p->log, LOG_LEVEL_INFO, "ends", log_str("signal", signal));
	return false;
}

static int run(struct program *p)
{
	int64_t limit_ms = 0;

	p->listening_ms = p->heard_ms = clock_ms();
	p->unheard_ms = UNHEARD_MS;
	p->told = true; /* that it is not known */
	while (wait_for_something(p, limit_ms)) {
		pool_watch_turn(p->pool);
		limit_ms = offer(p);
		be_heard(p);
		/* before the socket is made anew */
		if (!is_alone(p))
			return EXIT_NOT_SERVED;
		limit_ms = sooner(limit_ms, grpc_server_turn(p->server));
		if (p->status)
			status_server_turn(p->status);
		if (!has_place(p))
			return EXIT_NOT_SERVED;
		limit_ms = sooner(limit_ms, patience(p));
		if (p->lockless)
			limit_ms = sooner(limit_ms, ALONE_AGAIN_MS);
		if (!p->settled && p->known && plugin_facts(p->plugin).streams > 0) {
			p->settled = true;
			memory_settle();
		}
	}
	plugin_withdraw(p->plugin);
	return EXIT_SUCCESS;
}

/* ---- start and end ---- */

static int start(struct program *p, struct err *err)
{
	const struct device_options *o = &p->options;
	const struct status_app app = {.ctx = p, .unready = unready, .metrics = metrics};
	int rc = signals_open(&p->signals, err);

	if (rc == 0)
		rc = o->kubeconfig ? kube_config_load(o->kubeconfig, &p->config, err)
				   : kube_config_in_cluster(getenv("KUBERNETES_SERVICE_HOST"),
					     getenv("KUBERNETES_SERVICE_PORT"), KUBE_ACCOUNT_DIR,
					     &p->config, err);
	if (rc == 0)
		rc = kube_config_verifies(&p->config, err);
	if (rc == 0)
		rc = plugin_new(o->socket, o->units, &o->gives, &p->log, &p->plugin, err);
	if (rc == 0)
		rc = alone_hold(&p->alone, o->socket, err);
	if (rc == 0)
		rc = pool_watch_new(&p->config, o->away_ms, &p->log, &p->pool, err);
	if (rc == 0 && o->status)
		rc = status_server_new(o->status, &app, &p->status, err);
	if (rc == 0)
		rc = grpc_server_new(
			o->socket, plugin_methods(), p->plugin, &p->log, &p->server, err);
	return rc;
}

static int serve(struct program *p)
{
	struct err err = {0};
	int status = EXIT_NOT_SERVED;

	/* What kube_config_release may be given before anything was read. */
	p->config = (struct kube_config){.ca_fd = -1, .cert_fd = -1, .key_fd = -1};
	if (start(p, &err) != 0) {
		log_line(&p->log, LOG_LEVEL_ERROR, "cannot serve", log_str("error", err.msg));
		status = err.code == ERR_INVALID || err.code == ERR_SYNTAX ||
					 err.code == ERR_NOTFOUND
				 ? EXIT_USAGE
				 : EXIT_NOT_SERVED;
	} else {
		log_line(&p->log, LOG_LEVEL_INFO, "serving", log_str("version", POOLGATE_VERSION),
			log_str("socket", p->options.socket), log_str("status", p->options.status),
			log_int("port", p->status ? status_server_port(p->status) : 0));
		status = run(p);
	}
	grpc_server_free(p->server, FAREWELL_MS);
	status_server_free(p->status);
	pool_watch_free(p->pool);
	plugin_free(p->plugin);
	kube_config_release(&p->config);
	if (p->signals >= 0)
		(void)close(p->signals);
	alone_release(&p->alone);
	return status;
}

int main(int argc, char **argv)
{
	struct program p = {.signals = -1, .alone.fd = -1};
	struct err err = {0};
	int status = EXIT_SUCCESS;

	memory_begin(65536);
	log_init(&p.log, STDERR_FILENO);
	log_never_wait(&p.log, &p.log_pipe);
	if (device_options_read(argc, argv, &p.options, &p.log, &err) != 0) {
		(void)fprintf(stderr,
			"poolgate-device-plugin: %s; `poolgate-device-plugin --help` tells more\n",
			err.msg);
		status = EXIT_USAGE;
	} else if (p.options.answer == DEVICE_HELP) {
		device_options_help(stdout);
	} else if (p.options.answer == DEVICE_VERSION) {
		(void)printf("poolgate-device-plugin %s\n", POOLGATE_VERSION);
	} else {
		status = serve(&p);
	}
	device_options_release(&p.options);
	return status;
}
