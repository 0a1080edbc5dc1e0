/* SPDX-License-Identifier: Apache-2.0 */
/* cli: reading what decisions about manifests rest on, registries included. */
#include "webhook/cli/inject/inject_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/text.h"
#include "net/http_head.h"
#include "net/mac.h"
#include "webhook/cli/inject/inject.h"
#include "webhook/cli/usage/usage.h"
#include "webhook/edge/pool/gpu_servers.h"
#include "webhook/edge/pool/ledger_memory.h"

/* ---- registries ---- */

#define ANSWER_MS 20000
#define CONFIG_BYTES_MAX (1024u * 1024)
#define NODES_MAX 20000
#define ARENA_MAX (1024 * 1024)

/* $DOCKER_CONFIG/config.json, else ~/.docker/config.json; NULL: nobody says where. */
static const char *config_path(struct arena *a)
{
	const char *folder = getenv("DOCKER_CONFIG"), *home = getenv("HOME");

	if (folder && *folder)
		return arena_fmt(a, "%s/config.json", folder);
	return home && *home ? arena_fmt(a, "%s/.docker/config.json", home) : NULL;
}

/* Helpers that keep credentials elsewhere are programs, and none is run. */
static int find_logins(void *ctx, const struct image_ask *ask, const struct image_name *name,
	int64_t deadline_ms, struct arena *a, struct pull_logins *ret, struct err *why)
{
	const char *path = config_path(a);
	struct json j = {0};
	char *copy = NULL;
	struct buf text;
	int rc;

	(void)ctx, (void)ask, (void)deadline_ms;
	if (!path)
		return a->failed ? ERR_NOMEM : 0;
	buf_init(&text, CONFIG_BYTES_MAX);
	rc = files_read(path, &text, why);
	if (rc == 0)
		rc = json_read_copy(
			&j, text.data ? text.data : "", text.len, NODES_MAX, &copy, why);
	if (rc == 0) {
		pull_config_find(&j, json_get(&j, json_root(&j), SLICE("auths")), name, a, ret);
		if (ret->n == 0 && (json_get(&j, json_root(&j), SLICE("credsStore")) ||
					   json_get(&j, json_root(&j), SLICE("credHelpers"))))
			(void)err_set(why, ERR_REFUSED,
				"%s leaves credentials to a helper, which is not run", path);
	} else if (rc == ERR_NOTFOUND) {
		err_clear(why);
	}
	if (copy)
		mac_wipe(copy, text.len);
	if (text.data)
		mac_wipe(text.data, text.cap);
	json_release(&j);
	free(copy);
	buf_release(&text);
	return rc == ERR_NOMEM || a->failed ? ERR_NOMEM : 0;
}

static bool allows(void *ctx, struct slice image)
{
	const struct inject_registry *r = ctx;

	return image_look_allows(r->config.registries, r->config.n_registries, image);
}

static int look(void *ctx, const struct image_ask *ask, struct arena *a, struct image_start *ret,
	struct err *err)
{
	const struct inject_registry *r = ctx;

	return image_look_find(r->look, r->config.registries, r->config.n_registries, ask,
		clock_ms() + ANSWER_MS, a, ret, err);
}

/* One that was named: the host, then hosts that give out its tokens. */
static int add(
	const struct config *from, const char *text, struct inject_registry *r, struct err *err)
{
	struct registry *to = &r->config.registries[r->config.n_registries++];
	struct slice *tokens = arena_array(&r->arena, strlen(text) + 1, sizeof(*tokens));
	size_t n = 0;

	if (!tokens)
		return err_set(err, ERR_NOMEM, "out of memory");
	for (const char *at = text; at; n++) {
		const char *comma = strchr(at, ',');

		tokens[n] = (struct slice){at, comma ? (size_t)(comma - at) : strlen(at)};
		if (!https_host_good(tokens[n]))
			return err_set(err, ERR_SYNTAX,
				"--registry takes HOST, or HOST and hosts that give out its tokens "
				"with commas between them, as they stand in https URLs; found "
				"\"%s\"",
				text);
		at = comma ? comma + 1 : NULL;
	}
	to->host = tokens[0];
	for (size_t i = 0; i < from->n_registries; i++)
		if (slice_eq(from->registries[i].host, to->host))
			*to = from->registries[i];
	if (n > 1) {
		to->tokens = tokens + 1;
		to->n_tokens = n - 1;
	}
	return 0;
}

static int inject_registry_open(const struct config *config, const char *const *names, size_t n,
	struct inject_registry *ret, struct err *err)
{
	int rc = 0;

	*ret = (struct inject_registry){.source = {ret, allows, look}};
	arena_init(&ret->arena, ARENA_MAX);
	ret->config.registries = arena_array(&ret->arena, n, sizeof(*ret->config.registries));
	ret->look = image_look_new(
		&(struct image_look_config){.logins = {ret, find_logins}, .at_once = 1}, err);
	if (!ret->look || !ret->config.registries)
		return err_set(err, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = add(config, names[i], ret, err);
	return rc;
}

/* names: "HOST", or "HOST,TOKENHOST…"; one that the settings have is taken from there, too.
 * ERR_SYNTAX: a name that is none; ERR_NOMEM. ret is inited here and must be released in every
 * case. */
static void inject_registry_release(struct inject_registry *r)
{
	image_look_free(r->look);
	arena_release(&r->arena);
}

/* ---- the pool and the files ---- */

bool inject_source_init(const char *verb, struct inject_source *s, int argc)
{
	*s = (struct inject_source){.namespace = "default"};
	s->files = calloc((size_t)argc + 1, sizeof(s->files[0]));
	if (!s->files)
		(void)fprintf(stderr, "poolgate %s: out of memory\n", verb);
	return s->files != NULL;
}

void inject_source_release(struct inject_source *s)
{
	free(s->files);
}

int inject_take_file(const struct opt *row, const char *value, void *of, struct err *err)
{
	struct inject_source *s = of;

	(void)row;
	(void)err;
	s->files[s->n_files++] = value;
	return 0;
}

int inject_take_namespace(const struct opt *row, const char *value, void *of, struct err *err)
{
	((struct inject_source *)of)->namespace = value;
	return text_dns_label(slice_of(value)) ? 0
					       : opts_wrong(row, "a namespace's name", value, err);
}

int inject_take_registry(const struct opt *row, const char *value, void *of, struct err *err)
{
	struct inject_source *s = of;

	(void)row;
	if (s->n_registries == INJECT_REGISTRIES_MAX)
		return err_set(err, ERR_TOOBIG, "too many registries");
	s->registries[s->n_registries++] = value;
	return 0;
}

int inject_take_passed(const struct opt *row, const char *value, void *of, struct err *err)
{
	struct inject_source *s = of;

	if (s->n_passed + 2 > INJECT_PASSED_MAX)
		return err_set(err, ERR_TOOBIG, "too many options");
	/* settings_load does not change them */
	memcpy(&s->passed[s->n_passed++], &row->name, sizeof(row->name));
	memcpy(&s->passed[s->n_passed++], &value, sizeof(value));
	return 0;
}

int inject_source_rest(const char *verb, struct inject_source *s, int argc, char **argv)
{
	while (optind < argc)
		s->files[s->n_files++] = argv[optind++];
	if (s->n_files == 0)
		s->files[s->n_files++] = "-";
	for (size_t i = 0; i < s->n_files; i++)
		s->n_inputs += strcmp(s->files[i], "-") == 0;
	return s->n_inputs > 1 ? usage_wrong(verb, "standard input is named more than once") : -1;
}

void inject_world_release(struct inject_world *w)
{
	inject_registry_release(&w->images);
	config_built_free(w->config);
	if (w->ledger)
		ledger_memory_free(w->ledger);
	settings_release(&w->settings);
	installed_remove(&w->installed);
}

/* A pool is looked at for filters and placement alone: nothing is taken. */
static int load_pool(struct inject_world *w, struct err *err)
{
	struct inventory inventory;
	int rc;

	w->ledger = ledger_memory_new(0);
	if (!w->ledger)
		return err_set(err, ERR_NOMEM, "out of memory for the pool");
	rc = gpu_servers_load(w->settings.pool, &w->settings.arena, &inventory, NULL, err);
	if (rc != 0)
		return settings_blame(&w->settings, err);
	return ledger_memory_set_inventory(w->ledger, &inventory, err);
}

static const struct opt options[] = {INJECT_WORLD_OPTIONS};

/* What the cluster's Deployment does not need for injecting is left out. */
static bool takes(const char *flag)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (options[i].own == inject_take_passed && strcmp(options[i].name + 2, flag) == 0)
			return true;
	return false;
}

static int load_settings(const struct inject_source *s, struct inject_world *w, struct err *err)
{
	struct installed *i = &w->installed;

	if (!s->installed)
		return settings_load(
			s->n_passed, s->passed, getenv("TOTAL_GPU_MEMORY"), &w->settings, err);
	if (installed_fetch(s->kubeconfig, takes, i, err) != 0)
		return err->code;
	return settings_load(i->n_words, i->words, i->total_gpu_memory, &w->settings, err);
}

static int load(const struct inject_source *s, struct inject_world *w, struct err *err)
{
	int rc = load_settings(s, w, err);

	if (rc == 0)
		rc = config_build(&w->settings, &w->config, err);
	if (rc == 0 && w->settings.pool)
		rc = load_pool(w, err);
	if (rc == 0 && s->n_registries > 0)
		rc = inject_registry_open(
			&w->config->config, s->registries, s->n_registries, &w->images, err);
	if (rc != 0)
		return rc;
	w->policies = (struct policy_source){&w->config->policies, policies_of};
	w->mutate = (struct mutate_world){.config = &w->config->config,
		.ledger = w->ledger,
		.images = s->n_registries > 0 ? &w->images.source : NULL,
		.policies = w->config->has_policies ? &w->policies : NULL,
		.preview = true};
	return 0;
}

int inject_world_load(
	const char *verb, const struct inject_source *source, struct inject_world *ret)
{
	struct err err = {0};
	int rc;

	*ret = (struct inject_world){0};
	rc = load(source, ret, &err);
	if (rc == 0)
		return INJECT_DONE;
	(void)fprintf(stderr, "poolgate %s: %s\n", verb, err.msg);
	return rc == ERR_SYNTAX && (!ret->config || source->n_registries > 0) && !source->installed
		       ? INJECT_USAGE
		       : INJECT_UNREADABLE;
}
