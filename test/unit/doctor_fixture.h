/* SPDX-License-Identifier: Apache-2.0 */
/* Facts for tests of the doctor, and what is judged of them. */
#ifndef TEST_UNIT_DOCTOR_FIXTURE_H
#define TEST_UNIT_DOCTOR_FIXTURE_H

#include "webhook/cli/doctor/doctor_read.h"

#define NOW_S INT64_C(1790000000)
#define NOW_MS (NOW_S * 1000)

struct doctor_fixture {
	struct doctor_facts f;
	struct doctor_report r;
	struct arena arena;
	struct buf out;
};

/* What a test has: facts of an API server 1.36 at NOW_S that was asked nothing, and a report for
 * the group "test". */
extern struct doctor_fixture dr;

/* For TESTS_BETWEEN. */
int dr_begin(void **state);
int dr_end(void **state);
/* As at the test's beginning. */
void dr_anew(void);

/* In all texts of JSON single quotes stand for double quotes. An object "it" that is there. */
void dr_put(struct sight *s, const char *text);
/* The webhook configuration as shipped, with one piece of it changed (from NULL: none). */
void dr_hooks(size_t i, const char *from, const char *to);
/* One object of a list that is there. */
void dr_take(kube_each *each, struct doctor_list *list, const char *object);

/* Judge anew; what is printed. */
const char *dr_judge(doctor_judge *fn);

#define SAYS(fn, piece)                                                                            \
	do {                                                                                       \
		const char *said_ = dr_judge(fn);                                                  \
		if (!strstr(said_, piece))                                                         \
			fail_msg("\"%s\" is not in: %s", piece, said_);                            \
	} while (0)

#endif
