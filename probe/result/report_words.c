/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what the report's forms share, and the one line for monitoring. */
#include "probe/result/report_words.h"

#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/text.h"
#include "probe/result/units.h"

void out_key(struct buf *out, const char *key)
{
	if (out->len > 0 && out->data[out->len - 1] != '{')
		buf_char(out, ',');
	buf_json_str(out, slice_of(key));
	buf_char(out, ':');
}

static void put_text(struct buf *out, const char *text)
{
	struct slice s = slice_of(text);

	if (text_utf8(s)) {
		buf_json_str(out, s);
		return;
	}
	buf_char(out, '"');
	for (; *text; text++)
		buf_json_esc(
			out, (unsigned char)*text < 0x80 ? (struct slice){text, 1} : SLICE("?"));
	buf_char(out, '"');
}

void out_text(struct buf *out, const char *key, const char *text)
{
	out_key(out, key);
	put_text(out, text);
}

void out_text_or_null(struct buf *out, const char *key, const char *text)
{
	out_key(out, key);
	if (text && *text)
		put_text(out, text);
	else
		buf_str(out, "null");
}

void out_time(struct buf *out, const char *key, int64_t seconds)
{
	char text[CLOCK_TEXT_SIZE];

	out_text_or_null(out, key, seconds > 0 ? clock_text(seconds, text) : NULL);
}

void out_count(struct buf *out, const char *key, int64_t value)
{
	out_key(out, key);
	if (value < 0)
		buf_str(out, "null");
	else
		buf_i64(out, value);
}

void out_double(struct buf *out, const char *key, double value)
{
	out_key(out, key);
	units_json(value, out);
}

void out_bool(struct buf *out, const char *key, bool value)
{
	out_tri(out, key, value);
}

void out_tri(struct buf *out, const char *key, int value)
{
	out_key(out, key);
	buf_str(out, value == 1 ? "true" : value == 0 ? "false" : "null");
}

void out_problem(struct buf *out, enum probe_code code, const char *message, int cuda_error)
{
	const struct code_text *t = code_text(code);

	out_text_or_null(out, "code", t->name);
	out_text(out, "message", *message ? message : t->sentence);
	out_text(out, "hint", t->hint);
	out_text(out, "action", action_name(t->action));
	out_key(out, "cuda");
	if (cuda_error == 0)
		buf_str(out, "null");
	else
		buf_i64(out, cuda_error);
}

static const char *separator(size_t n)
{
	return n == 0 ? "GPU " : ", ";
}

/* "GPU 0-3, 7": those of this health; how many are counted. Nothing is written when there is none.
 */
static size_t words_gpus(const struct report *r, enum gpu_health health, struct buf *out)
{
	size_t n = 0, ranges = 0;

	for (size_t i = 0; i < r->n_gpus; i++) {
		size_t end = i;

		if (r->gpus[i].health != health)
			continue;
		while (end + 1 < r->n_gpus && r->gpus[end + 1].health == health &&
			r->gpus[end + 1].index == r->gpus[end].index + 1)
			end++;
		buf_fmt(out, "%s%d", separator(ranges++), r->gpus[i].index);
		if (end > i)
			buf_fmt(out, "-%d", r->gpus[end].index);
		n += end - i + 1;
		i = end;
	}
	return n;
}

/* How many are fit. */
static size_t words_fit(const struct report *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_gpus; i++)
		n += r->gpus[i].fit;
	return n;
}

/* What all the failed GPUs together call for. */
static const char *advice(const struct report *r)
{
	static const char *const words[] = {
		[ACTION_NONE] = "watch it",
		[ACTION_RETRY] = "run it again",
		[ACTION_CONFIGURE] = "see the hint",
		[ACTION_RESET] = "drain and reset",
		[ACTION_REBOOT] = "drain, reset or reboot the server",
		[ACTION_ISOLATE] = "take it out of the pool",
	};
	enum probe_action most = ACTION_NONE;

	for (size_t i = 0; i < r->n_gpus; i++) {
		enum probe_action action = code_text(report_problem(r, &r->gpus[i]))->action;

		if (r->gpus[i].health == HEALTH_FAIL && action > most)
			most = action;
	}
	return words[most];
}

static void put_group(
	const struct report *r, enum gpu_health health, const char *word, struct buf *out)
{
	struct buf gpus;
	size_t n;

	buf_init(&gpus, 4096);
	n = words_gpus(r, health, &gpus);
	if (n > 0)
		buf_fmt(out, ", %zu %s: %s", n, word, gpus.data ? gpus.data : "");
	buf_release(&gpus);
	if (n > 0 && health == HEALTH_FAIL)
		buf_fmt(out, " (%s)", advice(r));
}

void words_verdict(const struct report *r, struct buf *out)
{
	if (r->exit == EXIT_NO_CUDA) {
		buf_str(out, "CUDA cannot be used here");
		return;
	}
	buf_fmt(out, "%zu of %zu GPU%s fit", words_fit(r), r->n_gpus, r->n_gpus == 1 ? "" : "s");
	if (r->expected > 0 && (size_t)r->expected != r->n_gpus)
		buf_fmt(out, ", %d expected", r->expected);
	if (isfinite(r->duration_s))
		buf_fmt(out, ", %.1f s", r->duration_s);
	put_group(r, HEALTH_FAIL, "failed", out);
	put_group(r, HEALTH_UNKNOWN, "unknown", out);
	put_group(r, HEALTH_WARN, r->strict ? "warned, which --strict forbids" : "warned", out);
	if (!r->complete)
		buf_str(out, "; ended early");
	if (r->exit == EXIT_INCONCLUSIVE)
		buf_str(out, "; no verdict");
}

/* Codes of the server and of its GPUs, each with where it is: what fits into a line. */
static void put_codes(const struct report *r, struct buf *out)
{
	const char *before = ": ";

	for (size_t i = 0; i < r->n_errors; i++) {
		if (r->errors[i].gpu >= 0)
			continue;
		buf_fmt(out, "%s%s", before, code_text(r->errors[i].code)->name);
		before = ", ";
	}
	for (size_t i = 0; i < r->n_gpus; i++) {
		enum probe_code code = report_problem(r, &r->gpus[i]);

		if (code == CODE_NONE)
			continue;
		buf_fmt(out, "%sGPU %d %s", before, r->gpus[i].index, code_text(code)->name);
		before = ", ";
	}
}

int report_nagios(const struct report *r, struct buf *out)
{
	static const char *const words[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};
	size_t warned = 0, failed = 0;
	int status;

	for (size_t i = 0; i < r->n_gpus; i++) {
		warned += r->gpus[i].health == HEALTH_WARN;
		failed += r->gpus[i].health == HEALTH_FAIL;
	}
	if (r->exit == EXIT_FIT)
		status = warned > 0 ? 1 : 0;
	else
		status = r->exit == EXIT_UNFIT || r->exit == EXIT_NO_CUDA ? 2 : 3;
	buf_fmt(out, "GPUPROBE %s - %zu of %zu GPUs fit", words[status], words_fit(r), r->n_gpus);
	put_codes(r, out);
	buf_fmt(out, " | fit=%zu;;;0;%zu failed=%zu warned=%zu", words_fit(r), r->n_gpus, failed,
		warned);
	if (isfinite(r->duration_s))
		buf_fmt(out, " duration=%.1fs", r->duration_s);
	buf_char(out, '\n');
	return status;
}
