/* SPDX-License-Identifier: Apache-2.0 */
/* core: what an image starts where the pod does not say so: its ENTRYPOINT and CMD. Who looks it up
 * is outside of the core. */
#ifndef WEBHOOK_CORE_IMAGE_IMAGE_H
#define WEBHOOK_CORE_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

/* "sha256:" and 64 hexadecimal digits. */
#define IMAGE_DIGEST_LEN 71
/* Words of ENTRYPOINT and CMD together, and their bytes. */
#define IMAGE_WORDS_MAX 1024
#define IMAGE_WORDS_BYTES_MAX (32 * 1024)

struct pod;

/* A registry that the operator has named, and what it may make us do. */
struct registry {
	struct slice host;    /* exact, with its port where it has one: "ghcr.io" */
	struct slice *tokens; /* hosts that give out tokens for it, beside itself */
	size_t n_tokens;
	struct slice
		*manifests; /* hosts that may say what a tag stands for when it is asked there */
	size_t n_manifests;
	struct slice *
		storage; /* hosts that may have `addresses`, too, when blobs are redirected there */
	size_t n_storage;
	struct slice *addresses; /* ranges ("10.2.0.0/16") that are inner ones and yet meant */
	size_t n_addresses;
	const char *ca; /* PEM, the only CAs that are trusted there; NULL: those of the system */
};

/* What an image starts. */
struct image_start {
	struct slice digest; /* of what its name stands for: manifest, or index of manifests */
	struct slice *entrypoint;
	size_t n_entrypoint;
	struct slice *cmd;
	size_t n_cmd;
};

/* Whose image, and where it may run. */
struct image_ask {
	struct slice image; /* as the pod spells it */
	struct slice namespace;
	const struct pod *pod;
};

/* Who knows what images start. */
struct image_source {
	void *ctx;
	/* Does the operator allow to look at this image? Does not wait. */
	bool (*allows)(void *ctx, struct slice image);
	/* What it starts; of several platforms that the pod may run on all must agree. May wait.
	 * ERR_REFUSED, with a sentence that begins with a small letter: it cannot be known.
	 * ERR_TIMEOUT: asked by who may not wait. ERR_NOMEM. */
	int (*look)(void *ctx, const struct image_ask *ask, struct arena *a,
		struct image_start *ret, struct err *err);
};

/* An image's name, taken apart as container runtimes do. */
struct image_name {
	struct slice host;       /* "docker.io" where it names none */
	struct slice repository; /* "library/ubuntu" */
	struct slice tag;        /* "latest" where it has neither; absent beside a digest */
	struct slice digest;     /* absent: none */
};

/* ERR_INVALID: no name of an image, or one that no runtime in use would take; ERR_NOMEM. */
int image_name_read(struct slice text, struct arena *a, struct image_name *ret, struct err *err);

/* "sha256:…"? */
bool image_is_digest(struct slice s);

/* The registry of that host, or NULL. */
const struct registry *image_registry(
	const struct registry *all, size_t n, const struct image_name *name);

#endif
