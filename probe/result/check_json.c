/* SPDX-License-Identifier: Apache-2.0 */
/* probe: one check's result as JSON, and read again, as a worker tells it. What is missing or
 * strange is an error, never a pass. */
#include "probe/result/report_words.h"

#include <limits.h>
#include <math.h>

#include "base/json/json_record.h"
#include "probe/result/report.h"
#include "probe/result/units.h"

/* ---- writing ---- */

/* More than a double holds: as text. */
static void put_hex(struct buf *out, const char *key, uint64_t high, uint64_t low, bool wide)
{
	out_key(out, key);
	if (wide)
		buf_fmt(out, "\"0x%016llx%016llx\"", (unsigned long long)high,
			(unsigned long long)low);
	else
		buf_fmt(out, "\"0x%016llx\"", (unsigned long long)low);
}

static void put_memory(const struct memory_error *e, struct buf *out)
{
	buf_char(out, '{');
	out_key(out, "offset");
	buf_u64(out, e->offset);
	put_hex(out, "expected", e->expected[1], e->expected[0], true);
	put_hex(out, "got", e->got[1], e->got[0], true);
	put_hex(out, "again", e->again[1], e->again[0], true);
	put_hex(out, "xor", e->expected[1] ^ e->got[1], e->expected[0] ^ e->got[0], true);
	/* read once more it was as wrong: memory, or its cache, holds it so */
	out_bool(out, "stored", e->again[0] == e->got[0] && e->again[1] == e->got[1]);
	buf_char(out, '}');
}

static void put_compute(const struct compute_error *e, struct buf *out)
{
	buf_char(out, '{');
	out_count(out, "sm", e->sm);
	out_count(out, "lane", e->lane);
	out_count(out, "repeats", e->repeats);
	put_hex(out, "expected", 0, e->expected, false);
	put_hex(out, "got", 0, e->got, false);
	put_hex(out, "xor", 0, e->expected ^ e->got, false);
	buf_char(out, '}');
}

static unsigned records(unsigned n)
{
	return n < CHECK_RECORDS_MAX ? n : CHECK_RECORDS_MAX;
}

static void put_records(const struct check_result *c, struct buf *out)
{
	bool same_sm = true;

	if (c->n_memory > 0) {
		out_key(out, "memory_errors");
		for (unsigned i = 0; i < records(c->n_memory); i++) {
			buf_char(out, i == 0 ? '[' : ',');
			put_memory(&c->memory[i], out);
		}
		buf_char(out, ']');
	}
	if (c->n_compute > 0) {
		out_key(out, "compute_errors");
		for (unsigned i = 0; i < records(c->n_compute); i++) {
			buf_char(out, i == 0 ? '[' : ',');
			put_compute(&c->compute[i], out);
			same_sm = same_sm && c->compute[i].sm == c->compute[0].sm;
		}
		buf_char(out, ']');
		out_bool(out, "same_sm", same_sm);
	}
}

static void put_if_known(struct buf *out, const char *key, int64_t value)
{
	if (value >= 0)
		out_count(out, key, value);
}

static void put_figures(const struct check_result *c, struct buf *out)
{
	put_if_known(out, "bytes_tested", c->bytes_tested);
	put_if_known(out, "coverage_percent", c->coverage_percent);
	if (c->beyond_l2 >= 0)
		out_bool(out, "beyond_l2", c->beyond_l2 == 1);
	put_if_known(out, "errors", c->errors);
	put_if_known(out, "bits_0_to_1", c->bits_0_to_1);
	put_if_known(out, "bits_1_to_0", c->bits_1_to_0);
	put_if_known(out, "pages", c->pages);
	put_if_known(out, "sms_visited", c->sms_visited);
	put_if_known(out, "sms_total", c->sms_total);
	if (!c->unit && !isfinite(c->value))
		return;
	out_double(out, "value", c->value);
	out_text_or_null(out, "unit", c->unit);
	out_double(out, "expected", c->expected);
	out_double(out, "ratio", c->ratio);
	out_double(out, "warn_below", c->warn_below);
	out_double(out, "fail_below", c->fail_below);
	if (isfinite(c->fail_above))
		out_double(out, "fail_above", c->fail_above);
	out_text(out, "basis", check_basis_name(c->basis));
}

void check_json(const struct check_result *c, struct buf *out)
{
	buf_char(out, '{');
	out_text(out, "id", check_kind(c->id)->id);
	out_text(out, "status", check_status_name(c->status));
	if (c->status == STATUS_SKIP)
		out_text(out, "reason", *c->reason ? c->reason : "not_run");
	else if (c->status != STATUS_PASS)
		out_problem(out, c->code, c->message, c->cuda_error);
	out_double(out, "duration_s", c->duration_s);
	put_figures(c, out);
	put_records(c, out);
	buf_char(out, '}');
}

/* ---- reading ---- */

static const char *check_name(unsigned i)
{
	return check_kind((enum check_id)i)->id;
}

static const char *status_name(unsigned i)
{
	return check_status_name((enum check_status)i);
}

static const char *code_name(unsigned i)
{
	return code_text((enum probe_code)i)->name;
}

static const char *basis_name(unsigned i)
{
	return check_basis_name((enum check_basis)i);
}

static int read_unit(struct json_reader *r, const struct json_node *v, void *to)
{
	struct check_result *c = to;

	c->unit = units_by_name(json_inside(r->j, v));
	return c->unit ? 0 : json_record_wrong(r, v, "unit", "a known unit");
}

static int read_beyond_l2(struct json_reader *r, const struct json_node *v, void *to)
{
	struct check_result *c = to;

	c->beyond_l2 = json_is(v, JSON_TRUE);
	return json_is(v, JSON_TRUE) || json_is(v, JSON_FALSE)
		       ? 0
		       : json_record_wrong(r, v, "beyond_l2", "true or false");
}

static const struct json_field memory_fields[] = {
	REC_COUNT(memory_error, offset, "offset", REC_NEEDED),
	REC_BITS(memory_error, expected[0], 2, "expected", REC_NEEDED),
	REC_BITS(memory_error, got[0], 2, "got", REC_NEEDED),
	REC_BITS(memory_error, again[0], 2, "again", REC_NEEDED),
};
JSON_RECORD(memory_error_record, memory_error, memory_fields, 0);

static const struct json_field compute_fields[] = {
	REC_U32(compute_error, sm, "sm", REC_NEEDED),
	REC_U32(compute_error, lane, "lane", REC_NEEDED),
	REC_U32(compute_error, repeats, "repeats", REC_NEEDED),
	REC_BITS(compute_error, expected, 1, "expected", REC_NEEDED),
	REC_BITS(compute_error, got, 1, "got", REC_NEEDED),
};
JSON_RECORD(compute_error_record, compute_error, compute_fields, 0);

static const struct json_own unit = {.read = read_unit};
static const struct json_own beyond_l2 = {.read = read_beyond_l2};
static const struct json_field check_fields[] = {
	REC_WORD(check_result, id, "id", REC_NEEDED, .word = check_name, .max = CHECK_COUNT - 1,
		.expected = "a known check"),
	REC_WORD(check_result, status, "status", REC_NEEDED, .word = status_name,
		.max = STATUS_ERROR, .expected = "pass, warn, fail, skip or error"),
	REC_WORD(check_result, code, "code", .word = code_name, .max = CODE_COUNT - 1,
		.expected = "a known code"),
	REC_TEXT(check_result, reason, "reason"),
	REC_TEXT(check_result, message, "message"),
	REC_INT(check_result, cuda_error, "cuda", .min = INT_MIN, .max = INT_MAX),
	REC_DOUBLE(check_result, duration_s, "duration_s", .min = INT64_MIN),
	REC_LONG(check_result, bytes_tested, "bytes_tested"),
	REC_INT(check_result, coverage_percent, "coverage_percent", .max = 100),
	REC_OWN(beyond_l2, "beyond_l2"),
	REC_LONG(check_result, errors, "errors"),
	REC_LONG(check_result, bits_0_to_1, "bits_0_to_1"),
	REC_LONG(check_result, bits_1_to_0, "bits_1_to_0"),
	REC_LONG(check_result, pages, "pages"),
	REC_INT(check_result, sms_visited, "sms_visited"),
	REC_INT(check_result, sms_total, "sms_total"),
	REC_DOUBLE(check_result, value, "value", .min = INT64_MIN),
	REC_OWN(unit, "unit"),
	REC_DOUBLE(check_result, expected, "expected", .min = INT64_MIN),
	REC_DOUBLE(check_result, ratio, "ratio", .min = INT64_MIN),
	REC_DOUBLE(check_result, warn_below, "warn_below", .min = INT64_MIN),
	REC_DOUBLE(check_result, fail_below, "fail_below", .min = INT64_MIN),
	REC_DOUBLE(check_result, fail_above, "fail_above", .min = INT64_MIN),
	REC_WORD(check_result, basis, "basis", .word = basis_name, .max = BASIS_LINK,
		.expected = "a known basis"),
	REC_ARRAY(check_result, memory, memory_error, "memory_errors"),
	REC_ARRAY(check_result, compute, compute_error, "compute_errors"),
};
JSON_RECORD(check_record, check_result, check_fields, 0);

/* Does it say what its status calls for, and nothing that contradicts it? Gives the member that is
 * wrong and why. */
static const char *contradiction(const struct check_result *c, const char **ret_why)
{
	bool wrong = c->status >= STATUS_WARN;

	*ret_why = wrong ? "what is wrong" : "none where nothing is wrong";
	if ((c->status == STATUS_SKIP) != (c->reason[0] != '\0')) {
		*ret_why = c->reason[0] ? "none but of what was skipped" : "why it was skipped";
		return "reason";
	}
	if (wrong)
		return c->code == CODE_NONE ? "code" : !c->message[0] ? "message" : NULL;
	return c->code != CODE_NONE || c->cuda_error != 0 || c->message[0] ? "code" : NULL;
}

int check_read(
	const struct json *j, const struct json_node *at, struct check_result *ret, struct err *err)
{
	struct json_reader r = {.j = j, .err = err};
	const char *why, *key;
	int rc;

	check_begin(ret, CHECK_ENV_DRIVER);
	ret->reason[0] = '\0';
	rc = json_is(at, JSON_OBJECT) ? json_record_read(&r, at, &check_record, ret)
				      : err_set(err, ERR_INVALID, "found %s, expected an object",
						json_type_name(at));
	if (rc == 0 && (key = contradiction(ret, &why)) != NULL)
		rc = json_record_wrong(&r, json_get(j, at, slice_of(key)), key, why);
	if (rc != 0) {
		check_begin(ret, CHECK_ENV_DRIVER);
		check_skip(ret, "unreadable");
	}
	return rc;
}
