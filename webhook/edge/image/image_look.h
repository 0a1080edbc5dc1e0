/* SPDX-License-Identifier: Apache-2.0 */
/* edge: what images start, asked once and kept for a while. */
#ifndef WEBHOOK_EDGE_IMAGE_IMAGE_LOOK_H
#define WEBHOOK_EDGE_IMAGE_IMAGE_LOOK_H

#include "webhook/core/image/image.h"
#include "webhook/core/image/pull_config.h"

/* Images that are kept, by name or digest, platforms and credentials; those that were asked for
 * longest ago go. */
#define IMAGE_LOOK_KEPT 256
/* How long: by digest, by tag, and what could not be found out. */
#define IMAGE_LOOK_DIGEST_MS (60 * 60 * 1000)
#define IMAGE_LOOK_TAG_MS (5 * 60 * 1000)
#define IMAGE_LOOK_FAILED_MS (10 * 1000)

/* Who knows the credentials of a pod. Any thread that may wait. */
struct login_source {
	void *ctx;
	/* Those for this image, copied into the arena, which is wiped afterwards; a sentence in why
	 * (code ERR_REFUSED) when some could not be read. NULL: there are none. ERR_NOMEM. */
	int (*find)(void *ctx, const struct image_ask *ask, const struct image_name *name,
		int64_t deadline_ms, struct arena *a, struct pull_logins *ret, struct err *why);
};

struct image_look;
struct registry_question; /* registry_client.h */

struct image_look_config {
	struct login_source logins;
	unsigned at_once; /* so many may be waited for at one time */
	/* For tests; NULL: registry_ask(), clock_ms(). */
	int (*ask)(const struct registry_question *q, struct arena *a, struct image_start *ret,
		struct err *err);
	int64_t (*now_ms)(void);
};

/* ERR_NOMEM. */
struct image_look *image_look_new(const struct image_look_config *config, struct err *err);
/* Nobody may be waiting. NULL-safe. */
void image_look_free(struct image_look *l);

/* Is it an image of one of these registries? */
bool image_look_allows(const struct registry *all, size_t n, struct slice image);

/* What the image starts: kept, or asked for now. As struct image_source has it. Any thread that may
 * wait. */
int image_look_find(struct image_look *l, const struct registry *all, size_t n,
	const struct image_ask *ask, int64_t deadline_ms, struct arena *a, struct image_start *ret,
	struct err *err);

#endif
