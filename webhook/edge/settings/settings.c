/* SPDX-License-Identifier: Apache-2.0 */
/* edge: what the server was told: defaults, then the file, then the environment, then the command
 * line. */
#include "webhook/edge/settings/settings.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "webhook/core/launcher/config.h"
#include "webhook/edge/settings/settings_file.h"
#include "webhook/edge/settings/settings_flags.h"

#define ARENA_BYTES (8u * 1024 * 1024)

const char settings_help[] =
	"usage: poolgate serve [flags]\n"
	"\n"
	"The admission server: /mutate and /validate over HTTPS.\n"
	"\n"
	"  --config FILE               config file (YAML); flags win over it\n"
	"  --listen ADDR:PORT          TLS server [:8443]\n"
	"  --listen-plain ADDR:PORT    /livez, /readyz, /metrics over HTTP; off: none [:8080]\n"
	"  --listen-admin ADDR:PORT    /v1/pool and /v1/release over HTTP; off: none "
	"[127.0.0.1:8081]\n"
	"  --tls-cert FILE             certificate chain, PEM\n"
	"  --tls-key FILE              its key, PEM\n"
	"  --client-ca FILE            reviews are answered to clients of these CAs alone, PEM\n"
	"  --client-name NAME          and of this common name; may be given several times [any]\n"
	"  --client-catalogue FILE     Bitfusion clients\n"
	"  --sidecar-config FILE       what is injected for Bitfusion\n"
	"  --client-shell PATH         runs one-string commands of Bitfusion pods [sh]\n"
	"  --launchers FILE|DIR        launcher profiles; may be given several times\n"
	"  --default-launcher NAME     profile of pods without the annotation "
	"poolgate.io/launcher\n"
	"  --pool FILE|DIR             GPUServer documents\n"
	"  --policies FILE|DIR         GPUPolicy documents, and namespaces that pick them\n"
	"  --cluster                   the pool is the cluster's GPUServer objects\n"
	"  --kubeconfig FILE           the same, with this file instead of the pod's account\n"
	"  --namespace NAME            where our Lease and Secrets are\n"
	"  --claim-ttl DURATION        claims end after this time; 0: never [0]\n"
	"  --total-gpu-memory SIZE     memory of the nominal GPU: megabytes, or 16G, 16160Mi "
	"[$TOTAL_GPU_MEMORY]\n"
	"  --node-resource BOOL        injected pods ask their node for bitfusion.io/gpu [true]\n"
	"  --secret-without-claim BOOL refuse pods that use a client's Secret and ask for "
	"nothing [true]\n"
	"  --drain-delay DURATION      answer on after SIGTERM, not ready [5s]\n"
	"  --reload-interval DURATION  look for changed files; 0: SIGHUP alone [2s]\n"
	"  --workers N                 threads for what may wait [2]\n"
	"  --max-connections N         TLS connections at a time [512]\n"
	"  --log-format text|json      [text]\n"
	"  --log-level LEVEL           error, warn, info or debug [info]\n"
	"  --check                     read and verify everything, print what is in force, exit\n"
	"  --help\n"
	"\n"
	"Also accepted, as the origin wrote them: -port N, -tlsCertFile, -tlsKeyFile, "
	"-sidecarCfgFile,\n"
	"-bitfusionClientConfig; -v, -alsologtostderr and the like have no effect.\n"
	"\n"
	"SIGHUP, or a changed file: config, pool and certificate are read again. SIGTERM: drain "
	"and exit.\n"
	"Exit status: 0 ended as asked, 1 cannot serve, 2 wrong flags, 3 something that was read "
	"is wrong.\n"
	"\n"
	"Examples:\n"
	"  poolgate serve --config poolgate.yaml --check\n"
	"  poolgate serve --tls-cert tls/tls.crt --tls-key tls/tls.key --launchers launchers "
	"--pool servers\n";

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

/* Lists of the file that flags replace. */
struct replaced {
	bool launchers, client_names;
};

/* First look: is the command line well formed, is help asked for, where is the config file, which
 * of its lists are replaced? */
static int survey(
	int argc, char *const *argv, struct settings *s, struct replaced *ret, struct err *err)
{
	struct flag f;
	char name[64];
	int index = 0, rc;

	*ret = (struct replaced){0};
	while ((rc = flag_next(argc, argv, &index, name, &f, err)) == 1) {
		if (f.id == FLAG_HELP) {
			s->help = true;
			return 0;
		}
		if (f.id == FLAG_LAUNCHERS)
			ret->launchers = true;
		if (f.id == FLAG_CLIENT_NAME)
			ret->client_names = true;
		if (f.id == FLAG_CONFIG && settings_flag_path(s, &f, &s->config, err) != 0)
			return (int)err->code;
	}
	return rc;
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
	struct replaced replaced;
	struct flag f;
	char name[64];
	int index = 0, rc;

	set_defaults(ret);
	if ((rc = survey(argc, argv, ret, &replaced, err)) != 0 || ret->help)
		return rc;
	if ((ret->config && (rc = settings_file(ret, err)) != 0) ||
		(rc = apply_environment(ret, total_gpu_memory, err)) != 0)
		return rc;
	if (replaced.launchers)
		ret->n_launchers = 0;
	if (replaced.client_names)
		ret->n_client_names = 0;
	while ((rc = flag_next(argc, argv, &index, name, &f, err)) == 1)
		if ((rc = settings_flag_apply(ret, &f, err)) != 0)
			return rc;
	if (rc != 0)
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

static bool differ(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) != 0 : a != b;
}

bool settings_needs_restart(const struct settings *now, const struct settings *next,
	char ret[static SETTINGS_KEYS_SIZE])
{
	const struct {
		const char *key;
		bool changed;
	} keys[] = {
		{"listen", differ(now->listen, next->listen)},
		{"listenPlain", differ(now->listen_plain, next->listen_plain)},
		{"listenAdmin", differ(now->listen_admin, next->listen_admin)},
		{"tls.clientCA", !now->client_ca != !next->client_ca},
		{"log.format", differ(now->log_format, next->log_format)},
		{"log.level", differ(now->log_level, next->log_level)},
		{"workers", now->workers != next->workers},
		{"cluster", settings_cluster_differ(&now->cluster, &next->cluster)},
		{"maxConnections", now->max_connections != next->max_connections},
	};
	size_t len = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i].changed)
			len += (size_t)snprintf(ret + len, SETTINGS_KEYS_SIZE - len, "%s%s",
				len ? ", " : "", keys[i].key);
	return len > 0;
}
