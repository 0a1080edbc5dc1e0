/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate serve --check`: would this configuration serve, and what would be in force? */
#include <inttypes.h>
#include <stdio.h>

#include "base/buf.h"
#include "net/tls_identity.h"
#include "net/tls_trust.h"
#include "webhook/cli/certs/certs.h"
#include "webhook/cli/usage/cli.h"
#include "webhook/core/image/image.h"
#include "webhook/core/inject/restricted.h"
#include "webhook/edge/admin/reload.h"
#include "webhook/edge/pool/gpu_servers.h"
#include "webhook/edge/settings/config_store.h"

#define TEXT_BYTES_MAX (256u * 1024)
#define POOL_ARENA_MAX (256u * 1024 * 1024)

static const char *or_off(const char *listen)
{
	return listen ? listen : "off";
}

static int complain(const struct err *err)
{
	(void)fprintf(stderr, "poolgate serve: %s\n", err->msg);
	return serve_exit_code(err);
}

/* "1h30m", "5s", "250ms" */
static void print_duration(const char *key, int64_t ms, const char *zero)
{
	(void)printf("%-20s", key);
	if (ms == 0) {
		(void)printf("%s\n", zero);
		return;
	}
	if (ms >= 3600000)
		(void)printf("%" PRId64 "h", ms / 3600000);
	if (ms / 60000 % 60)
		(void)printf("%" PRId64 "m", ms / 60000 % 60);
	if (ms / 1000 % 60)
		(void)printf("%" PRId64 "s", ms / 1000 % 60);
	if (ms % 1000)
		(void)printf("%" PRId64 "ms", ms % 1000);
	(void)printf("\n");
}

static void print_list(const char *what, const struct slice *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void)printf("%s%.*s", i ? " " : what, (int)list[i].len, list[i].at);
}

static void print_registry(const struct registry *r)
{
	(void)printf("%-20s%.*s", "registry", (int)r->host.len, r->host.at);
	print_list(", tokens from ", r->tokens, r->n_tokens);
	print_list(", manifests from ", r->manifests, r->n_manifests);
	print_list(", blobs from ", r->storage, r->n_storage);
	print_list(", inner addresses ", r->addresses, r->n_addresses);
	(void)printf("%s%s\n", r->ca ? ", CA " : "", r->ca ? r->ca : "");
}

static void print_settings(const struct settings *s)
{
	(void)printf("%-20s%s\n", "config", s->config ? s->config : "none");
	(void)printf("%-20s%s (TLS), %s (plain), %s (admin)\n", "listen", s->listen,
		or_off(s->listen_plain), or_off(s->listen_admin));
	if (s->cluster.usage_listen)
		(void)printf("%-20s%s (TLS)\n", "usage.listen", s->cluster.usage_listen);
	if (s->total_gpu_mb)
		(void)printf("%-20s%" PRIu64 " MB, from %s\n", "totalGpuMemory", s->total_gpu_mb,
			s->total_gpu_from);
	else
		(void)printf(
			"%-20snot set: requests by gpu-memory are refused\n", "totalGpuMemory");
	(void)printf("%-20s%s\n", "nodeResource", s->node_resource ? "true" : "false");
	(void)printf("%-20s%s\n", "secretWithoutClaim", s->secret_without_claim ? "true" : "false");
	for (size_t i = 0; i < s->n_registries; i++)
		print_registry(&s->registries[i]);
	print_duration("claimTtl", s->claim_ttl_ms, "0: claims have no end of their own");
	print_duration("drainDelay", s->drain_delay_ms, "0");
	print_duration("reloadInterval", s->reload_interval_ms, "0: SIGHUP alone");
	(void)printf(
		"%-20s%u workers, %u connections\n", "workers", s->workers, s->max_connections);
	for (size_t i = 0; i < s->n_notes; i++)
		(void)fprintf(stderr, "warning: %s\n", s->notes[i]);
}

/* ---- profiles ---- */

static const char *kind_name(enum profile_kind kind)
{
	switch (kind) {
	case PROFILE_WRAP:
		return "wrap";
	case PROFILE_PRELOAD:
		return "preload";
	case PROFILE_LIBPATH:
		return "libpath";
	case PROFILE_ENV:
		return "env";
	}
	return "?";
}

/* What Pod Security `restricted` would say. All clients have the same init containers but for their
 * texts. */
static void warn_restricted(const struct profile *p, const char *what, struct slice name,
	struct slice json, int (*check)(struct slice, struct buf *, struct err *))
{
	struct err err = {0};
	struct buf why;

	buf_init(&why, TEXT_BYTES_MAX);
	if (check(json, &why, &err) == 0 && why.len)
		(void)fprintf(stderr,
			"warning: profile %.*s: %s %.*s does not pass Pod Security restricted: "
			"%s\n",
			(int)p->name.len, p->name.at, what, (int)name.len, name.at, why.data);
	buf_release(&why);
}

static void print_profile(const struct config *c, const struct profile *p)
{
	(void)printf("%-20s%.*s%s: %s, %zu client%s, %zu init container%s, hash %016" PRIx64 "\n",
		"launcher", (int)p->name.len, p->name.at,
		p == c->default_profile ? " (default)" : "", kind_name(p->kind), p->n_clients,
		p->n_clients == 1 ? "" : "s", p->clients[0].n_inits,
		p->clients[0].n_inits == 1 ? "" : "s", p->hash);
	for (size_t i = 0; i < p->clients[0].n_inits; i++)
		warn_restricted(p, "init container", p->clients[0].inits[i].name,
			p->clients[0].inits[i].json, restricted_container);
	for (size_t i = 0; i < p->n_volumes; i++)
		warn_restricted(
			p, "volume", p->volumes[i].name, p->volumes[i].json, restricted_volume);
	if (p->can_fraction == CAN_BOOKKEEPING || p->can_memory == CAN_BOOKKEEPING)
		(void)fprintf(stderr,
			"warning: profile %.*s: shares of a GPU are counted, but the client does "
			"not "
			"hold a program to them\n",
			(int)p->name.len, p->name.at);
}

static void complain_each(void *ctx, const struct err *err)
{
	(void)ctx;
	(void)complain(err);
}

static int check_config(const struct settings *s)
{
	struct config_built *b;
	struct err err = {0};

	if (config_build_all(s, complain_each, NULL, &b, &err) != 0)
		return serve_exit_code(&err);
	for (size_t i = 0; i < b->config.n_profiles; i++)
		print_profile(&b->config, &b->config.profiles[i]);
	if (b->has_policies)
		(void)printf("%-20s%s: %zu of them, %zu namespace%s\n", "policies", s->policies,
			b->policies.n, b->policies.n_picks, b->policies.n_picks == 1 ? "" : "s");
	config_built_free(b);
	return SERVE_DONE;
}

/* ---- pool and certificate ---- */

static void print_lines(const char *text)
{
	while (*text) {
		int len = 0;

		while (text[len] && text[len] != '\n')
			len++;
		(void)fprintf(stderr, "warning: %.*s\n", len, text);
		text += len + (text[len] == '\n');
	}
}

static void print_pool(const struct inventory *inv, const char *path)
{
	uint64_t bytes = 0;
	size_t draining = 0;

	for (size_t i = 0; i < inv->n_servers; i++) {
		const struct gpu_server *server = &inv->servers[i];

		draining += server->drain;
		for (size_t g = 0; g < server->n_gpus; g++)
			bytes += server->gpus[g].bytes;
	}
	(void)printf("%-20s%s: %zu server%s (%zu draining), %zu GPU%s, %" PRIu64 " MB\n", "pool",
		path, inv->n_servers, inv->n_servers == 1 ? "" : "s", draining, inv->n_gpus,
		inv->n_gpus == 1 ? "" : "s", bytes / 1000000);
}

static int check_pool(const struct settings *s)
{
	struct inventory inv = {0};
	struct err err = {0};
	struct buf warnings;
	struct arena a;
	int rc;

	if (!s->pool) {
		(void)printf("%-20snone\n", "pool");
		(void)fprintf(stderr,
			"warning: no pool (--pool): every pod that asks for a GPU is refused\n");
		return SERVE_DONE;
	}
	arena_init(&a, POOL_ARENA_MAX);
	buf_init(&warnings, TEXT_BYTES_MAX);
	rc = gpu_servers_load(s->pool, &a, &inv, &warnings, &err);
	if (warnings.data)
		print_lines(warnings.data);
	if (rc == 0)
		print_pool(&inv, s->pool);
	buf_release(&warnings);
	arena_release(&a);
	(void)settings_blame(s, &err);
	return rc == 0 ? SERVE_DONE : complain(&err);
}

static int check_certificate(const struct settings *s)
{
	struct tls_identity *id;
	struct err err = {0};
	struct tls_info info;
	int rc;

	if (settings_check_serve(s, &err) != 0)
		return complain(&err);
	if (!s->tls_cert) {
		(void)printf("%-20sof the Secret %s of the cluster, which is not looked at\n",
			"certificate", s->cluster.tls_secret);
		return SERVE_DONE;
	}
	id = tls_identity_new();
	rc = id ? tls_identity_load_files(id, s->tls_cert, s->tls_key, &err)
		: err_set(&err, ERR_NOMEM, "out of memory");
	if (rc == 0 && tls_identity_info(id, &info)) {
		char until[CERTS_DATE_SIZE];

		(void)printf("%-20s%s: until %s, SHA-256 %s\n", "certificate", s->tls_cert,
			certs_date(info.not_after, until), info.fingerprint);
		if (info.warning[0])
			(void)fprintf(stderr, "warning: %s: %s\n", s->tls_cert, info.warning);
	}
	tls_identity_free(id);
	(void)settings_blame(s, &err);
	return rc == 0 ? SERVE_DONE : complain(&err);
}

static int check_clients(const struct settings *s)
{
	struct tls_trust_info info;
	struct err err = {0};
	struct tls_trust *t;
	int rc;

	if (!s->client_ca)
		return SERVE_DONE;
	t = tls_trust_new();
	rc = t ? client_ca_load(t, s, NULL, &err) : err_set(&err, ERR_NOMEM, "out of memory");
	if (rc == 0 && tls_trust_info(t, &info)) {
		char until[CERTS_DATE_SIZE];

		(void)printf("%-20s%s: %zu certificate%s, the first ends %s", "clientCA",
			s->client_ca, info.certificates, info.certificates == 1 ? "" : "s",
			certs_date(info.not_after, until));
		for (size_t i = 0; i < s->n_client_names; i++)
			(void)printf("%s%s", i ? ", " : "; lets in ", s->client_names[i]);
		(void)printf("\n");
	}
	tls_trust_free(t);
	return rc == 0 ? SERVE_DONE : complain(&err);
}

/* Everything is looked at, so that one run shows all that is wrong. */
int serve_check(const struct settings *s)
{
	int config, pool, certificate, clients;

	print_settings(s);
	config = check_config(s);
	pool = check_pool(s);
	certificate = check_certificate(s);
	clients = check_clients(s);
	if (config == SERVE_DONE)
		config = pool;
	if (config == SERVE_DONE)
		config = certificate;
	if (config == SERVE_DONE)
		config = clients;
	if (fflush(stdout) != 0)
		return SERVE_FAILED;
	(void)fprintf(stderr, config == SERVE_DONE ? "poolgate serve: all is well\n"
						   : "poolgate serve: would not start\n");
	return config;
}
