/* SPDX-License-Identifier: Apache-2.0 */
/* core: the credentials for registries in a Docker configuration: a pull Secret's, or a user's own
 * file. */
#ifndef WEBHOOK_CORE_IMAGE_PULL_CONFIG_H
#define WEBHOOK_CORE_IMAGE_PULL_CONFIG_H

#include "base/arena.h"
#include "base/json/json_read.h"
#include "webhook/core/image/image.h"

/* So many are tried for one image. */
#define PULL_LOGINS_MAX 4

struct pull_login {
	struct slice user, password;
	size_t path; /* how much of the repository it is for: the longer, the sooner it is tried */
};

struct pull_logins {
	struct pull_login list[PULL_LOGINS_MAX];
	size_t n;
};

/* Add those that are for this image's registry, to the letter, and for its repository or what it
 * lies under: auths is the object whose keys say that
 * ("https://index.docker.io/v1/", "ghcr.io/team"). Patterns ("*.example.com") are for nobody. What
 * cannot be read is left out. Everything is copied into the arena, whose failure the caller sees.
 */
void pull_config_find(const struct json *j, const struct json_node *auths,
	const struct image_name *name, struct arena *a, struct pull_logins *io);

#endif
