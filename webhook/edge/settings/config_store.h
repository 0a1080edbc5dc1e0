/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the configuration that decisions are made by: built from files, verified, and then
 * published by one pointer swap while reviews go on with the one they began with. */
#ifndef WEBHOOK_EDGE_SETTINGS_CONFIG_STORE_H
#define WEBHOOK_EDGE_SETTINGS_CONFIG_STORE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "webhook/core/launcher/config.h"
#include "webhook/edge/settings/policy_file.h"
#include "webhook/edge/settings/settings.h"

/* Profiles of one server. */
#define CONFIG_PROFILES_MAX 256
/* Of all profiles together, as they are kept. */
#define CONFIG_ARENA_MAX (64u * 1024 * 1024)

/* A configuration with the memory it lives in. */
struct config_built {
	struct config config; /* first: the source of reviews hands it out */
	struct arena arena;
	uint64_t hash; /* equal for equal configurations */
	unsigned refs;
	/* Of the files that the settings name. */
	bool has_policies;
	struct policies policies;
};

/* Read the client catalogue, the sidecar config and the launcher profiles that s names. *ret is the
 * caller's: free it with config_built_free or hand it to config_store_publish. Errors name file,
 * line and path: ERR_INVALID, ERR_SYNTAX, ERR_REFUSED (aliases), ERR_NOTFOUND, ERR_IO, ERR_TOOBIG,
 * ERR_NOMEM. */
int config_build(const struct settings *s, struct config_built **ret, struct err *err);

/* Told of each file that is wrong. */
typedef void config_complaint(void *ctx, const struct err *err);

/* As config_build, but goes on after the first file that is wrong, and tells each (NULL: none, and
 * stops at the first). err is the first. */
int config_build_all(const struct settings *s, config_complaint *each, void *ctx,
	struct config_built **ret, struct err *err);
/* Leave out the profiles that are not to be kept; the default one, too. How many. Before it is
 * published. */
size_t config_built_keep(
	struct config_built *b, bool (*keep)(void *ctx, const struct profile *p), void *ctx);
void config_built_free(struct config_built *b);

/* What is in force. */
struct config_store {
	pthread_mutex_t lock; /* guards now and every refs */
	struct config_built *now;
};

void config_store_init(struct config_store *store);
/* Nothing that was acquired may be in use any more. */
void config_store_release(struct config_store *store);

/* Put b in force; it belongs to the store from now on. False, and b is freed, when it is equal to
 * what is in force. */
bool config_store_publish(struct config_store *store, struct config_built *b);

/* The configuration in force, as it stays until it is given back. Only after the first publish. ctx
 * is the store; the shape is that of struct config_source in admission.h. Any thread. */
const struct config *config_store_acquire(void *ctx);
void config_store_give_back(void *ctx, const struct config *config);

/* The policies of a configuration that was built or acquired; false: its settings name none. As
 * struct policies_known in admission.h has it, ctx is not looked at. */
bool config_policies_any(void *ctx, const struct config *config);
int config_policies_of(void *ctx, const struct config *config, struct slice namespace, bool picks,
	int64_t deadline_ms, struct arena *a, const struct policy **ret, struct err *err);

#endif
