/* SPDX-License-Identifier: Apache-2.0 */
/* core: what registries say of images: indexes, manifests and configurations, by OCI's and by
 * Docker's media types. Strict: a document that could be two things is none. */
#ifndef WEBHOOK_CORE_IMAGE_IMAGE_DOC_H
#define WEBHOOK_CORE_IMAGE_IMAGE_DOC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json/json_read.h"
#include "webhook/core/image/image.h"

/* Documents of these kinds are asked for, as HTTP's Accept names them. */
#define IMAGE_ACCEPT                                                                               \
	"application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "    \
	"application/vnd.docker.distribution.manifest.list.v2+json, "                              \
	"application/vnd.docker.distribution.manifest.v2+json"

/* Architectures are counted as bits; the last stands for all that have no name here. */
#define IMAGE_ARCHES 12
#define IMAGE_ARCH_OTHER (IMAGE_ARCHES - 1)
const char *image_arch_name(unsigned arch);

/* One document that another speaks of. */
struct image_part {
	struct slice digest;
	uint64_t size;
	struct slice os, arch; /* of an index's manifests */
};

struct image_manifest {
	bool index;
	struct image_part config; /* of a manifest */
	/* Of an index: its manifests for Linux, on these architectures. */
	struct image_part *parts;
	size_t n_parts;
};

struct image_config {
	struct slice os, arch;
	struct image_start start; /* without its digest */
};

/* Read a manifest or an index that came with this media type; want_arches: whose manifests are
 * wanted. Everything is copied into the arena or points into j's text. ERR_REFUSED, with what is
 * wrong; ERR_NOMEM. */
int image_manifest_read(const struct json *j, struct slice media_type, unsigned want_arches,
	struct arena *a, struct image_manifest *ret, struct err *err);

/* Read an image's configuration. The same errors. */
int image_config_read(
	const struct json *j, struct arena *a, struct image_config *ret, struct err *err);

/* Copy everything into the arena; ret may be from. 0 or ERR_NOMEM. */
int image_start_copy(struct arena *a, const struct image_start *from, struct image_start *ret);

/* Do they start the same? */
bool image_start_same(const struct image_start *a, const struct image_start *b);

#endif
