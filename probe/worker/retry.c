/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what a second process may take back, and that it is told. */
#include "probe/worker/retry.h"

#include <stdio.h>
#include <string.h>

/* Errors that another process on the same GPU, or one before, can cause. */
static bool may_be_anothers(enum probe_code code, int cuda_error)
{
	return cuda_error > 0 &&
	       (code == CODE_KERNEL_FAULT || code == CODE_CUDA_ERROR || code == CODE_INIT_FAILED);
}

bool retry_allowed(const struct report *r, const struct gpu_report *gpu, enum check_id check,
	enum probe_code code, int cuda_error)
{
	if (r->profile == PROFILE_STRESS || r->profile == PROFILE_LIST || gpu->first_try.was ||
		!may_be_anothers(code, cuda_error))
		return false;
	for (int i = 0; i < CHECK_COUNT; i++)
		if (i != (int)check && gpu->checks[i] && gpu->checks[i]->status == STATUS_FAIL)
			return false;
	return true;
}

void retry_note(struct gpu_report *gpu, enum check_id check, enum probe_code code, int cuda_error,
	const char *message)
{
	/* what failed before the first check could as well have failed when the kernels were loaded
	 */
	gpu->first_try = (struct first_try){.was = true,
		.check = check == CHECK_COUNT ? CHECK_KERNEL_IMAGE : check,
		.code = code,
		.cuda_error = cuda_error};
	(void)snprintf(gpu->first_try.message, sizeof(gpu->first_try.message), "%.159s", message);
}

static void tell_one(struct gpu_report *gpu)
{
	const struct first_try *first = &gpu->first_try;
	struct check_result *c = gpu->checks[first->check];
	char now[sizeof(c->message)];
	size_t len;

	if (!first->was || !c)
		return; /* what has no result is no pass */
	switch (c->status) {
	case STATUS_PASS:
	case STATUS_WARN:
		(void)snprintf(now, sizeof(now), "%s", c->message);
		check_warn(c, CODE_RETRIED,
			"a first process failed with %s (%.150s), a fresh one did not%s%.100s",
			code_text(first->code)->name, first->message, now[0] ? "; " : "", now);
		c->cuda_error = first->cuda_error;
		break;
	case STATUS_FAIL:
	case STATUS_ERROR:
		len = strlen(c->message);
		if (c->code == first->code)
			(void)snprintf(c->message + len, sizeof(c->message) - len,
				", in two processes one after the other");
		break;
	case STATUS_SKIP: /* then the first word is the last one */
		check_fail(c, first->code, "%s", first->message);
		c->cuda_error = first->cuda_error;
		break;
	}
}

void retry_tell(struct report *r)
{
	for (size_t i = 0; i < r->n_gpus; i++)
		tell_one(&r->gpus[i]);
}
