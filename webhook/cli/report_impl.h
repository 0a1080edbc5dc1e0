/* SPDX-License-Identifier: Apache-2.0 */
/* cli: what `poolgate report` has read. Shared by report.c and report_say.c. */
#ifndef WEBHOOK_CLI_REPORT_IMPL_H
#define WEBHOOK_CLI_REPORT_IMPL_H

#include "kube/kube.h"
#include "webhook/core/server/usage_record.h"

enum report_by { BY_NAMESPACE, BY_POLICY, BY_MODEL, BY_SERVER };

/* A period of one server, as it was read somewhere. */
struct report_period {
	const char *server, *uid;
	struct usage_period usage;
};

/* Which GPUPolicy a namespace picks now. */
struct report_policy {
	const char *namespace, *name;
};

/* Zeroed, but for what is said to be the caller's. All lives in the arena. */
struct report {
	struct arena arena;            /* the caller's: inited, and released at the end */
	enum report_by by;             /* the caller's, like the two that follow */
	int64_t from_s, to_s;          /* periods that begin in there count */
	struct kube *kube;             /* until its time open ones count */
	struct report_period *periods; /* may hold one several times */
	size_t n_periods, cap_periods, unreadable; /* texts that nobody here understands */
	struct report_policy *policies;            /* BY_POLICY: by namespace */
	size_t n_policies, cap_policies;
	struct usage_period sum; /* each row's `namespace` is what is asked by; model is "" */
};

/* Append it: for people, or with exact numbers. */
void report_say_table(const struct report *r, struct buf *out);
void report_say_csv(const struct report *r, struct buf *out);
void report_say_json(const struct report *r, struct buf *out);

/* "namespace" … */
extern const char *const report_bys[];

#endif
