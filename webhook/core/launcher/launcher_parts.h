/* SPDX-License-Identifier: Apache-2.0 */
/* core: the Kubernetes objects of a profile (volumes, mounts, Secret names), read from YAML and
 * rendered once. What is not ours to understand goes through verbatim. All results are copied into
 * the arena; errors name file, line and path. */
#ifndef WEBHOOK_CORE_LAUNCHER_LAUNCHER_PARTS_H
#define WEBHOOK_CORE_LAUNCHER_LAUNCHER_PARTS_H

#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/yaml/yaml.h"
#include "webhook/core/launcher/launcher.h"

/* More than any client needs; bounds what one pod can grow by. */
#define PROFILE_PARTS_MAX 64
/* Of one rendered object. */
#define PROFILE_OBJECT_MAX (256 * 1024)

/* A copy of s in the arena, NUL-terminated. ERR_NOMEM. */
int parts_copy(struct slice s, struct arena *a, struct slice *ret, struct err *err);

/* The key of a client for its programs' architecture, such as amd64; absent when it is not there.
 * ERR_INVALID, ERR_NOMEM. */
int parts_arch(const struct yaml_node *map, const char *key, struct arena *a, struct slice *ret,
	struct err *err);

/* Room for one entry of `size` bytes per element of seq, which may be absent (then *ret has no
 * entry, and is not NULL). Says what a sequence must be and how long it may be. ERR_INVALID,
 * ERR_NOMEM. */
int parts_room(
	const struct yaml_node *seq, size_t size, struct arena *a, void **ret, struct err *err);

/* The member "name" of a part: a DNS label. what: "a volume", for the message. *ret points into the
 * tree. ERR_INVALID. */
int parts_name(const struct yaml_node *part, const char *what, struct slice *ret, struct err *err);

/* Copy a finished rendering of `at` into the arena and release b. ERR_TOOBIG when it failed,
 * ERR_NOMEM. */
int parts_finish(struct buf *b, const struct yaml_node *at, struct arena *a, struct slice *ret,
	struct err *err);

/* Volumes: objects with a name that is a DNS label, each once. NULL or absent: none. ERR_INVALID,
 * ERR_NOMEM. */
int parts_volumes(const struct yaml_node *seq, struct arena *a, struct profile_volume **ret,
	size_t *ret_n, struct err *err);

/* Volume mounts: objects with a name out of volumes and a mountPath, each path once. ERR_INVALID,
 * ERR_NOMEM. */
int parts_mounts(const struct yaml_node *seq, const struct profile_volume *volumes,
	size_t n_volumes, struct arena *a, struct profile_mount **ret, size_t *ret_n,
	struct err *err);

/* Names of the Secrets that volumes mount (secret.secretName, projected.sources[].secret.name),
 * each once, in their order, behind those that *io holds. ERR_INVALID, ERR_NOMEM. */
int parts_secrets(const struct yaml_node *volumes, struct arena *a, struct slice **io, size_t *io_n,
	struct err *err);

/* Add one name if it is not among them. *io must have room for one more. */
void parts_add_name(struct slice *io, size_t *io_n, struct slice name);

#endif
