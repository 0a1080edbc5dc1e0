/* SPDX-License-Identifier: Apache-2.0 */
/* probe: a worker's job as JSON, since a command line is all that a new process gets. */
#include <stdlib.h>
#include <string.h>

#include "base/json/json_read.h"
#include "probe/check/worker.h"

#define JOB_NODES_MAX 64u

static void write_text(struct buf *out, const char *key, const char *value)
{
	if (!value)
		return;
	buf_fmt(out, ",\"%s\":", key);
	buf_json_str(out, slice_of(value));
}

void worker_job_write(const struct worker_job *job, struct buf *out)
{
	buf_fmt(out,
		"{\"task\":%d,\"profile\":%d,\"index\":%d,\"peer\":%d,\"free\":%s,\"remote\":%s,"
		"\"busy\":%s,",
		(int)job->task, (int)job->profile, job->index, job->peer,
		job->free_memory ? "true" : "false", job->remote ? "true" : "false",
		job->busy ? "true" : "false");
	/* a seed has 64 bits, more than a JSON number can say exactly */
	buf_fmt(out,
		"\"seed\":\"%llx\",\"share\":%.4f,\"bytes\":%lld,\"seconds\":%.3f,\"plant\":%d",
		(unsigned long long)job->seed, job->memory_share, (long long)job->memory_bytes,
		job->seconds, job->plant);
	write_text(out, "visible", job->visible);
	write_text(out, "thresholds", job->thresholds);
	write_text(out, "cudart", job->cudart);
	write_text(out, "nvml", job->nvml);
	buf_char(out, '}');
}

/* A malloc'ed copy of a text, NULL when it is absent. False: no memory. */
static bool take_text(
	const struct json *j, const struct json_node *job, const char *key, const char **ret)
{
	const struct json_node *at = json_get(j, job, slice_of(key));
	struct buf text;

	*ret = NULL;
	if (!json_is(at, JSON_STRING))
		return true;
	buf_init(&text, 4096);
	json_decode(j, at, &text);
	*ret = buf_take(&text, NULL);
	return *ret != NULL;
}

static double take_number(const struct json *j, const struct json_node *job, const char *key)
{
	struct slice raw = json_raw(j, json_get(j, job, slice_of(key)));
	char text[64] = "";

	if (raw.at && raw.len < sizeof(text))
		memcpy(text, raw.at, raw.len);
	return strtod(text, NULL);
}

static bool take_bool(const struct json *j, const struct json_node *job, const char *key)
{
	return json_is(json_get(j, job, slice_of(key)), JSON_TRUE);
}

int worker_job_read(const char *text, struct worker_job *ret, struct err *err)
{
	struct json j = {0};
	char *copy, seed[32] = "";
	int64_t profile = -1, index = -1, peer = 0, plant = 0, bytes = 0, task = -1;
	int rc = json_read_copy(&j, text, strlen(text), JOB_NODES_MAX, &copy, err);

	*ret = (struct worker_job){0};
	if (rc != 0) {
		json_release(&j);
		return rc;
	}
	const struct json_node *job = json_root(&j);
	struct slice hex = json_inside(&j, json_get(&j, job, SLICE("seed")));

	if (hex.at && hex.len < sizeof(seed))
		memcpy(seed, hex.at, hex.len);
	if (!json_int(&j, json_get(&j, job, SLICE("profile")), &profile) || profile < 0 ||
		profile >= PROFILE_COUNT ||
		!json_int(&j, json_get(&j, job, SLICE("index")), &index) || index < 0 ||
		index >= REPORT_GPUS_MAX)
		rc = err_set(err, ERR_INVALID, "no job of a worker: profile or index is wrong");
	if (rc == 0 && (!json_int(&j, json_get(&j, job, SLICE("task")), &task) || task < 0 ||
			       task > TASK_PAIR))
		rc = err_set(err, ERR_INVALID, "no job of a worker: task is wrong");
	if (rc == 0 && task == TASK_PAIR &&
		(!json_int(&j, json_get(&j, job, SLICE("peer")), &peer) || peer < 0 ||
			peer >= REPORT_GPUS_MAX || peer == index))
		rc = err_set(err, ERR_INVALID, "no job of a worker: peer is wrong");
	(void)json_int(&j, json_get(&j, job, SLICE("plant")), &plant);
	(void)json_int(&j, json_get(&j, job, SLICE("bytes")), &bytes);
	*ret = (struct worker_job){.task = rc == 0 ? (enum worker_task)task : TASK_GPU,
		.profile = rc == 0 ? (enum probe_profile)profile : PROFILE_LIST,
		.index = (int)index,
		.peer = (int)peer,
		.free_memory = take_bool(&j, job, "free"),
		.remote = take_bool(&j, job, "remote"),
		.busy = take_bool(&j, job, "busy"),
		.seed = strtoull(seed, NULL, 16),
		.memory_share = take_number(&j, job, "share"),
		.memory_bytes = bytes,
		.seconds = take_number(&j, job, "seconds"),
		.plant = (int)plant};
	if (rc == 0 && (!take_text(&j, job, "visible", &ret->visible) ||
			       !take_text(&j, job, "thresholds", &ret->thresholds) ||
			       !take_text(&j, job, "cudart", &ret->cudart) ||
			       !take_text(&j, job, "nvml", &ret->nvml)))
		rc = err_set(err, ERR_NOMEM, "out of memory");
	free(copy);
	json_release(&j);
	if (rc != 0)
		worker_job_release(ret);
	return rc;
}

static void drop(const char **text)
{
	char *own;

	memcpy(&own, text, sizeof(own)); /* malloc'ed here, const for all others */
	free(own);
	*text = NULL;
}

void worker_job_release(struct worker_job *job)
{
	drop(&job->visible);
	drop(&job->thresholds);
	drop(&job->cudart);
	drop(&job->nvml);
}
