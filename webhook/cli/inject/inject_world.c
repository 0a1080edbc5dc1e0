/* SPDX-License-Identifier: Apache-2.0 */
/* cli: reading what decisions about manifests rest on. */
#include "webhook/cli/inject/inject_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "webhook/cli/inject/inject.h"
#include "webhook/cli/usage/usage.h"
#include "webhook/edge/pool/gpu_servers.h"
#include "webhook/edge/pool/ledger_memory.h"

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
