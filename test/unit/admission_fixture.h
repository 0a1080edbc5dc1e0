/* SPDX-License-Identifier: Apache-2.0 */
/* The routes /mutate and /validate without sockets, over the core's fixture. */
#ifndef TEST_UNIT_ADMISSION_FIXTURE_H
#define TEST_UNIT_ADMISSION_FIXTURE_H

#include <stdbool.h>

#include "base/log.h"
#include "base/metric.h"
#include "test/unit/core_fixture.h"
#include "webhook/edge/admission/admission.h"
#include "webhook/edge/metrics/metrics.h"

struct admission_fixture {
	struct fixture core;
	struct metrics *metrics;
	struct decisions *decisions;
	struct log log; /* errors alone */
	struct admission *admission;
	/* the last call */
	struct http_request request;
	struct http_reply reply;
};

/* Of the fixtures that are inited from now on; zero: there are none. */
extern struct policies_known admission_fixture_policies;
/* And what their images are looked up by; NULL: none is. */
extern struct image_look *admission_fixture_images;
/* By which route reviews come from now on; NULL: by none. */
extern const struct http_route *admission_fixture_route;

/* With the core's ledger, or with another one. */
void admission_fixture_init(struct admission_fixture *f, struct ledger *ledger);
void admission_fixture_release(struct admission_fixture *f);

/* Give the text, padded, to a handler; the reply before it is freed. Returns the handler's outcome.
 */
enum http_outcome admission_call(
	struct admission_fixture *f, http_handler *handler, const char *text);

/* A review of a pod; single quotes stand for double ones. The caller frees it. */
char *admission_review(
	const char *operation, const char *object, const char *old, const char *more);

/* Claims in the ledger. */
size_t admission_claims(struct admission_fixture *f);

#endif
