/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the namespaces that hold copies of the client's Secrets, in a ConfigMap that outlives
 * the leader: data.namespaces, their names with blanks between. */
#include "base/text.h"
#include "webhook/cluster/secrets/secret_sync_impl.h"

#define RECORD_MAX ((size_t)1 << 20)
#define TRIES 3
#define NAME_MAX_BYTES 63

static bool record_path(const struct secret_sync_config *cfg, struct buf *out)
{
	kube_path(out, "/api/v1", cfg->namespace, "configmaps", SECRET_SYNC_RECORD, NULL);
	return !out->failed;
}

static int get(const struct secret_sync_config *cfg, struct kube_answer *ret, struct err *err)
{
	struct buf path;
	int rc;

	*ret = (struct kube_answer){0};
	buf_init(&path, SECRET_PATH_MAX);
	rc = record_path(cfg, &path) ? kube_get(cfg->kube, path.data, 0, ret, err)
				     : err_set(err, ERR_NOMEM, "out of memory");
	buf_release(&path);
	return rc;
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
	struct buf path, body;
	int rc = get(cfg, &a, err);

	buf_init(&path, SECRET_PATH_MAX);
	buf_init(&body, RECORD_MAX);
	if (rc == 0 && change(&a, name, add, &body)) {
		struct kube_call call = {.method = "PUT", .body = buf_as_slice(&body)};

		if (!record_path(cfg, &path))
			rc = err_set(err, ERR_NOMEM, "out of memory");
		else if (body.failed)
			rc = body.full
				     ? err_set(err, ERR_TOOBIG, "the record of namespaces is full")
				     : err_set(err, ERR_NOMEM, "out of memory");
		call.path = path.data;
		if (rc == 0)
			rc = kube_do(cfg->kube, &call, NULL, err);
	}
	buf_release(&path);
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
