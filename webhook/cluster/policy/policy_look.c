/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the picture of policies and of namespaces, and what it says. */
#include "webhook/cluster/policy/policy_look.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "kube/kube_watch.h"
#include "webhook/cluster/policy/policy_known.h"

#define POLICIES "/apis/poolgate.io/v1alpha1/gpupolicies"
#define NAMESPACES "/api/v1/namespaces"
/* A policy as it is kept: its spec, with the longest lists that it may have. */
#define TEXT_MAX (256u * 1024)
#define NODES_MAX 20000
#define SCRATCH_MAX (1u << 20)
/* For one object; most of a review's time is left for it. */
#define GET_MAX_MS 1000

/* Objects of one kind: what is known of them, and where and how they are asked for. */
struct kind {
	struct policy_look *look;
	const char *api, *plural;
	/* *ret malloc'ed; NULL: nothing. ERR_NOMEM. */
	int (*read)(const struct json *j, const struct json_node *object, char **ret);
	struct known known; /* guarded by the lock */
	struct kube_watch *watch;
};

struct policy_look {
	struct policy_look_config cfg;
	pthread_mutex_t lock;
	struct kind policies;   /* their texts; none: there has been no right one */
	struct kind namespaces; /* their labels, which name what they pick; none: no label */
};

/* ---- what the watches tell ---- */

/* What is needed of a policy; a managedFields may be ten times as long. */
static char *text_of(
	const struct json *j, const struct json_node *object, const char *name, bool *full)
{
	struct buf out;
	char *text;
	size_t len;

	buf_init(&out, TEXT_MAX);
	buf_str(&out, "{\"apiVersion\":\"" POLICY_API "\",\"kind\":\"" POLICY_KIND
		      "\",\"metadata\":{\"name\":");
	buf_json_str(&out, slice_of(name));
	buf_str(&out, "},\"spec\":");
	buf_slice(&out, json_raw(j, json_get(j, object, SLICE("spec"))));
	buf_char(&out, '}');
	*full = out.full;
	text = buf_take(&out, &len);
	buf_release(&out);
	return text;
}

/* The text of a policy that is right, malloc'ed; NULL and err: it is not, or it is longer than is
 * kept (ERR_TOOBIG), or there is no memory. */
static char *right_text(const struct json *j, const struct json_node *object, struct err *err)
{
	struct policy p;
	struct arena a;
	char *text = NULL;
	bool full = false;

	arena_init(&a, SCRATCH_MAX);
	if (policy_read(j, object, &a, &p, err) == 0) {
		text = text_of(j, object, p.name, &full);
		if (!text)
			(void)err_set(err, ERR_NOMEM, "out of memory");
	}
	if (full || a.full)
		(void)err_set(err, ERR_TOOBIG, "it is longer than is kept");
	arena_release(&a);
	return text;
}

/* None of one that is wrong. Of one that is too long nobody knows. */
static int read_policy(const struct json *j, const struct json_node *object, char **ret)
{
	struct err err = {0};

	*ret = right_text(j, object, &err);
	return err.code == ERR_NOMEM || err.code == ERR_TOOBIG ? ERR_NOMEM : 0;
}

static bool on_policy(
	void *ctx, enum kube_change what, const struct json *j, const struct json_node *object)
{
	struct kind *k = ctx;
	struct policy_look *l = k->look;
	struct slice name = kube_meta(j, object).name;
	struct err err = {0};
	char *text = what == KUBE_PUT ? right_text(j, object, &err) : NULL;

	(void)pthread_mutex_lock(&l->lock);
	if (what == KUBE_GONE)
		known_drop(&k->known, name);
	else if (what == KUBE_PUT)
		known_put(&k->known, name, text, text != NULL);
	(void)pthread_mutex_unlock(&l->lock);
	if (err.code)
		log_line(l->cfg.log, LOG_LEVEL_ERROR,
			"a GPUPolicy cannot be read; what it said when it was last right counts",
			log_slice("policy", name), log_str("path", err.path),
			log_str("error", err.msg));
	return err.code != ERR_NOMEM;
}

/* *ret: malloc'ed; NULL: it has no such label. One that is empty picks none, and is a label that
 * the picture shows. ERR_NOMEM, which is no answer. */
static int picked_by(const struct json *j, const struct json_node *object, char **ret)
{
	const struct json_node *label =
		json_path(j, object, "metadata", "labels", LABEL_POLICY, NULL);
	struct slice s = json_inside(j, label);

	*ret = label ? strndup(s.at ? s.at : "", s.len) : NULL;
	return label && !*ret ? ERR_NOMEM : 0;
}

static bool on_namespace(
	void *ctx, enum kube_change what, const struct json *j, const struct json_node *object)
{
	struct kind *k = ctx;
	struct slice name = kube_meta(j, object).name;
	char *picks = NULL;
	/* Of one that there was no memory for nothing is known: whoever needs it asks. */
	bool gone = what == KUBE_GONE || (what == KUBE_PUT && picked_by(j, object, &picks) != 0);

	(void)pthread_mutex_lock(&k->look->lock);
	if (gone)
		known_drop(&k->known, name);
	else if (what == KUBE_PUT)
		known_put(&k->known, name, picks, true);
	(void)pthread_mutex_unlock(&k->look->lock);
	return true;
}

static void on_listing(void *ctx)
{
	struct kind *k = ctx;

	(void)pthread_mutex_lock(&k->look->lock);
	known_listing(&k->known);
	(void)pthread_mutex_unlock(&k->look->lock);
}

static void on_listed(void *ctx, const char *version)
{
	struct kind *k = ctx;

	(void)version;
	(void)pthread_mutex_lock(&k->look->lock);
	known_listed(&k->known);
	(void)pthread_mutex_unlock(&k->look->lock);
}

struct policy_look *policy_look_new(const struct policy_look_config *cfg, struct err *err)
{
	struct policy_look *l = calloc(1, sizeof(*l));

	if (!l) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	l->cfg = *cfg;
	l->policies = (struct kind){.look = l,
		.api = "/apis/" POLICY_API,
		.plural = "gpupolicies",
		.read = read_policy};
	l->namespaces = (struct kind){
		.look = l, .api = "/api/v1", .plural = "namespaces", .read = picked_by};
	(void)pthread_mutex_init(&l->lock, NULL);
	return l;
}

int policy_look_start(struct policy_look *l, struct err *err)
{
	struct kube_watch_app app = {.ctx = &l->policies,
		.listing = on_listing,
		.change = on_policy,
		.listed = on_listed};

	l->policies.watch = kube_watch_start(l->cfg.kube, POLICIES, &app, l->cfg.log, err);
	if (!l->policies.watch)
		return err->code;
	app.ctx = &l->namespaces;
	app.change = on_namespace;
	l->namespaces.watch = kube_watch_start(l->cfg.kube, NAMESPACES, &app, l->cfg.log, err);
	return l->namespaces.watch ? 0 : (int)err->code;
}

void policy_look_free(struct policy_look *l)
{
	if (!l)
		return;
	kube_watch_stop(l->policies.watch);
	kube_watch_stop(l->namespaces.watch);
	known_release(&l->policies.known);
	known_release(&l->namespaces.known);
	(void)pthread_mutex_destroy(&l->lock);
	free(l);
}

bool policy_look_synced(struct policy_look *l)
{
	bool yes;

	(void)pthread_mutex_lock(&l->lock);
	yes = l->policies.known.whole && l->namespaces.known.whole;
	(void)pthread_mutex_unlock(&l->lock);
	return yes;
}

/* ---- what is asked ---- */

enum answer { UNKNOWN, NOTHING, FOUND };

/* A copy of what the picture says. UNKNOWN, too, where no list has been read. */
static enum answer picture(
	const struct kind *kind, struct slice name, struct arena *a, struct slice *ret)
{
	const struct known_entry *e;
	enum answer found = UNKNOWN;

	(void)pthread_mutex_lock(&kind->look->lock);
	e = known_find(&kind->known, name);
	if (e)
		found = e->text ? FOUND : NOTHING;
	if (found == FOUND)
		*ret = arena_slice(a, slice_of(e->text));
	(void)pthread_mutex_unlock(&kind->look->lock);
	return found;
}

/* Ask for one object. 0 with *ret NULL: it is not there. The text is malloc'ed. */
static int ask(
	const struct kind *kind, const char *name, int64_t deadline_ms, char **ret, struct err *err)
{
	int64_t left = deadline_ms - clock_ms();
	struct kube_answer got;
	struct err why = {0};
	int rc;

	*ret = NULL;
	if (!name)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (deadline_ms == 0 || left <= 0)
		return err_set(err, ERR_TIMEOUT, "nobody knows %s %s yet", kind->plural, name);
	rc = kube_get_at(kind->look->cfg.kube,
		(struct kube_place){kind->api, NULL, kind->plural, name, NULL},
		left < GET_MAX_MS ? left : GET_MAX_MS, &got, &why);
	if (rc == 0)
		rc = kind->read(&got.json, json_root(&got.json), ret);
	kube_answer_release(&got);
	if (rc == 0 || kube_says_gone(rc, &why))
		return 0;
	return rc == ERR_NOMEM ? err_set(err, ERR_NOMEM, "out of memory")
			       : err_set(err, ERR_TIMEOUT, "%s", why.msg);
}

/* What the picture says of the name, or else the API server; absent: nothing. behind: where the
 * picture says that there is nothing, it is behind. */
static int find(const struct kind *kind, struct slice name, bool behind, int64_t deadline_ms,
	struct arena *a, struct slice *ret, struct err *err)
{
	enum answer seen;
	char *text;

	*ret = (struct slice){0};
	seen = picture(kind, name, a, ret);
	if (seen == FOUND || (seen == NOTHING && !behind))
		return 0;
	if (ask(kind, arena_strdup(a, name), deadline_ms, &text, err) != 0)
		return err->code;
	if (text)
		*ret = arena_slice(a, slice_of(text));
	free(text);
	return 0;
}

static int read_text(struct slice text, struct arena *a, const struct policy **ret, struct err *err)
{
	struct policy *p = arena_alloc(a, sizeof(*p));
	struct json j;
	char *copy;
	int rc;

	if (!p)
		return err_set(err, ERR_NOMEM, "out of memory");
	json_init(&j);
	rc = json_read_copy(&j, text.at, text.len, NODES_MAX, &copy, err);
	if (rc == 0)
		rc = policy_read(&j, json_root(&j), a, p, err);
	json_release(&j);
	free(copy);
	if (rc == 0)
		*ret = p;
	/* it was right before: only memory can have come between */
	return rc == 0 ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

int policy_look_of(struct policy_look *l, struct slice namespace, bool picks, int64_t deadline_ms,
	struct arena *a, const struct policy **ret, struct err *err)
{
	struct slice name, text;

	*ret = NULL;
	if (find(&l->namespaces, namespace, picks, deadline_ms, a, &name, err) != 0)
		return err->code;
	if (a->failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (!name.len)
		return l->cfg.required ? policy_required(err) : 0;
	if (find(&l->policies, name, false, deadline_ms, a, &text, err) != 0)
		return err->code;
	if (a->failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	return text.len ? read_text(text, a, ret, err) : policy_missing(arena_strdup(a, name), err);
}

struct slice policy_look_named(struct policy_look *l, struct slice namespace, struct arena *a)
{
	struct slice name = {0};

	(void)picture(&l->namespaces, namespace, a, &name);
	return name;
}
