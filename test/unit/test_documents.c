/* SPDX-License-Identifier: Apache-2.0 */
/* test: core/launcher/launcher_load, core/launcher/launcher_bitfusion, edge/settings/settings_file,
 * edge/pool/gpu_servers, core/policy/policy, core/image/image_doc, core/server/server_object and
 * gate/server_profile: what they make of documents, good ones and such as are a byte from good
 * ones, is what it was before (kept.h). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif
#include "base/json/json_read.h"
#include "base/yaml/yaml.h"
#include "gate/server_profile.h"
#include "test/unit/corpus.h"
#include "test/unit/kept.h"
#include "test/unit/test.h"
#include "webhook/core/image/image_doc.h"
#include "webhook/core/image/pull_config.h"
#include "webhook/core/launcher/launcher_bitfusion.h"
#include "webhook/core/launcher/launcher_load.h"
#include "webhook/core/policy/policy.h"
#include "webhook/core/server/probe_inventory.h"
#include "webhook/core/server/usage_record.h"
#include "webhook/edge/pool/gpu_servers.h"
#include "webhook/edge/pool/ledger_memory.h"
#include "webhook/edge/pool/pool_report.h"
#include "webhook/edge/settings/settings_file.h"

#define ARENA_MAX (64u << 20)

static void say_word(const char *what, const char *word)
{
	kept_say("%s %s", what, word ? word : "(none)");
}

/* The text as JSON, given to `say`, where it is some. */
static void with_json(struct slice text, void (*say)(const struct json *j, struct arena *a))
{
	struct json j = {0};
	struct err err = {0};
	struct arena a;
	char *copy;
	int rc = json_read_copy(&j, text.at, text.len, 100000, &copy, &err);

	arena_init(&a, ARENA_MAX);
	if (rc == 0)
		say(&j, &a);
	else
		kept_say("%d", rc);
	free(copy);
	json_release(&j);
	arena_release(&a);
}

/* ---- configuration ---- */

static void say_settings(struct slice text)
{
	struct settings s = {0};
	struct err err = {0};
	int rc;

	arena_init(&s.arena, ARENA_MAX);
	rc = settings_text(&s, "/folder/poolgate.yaml", text, &err);
	kept_err(rc, &err);
	if (rc == 0) {
		say_word("listen", s.listen);
		say_word("plain", s.listen_plain);
		say_word("admin", s.listen_admin);
		say_word("cert", s.tls_cert);
		say_word("key", s.tls_key);
		say_word("CA", s.client_ca);
		say_word("catalogue", s.client_catalogue);
		say_word("sidecar", s.sidecar_config);
		say_word("shell", s.client_shell);
		say_word("launcher", s.default_launcher);
		say_word("pool", s.pool);
		say_word("policies", s.policies);
		kept_say("%zu names, %zu launchers, %zu registries, %zu notes, %zu sources",
			s.n_client_names, s.n_launchers, s.n_registries, s.n_notes, s.n_sources);
		kept_say("%lld %llu %d %d %u %u %lld %lld", (long long)s.claim_ttl_ms,
			(unsigned long long)s.total_gpu_mb, s.node_resource, s.secret_without_claim,
			s.workers, s.max_connections, (long long)s.drain_delay_ms,
			(long long)s.reload_interval_ms);
		for (size_t i = 0; i < s.n_notes; i++)
			kept_text(s.notes[i]);
	}
	settings_release(&s);
}

static void say_profile(int rc, const struct profile *p, const struct err *err)
{
	kept_err(rc, err);
	if (rc == 0)
		kept_say("%.*s %016llx, %zu clients", (int)p->name.len, p->name.at,
			(unsigned long long)p->hash, p->n_clients);
}

static void say_launchers(struct slice text)
{
	struct yaml_stream docs = {0};
	struct profile p;
	struct err err = {0};
	struct arena a;
	int rc;

	arena_init(&a, ARENA_MAX);
	rc = yaml_parse(&a, "profile.yaml", text, YAML_NO_ALIASES, &docs, &err);
	if (rc != 0)
		kept_err(rc, &err);
	for (const struct yaml_doc *d = docs.first; d; d = d->next) {
		err_clear(&err);
		rc = launcher_load(d->root, &a, &p, &err);
		say_profile(rc, &p, &err);
	}
	arena_release(&a);
}

static void say_bitfusion(struct slice text)
{
	const char *between = text.len ? memmem(text.at, text.len, "\n%%\n", 4) : NULL;
	size_t len = between ? (size_t)(between - text.at) + 1 : text.len;
	struct slice rest = {between ? between + 4 : "", between ? text.len - len - 3 : 0};
	struct yaml_stream clients = {0}, sidecar = {0};
	struct profile p;
	struct err err = {0};
	struct arena a;
	int rc;

	arena_init(&a, ARENA_MAX);
	rc = yaml_parse(
		&a, "clients.yaml", (struct slice){text.at, len}, YAML_NO_ALIASES, &clients, &err);
	if (rc == 0)
		rc = yaml_parse(&a, "sidecar.yaml", rest, YAML_NO_ALIASES, &sidecar, &err);
	if (rc == 0 && (!clients.first || !sidecar.first))
		rc = 1;
	if (rc == 0)
		rc = launcher_bitfusion(
			clients.first->root, sidecar.first->root, SLICE("sh"), &a, &p, &err);
	say_profile(rc, &p, &err);
	arena_release(&a);
}

static void say_config(struct slice text)
{
	struct slice rest = {text.at + 1, text.len ? text.len - 1 : 0};

	if (text.len == 0)
		return;
	if (*text.at == 's')
		say_settings(rest);
	else if (*text.at == 'l')
		say_launchers(rest);
	else
		say_bitfusion(rest);
}

TEST(test_config)
{
	corpus_kept("config", 150, say_config);
}

/* ---- the pool ---- */

static void say_pool(struct slice text)
{
	struct ledger *l = ledger_memory_new(0);
	struct inventory inv = {0};
	struct err err = {0};
	struct buf warnings, out;
	struct arena a;
	int rc;

	assert_non_null(l);
	arena_init(&a, ARENA_MAX);
	buf_init(&warnings, 1 << 20);
	buf_init(&out, 1 << 20);
	rc = gpu_servers_parse(text, "pool.yaml", &a, &inv, &warnings, &err);
	kept_err(rc, &err);
	if (warnings.len)
		kept_text(warnings.data);
	if (rc == 0) {
		assert_int_equal(ledger_memory_set_inventory(l, &inv, &err), 0);
		assert_int_equal(pool_report(l, &out, &err), 0);
		kept_text(out.data);
	}
	buf_release(&warnings);
	buf_release(&out);
	arena_release(&a);
	ledger_memory_free(l);
}

TEST(test_pool)
{
	corpus_kept("pool", 150, say_pool);
}

/* ---- policies ---- */

static void say_policy_json(const struct json *j, struct arena *a)
{
	struct policy p = {0};
	struct err err = {0};
	int rc = policy_read(j, json_root(j), a, &p, &err);

	kept_err(rc, &err);
	err_clear(&err);
	kept_err(policy_check_keys(j, json_root(j), a, &err), &err);
	if (rc != 0)
		return;
	kept_say("%s %d %u %u %d %u %d %d", p.name, p.inject, p.share, p.percent, p.priority,
		p.accepts, p.keep_ties, p.local_on_outage);
	kept_say("%u %u %llu", p.gpus, p.waiting, (unsigned long long)p.bytes);
	say_word("launcher", p.launcher);
	say_word("os", p.os);
	say_word("version", p.version);
	say_word("full", p.when_full);
	for (size_t i = 0; i < p.n_servers; i++)
		kept_say("%s=%s", p.servers[i].key, p.servers[i].value);
	for (size_t i = 0; i < p.n_launchers; i++)
		kept_text(p.launchers[i]);
	for (size_t i = 0; i < p.n_models; i++)
		kept_text(p.models[i]);
}

static void say_policy(struct slice text)
{
	with_json(text, say_policy_json);
}

TEST(test_policy)
{
	corpus_kept("policy", 60, say_policy);
}

/* ---- images ---- */

static void say_manifest(const struct json *j, struct arena *a)
{
	static const char *const types[] = {"application/vnd.oci.image.index.v1+json",
		"application/vnd.oci.image.manifest.v1+json",
		"application/vnd.docker.distribution.manifest.list.v2+json",
		"application/vnd.docker.distribution.manifest.v2+json", "text/html"};

	for (size_t i = 0; i < 2 * COUNT(types); i++) {
		struct image_manifest m = {0};
		struct err err = {0};

		kept_err(image_manifest_read(
				 j, slice_of(types[i / 2]), i % 2 ? ~0u : 1u, a, &m, &err),
			&err);
		kept_slice("config", m.config.digest);
		for (size_t k = 0; k < m.n_parts; k++) {
			kept_slice("part", m.parts[k].digest);
			kept_slice("of", m.parts[k].arch);
		}
	}
}

static void say_image_json(const struct json *j, struct arena *a)
{
	static const struct image_name names[] = {
		{.host = SLICE("r.x"), .repository = SLICE("a/b")},
		{.host = SLICE("docker.io"), .repository = SLICE("library/ubuntu")}};
	struct image_config c = {0};
	struct err err = {0};

	say_manifest(j, a);
	kept_err(image_config_read(j, a, &c, &err), &err);
	kept_slice("os", c.os);
	kept_slice("arch", c.arch);
	for (size_t i = 0; i < c.start.n_entrypoint; i++)
		kept_slice("entrypoint", c.start.entrypoint[i]);
	for (size_t i = 0; i < c.start.n_cmd; i++)
		kept_slice("cmd", c.start.cmd[i]);
	for (size_t k = 0; k < COUNT(names); k++) {
		struct pull_logins got = {0};

		pull_config_find(j, json_root(j), &names[k], a, &got);
		for (size_t i = 0; i < got.n; i++) {
			kept_slice("user", got.list[i].user);
			kept_slice("password", got.list[i].password);
			kept_say("%zu", got.list[i].path);
		}
	}
}

static void say_image(struct slice text)
{
	struct image_name n = {0};
	struct err err = {0};
	struct arena a;

	arena_init(&a, ARENA_MAX);
	kept_err(image_name_read(text, &a, &n, &err), &err);
	kept_slice("host", n.host);
	kept_slice("repository", n.repository);
	kept_slice("tag", n.tag);
	kept_slice("digest", n.digest);
	arena_release(&a);
	with_json(text, say_image_json);
}

TEST(test_image)
{
	corpus_kept("image", 150, say_image);
}

/* ---- a server's object, and what its probe says ---- */

static void say_object(const struct server_object *o)
{
	struct buf out;

	buf_init(&out, 1 << 20);
	server_object_write(o, &out);
	kept_text(out.data);
	buf_release(&out);
}

static void say_server_json(const struct json *j, struct arena *a)
{
	struct server_object o = {0};
	struct gpu_server server = {0};
	struct err err = {0};
	int rc = server_object_read(j, json_root(j), a, &o, &err);

	kept_err(rc, &err);
	if (rc != 0)
		return;
	say_object(&o);
	err_clear(&err);
	kept_err(server_object_inventory(&o, a, &server, &err), &err);
	kept_say("%zu GPUs, %d %d", server.n_gpus, server.drain, server.guarded);
	kept_say("%d", server_status_from_spec(&o, a));
	kept_say("%d", server_usage_advance(&o, INT64_C(1795600000000), a));
	server_status_prune(&o.status);
	say_object(&o);
}

static void say_server(struct slice text)
{
	with_json(text, say_server_json);
}

TEST(test_server_object)
{
	corpus_kept("server_object", 300, say_server);
}

static void say_inventory_json(const struct json *j, struct arena *a)
{
	static const char usual[] =
		"{\"apiVersion\":\"poolgate.io/v1alpha1\",\"kind\":\"GPUServer\",\"metadata\":{"
		"\"name\":\"s\",\"uid\":\"u\",\"resourceVersion\":\"1\"},\"spec\":{\"address\":"
		"\"a:1\",\"probe\":{\"url\":\"http://a\"}},\"status\":{\"version\":1,\"gpus\":[{"
		"\"id\":\"a\",\"model\":\"M\",\"memory\":100,\"fit\":true},{\"id\":\"b\",\"model\":"
		"\"M\",\"memory\":100,\"fit\":true}],\"claims\":[{\"uid\":\"p\",\"state\":"
		"\"bound\","
		"\"gpus\":[{\"id\":\"a\",\"bytes\":50}]}]}}";
	struct probe_inventory inv = {0};
	struct server_object o = {0};
	struct json object = {0};
	struct err err = {0};
	char *copy;
	int rc = probe_inventory_read(j, a, &inv, &err);

	kept_err(rc, &err);
	if (rc != 0)
		return;
	kept_say("%d %lld %lld %s", (int)inv.state, (long long)inv.age_s,
		(long long)inv.stale_after_s, inv.trouble);
	for (size_t i = 0; i < inv.n_gpus; i++)
		kept_say("%s %s %s %llu %d %zu %s", inv.gpus[i].id, inv.gpus[i].parent,
			inv.gpus[i].model, (unsigned long long)inv.gpus[i].bytes, inv.gpus[i].fit,
			inv.gpus[i].n_reasons, inv.gpus[i].why);
	assert_int_equal(json_read_copy(&object, usual, sizeof(usual) - 1, 1000, &copy, &err), 0);
	assert_int_equal(server_object_read(&object, json_root(&object), a, &o, &err), 0);
	kept_say("%d", server_status_from_probe(&o, &inv, a));
	say_object(&o);
	json_release(&object);
	free(copy);
}

/* Of the seed's two documents the probe's, where there are two. */
static void say_inventory(struct slice text)
{
	const char *between = text.len ? memmem(text.at, text.len, "\n%%\n", 4) : NULL;

	with_json((struct slice){text.at, between ? (size_t)(between - text.at) : text.len},
		say_inventory_json);
}

TEST(test_probe_inventory)
{
	corpus_kept("probe_inventory", 150, say_inventory);
}

/* ---- a gate's profile ---- */

static void say_server_profile(struct slice text)
{
	struct server_profile p = {0};
	struct err err = {0};
	struct arena a;
	int rc;

	arena_init(&a, ARENA_MAX);
	rc = server_profile_read("p.yaml", text, &a, &p, &err);
	kept_err(rc, &err);
	if (rc == 0) {
		kept_say("%s %d %u %d %lld %lld %lld %d %d %016llx", p.name, (int)p.mode, p.port,
			p.inherits, (long long)p.readiness_ms, (long long)p.linger_ms,
			(long long)p.grace_ms, p.says_context, p.ends_over,
			(unsigned long long)p.hash);
		say_word("session", p.session);
		say_word("user", p.user);
		say_word("control", p.mps_control);
		say_word("pipe", p.mps_pipe);
		for (size_t i = 0; i < p.n_argv; i++)
			kept_slice("word", p.argv[i]);
		for (size_t i = 0; i < p.n_env; i++)
			kept_slice(p.env[i].name, p.env[i].value);
		for (size_t i = 0; i < p.n_accounts; i++)
			kept_slice("account", p.accounts[i]);
	}
	arena_release(&a);
}

TEST(test_server_profile)
{
	corpus_kept("server_profile", 300, say_server_profile);
}

TESTS(test_config, test_pool, test_policy, test_image, test_server_object, test_probe_inventory,
	test_server_profile)
