/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate plan`: what a policy changes in pods that ask by keys of others. */
#include "webhook/cli/plan_impl.h"
#include "webhook/core/pod/plan_ties.h"
#include "webhook/core/pool/placement_say.h"

#define NAME_MAX 253
#define VALUE_MAX 200

static void say_keys(unsigned keys, struct buf *out)
{
	const char *sep = "";

	for (size_t k = 0; k < FOREIGN_KEYS; k++)
		if (keys & 1U << k) {
			buf_fmt(out, "%s%s", sep, foreign_key_name((enum foreign_key)k));
			sep = ", ";
		}
}

static void say_container(
	const struct plan_work *w, const struct plan_container *c, struct buf *out)
{
	struct demand_container d = {
		.amount = c->amount, .percent = c->percent, .memory_mb = c->memory_mb};

	if (!c->foreign)
		return;
	buf_fmt(out, "  the policy %s reads ", w->policy ? w->policy->name : "");
	say_keys(c->foreign, out);
	buf_str(out, " of container ");
	say_word(out, c->name, NAME_MAX);
	buf_str(out, " as ");
	say_amount(out, &d, c->amount);
	buf_str(out, " of the pool; it sees no GPU of its node\n");
}

static void say_tie(struct buf *out, const char *what, struct slice json, const char **sep)
{
	if (!json.at)
		return;
	buf_fmt(out, "%s%s ", *sep, what);
	say_word(out, json, VALUE_MAX);
	*sep = ", ";
}

void plan_say_change(const struct plan_work *w, struct buf *out)
{
	const struct plan_ties *t = w->converted ? &w->converted->ties : NULL;
	const char *sep = "  ties to GPU nodes that it loses: ";

	for (size_t i = 0; t && i < w->converted->n_containers; i++)
		say_container(w, &w->converted->containers[i], out);
	if (!t || plan_ties_none(t))
		return;
	say_tie(out, "nodeSelector", t->node_selector, &sep);
	say_tie(out, "expressions of nodeAffinity", t->node_affinity, &sep);
	for (size_t i = 0; i < t->n_tolerations; i++)
		say_tie(out, "toleration", t->tolerations[i].json, &sep);
	say_tie(out, "runtimeClassName", t->runtime_class, &sep);
	buf_char(out, '\n');
}

void plan_say_bounds(const struct plan_job *job, struct buf *out)
{
	for (size_t i = 0; i < job->n_bounds; i++) {
		const struct plan_bound *b = &job->bounds[i];

		buf_fmt(out, "%s ", b->kind);
		say_word(out, b->namespace, NAME_MAX);
		buf_char(out, '/');
		say_word(out, b->name, NAME_MAX);
		buf_str(out, " is over ");
		say_keys(b->keys, out);
		buf_fmt(out, ", which the policy %s takes out of pods: it counts none of these\n",
			b->policy->name);
	}
	if (job->bounds_why.code)
		buf_fmt(out,
			"ResourceQuotas and LimitRanges cannot be read, so that those over keys "
			"that are taken out are not named: %s\n",
			job->bounds_why.msg);
}

/* ---- as JSON ---- */

static void json_keys(unsigned keys, struct buf *out)
{
	const char *sep = "";

	buf_str(out, "\"keys\":[");
	for (size_t k = 0; k < FOREIGN_KEYS; k++)
		if (keys & 1U << k) {
			buf_fmt(out, "%s\"%s\"", sep, foreign_key_name((enum foreign_key)k));
			sep = ",";
		}
	buf_char(out, ']');
}

void plan_json_change(const struct plan_work *w, struct buf *out)
{
	const char *sep = ",\"converted\":[";

	if (w->policy) {
		buf_str(out, ",\"policy\":");
		buf_json_str(out, slice_of(w->policy->name));
	}
	if (!w->converted)
		return;
	for (size_t i = 0; i < w->converted->n_containers; i++) {
		const struct plan_container *c = &w->converted->containers[i];

		if (!c->foreign)
			continue;
		buf_fmt(out, "%s{\"container\":", sep);
		buf_json_str(out, c->name);
		buf_char(out, ',');
		json_keys(c->foreign, out);
		buf_fmt(out, ",\"amount\":%u", c->amount);
		if (c->percent)
			buf_fmt(out, ",\"percent\":%u}", c->percent);
		else
			buf_fmt(out, ",\"memoryMB\":%llu}", (unsigned long long)c->memory_mb);
		sep = ",";
	}
	buf_char(out, ']');
	plan_ties_write(&w->converted->ties, out);
}

void plan_json_bounds(const struct plan_job *job, struct buf *out)
{
	buf_str(out, ",\"bounds\":[");
	for (size_t i = 0; i < job->n_bounds; i++) {
		const struct plan_bound *b = &job->bounds[i];

		buf_fmt(out, "%s{\"kind\":\"%s\",\"namespace\":", i ? "," : "", b->kind);
		buf_json_str(out, b->namespace);
		buf_str(out, ",\"name\":");
		buf_json_str(out, b->name);
		buf_char(out, ',');
		json_keys(b->keys, out);
		buf_str(out, ",\"policy\":");
		buf_json_str(out, slice_of(b->policy->name));
		buf_char(out, '}');
	}
	buf_char(out, ']');
}
