/* SPDX-License-Identifier: Apache-2.0 */
/* core: how a GPUServer is spelled. The CRD's schema has checked what is read; what would do harm
 * all the same (types, what goes into paths, addresses and sums) is checked again. Of the status
 * what we do not know is kept as it is spelled (ledger rule R11). */
#include "webhook/core/server/server_object_impl.h"

#include "base/json/json_record.h"
#include "base/text.h"

/* As in GPUServer documents that are read from files. */
#define MEMORY_MIN 1000000
#define MEMORY_MAX ((int64_t)1 << 50)
#define BYTES_PER_MB 1000000u
/* 128 characters of up to four bytes */
#define MODEL_MAX 512
#define URL_MAX 2048

/* One word that is safe in an environment, an argv and a URL. */
static bool is_word(const char *s)
{
	for (const char *c = s; *c; c++)
		if (*c <= ' ' || *c > '~')
			return false;
	return *s && strlen(s) <= URL_MAX;
}

static bool is_name(const char *s)
{
	return text_dns_subdomain(slice_of(s));
}

/* HOST:PORT as far as it can do harm; the CRD says the rest. */
static bool is_address(const char *s)
{
	return is_word(s) && strchr(s, ':');
}

bool server_object_url(const char *s, bool tls)
{
	const char *host = strncmp(s, "https://", 8) == 0          ? s + 8
			   : !tls && strncmp(s, "http://", 7) == 0 ? s + 7
								   : NULL;

	return host && *host && !strchr("/?#:@", *host) && is_word(s);
}

static bool is_probe_url(const char *s)
{
	return server_object_url(s, false);
}

/* A token goes with each question. */
static bool is_gate_url(const char *s)
{
	return server_object_url(s, true);
}

static bool is_model(const char *s)
{
	return strlen(s) <= MODEL_MAX;
}

/* ---- the status: GPUs ---- */

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

/* ---- the status: claims ---- */

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
	REC_COUNT(claim_record, used, "used", REC_OMIT),
	REC_TIME(claim_record, used_until_ms, "usedUntil", REC_OMIT),
	REC_U32(claim_record, gang_size, "gangSize", REC_OMIT),
	REC_OWN(parts, "gpus", REC_NEEDED, .expected = "a list"),
};
JSON_RECORD(claim_record_record, claim_record, claim_fields, offsetof(struct claim_record, rest));

/* ---- the status: conditions and the summary ---- */

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
		uint64_t bytes = s->gpus[i].gpu.bytes, claimed = server_status_claimed(s, i);

		if (!server_gpu_usable(o, i))
			continue;
		sum.fit++;
		/* adopted claims may be more than it has */
		if (claimed < bytes && __builtin_add_overflow(sum.free, bytes - claimed, &sum.free))
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
JSON_RECORD(
	server_status_record, server_status, status_fields, offsetof(struct server_status, rest));

/* ---- metadata ---- */

static int read_deleting(struct json_reader *r, const struct json_node *v, void *to)
{
	struct server_object *o = to;

	o->deleting = json_is(v, JSON_STRING);
	return o->deleting ? 0 : json_record_wrong(r, v, "deletionTimestamp", "a string");
}

static int read_finalizers(struct json_reader *r, const struct json_node *v, void *to)
{
	struct server_object *o = to;

	if (!json_is(v, JSON_ARRAY))
		return json_record_wrong(r, v, "finalizers", "a list");
	JSON_EACH(r->j, v, e)
	{
		if (!json_is(e, JSON_STRING))
			return json_record_wrong(r, e, "finalizers", "strings");
		o->finalizer = o->finalizer || json_is_str(r->j, e, SLICE(SERVER_FINALIZER));
	}
	return 0;
}

static int read_labels(struct json_reader *r, const struct json_node *v, void *to)
{
	struct server_object *o = to;

	if (!json_is(v, JSON_OBJECT))
		return json_record_wrong(r, v, "labels", "an object");
	o->labels = arena_array(r->a, v->count, sizeof(*o->labels));
	JSON_MEMBERS(r->j, v, k)
	{
		if (!json_is(json_value(k), JSON_STRING))
			return json_record_wrong(r, json_value(k), "labels", "strings");
		if (o->labels)
			o->labels[o->n_labels++] =
				(struct label){arena_strdup(r->a, json_str(r->j, k, r->a)),
					arena_strdup(r->a, json_str(r->j, json_value(k), r->a))};
	}
	return r->a->failed ? err_set(r->err, ERR_NOMEM, "out of memory while reading labels") : 0;
}

#define NAME_FORM "an object name: at most 253 of a-z, 0-9, '-' and '.'"

static const struct json_own deleting = {read_deleting, NULL}, finalizers = {read_finalizers, NULL},
			     labels = {read_labels, NULL};
static const struct json_field metadata_fields[] = {
	REC_STR(server_object, name, "name", REC_NEEDED, .good = is_name, .expected = NAME_FORM),
	REC_STR(server_object, uid, "uid", REC_NEEDED),
	REC_STR(server_object, version, "resourceVersion", REC_NEEDED),
	REC_LONG(server_object, generation, "generation"),
	REC_TIME(server_object, created_ms, "creationTimestamp"),
	REC_OWN(deleting, "deletionTimestamp"),
	REC_OWN(finalizers, "finalizers"),
	REC_OWN(labels, "labels"),
};
JSON_RECORD(metadata_record, server_object, metadata_fields, 0);

/* ---- spec ---- */

/* int-or-string, as quantities are everywhere in Kubernetes */
static int read_memory(struct json_reader *r, const struct json_node *v, void *to)
{
	struct slice s = json_is(v, JSON_STRING) ? json_str(r->j, v, r->a) : json_raw(r->j, v);
	struct gpu_declared *d = to;
	struct quantity q;

	if (r->a->failed)
		return err_set(r->err, ERR_NOMEM, "out of memory while reading a quantity");
	if ((!json_is(v, JSON_STRING) && !json_is(v, JSON_NUMBER)) ||
		quantity_parse(s, &q, NULL) != 0 || !quantity_integral(q) ||
		quantity_ceil(q) < MEMORY_MIN || quantity_ceil(q) > MEMORY_MAX)
		return json_record_wrong(r, v, "memory",
			"the GPU's memory as a quantity from 1M to 1Pi, such as 16160Mi");
	d->bytes = (uint64_t)quantity_ceil(q);
	return 0;
}

static int check_declared(
	struct json_reader *r, const struct json_node *v, const void *list, size_t i)
{
	const struct gpu_declared *d = list;
	uint64_t sum = 0;

	for (size_t k = 0; k <= i; k++)
		sum += d[k].count ? d[k].count : 1;
	return sum <= SERVER_GPUS_MAX
		       ? 0
		       : json_record_wrong(r, v, "", "at most 256 GPUs on one server");
}

static const struct json_own memory = {read_memory, NULL};
static const struct json_field declared_fields[] = {
	REC_STR(gpu_declared, model, "model", REC_NEEDED, .good = is_model,
		.expected = "the GPU's model in 1 to 128 characters, such as Tesla V100-PCIE-16GB"),
	REC_OWN(memory, "memory", REC_NEEDED,
		.expected = "the GPU's memory as a quantity from 1M to 1Pi, such as 16160Mi"),
	REC_U32(gpu_declared, count, "count", .min = 1, .max = SERVER_GPUS_MAX),
};
JSON_RECORD(gpu_declared_record, gpu_declared, declared_fields, 0);

#define SECRET(member, key)                                                                        \
	REC_STR(server_object, member, key, REC_OR_NULL, .good = is_name, .expected = NAME_FORM)
static const struct json_field probe_fields[] = {
	REC_STR(server_object, probe_url, "url", REC_NEEDED | REC_OR_NULL, .good = is_probe_url,
		.expected = "the probe's URL, such as https://10.117.32.177:9443"),
	SECRET(probe_ca_secret, "caSecret"),
	SECRET(probe_token_secret, "tokenSecret"),
	SECRET(probe_client_secret, "clientSecret"),
};
JSON_RECORD(probe_record, server_object, probe_fields, 0);

static int read_strangers(struct json_reader *r, const struct json_node *v, void *to)
{
	struct server_object *o = to;

	o->gate_lets_strangers = json_is_str(r->j, v, SLICE("tell"));
	if (o->gate_lets_strangers || json_is_str(r->j, v, SLICE("close")))
		return 0;
	return json_record_wrong(r, v, "strangers", "\"close\" or \"tell\"");
}

static const struct json_own gate_strangers = {read_strangers, NULL};
static const struct json_field gate_fields[] = {
	REC_STR(server_object, gate_profile, "profile", REC_NEEDED | REC_OR_NULL, .good = is_name,
		.expected = "the name of the gate's ServerProfile, such as lupine"),
	REC_STR(server_object, gate_url, "url", REC_NEEDED | REC_OR_NULL, .good = is_gate_url,
		.expected = "the gate's https URL, such as https://gpu-01.lab:9447"),
	SECRET(gate_ca_secret, "caSecret"),
	REC_STR(server_object, gate_token_secret, "tokenSecret", REC_NEEDED | REC_OR_NULL,
		.good = is_name, .expected = NAME_FORM),
	REC_OWN(gate_strangers, "strangers"),
};
JSON_RECORD(gate_record, server_object, gate_fields, 0);

static const struct json_field spec_fields[] = {
	REC_STR(server_object, address, "address", REC_NEEDED, .good = is_address,
		.expected =
			"HOST:PORT where launchers find the server, such as 10.117.32.177:56001"),
	REC_BOOL(server_object, drain, "drain"),
	REC_STRS(server_object, launchers, "launchers", .min = 1, .max = SERVER_LAUNCHERS_MAX,
		.expected = "1 to 64 names of launcher profiles, such as [lupine]"),
	REC_LIST(server_object, declared, gpu_declared, "gpus", .min = 1, .max = SERVER_GPUS_MAX,
		.expected = "1 to 256 of {model, memory, count}", .check = check_declared),
	REC_WITHIN(probe_record, "probe", .expected = "an object {url}"),
	REC_WITHIN(gate_record, "gate", .expected = "an object {profile, url}"),
};
JSON_RECORD(spec_record, server_object, spec_fields, 0);

static const struct json_field object_fields[] = {
	REC_WITHIN(metadata_record, "metadata", REC_NEEDED),
	REC_WITHIN(spec_record, "spec", REC_NEEDED),
	REC_OBJECT(server_object, status, server_status, "status"),
};
JSON_RECORD(object_record, server_object, object_fields, 0);

/* ---- the whole ---- */

/* What follows from other members. */
static int complete(struct json_reader *r, struct server_object *o)
{
	for (size_t i = 0; i < o->n_declared; i++)
		o->declared[i].count += o->declared[i].count == 0;
	for (size_t i = 0; i < o->status.n_claims; i++) {
		struct claim_record *c = &o->status.claims[i];

		for (size_t k = 0; k < c->claim.n_parts; k++)
			c->claim.parts[k].server = o->name;
		if (c->n_servers > 0)
			continue;
		c->servers = arena_array(r->a, 1, sizeof(*c->servers));
		if (!c->servers)
			return err_set(r->err, ERR_NOMEM, "out of memory while reading a claim");
		c->servers[c->n_servers++] = o->name;
	}
	return 0;
}

int server_object_read(const struct json *j, const struct json_node *object, struct arena *a,
	struct server_object *ret, struct err *err)
{
	struct err own = {0};
	struct server_object o = {0};
	struct json_reader r = {.j = j, .a = a, .err = err ? err : &own, .top = &o};
	int rc;

	if (!json_is_str(j, json_get(j, object, SLICE("kind")), SLICE(SERVER_KIND)) ||
		!json_is_str(j, json_get(j, object, SLICE("apiVersion")), SLICE(SERVER_API)))
		return err_set(r.err, ERR_SYNTAX, "this is no " SERVER_KIND " of " SERVER_API);
	rc = json_record_read(&r, object, &object_record, &o);
	if (rc == 0 && (o.n_declared == 0) == (o.probe_url == NULL)) {
		(void)err_set(r.err, ERR_INVALID,
			"found %s, expected one of gpus (a list of {model, memory, count}) and "
			"probe ({url})",
			o.probe_url ? "both gpus and probe" : "neither gpus nor probe");
		rc = err_in(r.err, "spec");
	}
	if (rc == 0)
		rc = complete(&r, &o);
	if (rc == 0)
		*ret = o;
	return rc;
}

void server_object_write(const struct server_object *o, struct buf *out)
{
	struct server_object w = *o;

	if (w.status.version < SERVER_STATUS_VERSION)
		w.status.version = SERVER_STATUS_VERSION;
	buf_str(out, "{\"apiVersion\":\"" SERVER_API "\",\"kind\":\"" SERVER_KIND
		     "\",\"metadata\":{\"name\":");
	buf_json_str(out, slice_of(o->name));
	buf_str(out, ",\"uid\":");
	buf_json_str(out, slice_of(o->uid));
	buf_str(out, ",\"resourceVersion\":");
	buf_json_str(out, slice_of(o->version));
	buf_str(out, "},\"status\":");
	json_record_write(&server_status_record, &w.status, out);
	buf_char(out, '}');
}
