/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the lines from a worker to its parent. */
#include "probe/worker_wire.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/json_read.h"
#include "probe/worker_wire_fields.h"

#define WIRE_NODES_MAX 2048u

static void write_error(const struct report_error *e, struct buf *out)
{
	buf_fmt(out, "{\"gpu\":%d,\"code\":\"%s\",\"cuda\":%d,\"message\":", e->gpu,
		code_text(e->code)->name, e->cuda_error);
	buf_json_str(out, slice_of(e->message));
	buf_char(out, '}');
}

void wire_write(const struct wire_line *line, struct buf *out)
{
	switch (line->kind) {
	case WIRE_RUNTIME:
		buf_fmt(out, "{\"runtime\":{\"driver\":%d,\"runtime\":%d,\"link\":", line->driver,
			line->runtime);
		buf_json_str(out, slice_of(line->link));
		buf_str(out, ",\"archs\":");
		buf_json_str(out, slice_of(line->archs));
		buf_fmt(out, ",\"devices\":%d}", line->devices);
		break;
	case WIRE_GPU:
		buf_str(out, "{\"gpu\":{");
		wire_fields_write(wire_gpu_fields, &line->gpu, out);
		buf_char(out, '}');
		break;
	case WIRE_WITHIN:
		buf_str(out, "{\"within\":{\"phase\":");
		buf_json_str(out, slice_of(line->text));
		buf_fmt(out, ",\"s\":%.3f}", line->seconds);
		break;
	case WIRE_CHECK:
		buf_str(out, "{\"check\":");
		check_json(&line->check, out);
		break;
	case WIRE_PROGRESS:
		buf_fmt(out, "{\"progress\":{\"done\":%.4f,\"text\":", line->done);
		buf_json_str(out, slice_of(line->text));
		buf_char(out, '}');
		break;
	case WIRE_ERROR:
		buf_str(out, "{\"error\":");
		write_error(&line->error, out);
		break;
	case WIRE_NVML:
		buf_str(out, "{\"nvml\":{\"driver\":");
		buf_json_str(out, slice_of(line->text));
		buf_fmt(out, ",\"devices\":%d}", line->devices);
		break;
	case WIRE_STATE:
		buf_str(out, "{\"state\":{");
		wire_fields_write(wire_state_fields, &line->state, out);
		buf_char(out, ',');
		wire_fields_write(wire_nvml_fields, &line->state.nvml, out);
		buf_char(out, '}');
		break;
	case WIRE_LINK:
		buf_fmt(out,
			"{\"link\":{\"reverse\":%s,\"from\":", line->reverse ? "true" : "false");
		buf_json_str(out, slice_of(line->from));
		buf_str(out, ",\"to\":");
		buf_json_str(out, slice_of(line->to));
		buf_str(out, ",\"check\":");
		check_json(&line->check, out);
		buf_char(out, '}');
		break;
	case WIRE_DONE:
		buf_str(out, "{\"done\":true");
		break;
	}
	buf_str(out, "}\n");
}

bool wire_send(const struct wire_line *line, int fd)
{
	struct buf out;
	size_t sent = 0;
	bool ok;

	buf_init(&out, WIRE_LINE_MAX);
	wire_write(line, &out);
	ok = !out.failed;
	while (ok && sent < out.len) {
		ssize_t n = write(fd, out.data + sent, out.len - sent);

		if (n > 0)
			sent += (size_t)n;
		else if (n < 0 && errno != EINTR)
			ok = false;
	}
	buf_release(&out);
	return ok;
}

static int read_runtime(
	const struct json *j, const struct json_node *v, struct wire_line *ret, struct err *err)
{
	int64_t driver, runtime, devices;

	if (wire_want_int(j, v, "driver", 0, INT32_MAX, &driver, err) != 0 ||
		wire_want_int(j, v, "runtime", 0, INT32_MAX, &runtime, err) != 0 ||
		wire_want_int(j, v, "devices", -1, REPORT_GPUS_MAX, &devices, err) != 0 ||
		wire_want_text(j, v, "archs", ret->archs, sizeof(ret->archs), err) != 0)
		return err->code;
	ret->driver = (int)driver;
	ret->runtime = (int)runtime;
	ret->devices = (int)devices;
	return wire_want_text(j, v, "link", ret->link, sizeof(ret->link), err);
}

static int read_error(
	const struct json *j, const struct json_node *v, struct report_error *ret, struct err *err)
{
	char name[32];
	int64_t gpu, cuda;

	if (wire_want_int(j, v, "gpu", -1, REPORT_GPUS_MAX, &gpu, err) != 0 ||
		wire_want_int(j, v, "cuda", -1, INT32_MAX, &cuda, err) != 0 ||
		wire_want_text(j, v, "code", name, sizeof(name), err) != 0)
		return err->code;
	ret->gpu = (int)gpu;
	ret->cuda_error = (int)cuda;
	if (!code_by_name(name, &ret->code)) {
		err_set(err, ERR_INVALID, "unknown code \"%s\"", name);
		return err_in(err, "code");
	}
	return wire_want_text(j, v, "message", ret->message, sizeof(ret->message), err);
}

static int read_link(
	const struct json *j, const struct json_node *v, struct wire_line *ret, struct err *err)
{
	const struct json_node *reverse = json_get(j, v, SLICE("reverse"));
	int rc;

	ret->reverse = json_is(reverse, JSON_TRUE);
	if (!ret->reverse && !json_is(reverse, JSON_FALSE))
		return wire_wrong(err, "reverse", "true or false", reverse);
	if (wire_want_text(j, v, "from", ret->from, sizeof(ret->from), err) != 0 ||
		wire_want_text(j, v, "to", ret->to, sizeof(ret->to), err) != 0)
		return err->code;
	rc = check_read(j, json_get(j, v, SLICE("check")), &ret->check, err);
	if (rc == 0 && ret->check.id != CHECK_P2P)
		rc = err_set(err, ERR_INVALID, "a link's check is %s", check_kind(CHECK_P2P)->id);
	if (rc == 0)
		return 0;
	check_begin(&ret->check, CHECK_P2P);
	return err_in(err, "check");
}

static int read_member(const struct json *j, const char *key, const struct json_node *v,
	struct wire_line *ret, struct err *err)
{
	int64_t devices;

	switch (ret->kind) {
	case WIRE_RUNTIME:
		return read_runtime(j, v, ret, err);
	case WIRE_GPU:
		ret->gpu.health = HEALTH_UNKNOWN;
		ret->gpu.utilization_percent = (double)NAN;
		ret->gpu.processes = -1;
		return wire_fields_read(j, v, wire_gpu_fields, &ret->gpu, err);
	case WIRE_NVML:
		if (wire_want_int(j, v, "devices", -1, INT32_MAX, &devices, err) != 0)
			return err->code;
		ret->devices = (int)devices;
		return wire_want_text(j, v, "driver", ret->text, sizeof(ret->text), err);
	case WIRE_STATE:
		if (wire_fields_read(j, v, wire_state_fields, &ret->state, err) != 0)
			return err->code;
		return wire_fields_read(j, v, wire_nvml_fields, &ret->state.nvml, err);
	case WIRE_CHECK:
		return check_read(j, v, &ret->check, err);
	case WIRE_ERROR:
		return read_error(j, v, &ret->error, err);
	case WIRE_WITHIN:
		if (wire_want_text(j, v, "phase", ret->text, sizeof(ret->text), err) != 0)
			return err->code;
		return wire_want_number(j, v, "s", 1e6, &ret->seconds, err);
	case WIRE_PROGRESS:
		if (wire_want_text(j, v, "text", ret->text, sizeof(ret->text), err) != 0)
			return err->code;
		return wire_want_number(j, v, "done", 1, &ret->done, err);
	case WIRE_LINK:
		return read_link(j, v, ret, err);
	case WIRE_DONE:
		return json_is(v, JSON_TRUE) ? 0 : wire_wrong(err, key, "true", v);
	}
	return ERR_INTERNAL;
}

int wire_read(struct slice text, struct wire_line *ret, struct err *err)
{
	static const char *const keys[] = {"runtime", "gpu", "within", "check", "progress", "error",
		"nvml", "state", "link", "done"};
	struct err own = {0};
	struct json j = {0};
	char *copy;
	int rc = json_read_copy(&j, text.at, text.len, WIRE_NODES_MAX, &copy, &own);

	*ret = (struct wire_line){0};
	if (rc == 0)
		rc = err_set(&own, ERR_INVALID, "no line of a worker");
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && copy; i++) {
		const struct json_node *v = json_get(&j, json_root(&j), slice_of(keys[i]));

		if (!v)
			continue;
		err_clear(&own);
		ret->kind = (enum wire_kind)i;
		rc = read_member(&j, keys[i], v, ret, &own);
		if (rc != 0)
			err_in(&own, "%s", keys[i]);
		break;
	}
	free(copy);
	json_release(&j);
	if (rc != 0 && err)
		*err = own;
	return rc;
}
