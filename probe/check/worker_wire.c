/* SPDX-License-Identifier: Apache-2.0 */
/* probe: between a worker and its parent: its job as JSON, since a command line is all that a new
 * process gets, and the lines that it tells. */
#include "probe/check/worker_wire.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/json/json_record.h"
#include "probe/check/worker.h"

/* ---- jobs ---- */

#define JOB_NODES_MAX 64u
#define TEXTS_MAX (1u << 16)

#define TEXT(member) REC_STR(worker_job, member, #member, REC_OMIT | REC_OR_NULL)
#define FLAG(member, key) REC_BOOL(worker_job, member, key)
static const struct json_field job_fields[] = {
	REC_U32(worker_job, task, "task", REC_NEEDED, .max = TASK_PAIR),
	REC_U32(worker_job, profile, "profile", REC_NEEDED, .max = PROFILE_COUNT - 1),
	REC_INT(worker_job, index, "index", REC_NEEDED, .max = REPORT_GPUS_MAX - 1),
	REC_INT(worker_job, peer, "peer", .max = REPORT_GPUS_MAX - 1),
	FLAG(free_memory, "free"),
	FLAG(remote, "remote"),
	FLAG(busy, "busy"),
	/* 64 bits are more than a JSON number can say exactly. A gpuprobe-serve from before an
	 * upgrade, which is still running, writes no leading zeros. */
	REC_HEX(worker_job, seed, "seed", .min = 1, .expected = "1 to 16 hex digits"),
	REC_DOUBLE(worker_job, memory_share, "share"),
	REC_LONG(worker_job, memory_bytes, "bytes"),
	REC_DOUBLE(worker_job, seconds, "seconds"),
	REC_INT(worker_job, plant, "plant"),
	TEXT(visible),
	TEXT(thresholds),
	TEXT(cudart),
	TEXT(nvml),
};
JSON_RECORD(job_record, worker_job, job_fields, 0);

void worker_job_write(const struct worker_job *job, struct buf *out)
{
	json_record_write(&job_record, job, out);
}

int worker_job_read(const char *text, struct worker_job *ret, struct err *err)
{
	struct err own = {0};
	struct json j = {0};
	struct json_reader r = {.j = &j, .a = &ret->arena, .err = err ? err : &own};
	char *copy = NULL;
	int rc = json_read_copy(&j, text, strlen(text), JOB_NODES_MAX, &copy, err);

	*ret = (struct worker_job){0};
	arena_init(&ret->arena, TEXTS_MAX);
	if (rc == 0 && !json_is(json_root(&j), JSON_OBJECT))
		rc = json_record_wrong(&r, json_root(&j), "", "a worker's job");
	if (rc == 0)
		rc = json_record_read(&r, json_root(&j), &job_record, ret);
	if (rc == 0 && ret->task == TASK_PAIR && ret->peer == ret->index)
		rc = err_set(err, ERR_INVALID, "no job of a worker: its pair is one GPU");
	free(copy);
	json_release(&j);
	if (rc != 0)
		worker_job_release(ret);
	return rc;
}

void worker_job_release(struct worker_job *job)
{
	arena_release(&job->arena);
	*job = (struct worker_job){0};
}

/* ---- lines ---- */

#define WIRE_NODES_MAX 2048u

/* ---- what each line consists of: every member is there; -1 where it may be unknown ---- */

#define NEED_TEXT(tag, member, key) REC_TEXT(tag, member, key, REC_NEEDED)
#define NEED_BOOL(tag, member, key) REC_BOOL(tag, member, key, REC_NEEDED)
#define NEED_COUNT(tag, member, key) REC_COUNT(tag, member, key, REC_NEEDED)
#define KNOWN_INT(tag, member, key) REC_INT(tag, member, key, REC_NEEDED, .min = -1)
#define KNOWN_LONG(tag, member, key) REC_LONG(tag, member, key, REC_NEEDED, .min = -1)

static const struct json_field runtime_fields[] = {
	REC_INT(wire_line, driver, "driver", REC_NEEDED),
	REC_INT(wire_line, runtime, "runtime", REC_NEEDED),
	NEED_TEXT(wire_line, link, "link"),
	NEED_TEXT(wire_line, archs, "archs"),
	REC_INT(wire_line, devices, "devices", REC_NEEDED, .min = -1, .max = REPORT_GPUS_MAX),
};
JSON_RECORD(runtime_record, wire_line, runtime_fields, 0);

static const struct json_field gpu_fields[] = {
	KNOWN_INT(gpu_report, index, "index"),
	NEED_TEXT(gpu_report, uuid, "uuid"),
	NEED_TEXT(gpu_report, name, "name"),
	NEED_TEXT(gpu_report, pci, "pci"),
	KNOWN_INT(gpu_report, cc_major, "cc_major"),
	KNOWN_INT(gpu_report, cc_minor, "cc_minor"),
	KNOWN_INT(gpu_report, sm_count, "sm_count"),
	KNOWN_INT(gpu_report, ecc, "ecc"),
	KNOWN_INT(gpu_report, mig, "mig"),
	KNOWN_INT(gpu_report, compute_mode, "compute_mode"),
	KNOWN_LONG(gpu_report, memory_total_bytes, "memory_total_bytes"),
	KNOWN_LONG(gpu_report, memory_free_bytes, "memory_free_bytes"),
	KNOWN_LONG(gpu_report, l2_bytes, "l2_bytes"),
	KNOWN_INT(gpu_report, clock_max_mhz, "clock_max_mhz"),
	KNOWN_INT(gpu_report, memory_clock_max_mhz, "memory_clock_max_mhz"),
	KNOWN_INT(gpu_report, memory_bus_bits, "memory_bus_bits"),
	NEED_BOOL(gpu_report, remote, "remote"),
};
JSON_RECORD(gpu_report_record, gpu_report, gpu_fields, 0);

static const struct json_field state_fields[] = {
	NEED_TEXT(wire_state, uuid, "uuid"),
	NEED_TEXT(wire_state, pci, "pci"),
	NEED_BOOL(wire_state, lost, "lost"),
	KNOWN_INT(wire_state, nvml.temperature_c, "temperature_c"),
	KNOWN_INT(wire_state, nvml.power_mw, "power_mw"),
	KNOWN_INT(wire_state, nvml.power_limit_mw, "power_limit_mw"),
	KNOWN_INT(wire_state, nvml.power_default_mw, "power_default_mw"),
	NEED_BOOL(wire_state, nvml.throttle_known, "throttle_known"),
	NEED_COUNT(wire_state, nvml.throttle, "throttle"),
	KNOWN_LONG(wire_state, nvml.ecc_uncorrected, "ecc_uncorrected"),
	KNOWN_LONG(wire_state, nvml.ecc_corrected, "ecc_corrected"),
	KNOWN_INT(wire_state, nvml.remap_correctable, "remap_correctable"),
	KNOWN_INT(wire_state, nvml.remap_uncorrectable, "remap_uncorrectable"),
	KNOWN_INT(wire_state, nvml.remap_pending, "remap_pending"),
	KNOWN_INT(wire_state, nvml.remap_failed, "remap_failed"),
	KNOWN_INT(wire_state, nvml.retire_pending, "retire_pending"),
	KNOWN_INT(wire_state, nvml.mig, "mig"),
	KNOWN_INT(wire_state, nvml.compute_mode, "compute_mode"),
	KNOWN_INT(wire_state, nvml.persistence, "persistence"),
	KNOWN_INT(wire_state, nvml.pcie_gen, "pcie_gen"),
	KNOWN_INT(wire_state, nvml.pcie_gen_max, "pcie_gen_max"),
	KNOWN_INT(wire_state, nvml.pcie_width, "pcie_width"),
	KNOWN_INT(wire_state, nvml.pcie_width_max, "pcie_width_max"),
	KNOWN_INT(wire_state, nvml.pcie_replays, "pcie_replays"),
	KNOWN_INT(wire_state, nvml.utilization_percent, "utilization_percent"),
	KNOWN_INT(wire_state, nvml.processes, "processes"),
	KNOWN_INT(wire_state, nvml.recovery_action, "recovery_action"),
	KNOWN_LONG(wire_state, nvml.memory_total, "memory_total"),
	KNOWN_LONG(wire_state, nvml.memory_free, "memory_free"),
};
JSON_RECORD(wire_state_record, wire_state, state_fields, 0);

static const struct json_field within_fields[] = {
	NEED_TEXT(wire_line, text, "phase"),
	REC_DOUBLE(wire_line, seconds, "s", REC_NEEDED, .max = 1000000),
};
JSON_RECORD(within_record, wire_line, within_fields, 0);

static const struct json_field progress_fields[] = {
	REC_DOUBLE(wire_line, done, "done", REC_NEEDED, .max = 1),
	NEED_TEXT(wire_line, text, "text"),
};
JSON_RECORD(progress_record, wire_line, progress_fields, 0);

static const struct json_field nvml_fields[] = {
	NEED_TEXT(wire_line, text, "driver"),
	KNOWN_INT(wire_line, devices, "devices"),
};
JSON_RECORD(nvml_record, wire_line, nvml_fields, 0);

static const char *code_name(unsigned i)
{
	return code_text((enum probe_code)(i + 1))->name;
}

/* Which of its names is none: the numbers of codes begin with one that says nothing. */
static int read_code(struct json_reader *r, const struct json_node *v, void *to)
{
	struct report_error *e = to;

	for (unsigned i = 0; i + 1 < CODE_COUNT; i++) {
		if (!json_is_str(r->j, v, slice_of(code_name(i))))
			continue;
		e->code = (enum probe_code)(i + 1);
		return 0;
	}
	return json_record_wrong(r, v, "code", "a known code");
}

static void write_code(const void *from, struct buf *out)
{
	const struct report_error *e = from;

	buf_json_str(out, slice_of(code_text(e->code)->name));
}

static const struct json_own code = {read_code, write_code};
static const struct json_field error_fields[] = {
	REC_INT(report_error, gpu, "gpu", REC_NEEDED, .min = -1, .max = REPORT_GPUS_MAX),
	REC_OWN(code, "code", REC_NEEDED, .expected = "a known code"),
	KNOWN_INT(report_error, cuda_error, "cuda"),
	NEED_TEXT(report_error, message, "message"),
};
JSON_RECORD(report_error_record, report_error, error_fields, 0);

static int read_check(struct json_reader *r, const struct json_node *v, void *to)
{
	struct wire_line *line = to;
	int rc = check_read(r->j, v, &line->check, r->err);

	return rc == ERR_INVALID ? err_in(r->err, "check") : rc;
}

static void write_check(const void *from, struct buf *out)
{
	check_json(&((const struct wire_line *)from)->check, out);
}

static const struct json_own check = {read_check, write_check};
static const struct json_field link_fields[] = {
	NEED_BOOL(wire_line, reverse, "reverse"),
	NEED_TEXT(wire_line, from, "from"),
	NEED_TEXT(wire_line, to, "to"),
	REC_OWN(check, "check", REC_NEEDED, .expected = "a check"),
};
JSON_RECORD(link_record, wire_line, link_fields, 0);

static int read_done(struct json_reader *r, const struct json_node *v, void *to)
{
	(void)to;
	return json_is(v, JSON_TRUE) ? 0 : json_record_wrong(r, v, "done", "true");
}

static void write_done(const void *from, struct buf *out)
{
	(void)from;
	buf_str(out, "true");
}

/* A line is one of these alone: of each kind the row, in the order of enum wire_kind. */
static const struct json_own done = {read_done, write_done};
static const struct json_field lines[] = {
	REC_WITHIN(runtime_record, "runtime"),
	REC_OBJECT(wire_line, gpu, gpu_report, "gpu"),
	REC_WITHIN(within_record, "within"),
	REC_OWN(check, "check"),
	REC_WITHIN(progress_record, "progress"),
	REC_OBJECT(wire_line, error, report_error, "error"),
	REC_WITHIN(nvml_record, "nvml"),
	REC_OBJECT(wire_line, state, wire_state, "state"),
	REC_WITHIN(link_record, "link"),
	REC_OWN(done, "done"),
};

/* ---- a line ---- */

void wire_write(const struct wire_line *line, struct buf *out)
{
	const struct json_record one = {.field = &lines[line->kind], .n = 1, .size = sizeof(*line)};

	json_record_write(&one, line, out);
	buf_char(out, '\n');
}

bool wire_send(const struct wire_line *line, int fd)
{
	struct buf out;
	bool ok;

	buf_init(&out, WIRE_LINE_MAX);
	wire_write(line, &out);
	ok = !out.failed && files_write(fd, buf_as_slice(&out)) == 0;
	buf_release(&out);
	return ok;
}

/* The member that makes the line what it is. */
static int read_line(struct json_reader *r, struct wire_line *ret)
{
	const struct json_node *root = json_root(r->j);
	int rc;

	for (unsigned i = 0; i <= WIRE_DONE; i++) {
		const struct json_record one = {.field = &lines[i], .n = 1, .size = sizeof(*ret)};
		const struct json_node *v = json_get(r->j, root, slice_of(lines[i].key));

		if (json_absent(v))
			continue;
		ret->kind = (enum wire_kind)i;
		rc = json_record_read(r, root, &one, ret);
		if (rc == 0 && i == WIRE_LINK && ret->check.id != CHECK_P2P)
			rc = err_set(r->err, ERR_INVALID, "a link's check is %s",
				check_kind(CHECK_P2P)->id);
		return rc;
	}
	return err_set(r->err, ERR_INVALID, "no line of a worker");
}

int wire_read(struct slice text, struct wire_line *ret, struct err *err)
{
	struct err own = {0};
	struct json j = {0};
	struct json_reader r = {.j = &j, .err = err ? err : &own};
	char *copy;
	int rc = json_read_copy(&j, text.at, text.len, WIRE_NODES_MAX, &copy, r.err);

	/* What no line tells of a GPU. */
	*ret = (struct wire_line){.gpu = {.health = HEALTH_UNKNOWN,
					  .utilization_percent = (double)NAN,
					  .processes = -1}};
	if (rc == 0)
		rc = read_line(&r, ret);
	/* A line that is refused carries no pass, whatever was read before it was. */
	if (rc != 0)
		check_begin(&ret->check, CHECK_P2P);
	free(copy);
	json_release(&j);
	return rc;
}
