/* SPDX-License-Identifier: Apache-2.0 */
/* gate: what the API server tells of the GPUServer. */
#include "gate/gate_impl.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

#define SERVERS_PATH "/apis/poolgate.io/v1alpha1/gpuservers?fieldSelector=metadata.name%3D"
/* One object; etcd takes 1.5 MiB. */
#define ANSWER_MAX (4u << 20)

static void on_listing(void *ctx)
{
	struct gate *g = ctx;

	g->listing = true;
	g->seen = false;
}

static void gone(struct gate *g, const char *why)
{
	picture_release(&g->picture);
	g->readable = false;
	g->changed = true;
	(void)snprintf(g->unreadable, sizeof(g->unreadable), "%s", why);
}

static int on_change(void *ctx, enum kube_change what, const struct json *j,
	const struct json_node *object, struct err *err)
{
	struct gate *g = ctx;
	struct err why = {0};
	int rc;

	g->good_ms = clock_ms();
	if (what == KUBE_BOOKMARK || !slice_is(kube_meta(j, object).name, g->o->server))
		return 0;
	if (what == KUBE_GONE) {
		gone(g, "the GPUServer has been deleted");
		return 0;
	}
	g->seen = true;
	rc = picture_read(&g->picture, j, object, &why);
	if (rc == ERR_NOMEM)
		return err_set(err, ERR_NOMEM, "%s", why.msg);
	if (rc != 0) {
		/* Who is in stays; nobody comes in by what cannot be read. */
		g->readable = false;
		(void)snprintf(g->unreadable, sizeof(g->unreadable), "the GPUServer: %.40s: %.90s",
			why.path, why.msg);
		log_line(&g->log, LOG_LEVEL_ERROR, "the GPUServer cannot be read",
			log_str("path", why.path), log_str("error", why.msg));
		return 0;
	}
	g->readable = true;
	g->changed = true;
	return 0;
}

static void on_listed(void *ctx, const char *version)
{
	struct gate *g = ctx;

	(void)version;
	g->listing = false;
	g->good_ms = clock_ms();
	if (!g->seen)
		gone(g, "there is no GPUServer of this name");
}

static void on_connected(void *ctx, bool yes, const struct err *why)
{
	struct gate *g = ctx;

	g->connected = yes;
	if (yes) {
		log_line(&g->log, LOG_LEVEL_INFO, "the GPUServer is watched",
			log_str("server", g->o->server),
			log_int("claims", (int64_t)g->picture.n_claims));
		return;
	}
	g->good_ms = clock_ms();
	metric_add(g->metrics, METRIC_BREAKS, 0, 0, 1);
	log_line(&g->log, LOG_LEVEL_WARN, "the GPUServer is not watched",
		log_str("server", g->o->server), log_str("error", why ? why->msg : NULL));
}

int gate_watch_open(struct gate *g, struct err *err)
{
	char path[512];
	const struct reflector_config watch = {.path = path,
		.answer_max = ANSWER_MAX,
		.app = {g, on_listing, on_change, on_listed, on_connected, NULL}};
	int rc = g->o->kubeconfig ? kube_config_load(g->o->kubeconfig, &g->kube, err)
				  : kube_config_in_cluster(getenv("KUBERNETES_SERVICE_HOST"),
					    getenv("KUBERNETES_SERVICE_PORT"), KUBE_ACCOUNT_DIR,
					    &g->kube, err);

	(void)snprintf(path, sizeof(path), "%s%s", SERVERS_PATH, g->o->server);
	if (rc == 0)
		rc = kube_config_verifies(&g->kube, err);
	return rc ? rc : object_watch_new(&g->kube, &watch, "gpugate", &g->watch, err);
}
