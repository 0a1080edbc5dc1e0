/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the fleet as /v1/inventory and /metrics. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/metric.h"
#include "probe/result/report_words.h"
#include "probe/show/fleet.h"

/* One that was lost before it was ever seen has its place on the bus for a name. */
static const char *id_of(const struct fleet_gpu *gpu)
{
	return gpu->known.uuid[0] ? gpu->known.uuid : gpu->known.pci;
}

static int free_percent(const struct fleet_gpu *gpu)
{
	const struct gpu_report *k = &gpu->known;

	if (!fleet_fit(gpu) || k->memory_total_bytes <= 0 || k->memory_free_bytes < 0)
		return 0;
	return (int)(100.0 * (double)k->memory_free_bytes / (double)k->memory_total_bytes);
}

/* Those that are there or were, and are not MIG-less shadows. */
static size_t count_fit(const struct fleet *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n_gpus; i++)
		n += fleet_fit(&f->gpus[i]);
	return n;
}

static const char *state_of(const struct fleet *f, int64_t now)
{
	size_t fit = count_fit(f);

	if (f->verified_at == 0 || now - f->looked_at > f->stale_after_s)
		return "unknown";
	if (fit == 0)
		return "unfit";
	return fit < f->n_gpus || f->trouble[0] || (f->expected > 0 && fit < (size_t)f->expected)
		       ? "degraded"
		       : "ready";
}

/* The parts between "; " as an array. */
static void put_reasons(struct buf *out, const char *first, const char *second)
{
	const char *all[] = {first, second};
	bool some = false;

	out_key(out, "reasons");
	buf_char(out, '[');
	for (size_t i = 0; i < 2; i++) {
		const char *at = all[i];

		while (*at) {
			const char *end = strstr(at, "; ");
			size_t len = end ? (size_t)(end - at) : strlen(at);

			if (some)
				buf_char(out, ',');
			some = true;
			buf_json_str(out, (struct slice){at, len});
			at += len + (end ? 2 : 0);
		}
	}
	buf_char(out, ']');
}

static const char *why_unfit(const struct fleet_gpu *gpu)
{
	if (!gpu->present)
		return "GPU_MISSING: it is no longer there";
	if (!gpu->verified)
		return "NOT_RUN: it has not been verified yet";
	return gpu->verdict;
}

static void put_gpu(struct buf *out, const struct fleet_gpu *gpu)
{
	const struct gpu_report *k = &gpu->known;
	bool fit = fleet_fit(gpu);
	char cc[16] = "";

	buf_char(out, '{');
	out_count(out, "index", k->index);
	out_text(out, "uuid", id_of(gpu));
	out_text_or_null(out, "parent_uuid", k->parent);
	out_text(out, "name", k->name[0] ? k->name : "unknown");
	out_text_or_null(out, "pci", k->pci);
	if (k->cc_major > 0)
		(void)snprintf(cc, sizeof(cc), "%d.%d", k->cc_major, k->cc_minor);
	out_text_or_null(out, "cc", cc);
	out_text(out, "memory_source", "cuda");
	out_count(out, "memory_total_mib",
		k->memory_total_bytes < 0 ? -1 : k->memory_total_bytes >> 20);
	out_count(
		out, "memory_free_mib", k->memory_free_bytes < 0 ? -1 : k->memory_free_bytes >> 20);
	out_count(out, "memory_total_bytes", k->memory_total_bytes < 0 ? 0 : k->memory_total_bytes);
	out_count(out, "memory_free_bytes", k->memory_free_bytes < 0 ? 0 : k->memory_free_bytes);
	out_bool(out, "fit", fit);
	out_text(out, "health",
		fit ? report_health_name(k->health == HEALTH_WARN ? HEALTH_WARN : HEALTH_OK)
		: gpu->verified || !gpu->present ? "fail"
						 : "unknown");
	put_reasons(out, fit ? "" : why_unfit(gpu), gpu->now);
	out_count(out, "percent_free", free_percent(gpu));
	out_bool(out, "mig", k->mig == 1);
	out_double(out, "utilization_percent", k->utilization_percent);
	out_count(out, "processes", k->processes);
	out_time(out, "verified_at", gpu->verified_at);
	buf_char(out, '}');
}

static void put_capacity(const struct fleet *f, struct buf *out)
{
	int64_t total = 0, available = 0, smallest = -1, percent = 0;
	bool some = false;

	for (size_t i = 0; i < f->n_gpus; i++) {
		const struct gpu_report *k = &f->gpus[i].known;

		if (!fleet_fit(&f->gpus[i]))
			continue;
		total += k->memory_total_bytes > 0 ? k->memory_total_bytes : 0;
		available += k->memory_free_bytes > 0 ? k->memory_free_bytes : 0;
		percent += free_percent(&f->gpus[i]);
		if (smallest < 0 || k->memory_total_bytes < smallest)
			smallest = k->memory_total_bytes;
	}
	out_key(out, "capacity");
	buf_char(out, '{');
	out_count(out, "gpus_total", (int64_t)f->n_gpus);
	out_count(out, "gpus_fit", (int64_t)count_fit(f));
	out_count(out, "memory_total_bytes", total);
	out_count(out, "memory_free_bytes", available);
	out_count(out, "smallest_gpu_bytes", smallest);
	out_count(out, "percent_total", 100 * (int64_t)count_fit(f));
	out_count(out, "percent_free", percent);
	out_key(out, "free_percent_by_gpu");
	buf_char(out, '[');
	for (size_t i = 0; i < f->n_gpus; i++) {
		buf_str(out, some ? "," : "");
		buf_i64(out, free_percent(&f->gpus[i]));
		some = true;
	}
	buf_str(out, "]}");
}

/* Seconds since the last look; a clock that was set back makes it none. */
static int64_t age_of(const struct fleet *f, int64_t now)
{
	if (f->looked_at == 0)
		return f->stale_after_s + 1;
	return now > f->looked_at ? now - f->looked_at : 0;
}

void fleet_inventory(const struct fleet *f, int64_t now, struct buf *out)
{
	bool some = false;

	buf_char(out, '{');
	out_text(out, "schema", INVENTORY_SCHEMA);
	out_text(out, "server", f->server);
	out_time(out, "generated_at", now);
	out_count(out, "age_s", age_of(f, now));
	out_count(out, "stale_after_s", f->stale_after_s);
	out_text(out, "state", state_of(f, now));
	out_text_or_null(out, "trouble", f->trouble);
	out_text_or_null(out, "driver_version", f->driver_version);
	out_count(out, "cuda", f->driver_cuda > 0 ? f->driver_cuda : -1);
	put_capacity(f, out);
	out_key(out, "gpus");
	buf_char(out, '[');
	for (size_t i = 0; i < f->n_gpus; i++) {
		buf_str(out, some ? "," : "");
		put_gpu(out, &f->gpus[i]);
		some = true;
	}
	buf_str(out, "]}\n");
}

/* ---- metrics ---- */

static void gpu_sample(struct buf *out, const char *name, const struct fleet_gpu *gpu,
	const char *label, const char *value, int64_t n)
{
	struct slice labels[] = {SLICE("uuid"), slice_of(id_of(gpu)), slice_of(label ? label : ""),
		slice_of(value ? value : "")};

	metric_sample(out, name, labels, label ? 4 : 2, n, 1);
}

static void put_info(const struct fleet *f, struct buf *out)
{
	metric_head(out, "gpuprobe_gpu_info", "What each GPU is.", METRIC_GAUGE);
	for (size_t i = 0; i < f->n_gpus; i++) {
		const struct gpu_report *k = &f->gpus[i].known;
		char cc[16];

		(void)snprintf(cc, sizeof(cc), "%d.%d", k->cc_major, k->cc_minor);
		struct slice labels[] = {SLICE("uuid"), slice_of(id_of(&f->gpus[i])), SLICE("name"),
			slice_of(k->name), SLICE("pci"), slice_of(k->pci), SLICE("cc"),
			slice_of(cc), SLICE("driver"), slice_of(f->driver_version)};

		metric_sample(out, "gpuprobe_gpu_info", labels, 10, 1, 1);
	}
}

static void put_gpus(const struct fleet *f, struct buf *out)
{
	metric_head(out, "gpuprobe_gpu_fit", "1: the GPU is fit.", METRIC_GAUGE);
	for (size_t i = 0; i < f->n_gpus; i++)
		gpu_sample(
			out, "gpuprobe_gpu_fit", &f->gpus[i], NULL, NULL, fleet_fit(&f->gpus[i]));
	metric_head(out, "gpuprobe_gpu_memory_bytes", "Memory, as CUDA counts it.", METRIC_GAUGE);
	for (size_t i = 0; i < f->n_gpus; i++) {
		const struct gpu_report *k = &f->gpus[i].known;

		if (k->memory_total_bytes >= 0)
			gpu_sample(out, "gpuprobe_gpu_memory_bytes", &f->gpus[i], "kind", "total",
				k->memory_total_bytes);
		if (k->memory_free_bytes >= 0)
			gpu_sample(out, "gpuprobe_gpu_memory_bytes", &f->gpus[i], "kind", "free",
				k->memory_free_bytes);
	}
	metric_head(out, "gpuprobe_gpu_free_percent", "Free memory of fit GPUs.", METRIC_GAUGE);
	for (size_t i = 0; i < f->n_gpus; i++)
		gpu_sample(out, "gpuprobe_gpu_free_percent", &f->gpus[i], NULL, NULL,
			free_percent(&f->gpus[i]));
}

static void put_checks(const struct fleet *f, struct buf *out)
{
	static const enum check_status all[] = {
		STATUS_SKIP, STATUS_PASS, STATUS_WARN, STATUS_FAIL, STATUS_ERROR};

	metric_head(out, "gpuprobe_check_status", "1 for what each check last said.", METRIC_GAUGE);
	for (size_t i = 0; i < f->n_gpus; i++) {
		for (int c = 0; c < CHECK_COUNT; c++) {
			const struct check_result *r = f->gpus[i].known.checks[c];

			for (size_t k = 0; r && k < sizeof(all) / sizeof(all[0]); k++) {
				struct slice labels[] = {SLICE("uuid"),
					slice_of(id_of(&f->gpus[i])), SLICE("check"),
					slice_of(check_kind((enum check_id)c)->id), SLICE("status"),
					slice_of(check_status_name(all[k]))};

				metric_sample(out, "gpuprobe_check_status", labels, 6,
					r->status == all[k], 1);
			}
		}
	}
}

/* One gauge for what checks of one unit measured. */
static void put_rates(const struct fleet *f, const char *name, const char *help, const char *unit,
	const char *label, struct buf *out)
{
	metric_head(out, name, help, METRIC_GAUGE);
	for (size_t i = 0; i < f->n_gpus; i++) {
		for (int c = 0; c < CHECK_COUNT; c++) {
			const struct check_result *r = f->gpus[i].known.checks[c];

			if (r && r->unit && strcmp(r->unit, unit) == 0 && isfinite(r->value))
				gpu_sample(out, name, &f->gpus[i], label,
					check_kind((enum check_id)c)->id, (int64_t)r->value);
		}
	}
}

static int64_t count_errors(const struct fleet_gpu *gpu, bool memory)
{
	int64_t sum = 0;

	for (int c = 0; c < CHECK_COUNT; c++) {
		const struct check_result *r = gpu->known.checks[c];

		if (r && r->errors > 0 &&
			(c == CHECK_MEM_PATTERN || c == CHECK_SHARED_MEMORY) == memory)
			sum += r->errors;
	}
	return sum;
}

void fleet_metrics(const struct fleet *f, int64_t now, struct buf *out)
{
	metric_head(out, "gpuprobe_up", "1: the last look at the GPUs is not stale.", METRIC_GAUGE);
	metric_sample(out, "gpuprobe_up", NULL, 0,
		f->looked_at > 0 && now - f->looked_at <= f->stale_after_s, 1);
	if (f->expected > 0) {
		metric_head(
			out, "gpuprobe_expected_gpus", "GPUs that should be there.", METRIC_GAUGE);
		metric_sample(out, "gpuprobe_expected_gpus", NULL, 0, f->expected, 1);
	}
	metric_head(out, "gpuprobe_last_verify_timestamp_seconds", "When the last verify ended.",
		METRIC_GAUGE);
	metric_sample(out, "gpuprobe_last_verify_timestamp_seconds", NULL, 0, f->verified_at, 1);
	put_info(f, out);
	put_gpus(f, out);
	put_checks(f, out);
	put_rates(f, "gpuprobe_bandwidth_bytes_per_second", "Measured by the last verify.", "B/s",
		"path", out);
	put_rates(f, "gpuprobe_flops", "Measured by the last bench.", "FLOP/s", "type", out);
	metric_head(out, "gpuprobe_memory_errors",
		"Reads that gave what was not written, in the last verify.", METRIC_GAUGE);
	for (size_t i = 0; i < f->n_gpus; i++)
		gpu_sample(out, "gpuprobe_memory_errors", &f->gpus[i], NULL, NULL,
			count_errors(&f->gpus[i], true));
	metric_head(
		out, "gpuprobe_compute_errors", "Wrong chains in the last verify.", METRIC_GAUGE);
	for (size_t i = 0; i < f->n_gpus; i++)
		gpu_sample(out, "gpuprobe_compute_errors", &f->gpus[i], NULL, NULL,
			count_errors(&f->gpus[i], false));
}
