/* SPDX-License-Identifier: Apache-2.0 */
/* cli: what the doctor has found, and how it is told. */
#ifndef WEBHOOK_CLI_DOCTOR_DOCTOR_REPORT_H
#define WEBHOOK_CLI_DOCTOR_DOCTOR_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"

enum doctor_verdict { DOCTOR_OK, DOCTOR_WRONG, DOCTOR_UNCHECKED };

struct doctor_finding {
	enum doctor_verdict verdict;
	const char *group, *text;
	const char *mend; /* a command; NULL: there is none */
};

/* Zero it but for the arena. Out of memory shows as arena->failed. */
struct doctor_report {
	struct arena *arena;
	struct doctor_finding *at;
	size_t n, cap;
	const char *group; /* that findings go to */
};

/* Add one (printf style). What a terminal would obey becomes '?'. mend: of the report's arena or
 * static. */
void doctor_ok(struct doctor_report *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void doctor_wrong(struct doctor_report *r, const char *mend, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void doctor_unchecked(struct doctor_report *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* As arena_fmt, "" when out of memory: for `mend`. */
const char *doctor_fmt(struct doctor_report *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Has this group a finding that is no "ok"? */
bool doctor_group_troubled(const struct doctor_report *r);
size_t doctor_count(const struct doctor_report *r, enum doctor_verdict verdict);
/* One line each, or one JSON object. */
void doctor_print(const struct doctor_report *r, bool json, struct buf *out);

#endif
