/* SPDX-License-Identifier: Apache-2.0 */
/* kube: the record in a Lease, and what a candidate does about it. */
#include "kube/lease_record.h"

#include <string.h>

#include "base/json/json_record.h"

#define US_PER_S INT64_C(1000000)
#define S_PER_DAY INT64_C(86400)
/* 9999-12-31T23:59:59 */
#define LAST_SECOND INT64_C(253402300799)
/* An hour: whoever writes more would lock everybody out for good. */
#define DURATION_MAX_S 3600

/* ---- reading ---- */

static const struct json_field spec_fields[] = {
	REC_STR(lease_record, holder, "holderIdentity"),
	REC_LONG(lease_record, duration_s, "leaseDurationSeconds", REC_OMIT),
	REC_STR(lease_record, acquired, "acquireTime", REC_OMIT),
	REC_STR(lease_record, renewed, "renewTime", REC_OMIT),
	REC_LONG(lease_record, transitions, "leaseTransitions"),
};
JSON_RECORD(spec_record, lease_record, spec_fields, offsetof(struct lease_record, rest));

static const struct json_field lease_fields[] = {
	REC_WITHIN(spec_record, "spec"),
};
JSON_RECORD(object_record, lease_record, lease_fields, 0);

int lease_record_read(const struct json *j, const struct json_node *object, struct arena *a,
	struct lease_record *ret, struct err *err)
{
	const struct json_node *meta = json_get(j, object, SLICE("metadata"));
	struct json_reader r = {.j = j, .a = a, .err = err};
	int rc;

	*ret = (struct lease_record){.holder = "", .acquired = "", .renewed = ""};
	if (!json_is_str(j, json_get(j, object, SLICE("kind")), SLICE("Lease")))
		return err_set(err, ERR_SYNTAX, "not a Lease");
	if (!json_is(json_get(j, meta, SLICE("resourceVersion")), JSON_STRING)) {
		(void)err_set(err, ERR_INVALID, "a Lease without a resourceVersion");
		return err_in(err, "metadata");
	}
	rc = json_record_read(&r, object, &object_record, ret);
	ret->metadata = arena_slice(a, json_raw(j, meta));
	return rc == 0 && a->failed ? err_set(err, ERR_NOMEM, "out of memory for a lease") : rc;
}

bool lease_record_same(const struct lease_record *a, const struct lease_record *b)
{
	return strcmp(a->holder, b->holder) == 0 && a->duration_s == b->duration_s &&
	       a->transitions == b->transitions && strcmp(a->acquired, b->acquired) == 0 &&
	       strcmp(a->renewed, b->renewed) == 0 && slice_eq(a->rest, b->rest);
}

/* ---- deciding ---- */

enum lease_step lease_decide(const struct lease_sight *s, const char *identity, int64_t duration_ms,
	int64_t now_ms, int64_t *ret_until_ms)
{
	const struct lease_record *r = s->record;

	*ret_until_ms = now_ms;
	if (r && r->holder[0] && strcmp(r->holder, identity) != 0) {
		int64_t held_ms = duration_ms, end;

		if (r->duration_s > 0)
			held_ms =
				(r->duration_s < DURATION_MAX_S ? r->duration_s : DURATION_MAX_S) *
				1000;
		end = s->changed_ms + held_ms;

		if (now_ms < end) {
			*ret_until_ms = end;
			return LEASE_WAIT;
		}
	}
	if (!r || !s->there)
		return LEASE_CREATE;
	return strcmp(r->holder, identity) == 0 ? LEASE_RENEW : LEASE_ACQUIRE;
}

struct lease_record lease_record_next(const struct lease_record *old, enum lease_step step,
	const char *identity, int64_t duration_s, const char *time)
{
	struct lease_record next = {
		.holder = identity, .duration_s = duration_s, .acquired = time, .renewed = time};

	if (!old || step == LEASE_CREATE)
		return next;
	next.metadata = old->metadata;
	next.rest = old->rest;
	next.transitions = old->transitions + (step == LEASE_ACQUIRE);
	if (step == LEASE_RENEW && old->acquired[0])
		next.acquired = old->acquired;
	return next;
}

struct lease_record lease_record_released(const struct lease_record *old, const char *time)
{
	struct lease_record next = *old;

	next.holder = "";
	next.duration_s = 1;
	next.acquired = time;
	next.renewed = time;
	return next;
}

/* ---- writing ---- */

void lease_record_write(
	const struct lease_record *r, const char *namespace, const char *name, struct buf *out)
{
	buf_str(out, "{\"apiVersion\":\"" LEASE_API "\",\"kind\":\"Lease\",\"metadata\":");
	if (r->metadata.at) {
		buf_slice(out, r->metadata);
	} else {
		buf_str(out, "{\"name\":");
		buf_json_str(out, slice_of(name));
		buf_str(out, ",\"namespace\":");
		buf_json_str(out, slice_of(namespace));
		buf_char(out, '}');
	}
	buf_str(out, ",\"spec\":");
	json_record_write(&spec_record, r, out);
	buf_char(out, '}');
}

static void digits(char *at, int64_t n, int width)
{
	for (int i = width - 1; i >= 0; i--, n /= 10)
		at[i] = (char)('0' + n % 10);
}

void lease_time_write(int64_t us, char ret[static LEASE_TIME_SIZE])
{
	int64_t s = us < 0 ? 0 : us / US_PER_S, fraction = us < 0 ? 0 : us % US_PER_S;
	int64_t days, era, day, year, month;

	if (s > LAST_SECOND)
		s = LAST_SECOND;
	/* Years that begin in March, in eras of 400 of them: leap days are the last of their years.
	 */
	days = s / S_PER_DAY + 719468;
	era = days / 146097;
	day = days % 146097;
	year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
	day -= 365 * year + year / 4 - year / 100;
	month = (5 * day + 2) / 153;
	day -= (153 * month + 2) / 5;
	month += month < 10 ? 3 : -9;
	year += era * 400 + (month <= 2);
	memcpy(ret, "0000-00-00T00:00:00.000000Z", 28);
	digits(ret, year, 4);
	digits(ret + 5, month, 2);
	digits(ret + 8, day + 1, 2);
	s %= S_PER_DAY;
	digits(ret + 11, s / 3600, 2);
	digits(ret + 14, s / 60 % 60, 2);
	digits(ret + 17, s % 60, 2);
	digits(ret + 20, fraction, 6);
}
