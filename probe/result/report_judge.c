/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the verdict. A check that did not run is never a pass: a GPU is fit only when every
 * required check is there and says so, and a server only when it has GPUs and all of them are fit.
 */
#include "probe/result/report.h"

#include <string.h>

/* What was found of one GPU. */
struct findings {
	bool failed;  /* something is wrong with it */
	bool unknown; /* something required could not be found out */
	bool warned;
};

static enum check_need need_of(const struct report *r, enum check_id id)
{
	const struct check_kind *kind = check_kind(id);
	enum check_need need;

	if ((unsigned)r->profile >= PROFILE_COUNT)
		return NEED_REQUIRED;
	need = kind->need[r->profile];
	if (need == NEED_OPTIONAL && r->require_nvml && r->profile == PROFILE_VERIFY &&
		strncmp(kind->id, "nvml.", 5) == 0)
		return NEED_REQUIRED;
	return need;
}

/* The one skip of a required check that is none: there is nothing to check. Before Volta there are
 * no tensor cores. */
static bool skip_is_excused(const struct gpu_report *gpu, const struct check_result *c)
{
	return c->id == CHECK_EXACT_TENSOR && strcmp(c->reason, "not_on_this_gpu") == 0 &&
	       gpu->cc_major > 0 && gpu->cc_major < 7;
}

static void judge_result(const struct gpu_report *gpu, struct check_result *c, enum check_need need,
	struct findings *f)
{
	const char *doubt = check_doubt(c);

	if (doubt)
		check_error(c, CODE_NOT_RUN, "%s was reported as passed, but %s",
			check_kind(c->id)->title, doubt);
	switch (c->status) {
	case STATUS_PASS:
		return;
	case STATUS_SKIP:
		if (need == NEED_REQUIRED && !skip_is_excused(gpu, c))
			f->unknown = true;
		return;
	case STATUS_WARN:
		f->warned = true;
		return;
	case STATUS_FAIL:
		f->failed = true;
		return;
	case STATUS_ERROR:
		break;
	}
	/* also a status that is none */
	if (need == NEED_REQUIRED || c->status != STATUS_ERROR || doubt)
		f->unknown = true;
	else
		f->warned = true;
}

/* Show what is not there. Whether there is memory for that changes nothing of the verdict. */
static void note_missing(
	const struct report *r, struct gpu_report *gpu, enum check_id id, enum check_need need)
{
	struct check_result c;

	check_begin(&c, id);
	if (need == NEED_REQUIRED)
		check_error(&c, r->complete ? CODE_NOT_RUN : CODE_INTERRUPTED, "%s did not run",
			check_kind(id)->title);
	(void)report_set_check(gpu, &c);
}

static void judge_gpu(const struct report *r, struct gpu_report *gpu)
{
	struct findings f = {false, false, false};

	for (unsigned i = 0; i < CHECK_COUNT; i++) {
		enum check_id id = (enum check_id)i;
		enum check_need need = need_of(r, id);

		if (gpu->checks[i]) {
			judge_result(gpu, gpu->checks[i], need, &f);
		} else if (need != NEED_NOT_RUN) {
			f.unknown = f.unknown || need == NEED_REQUIRED;
			note_missing(r, gpu, id, need);
		}
	}
	for (size_t i = 0; i < r->n_errors; i++) {
		if (r->errors[i].gpu != gpu->index)
			continue;
		if (code_is_fault(r->errors[i].code))
			f.failed = true;
		else
			f.unknown = true;
	}
	gpu->health = f.failed    ? HEALTH_FAIL
		      : f.unknown ? HEALTH_UNKNOWN
		      : f.warned  ? HEALTH_WARN
				  : HEALTH_OK;
	gpu->fit = !f.failed && !f.unknown && !(f.warned && r->strict);
}

static bool has_server_error(const struct report *r, enum probe_code code)
{
	for (size_t i = 0; i < r->n_errors; i++)
		if (r->errors[i].gpu < 0 && r->errors[i].code == code)
			return true;
	return false;
}

/* Errors that follow from what is not in the report. */
static void note_absent_gpus(struct report *r)
{
	int seen = r->cuda >= 0 ? r->cuda : (int)r->n_gpus;

	if (r->n_gpus == 0 && r->n_errors == 0 && r->complete)
		(void)report_add_error(r, -1, CODE_NO_DEVICE, 0, "no GPU was found");
	if (r->expected > 0 && seen < r->expected && !has_server_error(r, CODE_GPU_MISSING))
		(void)report_add_error(
			r, -1, CODE_GPU_MISSING, 0, "%d of %d GPUs are there", seen, r->expected);
}

void report_judge(struct report *r)
{
	bool no_cuda = false, failed = false;
	bool sure; /* nothing stands against a pass */

	note_absent_gpus(r);
	sure = r->complete && r->n_gpus > 0 && r->n_errors == 0;
	for (size_t i = 0; i < r->n_gpus; i++) {
		struct gpu_report *gpu = &r->gpus[i];

		judge_gpu(r, gpu);
		if (gpu->health == HEALTH_FAIL || (gpu->health == HEALTH_WARN && !gpu->fit))
			failed = true;
		if (!gpu->fit)
			sure = false;
	}
	for (size_t i = 0; i < r->n_errors; i++) {
		if (r->errors[i].gpu < 0 && code_is_no_cuda(r->errors[i].code))
			no_cuda = true;
		if (code_is_fault(r->errors[i].code))
			failed = true;
	}
	r->exit = no_cuda  ? EXIT_NO_CUDA
		  : failed ? EXIT_UNFIT
		  : sure   ? EXIT_FIT
			   : EXIT_INCONCLUSIVE;
}

/* What is wrong with a GPU: as a code, and as it was told. */
struct problem {
	enum probe_code code;
	const char *message;
};

/* Of the checks with this status the one that calls for most, the first one of several. */
static struct problem worst_of_checks(const struct gpu_report *gpu, enum check_status status)
{
	struct problem most = {CODE_NONE, ""};

	for (size_t i = 0; i < CHECK_COUNT; i++) {
		const struct check_result *c = gpu->checks[i];

		if (c && c->status == status &&
			(most.code == CODE_NONE ||
				code_text(c->code)->action > code_text(most.code)->action))
			most = (struct problem){c->code, c->message};
	}
	return most;
}

static struct problem find_problem(const struct report *r, const struct gpu_report *gpu)
{
	static const enum check_status order[] = {STATUS_FAIL, STATUS_ERROR, STATUS_WARN};
	struct problem found = {CODE_NONE, ""};

	for (size_t i = 0; i < r->n_errors; i++) {
		const struct report_error *e = &r->errors[i];

		if (e->gpu != gpu->index)
			continue;
		if (found.code == CODE_NONE || code_is_fault(e->code))
			found = (struct problem){e->code, e->message};
		if (code_is_fault(e->code))
			return found;
	}
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		struct problem worst = worst_of_checks(gpu, order[i]);

		if (order[i] != STATUS_FAIL && found.code != CODE_NONE)
			break;
		if (worst.code != CODE_NONE)
			return worst;
	}
	return found;
}

enum probe_code report_problem(const struct report *r, const struct gpu_report *gpu)
{
	return find_problem(r, gpu).code;
}

size_t report_failed_call(const struct report *r, const struct gpu_report *gpu, const char **ret)
{
	struct problem p = find_problem(r, gpu);

	*ret = p.message;
	/* as CUDA_SAID begins */
	return p.code == CODE_CUDA_ERROR && strncmp(p.message, "cuda", 4) == 0
		       ? strcspn(p.message, "(")
		       : 0;
}
