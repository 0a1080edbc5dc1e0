/* SPDX-License-Identifier: Apache-2.0 */
/* base: YAML and JSON files of people as trees that keep order, style and place. libyaml is used
 * by yaml_parse.c alone. Reading of config is in yaml_config.h, the meaning of scalars in
 * yaml_scalar.h, changing in yaml_patch.h, writing in yaml_splice.h. */
#ifndef BASE_YAML_YAML_H
#define BASE_YAML_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

/* No Kubernetes object comes near it (a CRD schema reaches about 40); libyaml's time grows with
 * depth squared. */
#define YAML_DEPTH_MAX 64
/* etcd takes 1.5 MiB per object; a file may hold a few. */
#define YAML_BYTES_MAX (8u << 20)
/* Nodes of one text, and of one conversion to JSON after aliases are expanded. A node takes 200
 * bytes. */
#define YAML_NODES_MAX 400000u
/* Enough for the tree of any text within the limits above. */
#define YAML_ARENA_MAX (192u << 20)
/* Anchors of one document. */
#define YAML_ANCHORS_MAX 1024

enum yaml_kind { YAML_MAP, YAML_SEQ, YAML_SCALAR, YAML_ALIAS };

enum yaml_style {
	YAML_PLAIN, /* scalars … */
	YAML_SINGLE,
	YAML_DOUBLE,
	YAML_LITERAL,
	YAML_FOLDED,
	YAML_BLOCK, /* … and collections */
	YAML_FLOW
};

struct yaml_doc;

/* One node. A map's children are key, value, key, value … in the order of the text. */
struct yaml_node {
	enum yaml_kind kind;
	enum yaml_style style;
	bool plain_meaning;  /* a scalar without quotes: unless it has a tag, its spelling decides
				its type */
	uint32_t count;      /* members of a map, elements of a sequence */
	uint32_t line;       /* from 1; of a node that a patch made: 0 */
	uint32_t column;     /* from 1 */
	uint32_t aliased;    /* how many aliases name this node */
	uint32_t from, to;   /* its bytes in the text behind a BOM, with anchor and tag; of a block
				collection `to` is 0 */
	bool gone;           /* a patch took it away */
	struct slice text;   /* a scalar's value (may hold NUL), an alias's name */
	struct slice raw;    /* a scalar that was read as JSON: as it was spelled, quotes included;
				else absent */
	struct slice tag;    /* in full, "tag:yaml.org,2002:str"; absent when there is none */
	struct slice anchor; /* absent when there is none */
	struct yaml_node *first, *last, *next, *parent;
	struct yaml_node
		*target;        /* an alias's node: never absent, never one that holds the alias */
	struct yaml_node **was; /* the children that were read, once a patch has changed something
				   in here; else NULL */
	uint32_t was_count;
	struct yaml_doc *doc;
};

struct yaml_doc {
	struct yaml_node *root; /* never NULL: an empty document holds an empty plain scalar */
	const char *file;       /* for messages: as it was given to yaml_parse(), copied */
	struct arena *arena;    /* where the tree lives; borrowed */
	uint32_t nodes;         /* nodes in the tree */
	bool json;              /* was read as JSON */
	bool start_marked;      /* "---" was written */
	bool directives;        /* %YAML or %TAG was written */
	struct yaml_doc *next;
};

/* What one text holds: 0 to n documents. */
struct yaml_stream {
	struct yaml_doc *first;
	size_t count;
};

enum yaml_flags {
	YAML_ANY = 0,
	YAML_NO_ALIASES = 1 /* refuse anchors, aliases and merge keys: for files that are config */
};

/* Read text. Everything is copied into the arena, which must outlive the tree; `file` is for
 * messages ("-" is written as "standard input"). Text whose first byte that is not blank is '{' is
 * tried as JSON first (JSON is no subset of YAML). Accepted: UTF-8, one BOM at the start. Refused
 * with file, line and path: what libyaml refuses, UTF-16, depth over 64, more than YAML_BYTES_MAX
 * or YAML_NODES_MAX, a key that means the same as an earlier one of its map, collections and
 * aliases as keys, unknown aliases, an alias inside the node that it names.
 * ERR_SYNTAX, ERR_TOOBIG, ERR_REFUSED (aliases and merge keys under YAML_NO_ALIASES) or ERR_NOMEM.
 */
int yaml_parse(struct arena *arena, const char *file, struct slice text, enum yaml_flags flags,
	struct yaml_stream *ret, struct err *err);

/* The value of a key (compared with what the key means: `y` is "true"), or NULL when node is NULL,
 * no map or has no such key. Does not follow aliases or merge keys. */
struct yaml_node *yaml_get(const struct yaml_node *node, const char *key);
struct yaml_node *yaml_get_slice(const struct yaml_node *node, struct slice key);
/* yaml_get along a path: yaml_path(n, "spec", "containers", NULL). */
struct yaml_node *yaml_path(const struct yaml_node *node, ...) __attribute__((sentinel));
/* The i-th element of a sequence, or NULL. */
struct yaml_node *yaml_at(const struct yaml_node *node, size_t i);

/* The key behind key k of a map, or NULL behind the last. */
static inline struct yaml_node *yaml_next_key(const struct yaml_node *k)
{
	return k->next ? k->next->next : NULL;
}

/* for each element e of a sequence (nothing when v is NULL or no sequence) */
#define YAML_EACH(v, e)                                                                            \
	for (struct yaml_node *e = yaml_is(v, YAML_SEQ) ? (v)->first : NULL; e; e = e->next)
/* for each member of a map: k is the key, k->next its value */
#define YAML_MEMBERS(v, k)                                                                         \
	for (struct yaml_node *k = yaml_is(v, YAML_MAP) ? (v)->first : NULL; k;                    \
		k = yaml_next_key(k))

/* node is not NULL and of this kind. */
bool yaml_is(const struct yaml_node *node, enum yaml_kind kind);
/* NULL, or a scalar that means null: Kubernetes treats both as absent. */
bool yaml_absent(const struct yaml_node *node);
/* Is it the plain scalar `<<` (or one with the merge tag)? */
bool yaml_is_merge(const struct yaml_node *key);
/* A scalar that means a string, with this value. */
bool yaml_is_str(const struct yaml_node *node, const char *value);

/* What a message calls a node: `"abc"`, `12`, `true`, `nothing`, `a mapping`, `a sequence`, `an
 * alias`; long values cut. In quotes when it means a string. At most 80 bytes into out. */
const char *yaml_found(const struct yaml_node *node, char out[static 80]);
/* The JSON pointer of a node from its document's root ("" for the root): keys by what they mean. */
void yaml_pointer(const struct yaml_node *node, struct buf *out);

/* Set err to "FILE:LINE: PATH: message" and return the code. node may be a map for something that
 * is missing in it. */
int yaml_err(const struct yaml_node *node, struct err *err, enum err_code code, const char *fmt,
	...) __attribute__((format(printf, 4, 5)));
/* The same with `found X, expected …` and ERR_INVALID. */
int yaml_unexpected(const struct yaml_node *node, struct err *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Building, for yaml_patch and for JSON: an empty node of this document. NULL when the arena or
 * YAML_NODES_MAX ran out. */
struct yaml_node *yaml_node_new(struct yaml_doc *doc, enum yaml_kind kind, enum yaml_style style);
/* Put child at the end of a sequence. */
void yaml_append(struct yaml_node *seq, struct yaml_node *child);
/* Put a member at the end of a map. Does not look for an equal key. */
void yaml_put(struct yaml_node *map, struct yaml_node *key, struct yaml_node *value);

#endif
