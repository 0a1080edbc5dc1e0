/* SPDX-License-Identifier: Apache-2.0 */
/* core: a GPUServer's status is written, with what it was read with that we do not know (ledger rule R11). */
#include "webhook/core/server_object_impl.h"

#define BYTES_PER_MB 1000000u

/* `,"key":` */
static void write_key(struct buf *out, const char *key)
{
	buf_str(out, ",\"");
	buf_str(out, key);
	buf_str(out, "\":");
}

static void write_str(struct buf *out, const char *key, const char *value)
{
	write_key(out, key);
	buf_json_str(out, slice_of(value ? value : ""));
}

static void write_bool(struct buf *out, const char *key, bool value)
{
	write_key(out, key);
	buf_str(out, value ? "true" : "false");
}

static void write_u64(struct buf *out, const char *key, uint64_t value)
{
	write_key(out, key);
	buf_u64(out, value);
}

static void write_hex(struct buf *out, const char *key, uint64_t value)
{
	write_key(out, key);
	buf_char(out, '"');
	for (int shift = 60; shift >= 0; shift -= 4)
		buf_char(out, "0123456789abcdef"[value >> shift & 15]);
	buf_char(out, '"');
}

/* Behind the members that we know, of which there is at least one. */
static void write_rest(struct buf *out, struct slice rest)
{
	if (rest.len == 0)
		return;
	buf_char(out, ',');
	buf_slice(out, rest);
}

static void write_gpu(struct buf *out, const struct gpu_status *g)
{
	buf_str(out, "{\"id\":");
	buf_json_str(out, slice_of(g->gpu.id));
	write_str(out, "model", g->gpu.model);
	write_u64(out, "memory", g->gpu.bytes);
	write_bool(out, "fit", g->gpu.fit);
	if (g->gpu.missing)
		write_bool(out, "missing", true);
	if (g->gpu.why && *g->gpu.why)
		write_str(out, "reason", g->gpu.why);
	write_rest(out, g->rest);
	buf_char(out, '}');
}

/* *from: the part before this one had the rest in front of it, unless parts were taken out or changed. */
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

static void write_claim(struct buf *out, const struct claim_record *c)
{
	char since[32];
	size_t from = 0;

	buf_str(out, "{\"uid\":");
	buf_json_str(out, slice_of(c->claim.key));
	write_str(out, "namespace", c->claim.namespace);
	write_str(out, "name", c->claim.name);
	write_str(out, "state", claim_state_name(c->claim.state));
	write_hex(out, "plan", c->claim.plan_hash);
	if (c->claim.since_ms != 0) {
		server_time_write(c->claim.since_ms, since);
		write_str(out, "since", since);
	}
	write_hex(out, "take", c->take);
	write_key(out, "servers");
	buf_char(out, '[');
	for (size_t i = 0; i < c->n_servers; i++) {
		buf_str(out, i > 0 ? "," : "");
		buf_json_str(out, slice_of(c->servers[i]));
	}
	buf_char(out, ']');
	write_key(out, "gpus");
	buf_char(out, '[');
	for (size_t i = 0; i < c->claim.n_parts; i++) {
		buf_str(out, i > 0 ? ",{\"id\":" : "{\"id\":");
		buf_json_str(out, slice_of(c->claim.parts[i].gpu));
		write_u64(out, "bytes", c->claim.parts[i].bytes);
		write_rest(out, rest_of_part(c, c->claim.parts[i].gpu, &from));
		buf_char(out, '}');
	}
	buf_char(out, ']');
	write_rest(out, c->rest);
	buf_char(out, '}');
}

static void write_condition(struct buf *out, const struct condition *c)
{
	buf_str(out, "{\"type\":");
	buf_json_str(out, slice_of(c->type));
	write_str(out, "status", c->status);
	if (c->observed_generation != 0) {
		write_key(out, "observedGeneration");
		buf_i64(out, c->observed_generation);
	}
	if (c->since && *c->since)
		write_str(out, "lastTransitionTime", c->since);
	write_str(out, "reason", c->reason);
	write_str(out, "message", c->message);
	write_rest(out, c->rest);
	buf_char(out, '}');
}

static void write_summary(const struct server_object *o, struct buf *out)
{
	const struct server_status *s = &o->status;
	const struct gpu_server as_server = {.drain = server_object_drains(o)};
	bool fresh = server_object_fresh(o);
	uint64_t fit = 0, free = 0;

	for (size_t i = 0; i < s->n_gpus; i++) {
		struct gpu g = s->gpus[i].gpu;
		uint64_t claimed;

		g.fresh = fresh;
		if (!inventory_usable(&as_server, &g))
			continue;
		fit++;
		claimed = server_status_claimed(s, i);
		/* adopted claims may be more than it has */
		if (claimed < g.bytes && __builtin_add_overflow(free, g.bytes - claimed, &free))
			free = UINT64_MAX;
	}
	write_key(out, "summary");
	buf_str(out, "{\"gpus\":");
	buf_u64(out, s->n_gpus);
	write_u64(out, "fit", fit);
	write_u64(out, "free", free / BYTES_PER_MB);
	write_u64(out, "claims", s->n_claims);
	write_rest(out, s->summary_rest);
	buf_char(out, '}');
}

static void write_status(const struct server_object *o, struct buf *out)
{
	const struct server_status *s = &o->status;

	buf_str(out, "{\"version\":");
	buf_i64(out, s->version > SERVER_STATUS_VERSION ? s->version : SERVER_STATUS_VERSION);
	if (s->observed_generation != 0) {
		write_key(out, "observedGeneration");
		buf_i64(out, s->observed_generation);
	}
	write_key(out, "gpus");
	buf_char(out, '[');
	for (size_t i = 0; i < s->n_gpus; i++) {
		buf_str(out, i > 0 ? "," : "");
		write_gpu(out, &s->gpus[i]);
	}
	buf_char(out, ']');
	write_key(out, "claims");
	buf_char(out, '[');
	for (size_t i = 0; i < s->n_claims; i++) {
		buf_str(out, i > 0 ? "," : "");
		write_claim(out, &s->claims[i]);
	}
	buf_char(out, ']');
	write_key(out, "conditions");
	buf_char(out, '[');
	for (size_t i = 0; i < s->n_conditions; i++) {
		buf_str(out, i > 0 ? "," : "");
		write_condition(out, &s->conditions[i]);
	}
	buf_char(out, ']');
	write_summary(o, out);
	write_rest(out, s->rest);
	buf_char(out, '}');
}

void server_object_write(const struct server_object *o, struct buf *out)
{
	buf_str(out, "{\"apiVersion\":\"" SERVER_API "\",\"kind\":\"" SERVER_KIND
		     "\",\"metadata\":{\"name\":");
	buf_json_str(out, slice_of(o->name));
	write_str(out, "uid", o->uid);
	write_str(out, "resourceVersion", o->version);
	buf_str(out, "},\"status\":");
	write_status(o, out);
	buf_char(out, '}');
}
