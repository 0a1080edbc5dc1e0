/* SPDX-License-Identifier: Apache-2.0 */
/* cli: registries for `poolgate inject`. */
#include "webhook/cli/inject/inject_registry.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/files.h"
#include "net/http_head.h"
#include "net/mac.h"

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

int inject_registry_open(const struct config *config, const char *const *names, size_t n,
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

void inject_registry_release(struct inject_registry *r)
{
	image_look_free(r->look);
	arena_release(&r->arena);
}
