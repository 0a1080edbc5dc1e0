/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what stands in a Secret. */
#include "webhook/cluster/secrets/secret_data.h"

#include "base/base64.h"
#include "certs/certs_files.h"

int secret_get(struct kube *k, const char *namespace, const char *name, int64_t timeout_ms,
	struct kube_answer *ret, struct err *err)
{
	const struct kube_place at = {"/api/v1", namespace, "secrets", name, NULL};
	int rc = kube_get_at(k, at, timeout_ms, ret, err);

	if (rc == ERR_NOTFOUND && !kube_says_gone(rc, err))
		rc = err_set(err, ERR_IO, "a 404 that is not the API server's");
	return rc;
}

void secret_begin(
	struct buf *out, const char *namespace, const char *name, const struct kube_answer *was)
{
	buf_str(out, "{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":");
	buf_json_str(out, slice_of(name));
	buf_str(out, ",\"namespace\":");
	buf_json_str(out, slice_of(namespace));
	if (was->status != 404) {
		struct kube_meta meta = kube_meta(&was->json, json_root(&was->json));

		buf_str(out, ",\"uid\":");
		buf_json_str(out, meta.uid);
		buf_str(out, ",\"resourceVersion\":");
		buf_json_str(out, meta.version);
	}
}

int secret_put(struct kube *k, const char *namespace, const char *name,
	const struct kube_answer *was, struct buf *body, struct err *err)
{
	bool exists = was->status != 404;
	const struct kube_call call = {.method = exists ? "PUT" : "POST",
		.at = {"/api/v1", namespace, "secrets", exists ? name : NULL, NULL},
		.text = body};
	struct kube_answer a;
	int rc = kube_do(k, &call, &a, err);

	secret_release(&a);
	certs_files_wipe(body);
	return rc;
}

bool secret_is_plain(const struct json *j, const struct json_node *secret)
{
	const struct json_node *type = json_get(j, secret, SLICE("type"));

	return json_is_str(j, type, SLICE("Opaque")) ||
	       json_is_str(j, type, SLICE("kubernetes.io/tls"));
}

void secret_release(struct kube_answer *a)
{
	if (a->body.data)
		explicit_bzero(a->body.data, a->body.len);
	kube_answer_release(a);
}

int secret_value(const struct json *j, const struct json_node *secret, const char *key,
	struct buf *out, struct err *err)
{
	const struct json_node *v = json_get(j, json_get(j, secret, SLICE("data")), slice_of(key));
	struct err why = {0};
	int rc;

	if (json_absent(v) || (json_is(v, JSON_STRING) && v->len <= 2))
		return err_set(err, ERR_NOTFOUND, "key %s is missing", key);
	if (!json_is(v, JSON_STRING) || v->escaped)
		return err_set(err, ERR_SYNTAX, "key %s is no base64 text", key);
	rc = base64_decode(json_inside(j, v), out, &why);
	return rc == 0 ? 0 : err_set(err, why.code, "key %s: %s", key, why.msg);
}
