/* SPDX-License-Identifier: Apache-2.0 */
/* core: how a GPUServer's status is spelled. What we do not know of it is kept as it is spelled
 * (ledger rule R11). */
#include "base/text.h"
#include "webhook/core/server/server_object_impl.h"

#define BYTES_PER_MB 1000000u

/* ---- GPUs ---- */

static const struct json_field gpu_fields[] = {
	REC_STR(gpu_status, gpu.id, "id", REC_NEEDED),
	REC_STR(gpu_status, gpu.parent, "parent", REC_OMIT),
	REC_STR(gpu_status, gpu.model, "model"),
	REC_COUNT(gpu_status, gpu.bytes, "memory", REC_NEEDED),
	REC_BOOL(gpu_status, gpu.fit, "fit"),
	REC_BOOL(gpu_status, gpu.missing, "missing", REC_OMIT),
	REC_STR(gpu_status, gpu.why, "reason", REC_OMIT),
	REC_STR(gpu_status, closed, "closed", REC_OMIT | REC_OR_NULL),
};

static int check_gpu(struct json_reader *r, const struct json_node *v, const void *list, size_t i)
{
	const struct gpu_status *gpus = list;

	for (size_t k = 0; k < i; k++)
		if (strcmp(gpus[k].gpu.id, gpus[i].gpu.id) == 0)
			return json_record_wrong(r, json_get(r->j, v, SLICE("id")), "id",
				"an id that no other GPU of the server has");
	return 0;
}

JSON_RECORD(gpu_status_record, gpu_status, gpu_fields, offsetof(struct gpu_status, rest));

/* ---- claims ---- */

/* What a claim holds of one GPU. What we do not know of it is rare: it is kept beside the parts,
 * not in each. */
struct part {
	const char *gpu;
	uint64_t bytes;
	struct slice rest;
};

_Static_assert(sizeof(struct claim_part) <= sizeof(struct part), "parts take each other's place");

struct parts {
	struct part *at;
	size_t n_at;
};

static const struct json_field part_fields[] = {
	REC_STR(part, gpu, "id", REC_NEEDED),
	REC_COUNT(part, bytes, "bytes", REC_NEEDED),
};
JSON_RECORD(part_record, part, part_fields, offsetof(struct part, rest));

static const struct json_field part_list = REC_LIST(parts, at, part, "gpus");

static int read_parts(struct json_reader *r, const struct json_node *v, void *to)
{
	struct claim_record *c = to;
	struct parts p = {0};
	int rc = json_record_list(r, v, &part_list, &p);

	if (rc != 0)
		return rc;
	/* In the place of what was read, which is larger: a pool has hundreds of thousands. Both
	 * are seen as bytes, so that no compiler takes them for different places. */
	c->claim.parts = (struct claim_part *)(void *)p.at;
	for (size_t i = 0; i < p.n_at; i++) {
		struct claim_part kept = {0};
		struct part one;

		memcpy(&one, &p.at[i], sizeof(one));
		kept.gpu = one.gpu;
		kept.bytes = one.bytes;
		memcpy(&c->claim.parts[i], &kept, sizeof(kept));
		if (one.rest.at && !c->part_rests)
			c->part_rests = arena_array(r->a, p.n_at, sizeof(*c->part_rests));
		if (one.rest.at && c->part_rests)
			c->part_rests[c->n_part_rests++] = (struct part_rest){one.gpu, one.rest};
	}
	c->claim.n_parts = p.n_at;
	return r->a->failed ? err_set(r->err, ERR_NOMEM, "out of memory while reading a claim") : 0;
}

/* *from: the part before this one had the rest in front of it, unless parts were taken out or
 * changed. */
static struct slice rest_of_part(const struct claim_record *c, const char *gpu, size_t *from)
{
	for (size_t i = *from; i < c->n_part_rests; i++) {
		if (strcmp(c->part_rests[i].gpu, gpu) != 0)
			continue;
		*from = i + 1;
		return c->part_rests[i].rest;
	}
	for (size_t i = 0; i < *from; i++)
		if (strcmp(c->part_rests[i].gpu, gpu) == 0)
			return c->part_rests[i].rest;
	return (struct slice){0};
}

static void write_parts(const void *of, struct buf *out)
{
	const struct claim_record *c = of;
	size_t from = 0;

	buf_char(out, '[');
	for (size_t i = 0; i < c->claim.n_parts; i++) {
		const struct claim_part *p = &c->claim.parts[i];

		if (i > 0)
			buf_char(out, ',');
		json_record_write(&part_record,
			&(struct part){p->gpu, p->bytes, rest_of_part(c, p->gpu, &from)}, out);
	}
	buf_char(out, ']');
}

static const char *state_name(unsigned state)
{
	return claim_state_name((enum claim_state)state);
}

static bool is_ip(const char *s)
{
	unsigned char at[16];

	return text_ip(slice_of(s), at);
}

static const struct json_own parts = {read_parts, write_parts};
static const struct json_field claim_fields[] = {
	REC_STR(claim_record, claim.key, "uid", REC_NEEDED),
	REC_STR(claim_record, claim.namespace, "namespace"),
	REC_STR(claim_record, claim.name, "name"),
	REC_WORD(claim_record, claim.state, "state", REC_NEEDED, .word = state_name,
		.max = CLAIM_ADOPTED, .expected = "\"pending\", \"bound\" or \"adopted\""),
	REC_HEX(claim_record, claim.plan_hash, "plan"),
	REC_TIME(claim_record, claim.since_ms, "since", REC_OMIT),
	REC_HEX(claim_record, take, "take"),
	REC_STRS(claim_record, servers, "servers"),
	REC_U32(claim_record, grace_s, "grace", REC_OMIT),
	REC_TIME(claim_record, lingers_ms, "lingers", REC_OMIT),
	REC_STR(claim_record, waits, "waits", REC_OMIT | REC_OR_NULL),
	REC_BOOL(claim_record, open, "open", REC_OMIT),
	REC_STR(claim_record, gang, "gang", REC_OMIT | REC_OR_NULL),
	REC_U32(claim_record, began.key, "gangKey", REC_OMIT),
	REC_U32(claim_record, began.size, "gangSize", REC_OMIT),
	REC_COUNT(claim_record, began.bytes, "gangBytes", REC_OMIT),
	REC_COUNT(claim_record, began.like, "gangLike", REC_OMIT),
	REC_COUNT(claim_record, began.asks, "gangAsks", REC_OMIT),
	REC_COUNT(claim_record, used, "used", REC_OMIT),
	REC_TIME(claim_record, used_until_ms, "usedUntil", REC_OMIT),
	REC_STRS(claim_record, pod_ips, "podIPs", REC_OMIT, .max = SERVER_POD_IPS_MAX,
		.good = is_ip, .expected = "at most two IP addresses, such as [\"10.1.2.3\"]"),
	REC_OWN(parts, "gpus", REC_NEEDED, .expected = "a list"),
};
JSON_RECORD(claim_record_record, claim_record, claim_fields, offsetof(struct claim_record, rest));

bool claim_record_same_servers(const struct claim_record *x, const struct claim_record *y)
{
	if (x->n_servers != y->n_servers)
		return false;
	for (size_t i = 0; i < x->n_servers; i++)
		if (strcmp(x->servers[i], y->servers[i]) != 0)
			return false;
	return true;
}

static bool lists(const struct claim_record *r, const char *server)
{
	for (size_t i = 0; i < r->n_servers; i++)
		if (strcmp(r->servers[i], server) == 0)
			return true;
	return false;
}

bool claim_is_whole(const struct claim_on *on, size_t n, const struct claim_record *r)
{
	size_t found = 0;

	for (size_t i = 0; i < n; i++)
		found += !on[i].left && !on[i].record->open &&
			 claim_record_same_servers(on[i].record, r) && lists(r, on[i].server);
	return r->n_servers > 0 && found == r->n_servers;
}

/* ---- conditions and the summary ---- */

static const struct json_field condition_fields[] = {
	REC_STR(condition, type, "type", REC_NEEDED),
	REC_STR(condition, status, "status", REC_NEEDED),
	REC_LONG(condition, observed_generation, "observedGeneration", REC_OMIT),
	REC_STR(condition, since, "lastTransitionTime", REC_OMIT),
	REC_STR(condition, reason, "reason"),
	REC_STR(condition, message, "message"),
};
JSON_RECORD(condition_record, condition, condition_fields, offsetof(struct condition, rest));

static const struct json_field phantom_fields[] = {
	REC_STR(phantom, namespace, "namespace", REC_NEEDED),
	REC_TIME(phantom, since_ms, "since"),
};
JSON_RECORD(phantom_record, phantom, phantom_fields, offsetof(struct phantom, rest));

static const struct json_field kept_part_fields[] = {
	REC_STR(kept_part, gpu, "id", REC_NEEDED),
	REC_COUNT(kept_part, bytes, "bytes", REC_NEEDED),
};
JSON_RECORD(kept_part_record, kept_part, kept_part_fields, offsetof(struct kept_part, rest));

static const struct json_field kept_fields[] = {
	REC_STR(kept_for, uid, "uid", REC_NEEDED),
	REC_STR(kept_for, namespace, "namespace"),
	REC_STR(kept_for, name, "name"),
	REC_TIME(kept_for, since_ms, "since"),
	REC_LIST(kept_for, gpus, kept_part, "gpus"),
};
JSON_RECORD(kept_for_record, kept_for, kept_fields, offsetof(struct kept_for, rest));

/* It is computed when it is written; of what is read only unknown members are kept. */
struct summary {
	uint64_t gpus, fit, free, claims;
	struct slice rest;
};

static const struct json_field summary_fields[] = {
	REC_COUNT(summary, gpus, "gpus"),
	REC_COUNT(summary, fit, "fit"),
	REC_COUNT(summary, free, "free"),
	REC_COUNT(summary, claims, "claims"),
};
JSON_RECORD(summary_record, summary, summary_fields, offsetof(struct summary, rest));

static int read_summary(struct json_reader *r, const struct json_node *v, void *to)
{
	struct server_status *s = to;

	if (!json_is(v, JSON_OBJECT))
		return json_record_wrong(r, v, "summary", "an object");
	return json_record_rest(r, v, &summary_record, &s->summary_rest);
}

static void write_summary(const void *of, struct buf *out)
{
	const struct server_status *s = of;
	const struct server_object *o =
		(const void *)((const char *)of - offsetof(struct server_object, status));
	struct summary sum = {.gpus = s->n_gpus, .claims = s->n_claims, .rest = s->summary_rest};

	for (size_t i = 0; i < s->n_gpus; i++) {
		if (!server_gpu_usable(o, i))
			continue;
		sum.fit++;
		if (__builtin_add_overflow(sum.free,
			    gpu_left(&s->gpus[i].gpu, server_status_claimed(s, i)), &sum.free))
			sum.free = UINT64_MAX;
	}
	sum.free /= BYTES_PER_MB;
	json_record_write(&summary_record, &sum, out);
}

static const struct json_own summary = {read_summary, write_summary};
static const struct json_field status_fields[] = {
	REC_LONG(server_status, version, "version"),
	REC_LONG(server_status, observed_generation, "observedGeneration", REC_OMIT),
	REC_LIST(server_status, gpus, gpu_status, "gpus", .max = SERVER_STATUS_GPUS_MAX,
		.expected = "a list of at most 1024 GPUs", .check = check_gpu),
	REC_LIST(server_status, claims, claim_record, "claims"),
	REC_LIST(server_status, conditions, condition, "conditions"),
	REC_LIST(server_status, phantoms, phantom, "phantoms", REC_OMIT),
	REC_LIST(server_status, kept, kept_for, "kept", REC_OMIT),
	REC_OWN(summary, "summary"),
	REC_STR(server_status, usage, "usage", REC_OMIT | REC_OR_NULL),
};
const struct json_record server_status_record =
	JSON_RECORD_OF(server_status, status_fields, offsetof(struct server_status, rest));
