/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the copies of the client's Secrets in one namespace. Every write follows a look past
 * every cache and names what was seen. */
#include "webhook/cluster/secrets/cert_keeper.h"
#include "webhook/cluster/secrets/secret_data.h"
#include "webhook/cluster/secrets/secret_sync_impl.h"

#define OWNER "poolgate"
#define COPIED_FROM "poolgate.io/copied-from"

static bool has_label(const struct kube_answer *a, struct slice label, struct slice value)
{
	const struct json *j = &a->json;

	return json_is_str(j,
		json_get(j, json_path(j, json_root(j), "metadata", "labels", NULL), label), value);
}

/* A type cannot be changed: one that is not Opaque was not written by us, whatever its label says.
 */
static bool is_ours(const struct kube_answer *a)
{
	return has_label(a, SLICE(CERT_KEEPER_LABEL), SLICE(OWNER)) &&
	       json_is_str(&a->json, json_get(&a->json, json_root(&a->json), SLICE("type")),
		       SLICE("Opaque"));
}

static bool is_same(const struct kube_answer *a, const struct secret_kind *kind, struct slice value)
{
	const struct json *j = &a->json;
	const struct json_node *data = json_get(j, json_root(j), SLICE("data"));

	return json_is(data, JSON_OBJECT) && data->count == 1 &&
	       json_is_str(j, json_get(j, data, slice_of(kind->key)), value) &&
	       has_label(a, SLICE(SECRET_COPY_LABEL), SLICE("true"));
}

/* What is written over was: it names its version. Absent: it is made. */
static void write_body(const struct secret_sync_config *cfg, const char *namespace,
	const struct secret_kind *kind, const struct secret_source *from, struct slice value,
	const struct kube_answer *was, struct buf *out)
{
	secret_begin(out, namespace, kind->copy, was);
	buf_str(out, ",\"labels\":{\"" CERT_KEEPER_LABEL "\":\"" OWNER "\",\"" SECRET_COPY_LABEL
		     "\":\"true\"},\"annotations\":{\"" COPIED_FROM "\":\"");
	buf_json_esc(out, secret_source_namespace(cfg->source));
	buf_char(out, '/');
	buf_json_esc(out, slice_of(from->three ? kind->copy : secret_source_name(cfg->source)));
	buf_str(out, "\"}},\"type\":\"Opaque\",\"data\":{");
	buf_json_str(out, slice_of(kind->key));
	buf_str(out, ":\"");
	/* out of a JSON string without escapes: fit for one */
	buf_slice(out, value);
	buf_str(out, "\"}}");
}

static int write_copy(const struct secret_sync_config *cfg, const char *namespace,
	const struct secret_kind *kind, const struct secret_source *from, struct slice value,
	const struct kube_answer *was, struct err *err)
{
	struct buf body;

	buf_init(&body, SECRET_BODY_MAX);
	write_body(cfg, namespace, kind, from, value, was, &body);
	return secret_put(cfg->kube, namespace, kind->copy, was, &body, err);
}

/* GET a copy: one that is not there is no error, was->status is 404 then. */
static int look(const struct secret_sync_config *cfg, const char *namespace, const char *name,
	struct kube_answer *was, struct err *err)
{
	int rc = secret_get(cfg->kube, namespace, name, 0, was, err);

	if (rc != ERR_NOTFOUND || was->status != 404)
		return rc;
	err_clear(err);
	return 0;
}

static int fill_one(const struct secret_sync_config *cfg, const char *namespace, size_t i,
	const struct secret_source *from, struct secret_fill *io, struct err *err)
{
	const struct secret_kind *kind = &secret_kinds[i];
	struct slice value = buf_as_slice(&from->value[i]);
	struct kube_answer was;
	int rc = look(cfg, namespace, kind->copy, &was, err);

	if (rc != 0 || (was.status != 404 && is_ours(&was) && is_same(&was, kind, value))) {
		secret_release(&was);
		return rc;
	}
	if (was.status != 404 && !is_ours(&was)) {
		if (io->foreign++ == 0)
			io->foreign_name = kind->copy;
		secret_release(&was);
		return 0;
	}
	if (io->before)
		rc = io->before(io->ctx, err);
	if (rc == 0) {
		io->before = NULL;
		rc = write_copy(cfg, namespace, kind, from, value, &was, err);
	}
	io->written += rc == 0;
	secret_release(&was);
	return rc;
}

int secret_copies_fill(const struct secret_sync_config *cfg, const char *namespace,
	const struct secret_source *from, struct secret_fill *io, struct err *err)
{
	int rc = 0;

	/* A key that the source does not have (any more) leaves the copy as it is. */
	for (size_t i = 0; i < SECRET_KINDS && rc == 0; i++)
		if (from->value[i].len > 0)
			rc = fill_one(cfg, namespace, i, from, io, err);
	return rc;
}

static int delete_copy(const struct secret_sync_config *cfg, const char *namespace,
	const char *name, const struct kube_answer *was, struct err *err)
{
	struct kube_meta meta = kube_meta(&was->json, json_root(&was->json));
	struct buf body;
	const struct kube_call call = {.method = "DELETE",
		.at = {"/api/v1", namespace, "secrets", name, NULL},
		.text = &body};
	struct kube_answer a;
	int rc;

	buf_init(&body, SECRET_ASK_MAX);
	buf_str(&body,
		"{\"apiVersion\":\"v1\",\"kind\":\"DeleteOptions\",\"preconditions\":{\"uid\":");
	buf_json_str(&body, meta.uid);
	buf_str(&body, ",\"resourceVersion\":");
	buf_json_str(&body, meta.version);
	buf_str(&body, "}}");
	rc = kube_do(cfg->kube, &call, &a, err);
	secret_release(&a);
	buf_release(&body);
	return rc;
}

int secret_copies_drop(const struct secret_sync_config *cfg, const char *namespace,
	size_t *ret_dropped, struct err *err)
{
	int rc = 0;

	*ret_dropped = 0;
	for (size_t i = 0; i < SECRET_KINDS && rc == 0; i++) {
		const char *name = secret_kinds[i].copy;
		struct kube_answer was;

		rc = look(cfg, namespace, name, &was, err);
		if (rc == 0 && was.status != 404 && is_ours(&was)) {
			rc = delete_copy(cfg, namespace, name, &was, err);
			*ret_dropped += rc == 0;
			if (rc == ERR_NOTFOUND) {
				err_clear(err);
				rc = 0;
			}
		}
		secret_release(&was);
	}
	return rc;
}
