/* SPDX-License-Identifier: Apache-2.0 */
/* core: what the files that make a launcher profile out of a document share: a file for each part
 * of it. What is not ours to understand goes through verbatim. All results are copied into the
 * arena; errors name file, line and path. */
#ifndef WEBHOOK_CORE_LAUNCHER_LAUNCHER_PARTS_H
#define WEBHOOK_CORE_LAUNCHER_LAUNCHER_PARTS_H

#include <stdbool.h>
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

/* The text at a key, which must be there and good; expected: what it is then. ERR_INVALID,
 * ERR_NOMEM.
 */
int parts_text(const struct yaml_node *map, const char *key, bool (*good)(struct slice),
	const char *expected, struct arena *a, struct slice *ret, struct err *err);

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

/* What p has to know before: clients. Errors are ERR_INVALID with the place, or ERR_NOMEM. */

/* The template at this node, copied into the arena: with known places alone, and those that have no
 * value for every request ({fraction}, {memory_mb}, …) only where `when` gives them one. */
int template_read(const struct yaml_node *node, enum word_when when, const struct profile *p,
	struct arena *a, struct slice *ret, struct err *err);

/* The key "if" of an entry (fraction, memory, filter); *io stays as it is when there is none. */
int template_when(const struct yaml_node *map, enum word_when *io, struct err *err);

/* A request that fills every place, to see what templates give for a client. Borrows both. */
struct launch template_sample(const struct profile *p, const struct profile_client *c);

/* Does any template of the profile hold this place? */
bool profile_has(const struct profile *p, const char *place);

/* What is put into the texts of an init container. */
struct inits_fill {
	/* {client.NAME} in the strings of command, args and env[].value; other braces stay as they
	 * are. */
	const struct profile_value *values;
	size_t n_values;
	/* In command[2] the first `word` becomes `by`; absent: no such thing. */
	struct slice word;
	struct slice by;
};

/* Init containers for one client: objects with name (a DNS label, each once) and image;
 * volumeMounts as in parts_mounts; resources are taken apart. ERR_INVALID, ERR_NOMEM. */
int inits_read(const struct yaml_node *seq, const struct inits_fill *fill,
	const struct profile_volume *volumes, size_t n_volumes, struct arena *a,
	struct profile_init **ret, size_t *ret_n, struct err *err);

/* Words of one argv. */
#define PROFILE_WORDS_MAX 256

/* argv, separator, launcher, options, shell: demanded of a wrap profile, refused elsewhere. p must
 * know its clients; spec is the document's. ERR_INVALID with the place, ERR_NOMEM. */
int argv_read(const struct yaml_node *spec, struct arena *a, struct profile *p, struct err *err);

/* env: demanded of a profile that does not wrap. p must know its clients; spec is the document's.
 * ERR_INVALID with the place, ERR_NOMEM. */
int env_read(const struct yaml_node *spec, struct arena *a, struct profile *p, struct err *err);

/* Of the CAs' PEM: it stands in an annotation of each pod, and all of an object's may have 256 KiB.
 */
#define GATE_CA_MAX (32u << 10)

/* spec.gate of the document, where it is there: sets p->gate, and adds the sidecar to the init
 * containers of each client, behind the profile's own, and its two volumes to the profile's. p must
 * know its clients, parts and placement. ERR_INVALID with the place, ERR_NOMEM. */
int gate_read(const struct yaml_node *spec, struct arena *a, struct profile *p, struct err *err);

/* Set p->hash: text_hash64 over a rendering of every member that decides what is written into a pod
 * or accepted from it, in a fixed order and with lengths, so that two profiles with the same hash
 * do the same. ERR_NOMEM. */
int profile_seal(struct profile *p, struct err *err);

#endif
