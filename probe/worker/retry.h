/* SPDX-License-Identifier: Apache-2.0 */
/* probe: a context that an error has spoilt says nothing of what comes after it, and the error may
 * have been somebody else's (a neighbour under MPS, what ran before): a fresh process may try once
 * more. The same failure twice is the verdict, and a first failure is told in any case. What is
 * evidence by itself (wrong data, ECC, a hang) is never tried away. */
#ifndef PROBE_WORKER_RETRY_H
#define PROBE_WORKER_RETRY_H

#include <stdbool.h>

#include "probe/result/report.h"

/* May a fresh process try again after this error of a GPU's context? Only of errors that may be
 * another's, only when nothing else has failed on this GPU, and not in stress: a fault under its
 * load is what it looks for. check: the one that failed; CHECK_COUNT: none had begun. */
bool retry_allowed(const struct report *r, const struct gpu_report *gpu, enum check_id check,
	enum probe_code code, int cuda_error);

/* Note what ended the first process. check: what failed; CHECK_COUNT: none had begun. */
void retry_note(struct gpu_report *gpu, enum check_id check, enum probe_code code, int cuda_error,
	const char *message);

/* When everything is judged: what failed first and passed then is a warning (RETRIED), what failed
 * twice says so. */
void retry_tell(struct report *r);

#endif
