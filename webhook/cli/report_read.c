/* SPDX-License-Identifier: Apache-2.0 */
/* cli: usage as it is read off a cluster: each period of each server counts once, wherever it was
 * found. */
#include "webhook/cli/report_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/rfc3339.h"
#include "kube/kube_object.h"
#include "webhook/cluster/ledger/servers.h"
#include "webhook/cluster/reconcile/usage_keeper.h"
#include "webhook/core/policy/policy.h"

#define LIST_MS 60000
#define NAMESPACES_PATH "/api/v1/namespaces"
#define DAY_LEN 10

/* A list with room for one more; NULL: out of memory. */
static void *room(struct arena *a, void *list, size_t n, size_t *cap, size_t size)
{
	char *grown;

	if (n < *cap)
		return list;
	*cap = *cap ? 2 * *cap : 64;
	grown = arena_space(a, *cap, size);
	if (grown && n > 0)
		memcpy(grown, list, n * size);
	return grown;
}

static bool add(struct report *r, const char *server, const char *uid, const struct usage_period *p)
{
	if (p->from_s < r->from_s || p->from_s >= r->to_s)
		return true;
	r->periods =
		room(&r->arena, r->periods, r->n_periods, &r->cap_periods, sizeof(*r->periods));
	if (!r->periods || !server || !uid)
		return false;
	r->periods[r->n_periods++] = (struct report_period){server, uid, *p};
	return true;
}

/* In the period that is open stands what was used until the last commit. */
static bool on_server(void *ctx, const struct json *j, const struct json_node *object)
{
	struct report *r = ctx;
	struct server_object o;
	struct usage_record u;
	struct err err = {0};

	if (server_object_read(j, object, &r->arena, &o, &err) != 0 ||
		(o.status.usage &&
			usage_record_read(slice_of(o.status.usage), &r->arena, &u, &err) != 0)) {
		r->unreadable += err.code != ERR_NOMEM;
		return err.code != ERR_NOMEM;
	}
	if (!o.status.usage)
		return true;
	return usage_record_advance(&u, &o, kube_wall_ms(r->kube) / 1000, &r->arena) &&
	       (!u.has_closed || add(r, o.name, o.uid, &u.closed)) &&
	       (!u.has_open || add(r, o.name, o.uid, &u.open));
}

static const char *text(struct report *r, const struct json *j, const struct json_node *v)
{
	return arena_strdup(&r->arena, json_str(j, v, &r->arena));
}

/* An object's name begins with the day on which its periods did: those of other days are not read.
 */
static bool is_of_another_day(const struct report *r, struct slice name)
{
	char day[] = "YYYY-MM-DDT00:00:00Z";
	int64_t ms;

	if (name.len < DAY_LEN)
		return false;
	memcpy(day, name.at, DAY_LEN);
	return rfc3339_read(slice_of(day), &ms) && (ms / 1000 < r->from_s || ms / 1000 >= r->to_s);
}

static bool on_usage(void *ctx, const struct json *j, const struct json_node *object)
{
	struct report *r = ctx;
	const struct json_node *periods = json_get(j, object, SLICE("periods"));

	if (is_of_another_day(r, kube_meta(j, object).name))
		return true;
	JSON_EACH(j, periods, e)
	{
		struct slice usage = json_str(j, json_get(j, e, SLICE("usage")), &r->arena);
		const char *server = text(r, j, json_get(j, e, SLICE("server")));
		const char *uid = text(r, j, json_get(j, e, SLICE("uid")));
		struct usage_record u;
		struct err err = {0};

		if (r->arena.failed)
			return false;
		if (usage_record_read(usage, &r->arena, &u, &err) != 0) {
			r->unreadable += err.code == ERR_INVALID;
			continue;
		}
		if (u.has_closed && !add(r, server, uid, &u.closed))
			return false;
	}
	return !r->arena.failed;
}

static bool on_namespace(void *ctx, const struct json *j, const struct json_node *object)
{
	struct report *r = ctx;
	const struct json_node *policy =
		json_path(j, object, "metadata", "labels", LABEL_POLICY, NULL);

	if (!json_is(policy, JSON_STRING))
		return true;
	r->policies =
		room(&r->arena, r->policies, r->n_policies, &r->cap_policies, sizeof(*r->policies));
	if (!r->policies)
		return false;
	r->policies[r->n_policies++] = (struct report_policy){
		arena_strdup(&r->arena, kube_meta(j, object).name), text(r, j, policy)};
	return !r->arena.failed;
}

/* ---- adding up ---- */

static int by_namespace(const void *a, const void *b)
{
	const struct report_policy *x = a, *y = b;

	return strcmp(x->namespace, y->namespace);
}

/* Of one that was found several times the longest comes first. */
static int by_period(const void *a, const void *b)
{
	const struct report_period *x = a, *y = b;
	int c = strcmp(x->uid, y->uid);

	if (c != 0)
		return c;
	if (x->usage.from_s != y->usage.from_s)
		return x->usage.from_s < y->usage.from_s ? -1 : 1;
	return x->usage.at_s > y->usage.at_s ? -1 : x->usage.at_s < y->usage.at_s;
}

static bool is_same(const struct report_period *a, const struct report_period *b)
{
	return strcmp(a->uid, b->uid) == 0 && a->usage.from_s == b->usage.from_s;
}

static const char *policy_named(const struct report *r, const char *namespace)
{
	const struct report_policy key = {.namespace = namespace}, *found = NULL;

	if (strcmp(namespace, USAGE_OTHERS) == 0)
		return USAGE_OTHERS;
	if (r->n_policies > 0)
		found = bsearch(&key, r->policies, r->n_policies, sizeof(key), by_namespace);
	return found ? found->name : USAGE_NO_POLICY;
}

static const char *key_of(
	const struct report *r, const struct report_period *p, const struct usage_row *row)
{
	switch (r->by) {
	case BY_POLICY:
		return policy_named(r, row->namespace);
	case BY_MODEL:
		return row->model;
	case BY_SERVER:
		return p->server;
	case BY_NAMESPACE:
		break;
	}
	return row->namespace;
}

static bool add_up(struct report *r, const struct report_period *p)
{
	struct usage_period *sum = &r->sum;

	sum->capacity = usage_plus(sum->capacity, p->usage.capacity);
	sum->free = usage_plus(sum->free, p->usage.free);
	sum->unfit = usage_plus(sum->unfit, p->usage.unfit);
	sum->over = usage_plus(sum->over, p->usage.over);
	for (size_t i = 0; i < p->usage.n_rows; i++) {
		const struct usage_row *from = &p->usage.rows[i];
		struct usage_row *to = usage_row(sum, key_of(r, p, from), "", &r->arena);

		if (!to)
			return false;
		usage_row_add(to, from);
	}
	return true;
}

static int list(
	struct kube *k, const char *path, kube_each *each, struct report *r, struct err *err)
{
	char version[32];
	int rc = kube_list(k, path, LIST_MS, NULL, each, r, version, err);

	return r->arena.failed ? err_set(err, ERR_NOMEM, "out of memory") : rc;
}

int report_read(struct kube *k, struct report *r, struct err *err)
{
	/* First the servers: what is stored and forgotten meanwhile is then met twice, and not
	 * never. A list that begins anew is no harm, for the same reason. */
	int rc;

	r->kube = k;
	rc = list(k, SERVERS_PATH, on_server, r, err);

	if (rc == 0)
		rc = list(k, USAGES_PATH, on_usage, r, err);
	if (rc == ERR_NOTFOUND)
		return err_set(err, ERR_NOTFOUND,
			"nothing is stored here: the cluster has no GPUUsages (components/usage)");
	if (rc == 0 && r->by == BY_POLICY)
		rc = list(k, NAMESPACES_PATH, on_namespace, r, err);
	if (rc != 0)
		return rc;
	if (r->n_policies > 0)
		qsort(r->policies, r->n_policies, sizeof(*r->policies), by_namespace);
	if (r->n_periods > 0)
		qsort(r->periods, r->n_periods, sizeof(*r->periods), by_period);
	for (size_t i = 0; i < r->n_periods; i++)
		if ((i == 0 || !is_same(&r->periods[i], &r->periods[i - 1])) &&
			!add_up(r, &r->periods[i]))
			return err_set(err, ERR_NOMEM, "out of memory");
	return 0;
}
