/* SPDX-License-Identifier: Apache-2.0 */
/* probe: a worker's job as JSON, since a command line is all that a new process gets. */
#include <stdlib.h>
#include <string.h>

#include "base/json/json_record.h"
#include "probe/check/worker.h"

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
