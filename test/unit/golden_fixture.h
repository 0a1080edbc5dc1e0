/* SPDX-License-Identifier: Apache-2.0 */
/* The golden cases of build/golden/cases, each decided as its server would, without sockets. Their
 * configurations are read from the tree: programs that use this run where the tree is. */
#ifndef TEST_UNIT_GOLDEN_FIXTURE_H
#define TEST_UNIT_GOLDEN_FIXTURE_H

#include "base/json/json_read.h"
#include "webhook/edge/admission/admission.h"

struct golden_setup; /* a configuration, as the cases' server is started with it */

/* Reads all configurations; golden_end gives them back. */
void golden_begin(void);
void golden_end(void);

/* One of a case's files, read. */
struct golden_document {
	struct json json;
	char *text;
};

struct golden_case {
	const char *name;
	const struct golden_setup *setup;
	bool validate; /* posted to /validate; else to /mutate */
	struct golden_document review, expect;
};

/* Every case, by name; what it is given lives until it returns. */
void golden_each(void (*one)(const struct golden_case *c, void *ctx), void *ctx);

struct golden_answer {
	unsigned status;
	char *body;    /* the caller frees it */
	size_t claims; /* that the pool holds behind it */
};

/* What surrounds a decision. */
struct golden_frame {
	const struct policies_known *policies; /* NULL: no namespace picks any */
	/* Nodes are asked for nothing; places come late. */
	bool node_resource_off, late_place;
	/* At the first byte of the body, and behind the last of the reply; both may be NULL. */
	void (*begin)(void *ctx), (*end)(void *ctx);
	void *ctx;
};

/* All that a server that holds no claim does with a review. frame: may be NULL. */
struct golden_answer golden_decide(const struct golden_setup *s, bool validate, struct slice review,
	const struct golden_frame *frame);

/* Was it allowed, and with which patch (the caller's; NULL: none)? */
bool golden_verdict(const char *reply, char **ret_patch);

/* A review of a pod p in the namespace ml; the caller frees it. */
char *golden_review(const char *operation, const char *object, const char *old);
/* The pod that a patch makes of another, as it is stored then; the caller frees it. */
char *golden_stored(const char *pod, const char *patch);

#endif
