/* SPDX-License-Identifier: Apache-2.0 */
/* cli: what images start, for `poolgate inject`: from the registries that its user names, with the
 * user's own credentials. */
#ifndef WEBHOOK_CLI_INJECT_INJECT_REGISTRY_H
#define WEBHOOK_CLI_INJECT_INJECT_REGISTRY_H

#include "webhook/core/launcher/config.h"
#include "webhook/edge/image/image_look.h"

#define INJECT_REGISTRIES_MAX 16

struct inject_registry {
	struct config config; /* its registries are those that were named */
	struct image_look *look;
	struct image_source source;
	struct arena arena;
};

/* names: "HOST", or "HOST,TOKENHOST…"; one that the settings have is taken from there, too.
 * ERR_SYNTAX: a name that is none; ERR_NOMEM. ret is inited here and must be released in every
 * case. */
int inject_registry_open(const struct config *config, const char *const *names, size_t n,
	struct inject_registry *ret, struct err *err);
void inject_registry_release(struct inject_registry *r);

#endif
