/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what a worker's lines are made of; for worker_wire*.c alone. */
#ifndef PROBE_WORKER_WIRE_FIELDS_H
#define PROBE_WORKER_WIRE_FIELDS_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json_read.h"

/* The members of a struct that go over the wire, by name and place. */
struct wire_field;
extern const struct wire_field *const wire_gpu_fields;   /* of struct gpu_report */
extern const struct wire_field *const wire_state_fields; /* of struct wire_state */
extern const struct wire_field *const wire_nvml_fields;  /* of struct nvml_state */

/* Append the members of a struct, without braces. */
void wire_fields_write(const struct wire_field *fields, const void *of, struct buf *out);
/* Read them from the members of v. ERR_INVALID. */
int wire_fields_read(const struct json *j, const struct json_node *v,
	const struct wire_field *fields, void *of, struct err *err);

/* The member `key` of v. ERR_INVALID, with the key and what was found: it is missing, of another type, out of range, too long. */
int wire_want_int(const struct json *j, const struct json_node *v, const char *key, int64_t least,
	int64_t most, int64_t *ret, struct err *err);
int wire_want_text(const struct json *j, const struct json_node *v, const char *key, char *ret,
	size_t size, struct err *err);
/* From 0 to most. */
int wire_want_number(const struct json *j, const struct json_node *v, const char *key, double most,
	double *ret, struct err *err);
/* That error: returns ERR_INVALID. */
int wire_wrong(struct err *err, const char *key, const char *form, const struct json_node *found);

#endif
