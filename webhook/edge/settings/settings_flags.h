/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the server's command line, ours and the origin's, as a list of flags with their values. For
 * settings.c. */
#ifndef WEBHOOK_EDGE_SETTINGS_SETTINGS_FLAGS_H
#define WEBHOOK_EDGE_SETTINGS_SETTINGS_FLAGS_H

#include <stddef.h>

#include "base/err.h"
#include "webhook/edge/settings/settings.h"

enum flag_id {
	FLAG_CONFIG,
	FLAG_LISTEN,
	FLAG_PORT, /* the origin's: a port on all addresses */
	FLAG_LISTEN_PLAIN,
	FLAG_LISTEN_ADMIN,
	FLAG_TLS_CERT,
	FLAG_TLS_KEY,
	FLAG_CLIENT_CA,
	FLAG_CLIENT_NAME,
	FLAG_CLIENT_CATALOGUE,
	FLAG_SIDECAR_CONFIG,
	FLAG_CLIENT_SHELL,
	FLAG_LAUNCHERS,
	FLAG_DEFAULT_LAUNCHER,
	FLAG_POOL,
	FLAG_POLICIES,
	FLAG_CLUSTER,
	FLAG_KUBECONFIG,
	FLAG_NAMESPACE,
	FLAG_CLAIM_TTL,
	FLAG_TOTAL_GPU_MEMORY,
	FLAG_NODE_RESOURCE,
	FLAG_SECRET_WITHOUT_CLAIM,
	FLAG_LOG_FORMAT,
	FLAG_LOG_LEVEL,
	FLAG_WORKERS,
	FLAG_MAX_CONNECTIONS,
	FLAG_DRAIN_DELAY,
	FLAG_RELOAD_INTERVAL,
	FLAG_CHECK,
	FLAG_HELP,
	FLAG_IGNORED /* the origin's logging flags, and a literal 2>&1 */
};

/* One flag as it was given. */
struct flag {
	enum flag_id id;
	const char *name;  /* as written, with its dashes: "-port" */
	const char *value; /* NULL for a flag that takes none */
};

/* The next flag of argv from *index on, which is moved behind it. 1: *ret is filled; 0: the end;
 * ERR_SYNTAX: an unknown flag, a missing value, a value too many, or a word that is no flag. *ret
 * borrows from argv; name from buf. */
int flag_next(int argc, char *const *argv, int *index, char buf[static 64], struct flag *ret,
	struct err *err);

/* ---- settings_values.c ---- */

/* The flag's value into s, over what it holds. FLAG_CONFIG changes nothing: it is read before all
 * others, by settings_flag_path. ERR_INVALID with "flag …: found …, expected …"; ERR_NOMEM. */
int settings_flag_apply(struct settings *s, const struct flag *f, struct err *err);
/* The same for one path: copied, and who named it is remembered. */
int settings_flag_path(struct settings *s, const struct flag *f, const char **ret, struct err *err);
/* A sentence that the log says at the start; past SETTINGS_NOTES_MAX, or without memory, it is
 * dropped. */
__attribute__((format(printf, 2, 3))) void settings_note(struct settings *s, const char *fmt, ...);

#endif
