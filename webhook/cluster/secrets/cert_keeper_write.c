/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what the certificate keeper writes: two Secrets and the bundles of the webhook
 * configurations. */
#include "base/rfc3339.h"
#include "certs/certs_files.h"
#include "webhook/cluster/secrets/cert_keeper_impl.h"
#include "webhook/cluster/secrets/secret_data.h"

/* A Secret holds 1 MiB at most. */
#define BODY_MAX_BYTES ((size_t)4 << 20)
#define LABEL_VALUE "poolgate"

struct item {
	const char *key;
	struct slice value; /* empty: left out */
};

struct secret_write {
	const char *name, *type;
	const struct kube_answer *was; /* what was read; status 404: it did not exist */
	struct item data[5];
	struct item notes[2]; /* annotations */
};

static void add_member(struct buf *out, bool *first, const char *key)
{
	if (!*first)
		buf_char(out, ',');
	*first = false;
	buf_json_str(out, slice_of(key));
	buf_char(out, ':');
}

static void write_body(const struct cert_keeper *k, const struct secret_write *w, struct buf *out)
{
	bool first = true;

	secret_begin(out, k->cfg.namespace, w->name, w->was);
	buf_str(out, ",\"labels\":{\"" CERT_KEEPER_LABEL "\":\"" LABEL_VALUE "\"}"
		     ",\"annotations\":{");
	for (size_t i = 0; i < sizeof(w->notes) / sizeof(w->notes[0]); i++) {
		if (w->notes[i].value.len == 0)
			continue;
		add_member(out, &first, w->notes[i].key);
		buf_json_str(out, w->notes[i].value);
	}
	buf_str(out, "}},\"type\":");
	buf_json_str(out, slice_of(w->type));
	buf_str(out, ",\"data\":{");
	first = true;
	for (size_t i = 0; i < sizeof(w->data) / sizeof(w->data[0]); i++) {
		if (w->data[i].value.len == 0)
			continue;
		add_member(out, &first, w->data[i].key);
		buf_char(out, '"');
		buf_base64(out, w->data[i].value.at, w->data[i].value.len);
		buf_char(out, '"');
	}
	buf_str(out, "}}");
}

static int write_secret(const struct cert_keeper *k, const struct secret_write *w, struct err *err)
{
	const struct json *j = &w->was->json;
	struct buf body;

	if (w->was->status != 404 &&
		!json_is_str(j,
			json_get(j, json_path(j, json_root(j), "metadata", "labels", NULL),
				SLICE(CERT_KEEPER_LABEL)),
			SLICE(LABEL_VALUE)))
		return err_set(err, ERR_REFUSED,
			"Secret %s/%s is somebody else's: it does not carry the label "
			"" CERT_KEEPER_LABEL "=" LABEL_VALUE
			"; delete it, or label it when poolgate may replace it",
			k->cfg.namespace, w->name);
	buf_init(&body, BODY_MAX_BYTES);
	write_body(k, w, &body);
	return secret_put(k->cfg.kube, k->cfg.namespace, w->name, w->was, &body, err);
}

static struct slice time_text(int64_t at, char text[static 32])
{
	if (at <= 0)
		return (struct slice){NULL, 0};
	rfc3339_write(at * 1000, text);
	return slice_of(text);
}

int cert_write_ca(const struct cert_keeper *k, const struct cert_view *v, struct err *err)
{
	char published[32], switched[32];
	struct secret_write w = {.name = k->cfg.ca_secret,
		.type = "Opaque",
		.was = &v->ca,
		.data = {{"ca.crt", buf_as_slice(&v->signing.pair.cert)},
			{"ca.key", buf_as_slice(&v->signing.pair.key)},
			{"next.crt", buf_as_slice(&v->next.pair.cert)},
			{"next.key", buf_as_slice(&v->next.pair.key)},
			{"old.crt", buf_as_slice(&v->old.pair.cert)}},
		.notes = {{KEEPER_PUBLISHED_AT, time_text(v->published_at, published)},
			{KEEPER_SWITCHED_AT, time_text(v->switched_at, switched)}}};

	return write_secret(k, &w, err);
}

int cert_write_serving(const struct cert_keeper *k, const struct cert_view *v,
	const struct x509_pair *pair, struct err *err)
{
	struct secret_write w = {.name = k->cfg.tls_secret,
		.type = "kubernetes.io/tls",
		.was = &v->tls,
		.data = {{"tls.crt", buf_as_slice(&pair->cert)},
			{"tls.key", buf_as_slice(&pair->key)}}};

	return write_secret(k, &w, err);
}

/* ---- bundles ---- */

/* A JSON patch on every hook, on condition that nobody has changed the configuration since it was
 * read. */
static void write_patch(const struct kube_answer *configuration, const struct buf *bundle,
	struct buf *out, size_t *ret_hooks)
{
	const struct json *j = &configuration->json;
	const struct json_node *root = json_root(j);

	*ret_hooks = 0;
	buf_str(out, "[{\"op\":\"test\",\"path\":\"/metadata/resourceVersion\",\"value\":");
	buf_json_str(out, kube_meta(j, root).version);
	buf_char(out, '}');
	JSON_EACH(j, json_get(j, root, SLICE("webhooks")), hook)
	{
		buf_fmt(out,
			",{\"op\":\"add\",\"path\":\"/webhooks/%zu/clientConfig/caBundle\","
			"\"value\":\"",
			(*ret_hooks)++);
		buf_base64(out, bundle->data, bundle->len);
		buf_str(out, "\"}");
	}
	buf_char(out, ']');
}

static int publish_in(const struct cert_keeper *k, const struct cert_view *v, size_t i,
	const struct buf *bundle, struct err *err)
{
	struct buf body;
	const struct kube_call call = {.method = "PATCH",
		.at = cert_configuration(k, i),
		.content_type = KUBE_JSON_PATCH,
		.text = &body};
	size_t hooks;
	int rc = 0;

	buf_init(&body, BODY_MAX_BYTES);
	write_patch(&v->hooks[i], bundle, &body, &hooks);
	if (hooks > 0)
		rc = kube_do(k->cfg.kube, &call, NULL, err);
	buf_release(&body);
	return rc;
}

int cert_publish(const struct cert_keeper *k, const struct cert_view *v,
	const struct keeper_ca *const cas[], size_t n, struct err *err)
{
	struct buf bundle;
	int rc = 0;

	buf_init(&bundle, CERTS_FILE_MAX);
	for (size_t i = 0; i < n; i++)
		if (keeper_has(cas[i]))
			buf_slice(&bundle, buf_as_slice(&cas[i]->pair.cert));
	if (bundle.failed)
		rc = err_set(err, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < KEEPER_CONFIGURATIONS && rc == 0; i++)
		if (v->hooks[i].status != 404)
			rc = publish_in(k, v, i, &bundle, err);
	buf_release(&bundle);
	return rc;
}
