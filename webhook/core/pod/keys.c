/* SPDX-License-Identifier: Apache-2.0 */
/* core: keys under our prefixes, known and unknown. */
#include "webhook/core/pod/keys.h"

#include <stdio.h>

#include "base/text.h"
#include "webhook/core/pod/gate_end.h"
#include "webhook/core/pod/gpu_request.h"
#include "webhook/core/pod/late.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pod/queue_read.h"

#define RESOURCES "bitfusion.io/"
#define CLIENT "bitfusion-client/"
#define MANAGEMENT "auto-management/"

static const char *const resources[] = {RES_AMOUNT, RES_NUM, RES_PERCENT, RES_MEMORY, RES_UNITS};
static const char *const annotations[] = {ANN_PLAN, ANN_LAUNCHER, ANN_WHEN_FULL, ANN_GANG,
	ANN_GANG_SIZE, ANN_OS, ANN_VERSION, ANN_FILTER};
static const char *const switches[] = {ANN_SWITCH, ANN_STATUS};

static bool known(struct slice key, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (slice_is(key, words[i]))
			return true;
	return false;
}

static int shown(struct slice key)
{
	return (int)text_utf8_cut(key, 80);
}

/* The refusal of one key; what: "resource" or "annotation". */
static int unknown(
	struct slice key, const char *what, const char *const *words, size_t n, struct err *err)
{
	const char *meant = text_nearest(key, words, n);
	char list[200] = "";
	size_t len = 0;

	for (size_t i = 0; i < n && !meant && len < sizeof(list); i++)
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s",
			i ? ", " : "; known are ", words[i]);
	return err_set(err, ERR_INVALID, "found the %s \"%.*s\", which means nothing here%s%s%s%s",
		what, shown(key), key.at, meant ? "; did you mean \"" : "", meant ? meant : "",
		meant ? "\"?" : "", list);
}

static bool ours(struct slice key)
{
	return slice_starts(key, SLICE(OURS_PREFIX)) || slice_starts(key, SLICE(CLIENT));
}

static bool listed(const struct plan *plan, struct slice key)
{
	for (size_t i = 0; plan && i < plan->n_keys; i++)
		if (slice_eq(plan->keys[i], key))
			return slice_starts(key, SLICE(OURS_PREFIX));
	return false;
}

/* Whoever means one word and writes another must not learn of it when the pool is full. */
static int check_when_full(struct slice value, struct err *err)
{
	static const char *const words[] = {"wait", "refuse"};
	const char *meant = text_nearest(value, words, 2);

	if (known(value, words, 2))
		return 0;
	err_set(err, ERR_INVALID, "found \"%.*s\", expected wait or refuse%s%s%s", shown(value),
		value.at ? value.at : "", meant ? "; did you mean \"" : "", meant ? meant : "",
		meant ? "\"?" : "");
	return err_in(err, "metadata/annotations/poolgate.io~1when-full");
}

/* was (may be NULL): what the old object has is not judged. */
static int check_annotations(const struct pod *p, const struct plan *plan,
	const struct json_node *was, struct arena *a, struct err *err)
{
	JSON_MEMBERS(p->j, p->annotations, k)
	{
		struct slice key = json_str(p->j, k, a);
		const struct json_node *old;

		if (!key.at || !ours(key))
			continue;
		if (slice_is(key, ANN_WHEN_FULL) && !was &&
			check_when_full(json_str(p->j, json_value(k), a), err) < 0)
			return err->code;
		/* who may bring these along is asked beside the plan */
		if (known(key, annotations, sizeof(annotations) / sizeof(annotations[0])) ||
			gate_end_key(key) || listed(plan, key))
			continue;
		old = json_get(p->j, was, key);
		if (old && slice_eq(json_str(p->j, old, a), json_str(p->j, json_value(k), a)))
			continue;
		if (late_is_leaders(key)) {
			err_set(err, ERR_INVALID,
				"found the annotation \"%.*s\", which poolgate alone writes, "
				"while "
				"the pod waits; leave it out",
				shown(key), key.at);
			return err_in(err, "metadata/annotations");
		}
		unknown(key, "annotation", annotations,
			sizeof(annotations) / sizeof(annotations[0]), err);
		return err_in(err, "metadata/annotations");
	}
	return 0;
}

static int check_resources(
	const struct pod *p, const struct pod_container *c, struct arena *a, struct err *err)
{
	static const char *const sides[] = {"limits", "requests"};
	const struct json_node *res = json_get(p->j, c->node, SLICE("resources"));

	for (size_t i = 0; i < 2; i++)
		JSON_MEMBERS(p->j, json_get(p->j, res, slice_of(sides[i])), k)
		{
			struct slice key;

			/* cpu, memory and the like at a glance */
			if (!k->escaped && !slice_starts(json_inside(p->j, k), SLICE(RESOURCES)))
				continue;
			key = json_str(p->j, k, a);
			if (!key.at || !slice_starts(key, SLICE(RESOURCES)) ||
				known(key, resources, sizeof(resources) / sizeof(resources[0])))
				continue;
			unknown(key, "resource", resources,
				sizeof(resources) / sizeof(resources[0]), err);
			err_in(err, "resources/%s", sides[i]);
			return err_in(err, "%s", c->path + 1);
		}
	return 0;
}

int keys_check(const struct pod *p, const struct plan *plan, struct arena *a, struct err *err)
{
	if (check_annotations(p, plan, NULL, a, err) < 0 || queue_check_gang(p, a, err) < 0)
		return err->code;
	for (size_t i = 0; i < p->n_containers; i++)
		if (check_resources(p, &p->containers[i], a, err) < 0)
			return err->code;
	return a->failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

int keys_check_update(
	const struct pod *now, const struct pod *was, struct arena *a, struct err *err)
{
	if (check_annotations(now, NULL, was->annotations, a, err) < 0)
		return err->code;
	return a->failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

void keys_warn(const struct pod *p, bool all, struct arena *a, struct warnings *w)
{
	struct err err = {0};

	JSON_MEMBERS(p->j, p->annotations, k)
	{
		struct slice key = json_str(p->j, k, a);

		if (!key.at || !slice_starts(key, SLICE(MANAGEMENT)) || known(key, switches, 2))
			continue;
		if (text_ieq(key, SLICE(ANN_SWITCH)))
			warn_add(w, a,
				"the annotation %.*s is written " ANN_SWITCH
				"; as it is, it switches nothing on",
				shown(key), key.at);
		else
			warn_add(
				w, a, "the annotation %.*s means nothing here", shown(key), key.at);
	}
	if (all && keys_check(p, NULL, a, &err) == ERR_INVALID)
		warn_add_long(w, a, slice_of(arena_fmt(a, "%s: %s", err.path, err.msg)));
}
