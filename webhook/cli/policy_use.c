/* SPDX-License-Identifier: Apache-2.0 */
/* cli: which policy a namespace of the cluster picks, and what of it is used. */
#include "webhook/cli/policy_use.h"

#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "webhook/cluster/policy/policy_look.h"
#include "webhook/core/policy/policy_bound.h"

#define ASK_MS 10000
#define MB 1000000

/* ---- asked ---- */

static int of_cluster(void *ctx, struct slice namespace, struct arena *a, const struct policy **ret,
	struct err *err)
{
	struct policy_asked *asked = ctx;
	struct policy_answer *p = asked->picks;

	(void)a;
	while (p && !slice_eq(p->namespace, namespace))
		p = p->next;
	if (!p) {
		p = arena_alloc(asked->arena, sizeof(*p));
		if (!p)
			return err_set(err, ERR_NOMEM, "out of memory");
		*p = (struct policy_answer){
			.next = asked->picks, .namespace = arena_slice(asked->arena, namespace)};
		(void)policy_look_of(asked->look, namespace, false, clock_ms() + ASK_MS,
			asked->arena, &p->policy, &p->why);
		asked->picks = p;
	}
	*ret = p->policy;
	*err = p->why;
	return p->why.code;
}

int policy_asked_begin(
	struct policy_asked *asked, struct kube *k, bool required, struct arena *a, struct err *err)
{
	/* without its watches it asks for what it is asked */
	*asked = (struct policy_asked){
		.look = policy_look_new(
			&(struct policy_look_config){.kube = k, .required = required}, err),
		.arena = a,
		.source = {asked, of_cluster}};
	return asked->look ? 0 : (int)err->code;
}

void policy_asked_end(struct policy_asked *asked)
{
	policy_look_free(asked->look);
}

/* ---- used ---- */

/* Does that namespace pick it? */
static bool picks(struct policy_uses *u, const struct policy *p, struct slice namespace)
{
	const struct policy *other = NULL;
	struct err err = {0};

	(void)policy_of(u->of, namespace, &u->pool->arena, &other, &err);
	/* of one that does not exist nobody holds anything in this one */
	if (err.code && err.code != ERR_REFUSED)
		u->unknown = err;
	return other && strcmp(other->name, p->name) == 0;
}

static struct account_row *row_of(struct policy_use *use, struct slice namespace, struct arena *a)
{
	struct account *c = &use->account;
	size_t i = 0;

	while (i < c->n_rows && !slice_is(namespace, c->rows[i].namespace))
		i++;
	if (i == c->n_rows) {
		if (!LIST_ROOM_IN(a, c->rows, i, use->cap_rows))
			return NULL;
		c->rows[c->n_rows++] =
			(struct account_row){.namespace = arena_strdup(a, namespace)};
	}
	return a->failed ? NULL : &c->rows[i];
}

/* Claims that stand. */
static void count_held(struct policy_uses *u, struct policy_use *use)
{
	struct pool_read *pool = u->pool;

	for (size_t s = 0; s < pool->n_servers; s++) {
		const struct server_status *status = &pool->servers[s].status;

		for (size_t i = 0; i < status->n_claims && !pool->arena.failed; i++) {
			const struct claim *c = &status->claims[i].claim;
			struct account_row *row;

			if (!c->namespace || !picks(u, use->policy, slice_of(c->namespace)))
				continue;
			row = row_of(use, slice_of(c->namespace), &pool->arena);
			if (row)
				account_sum_add(&row->held, c);
		}
	}
}

struct policy_use *policy_use_of(struct policy_uses *u, const struct policy *p)
{
	struct policy_use *use = u->all;

	while (use && strcmp(use->policy->name, p->name) != 0)
		use = use->next;
	if (use)
		return use;
	use = arena_alloc(&u->pool->arena, sizeof(*use));
	if (!use)
		return NULL;
	*use = (struct policy_use){.next = u->all, .policy = p};
	u->all = use;
	count_held(u, use);
	for (size_t i = 0; i < u->pool->n_pods; i++)
		use->waiting += picks(u, p, u->pool->pods[i].namespace);
	return u->pool->arena.failed ? NULL : use;
}

struct account_sum policy_use_sum(const struct placement *where)
{
	struct account_sum sum = {.gpus = where->n_holds};

	for (size_t i = 0; i < where->n_holds; i++)
		sum.bytes += where->holds[i].bytes;
	return sum;
}

int policy_use_leaves(struct policy_uses *u, const struct policy *p, struct slice namespace,
	struct account_sum wants, struct err *err)
{
	struct account_ask ask = {.wants = wants};
	struct policy_use *use;

	if (!p || !policy_is_capped(p))
		return 0;
	use = policy_use_of(u, p);
	ask.namespace = arena_strdup(&u->pool->arena, namespace);
	if (!use || !ask.namespace)
		return err_set(err, ERR_NOMEM, "out of memory");
	return account_fits(&use->account, p, wants) ? 0
						     : account_refuse(&use->account, p, &ask, err);
}

bool policy_use_add(struct policy_uses *u, const struct policy *p, struct slice namespace,
	struct account_sum takes)
{
	struct policy_use *use;
	struct account_row *row;

	if (!p || !policy_is_capped(p))
		return true;
	use = policy_use_of(u, p);
	row = use ? row_of(use, namespace, &u->pool->arena) : NULL;
	if (row) {
		row->held.gpus += takes.gpus;
		row->held.bytes += takes.bytes;
	}
	return row != NULL;
}

/* ---- bounds ---- */

bool policy_use_bounds(const struct policy *p)
{
	return p && (policy_is_capped(p) || p->waiting != UINT32_MAX || p->n_servers > 0 ||
			    p->n_launchers > 0 || p->n_models > 0);
}

/* No placement takes less: containers may share GPUs, and percent of what is not known yet. */
static struct account_sum least(const struct demand *d)
{
	struct account_sum sum = {0};

	for (size_t i = 0; i < d->n_containers; i++) {
		const struct demand_container *c = &d->containers[i];
		uint64_t bytes = c->amount * c->memory_mb * MB;

		sum.gpus = c->amount > sum.gpus ? c->amount : sum.gpus;
		sum.bytes = bytes > sum.bytes ? bytes : sum.bytes;
	}
	return sum;
}

int policy_use_check(struct policy_uses *u, const struct policy *p, struct slice namespace,
	struct demand *d, struct err *err)
{
	struct arena *a = &u->pool->arena;

	d->bound = policy_bound(p, a);
	if (a->failed || (policy_use_bounds(p) && !policy_use_of(u, p)))
		return err_set(err, ERR_NOMEM, "out of memory");
	if (policy_allows_launcher(p, d->launcher, err) < 0)
		return err->code;
	return policy_use_leaves(u, p, namespace, least(d), err);
}

static bool apply(struct policy_uses *u, struct queue_pod *pod, struct demand *d)
{
	const struct policy *p = NULL;
	struct err err = {0};

	if (policy_of(u->of, pod->namespace, &u->pool->arena, &p, &err) == 0 &&
		policy_use_check(u, p, pod->namespace, d, &err) == 0)
		pod->barred = (struct slice){0};
	else if (err.code == ERR_REFUSED)
		pod->barred = arena_slice(&u->pool->arena, slice_of(err.msg));
	else
		u->unknown = err;
	policy_order(p, pod);
	/* They are not alike any more where the policies differ. */
	if (d->bound)
		pod->asks = 0;
	return !u->pool->arena.failed;
}

bool policy_use_waiting(struct policy_uses *u)
{
	struct pool_read *pool = u->pool;
	size_t n = 0;

	/* pods are those that wait, in their order */
	for (size_t i = 0; u->of && i < pool->n_waiting; i++)
		if (!pool->waiting[i].let_go &&
			!apply(u, &pool->pods[n++], &pool->waiting[i].demand))
			return false;
	return true;
}

/* ---- said ---- */

static void say_list(const char *what, const char **names, size_t n, struct buf *out)
{
	for (size_t i = 0; i < n; i++)
		buf_fmt(out, "%s%s", i ? ", " : what, names[i]);
}

void policy_use_say(const struct policy_use *use, struct buf *out)
{
	const struct policy *p = use->policy;
	struct account_sum held = account_held(&use->account);

	buf_fmt(out, "the GPUPolicy %s: its namespaces hold %llu", p->name,
		(unsigned long long)held.gpus);
	if (p->gpus != UINT32_MAX)
		buf_fmt(out, " of %u", (unsigned)p->gpus);
	buf_fmt(out, " GPUs and %llu", (unsigned long long)(held.bytes / MB));
	if (p->bytes != UINT64_MAX)
		buf_fmt(out, " of %llu", (unsigned long long)(p->bytes / MB));
	buf_str(out, " MB");
	for (size_t i = 0; i < use->account.n_rows; i++)
		buf_fmt(out, "%s%s %llu", i ? ", " : " (GPUs: ", use->account.rows[i].namespace,
			(unsigned long long)use->account.rows[i].held.gpus);
	buf_str(out, use->account.n_rows ? ")" : "");
	if (p->waiting != UINT32_MAX)
		buf_fmt(out, "; %zu of %u pods wait", use->waiting, (unsigned)p->waiting);
	say_list("; launchers: ", p->launchers, p->n_launchers, out);
	say_list("; models: ", p->models, p->n_models, out);
	for (size_t i = 0; i < p->n_servers; i++)
		buf_fmt(out, "%s%s=%s", i ? ", " : "; servers with ", p->servers[i].key,
			p->servers[i].value);
	buf_char(out, '\n');
}

static void json_pair(
	struct buf *out, const char *key, uint64_t now, uint64_t allowed, uint64_t none)
{
	buf_fmt(out, ",\"%s\":{\"now\":%llu", key, (unsigned long long)now);
	if (allowed != none)
		buf_fmt(out, ",\"allowed\":%llu", (unsigned long long)allowed);
	buf_char(out, '}');
}

void policy_use_json(const struct policy_use *use, struct buf *out)
{
	const struct policy *p = use->policy;
	struct account_sum held = account_held(&use->account);

	buf_str(out, "{\"name\":");
	buf_json_str(out, slice_of(p->name));
	json_pair(out, "gpus", held.gpus, p->gpus, UINT32_MAX);
	json_pair(out, "bytes", held.bytes, p->bytes, UINT64_MAX);
	json_pair(out, "waiting", use->waiting, p->waiting, UINT32_MAX);
	buf_str(out, ",\"namespaces\":[");
	for (size_t i = 0; i < use->account.n_rows; i++) {
		const struct account_row *row = &use->account.rows[i];

		buf_str(out, i ? ",{\"namespace\":" : "{\"namespace\":");
		buf_json_str(out, slice_of(row->namespace));
		buf_fmt(out, ",\"gpus\":%llu,\"bytes\":%llu}", (unsigned long long)row->held.gpus,
			(unsigned long long)row->held.bytes);
	}
	buf_str(out, "]}");
}
