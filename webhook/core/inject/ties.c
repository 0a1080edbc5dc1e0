/* SPDX-License-Identifier: Apache-2.0 */
/* core: take ties to GPU nodes out of a pod. ties_back.c gives them back. */
#include "webhook/core/inject/ties.h"

#define LABELS "nvidia.com/"
#define CLASSES "nvidia"
#define REQUIRED "requiredDuringSchedulingIgnoredDuringExecution"
#define PREFERRED "preferredDuringSchedulingIgnoredDuringExecution"
#define AFFINITY "/spec/affinity/nodeAffinity"

/* One taking. */
struct taking {
	const struct pod *pod;
	struct arena *a;
	struct patch *patch;
	struct plan_ties *ties;
};

static bool begins(const struct taking *t, const struct json_node *v, const char *with)
{
	struct slice s = json_str(t->pod->j, v, t->a);

	return s.at && slice_starts(s, slice_of(with));
}

/* ---- nodeSelector ---- */

/* Remember the members as an object, with their keys and values as they are spelled. */
static int take_selector(struct taking *t, struct err *err)
{
	const struct json *j = t->pod->j;
	const struct json_node *all = json_get(j, t->pod->spec, SLICE("nodeSelector"));
	struct buf kept;
	uint32_t n = 0;

	JSON_MEMBERS(j, all, k)
	n += begins(t, k, LABELS);
	if (n == 0)
		return 0;
	buf_init(&kept, all->len + 2);
	JSON_MEMBERS(j, all, k)
	{
		if (!begins(t, k, LABELS))
			continue;
		buf_char(&kept, kept.len ? ',' : '{');
		buf_slice(&kept, json_raw(j, k));
		buf_char(&kept, ':');
		buf_slice(&kept, json_raw(j, json_value(k)));
		if (n < all->count)
			patch_remove(t->patch, "/spec/nodeSelector", json_str(j, k, t->a));
	}
	buf_char(&kept, '}');
	if (n == all->count)
		patch_remove(t->patch, "/spec/nodeSelector", (struct slice){0});
	if (!kept.failed)
		t->ties->node_selector = arena_slice(t->a, buf_as_slice(&kept));
	buf_release(&kept);
	return t->ties->node_selector.at ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

/* ---- node affinity ---- */

static bool is_tie(const struct taking *t, const struct json_node *expression)
{
	static const char *const ties[] = {"In", "Exists", "Gt", "Lt"};
	const struct json *j = t->pod->j;
	const struct json_node *operator= json_get(j, expression, SLICE("operator"));

	for (size_t i = 0; i < 4; i++)
		if (json_is_str(j, operator, slice_of(ties[i])))
			return begins(t, json_get(j, expression, SLICE("key")), LABELS);
	return false;
}

/* An array of alternatives, or of preferences, each with a term at `inner` (NULL: it is the term).
 */
struct terms {
	const char *path, *inner;
	const struct json_node *array;
	uint32_t ties, gone; /* expressions; elements that were nothing else */
};

static const struct json_node *term_of(
	const struct taking *t, const struct terms *terms, const struct json_node *e)
{
	return terms->inner ? json_get(t->pod->j, e, slice_of(terms->inner)) : e;
}

/* How many of its expressions are ties, and whether it holds nothing else. */
static uint32_t count_ties(
	const struct taking *t, const struct json_node *term, bool *ret_nothing_else)
{
	const struct json *j = t->pod->j;
	const struct json_node *expressions = json_get(j, term, SLICE("matchExpressions"));
	const struct json_node *fields = json_get(j, term, SLICE("matchFields"));
	uint32_t n = 0;

	JSON_EACH(j, expressions, e)
	n += is_tie(t, e);
	*ret_nothing_else = n > 0 && n == expressions->count &&
			    !(json_is(fields, JSON_ARRAY) && fields->count > 0);
	return n;
}

static void look(const struct taking *t, struct terms *terms)
{
	bool nothing_else;

	JSON_EACH(t->pod->j, terms->array, e)
	{
		terms->ties += count_ties(t, term_of(t, terms, e), &nothing_else);
		terms->gone += nothing_else;
	}
}

/* Arrays are walked in order, and `shift` elements have gone before. */
static void cut_term(
	struct taking *t, const struct terms *terms, const struct json_node *e, size_t index)
{
	const char *path = pod_path_at(t->a, terms->path, index);
	const struct json_node *term = term_of(t, terms, e);
	size_t i = 0, shift = 0;

	if (terms->inner)
		path = pod_path(t->a, path, "/preference");
	path = pod_path(t->a, path, "/matchExpressions");
	JSON_EACH(t->pod->j, json_get(t->pod->j, term, SLICE("matchExpressions")), expression)
	{
		if (is_tie(t, expression))
			patch_remove_at(t->patch, path, i - shift++, (struct slice){0});
		i++;
	}
}

static void cut(struct taking *t, const struct terms *terms)
{
	size_t i = 0, shift = 0;
	bool nothing_else;

	JSON_EACH(t->pod->j, terms->array, e)
	{
		if (count_ties(t, term_of(t, terms, e), &nothing_else) > 0 && !nothing_else)
			cut_term(t, terms, e, i - shift);
		if (nothing_else)
			patch_remove_at(t->patch, terms->path, i - shift++, (struct slice){0});
		i++;
	}
}

static bool all_gone(const struct terms *terms)
{
	return terms->gone > 0 && terms->gone == terms->array->count;
}

static void take_affinity(struct taking *t)
{
	const struct json *j = t->pod->j;
	const struct json_node *affinity = json_get(j, t->pod->spec, SLICE("affinity"));
	const struct json_node *node = json_get(j, affinity, SLICE("nodeAffinity"));
	struct terms required = {.path = AFFINITY "/" REQUIRED "/nodeSelectorTerms",
		.array = json_path(j, node, REQUIRED, "nodeSelectorTerms", NULL)};
	struct terms preferred = {.path = AFFINITY "/" PREFERRED,
		.inner = "preference",
		.array = json_get(j, node, SLICE(PREFERRED))};

	look(t, &required);
	look(t, &preferred);
	if (required.ties + preferred.ties == 0)
		return;
	t->ties->node_affinity = json_raw(j, node);
	if ((uint32_t)all_gone(&required) + all_gone(&preferred) == node->count) {
		patch_remove(t->patch, affinity->count == 1 ? "/spec/affinity" : AFFINITY,
			(struct slice){0});
		return;
	}
	if (all_gone(&required))
		patch_remove(t->patch, AFFINITY, SLICE(REQUIRED));
	else
		cut(t, &required);
	if (all_gone(&preferred))
		patch_remove(t->patch, AFFINITY, SLICE(PREFERRED));
	else
		cut(t, &preferred);
}

/* ---- tolerations and the runtime ---- */

static int take_tolerations(struct taking *t, struct err *err)
{
	const struct json *j = t->pod->j;
	const struct json_node *all = json_get(j, t->pod->spec, SLICE("tolerations"));
	struct plan_ties *ties = t->ties;
	uint32_t i = 0, n = 0;

	JSON_EACH(j, all, e)
	n += begins(t, json_get(j, e, SLICE("key")), LABELS);
	if (n == 0)
		return 0;
	if (n > PLAN_TIES_MAX) {
		err_set(err, ERR_INVALID, "found %u tolerations of " LABELS ", expected at most %d",
			n, PLAN_TIES_MAX);
		return err_in(err, "spec/tolerations");
	}
	ties->tolerations = arena_array(t->a, n, sizeof(*ties->tolerations));
	if (!ties->tolerations)
		return err_set(err, ERR_NOMEM, "out of memory");
	JSON_EACH(j, all, e)
	{
		if (begins(t, json_get(j, e, SLICE("key")), LABELS)) {
			if (n < all->count)
				patch_remove_at(t->patch, "/spec/tolerations",
					i - ties->n_tolerations, (struct slice){0});
			ties->tolerations[ties->n_tolerations++] =
				(struct plan_toleration){i, json_raw(j, e)};
		}
		i++;
	}
	if (n == all->count)
		patch_remove(t->patch, "/spec/tolerations", (struct slice){0});
	return 0;
}

/* The API server writes the class's overhead before it asks us, and wants none without a class. */
static void take_runtime(struct taking *t)
{
	const struct json *j = t->pod->j;
	const struct json_node *class = json_get(j, t->pod->spec, SLICE("runtimeClassName"));
	const struct json_node *overhead = json_get(j, t->pod->spec, SLICE("overhead"));

	if (!begins(t, class, CLASSES))
		return;
	t->ties->runtime_class = json_raw(j, class);
	patch_remove(t->patch, "/spec", SLICE("runtimeClassName"));
	if (!json_is(overhead, JSON_OBJECT))
		return;
	t->ties->overhead = json_raw(j, overhead);
	patch_remove(t->patch, "/spec", SLICE("overhead"));
}

int ties_take(const struct pod *p, struct arena *a, struct patch *patch, struct plan_ties *ret,
	struct err *err)
{
	struct taking t = {p, a, patch, ret};

	*ret = (struct plan_ties){0};
	if (take_selector(&t, err) < 0 || take_tolerations(&t, err) < 0)
		return err->code;
	take_affinity(&t);
	take_runtime(&t);
	return a->failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}
