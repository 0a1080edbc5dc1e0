/* SPDX-License-Identifier: Apache-2.0 */
/* edge: what the server was told: defaults, then the file, then the environment, then the command
 * line. */
#include "webhook/edge/settings/settings.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "webhook/core/launcher/config.h"
#include "webhook/edge/settings/settings_file.h"
#include "webhook/edge/settings/settings_flags.h"

/* ---- reading ---- */

#define ARENA_BYTES (8u * 1024 * 1024)

#define DAY_MS INT64_C(86400000)
/* Each review that waits for the API server takes one; in a cluster more must be able to wait at
 * one time, to share commits. */
#define WORKERS_UNSET UINT_MAX
#define WORKERS_DEFAULT 2
#define WORKERS_DEFAULT_CLUSTER 32

static void help_rows(const struct setting *rows, size_t n, FILE *out)
{
	for (size_t i = 0; i < n; i++) {
		char flag[64];

		(void)snprintf(flag, sizeof(flag), "%s%s%s", rows[i].flag ? rows[i].flag : "",
			rows[i].arg ? " " : "", rows[i].arg ? rows[i].arg : "");
		if (rows[i].help)
			(void)fprintf(out, *rows[i].help ? "  --%-25s %s\n" : "  --%s\n", flag,
				rows[i].help);
		help_rows(rows[i].in, rows[i].n_in, out);
	}
}

void settings_help(FILE *out)
{
	(void)fputs("usage: poolgate serve [flags]\n"
		    "\n"
		    "The admission server: /mutate and /validate over HTTPS.\n"
		    "\n",
		out);
	help_rows(settings_table, settings_table_n, out);
	(void)fputs("\n"
		    "Also accepted, as the origin wrote them: -port N, -tlsCertFile, -tlsKeyFile, "
		    "-sidecarCfgFile,\n"
		    "-bitfusionClientConfig; -v, -alsologtostderr and the like have no effect.\n"
		    "\n"
		    "SIGHUP, or a changed file: config, pool and certificate are read again. "
		    "SIGTERM: drain and exit.\n"
		    "Exit status: 0 ended as asked, 1 cannot serve, 2 wrong flags, 3 something "
		    "that was read is wrong.\n"
		    "\n"
		    "Examples:\n"
		    "  poolgate serve --config poolgate.yaml --check\n"
		    "  poolgate serve --tls-cert tls/tls.crt --tls-key tls/tls.key --launchers "
		    "launchers --pool servers\n",
		out);
}

void settings_cluster_defaults(struct cluster_settings *c)
{
	*c = (struct cluster_settings){.service = "poolgate",
		.lease = "poolgate-leader",
		.webhooks = "poolgate",
		.tls_secret = "poolgate-tls",
		.ca_secret = "poolgate-ca",
		.tls_manage = true,
		.ca_valid_ms = 3650 * DAY_MS,
		.serving_valid_ms = 90 * DAY_MS,
		.publish_wait_ms = 60000,
		.drop_wait_ms = 60000,
		.secrets_source = "kube-system/bitfusion-secret",
		.probe_every_ms = 10000,
		.reserve_ms = 600000,
		.evict_after_ms = 600000,
		.pending_share = 25,
		.max_grace_ms = 3600000};
}

static void set_defaults(struct settings *s)
{
	*s = (struct settings){.listen = ":8443",
		.listen_plain = ":8080",
		.listen_admin = "127.0.0.1:8081",
		.node_resource = true,
		.secret_without_claim = true,
		.log_format = "text",
		.log_level = "info",
		.workers = WORKERS_UNSET,
		.max_connections = 512,
		.drain_delay_ms = 5000,
		.reload_interval_ms = 2000};
	settings_cluster_defaults(&s->cluster);
	arena_init(&s->arena, ARENA_BYTES);
}

/* ---- all of them ---- */

/* First look: is the command line well formed, is help asked for (1), where is the config file? */
static int survey(struct settings *s, const struct flag *f, struct err *err)
{
	if (f->row->at == offsetof(struct settings, help)) {
		s->help = true;
		return 1;
	}
	return f->row->at == offsetof(struct settings, config) ? settings_flag_apply(s, f, err) : 0;
}

/* Flags replace a list of the file. */
static int forget_list(struct settings *s, const struct flag *f, struct err *err)
{
	(void)err;
	if (f->row->n_at)
		*(size_t *)(void *)((char *)s + f->row->n_at) = 0;
	return 0;
}

static int apply_environment(struct settings *s, const char *text, struct err *err)
{
	struct err why = {0};

	if (!text || !*text)
		return 0;
	if (config_total_memory(slice_of(text), &s->total_gpu_mb, &why) != 0)
		return err_set(
			err, ERR_INVALID, "environment variable TOTAL_GPU_MEMORY: %s", why.msg);
	s->total_gpu_from = "the environment";
	return 0;
}

/* What belongs together. */
static int check_whole(const struct settings *s, struct err *err)
{
	if (s->n_client_names && !s->client_ca)
		return err_set(err, ERR_INVALID,
			"found names of clients (--client-name, tls.clientNames) and no CA, "
			"expected --client-ca (tls.clientCA): a name is worth what its CA is");
	if (!s->client_catalogue != !s->sidecar_config)
		return err_set(err, ERR_INVALID,
			"found %s alone, expected the client catalogue (--client-catalogue or "
			"clientCatalogue) and the sidecar config (--sidecar-config or "
			"sidecarConfig) "
			"together",
			s->client_catalogue ? s->client_catalogue : s->sidecar_config);
	if (s->client_shell && !s->client_catalogue)
		return err_set(err, ERR_INVALID,
			"found the shell %s, which belongs to the Bitfusion profile, without that "
			"profile's "
			"--client-catalogue and --sidecar-config; other profiles have a key "
			"\"shell\"",
			s->client_shell);
	if (!s->client_catalogue && s->n_launchers == 0)
		return err_set(err, ERR_INVALID,
			"found no launcher, expected --client-catalogue with --sidecar-config, or "
			"--launchers");
	return 0;
}

int settings_check_serve(const struct settings *s, struct err *err)
{
	if (s->cluster.on && s->policies)
		return err_set(err, ERR_INVALID,
			"found a cluster and policies of files (--policies, policies), expected "
			"one "
			"of them: in a cluster they are GPUPolicy objects (cluster.policies)");
	if (s->cluster.on && (s->pool || s->claim_ttl_ms))
		return err_set(err, ERR_INVALID,
			"found a cluster and %s, expected one of them: in a cluster the pool is "
			"its "
			"GPUServer objects, and claims end with their pods",
			s->pool ? "a pool of files (--pool, pool)" : "--claim-ttl");
	if (s->n_registries > 0 && s->workers == 0)
		return err_set(err, ERR_INVALID,
			"found no workers, expected at least one: reviews wait for registries");
	if (s->cluster.on && s->workers == 0)
		return err_set(err, ERR_INVALID,
			"found no workers, expected at least one: in a cluster reviews wait for "
			"the "
			"API server");
	if ((s->tls_cert && s->tls_key) || (s->cluster.on && !s->tls_cert && !s->tls_key))
		return 0;
	return err_set(err, ERR_INVALID,
		"found no %s, expected --tls-cert and --tls-key (tls.cert and tls.key in the "
		"config "
		"file); `poolgate certs init` makes a pair",
		s->tls_cert ? "TLS key" : "TLS certificate");
}

static bool on_loopback(const char *listen)
{
	return strncmp(listen, "127.", 4) == 0 || strncmp(listen, "[::1]", 5) == 0 ||
	       strncmp(listen, "localhost:", 10) == 0;
}

int settings_load(int argc, char *const *argv, const char *total_gpu_memory, struct settings *ret,
	struct err *err)
{
	int rc;

	set_defaults(ret);
	rc = settings_flags(argc, argv, ret, survey, err);
	if (rc < 0 || ret->help)
		return rc < 0 ? rc : 0;
	if ((ret->config && (rc = settings_file(ret, err)) != 0) ||
		(rc = apply_environment(ret, total_gpu_memory, err)) != 0 ||
		(rc = settings_flags(argc, argv, ret, forget_list, err)) != 0 ||
		(rc = settings_flags(argc, argv, ret, settings_flag_apply, err)) != 0)
		return rc;
	if (ret->workers == WORKERS_UNSET)
		ret->workers = ret->cluster.on ? WORKERS_DEFAULT_CLUSTER : WORKERS_DEFAULT;
	if (ret->listen_admin && !on_loopback(ret->listen_admin))
		settings_note(ret,
			"the admin listener %s can be reached from other machines: it names pods "
			"and "
			"ends claims for whoever asks",
			ret->listen_admin);
	return check_whole(ret, err);
}

void settings_release(struct settings *s)
{
	arena_release(&s->arena);
	*s = (struct settings){0};
}

/* ---- what waits for a restart ---- */

static bool texts_differ(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) != 0 : a != b;
}

static bool classes_differ(const struct cluster_settings *a, const struct cluster_settings *b)
{
	if (a->n_priority_classes != b->n_priority_classes)
		return true;
	for (size_t i = 0; i < a->n_priority_classes; i++)
		if (!slice_eq(a->priority_classes[i], b->priority_classes[i]))
			return true;
	return false;
}

static bool differ(
	const struct setting *row, const struct settings *now, const struct settings *next)
{
	const void *a = (const char *)now + row->at, *b = (const char *)next + row->at;

	if (row->flags & SETTING_LIVE)
		return false;
	for (size_t i = 0; i < row->n_in; i++)
		if (differ(&row->in[i], now, next))
			return true;
	switch ((int)row->kind) {
	case SETTING_MAP:
		return row->at && *(const bool *)a != *(const bool *)b;
	case SETTING_BOOL:
		return *(const bool *)a != *(const bool *)b;
	case SETTING_COUNT:
		return *(const unsigned *)a != *(const unsigned *)b;
	case SETTING_NUMBER:
	case SETTING_DURATION:
		return *(const int64_t *)a != *(const int64_t *)b;
	case SETTING_SLICES:
		return classes_differ(&now->cluster, &next->cluster);
	default:
		return row->flags & SETTING_FIXED_WHETHER
			       ? !*(char *const *)a != !*(char *const *)b
			       : texts_differ(*(const char *const *)a, *(const char *const *)b);
	}
}

static void list_fixed(const struct setting *rows, size_t n, const char *in,
	const struct settings *now, const struct settings *next, char *keys)
{
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(keys);
		bool fixed = rows[i].flags & (SETTING_FIXED | SETTING_FIXED_WHETHER);

		if (rows[i].kind == SETTING_MAP && !fixed)
			list_fixed(rows[i].in, rows[i].n_in, rows[i].key, now, next, keys);
		else if (fixed && differ(&rows[i], now, next))
			(void)snprintf(keys + len, SETTINGS_KEYS_SIZE - len, "%s%s%s%s",
				len ? ", " : "", in ? in : "", in ? "." : "", rows[i].key);
	}
}

bool settings_needs_restart(const struct settings *now, const struct settings *next,
	char ret[static SETTINGS_KEYS_SIZE])
{
	ret[0] = '\0';
	list_fixed(settings_table, settings_table_n, NULL, now, next, ret);
	return ret[0] != '\0';
}

/* ---- who named a path ---- */

/* Without memory, or past the table's end, the sentence merely says less. */
static void add(struct settings *s, const char *path, const char *named_by)
{
	if (named_by && s->n_sources < SETTINGS_SOURCES_MAX)
		s->sources[s->n_sources++] = (struct settings_source){path, named_by};
}

void settings_source_flag(struct settings *s, const char *path, const char *flag)
{
	add(s, path, arena_fmt(&s->arena, "flag %s: ", flag));
}

void settings_source_node(struct settings *s, const char *path, const struct yaml_node *node)
{
	struct err place = {0};

	(void)yaml_err(node, &place, ERR_INVALID, "%s", "");
	add(s, path, arena_strdup(&s->arena, slice_of(place.msg)));
}

/* Does the sentence speak of this path, or of a file in that folder? As a word: a path may be one
 * letter. */
static bool speaks_of(const char *msg, const char *path, size_t len)
{
	for (const char *at = msg; (at = strstr(at, path)); at++)
		if ((at == msg || at[-1] == ' ') && (!at[len] || strchr(": /", at[len])))
			return true;
	return false;
}

int settings_blame(const struct settings *s, struct err *err)
{
	const struct settings_source *best = NULL;
	size_t best_len = 0;

	if (!err || (err->code != ERR_NOTFOUND && err->code != ERR_IO))
		return err ? (int)err->code : 0;
	/* A folder and a file in it may both be named: the longest is meant; of equal ones the
	 * last, which won. */
	for (size_t i = 0; i < s->n_sources; i++) {
		size_t len = strlen(s->sources[i].path);

		if (len >= best_len && speaks_of(err->msg, s->sources[i].path, len)) {
			best = &s->sources[i];
			best_len = len;
		}
	}
	return best ? err_set(err, err->code, "%s%s", best->named_by, err->msg) : (int)err->code;
}
