/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the whole report as JSON (docs/gpuprobe-report.schema.json). */
#include "probe/result/report_links.h"
#include "probe/result/report_words.h"

#ifndef POOLGATE_VERSION
#define POOLGATE_VERSION "0"
#endif

/* Words between blanks as a list. */
static void put_list(struct buf *out, const char *key, const char *words)
{
	size_t n;

	out_key(out, key);
	buf_char(out, '[');
	for (const char *at = words; *at; at += n) {
		n = strcspn(at, " ");
		if (n == 0) {
			n = 1;
			continue;
		}
		if (out->len > 0 && out->data[out->len - 1] != '[')
			buf_char(out, ',');
		buf_json_str(out, (struct slice){at, n});
	}
	buf_char(out, ']');
}

static void put_head(const struct report *r, struct buf *out)
{
	out_text(out, "schema", REPORT_SCHEMA);
	out_text(out, "command", r->command);
	out_bool(out, "complete", r->complete);
	out_bool(out, "strict", r->strict);
	out_time(out, "started_at", r->started_at);
	out_double(out, "duration_s", r->duration_s);
	out_key(out, "seed");
	buf_u64(out, r->seed);

	out_key(out, "host");
	buf_char(out, '{');
	out_text_or_null(out, "name", r->host);
	out_text(out, "location", r->remote ? "remote" : "local");
	out_tri(out, "vm", r->vm);
	buf_char(out, '}');

	out_key(out, "build");
	buf_char(out, '{');
	out_text(out, "version", POOLGATE_VERSION);
	out_count(out, "cudart", r->cudart > 0 ? r->cudart : -1);
	out_text_or_null(out, "link", r->link);
	put_list(out, "archs", r->archs);
	buf_char(out, '}');

	out_key(out, "driver");
	buf_char(out, '{');
	out_count(out, "cuda", r->driver_cuda > 0 ? r->driver_cuda : -1);
	out_text_or_null(out, "version", r->driver_version);
	out_bool(out, "nvml", r->nvml);
	buf_char(out, '}');

	out_key(out, "counts");
	buf_char(out, '{');
	out_count(out, "expected", r->expected > 0 ? r->expected : -1);
	out_count(out, "pci", r->pci);
	out_count(out, "nvml", r->nvml_count);
	out_count(out, "cuda", r->cuda);
	buf_char(out, '}');

	out_text(out, "verdict", report_verdict_name(r->exit));
	out_count(out, "exit_code", (int)r->exit);
}

static const char *compute_mode_name(int mode)
{
	static const char *const names[] = {
		"default", "exclusive", "prohibited", "exclusive_process"};

	return mode >= 0 && mode < 4 ? names[mode] : "";
}

static void put_gpu(const struct gpu_report *g, struct buf *out)
{
	const char *before = "";

	buf_char(out, '{');
	out_count(out, "index", g->index);
	out_text_or_null(out, "uuid", g->uuid);
	out_text_or_null(out, "name", g->name);
	out_text_or_null(out, "pci", g->pci);
	out_text(out, "location", g->remote ? "remote" : "local");
	out_key(out, "cc");
	if (g->cc_major >= 0 && g->cc_minor >= 0)
		buf_fmt(out, "\"%d.%d\"", g->cc_major, g->cc_minor);
	else
		buf_str(out, "null");
	out_count(out, "sm_count", g->sm_count);
	out_tri(out, "ecc", g->ecc);
	out_tri(out, "mig", g->mig);
	out_text_or_null(out, "compute_mode", compute_mode_name(g->compute_mode));
	out_count(out, "memory_total_bytes", g->memory_total_bytes);
	out_count(out, "memory_free_bytes", g->memory_free_bytes);
	out_count(out, "l2_bytes", g->l2_bytes);
	out_count(out, "clock_max_mhz", g->clock_max_mhz);
	out_count(out, "memory_clock_max_mhz", g->memory_clock_max_mhz);
	out_count(out, "memory_bus_bits", g->memory_bus_bits);
	out_double(out, "utilization_percent", g->utilization_percent);
	out_count(out, "processes", g->processes);
	out_bool(out, "fit", g->fit);
	out_text(out, "health", report_health_name(g->health));
	out_key(out, "checks");
	buf_char(out, '[');
	for (size_t i = 0; i < CHECK_COUNT; i++) {
		if (!g->checks[i])
			continue;
		buf_str(out, before);
		check_json(g->checks[i], out);
		before = ",";
	}
	buf_str(out, "]}");
}

int report_json(const struct report *r, struct buf *out, struct err *err)
{
	buf_char(out, '{');
	put_head(r, out);
	out_key(out, "gpus");
	buf_char(out, '[');
	for (size_t i = 0; i < r->n_gpus; i++) {
		if (i > 0)
			buf_char(out, ',');
		put_gpu(&r->gpus[i], out);
	}
	buf_char(out, ']');
	if (r->profile == PROFILE_BENCH) {
		buf_char(out, ',');
		links_json(r, out);
	}
	out_key(out, "errors");
	buf_char(out, '[');
	for (size_t i = 0; i < r->n_errors; i++) {
		const struct report_error *e = &r->errors[i];

		buf_str(out, i > 0 ? ",{" : "{");
		out_count(out, "gpu", e->gpu);
		out_problem(out, e->code, e->message, e->cuda_error);
		buf_char(out, '}');
	}
	buf_str(out, "]}\n");
	if (out->failed)
		return err_set(err, ERR_NOMEM, "no memory for the report");
	return 0;
}
