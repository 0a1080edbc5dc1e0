/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the config file. For settings.c. */
#ifndef WEBHOOK_EDGE_SETTINGS_SETTINGS_FILE_H
#define WEBHOOK_EDGE_SETTINGS_SETTINGS_FILE_H

#include <limits.h>

#include "base/err.h"
#include "base/slice.h"
#include "base/yaml/yaml.h"
#include "webhook/edge/settings/settings.h"

#define CONFIG_KIND "Config"

/* The key `cluster` of the file's root into s->cluster, and its defaults. Same errors as
 * settings_text. */
void settings_cluster_defaults(struct cluster_settings *c);
bool settings_cluster_differ(const struct cluster_settings *a, const struct cluster_settings *b);
int settings_cluster(
	const struct yaml_node *root, struct settings *s, const char *config, struct err *err);

/* The key `registries` of the file's root into s. Same errors as settings_text. */
int settings_registries(
	const struct yaml_node *root, struct settings *s, const char *config, struct err *err);

/* The text of a config file (apiVersion poolgate.io/v1alpha1, kind Config) over what s holds. path
 * is for messages, and its folder is where relative paths begin. Errors name file, line, path,
 * found and expected: ERR_INVALID (also for text that is no YAML), ERR_TOOBIG, ERR_NOMEM. After an
 * error s holds a part. */
int settings_text(struct settings *s, const char *path, struct slice text, struct err *err);

/* Read and apply s->config. */
int settings_file(struct settings *s, struct err *err);

/* Remember who named a path of s, for settings_blame: a flag as it was written, or a node of the
 * config file. path is borrowed. */
void settings_source_flag(struct settings *s, const char *path, const char *flag);
void settings_source_node(struct settings *s, const char *path, const struct yaml_node *node);

/* What a value must be, whoever gives it. 0 or ERR_INVALID with "found …, expected …". */
int settings_check_listen(struct slice text, struct err *err);
/* An address, copied; `off` (also the boolean that YAML takes it for) where a listener can be left
 * out. Absent: *ret stays. */
int settings_listen(const struct yaml_node *map, const char *key, bool can_be_off,
	struct settings *s, const char **ret, struct err *err);

/* A path, from the config file's folder on when it is relative; it is remembered who named it.
 * Absent: *ret stays. */
int settings_path(const struct yaml_node *map, const char *key, struct settings *s,
	const char *config, const char **ret, struct err *err);

/* Can this be a shell's path: one word without NUL? */
bool settings_check_shell(struct slice text);

/* Can this be a client's common name? */
bool settings_check_client_name(struct slice text);

/* Bounds of durations, counts and names. */
#define CLIENT_NAME_MAX 255
#define CLAIM_TTL_MAX_MS (INT64_C(10) * 366 * 86400 * 1000)
#define DRAIN_DELAY_MAX_MS (10 * 60 * 1000)
#define RELOAD_MIN_MS 100
#define RELOAD_MAX_MS (60 * 60 * 1000)
#define WORKERS_MAX 64
/* Each review that waits for the API server takes one; in a cluster more must be able to wait at
 * one time, to share commits. */
#define WORKERS_UNSET UINT_MAX
#define WORKERS_DEFAULT 2
#define WORKERS_DEFAULT_CLUSTER 32
#define CONNECTIONS_MAX 65536

#endif
