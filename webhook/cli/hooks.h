/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate hooks`: the webhook configurations of this version, with the Secrets of the
 * profiles that settings name. */
#ifndef WEBHOOK_CLI_HOOKS_H
#define WEBHOOK_CLI_HOOKS_H

#include "base/buf.h"
#include "webhook/core/launcher/config.h"

/* argv[0] is not looked at. Returns the exit code. */
int hooks_main(int argc, char **argv);

/* Append the manifest of the webhooks (manifests/base/webhooks.yaml) with these names, sorted,
 * where its conditions name Secrets; policies: and with those of components/policies. out->failed
 * tells when it did not fit. */
void hooks_write(const char *const *names, size_t n, bool policies, struct buf *out);

/* The Secrets of all profiles, each name once, sorted, in the arena; what no Secret can be called
 * is left out. NULL: out of memory. */
const char **hooks_secrets(const struct config *c, struct arena *a, size_t *ret_n);

#endif
