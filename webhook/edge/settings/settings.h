/* SPDX-License-Identifier: Apache-2.0 */
/* edge: what the server was told: its config file, the command line over it, and one environment
 * variable between them. docs/configuration.md is the table of all keys and flags. */
#ifndef WEBHOOK_EDGE_SETTINGS_SETTINGS_H
#define WEBHOOK_EDGE_SETTINGS_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "net/tls_trust.h"
#include "webhook/core/launcher/config.h"

#define SETTINGS_NOTES_MAX 32
#define SETTINGS_LAUNCHERS_MAX 64
#define SETTINGS_REGISTRIES_MAX 64
/* Hosts, or addresses, of one registry. */
#define SETTINGS_REGISTRY_NAMES_MAX 16
/* The names of all keys that wait for a restart. */
#define SETTINGS_KEYS_SIZE 128
/* Paths, those included that a flag replaced. */
#define SETTINGS_SOURCES_MAX (2 * SETTINGS_LAUNCHERS_MAX + 16)
/* Of the config file, the client catalogue, the sidecar config and one file of profiles. */
#define SETTINGS_FILE_MAX (1024 * 1024)

/* Who named a path: "poolgate.yaml:4: /pool: ", "flag --pool: ". */
struct settings_source {
	const char *path, *named_by;
};

/* The config file's `cluster`: the pool is the cluster's GPUServer objects, and claims are kept in
 * them. */
struct cluster_settings {
	bool on;
	const char *kubeconfig; /* NULL: the pod's service account */
	const char *namespace;  /* NULL: the service account's, or the kubeconfig's */
	const char *service;    /* the Service that API servers call: the name in the certificate */
	const char *lease;
	const char *webhooks; /* name of both webhook configurations; NULL: there are none */
	/* Where the serving pair is when there are no files (tls.cert, tls.key). */
	const char *tls_secret, *ca_secret;
	bool tls_manage; /* the leader makes and renews it, and tells the API servers of the CA */
	int64_t ca_valid_ms, serving_valid_ms, publish_wait_ms, drop_wait_ms;
	bool policies,
		policies_required; /* GPUPolicies are watched; every namespace must pick one */
	bool waiting; /* places come late: the leader writes them, and takes gates away */
	enum when_full when_full;
	int64_t reserve_ms; /* a pod has waited for so long: what frees up is kept for it */
	struct slice *priority_classes; /* whose priority counts among pods that wait */
	size_t n_priority_classes;
	bool eviction;          /* pods with a claim that find no node are evicted */
	int64_t evict_after_ms; /* after that time */
	/* "ADDR:PORT" of the TLS server that shows what is used; NULL: off */
	const char *usage_listen;
	bool usage; /* the leader has what is used counted and stored (law P7) */
	bool secrets_sync;
	const char *secrets_source; /* NAMESPACE/NAME */
	int64_t probe_every_ms;
	int64_t pending_share; /* percent of the pool (rule R12) */
	int64_t max_grace_ms;  /* of pods that ask for GPUs, in whole seconds (rule R13) */
};

struct registry; /* webhook/core/image/image.h */

/* Everything in force. Strings live in the arena; paths are as the program must open them. */
struct settings {
	struct arena arena;
	const char *config; /* the config file, NULL for none */

	const char *listen;       /* "ADDR:PORT" of the TLS server */
	const char *listen_plain; /* NULL: off */
	const char *listen_admin; /* NULL: off */
	const char *tls_cert, *tls_key;
	const char *client_ca; /* NULL: clients are asked for no certificate */
	const char *client_names[TLS_TRUST_NAMES_MAX]; /* none: whomever the CA signed for */
	size_t n_client_names;

	const char *client_catalogue, *sidecar_config; /* both or neither */
	const char *client_shell; /* of the profile that these two make; NULL: sh */
	const char *launchers[SETTINGS_LAUNCHERS_MAX]; /* files or folders */
	size_t n_launchers;
	const char *default_launcher; /* NULL: not said */
	const char *pool;             /* file or folder of GPUServer documents; NULL: none */
	const char *policies;  /* file or folder of GPUPolicy and Namespace documents; NULL: none */
	int64_t claim_ttl_ms;  /* 0: claims have no end of their own */
	uint64_t total_gpu_mb; /* 0: not set */
	const char *total_gpu_from; /* who said it: a flag, TOTAL_GPU_MEMORY, a file; NULL when
				       nobody */
	bool node_resource;         /* injected pods ask their node for bitfusion.io/gpu */
	bool secret_without_claim;
	struct registry
		*registries; /* that may be asked what images start; none: no image is looked at */
	size_t n_registries;
	struct cluster_settings cluster;

	const char *log_format, *log_level;
	unsigned workers, max_connections;
	int64_t drain_delay_ms;
	int64_t reload_interval_ms; /* 0: SIGHUP alone */

	bool check; /* --check */
	bool help;  /* --help: nothing else is set */
	/* What was accepted but has no effect, in sentences for the log. */
	const char *notes[SETTINGS_NOTES_MAX];
	size_t n_notes;
	struct settings_source sources[SETTINGS_SOURCES_MAX];
	size_t n_sources;
};

/* Read them. argv without the program's and the subcommand's name; total_gpu_memory is the
 * environment variable's value (NULL when not set). A flag wins over the environment, the
 * environment over the file, the file over the default. Flags take one dash or two, and their value
 * behind '=' or as the next word. The origin's flags are among them. ret is inited here and must be
 * released in every case. ERR_SYNTAX: the command line is wrong (exit 2); everything else is about
 * what was read: ERR_INVALID, ERR_NOTFOUND, ERR_IO, ERR_TOOBIG, ERR_NOMEM. */
int settings_load(int argc, char *const *argv, const char *total_gpu_memory, struct settings *ret,
	struct err *err);
void settings_release(struct settings *s);

/* What a server needs beyond what others read settings for: a certificate (files, or in a cluster a
 * Secret), one pool, and in a cluster workers. ERR_INVALID. */
int settings_check_serve(const struct settings *s, struct err *err);

/* err (may be NULL) is about a file: when it could not be opened or read (ERR_NOTFOUND, ERR_IO),
 * put in front who named the path that it speaks of. Other errors stay as they are. Returns err's
 * code. */
int settings_blame(const struct settings *s, struct err *err);

/* Do two settings differ in what only a restart can change (listeners, workers, connections, log)?
 * The names of all keys that do, "listen, workers", are written to ret; false and "" when there is
 * none. */
bool settings_needs_restart(const struct settings *now, const struct settings *next,
	char ret[static SETTINGS_KEYS_SIZE]);

/* What --help prints: all flags. */
void settings_help(FILE *out);

#endif
