/* SPDX-License-Identifier: Apache-2.0 */
/* cli: what decisions about manifests rest on: settings, profiles, a pool; by flags, or as a
 * cluster has them. */
#ifndef WEBHOOK_CLI_INJECT_INJECT_WORLD_H
#define WEBHOOK_CLI_INJECT_INJECT_WORLD_H

#include "webhook/cli/inject/installed.h"
#include "webhook/cli/usage/usage.h"
#include "webhook/core/inject/mutate.h"
#include "webhook/core/launcher/config.h"
#include "webhook/edge/image/image_look.h"
#include "webhook/edge/settings/config_store.h"
#include "webhook/edge/settings/settings.h"

/* Flags that go on to settings_load, each with its value. */
#define INJECT_PASSED_MAX 128
#define INJECT_REGISTRIES_MAX 16

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

/* Rows of a subcommand's table of options, whose struct begins with a struct inject_source. */
int inject_take_file(const struct opt *row, const char *value, void *of, struct err *err);
int inject_take_namespace(const struct opt *row, const char *value, void *of, struct err *err);
int inject_take_registry(const struct opt *row, const char *value, void *of, struct err *err);
int inject_take_passed(const struct opt *row, const char *value, void *of, struct err *err);
#define INJECT_PASSED(name, arg) OPT_OWN(inject_take_passed, name, arg, NULL)
#define INJECT_WORLD_OPTIONS                                                                       \
	OPT_OWN(inject_take_file, "--file", "FILE|DIR",                                            \
		"one more file (\"-\": standard input, also when none is named), or the\n"         \
		"*.yaml, *.yml and *.json in a folder",                                            \
		.also = "-f", .hidden = "--filename"),                                             \
		OPT_OWN(inject_take_namespace, "--namespace", "NS",                                \
			"of objects that name none [default]", .also = "-n"),                      \
		OPT_TEXT(inject_source, kubeconfig, "--kubeconfig", "FILE",                        \
			"the cluster [$KUBECONFIG, ~/.kube/config]"),                              \
		OPT_OWN(inject_take_registry, "--registry", "HOST[,TOKENHOST...]",                 \
			"ask this registry what an image starts whose container has no\n"          \
			"command, with the credentials of ~/.docker/config.json; with the\n"       \
			"settings of a cluster, too"),                                             \
		INJECT_PASSED("--config", "FILE"), INJECT_PASSED("--client-catalogue", "FILE"),    \
		INJECT_PASSED("--sidecar-config", "FILE"),                                         \
		INJECT_PASSED("--client-shell", "PATH"), INJECT_PASSED("--launchers", "FILE|DIR"), \
		INJECT_PASSED("--default-launcher", "NAME"),                                       \
		INJECT_PASSED("--total-gpu-memory", "SIZE"),                                       \
		INJECT_PASSED("--node-resource", "BOOL"), INJECT_PASSED("--pool", "FILE|DIR"),     \
		INJECT_PASSED("--policies", "FILE|DIR")
/* The latter in the help, said in one line. */
#define INJECT_PASSED_HELP                                                                         \
	"  --config FILE, --client-catalogue FILE, --sidecar-config FILE, --client-shell PATH,\n"  \
	"  --launchers FILE|DIR, --default-launcher NAME, --total-gpu-memory SIZE "                \
	"[$TOTAL_GPU_MEMORY],\n"                                                                   \
	"  --node-resource BOOL, --pool FILE|DIR, --policies FILE|DIR\n"

struct inject_registry {
	struct config config; /* its registries are those that were named */
	struct image_look *look;
	struct image_source source;
	struct arena arena;
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
/* All options are taken: what is left names files; none: standard input. -1: go on; else the exit
 * code, said. */
int inject_source_rest(const char *verb, struct inject_source *s, int argc, char **argv);

/* Read all of it. 0, or the exit code of what is wrong, said on standard error. ret is inited here;
 * release it in every case. */
int inject_world_load(
	const char *verb, const struct inject_source *source, struct inject_world *ret);
void inject_world_release(struct inject_world *w);

#endif
