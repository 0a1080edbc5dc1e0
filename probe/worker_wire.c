/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the lines from a worker to its parent. */
#include "probe/worker_wire.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_read.h"

#define WIRE_NODES_MAX 2048u

/* ---- gpu: its members by name and place ---- */

enum field_kind { FIELD_INT, FIELD_LONG, FIELD_TEXT, FIELD_BOOL };

struct field {
	const char *name;
	enum field_kind kind;
	size_t at, size;
};

#define FIELD(kind, name)                                                                          \
	{                                                                                          \
#name, kind, offsetof(struct gpu_report, name),                                    \
			sizeof(((struct gpu_report *)0)->name)                                     \
	}

static const struct field fields[] = {FIELD(FIELD_INT, index), FIELD(FIELD_TEXT, uuid),
	FIELD(FIELD_TEXT, name), FIELD(FIELD_TEXT, pci), FIELD(FIELD_INT, cc_major),
	FIELD(FIELD_INT, cc_minor), FIELD(FIELD_INT, sm_count), FIELD(FIELD_INT, ecc),
	FIELD(FIELD_INT, mig), FIELD(FIELD_INT, compute_mode),
	FIELD(FIELD_LONG, memory_total_bytes), FIELD(FIELD_LONG, memory_free_bytes),
	FIELD(FIELD_LONG, l2_bytes), FIELD(FIELD_INT, clock_max_mhz),
	FIELD(FIELD_INT, memory_clock_max_mhz), FIELD(FIELD_INT, memory_bus_bits),
	FIELD(FIELD_BOOL, remote)};

#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))

static void write_gpu(const struct gpu_report *gpu, struct buf *out)
{
	for (size_t i = 0; i < N_FIELDS; i++) {
		const char *at = (const char *)gpu + fields[i].at;
		int n;
		int64_t l;
		bool b;

		buf_fmt(out, "%s\"%s\":", i == 0 ? "{" : ",", fields[i].name);
		switch (fields[i].kind) {
		case FIELD_INT:
			memcpy(&n, at, sizeof(n));
			buf_i64(out, n);
			break;
		case FIELD_LONG:
			memcpy(&l, at, sizeof(l));
			buf_i64(out, l);
			break;
		case FIELD_TEXT:
			buf_json_str(out, (struct slice){at, strnlen(at, fields[i].size)});
			break;
		case FIELD_BOOL:
			memcpy(&b, at, sizeof(b));
			buf_str(out, b ? "true" : "false");
			break;
		}
	}
	buf_char(out, '}');
}

/* ---- what all members are read with ---- */

static int wrong(struct err *err, const char *key, const char *form, const struct json_node *found)
{
	err_set(err, ERR_INVALID, "expected %s, found %s", form, json_type_name(found));
	return err_in(err, "%s", key);
}

static int want_int(const struct json *j, const struct json_node *v, const char *key, int64_t least,
	int64_t most, int64_t *ret, struct err *err)
{
	const struct json_node *at = json_get(j, v, slice_of(key));

	if (!json_int(j, at, ret) || *ret < least || *ret > most)
		return wrong(err, key, "a whole number in range", at);
	return 0;
}

static int want_text(const struct json *j, const struct json_node *v, const char *key, char *ret,
	size_t size, struct err *err)
{
	const struct json_node *at = json_get(j, v, slice_of(key));
	struct buf text;

	if (!json_is(at, JSON_STRING))
		return wrong(err, key, "a text", at);
	buf_init(&text, size - 1);
	json_decode(j, at, &text);
	if (!text.failed) {
		if (text.len > 0)
			memcpy(ret, text.data, text.len);
		ret[text.len] = '\0';
	}
	bool failed = text.failed;

	buf_release(&text);
	return failed ? wrong(err, key, "a text that is not so long", at) : 0;
}

static int want_number(const struct json *j, const struct json_node *v, const char *key,
	double most, double *ret, struct err *err)
{
	const struct json_node *at = json_get(j, v, slice_of(key));
	struct slice raw = json_raw(j, at);
	char text[64];

	if (!json_is(at, JSON_NUMBER) || raw.len >= sizeof(text))
		return wrong(err, key, "a number", at);
	memcpy(text, raw.at, raw.len);
	text[raw.len] = '\0';
	*ret = strtod(text, NULL);
	if (!(*ret >= 0 && *ret <= most))
		return wrong(err, key, "a number in range", at);
	return 0;
}

static int read_gpu(
	const struct json *j, const struct json_node *v, struct gpu_report *ret, struct err *err)
{
	for (size_t i = 0; i < N_FIELDS; i++) {
		const struct field *f = &fields[i];
		const struct json_node *at = json_get(j, v, slice_of(f->name));
		char *to = (char *)ret + f->at;
		int64_t l = -1;
		int n, rc = 0;
		bool b = json_is(at, JSON_TRUE);

		switch (f->kind) {
		case FIELD_INT:
			rc = want_int(j, v, f->name, -1, INT32_MAX, &l, err);
			n = (int)l;
			memcpy(to, &n, sizeof(n));
			break;
		case FIELD_LONG:
			rc = want_int(j, v, f->name, -1, INT64_MAX, &l, err);
			memcpy(to, &l, sizeof(l));
			break;
		case FIELD_TEXT:
			rc = want_text(j, v, f->name, to, f->size, err);
			break;
		case FIELD_BOOL:
			if (!b && !json_is(at, JSON_FALSE))
				rc = wrong(err, f->name, "true or false", at);
			memcpy(to, &b, sizeof(b));
			break;
		}
		if (rc != 0)
			return rc;
	}
	ret->health = HEALTH_UNKNOWN;
	ret->utilization_percent = (double)NAN;
	ret->processes = -1;
	return 0;
}

/* ---- lines ---- */

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
		buf_fmt(out, ",\"devices\":%d}", line->devices);
		break;
	case WIRE_GPU:
		buf_str(out, "{\"gpu\":");
		write_gpu(&line->gpu, out);
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
	case WIRE_DONE:
		buf_str(out, "{\"done\":true");
		break;
	}
	buf_str(out, "}\n");
}

static int read_runtime(
	const struct json *j, const struct json_node *v, struct wire_line *ret, struct err *err)
{
	int64_t driver, runtime, devices;

	if (want_int(j, v, "driver", 0, INT32_MAX, &driver, err) != 0 ||
		want_int(j, v, "runtime", 0, INT32_MAX, &runtime, err) != 0 ||
		want_int(j, v, "devices", -1, REPORT_GPUS_MAX, &devices, err) != 0)
		return err->code;
	ret->driver = (int)driver;
	ret->runtime = (int)runtime;
	ret->devices = (int)devices;
	return want_text(j, v, "link", ret->link, sizeof(ret->link), err);
}

static int read_error(
	const struct json *j, const struct json_node *v, struct report_error *ret, struct err *err)
{
	char name[32];
	int64_t gpu, cuda;

	if (want_int(j, v, "gpu", -1, REPORT_GPUS_MAX, &gpu, err) != 0 ||
		want_int(j, v, "cuda", -1, INT32_MAX, &cuda, err) != 0 ||
		want_text(j, v, "code", name, sizeof(name), err) != 0)
		return err->code;
	ret->gpu = (int)gpu;
	ret->cuda_error = (int)cuda;
	if (!code_by_name(name, &ret->code)) {
		err_set(err, ERR_INVALID, "unknown code \"%s\"", name);
		return err_in(err, "code");
	}
	return want_text(j, v, "message", ret->message, sizeof(ret->message), err);
}

static int read_member(const struct json *j, const char *key, const struct json_node *v,
	struct wire_line *ret, struct err *err)
{
	switch (ret->kind) {
	case WIRE_RUNTIME:
		return read_runtime(j, v, ret, err);
	case WIRE_GPU:
		return read_gpu(j, v, &ret->gpu, err);
	case WIRE_CHECK:
		return check_read(j, v, &ret->check, err);
	case WIRE_ERROR:
		return read_error(j, v, &ret->error, err);
	case WIRE_WITHIN:
		if (want_text(j, v, "phase", ret->text, sizeof(ret->text), err) != 0)
			return err->code;
		return want_number(j, v, "s", 1e6, &ret->seconds, err);
	case WIRE_PROGRESS:
		if (want_text(j, v, "text", ret->text, sizeof(ret->text), err) != 0)
			return err->code;
		return want_number(j, v, "done", 1, &ret->done, err);
	case WIRE_DONE:
		return json_is(v, JSON_TRUE) ? 0 : wrong(err, key, "true", v);
	}
	return ERR_INTERNAL;
}

int wire_read(struct slice text, struct wire_line *ret, struct err *err)
{
	static const char *const keys[] = {
		"runtime", "gpu", "within", "check", "progress", "error", "done"};
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
