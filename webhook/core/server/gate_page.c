/* SPDX-License-Identifier: Apache-2.0 */
/* core: a gate's page, read and written by one table. */
#include "webhook/core/server/gate_page.h"

#include "base/json/json_record.h"
#include "base/text.h"

/* A server's claims, and those that have just ended. */
#define CLAIMS_MAX 4096

const char *const gate_modes[] = {"token", "address", NULL};
static const char *const shares[] = {"unknown", "held", "exceeded", NULL};

static const struct json_field gate_claim_fields[] = {
	REC_STR(gate_claim, uid, "uid", REC_NEEDED),
	REC_COUNT(gate_claim, used, "used", REC_NEEDED),
	REC_BOOL(gate_claim, known, "known", REC_NEEDED),
	REC_U32(gate_claim, processes, "processes", REC_NEEDED),
	REC_BOOL(gate_claim, over, "overShare", REC_NEEDED),
	REC_STR(gate_claim, gpu, "gpu", REC_OMIT),
	REC_COUNT(gate_claim, has, "has", REC_OMIT),
	REC_COUNT(gate_claim, share, "share", REC_OMIT),
	REC_BOOL(gate_claim, stuck, "stuck", REC_OMIT),
	REC_LONG(gate_claim, unused_s, "unusedSeconds", REC_OMIT),
};
JSON_RECORD(gate_claim_record, gate_claim, gate_claim_fields, 0);

static const struct json_field gate_stranger_fields[] = {
	REC_INT(gate_stranger, pid, "pid", REC_NEEDED, .min = 1, .max = INT32_MAX),
	REC_STR(gate_stranger, gpu, "gpu", REC_NEEDED),
	REC_BOOL(gate_stranger, known, "known", REC_NEEDED),
	REC_COUNT(gate_stranger, used, "used", REC_NEEDED),
};
JSON_RECORD(gate_stranger_record, gate_stranger, gate_stranger_fields, 0);

/* An object's name, or none: what it says goes into the server's status. */
static bool is_name(const char *s)
{
	return !*s || text_dns_subdomain(slice_of(s));
}

#define NAME(member)                                                                               \
	REC_STR(gate_page, member, #member, REC_OMIT, .good = is_name,                             \
		.expected = "an object name: at most 253 of a-z, 0-9, '-' and '.'")
static const struct json_field page_fields[] = {
	REC_LONG(gate_page, version, "version", REC_NEEDED, .min = GATE_PAGE_VERSION,
		.max = GATE_PAGE_VERSION),
	NAME(server),
	NAME(profile),
	REC_WORD(gate_page, mode, "mode", .words = gate_modes),
	REC_WORD(gate_page, shares, "shares", .words = shares),
	REC_BOOL(gate_page, known, "known", REC_NEEDED),
	REC_TIME(gate_page, looked_ms, "looked", REC_OMIT),
	REC_LIST(gate_page, claims, gate_claim, "claims", .max = CLAIMS_MAX),
	REC_LIST(gate_page, strangers, gate_stranger, "strangers", .max = GATE_PAGE_STRANGERS_MAX),
};
JSON_RECORD(page_record, gate_page, page_fields, 0);

int gate_page_read(const struct json *j, struct arena *a, struct gate_page *ret, struct err *err)
{
	struct json_reader r = {.j = j, .a = a, .err = err};
	struct gate_page p = {0};
	int rc = json_record_read(&r, json_root(j), &page_record, &p);

	if (rc == 0)
		*ret = p;
	return rc;
}

void gate_page_write(const struct gate_page *p, struct buf *out)
{
	json_record_write(&page_record, p, out);
	buf_char(out, '\n');
}

const struct gate_claim *gate_page_claim(const struct gate_page *p, struct slice uid)
{
	for (size_t i = 0; i < p->n_claims; i++)
		if (slice_is(uid, p->claims[i].uid))
			return &p->claims[i];
	return NULL;
}
