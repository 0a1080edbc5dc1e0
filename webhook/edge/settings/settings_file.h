/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the config file. For settings.c. */
#ifndef WEBHOOK_EDGE_SETTINGS_SETTINGS_FILE_H
#define WEBHOOK_EDGE_SETTINGS_SETTINGS_FILE_H

#include "base/err.h"
#include "base/slice.h"
#include "base/yaml/yaml.h"
#include "webhook/edge/settings/settings.h"

#define CONFIG_KIND "Config"

/* Of the key `cluster`. */
void settings_cluster_defaults(struct cluster_settings *c);

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

/* Is it an address that can be listened on, whoever gives it? 0 or ERR_INVALID with "found …,
 * expected …". */
int settings_check_listen(struct slice text, struct err *err);

/* Can this be a client's common name? */
bool settings_check_client_name(struct slice text);

#endif
