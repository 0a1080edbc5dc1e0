/* SPDX-License-Identifier: Apache-2.0 */
/* probe: one check's result read again, as a worker tells it. What is missing or strange is an error, never a pass. */
#include "probe/report.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "probe/units.h"

/* What all the readers below take: the object, and the first thing that was wrong with it. */
struct reader {
	const struct json *j;
	const struct json_node *at;
	struct err *err;
	int rc;
};

static void wrong(struct reader *r, const char *key, const char *accepted)
{
	if (r->rc != 0)
		return;
	r->rc = err_set(r->err, ERR_INVALID, "%s is %s; accepted is %s", key,
		json_type_name(json_get(r->j, r->at, slice_of(key))), accepted);
	err_in(r->err, "%s", key);
}

/* A text of fewer bytes than size. Absent: "". */
static void read_text(struct reader *r, const char *key, char *to, size_t size)
{
	const struct json_node *v = json_get(r->j, r->at, slice_of(key));
	struct buf b;

	to[0] = '\0';
	if (json_absent(v))
		return;
	buf_init(&b, size - 1);
	json_decode(r->j, v, &b);
	if (!json_is(v, JSON_STRING) || b.failed)
		wrong(r, key, "a text of limited length");
	else if (b.len > 0)
		memcpy(to, b.data, b.len + 1);
	buf_release(&b);
}

/* Absent: NAN. */
static void read_double(struct reader *r, const char *key, double *to)
{
	const struct json_node *v = json_get(r->j, r->at, slice_of(key));

	*to = NAN;
	if (json_absent(v))
		return;
	if (!json_is(v, JSON_NUMBER)) {
		wrong(r, key, "a number");
		return;
	}
	*to = strtod(json_raw(r->j, v).at, NULL);
}

/* Not negative. Absent: -1. */
static int64_t read_count(struct reader *r, const char *key, int64_t max)
{
	const struct json_node *v = json_get(r->j, r->at, slice_of(key));
	int64_t n = -1;

	if (json_absent(v))
		return -1;
	if (!json_int(r->j, v, &n) || n < 0 || n > max) {
		wrong(r, key, "a whole number that is not negative");
		return -1;
	}
	return n;
}

/* As read_count, of a record that has to have it. */
static uint64_t need_count(struct reader *r, const char *key, int64_t max)
{
	int64_t n = read_count(r, key, max);

	if (n < 0)
		wrong(r, key, "a whole number");
	return n < 0 ? 0 : (uint64_t)n;
}

/* "0x" and 16 digits for each number, the highest number first. */
static void read_hex(struct reader *r, const char *key, uint64_t *to, size_t n)
{
	struct slice s = json_inside(r->j, json_get(r->j, r->at, slice_of(key)));
	size_t digits = 16 * n;

	for (size_t i = 0; i < n; i++)
		to[i] = 0;
	if (s.len != digits + 2 || !slice_starts(s, SLICE("0x"))) {
		wrong(r, key, "a text of hexadecimal digits");
		return;
	}
	for (size_t i = 0; i < digits; i++) {
		static const char known[] = "0123456789abcdef";
		const char *digit = memchr(known, s.at[i + 2], sizeof(known) - 1);
		uint64_t *part = &to[n - 1 - i / 16];

		if (!digit) {
			wrong(r, key, "a text of hexadecimal digits");
			return;
		}
		*part = *part << 4 | (uint64_t)(digit - known);
	}
}

static void read_records(struct reader *r, const char *key, struct check_result *c)
{
	const struct json_node *list = json_get(r->j, r->at, slice_of(key));
	bool memory = slice_is(slice_of(key), "memory_errors");

	if (json_absent(list))
		return;
	if (!json_is(list, JSON_ARRAY) || list->count > CHECK_RECORDS_MAX) {
		wrong(r, key, "a list of at most 16");
		return;
	}
	JSON_EACH(r->j, list, e)
	{
		struct reader in = {r->j, e, r->err, r->rc};

		if (memory) {
			struct memory_error *m = &c->memory[c->n_memory++];

			m->offset = need_count(&in, "offset", INT64_MAX);
			read_hex(&in, "expected", m->expected, 2);
			read_hex(&in, "got", m->got, 2);
			read_hex(&in, "again", m->again, 2);
		} else {
			struct compute_error *m = &c->compute[c->n_compute++];

			m->sm = (uint32_t)need_count(&in, "sm", UINT32_MAX);
			m->lane = (uint32_t)need_count(&in, "lane", UINT32_MAX);
			m->repeats = (uint32_t)need_count(&in, "repeats", UINT32_MAX);
			read_hex(&in, "expected", &m->expected, 1);
			read_hex(&in, "got", &m->got, 1);
		}
		if (in.rc != 0 && r->rc == 0)
			r->rc = err_in(r->err, "%s", key);
	}
}

/* The number of the name in a table of n; n: not one of them. */
static unsigned read_name(
	struct reader *r, const char *key, const char *(*name)(unsigned), unsigned n)
{
	const struct json_node *v = json_get(r->j, r->at, slice_of(key));

	for (unsigned i = 0; i < n; i++)
		if (json_is_str(r->j, v, slice_of(name(i))))
			return i;
	return n;
}

static const char *name_of_check(unsigned i)
{
	return check_kind((enum check_id)i)->id;
}

static const char *name_of_status(unsigned i)
{
	return check_status_name((enum check_status)i);
}

static const char *name_of_basis(unsigned i)
{
	return check_basis_name((enum check_basis)i);
}

/* What the status calls for, and nothing that contradicts it. */
static void read_outcome(struct reader *r, struct check_result *c)
{
	const struct json_node *cuda = json_get(r->j, r->at, SLICE("cuda"));
	char name[32];
	int64_t n = 0;

	read_text(r, "reason", c->reason, sizeof(c->reason));
	read_text(r, "code", name, sizeof(name));
	read_text(r, "message", c->message, sizeof(c->message));
	if (!json_absent(cuda) && (!json_int(r->j, cuda, &n) || n < INT_MIN || n > INT_MAX))
		wrong(r, "cuda", "an error number");
	c->cuda_error = (int)n;
	c->code = CODE_NONE;
	if (name[0] && !code_by_name(name, &c->code))
		wrong(r, "code", "a known code");
	if (c->status == STATUS_SKIP && !c->reason[0])
		wrong(r, "reason", "why it was skipped");
	if (c->status != STATUS_SKIP && c->reason[0])
		wrong(r, "reason", "none but of what was skipped");
	if (c->status >= STATUS_WARN && c->code == CODE_NONE)
		wrong(r, "code", "what is wrong");
	if (c->status >= STATUS_WARN && !c->message[0])
		wrong(r, "message", "what is wrong, in words");
	if (c->status < STATUS_WARN && (c->code != CODE_NONE || n != 0 || c->message[0]))
		wrong(r, "code", "none where nothing is wrong");
}

static void read_figures(struct reader *r, struct check_result *c)
{
	const struct json_node *unit = json_get(r->j, r->at, SLICE("unit"));
	unsigned basis = read_name(r, "basis", name_of_basis, BASIS_LINK + 1);

	read_double(r, "duration_s", &c->duration_s);
	c->bytes_tested = read_count(r, "bytes_tested", INT64_MAX);
	c->coverage_percent = (int)read_count(r, "coverage_percent", 100);
	c->errors = read_count(r, "errors", INT64_MAX);
	c->bits_0_to_1 = read_count(r, "bits_0_to_1", INT64_MAX);
	c->bits_1_to_0 = read_count(r, "bits_1_to_0", INT64_MAX);
	c->pages = read_count(r, "pages", INT64_MAX);
	c->sms_visited = (int)read_count(r, "sms_visited", INT_MAX);
	c->sms_total = (int)read_count(r, "sms_total", INT_MAX);
	read_double(r, "value", &c->value);
	read_double(r, "expected", &c->expected);
	read_double(r, "ratio", &c->ratio);
	read_double(r, "warn_below", &c->warn_below);
	read_double(r, "fail_below", &c->fail_below);
	if (!json_absent(unit)) {
		c->unit = units_by_name(json_inside(r->j, unit));
		if (!c->unit)
			wrong(r, "unit", "a known unit");
	}
	if (basis <= BASIS_LINK)
		c->basis = (enum check_basis)basis;
	else if (!json_absent(json_get(r->j, r->at, SLICE("basis"))))
		wrong(r, "basis", "a known basis");
}

int check_read(
	const struct json *j, const struct json_node *at, struct check_result *ret, struct err *err)
{
	struct reader r = {j, at, err, 0};
	unsigned id, status;

	check_begin(ret, CHECK_ENV_DRIVER);
	if (!json_is(at, JSON_OBJECT))
		return err_set(err, ERR_INVALID, "a check is %s; accepted is an object",
			json_type_name(at));
	id = read_name(&r, "id", name_of_check, CHECK_COUNT);
	status = read_name(&r, "status", name_of_status, STATUS_ERROR + 1);
	if (id == CHECK_COUNT)
		wrong(&r, "id", "a known check");
	else
		check_begin(ret, (enum check_id)id);
	if (status > STATUS_ERROR) {
		wrong(&r, "status", "pass, warn, fail, skip or error");
		return r.rc;
	}
	ret->status = (enum check_status)status;
	read_outcome(&r, ret);
	read_figures(&r, ret);
	read_records(&r, "memory_errors", ret);
	read_records(&r, "compute_errors", ret);
	if (r.rc != 0)
		check_skip(ret, "unreadable");
	return r.rc;
}
