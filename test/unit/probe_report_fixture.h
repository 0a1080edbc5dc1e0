/* SPDX-License-Identifier: Apache-2.0 */
/* test: reports of GPUs on which everything passed, to be broken by tests. */
#ifndef TEST_UNIT_PROBE_REPORT_FIXTURE_H
#define TEST_UNIT_PROBE_REPORT_FIXTURE_H

#include "probe/result/report.h"

/* A complete report of n GPUs like an H200 where every check of the profile, the optional ones too,
 * ran and passed. */
void healthy_report(struct report *r, enum probe_profile profile, int n);

/* A result that passes, with figures where the check has some. */
void passed_check(struct check_result *c, enum check_id id);

/* Take a result away. */
void lose_check(struct gpu_report *gpu, enum check_id id);

#endif
