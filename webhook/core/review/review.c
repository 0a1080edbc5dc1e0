/* SPDX-License-Identifier: Apache-2.0 */
/* core: decode an AdmissionReview, encode its answer. */
#include "webhook/core/review/review.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/text.h"
#include "base/utf8.h"

static int want(const struct json *j, const struct json_node *v, enum json_type type,
	const char *where, const char *what, struct err *err)
{
	if (json_is(v, type))
		return 0;
	err_set(err, ERR_SYNTAX, "found %s, expected %s", json_type_name(v), what);
	(void)j;
	return err_in(err, "%s", where);
}

/* A member that may be absent or null, else must be a string: "" when absent. */
static int optional_str(const struct json *j, const struct json_node *obj, const char *key,
	struct arena *a, struct slice *ret, struct err *err)
{
	const struct json_node *v = json_get(j, obj, slice_of(key));

	*ret = SLICE("");
	if (json_absent(v))
		return 0;
	if (want(j, v, JSON_STRING, key, "a string", err) < 0)
		return err->code;
	*ret = json_str(j, v, a);
	return ret->at ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

static int read_operation(struct slice s, enum operation *ret, struct err *err)
{
	static const char *const names[] = {"CREATE", "UPDATE", "DELETE", "CONNECT"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (slice_is(s, names[i])) {
			*ret = (enum operation)i;
			return 0;
		}
	err_set(err, ERR_SYNTAX, "found \"%.*s\", expected CREATE, UPDATE, DELETE or CONNECT",
		(int)(s.len > 40 ? 40 : s.len), s.at ? s.at : "");
	return err_in(err, "request/operation");
}

static int read_header(const struct json *j, bool *ret_v1beta1, struct err *err)
{
	const struct json_node *root = json_root(j), *api, *kind;

	if (!json_is(root, JSON_OBJECT))
		return err_set(err, ERR_SYNTAX, "found %s, expected an AdmissionReview object",
			json_type_name(root));
	kind = json_get(j, root, SLICE("kind"));
	if (!json_is_str(j, kind, SLICE("AdmissionReview"))) {
		struct slice found = json_is(kind, JSON_STRING) ? json_raw(j, kind)
								: slice_of(json_type_name(kind));

		err_set(err, ERR_SYNTAX, "found %.*s, expected kind \"AdmissionReview\"",
			(int)text_utf8_cut(found, 60), found.at);
		return err_in(err, "kind");
	}
	api = json_get(j, root, SLICE("apiVersion"));
	*ret_v1beta1 = json_is_str(j, api, SLICE("admission.k8s.io/v1beta1"));
	if (!*ret_v1beta1 && !json_is_str(j, api, SLICE("admission.k8s.io/v1"))) {
		struct slice found = json_raw(j, api);

		err_set(err, ERR_SYNTAX,
			"found %.*s, expected admission.k8s.io/v1 or admission.k8s.io/v1beta1",
			found.at ? (int)(found.len > 60 ? 60 : found.len) : 7,
			found.at ? found.at : "nothing");
		return err_in(err, "apiVersion");
	}
	return 0;
}

static int read_kind(const struct json *j, const struct json_node *req, struct arena *a,
	struct review *r, struct err *err)
{
	const struct json_node *kind = json_get(j, req, SLICE("kind"));
	const struct json_node *resource = json_get(j, req, SLICE("resource"));

	if (want(j, kind, JSON_OBJECT, "kind", "an object with group, version and kind", err) < 0)
		return err->code;
	if (optional_str(j, kind, "group", a, &r->group, err) < 0 ||
		optional_str(j, kind, "version", a, &r->version, err) < 0 ||
		optional_str(j, kind, "kind", a, &r->kind, err) < 0)
		return err_in(err, "kind");
	if (!json_absent(resource) && !json_is(resource, JSON_OBJECT))
		return want(j, resource, JSON_OBJECT, "resource", "an object", err);
	if (optional_str(j, resource, "resource", a, &r->resource, err) < 0)
		return err_in(err, "resource");
	return optional_str(j, req, "subResource", a, &r->subresource, err);
}

static int read_object(const struct json *j, const struct json_node *req, const char *key,
	const struct json_node **ret, struct err *err)
{
	const struct json_node *v = json_get(j, req, slice_of(key));

	*ret = NULL;
	if (json_absent(v))
		return 0;
	if (want(j, v, JSON_OBJECT, key, "an object or null", err) < 0)
		return err->code;
	*ret = v;
	return 0;
}

static int read_request(const struct json *j, const struct json_node *req, struct arena *a,
	struct review *r, struct err *err)
{
	const struct json_node *dry = json_get(j, req, SLICE("dryRun"));
	const struct json_node *options = json_get(j, req, SLICE("options"));
	struct slice op;
	int64_t grace;

	if (optional_str(j, req, "uid", a, &r->uid, err) < 0)
		return err->code;
	if (r->uid.len == 0) {
		err_set(err, ERR_SYNTAX,
			"found nothing, expected the request's uid, which the answer must echo");
		return err_in(err, "uid");
	}
	if (read_kind(j, req, a, r, err) < 0 ||
		optional_str(j, req, "name", a, &r->name, err) < 0 ||
		optional_str(j, req, "namespace", a, &r->namespace, err) < 0 ||
		optional_str(j, req, "operation", a, &op, err) < 0 ||
		read_object(j, req, "object", &r->object, err) < 0 ||
		read_object(j, req, "oldObject", &r->old_object, err) < 0)
		return err->code;
	if (!json_absent(dry) && !json_is(dry, JSON_TRUE) && !json_is(dry, JSON_FALSE)) {
		err_set(err, ERR_SYNTAX, "found %s, expected true or false", json_type_name(dry));
		return err_in(err, "dryRun");
	}
	r->dry_run = json_is(dry, JSON_TRUE);
	r->graceless = json_int(j, json_get(j, options, SLICE("gracePeriodSeconds")), &grace) &&
		       grace == 0;
	return read_operation(op, &r->operation, err);
}

int review_read(const struct json *j, struct arena *a, struct review *ret, struct err *err)
{
	struct review r = {.j = j};
	const struct json_node *req;

	if (read_header(j, &r.v1beta1, err) < 0)
		return err->code;
	req = json_get(j, json_root(j), SLICE("request"));
	if (want(j, req, JSON_OBJECT, "request", "an object: this is no review that asks something",
		    err) < 0)
		return err->code;
	if (read_request(j, req, a, &r, err) < 0) {
		if (strncmp(err->path, "/request", 8) != 0)
			err_in(err, "request");
		return err->code;
	}
	if (r.namespace.len == 0) {
		/* API servers before 1.24 leave it out of the object, not out of the request;
		 * offline tools do the opposite. */
		const struct json_node *o = r.object ? r.object : r.old_object;
		const struct json_node *ns = json_path(j, o, "metadata", "namespace", NULL);

		if (json_is(ns, JSON_STRING))
			r.namespace = json_str(j, ns, a);
	}
	if (a->failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	*ret = r;
	return 0;
}

bool review_is_pod(const struct review *r, const char *subresource)
{
	return r->group.len == 0 && slice_is(r->kind, "Pod") &&
	       slice_is(r->subresource, subresource) &&
	       (r->resource.len == 0 || slice_is(r->resource, "pods"));
}

/* Where a text that is too long ends, before "...": behind a word where one ends near the limit,
 * since half a number or name says something else. */
static size_t cut_length(struct slice s)
{
	size_t cut = text_utf8_cut(s, WARNING_MAX - 3), blank = cut;

	while (blank > WARNING_MAX / 2 && s.at[blank] != ' ')
		blank--;
	return blank > WARNING_MAX / 2 ? blank : cut;
}

void warn_add(struct warnings *w, struct arena *a, const char *fmt, ...)
{
	char text[512];
	struct slice s = {text, 0};
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	/* the API server drops a warning that holds control characters (apimachinery pkg/util/net
	 * NewWarningHeader) */
	s.len = utf8_clean(text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
	if (s.len > WARNING_MAX) {
		s.len = cut_length(s);
		memcpy(text + s.len, "...", 3);
		s.len += 3;
	}
	for (size_t i = 0; i < w->n; i++)
		if (slice_eq(w->text[i], s))
			return;
	s = w->n < WARNINGS_MAX ? arena_slice(a, s) : (struct slice){0};
	if (s.at)
		w->text[w->n++] = s;
	else
		w->dropped++;
}

void warn_add_long(struct warnings *w, struct arena *a, struct slice text)
{
	const char *lead = "";

	while (text.len > 0) {
		size_t room = WARNING_MAX - strlen(lead), n = text.len;

		if (n > room) {
			n = room;
			while (n > 0 && text.at[n] != ' ')
				n--;
			/* one endless word */
			if (n == 0)
				n = text_utf8_cut(text, room);
		}
		warn_add(w, a, "%s%.*s", lead, (int)n, text.at);
		while (n < text.len && text.at[n] == ' ')
			n++;
		text = (struct slice){text.at + n, text.len - n};
		lead = "... ";
	}
}

static void write_status(const struct answer *ans, struct buf *out)
{
	buf_str(out, ",\"status\":{\"metadata\":{},\"status\":\"Failure\",\"message\":");
	buf_json_str(out, ans->message);
	buf_str(out, ",\"reason\":");
	buf_json_str(out, slice_of(ans->reason));
	buf_str(out, ",\"code\":");
	buf_i64(out, ans->code);
	buf_char(out, '}');
}

static void write_audit(const char *key, struct slice value, const char **lead, struct buf *out)
{
	if (!value.at)
		return;
	buf_str(out, *lead);
	buf_str(out, key);
	buf_json_str(out, value);
	*lead = ",";
}

/* The keys become NAME-OF-THE-HOOK/KEY in the audit log. */
static void write_audits(const struct answer *ans, struct buf *out)
{
	const char *lead = ",\"auditAnnotations\":{";

	write_audit("\"plan\":", ans->audit_plan, &lead, out);
	write_audit("\"claim\":", ans->audit_claim, &lead, out);
	if (!ans->allowed)
		write_audit("\"reason\":", slice_of(ans->reason), &lead, out);
	if (lead[1] == '\0')
		buf_char(out, '}');
}

void review_write(const struct review *r, const struct answer *ans, struct buf *out)
{
	buf_str(out, "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/");
	buf_str(out, r->v1beta1 ? "v1beta1" : "v1");
	buf_str(out, "\",\"response\":{\"uid\":");
	buf_json_str(out, r->uid);
	buf_str(out, ans->allowed ? ",\"allowed\":true" : ",\"allowed\":false");
	if (!ans->allowed)
		write_status(ans, out);
	if (ans->allowed && ans->patch.len > 0) {
		buf_str(out, ",\"patch\":\"");
		buf_base64(out, ans->patch.at, ans->patch.len);
		buf_str(out, "\",\"patchType\":\"JSONPatch\"");
	}
	if (ans->warnings && ans->warnings->n > 0) {
		buf_str(out, ",\"warnings\":[");
		for (size_t i = 0; i < ans->warnings->n; i++) {
			if (i > 0)
				buf_char(out, ',');
			buf_json_str(out, ans->warnings->text[i]);
		}
		buf_char(out, ']');
	}
	write_audits(ans, out);
	buf_str(out, "}}");
}

void answer_refuse(struct answer *ans, const struct err *err, struct arena *a)
{
	const char *text = err->path[0] ? arena_fmt(a, "%s: %s", err->path, err->msg)
					: arena_fmt(a, "%s", err->msg);
	const char *reason = err->reason[0] ? arena_strdup(a, slice_of(err->reason)) : NULL;

	ans->allowed = false;
	/* what the API server says of a name that is taken: who creates with generateName tries
	 * another by this code and reason */
	ans->code = err->code == ERR_INVALID                    ? 422
		    : strcmp(err->reason, "AlreadyExists") == 0 ? 409
								: 403;
	ans->reason = reason ? reason : err->code == ERR_INVALID ? "Invalid" : "Forbidden";
	ans->message = text ? slice_of(text) : SLICE("refused; no memory was left to say why");
	ans->patch = (struct slice){0};
	ans->audit_claim = (struct slice){0};
}

void answer_plan(struct answer *ans, uint64_t plan_hash, struct arena *a)
{
	char text[16];

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = "0123456789abcdef"[plan_hash >> (60 - 4 * i) & 15];
	ans->audit_plan = arena_slice(a, (struct slice){text, sizeof(text)});
}

/* Room for " and 18446744073709551615 more". */
#define AUDIT_REST 32

void answer_claim(
	struct answer *ans, const struct claim_part *parts, size_t n_parts, struct arena *a)
{
	char text[AUDIT_MAX];
	size_t len = 0;

	for (size_t i = 0; i < n_parts; i++) {
		size_t room = sizeof(text) - AUDIT_REST - len;
		int n = snprintf(text + len, room, "%s%s/%s=%llu", i ? " " : "", parts[i].server,
			parts[i].gpu, (unsigned long long)parts[i].bytes);

		if (n < 0 || (size_t)n >= room) {
			n = snprintf(text + len, AUDIT_REST, "%sand %zu more", i ? " " : "",
				n_parts - i);
			len += n > 0 ? (size_t)n : 0;
			break;
		}
		len += (size_t)n;
	}
	ans->audit_claim = arena_slice(a, (struct slice){text, len});
}
