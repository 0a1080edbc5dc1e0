/* SPDX-License-Identifier: Apache-2.0 */
/* edge: build, verify, swap: config, pool and certificate, each for itself; client CAs, loaded and
 * told. */
#include "webhook/edge/admin/reload.h"

#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/files.h"
#include "base/text.h"
#include "webhook/edge/pool/gpu_servers.h"
#include "webhook/edge/pool/ledger_memory.h"

/* ---- the CAs of clients ---- */

int client_ca_load(
	struct tls_trust *clients, const struct settings *s, const struct log *log, struct err *err)
{
	struct tls_trust_info before, info;

	if (!clients || !s->client_ca)
		return 0;
	(void)tls_trust_info(clients, &before);
	if (tls_trust_load_file(clients, s->client_ca, s->client_names, s->n_client_names, err) !=
		0)
		return settings_blame(s, err);
	if (log && tls_trust_info(clients, &info) && info.generation != before.generation)
		log_line(log, LOG_LEVEL_INFO, "client CA in force", log_str("path", s->client_ca),
			log_int("certificates", (int64_t)info.certificates),
			log_int("names", (int64_t)s->n_client_names),
			log_int("not_after", info.not_after));
	return 0;
}

/* Changes when the file does, or the names. */
static uint64_t client_ca_mark(const struct settings *s)
{
	uint64_t sum = s->client_ca ? files_mark(s->client_ca) : 1;

	for (size_t i = 0; i < s->n_client_names; i++)
		sum = sum * 31 + text_hash64(slice_of(s->client_names[i]));
	return sum;
}

/* ---- reloading ---- */

#define POOL_ARENA_MAX (256u * 1024 * 1024)
#define WARNINGS_BYTES_MAX (64u * 1024)

static const char *const part_names[RELOAD_PARTS] = {
	[WHAT_CONFIG] = "config", [WHAT_POOL] = "pool", [WHAT_CERTIFICATE] = "certificate"};

/* ---- what changed ---- */

static uint64_t add_mark(uint64_t sum, const char *path)
{
	return (sum ^ (path ? files_mark(path) : 1)) * UINT64_C(0x100000001b3);
}

static uint64_t mark_of(const struct reload *r, enum metric_what what)
{
	const struct settings *s = &r->settings;
	uint64_t sum = UINT64_C(0xcbf29ce484222325);

	switch (what) {
	case WHAT_CONFIG:
		sum = add_mark(sum, s->config);
		sum = add_mark(sum, s->client_catalogue);
		sum = add_mark(sum, s->sidecar_config);
		for (size_t i = 0; i < s->n_launchers; i++)
			sum = add_mark(sum, s->launchers[i]);
		sum = add_mark(sum, s->policies);
		return r->heard.covers ? sum ^ r->heard.version(r->heard.ctx) : sum;
	case WHAT_POOL:
		return add_mark(sum, s->pool);
	case WHAT_CERTIFICATE:
		return add_mark(add_mark(sum, s->tls_cert), s->tls_key) ^ client_ca_mark(s);
	}
	return sum;
}

/* ---- the three loads ---- */

static void log_lines(const struct reload *r, const char *msg, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\n");

		log_line(r->log, LOG_LEVEL_WARN, msg,
			log_slice("warning", (struct slice){text, len}));
		text += len + (text[len] == '\n');
	}
}

/* A profile with a Secret that the validating hook does not hear of is left out, and told. */
static bool is_heard(const struct reload *r, const struct profile *p)
{
	for (size_t i = 0; i < p->n_secrets; i++) {
		if (r->heard.covers(r->heard.ctx, p->secrets[i]))
			continue;
		log_line(r->log, LOG_LEVEL_ERROR,
			"a launcher profile is left out: the conditions of the validating hook do "
			"not know its Secret, so that pods without a claim could read it; apply "
			"what `poolgate hooks` prints",
			log_slice("profile", p->name), log_slice("secret", p->secrets[i]));
		return false;
	}
	return true;
}

struct loading {
	const struct reload *reload;
	bool late_place;
};

/* What the client has to be told must be known when it is. A profile of which that is not so is
 * left out, and told. */
static bool is_served(void *ctx, const struct profile *p)
{
	const struct loading *l = ctx;

	if (!p->needs_late || l->late_place)
		return !l->reload->heard.covers || is_heard(l->reload, p);
	log_line(l->reload->log, LOG_LEVEL_ERROR,
		"a launcher profile is left out: {gpus} and {gpu_indexes} are known only where "
		"GPUs "
		"are chosen when the claim stands; install components/waiting, or take these "
		"places "
		"out of it",
		log_slice("profile", p->name));
	return false;
}

/* Put the profiles and rules of these settings in force. */
static int load_config(struct reload *r, const struct settings *s, struct err *err)
{
	struct loading loading = {.reload = r};
	size_t left_out;
	struct config_built *b;
	int rc = config_build(s, &b, err);
	const struct config *c;

	if (rc != 0)
		return rc;
	loading.late_place = b->config.late_place;
	left_out = config_built_keep(b, is_served, &loading);
	if (r->heard.covers || left_out > 0)
		metric_set(r->metrics, M_PROFILES_LEFT_OUT, 0, 0, (int64_t)left_out);
	if (!config_store_publish(r->store, b))
		return 0;
	c = config_store_acquire(r->store);
	log_line(r->log, LOG_LEVEL_INFO, "config in force",
		log_int("profiles", (int64_t)c->n_profiles),
		log_slice("default_launcher",
			c->default_profile ? c->default_profile->name : (struct slice){0}),
		log_int("total_gpu_mb", (int64_t)c->total_gpu_mb),
		log_str("total_gpu_from", s->total_gpu_from),
		log_bool("node_resource", !c->node_resource_off),
		log_bool("secret_without_claim", c->secret_without_claim));
	config_store_give_back(r->store, c);
	return 0;
}

/* Read the settings anew, then what they name. */
static int reload_config(struct reload *r, struct err *err)
{
	struct settings next;
	char fixed[SETTINGS_KEYS_SIZE];
	int rc = settings_load(r->argc, r->argv, r->total_gpu_memory, &next, err);

	if (rc == 0)
		rc = settings_check_serve(&next, err);
	if (rc == 0)
		rc = load_config(r, &next, err);
	if (rc != 0) {
		settings_release(&next);
		return rc;
	}
	if (settings_needs_restart(&r->settings, &next, fixed))
		log_line(r->log, LOG_LEVEL_WARN, "changed settings wait for the next start",
			log_str("keys", fixed));
	if (r->ledger)
		ledger_memory_set_ttl(r->ledger, next.claim_ttl_ms);
	settings_release(&r->settings);
	r->settings = next;
	return 0;
}

static int load_pool(struct reload *r, struct err *err)
{
	struct inventory inv = {0};
	struct arena a;
	struct buf warnings;
	int rc = 0;

	if (!r->ledger)
		return 0;
	arena_init(&a, POOL_ARENA_MAX);
	buf_init(&warnings, WARNINGS_BYTES_MAX);
	if (r->settings.pool)
		rc = gpu_servers_load(r->settings.pool, &a, &inv, &warnings, err);
	if (rc != 0)
		rc = settings_blame(&r->settings, err);
	if (rc == 0)
		rc = ledger_memory_set_inventory(r->ledger, &inv, err);
	if (rc == 0) {
		r->n_servers = inv.n_servers;
		r->n_gpus = inv.n_gpus;
		if (warnings.data)
			log_lines(r, "pool", warnings.data);
		log_line(r->log, LOG_LEVEL_INFO, "pool in force", log_str("path", r->settings.pool),
			log_int("servers", (int64_t)inv.n_servers),
			log_int("gpus", (int64_t)inv.n_gpus));
	}
	buf_release(&warnings);
	arena_release(&a);
	return rc;
}

static int load_certificate(struct reload *r, struct err *err)
{
	struct tls_info before, info;

	if (!r->settings.tls_cert)
		return 0;
	bool had = tls_identity_info(r->identity, &before);
	int rc = tls_identity_load_files(
		r->identity, r->settings.tls_cert, r->settings.tls_key, err);

	if (rc != 0)
		return settings_blame(&r->settings, err);
	(void)tls_identity_info(r->identity, &info);
	metric_set(r->metrics, M_CERT_NOT_AFTER, 0, 0, info.not_after);
	if (had && before.generation == info.generation)
		return 0;
	log_line(r->log, LOG_LEVEL_INFO, "certificate in force",
		log_str("path", r->settings.tls_cert), log_str("sha256", info.fingerprint),
		log_int("not_after", info.not_after));
	if (info.warning[0])
		log_line(r->log, LOG_LEVEL_WARN, "certificate", log_str("warning", info.warning));
	return 0;
}

/* ---- when ---- */

static int load(struct reload *r, enum metric_what what, bool first, struct err *err)
{
	/* Taken before the load: what changes while it runs, the names of the files too, is seen by
	 * the next look. */
	uint64_t mark = mark_of(r, what);
	struct err why = {0};
	int rc;

	switch (what) {
	case WHAT_CONFIG:
		rc = first ? load_config(r, &r->settings, err) : reload_config(r, err);
		break;
	case WHAT_POOL:
		rc = load_pool(r, err);
		break;
	case WHAT_CERTIFICATE:
		rc = load_certificate(r, err);
		/* A serving pair that is torn is no reason to trust a CA of clients that was taken
		 * away. */
		if (client_ca_load(r->clients, &r->settings, r->log, &why) != 0 && rc == 0) {
			*err = why;
			rc = (int)why.code;
		}
		break;
	}
	r->mark[what] = r->pending[what] = mark;
	metric_reloaded(r->metrics, what, rc == 0);
	return rc;
}

int reload_first(struct reload *r, struct err *err)
{
	for (int what = 0; what < RELOAD_PARTS; what++) {
		int rc = load(r, (enum metric_what)what, true, err);

		if (rc != 0)
			return rc;
	}
	return 0;
}

static void load_again(struct reload *r, enum metric_what what)
{
	struct err err = {0};

	if (load(r, what, false, &err) != 0)
		log_line(r->log, LOG_LEVEL_ERROR, "reload failed, the old version stays in force",
			log_str("what", part_names[what]), log_str("error", err.msg));
}

void reload_now(struct reload *r)
{
	for (int what = 0; what < RELOAD_PARTS; what++)
		load_again(r, (enum metric_what)what);
}

void reload_poll(struct reload *r)
{
	for (int what = 0; what < RELOAD_PARTS; what++) {
		uint64_t mark = mark_of(r, (enum metric_what)what);

		if (mark != r->mark[what] && mark == r->pending[what])
			load_again(r, (enum metric_what)what);
		else
			r->pending[what] = mark;
	}
}

void reload_release(struct reload *r)
{
	settings_release(&r->settings);
}
