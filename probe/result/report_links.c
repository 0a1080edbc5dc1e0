/* SPDX-License-Identifier: Apache-2.0 */
/* probe: links between GPUs in the report. */
#include "probe/result/report_links.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/result/report_words.h"

static bool add(struct report *r, int from, int to)
{
	struct link_report *links = realloc(r->links, (r->n_links + 1) * sizeof(*links));
	struct link_report *link;

	if (!links)
		return false;
	r->links = links;
	link = &links[r->n_links++];
	*link = (struct link_report){.from = from,
		.to = to,
		.status = STATUS_SKIP,
		.reason = "not_run",
		.value = (double)NAN,
		.duration_s = (double)NAN,
		.errors = -1};
	return true;
}

int links_add_pair(struct report *r, int a, int b)
{
	int place = (int)r->n_links;

	return add(r, a, b) && add(r, b, a) ? place : -1;
}

static struct gpu_report *gpu_of(const struct report *r, int index)
{
	for (size_t i = 0; i < r->n_gpus; i++)
		if (r->gpus[i].index == index)
			return &r->gpus[i];
	return NULL;
}

/* The records of wrong data, which no link has room for, until all is judged. */
static void keep_records(struct report *r, int index, const struct check_result *found)
{
	struct gpu_report *gpu = gpu_of(r, index);

	if (gpu && !gpu->checks[CHECK_P2P])
		(void)report_set_check(gpu, found);
}

void links_skip(struct report *r, size_t link, const char *reason)
{
	(void)snprintf(r->links[link].reason, sizeof(r->links[link].reason), "%s", reason);
}

void links_take(struct report *r, size_t link, const struct check_result *found)
{
	struct link_report *l = &r->links[link];
	const char *doubt = check_doubt(found);

	l->status = found->status;
	l->code = found->code;
	l->cuda_error = found->cuda_error;
	l->value = found->value;
	l->duration_s = found->duration_s;
	l->errors = found->errors;
	memcpy(l->reason, found->reason, sizeof(l->reason));
	(void)snprintf(l->message, sizeof(l->message), "%.199s", found->message);
	if (doubt) {
		l->status = STATUS_ERROR;
		l->code = CODE_NOT_RUN;
		(void)snprintf(l->message, sizeof(l->message), "passed, but %s", doubt);
	}
	if (found->n_memory > 0) {
		keep_records(r, l->from, found);
		keep_records(r, l->to, found);
	}
}

void links_note(
	struct report *r, size_t link, enum probe_code code, int cuda_error, const char *message)
{
	struct link_report *l = &r->links[link];

	if (l->status != STATUS_SKIP || strcmp(l->reason, "not_run") != 0)
		return;
	l->status = code_is_fault(code) ? STATUS_FAIL : STATUS_ERROR;
	l->code = code;
	l->cuda_error = cuda_error;
	l->reason[0] = '\0';
	(void)snprintf(l->message, sizeof(l->message), "%.199s", message);
}

/* ---- what they say of a GPU ---- */

static int faster_first(const void *a, const void *b)
{
	double x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x < y) - (x > y);
}

/* Rates of the links from a GPU, the fastest first. */
static size_t rates_of(const struct report *r, int index, double ret[static REPORT_GPUS_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_links && n < REPORT_GPUS_MAX; i++)
		if (r->links[i].from == index && r->links[i].value > 0)
			ret[n++] = r->links[i].value;
	qsort(ret, n, sizeof(ret[0]), faster_first);
	return n;
}

/* The slowest of its rates, and the one of them that is furthest below what another GPU of its
 * model has in its place. */
static void compare(const struct thresholds *t, const struct report *r,
	const struct gpu_report *gpu, struct check_result *c)
{
	double own[REPORT_GPUS_MAX], other[REPORT_GPUS_MAX];
	size_t n = rates_of(r, gpu->index, own);

	if (n == 0)
		return;
	c->unit = "B/s";
	c->value = own[n - 1];
	for (size_t i = 0; i < r->n_gpus; i++) {
		const struct gpu_report *peer = &r->gpus[i];

		if (peer == gpu || strcmp(peer->name, gpu->name) != 0 ||
			rates_of(r, peer->index, other) != n)
			continue;
		c->basis = BASIS_PEERS;
		for (size_t k = 0; k < n; k++) {
			double best = fmax(own[k], other[k]);

			if (!(own[k] / best >= c->ratio)) { /* it is NAN at first */
				c->ratio = own[k] / best;
				c->value = own[k];
				c->expected = best;
			}
		}
	}
	c->warn_below = t->of[CHECK_P2P].warn_below;
	c->fail_below = t->of[CHECK_P2P].fail_below;
}

/* A link that was not measured though it could have been is no pass; one that cannot be, for want
 * of peer access, says nothing. */
static int badness(const struct link_report *l)
{
	static const int of[] = {[STATUS_SKIP] = 1,
		[STATUS_PASS] = 2,
		[STATUS_WARN] = 4,
		[STATUS_ERROR] = 5,
		[STATUS_FAIL] = 6};

	return l->status == STATUS_SKIP && strcmp(l->reason, "not_run") == 0 ? 3 : of[l->status];
}

/* The worst of its links; NULL: it has none. */
static const struct link_report *worst_of(const struct report *r, int index)
{
	const struct link_report *worst = NULL;

	for (size_t i = 0; i < r->n_links; i++) {
		const struct link_report *l = &r->links[i];

		if ((l->from == index || l->to == index) && (!worst || badness(l) > badness(worst)))
			worst = l;
	}
	return worst;
}

static int64_t errors_of(const struct report *r, int index)
{
	int64_t sum = -1;

	for (size_t i = 0; i < r->n_links; i++) {
		const struct link_report *l = &r->links[i];

		if ((l->from == index || l->to == index) && l->errors >= 0)
			sum = (sum < 0 ? 0 : sum) + l->errors;
	}
	return sum;
}

/* Why a GPU has no link at all. */
static const char *why_none(const struct report *r, const struct gpu_report *gpu)
{
	const struct check_result *rate = gpu->checks[CHECK_MEM_READ];

	if (gpu->remote)
		return "remote";
	if (gpu->mig == 1)
		return "mig";
	if (rate && rate->status == STATUS_SKIP && strcmp(rate->reason, "busy") == 0)
		return "busy";
	return r->n_gpus < 2 ? "one_gpu" : "not_run";
}

static void judge_one(const struct thresholds *t, struct report *r, struct gpu_report *gpu)
{
	const struct link_report *worst = worst_of(r, gpu->index);
	struct check_result c;

	if (gpu->checks[CHECK_P2P])
		c = *gpu->checks[CHECK_P2P]; /* with records of wrong data */
	else
		check_begin(&c, CHECK_P2P);
	c.value = c.expected = c.ratio = c.warn_below = c.fail_below = (double)NAN;
	c.bytes_tested = -1;
	c.basis = BASIS_NONE;
	c.unit = NULL;
	c.errors = errors_of(r, gpu->index);
	compare(t, r, gpu, &c);
	if (!worst)
		check_skip(&c, why_none(r, gpu));
	else if (worst->status == STATUS_FAIL)
		check_fail(&c, worst->code, "from GPU %d to GPU %d: %s", worst->from, worst->to,
			worst->message);
	else if (worst->status == STATUS_ERROR)
		check_error(&c, worst->code, "from GPU %d to GPU %d: %s", worst->from, worst->to,
			worst->message);
	else if (worst->status == STATUS_SKIP)
		check_skip(&c, worst->reason);
	else if (c.ratio < c.fail_below)
		check_fail(&c, CODE_SLOWER_THAN_PEERS,
			"a link from it has %.0f %% of the rate of another GPU's; below %.0f %% is "
			"a failure",
			100 * c.ratio, 100 * c.fail_below);
	else if (c.ratio < c.warn_below)
		check_warn(&c, CODE_SLOWER_THAN_PEERS,
			"a link from it has %.0f %% of the rate of another GPU's, expected at "
			"least %.0f %%",
			100 * c.ratio, 100 * c.warn_below);
	else
		check_pass(&c);
	c.cuda_error = worst ? worst->cuda_error : 0;
	(void)report_set_check(gpu, &c);
}

void links_judge(const struct thresholds *t, struct report *r)
{
	if (check_kind(CHECK_P2P)->need[r->profile] == NEED_NOT_RUN)
		return;
	for (size_t i = 0; i < r->n_gpus; i++)
		judge_one(t, r, &r->gpus[i]);
}

/* ---- shown ---- */

void links_json(const struct report *r, struct buf *out)
{
	buf_str(out, "\"links\":[");
	for (size_t i = 0; i < r->n_links; i++) {
		const struct link_report *l = &r->links[i];

		buf_str(out, i > 0 ? ",{" : "{");
		out_count(out, "from", l->from);
		out_count(out, "to", l->to);
		out_text(out, "status", check_status_name(l->status));
		if (l->status == STATUS_SKIP)
			out_text(out, "reason", l->reason);
		else if (l->status != STATUS_PASS)
			out_problem(out, l->code, l->message, l->cuda_error);
		out_double(out, "duration_s", l->duration_s);
		out_double(out, "value", l->value);
		out_text(out, "unit", "B/s");
		out_count(out, "errors", l->errors);
		buf_char(out, '}');
	}
	buf_char(out, ']');
}

static void put_cell(const struct link_report *l, struct buf *out)
{
	if (!l || (l->status == STATUS_SKIP && !(l->value > 0)))
		buf_fmt(out, " %7s", "-");
	else if (l->status == STATUS_FAIL || l->status == STATUS_ERROR)
		buf_fmt(out, " %7s", l->status == STATUS_FAIL ? "FAIL" : "?");
	else
		buf_fmt(out, " %7.1f", l->value / 1e9);
}

static const struct link_report *find(const struct report *r, int from, int to)
{
	for (size_t i = 0; i < r->n_links; i++)
		if (r->links[i].from == from && r->links[i].to == to)
			return &r->links[i];
	return NULL;
}

void links_text(const struct report *r, unsigned width, struct buf *out)
{
	bool some = false;

	for (size_t i = 0; i < r->n_links; i++)
		some = some || r->links[i].status != STATUS_SKIP;
	if (!some || (width > 0 && 9 + 8 * r->n_gpus > width))
		return;
	buf_str(out, "GB/s to:  ");
	for (size_t i = 0; i < r->n_gpus; i++)
		buf_fmt(out, i == 0 ? "%6d" : " %7d", r->gpus[i].index);
	buf_char(out, '\n');
	for (size_t i = 0; i < r->n_gpus; i++) {
		buf_fmt(out, "GPU %4d ", r->gpus[i].index);
		for (size_t k = 0; k < r->n_gpus; k++)
			put_cell(i == k ? NULL : find(r, r->gpus[i].index, r->gpus[k].index), out);
		buf_char(out, '\n');
	}
}
