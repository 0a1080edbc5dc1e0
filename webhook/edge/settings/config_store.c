/* SPDX-License-Identifier: Apache-2.0 */
/* edge: building the configuration from its files, and swapping it under the reviews. */
#include "webhook/edge/settings/config_store.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/files.h"
#include "base/text.h"
#include "base/yaml/yaml.h"
#include "net/mac.h"
#include "webhook/core/image/image.h"
#include "webhook/core/launcher/launcher_bitfusion.h"
#include "webhook/core/launcher/launcher_load.h"
#include "webhook/core/pod/plan_proof.h"

static int out_of_memory(struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory for the configuration");
}

/* The errors of one build. */
struct findings {
	const struct settings *settings;
	config_complaint *each;
	void *ctx;
	struct err *first; /* may be NULL */
	int rc;            /* of the first, or 0 */
};

/* Take note of what failed with rc. True: go on. */
static bool go_on(struct findings *f, int rc, struct err *err)
{
	if (rc == 0)
		return true;
	(void)settings_blame(f->settings, err);
	if (f->rc == 0 && f->first)
		*f->first = *err;
	f->rc = f->rc ? f->rc : rc;
	if (f->each)
		f->each(f->ctx, err);
	return f->each != NULL;
}

/* A file as YAML documents in the arena. */
static int read_yaml(const char *path, struct arena *tree, struct yaml_stream *ret, struct err *err)
{
	struct buf text;
	int rc;

	buf_init(&text, SETTINGS_FILE_MAX);
	rc = files_read(path, &text, err);
	if (rc == 0)
		rc = yaml_parse(tree, path, buf_as_slice(&text), YAML_NO_ALIASES, ret, err);
	buf_release(&text);
	return rc;
}

/* The root of a file that holds one document. */
static int read_one(
	const char *path, struct arena *tree, const struct yaml_node **ret, struct err *err)
{
	struct yaml_stream stream = {0};
	int rc = read_yaml(path, tree, &stream, err);

	if (rc != 0)
		return rc;
	if (stream.count != 1 || !stream.first->root)
		return err_set(err, ERR_INVALID, "%s: found %zu documents, expected one", path,
			stream.count);
	*ret = stream.first->root;
	return 0;
}

/* Append a profile; its name must be new. */
static int add_profile(
	struct config *c, const struct profile *p, const struct yaml_node *at, struct err *err)
{
	if (config_profile(c, p->name))
		return yaml_err(at, err, ERR_INVALID,
			"found a second profile \"%.*s\", expected another name for each",
			(int)p->name.len, p->name.at);
	if (c->n_profiles == CONFIG_PROFILES_MAX)
		return yaml_err(
			at, err, ERR_INVALID, "found more than %d profiles", CONFIG_PROFILES_MAX);
	c->profiles[c->n_profiles++] = *p;
	return 0;
}

static void load_bitfusion(struct findings *f, struct config_built *b, struct arena *tree)
{
	const struct settings *s = f->settings;
	const struct yaml_node *catalogue = NULL, *sidecar = NULL;
	struct slice shell = s->client_shell ? slice_of(s->client_shell) : SLICE("sh");
	struct err err = {0};
	struct profile p;
	int rc;

	if (!go_on(f, read_one(s->client_catalogue, tree, &catalogue, &err), &err) ||
		!go_on(f, read_one(s->sidecar_config, tree, &sidecar, &err), &err) || !catalogue ||
		!sidecar)
		return;
	rc = launcher_bitfusion(catalogue, sidecar, shell, &b->arena, &p, &err);
	if (rc == 0)
		rc = add_profile(&b->config, &p, catalogue, &err);
	(void)go_on(f, rc, &err);
}

static int load_file(const char *path, struct config_built *b, struct arena *tree, struct err *err)
{
	struct yaml_stream stream = {0};
	size_t n = 0;
	int rc = read_yaml(path, tree, &stream, err);

	if (rc != 0)
		return rc;
	for (const struct yaml_doc *doc = stream.first; doc; doc = doc->next) {
		struct profile p;

		if (yaml_absent(doc->root))
			continue;
		if ((rc = launcher_load(doc->root, &b->arena, &p, err)) != 0 ||
			(rc = add_profile(&b->config, &p, doc->root, err)) != 0)
			return rc;
		n++;
	}
	if (n == 0)
		return err_set(err, ERR_INVALID, "%s: found no document, expected a %s", path,
			LAUNCHER_KIND);
	return 0;
}

/* False: stop. */
static bool load_launchers(
	struct findings *f, const char *path, struct config_built *b, struct arena *tree)
{
	struct file_list files = {0};
	struct err err = {0};
	int rc = files_list(path, tree, &files, &err);

	if (rc == 0 && files.n == 0)
		rc = err_set(&err, ERR_INVALID,
			"%s: found no *.yaml, *.yml or *.json, expected launcher profiles", path);
	if (!go_on(f, rc, &err))
		return false;
	for (size_t i = 0; i < files.n; i++)
		if (!go_on(f, load_file(files.path[i], b, tree, &err), &err))
			return false;
	return true;
}

/* The named profile, else Bitfusion's, else the only one. */
static int choose_default(const struct settings *s, struct config *c, struct err *err)
{
	if (s->default_launcher) {
		c->default_profile = config_profile(c, slice_of(s->default_launcher));
		if (c->default_profile)
			return 0;
		return err_set(err, ERR_INVALID,
			"found \"%s\" as default launcher, expected the name of one of the %zu "
			"profiles, such as \"%.*s\"",
			s->default_launcher, c->n_profiles, (int)c->profiles[0].name.len,
			c->profiles[0].name.at);
	}
	c->default_profile = config_profile(c, SLICE(BITFUSION_PROFILE));
	if (!c->default_profile && c->n_profiles > 1)
		return err_set(err, ERR_INVALID,
			"found %zu launcher profiles, expected the name of the one for pods that "
			"do not "
			"choose: --default-launcher or defaultLauncher",
			c->n_profiles);
	if (!c->default_profile)
		c->default_profile = &c->profiles[0];
	return 0;
}

static uint64_t mix(uint64_t hash, uint64_t more)
{
	return (hash ^ more) * UINT64_C(0x100000001b3);
}

static uint64_t mix_list(uint64_t hash, const struct slice *list, size_t n)
{
	hash = mix(hash, n);
	for (size_t i = 0; i < n; i++)
		hash = mix(hash, text_hash64(list[i]));
	return hash;
}

static uint64_t hash_registry(uint64_t hash, const struct registry *r)
{
	hash = mix(hash, text_hash64(r->host));
	hash = mix_list(hash, r->tokens, r->n_tokens);
	hash = mix_list(hash, r->manifests, r->n_manifests);
	hash = mix_list(hash, r->storage, r->n_storage);
	hash = mix_list(hash, r->addresses, r->n_addresses);
	return mix(hash, text_hash64(slice_of(r->ca)));
}

static uint64_t hash_config(const struct config_built *b)
{
	const struct config *c = &b->config;
	uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), c->total_gpu_mb);

	hash = mix(hash, (uint64_t)c->when_full * 8 + (uint64_t)c->late_place * 4 +
				 (uint64_t)c->node_resource_off * 2 + c->secret_without_claim);
	hash = mix(hash,
		c->default_profile ? (uint64_t)(c->default_profile - c->profiles) : UINT64_MAX);
	for (size_t i = 0; i < c->n_profiles; i++)
		hash = mix(hash, c->profiles[i].hash);
	for (size_t i = 0; i < c->n_registries; i++)
		hash = hash_registry(hash, &c->registries[i]);
	return mix(hash, b->policies.hash);
}

size_t config_built_keep(
	struct config_built *b, bool (*keep)(void *ctx, const struct profile *p), void *ctx)
{
	struct config *c = &b->config;
	struct slice chosen = c->default_profile ? c->default_profile->name : (struct slice){0};
	size_t n = c->n_profiles;

	c->n_profiles = 0;
	for (size_t i = 0; i < n; i++)
		if (keep(ctx, &c->profiles[i]))
			c->profiles[c->n_profiles++] = c->profiles[i];
	c->default_profile = config_profile(c, chosen);
	b->hash = hash_config(b);
	return n - c->n_profiles;
}

/* What concerns no single file. */
static int finish(const struct settings *s, struct config_built *b, struct err *err)
{
	int rc;

	if (b->config.n_profiles == 0)
		return err_set(err, ERR_INVALID, "found no launcher profile, expected one");
	if ((rc = choose_default(s, &b->config, err)) != 0)
		return rc;
	for (size_t i = 0; i < b->config.n_profiles; i++)
		if ((rc = profile_prepare_proof(
			     &b->config.profiles[i], mac_digest, &b->arena, err)) != 0)
			return rc;
	b->hash = hash_config(b);
	return 0;
}

/* The settings go when the next ones come, and reviews go on with what was in force. */
static int copy_registries(const struct settings *s, struct config_built *b)
{
	struct arena *a = &b->arena;

	b->config.registries = arena_array(a, s->n_registries, sizeof(*b->config.registries));
	for (size_t i = 0; b->config.registries && i < s->n_registries; i++) {
		struct registry r = s->registries[i];

		r.host = arena_slice(a, r.host);
		r.tokens = arena_slices(a, r.tokens, r.n_tokens);
		r.manifests = arena_slices(a, r.manifests, r.n_manifests);
		r.storage = arena_slices(a, r.storage, r.n_storage);
		r.addresses = arena_slices(a, r.addresses, r.n_addresses);
		r.ca = r.ca ? arena_strdup(a, slice_of(r.ca)) : NULL;
		b->config.registries[b->config.n_registries++] = r;
	}
	return a->failed ? ERR_NOMEM : 0;
}

static void build(struct findings *f, struct config_built *b, struct arena *tree)
{
	const struct settings *s = f->settings;
	struct err err = {0};

	b->config.total_gpu_mb = s->total_gpu_mb;
	b->config.node_resource_off = !s->node_resource;
	b->config.secret_without_claim = s->secret_without_claim;
	b->config.late_place = s->cluster.on && s->cluster.waiting;
	b->config.when_full = s->cluster.when_full;
	b->config.max_grace_s = s->cluster.on ? (uint32_t)(s->cluster.max_grace_ms / 1000) : 0;
	b->config.profiles =
		arena_array(&b->arena, CONFIG_PROFILES_MAX, sizeof(*b->config.profiles));
	if (!b->config.profiles || copy_registries(s, b) != 0) {
		(void)go_on(f, out_of_memory(&err), &err);
		return;
	}
	if (s->client_catalogue)
		load_bitfusion(f, b, tree);
	if (f->rc == 0 || f->each)
		for (size_t i = 0; i < s->n_launchers; i++)
			if (!load_launchers(f, s->launchers[i], b, tree))
				return;
	if (s->policies && (f->rc == 0 || f->each)) {
		b->has_policies = true;
		(void)go_on(f, policies_load(s->policies, &b->arena, &b->policies, &err), &err);
	}
	if (f->rc == 0)
		(void)go_on(f, finish(s, b, &err), &err);
}

int config_build(const struct settings *s, struct config_built **ret, struct err *err)
{
	return config_build_all(s, NULL, NULL, ret, err);
}

int config_build_all(const struct settings *s, config_complaint *each, void *ctx,
	struct config_built **ret, struct err *err)
{
	struct findings f = {.settings = s, .each = each, .ctx = ctx, .first = err};
	struct config_built *b = calloc(1, sizeof(*b));
	struct arena tree;

	if (!b)
		return out_of_memory(err);
	arena_init(&b->arena, CONFIG_ARENA_MAX);
	arena_init(&tree, YAML_ARENA_MAX);
	build(&f, b, &tree);
	arena_release(&tree);
	if (f.rc != 0) {
		config_built_free(b);
		return f.rc;
	}
	*ret = b;
	return 0;
}

void config_built_free(struct config_built *b)
{
	if (!b)
		return;
	arena_release(&b->arena);
	free(b);
}

/* ---- the store ---- */

void config_store_init(struct config_store *store)
{
	*store = (struct config_store){.lock = PTHREAD_MUTEX_INITIALIZER};
}

void config_store_release(struct config_store *store)
{
	config_built_free(store->now);
	store->now = NULL;
	(void)pthread_mutex_destroy(&store->lock);
}

bool config_store_publish(struct config_store *store, struct config_built *b)
{
	struct config_built *old;
	bool same, unused;

	(void)pthread_mutex_lock(&store->lock);
	old = store->now;
	same = old && old->hash == b->hash;
	if (!same) {
		b->refs = 1; /* the store's */
		store->now = b;
	}
	unused = !same && old && --old->refs == 0;
	(void)pthread_mutex_unlock(&store->lock);
	if (same)
		config_built_free(b);
	else if (unused)
		config_built_free(old);
	return !same;
}

const struct config *config_store_acquire(void *ctx)
{
	struct config_store *store = ctx;
	struct config_built *b;

	(void)pthread_mutex_lock(&store->lock);
	b = store->now;
	b->refs++;
	(void)pthread_mutex_unlock(&store->lock);
	return &b->config;
}

void config_store_give_back(void *ctx, const struct config *config)
{
	struct config_store *store = ctx;
	struct config_built *b;
	bool unused;

	(void)pthread_mutex_lock(&store->lock);
	/* config is the first member of what was handed out, whatever is in force by now. */
	b = (struct config_built *)(uintptr_t)config;
	unused = --b->refs == 0;
	(void)pthread_mutex_unlock(&store->lock);
	if (unused)
		config_built_free(b);
}

/* ---- policies ---- */

static const struct config_built *built_of(const struct config *config)
{
	return (const struct config_built *)(const void *)config;
}

bool config_policies_any(void *ctx, const struct config *config)
{
	(void)ctx;
	return built_of(config)->has_policies;
}

int config_policies_of(void *ctx, const struct config *config, struct slice namespace, bool picks,
	int64_t deadline_ms, struct arena *a, const struct policy **ret, struct err *err)
{
	(void)ctx, (void)picks, (void)deadline_ms;
	return policies_of((void *)(uintptr_t)&built_of(config)->policies, namespace, a, ret, err);
}
