/* SPDX-License-Identifier: Apache-2.0 */
/* probe: data between GPUs, pair by pair: a round-robin, as in a tournament, so that no GPU is in
 * two pairs at once and all pairs of a round go side by side. */
#include "probe/run_facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "probe/result/report_links.h"

#define PHASE_LIMIT_S 20.0

struct tournament {
	const struct run_config *c;
	struct report *r;
	const struct gpu_report *gpus[REPORT_GPUS_MAX + 1]; /* NULL: who meets it has a rest */
	bool out[REPORT_GPUS_MAX + 1];                      /* a pair with it hung */
	size_t n;
	struct worker_job jobs[REPORT_GPUS_MAX];
	int links[REPORT_GPUS_MAX];
	size_t a[REPORT_GPUS_MAX], b[REPORT_GPUS_MAX];
	char visible[REPORT_GPUS_MAX][100]; /* two UUIDs and a comma */
	size_t n_jobs;
};

/* Its own worker could use it, and nobody else does. */
static bool takes_part(
	const struct run_facts *f, const struct report *r, const struct gpu_report *gpu)
{
	const struct check_result *kernels = gpu->checks[CHECK_KERNEL_IMAGE];

	for (size_t i = 0; i < r->n_errors; i++)
		if (r->errors[i].gpu == gpu->index)
			return false;
	return !gpu->remote && gpu->mig != 1 && kernels && kernels->status != STATUS_FAIL &&
	       kernels->status != STATUS_ERROR && !run_facts_busy(f, gpu);
}

static bool add_pair(struct tournament *t, size_t a, size_t b)
{
	const struct probe_options *o = t->c->options;
	const struct gpu_report *x = t->gpus[a], *y = t->gpus[b];
	struct worker_job *job = &t->jobs[t->n_jobs];
	int link;

	if (!x || !y)
		return true;
	link = links_add_pair(t->r, x->index, y->index);
	if (link < 0)
		return false;
	if (t->out[a] || t->out[b])
		return true; /* it stays "not_run" */
	if (x->cc_major != y->cc_major || x->cc_minor != y->cc_minor) {
		/* a runtime loads the kernels of one for the other, too, and fails at it */
		links_skip(t->r, (size_t)link, "different_gpus");
		links_skip(t->r, (size_t)link + 1, "different_gpus");
		return true;
	}
	*job = (struct worker_job){.task = TASK_PAIR,
		.profile = t->r->profile,
		.index = x->index,
		.peer = y->index,
		.seed = t->r->seed,
		.cudart = o->cudart};
	if (x->by_uuid || y->by_uuid) {
		(void)snprintf(
			t->visible[t->n_jobs], sizeof(t->visible[0]), "%s,%s", x->uuid, y->uuid);
		job->visible = t->visible[t->n_jobs];
		job->index = 0;
		job->peer = 1;
	}
	t->links[t->n_jobs] = link;
	t->a[t->n_jobs] = a;
	t->b[t->n_jobs] = b;
	t->n_jobs++;
	return true;
}

/* The pairs of a round: the first stays, the others move on by one place each round. */
static bool draw(struct tournament *t, size_t round)
{
	size_t others = t->n - 1;

	t->n_jobs = 0;
	if (!add_pair(t, 0, 1 + round % others))
		return false;
	for (size_t i = 1; i < t->n / 2; i++)
		if (!add_pair(t, 1 + (round + i) % others, 1 + (round + others - i) % others))
			return false;
	return true;
}

static void drop_hung(struct tournament *t)
{
	for (size_t i = 0; i < t->n_jobs; i++)
		for (int k = 0; k < 2; k++)
			if (t->r->links[t->links[i] + k].code == CODE_HANG)
				t->out[t->a[i]] = t->out[t->b[i]] = true;
}

static int play(struct tournament *t, struct run_facts *f, double limit_s, enum workers_end *end,
	struct err *err)
{
	double ends = clock_s() + limit_s;
	int rc = 0;

	for (size_t round = 0; round + 1 < t->n && rc == 0 && *end == WORKERS_DONE; round++) {
		double left = ends - clock_s();
		struct workers_config config = {.program = t->c->program,
			.jobs = t->jobs,
			.gpus = t->links,
			.phase_limit_s = PHASE_LIMIT_S,
			.total_limit_s = left > 0.001 ? left : 0.001,
			.stop_fd = t->c->stop_fd,
			.in_process = t->c->options->in_process,
			.arg = f};

		if (!draw(t, round))
			return err_set(err, ERR_NOMEM, "out of memory");
		config.n_jobs = t->n_jobs;
		run_facts_progress(f, (double)round / (double)(t->n - 1), "GPU to GPU");
		if (t->n_jobs > 0)
			rc = workers_run(&config, t->r, end, err);
		drop_hung(t);
	}
	return rc;
}

int run_pairs(const struct run_config *c, struct run_facts *f, struct report *r, double limit_s,
	enum workers_end *end, struct err *err)
{
	struct tournament *t;
	int rc = 0;

	if (check_kind(CHECK_P2P)->need[r->profile] == NEED_NOT_RUN || r->n_gpus < 2)
		return 0;
	t = calloc(1, sizeof(*t));
	if (!t)
		return err_set(err, ERR_NOMEM, "out of memory");
	t->c = c;
	t->r = r;
	for (size_t i = 0; i < r->n_gpus; i++)
		if (takes_part(f, r, &r->gpus[i]) &&
			(!r->gpus[i].by_uuid || !c->options->in_process))
			t->gpus[t->n++] = &r->gpus[i];
	if (t->n % 2 == 1)
		t->n++; /* with nobody */
	if (t->n >= 2)
		rc = play(t, f, limit_s, end, err);
	free(t);
	return rc;
}
