/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the leader's duty that keeps the GPUPool. */
#include "webhook/cluster/reconcile/pool_keeper.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/rfc3339.h"
#include "webhook/cluster/duty/duty.h"
#include "webhook/core/pool/pool_status.h"

#define PAUSE_MS 1000
#define EVERY_MS 60000
#define ABSENT_MS 60000
#define WAITING_MS 1000
/* From show(): it cannot be written for now. */
#define ABSENT 0
#define BODY_MAX_BYTES ((size_t)1 << 20)
/* Of a view without claims: 10 000 servers with 8 GPUs take about 12 MiB. */
#define VIEW_MAX ((size_t)256 << 20)
#define MAKE_BODY                                                                                  \
	"{\"apiVersion\":\"poolgate.io/v1alpha1\",\"kind\":\"GPUPool\",\"metadata\":{\"name\":"    \
	"\"" POOL_NAME "\"}}"

struct pool_keeper {
	struct duty *duty;
	const struct pool_keeper_config *cfg;
	struct buf shown; /* what was written last */
	char since[RFC3339_SIZE];
	int64_t written_ms;
	bool told; /* that it cannot be written */
};

static int64_t usual(int set_ms, int64_t usual_ms)
{
	return set_ms ? set_ms : usual_ms;
}

static int patch(struct pool_keeper *k, const struct buf *body, struct err *err)
{
	struct kube_call call = {.method = "PATCH",
		.path = POOLS_PATH "/" POOL_NAME "/status",
		.content_type = KUBE_MERGE_PATCH,
		.text = body};

	return kube_do(k->cfg->kube, &call, NULL, err);
}

static int make(struct pool_keeper *k, struct err *err)
{
	struct kube_call call = {.method = "POST", .path = POOLS_PATH, .body = SLICE(MAKE_BODY)};
	int rc = kube_do(k->cfg->kube, &call, NULL, err);

	/* somebody else was faster */
	return rc == ERR_CONFLICT ? 0 : rc;
}

/* Make the object if there is none. */
static int write(struct pool_keeper *k, const struct pool_status *status, struct err *err)
{
	struct buf body;
	int rc;

	buf_init(&body, BODY_MAX_BYTES);
	buf_str(&body, "{\"status\":");
	pool_status_write(status, &body);
	buf_char(&body, '}');
	rc = patch(k, &body, err);
	if (kube_says_gone(rc, err)) {
		rc = make(k, err);
		if (rc == 0)
			rc = patch(k, &body, err);
	}
	buf_release(&body);
	return rc;
}

/* No such kind, or no right to it. */
static bool absent(int rc)
{
	return rc == ERR_NOTFOUND || rc == ERR_REFUSED;
}

static void tell(struct pool_keeper *k, int rc, const struct err *err)
{
	if (!k->told && absent(rc))
		log_line(k->cfg->log, LOG_LEVEL_INFO,
			"no GPUPool is kept: components/gpupool is not installed",
			log_str("error", err->msg));
	else if (!k->told)
		log_line(k->cfg->log, LOG_LEVEL_WARN, "the GPUPool cannot be written",
			log_str("error", err->msg));
	k->told = true;
}

/* Write what is new. The time until the next call. */
static int64_t show(struct pool_keeper *k, struct pool_status *status, struct err *err)
{
	struct buf now;
	int64_t left = k->written_ms + usual(k->cfg->every_ms, EVERY_MS) - clock_ms();
	bool same;
	int rc;

	buf_init(&now, BODY_MAX_BYTES);
	pool_status_write(status, &now);
	same = !now.failed && k->shown.len && slice_eq(buf_as_slice(&k->shown), buf_as_slice(&now));
	if (same && left > 0) {
		buf_release(&now);
		return left;
	}
	if (!same)
		rfc3339_write(clock_wall_ms(), k->since);
	status->since = k->since;
	rc = write(k, status, err);
	if (rc == 0) {
		buf_release(&k->shown);
		k->shown = now;
		k->written_ms = clock_ms();
		k->told = false;
		return usual(k->cfg->every_ms, EVERY_MS);
	}
	buf_release(&now);
	tell(k, rc, err);
	return absent(rc) ? ABSENT : WAITING_MS;
}

static int64_t tick(void *ctx, struct duty *d)
{
	struct pool_keeper *k = ctx;
	struct err err = {0};
	struct pool_status status;
	struct pool_view view;
	struct arena a;
	int64_t next = WAITING_MS;

	if (!servers_synced(k->cfg->servers))
		return WAITING_MS;
	arena_init(&a, VIEW_MAX);
	if (k->cfg->ledger->ops->view(k->cfg->ledger, false, &a, &view, &err) == 0 &&
		pool_status_of(&view, &a, &status, &err) == 0)
		next = show(k, &status, &err);
	arena_release(&a);
	/* however often it is woken */
	(void)duty_sleep(d, next == ABSENT ? usual(k->cfg->absent_ms, ABSENT_MS)
					   : usual(k->cfg->pause_ms, PAUSE_MS));
	return next;
}

static void stop(void *running)
{
	struct pool_keeper *k = running;

	duty_stop(k->duty);
	buf_release(&k->shown);
	free(k);
}

static int start(void *ctx, void **ret, struct err *err)
{
	struct pool_keeper *k = calloc(1, sizeof(*k));

	if (k) {
		k->cfg = ctx;
		buf_init(&k->shown, BODY_MAX_BYTES);
	}
	return duty_keep(k, "pool-keeper", tick, ret, err);
}

struct leader_duty pool_keeper_duty(struct pool_keeper_config *cfg)
{
	return (struct leader_duty){.name = "pool-keeper",
		.start = start,
		.stop = stop,
		.servers_changed = duty_wake_keeper,
		.ctx = cfg};
}
