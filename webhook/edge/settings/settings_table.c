/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the table of all settings. docs/configuration.md says what each means. */
#include "webhook/edge/settings/settings_table.h"

#include <string.h>

#include "base/text.h"
#include "webhook/edge/settings/settings_file.h"

#define DAY_MS INT64_C(86400000)
#define CLAIM_TTL_MAX_MS (10 * 366 * DAY_MS)
#define VALID_MAX_MS (100 * 366 * DAY_MS)
#define WAIT_MAX_MS (30 * DAY_MS)
#define DRAIN_DELAY_MAX_MS (10 * 60 * 1000)
#define RELOAD_MIN_MS 100
#define RELOAD_MAX_MS (60 * 60 * 1000)
#define WORKERS_MAX 64
#define CONNECTIONS_MAX 65536
#define CLIENT_NAME_MAX 255
#define OBJECT_NAME_MAX 253

bool settings_check_client_name(struct slice text)
{
	return text.len > 0 && text.len <= CLIENT_NAME_MAX && !memchr(text.at, 0, text.len);
}

/* A shell's path: one word without NUL. */
static bool is_shell(struct slice text)
{
	struct slice rest = text, word;

	return text_word(&rest, &word) && word.len == text.len && !memchr(text.at, 0, text.len);
}

/* An object's name: it goes into paths of the API. */
static bool is_name(struct slice s)
{
	if (s.len == 0 || s.len > OBJECT_NAME_MAX)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		char c = s.at[i];

		if (!text_is_lower_alnum(c) && c != '-' && c != '.')
			return false;
	}
	return true;
}

static bool is_name_in_namespace(struct slice s)
{
	const char *slash = s.len ? memchr(s.at, '/', s.len) : NULL;
	size_t front = slash ? (size_t)(slash - s.at) : 0;

	return slash && is_name((struct slice){s.at, front}) &&
	       is_name((struct slice){slash + 1, s.len - front - 1});
}

/* ---- rows ---- */

/* The offset of a member that is of this very type. */
#define AT(tag, member, type)                                                                      \
	_Generic(((struct tag *)NULL)->member, type : offsetof(struct tag, member))
/* Behind the member its key and its flag; then, of a flag, its value and its help; then what else
 * the row needs, by names. */
#define ROW(kind_, member, type, key_, ...)                                                        \
	{                                                                                          \
		.kind = (kind_), .at = AT(settings, member, type), .key = (key_),                  \
		.flag = __VA_ARGS__                                                                \
	}
#define BOOL(member, ...) ROW(SETTING_BOOL, member, bool, __VA_ARGS__)
#define COUNT(member, ...) ROW(SETTING_COUNT, member, unsigned, __VA_ARGS__)
#define DURATION(member, ...) ROW(SETTING_DURATION, member, int64_t, __VA_ARGS__)
#define WORD(member, ...) ROW(SETTING_WORD, member, const char *, __VA_ARGS__)
#define TEXT(member, ...) ROW(SETTING_TEXT, member, const char *, __VA_ARGS__)
#define PATH(member, ...) ROW(SETTING_PATH, member, const char *, __VA_ARGS__)
#define LISTEN(member, ...) ROW(SETTING_LISTEN, member, const char *, __VA_ARGS__)
#define LIST(kind_, member, ...)                                                                   \
	{                                                                                          \
		.kind = (kind_), .at = AT(settings, member[0], const char *),                      \
		.n_at = AT(settings, n_##member, size_t),                                          \
		.max = sizeof(((struct settings *)NULL)->member) / sizeof(const char *),           \
		.key = __VA_ARGS__                                                                 \
	}
#define ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))
#define MAP(rows, ...)                                                                             \
	{                                                                                          \
		.kind = SETTING_MAP, .in = (rows), .n_in = ROWS(rows), .key = __VA_ARGS__          \
	}
#define NAME(member, key_, ...)                                                                    \
	TEXT(member, key_, __VA_ARGS__, .good = is_name,                                           \
		.expected = "an object's name: a-z, 0-9, '-' and '.'")
#define IGNORED(flag_)                                                                             \
	{                                                                                          \
		.kind = SETTING_IGNORED, .flag = (flag_)                                           \
	}
#define IGNORED_BOOL(flag_)                                                                        \
	{                                                                                          \
		.kind = SETTING_IGNORED_BOOL, .flag = (flag_)                                      \
	}

static const struct setting tls[] = {
	PATH(tls_cert, "cert", "tls-cert", "FILE", "certificate chain, PEM"),
	PATH(tls_key, "key", "tls-key", "FILE", "its key, PEM"),
	PATH(client_ca, "clientCA", "client-ca", "FILE",
		"reviews are answered to clients of these CAs alone, PEM",
		.flags = SETTING_FIXED_WHETHER),
	LIST(SETTING_TEXTS, client_names, "clientNames", "client-name", "NAME",
		"and of this common name; may be given several times [any]",
		.good = settings_check_client_name, .expected = "a common name of 1 to 255 bytes"),
};

static const char *const formats[] = {"text", "json", NULL};
static const char *const levels[] = {"error", "warn", "info", "debug", NULL};
static const struct setting logging[] = {
	WORD(log_format, "format", "log-format", "text|json", "[text]", .words = formats,
		.expected = "text or json", .flags = SETTING_FIXED),
	WORD(log_level, "level", "log-level", "LEVEL", "error, warn, info or debug [info]",
		.words = levels, .expected = "error, warn, info or debug", .flags = SETTING_FIXED),
};

static const struct setting cluster_tls[] = {
	NAME(cluster.tls_secret, "secret", NULL),
	NAME(cluster.ca_secret, "caSecret", NULL),
	BOOL(cluster.tls_manage, "manage", NULL),
	DURATION(cluster.ca_valid_ms, "caValidity", NULL, .min = 1000, .max = VALID_MAX_MS),
	DURATION(cluster.serving_valid_ms, "validity", NULL, .min = 1000, .max = VALID_MAX_MS),
	DURATION(cluster.publish_wait_ms, "publishWait", NULL, .max = WAIT_MAX_MS),
	DURATION(cluster.drop_wait_ms, "dropWait", NULL, .max = WAIT_MAX_MS),
};

static const struct setting secrets[] = {
	BOOL(cluster.secrets_sync, "sync", NULL),
	TEXT(cluster.secrets_source, "source", NULL, .good = is_name_in_namespace,
		.expected = "NAMESPACE/NAME"),
};

static const struct setting probe[] = {
	DURATION(cluster.probe_every_ms, "interval", NULL, .min = 1000, .max = DAY_MS),
};

/* In the order of enum when_full. */
static const char *const when_fulls[] = {"owned", "wait", "refuse", NULL};
static const struct setting waiting[] = {
	BOOL(cluster.waiting, "enabled", NULL),
	/* An enum without negative values is an unsigned to the compiler. */
	ROW(SETTING_CHOICE, cluster.when_full, unsigned, "whenFull", NULL, .words = when_fulls,
		.flags = SETTING_LIVE),
	DURATION(cluster.reserve_ms, "reserveAfter", NULL, .min = 1000, .max = WAIT_MAX_MS),
	ROW(SETTING_SLICES, cluster.priority_classes, struct slice *, "priorityClasses", NULL,
		.n_at = AT(settings, cluster.n_priority_classes, size_t), .good = is_name,
		.expected = "names of PriorityClasses"),
};

static const struct setting eviction[] = {
	BOOL(cluster.eviction, "enabled", NULL),
	DURATION(cluster.evict_after_ms, "after", NULL, .min = 1000, .max = WAIT_MAX_MS),
};

static const struct setting policies[] = {
	BOOL(cluster.policies, "enabled", NULL),
	BOOL(cluster.policies_required, "required", NULL),
};

static const struct setting usage[] = {
	BOOL(cluster.usage, "enabled", NULL),
	LISTEN(cluster.usage_listen, "listen", NULL, .flags = SETTING_OFF),
};

static const struct setting cluster[] = {
	PATH(cluster.kubeconfig, "kubeconfig", "kubeconfig", "FILE",
		"the same, with this file instead of the pod's account",
		.flags = SETTING_IN_CLUSTER),
	NAME(cluster.namespace, "namespace", "namespace", "NAME",
		"where our Lease and Secrets are"),
	NAME(cluster.service, "service", NULL),
	NAME(cluster.lease, "lease", NULL),
	NAME(cluster.webhooks, "webhooks", NULL),
	MAP(cluster_tls, "tls"),
	MAP(secrets, "secrets"),
	MAP(probe, "probe"),
	MAP(waiting, "waiting"),
	MAP(eviction, "eviction"),
	MAP(policies, "policies"),
	MAP(usage, "usage"),
	ROW(SETTING_NUMBER, cluster.pending_share, int64_t, "pendingShare", NULL, .min = 1,
		.max = 100),
	DURATION(cluster.max_grace_ms, "maxGracePeriod", NULL, .min = 1000, .max = DAY_MS),
};

const struct setting settings_table[] = {
	{.kind = SETTING_HEAD, .key = "apiVersion"},
	{.kind = SETTING_HEAD, .key = "kind"},
	PATH(config, NULL, "config", "FILE", "config file (YAML); flags win over it"),
	LISTEN(listen, "listen", "listen", "ADDR:PORT", "TLS server [:8443]",
		.flags = SETTING_FIXED),
	LISTEN(listen_plain, "listenPlain", "listen-plain", "ADDR:PORT",
		"/livez, /readyz, /metrics over HTTP; off: none [:8080]",
		.flags = SETTING_FIXED | SETTING_OFF),
	LISTEN(listen_admin, "listenAdmin", "listen-admin", "ADDR:PORT",
		"/v1/pool and /v1/release over HTTP; off: none [127.0.0.1:8081]",
		.flags = SETTING_FIXED | SETTING_OFF),
	MAP(tls, "tls"),
	PATH(client_catalogue, "clientCatalogue", "client-catalogue", "FILE", "Bitfusion clients"),
	PATH(sidecar_config, "sidecarConfig", "sidecar-config", "FILE",
		"what is injected for Bitfusion"),
	TEXT(client_shell, "clientShell", "client-shell", "PATH",
		"runs one-string commands of Bitfusion pods [sh]", .good = is_shell,
		.expected = "one word, such as /bin/bash"),
	LIST(SETTING_PATHS, launchers, "launchers", "launchers", "FILE|DIR",
		"launcher profiles; may be given several times"),
	TEXT(default_launcher, "defaultLauncher", "default-launcher", "NAME",
		"profile of pods without the annotation poolgate.io/launcher"),
	PATH(pool, "pool", "pool", "FILE|DIR", "GPUServer documents"),
	PATH(policies, "policies", "policies", "FILE|DIR",
		"GPUPolicy documents, and namespaces that pick them"),
	DURATION(claim_ttl_ms, "claimTtl", "claim-ttl", "DURATION",
		"claims end after this time; 0: never [0]", .max = CLAIM_TTL_MAX_MS,
		.expected = "a duration such as 24h, or 0 for claims without an end"),
	ROW(SETTING_TOTAL, total_gpu_mb, uint64_t, "totalGpuMemory", "total-gpu-memory", "SIZE",
		"memory of the nominal GPU: megabytes, or 16G, 16160Mi [$TOTAL_GPU_MEMORY]"),
	BOOL(node_resource, "nodeResource", "node-resource", "BOOL",
		"injected pods ask their node for bitfusion.io/gpu [true]"),
	BOOL(secret_without_claim, "secretWithoutClaim", "secret-without-claim", "BOOL",
		"refuse pods that use a client's Secret and ask for nothing [true]"),
	DURATION(drain_delay_ms, "drainDelay", "drain-delay", "DURATION",
		"answer on after SIGTERM, not ready [5s]", .max = DRAIN_DELAY_MAX_MS,
		.expected = "a duration from 0 to 10m"),
	MAP(logging, "log"),
	COUNT(workers, "workers", "workers", "N", "threads for what may wait [2]",
		.max = WORKERS_MAX, .flags = SETTING_FIXED),
	COUNT(max_connections, "maxConnections", "max-connections", "N",
		"TLS connections at a time [512]", .min = 1, .max = CONNECTIONS_MAX,
		.flags = SETTING_FIXED),
	DURATION(reload_interval_ms, "reloadInterval", "reload-interval", "DURATION",
		"look for changed files; 0: SIGHUP alone [2s]", .min = RELOAD_MIN_MS,
		.max = RELOAD_MAX_MS, .flags = SETTING_OR_ZERO,
		.expected = "a duration from 100ms to 1h, or 0 for SIGHUP alone"),
	{.kind = SETTING_REGISTRIES, .key = "registries"},
	MAP(cluster, "cluster", "cluster", .help = "the pool is the cluster's GPUServer objects",
		.at = AT(settings, cluster.on, bool), .flags = SETTING_FIXED),
	ROW(SETTING_SWITCH, check, bool, NULL, "check",
		.help = "read and verify everything, print what is in force, exit"),
	ROW(SETTING_SWITCH, help, bool, NULL, "help", .help = ""),
	ROW(SETTING_SWITCH, help, bool, NULL, "h"),
	/* the origin's */
	ROW(SETTING_PORT, listen, const char *, NULL, "port", .max = UINT16_MAX),
	PATH(tls_cert, NULL, "tlsCertFile", "FILE"),
	PATH(tls_key, NULL, "tlsKeyFile", "FILE"),
	PATH(sidecar_config, NULL, "sidecarCfgFile", "FILE"),
	PATH(client_catalogue, NULL, "bitfusionClientConfig", "FILE"),
	/* glog's, which the origin's manifests set */
	IGNORED("v"),
	IGNORED_BOOL("alsologtostderr"),
	IGNORED_BOOL("logtostderr"),
	IGNORED("stderrthreshold"),
	IGNORED("vmodule"),
	IGNORED("log_dir"),
	IGNORED("log_backtrace_at"),
};
const size_t settings_table_n = ROWS(settings_table);
_Static_assert(
	ROWS(settings_table) + ROWS(tls) + ROWS(logging) + ROWS(cluster) <= SETTINGS_ROWS_MAX,
	"room for all flags");
