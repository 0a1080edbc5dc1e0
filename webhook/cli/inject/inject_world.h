/* SPDX-License-Identifier: Apache-2.0 */
/* cli: what decisions about manifests rest on: settings, profiles, a pool; by flags, or as a
 * cluster has them. */
#ifndef WEBHOOK_CLI_INJECT_INJECT_WORLD_H
#define WEBHOOK_CLI_INJECT_INJECT_WORLD_H

#include <getopt.h>

#include "webhook/cli/inject/inject_registry.h"
#include "webhook/cli/inject/installed.h"
#include "webhook/core/inject/mutate.h"
#include "webhook/edge/settings/config_store.h"
#include "webhook/edge/settings/settings.h"

/* Flags that go on to settings_load, each with its value. */
#define INJECT_PASSED_MAX 128

/* What getopt_long finds of these options, beside 'f' and 'n'; a subcommand's own are from
 * INJECT_OWN on. */
enum { INJECT_PASS_ON = 256, INJECT_KUBECONFIG, INJECT_REGISTRY, INJECT_OWN };

/* Rows of a subcommand's table of options. */
#define INJECT_WORLD_OPTIONS                                                                       \
	{"file", required_argument, NULL, 'f'}, {"filename", required_argument, NULL, 'f'},        \
		{"namespace", required_argument, NULL, 'n'},                                       \
		{"config", required_argument, NULL, INJECT_PASS_ON},                               \
		{"client-catalogue", required_argument, NULL, INJECT_PASS_ON},                     \
		{"sidecar-config", required_argument, NULL, INJECT_PASS_ON},                       \
		{"client-shell", required_argument, NULL, INJECT_PASS_ON},                         \
		{"launchers", required_argument, NULL, INJECT_PASS_ON},                            \
		{"default-launcher", required_argument, NULL, INJECT_PASS_ON},                     \
		{"total-gpu-memory", required_argument, NULL, INJECT_PASS_ON},                     \
		{"node-resource", required_argument, NULL, INJECT_PASS_ON},                        \
		{"pool", required_argument, NULL, INJECT_PASS_ON},                                 \
		{"policies", required_argument, NULL, INJECT_PASS_ON},                             \
		{"kubeconfig", required_argument, NULL, INJECT_KUBECONFIG},                        \
	{                                                                                          \
		"registry", required_argument, NULL, INJECT_REGISTRY                               \
	}

/* Which manifests, and where what decides about them is read from. */
struct inject_source {
	const char **files;       /* "-": standard input */
	size_t n_files, n_inputs; /* n_inputs: how many are standard input, 1 at most */
	const char *namespace;    /* of objects that name none */
	char *passed[INJECT_PASSED_MAX];
	int n_passed;
	bool installed; /* what the cluster of kubeconfig has */
	const char *kubeconfig;
	const char *registries[INJECT_REGISTRIES_MAX];
	size_t n_registries;
};

/* All that decisions need, with its memory. */
struct inject_world {
	struct installed installed;
	struct settings settings;
	struct config_built *config;
	struct ledger *ledger; /* of settings.pool; NULL: there is none */
	struct inject_registry images;
	struct policy_source policies;
	struct mutate_world mutate;
};

/* With room for argc files. False: out of memory, said. Release it in every case. */
bool inject_source_init(const char *verb, struct inject_source *s, int argc);
void inject_source_release(struct inject_source *s);
/* Take one of the options above; words are borrowed. -1: go on; else the exit code, said. */
int inject_source_take(const char *verb, struct inject_source *s, int found,
	const struct option *option, char **argv);
/* All options are taken: what is left names files; none: standard input. As inject_source_take. */
int inject_source_rest(const char *verb, struct inject_source *s, int argc, char **argv);

/* Read all of it. 0, or the exit code of what is wrong, said on standard error. ret is inited here;
 * release it in every case. */
int inject_world_load(
	const char *verb, const struct inject_source *source, struct inject_world *ret);
void inject_world_release(struct inject_world *w);

#endif
