/* SPDX-License-Identifier: Apache-2.0 */
/* core: how a GPUServer is spelled. The CRD's schema has checked what is read; what would do harm
 * all the same (types, what goes into paths, addresses and sums) is checked again. Its status is in
 * server_object_status.c. */
#include "webhook/core/server/server_object_impl.h"

#include "base/json/json_record.h"
#include "base/text.h"

/* As in GPUServer documents that are read from files. */
#define MEMORY_MIN 1000000
#define MEMORY_MAX ((int64_t)1 << 50)
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

static int read_mode(struct json_reader *r, const struct json_node *v, void *to)
{
	struct server_object *o = to;

	o->gate_by_address = json_is_str(r->j, v, SLICE("address"));
	if (o->gate_by_address || json_is_str(r->j, v, SLICE("token")))
		return 0;
	return json_record_wrong(r, v, "mode", "\"token\" or \"address\"");
}

static const struct json_own gate_strangers = {read_strangers, NULL}, gate_mode = {read_mode, NULL};
static const struct json_field gate_fields[] = {
	REC_STR(server_object, gate_profile, "profile", REC_NEEDED | REC_OR_NULL, .good = is_name,
		.expected = "the name of the gate's ServerProfile, such as lupine"),
	REC_STR(server_object, gate_url, "url", REC_NEEDED | REC_OR_NULL, .good = is_gate_url,
		.expected = "the gate's https URL, such as https://gpu-01.lab:9447"),
	SECRET(gate_ca_secret, "caSecret"),
	REC_STR(server_object, gate_token_secret, "tokenSecret", REC_NEEDED | REC_OR_NULL,
		.good = is_name, .expected = NAME_FORM),
	REC_OWN(gate_mode, "mode"),
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
