/* SPDX-License-Identifier: Apache-2.0 */
/* cli: fetching what the Deployment of a cluster reads: ConfigMaps become the files that its pods
 * see. */
#define _GNU_SOURCE 1 /* asprintf */
#include "webhook/cli/inject/installed.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "kube/kube.h"
#include "webhook/cli/usage/find_cluster.h"

#define DEPLOYMENT "/apis/apps/v1/namespaces/" INSTALLED_NAMESPACE "/deployments/poolgate"
#define CONFIG_MAPS "/api/v1/namespaces/" INSTALLED_NAMESPACE "/configmaps/"
#define ARENA_MAX ((size_t)64 << 20)
#define PATH_BYTES 4096

struct fetch {
	struct kube *kube;
	const struct json *j; /* of the Deployment */
	const struct json_node *pod, *container;
	struct installed *to;
	struct err *err;
};

/* ---- files ---- */

static int cannot_write(struct fetch *f, const char *path)
{
	return err_set(f->err, ERR_IO, "cannot write %s: %s", path, strerrorname_np(errno));
}

static int write_file(struct fetch *f, const char *folder, struct slice name, struct slice text)
{
	char path[PATH_BYTES];
	FILE *file;
	bool ok;

	(void)snprintf(path, sizeof(path), "%s/%.*s", folder, (int)name.len, name.at);
	file = fopen(path, "wxe");
	if (!file)
		return cannot_write(f, path);
	ok = fwrite(text.at, 1, text.len, file) == text.len;
	return fclose(file) == 0 && ok ? 0 : cannot_write(f, path);
}

/* A folder and all above it, below ours. */
static int make_folders(struct fetch *f, char *path)
{
	for (char *slash = path + strlen(f->to->folder) + 1; (slash = strchr(slash, '/'));
		slash++) {
		*slash = '\0';
		if (mkdir(path, 0700) != 0 && errno != EEXIST)
			return cannot_write(f, path);
		*slash = '/';
	}
	return mkdir(path, 0700) == 0 || errno == EEXIST ? 0 : cannot_write(f, path);
}

/* ---- ConfigMaps ---- */

static bool is_file_name(struct slice s)
{
	return s.len > 0 && s.len < 254 && s.at[0] != '.' && !memchr(s.at, '/', s.len);
}

static int write_data(struct fetch *f, const struct json *j, const char *name, const char *folder)
{
	int rc = 0;

	JSON_MEMBERS(j, json_get(j, json_root(j), SLICE("data")), k)
	{
		struct slice file = json_str(j, k, &f->to->arena);
		struct slice text = json_str(j, json_value(k), &f->to->arena);

		if (rc != 0 || !is_file_name(file) || !text.at)
			continue;
		rc = write_file(f, folder, file, text);
	}
	return rc != 0 ? err_in(f->err, "ConfigMap %s", name) : 0;
}

/* The whole ConfigMap, as files in that folder. source: {name, items, optional}. */
static int fetch_map(struct fetch *f, const struct json_node *source, const char *folder)
{
	struct slice name = json_str(f->j, json_get(f->j, source, SLICE("name")), &f->to->arena);
	struct kube_answer map = {0};
	char path[PATH_BYTES];
	int rc;

	if (!text_dns_subdomain(name) || json_get(f->j, source, SLICE("items")))
		return err_set(f->err, ERR_INVALID,
			"the Deployment poolgate mounts chosen items of a ConfigMap; expected "
			"whole "
			"ConfigMaps: name the settings with --config");
	(void)snprintf(path, sizeof(path), CONFIG_MAPS "%.*s", (int)name.len, name.at);
	rc = kube_get(f->kube, path, 0, &map, f->err);
	if (rc == 0)
		rc = write_data(f, &map.json, path + strlen(CONFIG_MAPS), folder);
	kube_answer_release(&map);
	return rc;
}

static const struct json_node *volume_of(struct fetch *f, const struct json_node *mount)
{
	struct slice name = json_str(f->j, json_get(f->j, mount, SLICE("name")), &f->to->arena);

	JSON_EACH(f->j, json_get(f->j, f->pod, SLICE("volumes")), v)
	if (name.at && json_is_str(f->j, json_get(f->j, v, SLICE("name")), name))
		return v;
	return NULL;
}

static int fetch_mount(struct fetch *f, const struct json_node *mount)
{
	const struct json_node *volume = volume_of(f, mount);
	const struct json_node *map = json_get(f->j, volume, SLICE("configMap"));
	const struct json_node *sources = json_path(f->j, volume, "projected", "sources", NULL);
	struct slice at = json_str(f->j, json_get(f->j, mount, SLICE("mountPath")), &f->to->arena);
	char *folder;
	int rc;

	if (!map && !sources)
		return 0;
	folder = arena_fmt(&f->to->arena, "%s%.*s", f->to->folder, (int)at.len, at.at);
	if (!folder)
		return err_set(f->err, ERR_NOMEM, "out of memory");
	if (at.len == 0 || at.at[0] != '/' || strstr(folder, "/../") ||
		strlen(folder) > PATH_BYTES / 2)
		return err_set(f->err, ERR_INVALID,
			"the Deployment poolgate mounts a ConfigMap at \"%.*s\", expected a plain "
			"path",
			(int)(at.len > 100 ? 100 : at.len), at.at);
	rc = make_folders(f, folder);
	if (rc == 0 && map)
		rc = fetch_map(f, map, folder);
	JSON_EACH(f->j, sources, s)
	{
		map = json_get(f->j, s, SLICE("configMap"));
		if (rc == 0 && map)
			rc = fetch_map(f, map, folder);
	}
	return rc;
}

/* ---- flags ---- */

static bool add_word(struct fetch *f, char *word)
{
	if (word && f->to->n_words < INSTALLED_WORDS_MAX)
		f->to->words[f->to->n_words++] = word;
	return word && f->to->n_words < INSTALLED_WORDS_MAX;
}

/* A value that names a file of the pod names it here. */
static char *as_here(struct fetch *f, const char *value)
{
	char *here = arena_fmt(&f->to->arena, "%s%s", f->to->folder, value);

	return here && value[0] == '/' && access(here, F_OK) == 0
		       ? here
		       : arena_strdup(&f->to->arena, slice_of(value));
}

static int take_flags(struct fetch *f, bool (*takes)(const char *flag))
{
	const char *flag = NULL;
	bool room = true;

	JSON_EACH(f->j, json_get(f->j, f->container, SLICE("args")), v)
	{
		struct slice word = json_str(f->j, v, &f->to->arena);
		char *text = word.at ? arena_strdup(&f->to->arena, word) : NULL;
		char *value;

		if (!text)
			return err_set(f->err, ERR_NOMEM, "out of memory");
		if (flag) {
			room = add_word(f, as_here(f, text)) && room;
			flag = NULL;
			continue;
		}
		if (text[0] != '-')
			continue;
		text += strspn(text, "-");
		value = strchr(text, '=');
		if (value)
			*value++ = '\0';
		if (!takes(text))
			continue;
		room = add_word(f, arena_fmt(&f->to->arena, "--%s", text)) && room;
		if (value)
			room = add_word(f, as_here(f, value)) && room;
		else
			flag = text;
	}
	return room ? 0 : err_set(f->err, ERR_TOOBIG, "the Deployment poolgate has too many flags");
}

static void take_environment(struct fetch *f)
{
	JSON_EACH(f->j, json_get(f->j, f->container, SLICE("env")), v)
	{
		struct slice value =
			json_str(f->j, json_get(f->j, v, SLICE("value")), &f->to->arena);

		if (value.at && json_is_str(f->j, json_get(f->j, v, SLICE("name")),
					SLICE("TOTAL_GPU_MEMORY")))
			f->to->total_gpu_memory = arena_strdup(&f->to->arena, value);
	}
}

/* ---- all of it ---- */

static int lay_out(struct fetch *f, const struct json *deployment, bool (*takes)(const char *flag))
{
	int rc = 0;

	f->j = deployment;
	f->pod = json_path(f->j, json_root(f->j), "spec", "template", "spec", NULL);
	JSON_EACH(f->j, json_get(f->j, f->pod, SLICE("containers")), c)
	if (json_is_str(f->j, json_get(f->j, c, SLICE("name")), SLICE("poolgate")))
		f->container = c;
	if (!f->container)
		return err_set(f->err, ERR_INVALID,
			"the Deployment poolgate has no container \"poolgate\", as the manifests "
			"have it");
	JSON_EACH(f->j, json_get(f->j, f->container, SLICE("volumeMounts")), m)
	if (rc == 0)
		rc = fetch_mount(f, m);
	take_environment(f);
	return rc ? rc : take_flags(f, takes);
}

static int make_folder(struct installed *i, struct err *err)
{
	const char *tmp = getenv("TMPDIR");

	if (asprintf(&i->folder, "%s/poolgate-XXXXXX", tmp && *tmp ? tmp : "/tmp") < 0)
		i->folder = NULL;
	if (!i->folder)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (mkdtemp(i->folder))
		return 0;
	err_set(err, ERR_IO, "cannot make the folder %s: %s", i->folder, strerrorname_np(errno));
	free(i->folder);
	i->folder = NULL;
	return err->code;
}

int installed_fetch(const char *kubeconfig, bool (*takes)(const char *flag), struct installed *ret,
	struct err *err)
{
	struct fetch f = {.to = ret, .err = err};
	struct kube_answer deployment = {0};
	struct kube_config config;
	int rc;

	*ret = (struct installed){0};
	arena_init(&ret->arena, ARENA_MAX);
	rc = find_cluster(kubeconfig, &config, err);
	if (rc == 0)
		rc = kube_new(&config, &f.kube, err);
	if (rc == 0)
		rc = kube_get(f.kube, DEPLOYMENT, 0, &deployment, err);
	if (rc == 0)
		rc = make_folder(ret, err);
	if (rc == 0)
		rc = lay_out(&f, &deployment.json, takes);
	kube_answer_release(&deployment);
	kube_free(f.kube);
	kube_config_release(&config);
	return rc;
}

static int remove_one(const char *path, const struct stat *st, int what, struct FTW *where)
{
	(void)st;
	(void)what;
	(void)where;
	return remove(path);
}

void installed_remove(struct installed *i)
{
	if (i->folder)
		(void)nftw(i->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	free(i->folder);
	arena_release(&i->arena);
	*i = (struct installed){0};
}
