/* SPDX-License-Identifier: Apache-2.0 */
/* core: what a ResourceQuota leaves, against what a pod asks for (rule R12). */
#include "webhook/core/pool/quota.h"

#include "base/quantity.h"

#define NANO 1000000000
#define MILLI 1000000
/* A quantity in a status is short; what is not is nobody's. */
#define SHOWN_MAX 40
/* Of a quota's resources so many are looked at. */
#define RESOURCES_MAX 256

/* A quantity, as text or number; false for what is none. */
static bool read(const struct json *j, const struct json_node *v, struct arena *a, __int128_t *ret)
{
	struct quantity q;
	struct slice text = json_is(v, JSON_STRING)   ? json_str(j, v, a)
			    : json_is(v, JSON_NUMBER) ? json_raw(j, v)
						      : (struct slice){0};

	if (!text.at || quantity_parse(text, &q, NULL) != 0)
		return false;
	*ret = q.nano;
	return true;
}

/* What the containers ask for of one resource; where one makes no request, its limit stands for
 * that. */
static __int128_t sum(const struct json *j, const struct json_node *pod, const char *of,
	struct slice resource, struct arena *a)
{
	bool requests = strcmp(of, "requests") == 0;
	__int128_t all = 0;

	JSON_EACH(j, json_path(j, pod, "spec", "containers", NULL), c)
	{
		const struct json_node *res = json_get(j, c, SLICE("resources"));
		const struct json_node *v = json_get(j, json_get(j, res, slice_of(of)), resource);
		__int128_t one;

		if (!v && requests)
			v = json_get(j, json_get(j, res, SLICE("limits")), resource);
		if (v && read(j, v, a, &one) && one > 0)
			all += one;
	}
	return all;
}

static bool begins(struct slice *name, struct slice with)
{
	if (!slice_starts(*name, with))
		return false;
	*name = (struct slice){name->at + with.len, name->len - with.len};
	return true;
}

/* How much of what the quota calls so the pod needs at least. */
static __int128_t wanted(
	const struct json *j, const struct json_node *pod, struct slice name, struct arena *a)
{
	if (slice_is(name, "pods") || slice_is(name, "count/pods"))
		return NANO;
	if (begins(&name, SLICE("limits.")))
		/* A pod may say less for all its containers together. */
		return json_path(j, pod, "spec", "resources", NULL)
			       ? 0
			       : sum(j, pod, "limits", name, a);
	if (begins(&name, SLICE("requests.")) || slice_is(name, "cpu") ||
		slice_is(name, "memory") || slice_is(name, "ephemeral-storage"))
		return sum(j, pod, "requests", name, a);
	return 0;
}

static const char *show(__int128_t nano, struct arena *a)
{
	if (nano % NANO == 0)
		return arena_fmt(a, "%lld", (long long)(nano / NANO));
	return arena_fmt(a, "%lldm", (long long)((nano + MILLI - 1) / MILLI));
}

static struct slice spelled(const struct json *j, const struct json_node *v, struct arena *a)
{
	struct slice text = json_is(v, JSON_STRING) ? json_str(j, v, a) : json_raw(j, v);

	return !v ? SLICE("0") : text.len > SHOWN_MAX ? SLICE("?") : text;
}

int quota_check(const struct json *qj, const struct json_node *quota, const struct json *pj,
	const struct json_node *pod, struct arena *a, struct err *err)
{
	const struct json_node *spec = json_get(qj, quota, SLICE("spec"));
	const struct json_node *hard = json_path(qj, quota, "status", "hard", NULL);
	const struct json_node *used = json_path(qj, quota, "status", "used", NULL);
	const struct json_node *scopes = json_get(qj, spec, SLICE("scopes"));
	size_t n = 0;

	if ((scopes && scopes->count > 0) || json_get(qj, spec, SLICE("scopeSelector")))
		return 0;
	JSON_MEMBERS(qj, hard, k)
	{
		struct slice what = json_str(qj, k, a), name, has, most;
		const struct json_node *now = what.at ? json_get(qj, used, what) : NULL;
		__int128_t want = what.at ? wanted(pj, pod, what, a) : 0, limit, taken = 0;

		if (n++ == RESOURCES_MAX)
			break;
		if (want <= 0 || !read(qj, json_value(k), a, &limit) ||
			(now && !read(qj, now, a, &taken)) || taken + want <= limit)
			continue;
		name = json_str(qj, json_path(qj, quota, "metadata", "name", NULL), a);
		has = spelled(qj, now, a);
		most = spelled(qj, json_value(k), a);
		return err_reason(err, ERR_REFUSED, "QuotaExceeded",
			"exceeded quota: %.*s, requested: %.*s=%s, used: %.*s=%.*s, limited: "
			"%.*s=%.*s",
			(int)name.len, name.at ? name.at : "", (int)what.len, what.at,
			show(want, a), (int)what.len, what.at, (int)has.len, has.at, (int)what.len,
			what.at, (int)most.len, most.at);
	}
	return a->failed ? err_set(err, ERR_NOMEM, "out of memory for a ResourceQuota") : 0;
}
