/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration and a pool for tests of the core: the Bitfusion profile with client ubuntu18/400,
 * a wrap profile without separator, and one that is told its servers. */
#ifndef TEST_UNIT_CORE_FIXTURE_H
#define TEST_UNIT_CORE_FIXTURE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/json/json_read.h"
#include "webhook/core/inject/mutate.h"
#include "webhook/core/launcher/config.h"
#include "webhook/core/validate/validate.h"

#define FIX_LAUNCHER "/bitfusion/client/usr/bin/bitfusion"
#define FIX_LIB "/bitfusion/client/opt/bitfusion/lib"

struct fixture {
	struct arena arena;   /* of the configuration */
	struct arena scratch; /* of one decision */
	struct config config;
	struct profile profiles[3]; /* bitfusion, juice, lupine */
	struct ledger *ledger; /* in memory; one server gpu-01 at 10.0.0.1:14833 with two GPUs of
				  16000 MB */
	struct mutate_world world;
	struct buf patch;
	char *json_text;
	struct json json;
	struct mutation mutation;
	struct validation validation;
	struct err err;
};

void fixture_init(struct fixture *f);
void fixture_release(struct fixture *f);

/* Read a pod; single quotes in the text stand for double quotes. Forgets the one before. */
const struct json_node *fixture_pod(struct fixture *f, const char *text);
/* As it is, without replacing quotes. */
const struct json_node *fixture_raw(struct fixture *f, const char *text);

/* mutate_create on a text; the patch is in f->patch. */
int fixture_mutate(struct fixture *f, const char *text);
/* validate_create on a text. */
int fixture_validate(struct fixture *f, const char *text);
/* The same, of a text as it is. */
int fixture_validate_raw(struct fixture *f, const char *text);

/* Read both as they are: {"old": …, "new": …}. */
const struct json_node *fixture_both(struct fixture *f, const char *old, const char *new);
/* mutate_update on both; the patch is in f->patch. */
int fixture_update(
	struct fixture *f, const struct config *config, const char *old, const char *new);

/* The text with a JSON patch applied: add, replace, remove on objects and arrays. Fails the test
 * when an operation does not apply under RFC 6902. The caller frees it. */
char *fixture_apply(const char *text, const char *patch);

/* fixture_apply with a patch in single quotes. */
char *fixture_change(const char *text, const char *ops);

/* mutate_create and fixture_apply: the injected pod as text, the caller frees it. Fails the test
 * when it is refused. */
char *fixture_inject(struct fixture *f, const char *text);

/* mutate_undo of a pod as it is, and fixture_apply: the pod as its user sent it, the caller frees
 * it. Fails the test when it is refused. */
char *fixture_undo(struct fixture *f, const char *pod);

/* A text as cJSON, in double quotes or, where it begins so, in single ones; the caller deletes it.
 */
struct cJSON *fixture_tree(const char *text);
/* Fails the test, with the row and what the text is, unless both texts are the same JSON. */
void fixture_same(size_t row, const char *what, const char *text, const char *other);

#endif
