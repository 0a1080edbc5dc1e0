/* SPDX-License-Identifier: Apache-2.0 */
/* edge: loads config, pool and certificate, at the start and whenever they change. Each is built
 * and verified before it replaces what is in force; what cannot be read changes nothing, is logged
 * and raises a metric. Main thread only. */
#ifndef WEBHOOK_EDGE_ADMIN_RELOAD_H
#define WEBHOOK_EDGE_ADMIN_RELOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "base/metric.h"
#include "net/tls_identity.h"
#include "net/tls_trust.h"
#include "webhook/core/pool/ledger.h"
#include "webhook/edge/metrics/metrics.h"
#include "webhook/edge/settings/config_store.h"
#include "webhook/edge/settings/settings.h"

#define RELOAD_PARTS 3 /* as in enum metric_what */

/* Does the validating hook hear of pods that read a Secret? A profile with another one would give
 * it to whoever asks. version changes with the answers. Any thread; covers NULL: nobody asks. */
struct secrets_heard {
	void *ctx;
	uint64_t (*version)(void *ctx);
	bool (*covers)(void *ctx, struct slice secret);
};

struct reload {
	/* Given by the caller, borrowed. */
	int argc;
	char *const *argv;
	const char *total_gpu_memory; /* the environment's */
	struct config_store *store;
	struct ledger
		*ledger; /* from ledger_memory_new; NULL in a cluster, where the pool is no file */
	struct tls_identity *identity;
	struct tls_trust *clients; /* NULL: nobody is asked for a certificate */
	struct metrics *metrics;
	const struct log *log;
	struct secrets_heard heard;

	struct settings settings;       /* in force; owned, see reload_release */
	uint64_t mark[RELOAD_PARTS];    /* of the files that were loaded last */
	uint64_t pending[RELOAD_PARTS]; /* seen once, not yet loaded */
	size_t n_servers, n_gpus;       /* of the pool in force */
};

/* Load all three for the first time with the settings that the caller has put into r->settings. The
 * first error is returned: nothing can be served then. */
int reload_first(struct reload *r, struct err *err);

/* Load all three again, now (SIGHUP). */
void reload_now(struct reload *r);

/* Look at the files; load what has changed since the last load and has not changed since the last
 * look, so that a file that is being written is not read by halves. */
void reload_poll(struct reload *r);

/* Free the settings. */
void reload_release(struct reload *r);

/* Put the settings' CAs and names in force; log may be NULL. Nothing when clients is NULL (this
 * server does not ask), or the settings name none any more (that waits for a restart). Errors as of
 * tls_trust_load_file, with who named the path; what is in force stays then. */
int client_ca_load(struct tls_trust *clients, const struct settings *s, const struct log *log,
	struct err *err);

#endif
