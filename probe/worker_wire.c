/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the lines from a worker to its parent. */
#include "probe/worker_wire.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_read.h"

#define WIRE_NODES_MAX 2048u

/* ---- structs, by their members' names and places ---- */

enum field_kind { FIELD_INT, FIELD_LONG, FIELD_TEXT, FIELD_BOOL };

struct field {
	const char *name;
	enum field_kind kind;
	size_t at, size;
};

#define FIELD(type, kind, name)                                                                    \
	{                                                                                          \
#name, kind, offsetof(struct type, name), sizeof(((struct type *)0)->name)         \
	}
#define GPU(kind, name) FIELD(gpu_report, kind, name)
#define STATE(kind, name) FIELD(wire_state, kind, name)
#define NVML(kind, name) FIELD(nvml_state, kind, name)

static const struct field gpu_fields[] = {GPU(FIELD_INT, index), GPU(FIELD_TEXT, uuid),
	GPU(FIELD_TEXT, name), GPU(FIELD_TEXT, pci), GPU(FIELD_INT, cc_major),
	GPU(FIELD_INT, cc_minor), GPU(FIELD_INT, sm_count), GPU(FIELD_INT, ecc),
	GPU(FIELD_INT, mig), GPU(FIELD_INT, compute_mode), GPU(FIELD_LONG, memory_total_bytes),
	GPU(FIELD_LONG, memory_free_bytes), GPU(FIELD_LONG, l2_bytes),
	GPU(FIELD_INT, clock_max_mhz), GPU(FIELD_INT, memory_clock_max_mhz),
	GPU(FIELD_INT, memory_bus_bits), GPU(FIELD_BOOL, remote), {0}};

static const struct field state_fields[] = {
	STATE(FIELD_TEXT, uuid), STATE(FIELD_TEXT, pci), STATE(FIELD_BOOL, lost), {0}};

static const struct field nvml_fields[] = {NVML(FIELD_INT, temperature_c),
	NVML(FIELD_INT, power_mw), NVML(FIELD_INT, power_limit_mw),
	NVML(FIELD_INT, power_default_mw), NVML(FIELD_BOOL, throttle_known),
	NVML(FIELD_LONG, throttle), NVML(FIELD_LONG, ecc_uncorrected),
	NVML(FIELD_LONG, ecc_corrected), NVML(FIELD_INT, remap_correctable),
	NVML(FIELD_INT, remap_uncorrectable), NVML(FIELD_INT, remap_pending),
	NVML(FIELD_INT, remap_failed), NVML(FIELD_INT, retire_pending), NVML(FIELD_INT, mig),
	NVML(FIELD_INT, compute_mode), NVML(FIELD_INT, persistence), NVML(FIELD_INT, pcie_gen),
	NVML(FIELD_INT, pcie_gen_max), NVML(FIELD_INT, pcie_width), NVML(FIELD_INT, pcie_width_max),
	NVML(FIELD_INT, pcie_replays), NVML(FIELD_INT, utilization_percent),
	NVML(FIELD_INT, processes), NVML(FIELD_INT, recovery_action),
	NVML(FIELD_LONG, memory_total), NVML(FIELD_LONG, memory_free), {0}};

/* The members of a struct, without braces. */
static void write_fields(const struct field *fields, const void *of, struct buf *out)
{
	for (const struct field *f = fields; f->name; f++) {
		const char *at = (const char *)of + f->at;
		int n;
		int64_t l;
		bool b;

		buf_fmt(out, "%s\"%s\":", f == fields ? "" : ",", f->name);
		switch (f->kind) {
		case FIELD_INT:
			memcpy(&n, at, sizeof(n));
			buf_i64(out, n);
			break;
		case FIELD_LONG:
			memcpy(&l, at, sizeof(l));
			buf_i64(out, l);
			break;
		case FIELD_TEXT:
			buf_json_str(out, (struct slice){at, strnlen(at, f->size)});
			break;
		case FIELD_BOOL:
			memcpy(&b, at, sizeof(b));
			buf_str(out, b ? "true" : "false");
			break;
		}
	}
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

static int read_field(const struct json *j, const struct json_node *v, const struct field *f,
	void *of, struct err *err)
{
	const struct json_node *at = json_get(j, v, slice_of(f->name));
	char *to = (char *)of + f->at;
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
	return rc;
}

static int read_fields(const struct json *j, const struct json_node *v, const struct field *fields,
	void *of, struct err *err)
{
	int rc = 0;

	for (const struct field *f = fields; f->name && rc == 0; f++)
		rc = read_field(j, v, f, of, err);
	return rc;
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
		buf_str(out, ",\"archs\":");
		buf_json_str(out, slice_of(line->archs));
		buf_fmt(out, ",\"devices\":%d}", line->devices);
		break;
	case WIRE_GPU:
		buf_str(out, "{\"gpu\":{");
		write_fields(gpu_fields, &line->gpu, out);
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
		write_fields(state_fields, &line->state, out);
		buf_char(out, ',');
		write_fields(nvml_fields, &line->state.nvml, out);
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

	if (want_int(j, v, "driver", 0, INT32_MAX, &driver, err) != 0 ||
		want_int(j, v, "runtime", 0, INT32_MAX, &runtime, err) != 0 ||
		want_int(j, v, "devices", -1, REPORT_GPUS_MAX, &devices, err) != 0 ||
		want_text(j, v, "archs", ret->archs, sizeof(ret->archs), err) != 0)
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

static int read_link(
	const struct json *j, const struct json_node *v, struct wire_line *ret, struct err *err)
{
	const struct json_node *reverse = json_get(j, v, SLICE("reverse"));
	int rc;

	ret->reverse = json_is(reverse, JSON_TRUE);
	if (!ret->reverse && !json_is(reverse, JSON_FALSE))
		return wrong(err, "reverse", "true or false", reverse);
	if (want_text(j, v, "from", ret->from, sizeof(ret->from), err) != 0 ||
		want_text(j, v, "to", ret->to, sizeof(ret->to), err) != 0)
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
		return read_fields(j, v, gpu_fields, &ret->gpu, err);
	case WIRE_NVML:
		if (want_int(j, v, "devices", -1, INT32_MAX, &devices, err) != 0)
			return err->code;
		ret->devices = (int)devices;
		return want_text(j, v, "driver", ret->text, sizeof(ret->text), err);
	case WIRE_STATE:
		if (read_fields(j, v, state_fields, &ret->state, err) != 0)
			return err->code;
		return read_fields(j, v, nvml_fields, &ret->state.nvml, err);
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
	case WIRE_LINK:
		return read_link(j, v, ret, err);
	case WIRE_DONE:
		return json_is(v, JSON_TRUE) ? 0 : wrong(err, key, "true", v);
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
