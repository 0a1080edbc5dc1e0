/* SPDX-License-Identifier: Apache-2.0 */
/* probe: one check's result as JSON. */
#include "probe/result/report_words.h"

#include <math.h>

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
