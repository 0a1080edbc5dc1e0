/* SPDX-License-Identifier: Apache-2.0 */
/* edge: what the files of the admission routes share: one answers (admission.c), one decides
 * and asks others (admission_decide.c), one tells (admission_note.c). */
#ifndef WEBHOOK_EDGE_ADMISSION_ADMISSION_IMPL_H
#define WEBHOOK_EDGE_ADMISSION_ADMISSION_IMPL_H

#include "webhook/core/inject/mutate.h"
#include "webhook/core/review/review.h"
#include "webhook/edge/admission/admission.h"
#include "webhook/edge/admission/scratch.h"
#include "webhook/edge/metrics/metrics.h"

struct admission {
	struct admission_deps deps;
	struct scratch_pool *scratches;
};

/* One review on its way. */
struct call {
	struct admission *adm;
	struct http_request *req;
	struct scratch *s;
	const struct config *config;
	struct mutate_world world;
	struct image_source images;
	struct policy_source policies;
	const struct policy *policy; /* that holds for the claim; NULL: none */
	bool may_wait;               /* this is a worker */
	bool of_policies;            /* the API server has seen that the namespace picks one */
	bool later; /* a registry or an API server is to be asked, and this is none */
	enum metric_hook hook;
	struct review review;
	bool readable;
	struct answer answer;
	enum metric_result result;
	uint64_t ticket;                /* of a claim that this review took */
	const char *note;               /* for the log */
	int64_t mark_us;                /* end of the stage before */
	int64_t took_us[METRIC_STAGES]; /* -1: not entered */
	struct err err;
};

/* The answer into c->answer, with result, note and ticket. Else what is no answer: ERR_NOMEM,
 * ERR_INTERNAL, ERR_TIMEOUT. */
int call_decide(struct call *c);
/* What its world asks others, where they are to be asked. */
void call_use_sources(struct call *c);
/* The call's clock begins, with what it has waited for a thread. */
void call_begin(struct call *c);
/* That stage ends now. */
void call_mark(struct call *c, enum metric_stage stage);
/* Tell metrics, the page and the log what became of it. */
void call_note(const struct call *c, unsigned status);

#endif
