/* SPDX-License-Identifier: Apache-2.0 */
/* probe: two reports of bench side by side: how much slower the second is, and whom that hurts. */
#include <math.h>
#include <stdio.h>

#include "probe/result/report_words.h"
#include "probe/result/units.h"
#include "probe/show/compare.h"

#define LONG_COPY (32 << 20)
/* What a program does not notice: a tenth. What is no use: more than twice. */
#define FIT 1.1
#define SLOW 2.0

/* What is compared, in the order in which it is shown. Copies are those that the host waits for:
 * events of the GPU leave out the way. */
static const struct {
	enum check_id id;
	const char *unit;
} measures[] = {{CHECK_LAUNCH, "s"}, {CHECK_LAUNCH_WAIT, "s"}, {CHECK_H2D_4K, "s"},
	{CHECK_D2H_4K, "s"}, {CHECK_H2D_1M, "s"}, {CHECK_D2H_1M, "s"}, {CHECK_H2D_32M, "s"},
	{CHECK_D2H_32M, "s"}, {CHECK_MEM_READ, "B/s"}, {CHECK_MEM_WRITE, "B/s"},
	{CHECK_MEM_COPY, "B/s"}, {CHECK_FP32_RATE, "FLOP/s"}, {CHECK_FP64_RATE, "FLOP/s"},
	{CHECK_TENSOR_RATE, "FLOP/s"}};
#define MEASURES (sizeof(measures) / sizeof(measures[0]))

/* Kinds of programs, by what one does in a second of a GPU at hand: docs/gpuprobe.md says so, too.
 */
static const struct {
	const char *name;
	double kernel_s, wait_s, copied; /* length of its kernels, time between waits, bytes */
} kinds[] = {{"long steps", 1e-3, 100e-3, 100e6}, {"short steps", 50e-6, 5e-3, 100e6},
	{"tiny steps", 5e-6, 100e-6, 10e6}, {"much data", 1e-3, 10e-3, 5e9}};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

struct pair {
	const struct compare_gpu *local, *remote;
};

/* How many times slower is the remote side? NAN where one was not measured. */
static double slower(const struct pair *p, size_t i)
{
	double local = p->local->value[measures[i].id], remote = p->remote->value[measures[i].id];

	return measures[i].unit[0] == 's' ? remote / local : local / remote;
}

/* Seconds that remote adds to one of these; nothing where it is the faster one. */
static double added(const struct pair *p, enum check_id id)
{
	double more = p->remote->value[id] - p->local->value[id];

	return more < 0 ? 0 : more; /* NAN stays */
}

/* Seconds that remote adds to a copied byte, in the direction that is hurt more. */
static double added_to_byte(const struct pair *p)
{
	double up = added(p, CHECK_H2D_32M), down = added(p, CHECK_D2H_32M);

	return (isnan(up) || up > down ? up : down) / LONG_COPY;
}

/* What a second of this kind of program takes: what it waits for, what it launches faster than that
 * goes, what it copies. */
static double a_second_takes(const struct pair *p, size_t kind)
{
	double here = p->local->value[CHECK_LAUNCH], there = p->remote->value[CHECK_LAUNCH],
	       kernel = kinds[kind].kernel_s;
	double launched = isnan(here) || isnan(there)
				  ? (double)NAN
				  : fmax(kernel, there) / fmax(kernel, here) - 1;

	return 1 + added(p, CHECK_LAUNCH_WAIT) / kinds[kind].wait_s + fmax(0, launched) +
	       (isnan(launched) ? launched : 0) + kinds[kind].copied * added_to_byte(p);
}

static const char *word_of(double takes)
{
	return isnan(takes) ? "" : takes <= FIT ? "fit" : takes <= SLOW ? "slow" : "unfit";
}

/* At most a tenth slower are programs that wait no more often than this, whose kernels are no
 * shorter, and that copy no more a second. 0, and INFINITY of bytes: any. */
static void limits(const struct pair *p, double *ret_wait, double *ret_kernel, double *ret_copied)
{
	double there = p->remote->value[CHECK_LAUNCH], here = p->local->value[CHECK_LAUNCH];

	*ret_wait = added(p, CHECK_LAUNCH_WAIT) / (FIT - 1);
	*ret_kernel = there <= FIT * here ? 0 : there / FIT + (isnan(here) ? here : 0);
	*ret_copied = (FIT - 1) / added_to_byte(p);
}

/* ---- for people ---- */

static void put_value(double value, const char *unit, struct buf *out)
{
	char text[UNITS_MAX];

	units_write(value, unit, text);
	buf_fmt(out, "%14s", text);
}

static void put_limits(const struct pair *p, struct buf *out)
{
	double wait, kernel, copied;
	char text[3][UNITS_MAX];

	limits(p, &wait, &kernel, &copied);
	units_write(wait, "s", text[0]);
	units_write(kernel, "s", text[1]);
	units_write(copied, "B/s", text[2]);
	buf_str(out, "\nAt most a tenth slower, each by itself:\n");
	if (!isnan(wait))
		buf_fmt(out, "  a program that waits for the GPU every %s or less often\n",
			text[0]);
	if (!isnan(kernel))
		buf_fmt(out,
			kernel > 0 ? "  one whose kernels take %s or longer\n"
				   : "  one with kernels of any length\n",
			text[1]);
	if (!isnan(copied))
		buf_fmt(out,
			isinf(copied) ? "  one that copies as much as it likes\n"
				      : "  one that copies %s or less\n",
			text[2]);
}

static void put_pair(const struct pair *p, struct buf *out)
{
	buf_fmt(out, "%-20s%14s%14s%10s\n", p->remote->name, "LOCAL", "REMOTE", "SLOWER");
	for (size_t i = 0; i < MEASURES; i++) {
		double times = slower(p, i);

		buf_fmt(out, "%-20s", check_kind(measures[i].id)->title);
		put_value(p->local->value[measures[i].id], measures[i].unit, out);
		put_value(p->remote->value[measures[i].id], measures[i].unit, out);
		if (isnan(times))
			buf_fmt(out, "%10s\n", "-");
		else
			buf_fmt(out, "%8.*f x\n", times < 9.995 ? 2 : times < 99.95 ? 1 : 0, times);
	}
	put_limits(p, out);
	buf_fmt(out, "\n%-14s%-14s%-13s%-13s%s\n", "KIND", "KERNELS", "A WAIT EACH", "COPIES",
		"A SECOND TAKES");
	for (size_t i = 0; i < KINDS; i++) {
		char kernel[UNITS_MAX], wait[UNITS_MAX], copied[UNITS_MAX], takes[UNITS_MAX];
		double s = a_second_takes(p, i);

		units_write(kinds[i].kernel_s, "s", kernel);
		units_write(kinds[i].wait_s, "s", wait);
		units_write(kinds[i].copied, "B/s", copied);
		units_write(s, "s", takes);
		buf_fmt(out, "%-14s%-14s%-13s%-13s%s  %s\n", kinds[i].name, kernel, wait, copied,
			takes, word_of(s));
	}
}

/* ---- for programs ---- */

static void put_pair_json(const struct pair *p, struct buf *out)
{
	double wait, kernel, copied;

	buf_char(out, '{');
	out_text_or_null(out, "local", p->local->name);
	out_text_or_null(out, "remote", p->remote->name);
	out_text_or_null(out, "uuid", p->remote->uuid);
	out_key(out, "measures");
	for (size_t i = 0; i < MEASURES; i++) {
		buf_str(out, i == 0 ? "[{" : ",{");
		out_text(out, "id", check_kind(measures[i].id)->id);
		out_text(out, "unit", measures[i].unit);
		out_double(out, "local", p->local->value[measures[i].id]);
		out_double(out, "remote", p->remote->value[measures[i].id]);
		out_double(out, "times_slower", slower(p, i));
		buf_char(out, '}');
	}
	buf_char(out, ']');
	limits(p, &wait, &kernel, &copied);
	out_key(out, "at_most_a_tenth_slower");
	buf_char(out, '{');
	out_double(out, "seconds_between_waits", wait);
	out_double(out, "kernel_seconds", kernel);
	out_double(out, "copied_bytes_per_second", copied);
	buf_char(out, '}');
	out_key(out, "kinds");
	for (size_t i = 0; i < KINDS; i++) {
		double s = a_second_takes(p, i);

		buf_str(out, i == 0 ? "[{" : ",{");
		out_text(out, "name", kinds[i].name);
		out_double(out, "kernel_seconds", kinds[i].kernel_s);
		out_double(out, "seconds_between_waits", kinds[i].wait_s);
		out_double(out, "copied_bytes_per_second", kinds[i].copied);
		out_double(out, "a_second_takes_seconds", s);
		out_text_or_null(out, "verdict", word_of(s));
		buf_char(out, '}');
	}
	buf_str(out, "]}");
}

/* ---- both ---- */

static const struct compare_gpu *counterpart(
	const struct compare_side *local, const struct compare_gpu *gpu)
{
	for (unsigned i = 0; i < local->n_gpus; i++)
		if (gpu->uuid[0] && strcmp(local->gpus[i].uuid, gpu->uuid) == 0)
			return &local->gpus[i];
	for (unsigned i = 0; i < local->n_gpus; i++)
		if (strcmp(local->gpus[i].name, gpu->name) == 0)
			return &local->gpus[i];
	return &local->gpus[0];
}

static void warn_of(const struct pair *p, unsigned gpu, struct buf *warnings)
{
	if (strcmp(p->local->name, p->remote->name) != 0)
		buf_fmt(warnings,
			"GPU %u: another model: \"%s\" in LOCAL, \"%s\" in REMOTE: what is slower "
			"may be the GPU\n",
			gpu, p->local->name, p->remote->name);
	if (p->local->remote)
		buf_fmt(warnings,
			"GPU %u: LOCAL was made through a remote-GPU client; run `gpuprobe bench` "
			"on "
			"the GPU server\n",
			gpu);
	if (!p->remote->remote)
		buf_fmt(warnings, "GPU %u: REMOTE was made where the GPU is; run it in a pod\n",
			gpu);
	if (isnan(p->local->value[CHECK_LAUNCH]) || isnan(p->remote->value[CHECK_LAUNCH]))
		buf_fmt(warnings,
			"GPU %u: %s has no bench.launch: it failed, or an older gpuprobe made the "
			"report\n",
			gpu, isnan(p->local->value[CHECK_LAUNCH]) ? "LOCAL" : "REMOTE");
}

size_t compare_write(const struct compare_side *local, const struct compare_side *remote, bool json,
	struct buf *out, struct buf *warnings)
{
	size_t both = 0;

	if (!local->complete)
		buf_str(warnings, "LOCAL was ended early\n");
	if (!remote->complete)
		buf_str(warnings, "REMOTE was ended early\n");
	if (json) {
		buf_char(out, '{');
		out_text(out, "schema", COMPARE_SCHEMA);
		out_text_or_null(out, "local", local->host);
		out_text_or_null(out, "remote", remote->host);
		out_key(out, "gpus");
		buf_char(out, '[');
	}
	for (unsigned i = 0; i < remote->n_gpus; i++) {
		struct pair p = {counterpart(local, &remote->gpus[i]), &remote->gpus[i]};

		warn_of(&p, i, warnings);
		for (size_t k = 0; k < MEASURES; k++)
			both += isnan(slower(&p, k)) ? 0 : 1;
		if (i > 0)
			buf_char(out, json ? ',' : '\n');
		(json ? put_pair_json : put_pair)(&p, out);
	}
	if (json)
		buf_str(out, "]}\n");
	return both;
}
