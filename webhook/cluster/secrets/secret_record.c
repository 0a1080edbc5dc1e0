/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the client's Secrets as the operator brought them: one Secret with three keys, or three
 * Secrets; and the namespaces that hold copies of them, in a ConfigMap that outlives the leader:
 * data.namespaces, their names with blanks between. */
#include "base/text.h"
#include "certs/certs_files.h"
#include "webhook/cluster/secrets/secret_data.h"
#include "webhook/cluster/secrets/secret_sync_impl.h"

/* ---- the record ---- */

#define RECORD_MAX ((size_t)1 << 20)
#define TRIES 3
#define NAME_MAX_BYTES 63

static struct kube_place record_of(const struct secret_sync_config *cfg)
{
	return (struct kube_place){
		"/api/v1", cfg->namespace, "configmaps", SECRET_SYNC_RECORD, NULL};
}

static int get(const struct secret_sync_config *cfg, struct kube_answer *ret, struct err *err)
{
	return kube_get_at(cfg->kube, record_of(cfg), 0, ret, err);
}

/* Names in it, as text, which is released by the caller. Somebody may have edited them, with line
 * ends between. */
static bool names(const struct kube_answer *a, struct buf *ret)
{
	buf_init(ret, RECORD_MAX);
	json_decode(&a->json, json_path(&a->json, json_root(&a->json), "data", "namespaces", NULL),
		ret);
	return !ret->failed;
}

/* The next one that can be a namespace's. */
static bool next_name(struct slice *rest, struct slice *ret)
{
	while (text_word(rest, ret))
		if (text_dns_label(*ret))
			return true;
	return false;
}

int secret_record_read(const struct secret_sync_config *cfg,
	void (*each)(void *ctx, const char *namespace), void *ctx, struct err *err)
{
	struct kube_answer a;
	struct slice rest, one;
	struct buf text;
	int rc = get(cfg, &a, err);

	if (!names(&a, &text) && rc == 0)
		rc = err_set(err, ERR_NOMEM, "out of memory");
	rest = buf_as_slice(&text);
	while (rc == 0 && next_name(&rest, &one)) {
		char name[NAME_MAX_BYTES + 1];

		memcpy(name, one.at, one.len);
		name[one.len] = '\0';
		each(ctx, name);
	}
	buf_release(&text);
	kube_answer_release(&a);
	return rc;
}

/* The ConfigMap with the name added or left out. False: it is so already. */
static bool change(const struct kube_answer *a, struct slice name, bool add, struct buf *out)
{
	const struct json *j = &a->json;
	struct slice rest, one;
	struct buf text;
	bool found = false, first = true;

	if (!names(a, &text))
		out->failed = true;
	rest = buf_as_slice(&text);

	buf_str(out, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":");
	buf_slice(out, json_raw(j, json_get(j, json_root(j), SLICE("metadata"))));
	buf_str(out, ",\"data\":{\"namespaces\":\"");
	while (next_name(&rest, &one)) {
		bool is = slice_eq(one, name);

		found = found || is;
		if (is && !add)
			continue;
		if (!first)
			buf_char(out, ' ');
		first = false;
		buf_slice(out, one);
	}
	if (add && !found) {
		if (!first)
			buf_char(out, ' ');
		buf_slice(out, name);
	}
	buf_str(out, "\"}}");
	buf_release(&text);
	return out->failed || found != add;
}

static int change_once(
	const struct secret_sync_config *cfg, struct slice name, bool add, struct err *err)
{
	struct kube_answer a;
	struct buf body;
	const struct kube_call call = {.method = "PUT", .at = record_of(cfg), .text = &body};
	int rc = get(cfg, &a, err);

	buf_init(&body, RECORD_MAX);
	if (rc == 0 && change(&a, name, add, &body))
		rc = body.full ? err_set(err, ERR_TOOBIG, "the record of namespaces is full")
			       : kube_do(cfg->kube, &call, NULL, err);
	buf_release(&body);
	kube_answer_release(&a);
	return rc;
}

int secret_record_change(
	const struct secret_sync_config *cfg, const char *namespace, bool add, struct err *err)
{
	int rc = ERR_CONFLICT;

	for (int i = 0; i < TRIES && rc == ERR_CONFLICT; i++) {
		err_clear(err);
		rc = change_once(cfg, slice_of(namespace), add, err);
	}
	return rc;
}

/* ---- the source ---- */

const struct secret_kind secret_kinds[SECRET_KINDS] = {
	{"bitfusion-client-secret-ca.crt", "ca.crt"},
	{"bitfusion-client-secret-client.yml", "client.yaml"},
	{"bitfusion-client-secret-servers.conf", "servers.conf"},
};

struct slice secret_source_namespace(const char *source)
{
	return (struct slice){source, strcspn(source, "/")};
}

const char *secret_source_name(const char *source)
{
	const char *slash = strchr(source, '/');

	return slash ? slash + 1 : source;
}

void secret_source_init(struct secret_source *s)
{
	*s = (struct secret_source){0};
	for (size_t i = 0; i < SECRET_KINDS; i++)
		buf_init(&s->value[i], SECRET_BODY_MAX);
}

void secret_source_release(struct secret_source *s)
{
	for (size_t i = 0; i < SECRET_KINDS; i++)
		certs_files_wipe(&s->value[i]);
}

/* GET a Secret of the source's namespace. ERR_INVALID: of a type that is never copied. */
static int get_source(const struct secret_sync_config *cfg, const char *name,
	struct kube_answer *ret, struct err *err)
{
	char namespace[64] = "";
	struct slice ns = secret_source_namespace(cfg->source);
	const struct json_node *type;
	int rc;

	*ret = (struct kube_answer){0};
	if (ns.len >= sizeof(namespace))
		return err_set(err, ERR_INVALID, "%s is no NAMESPACE/NAME", cfg->source);
	memcpy(namespace, ns.at, ns.len);
	rc = secret_get(cfg->kube, namespace, name, 0, ret, err);
	if (rc != 0)
		return rc;
	type = json_get(&ret->json, json_root(&ret->json), SLICE("type"));
	if (json_absent(type) || json_is_str(&ret->json, type, SLICE("Opaque")))
		return 0;
	return err_set(err, ERR_INVALID, "Secret %s/%s is not of type Opaque", namespace, name);
}

/* What stands behind a key, as it is spelled; nothing when there is no such key. */
static void value(const struct kube_answer *a, const char *key, struct buf *out)
{
	const struct json_node *v = json_get(
		&a->json, json_get(&a->json, json_root(&a->json), SLICE("data")), slice_of(key));

	if (json_is(v, JSON_STRING) && !v->escaped)
		buf_slice(out, json_inside(&a->json, v));
}

/* ERR_NOTFOUND: not all three are there, or not for us to read. */
static int read_three(
	const struct secret_sync_config *cfg, struct secret_source *to, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < SECRET_KINDS && rc == 0; i++) {
		struct kube_answer a;

		rc = get_source(cfg, secret_kinds[i].copy, &a, err);
		if (rc == 0)
			value(&a, secret_kinds[i].key, &to->value[i]);
		secret_release(&a);
		if (rc == ERR_REFUSED)
			rc = err_set(err, ERR_NOTFOUND, "cannot be read");
	}
	to->three = rc == 0;
	return rc;
}

static int read_one(const struct secret_sync_config *cfg, struct secret_source *to, struct err *err)
{
	struct kube_answer a;
	int rc = get_source(cfg, secret_source_name(cfg->source), &a, err);

	for (size_t i = 0; i < SECRET_KINDS && rc == 0; i++) {
		buf_clear(&to->value[i]);
		value(&a, secret_kinds[i].key, &to->value[i]);
	}
	secret_release(&a);
	return rc;
}

static bool same(const struct secret_source *a, const struct secret_source *b)
{
	for (size_t i = 0; i < SECRET_KINDS; i++)
		if (!slice_eq(buf_as_slice(&a->value[i]), buf_as_slice(&b->value[i])))
			return false;
	return a->three == b->three;
}

int secret_source_read(
	const struct secret_sync_config *cfg, struct secret_source *io, struct err *err)
{
	struct secret_source now;
	bool any = false, failed = false;
	int rc;

	secret_source_init(&now);
	rc = read_three(cfg, &now, err);
	if (rc == ERR_NOTFOUND) {
		err_clear(err);
		rc = read_one(cfg, &now, err);
	}
	for (size_t i = 0; i < SECRET_KINDS; i++) {
		any = any || now.value[i].len > 0;
		failed = failed || now.value[i].failed;
	}
	if (rc == 0 && failed)
		rc = err_set(err, ERR_NOMEM, "out of memory");
	if (rc == 0 && !any)
		rc = err_set(err, ERR_INVALID,
			"Secret %s has none of the keys ca.crt, client.yaml, servers.conf",
			cfg->source);
	if (rc == 0 && (io->generation == 0 || !same(io, &now))) {
		now.generation = io->generation + 1;
		secret_source_release(io);
		*io = now;
		return 0;
	}
	secret_source_release(&now);
	return rc;
}
