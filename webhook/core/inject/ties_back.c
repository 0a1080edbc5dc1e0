/* SPDX-License-Identifier: Apache-2.0 */
/* core: give ties to GPU nodes back, and take those of one plan out again. */
#include <stdlib.h>

#include "webhook/core/inject/ties.h"
#include "webhook/core/pod/rendered.h"
#include "webhook/core/review/review.h"

static const struct slice whole = {0};

#define LABELS "nvidia.com/"
/* Of tolerations, and of selected labels, that may be ours in an update; who writes more has his
 * manifest as he wrote it. */
#define TIES_LOOKED_AT 64

static int no_memory(struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory");
}

/* ---- give back ---- */

static int give_selector(const struct pod *p, struct slice members, struct arena *a,
	struct patch *patch, struct err *err)
{
	struct json j = {0};
	char *copy = NULL;
	int rc;

	if (!members.at)
		return 0;
	if (!json_is(json_get(p->j, p->spec, SLICE("nodeSelector")), JSON_OBJECT)) {
		patch_add(patch, "/spec/nodeSelector", whole, members);
		return 0;
	}
	rc = json_read_copy(&j, members.at, members.len, REVIEW_NODES_MAX, &copy, err);
	JSON_MEMBERS(&j, json_root(&j), k)
	patch_add(patch, "/spec/nodeSelector", json_str(&j, k, a), json_raw(&j, json_value(k)));
	json_release(&j);
	free(copy);
	return rc;
}

/* Each at its place of before, as far as there are so many now. */
static void give_tolerations(const struct pod *p, const struct plan_ties *ties, struct patch *patch)
{
	const struct json_node *here = json_get(p->j, p->spec, SLICE("tolerations"));
	size_t n = json_is(here, JSON_ARRAY) ? here->count : 0;

	if (ties->n_tolerations > 0 && !json_is(here, JSON_ARRAY))
		patch_add(patch, "/spec/tolerations", whole, SLICE("[]"));
	for (size_t i = 0; i < ties->n_tolerations; i++, n++) {
		size_t at = ties->tolerations[i].at;

		patch_add_at(
			patch, "/spec/tolerations", at < n ? at : n, ties->tolerations[i].json);
	}
}

int ties_give_back(const struct pod *p, const struct plan_ties *ties, struct arena *a,
	struct patch *patch, struct err *err)
{
	if (give_selector(p, ties->node_selector, a, patch, err) < 0)
		return err->code;
	give_tolerations(p, ties, patch);
	if (ties->node_affinity.at &&
		!json_is(json_get(p->j, p->spec, SLICE("affinity")), JSON_OBJECT))
		patch_add(patch, "/spec/affinity", whole, SLICE("{}"));
	if (ties->node_affinity.at)
		patch_add(patch, "/spec/affinity", SLICE("nodeAffinity"), ties->node_affinity);
	if (ties->runtime_class.at)
		patch_add(patch, "/spec", SLICE("runtimeClassName"), ties->runtime_class);
	if (ties->overhead.at)
		patch_add(patch, "/spec", SLICE("overhead"), ties->overhead);
	return 0;
}

/* ---- take again ---- */

/* What the steps below share. */
struct again {
	const struct pod *now, *live;
	struct arena *a;
	struct patch *patch;
};

/* Does the node say what the text says, and nothing else, whatever the API server has made of its
 * spelling? */
static bool same(
	const struct again *g, struct slice was, const struct json *j, const struct json_node *node)
{
	struct json mine = {0};
	char *copy = NULL;
	bool ret;

	if (!rendered_there(was, j, node, g->a))
		return false;
	if (json_read_copy(&mine, was.at, was.len, REVIEW_NODES_MAX, &copy, NULL) < 0)
		g->a->failed = true;
	ret = rendered_there(json_raw(j, node), &mine, json_root(&mine), g->a);
	json_release(&mine);
	free(copy);
	return ret;
}

/* A member of spec as it was taken, which the live pod has not: away with it. */
static void retake_member(struct again *g, const char *key, struct slice was)
{
	const struct json_node *here = json_get(g->now->j, g->now->spec, slice_of(key));

	if (!was.at || !here || !json_absent(json_get(g->live->j, g->live->spec, slice_of(key))))
		return;
	if (json_is(here, JSON_OBJECT) ? same(g, was, g->now->j, here)
				       : slice_eq(json_raw(g->now->j, here), was))
		patch_remove(g->patch, "/spec", slice_of(key));
}

/* All n members or elements went, and the live pod has no such thing at all. */
static void drop_empty(struct again *g, const char *key, const struct json_node *here, size_t n)
{
	if (n > 0 && n == here->count &&
		json_absent(json_get(g->live->j, g->live->spec, slice_of(key))))
		patch_remove(g->patch, "/spec", slice_of(key));
}

/* What of a pod may have been taken, by what keys begin with: whoever updates a pod, or writes a
 * plan, may send very many. */
struct likely {
	const struct json_node *at[TIES_LOOKED_AT]; /* a toleration; a member's key */
	uint32_t index[TIES_LOOKED_AT];             /* among all tolerations */
	size_t n;
	bool more;
};

static void note_likely(struct likely *l, const struct again *g, const struct json *j,
	const struct json_node *key, const struct json_node *at, uint32_t index)
{
	struct slice text = json_str(j, key, g->a);

	if (!text.at || !slice_starts(text, SLICE(LABELS)))
		return;
	l->more = l->more || l->n == TIES_LOOKED_AT;
	if (l->more)
		return;
	l->at[l->n] = at;
	l->index[l->n++] = index;
}

static struct likely likely_members(const struct again *g, const struct pod *p)
{
	struct likely ret = {.n = 0};

	JSON_MEMBERS(p->j, json_get(p->j, p->spec, SLICE("nodeSelector")), k)
	note_likely(&ret, g, p->j, k, k, 0);
	return ret;
}

static struct likely likely_tolerations(const struct again *g, const struct pod *p)
{
	struct likely ret = {.n = 0};
	uint32_t i = 0;

	JSON_EACH(p->j, json_get(p->j, p->spec, SLICE("tolerations")), e)
	note_likely(&ret, g, p->j, json_get(p->j, e, SLICE("key")), e, i++);
	return ret;
}

static bool has_key(const struct again *g, const struct likely *live, struct slice key)
{
	for (size_t i = 0; i < live->n; i++)
		if (slice_eq(json_str(g->live->j, live->at[i], g->a), key))
			return true;
	return false;
}

static int retake_selector(struct again *g, struct slice members, struct err *err)
{
	const struct json_node *here = json_get(g->now->j, g->now->spec, SLICE("nodeSelector"));
	const struct likely now = likely_members(g, g->now), live = likely_members(g, g->live);
	struct json j = {0};
	char *copy = NULL;
	size_t n = 0;
	int rc;

	if (!members.at || now.more || live.more)
		return 0;
	rc = json_read_copy(&j, members.at, members.len, REVIEW_NODES_MAX, &copy, err);
	for (size_t i = 0; rc == 0 && i < now.n; i++) {
		struct slice key = json_str(g->now->j, now.at[i], g->a);
		struct slice was = json_str(&j, json_get(&j, json_root(&j), key), g->a);

		if (!was.at || !json_is_str(g->now->j, json_value(now.at[i]), was) ||
			has_key(g, &live, key))
			continue;
		patch_remove(g->patch, "/spec/nodeSelector", key);
		n++;
	}
	drop_empty(g, "nodeSelector", here, n);
	json_release(&j);
	free(copy);
	return rc;
}

/* Is it like one of those that were taken, and like none that the live pod has? */
static bool was_taken(const struct again *g, const struct plan_ties *ties,
	const struct likely *live, const struct json_node *toleration)
{
	for (size_t i = 0; i < live->n; i++)
		if (same(g, json_raw(g->now->j, toleration), g->live->j, live->at[i]))
			return false;
	for (size_t i = 0; i < ties->n_tolerations; i++)
		if (same(g, ties->tolerations[i].json, g->now->j, toleration))
			return true;
	return false;
}

static void retake_tolerations(struct again *g, const struct plan_ties *ties)
{
	const struct json_node *here = json_get(g->now->j, g->now->spec, SLICE("tolerations"));
	const struct likely now = likely_tolerations(g, g->now),
			    live = likely_tolerations(g, g->live);
	size_t n = 0;

	if (ties->n_tolerations == 0 || now.more || live.more)
		return;
	for (size_t i = 0; i < now.n; i++)
		if (was_taken(g, ties, &live, now.at[i]))
			patch_remove_at(g->patch, "/spec/tolerations", now.index[i] - n++, whole);
	drop_empty(g, "tolerations", here, n);
}

static void retake_affinity(struct again *g, struct slice was)
{
	const struct json_node *all = json_get(g->now->j, g->now->spec, SLICE("affinity"));
	const struct json_node *here = json_get(g->now->j, all, SLICE("nodeAffinity"));
	const struct json_node *live =
		json_path(g->live->j, g->live->spec, "affinity", "nodeAffinity", NULL);

	if (!was.at || !here || !same(g, was, g->now->j, here))
		return;
	if (!json_absent(live))
		patch_add(g->patch, "/spec/affinity", SLICE("nodeAffinity"),
			json_raw(g->live->j, live));
	else if (all->count == 1 &&
		 json_absent(json_get(g->live->j, g->live->spec, SLICE("affinity"))))
		patch_remove(g->patch, "/spec/affinity", whole);
	else
		patch_remove(g->patch, "/spec/affinity", SLICE("nodeAffinity"));
}

int ties_take_again(const struct pod *now, const struct pod *live, const struct plan_ties *ties,
	struct arena *a, struct patch *patch, struct err *err)
{
	struct again g = {now, live, a, patch};

	if (retake_selector(&g, ties->node_selector, err) < 0)
		return err->code;
	retake_tolerations(&g, ties);
	retake_affinity(&g, ties->node_affinity);
	retake_member(&g, "runtimeClassName", ties->runtime_class);
	retake_member(&g, "overhead", ties->overhead);
	return a->failed ? no_memory(err) : 0;
}
