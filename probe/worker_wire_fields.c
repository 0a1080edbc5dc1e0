/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what a worker's lines are made of: members, and structs whose members are in a table. */
#include "probe/worker_wire_fields.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "probe/worker_wire.h"

/* ---- structs, by their members' names and places ---- */

enum field_kind { FIELD_INT, FIELD_LONG, FIELD_TEXT, FIELD_BOOL };

struct wire_field {
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

static const struct wire_field gpu_fields[] = {GPU(FIELD_INT, index), GPU(FIELD_TEXT, uuid),
	GPU(FIELD_TEXT, name), GPU(FIELD_TEXT, pci), GPU(FIELD_INT, cc_major),
	GPU(FIELD_INT, cc_minor), GPU(FIELD_INT, sm_count), GPU(FIELD_INT, ecc),
	GPU(FIELD_INT, mig), GPU(FIELD_INT, compute_mode), GPU(FIELD_LONG, memory_total_bytes),
	GPU(FIELD_LONG, memory_free_bytes), GPU(FIELD_LONG, l2_bytes),
	GPU(FIELD_INT, clock_max_mhz), GPU(FIELD_INT, memory_clock_max_mhz),
	GPU(FIELD_INT, memory_bus_bits), GPU(FIELD_BOOL, remote), {0}};

static const struct wire_field state_fields[] = {
	STATE(FIELD_TEXT, uuid), STATE(FIELD_TEXT, pci), STATE(FIELD_BOOL, lost), {0}};

static const struct wire_field nvml_fields[] = {NVML(FIELD_INT, temperature_c),
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

const struct wire_field *const wire_gpu_fields = gpu_fields;
const struct wire_field *const wire_state_fields = state_fields;
const struct wire_field *const wire_nvml_fields = nvml_fields;

void wire_fields_write(const struct wire_field *fields, const void *of, struct buf *out)
{
	for (const struct wire_field *f = fields; f->name; f++) {
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

int wire_wrong(struct err *err, const char *key, const char *form, const struct json_node *found)
{
	err_set(err, ERR_INVALID, "expected %s, found %s", form, json_type_name(found));
	return err_in(err, "%s", key);
}

int wire_want_int(const struct json *j, const struct json_node *v, const char *key, int64_t least,
	int64_t most, int64_t *ret, struct err *err)
{
	const struct json_node *at = json_get(j, v, slice_of(key));

	if (!json_int(j, at, ret) || *ret < least || *ret > most)
		return wire_wrong(err, key, "a whole number in range", at);
	return 0;
}

int wire_want_text(const struct json *j, const struct json_node *v, const char *key, char *ret,
	size_t size, struct err *err)
{
	const struct json_node *at = json_get(j, v, slice_of(key));
	struct buf text;

	if (!json_is(at, JSON_STRING))
		return wire_wrong(err, key, "a text", at);
	buf_init(&text, size - 1);
	json_decode(j, at, &text);
	if (!text.failed) {
		if (text.len > 0)
			memcpy(ret, text.data, text.len);
		ret[text.len] = '\0';
	}
	bool failed = text.failed;

	buf_release(&text);
	return failed ? wire_wrong(err, key, "a text that is not so long", at) : 0;
}

int wire_want_number(const struct json *j, const struct json_node *v, const char *key, double most,
	double *ret, struct err *err)
{
	const struct json_node *at = json_get(j, v, slice_of(key));
	struct slice raw = json_raw(j, at);
	char text[64];

	if (!json_is(at, JSON_NUMBER) || raw.len >= sizeof(text))
		return wire_wrong(err, key, "a number", at);
	memcpy(text, raw.at, raw.len);
	text[raw.len] = '\0';
	*ret = strtod(text, NULL);
	if (!(*ret >= 0 && *ret <= most))
		return wire_wrong(err, key, "a number in range", at);
	return 0;
}

static int read_field(const struct json *j, const struct json_node *v, const struct wire_field *f,
	void *of, struct err *err)
{
	const struct json_node *at = json_get(j, v, slice_of(f->name));
	char *to = (char *)of + f->at;
	int64_t l = -1;
	int n, rc = 0;
	bool b = json_is(at, JSON_TRUE);

	switch (f->kind) {
	case FIELD_INT:
		rc = wire_want_int(j, v, f->name, -1, INT32_MAX, &l, err);
		n = (int)l;
		memcpy(to, &n, sizeof(n));
		break;
	case FIELD_LONG:
		rc = wire_want_int(j, v, f->name, -1, INT64_MAX, &l, err);
		memcpy(to, &l, sizeof(l));
		break;
	case FIELD_TEXT:
		rc = wire_want_text(j, v, f->name, to, f->size, err);
		break;
	case FIELD_BOOL:
		if (!b && !json_is(at, JSON_FALSE))
			rc = wire_wrong(err, f->name, "true or false", at);
		memcpy(to, &b, sizeof(b));
		break;
	}
	return rc;
}

int wire_fields_read(const struct json *j, const struct json_node *v,
	const struct wire_field *fields, void *of, struct err *err)
{
	int rc = 0;

	for (const struct wire_field *f = fields; f->name && rc == 0; f++)
		rc = read_field(j, v, f, of, err);
	return rc;
}
