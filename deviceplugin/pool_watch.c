/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: the GPUServers as a table, watched and counted. */
#include "deviceplugin/pool_watch.h"

#include <malloc.h>
#include <stdlib.h>

#include "base/clock.h"
#include "deviceplugin/gpu_count.h"
#include "kube/object_watch.h"

#define POOL_PATH "/apis/poolgate.io/v1alpha1/gpuservers?includeObject=None"
/* One page of the list, or a refusal; a row has about 100 bytes. */
#define PAGE_MAX (4u << 20)
#define PAGE_ADVICE                                                                                \
	"500 GPUServers as a table are a tenth of that, so limit or the table was not "            \
	"understood: let the plugin ask the API server itself, or a proxy that passes its query "  \
	"and Accept on"

struct pool_watch {
	const struct log *log;
	int64_t away_ms;
	const char *server; /* of the API, for the log */
	struct object_watch *watch;
	/* What is known. */
	struct gpu_count count, next; /* next: of the list on its way */
	bool listing, listed, connected;
	int64_t broken_ms;
	uint64_t breaks;
};

/* ---- what the reflector tells ---- */

static void on_listing(void *ctx)
{
	struct pool_watch *w = ctx;

	gpu_count_release(&w->next);
	w->listing = true;
}

static int on_change(void *ctx, enum kube_change what, const struct json *j,
	const struct json_node *table, struct err *err)
{
	struct pool_watch *w = ctx;
	uint64_t before = w->count.fit;
	int rc;

	if (w->listing)
		return gpu_count_table(&w->next, j, table, false, err);
	/* A bookmark's row is nobody's, but the first event of a watch alone has the columns. */
	rc = what == KUBE_BOOKMARK ? gpu_count_columns(&w->count, j, table, err)
				   : gpu_count_table(&w->count, j, table, what == KUBE_GONE, err);
	if (w->count.fit != before)
		log_line(w->log, LOG_LEVEL_DEBUG, "the pool changed",
			log_int("servers", (int64_t)w->count.n),
			log_int("gpus", (int64_t)w->count.fit));
	return rc;
}

static void on_listed(void *ctx, const char *version)
{
	struct pool_watch *w = ctx;

	(void)version;
	gpu_count_release(&w->count);
	w->count = w->next;
	w->next = (struct gpu_count){0};
	w->listing = false;
	w->listed = true;
	/* The pages of a large pool were a peak. */
	(void)malloc_trim(0);
}

static void on_connected(void *ctx, bool yes, const struct err *why)
{
	struct pool_watch *w = ctx;
	w->connected = yes;
	if (yes) {
		log_line(w->log, LOG_LEVEL_INFO, "the pool is watched",
			log_str("server", w->server), log_int("servers", (int64_t)w->count.n),
			log_int("gpus", (int64_t)w->count.fit));
		return;
	}
	w->broken_ms = clock_ms();
	w->breaks++;
	log_line(w->log, LOG_LEVEL_WARN, "the pool is not watched", log_str("server", w->server),
		log_str("error", why->msg));
}

/* ---- from outside ---- */

void pool_watch_turn(struct pool_watch *w)
{
	object_watch_turn(w->watch);
}

int64_t pool_watch_poll(const struct pool_watch *w, struct pollfd *ret)
{
	int64_t now = clock_ms(), ms = object_watch_poll(w->watch, ret);
	int64_t left = w->broken_ms + w->away_ms - now;

	return !w->connected && w->listed && left > 0 && left < ms ? left : ms;
}

struct pool_now pool_watch_now(const struct pool_watch *w)
{
	return (struct pool_now){
		.known = w->listed && (w->connected || clock_ms() - w->broken_ms < w->away_ms),
		.connected = w->connected,
		.units = w->count.fit * POOL_UNITS_PER_GPU,
		.servers = w->count.n,
		.breaks = w->breaks,
	};
}

/* ---- start and end ---- */

int pool_watch_new(const struct kube_config *config, int64_t away_ms, const struct log *log,
	struct pool_watch **ret, struct err *err)
{
	struct pool_watch *w = calloc(1, sizeof(*w));
	struct reflector_config cfg = {.path = POOL_PATH,
		.tables = true,
		.answer_max = PAGE_MAX,
		.advice = PAGE_ADVICE,
		.app = {w, on_listing, on_change, on_listed, on_connected, NULL}};
	int rc;

	if (!w)
		return err_set(err, ERR_NOMEM, "out of memory for watching the pool");
	w->away_ms = away_ms;
	w->log = log;
	w->server = config->server;
	rc = object_watch_new(config, &cfg, "poolgate-device-plugin", &w->watch, err);
	if (rc != 0) {
		pool_watch_free(w);
		return rc;
	}
	*ret = w;
	return 0;
}

void pool_watch_free(struct pool_watch *w)
{
	if (!w)
		return;
	object_watch_free(w->watch);
	gpu_count_release(&w->count);
	gpu_count_release(&w->next);
	free(w);
}
