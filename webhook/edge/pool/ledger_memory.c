/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the ledger of a single process: deciding and taking under one mutex. */
#include "webhook/edge/pool/ledger_memory.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "webhook/core/policy/policy_account.h"
#include "webhook/core/pool/pool_state.h"
#include "webhook/edge/metrics/metrics.h"

/* How long a claim counts as one whose pod has not started. */
#define PENDING_MS 45000

struct ledger_memory {
	struct ledger base;
	struct metrics *metrics; /* or NULL */
	pthread_mutex_t lock;
	/* Guarded by lock: */
	struct pool_state pool;
	uint64_t last_ticket;
	int64_t ttl_ms;
};

static int lacks_room(struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory in the ledger");
}

static void end_claim(struct ledger_memory *m, struct claim_entry *e, enum metric_end why)
{
	if (m->metrics)
		metric_add(m->metrics, M_CLAIMS_ENDED, why, 0, 1);
	pool_state_end(&m->pool, e);
}

/* End what has outlived its time, and what vanished and lost its last claim. Called first by every
 * operation that looks at the pool, with the lock held. */
static void expire(struct ledger_memory *m)
{
	const struct claim_table *t = &m->pool.claims;
	int64_t now = clock_ms();

	while (m->ttl_ms > 0 && t->oldest && now - t->oldest->taken_ms >= m->ttl_ms)
		end_claim(m, t->oldest, END_EXPIRED);
	pool_state_prune(&m->pool);
}

/* A create lives at most 34 s in the API server (ledger rule R5), and no watch tells this process
 * more: what is older counts as started. Looked at where somebody is told about it, not at every
 * take. True when something changed. Lock held. */
static bool presume_started(struct ledger_memory *m)
{
	int64_t now = clock_ms();
	bool any = false;

	for (struct claim_entry *e = m->pool.claims.oldest; e && now - e->taken_ms >= PENDING_MS;
		e = e->newer) {
		if (e->claim.state != CLAIM_PENDING)
			continue;
		pool_state_start(&m->pool, e);
		any = true;
	}
	return any;
}

/* ---- a policy's caps (law P6): everything is counted at each take, so that no account can be
 * wrong ---- */

struct counting {
	const struct policy_source *policies;
	const struct policy *policy;
	struct arena *arena;
	struct account account; /* rows for the namespaces that pick the policy */
	const char *namespace;  /* of the last claim */
	bool counts;            /* it is one of these */
	int rc;
	struct err *err;
};

/* Without a policy, or with one that cannot be had, it is none of this one's. */
static bool picks(struct counting *n, const char *namespace)
{
	const struct policy *other = NULL;
	struct err ignored = {0};
	int rc = policy_of(n->policies, slice_of(namespace), n->arena, &other, &ignored);

	if (rc == ERR_NOMEM)
		n->rc = lacks_room(n->err);
	return rc == 0 && other && strcmp(other->name, n->policy->name) == 0;
}

/* Claims come in the order of their namespaces. */
static void count_one(void *ctx, const struct claim *c)
{
	struct counting *n = ctx;
	if (!n->namespace || strcmp(n->namespace, c->namespace) != 0) {
		n->namespace = c->namespace;
		n->counts = n->rc == 0 && picks(n, c->namespace);
		if (n->counts)
			n->account.rows[n->account.n_rows++] =
				(struct account_row){.namespace = c->namespace};
	}
	if (n->counts)
		account_sum_add(&n->account.rows[n->account.n_rows - 1].held, c);
}

/* Do the caps of the policy that the ask names leave what the claim holds? Lock held. ERR_REFUSED
 * as account_refuse says it, ERR_NOMEM. */
static int within_caps(struct ledger_memory *m, const struct claim_ask *ask, const struct claim *c,
	struct arena *a, struct err *err)
{
	struct counting n = {
		.policies = ask->policies, .policy = ask->policy, .arena = a, .err = err};
	struct account_ask wants = {.namespace = c->namespace};

	if (!policy_is_capped(ask->policy))
		return 0;
	account_sum_add(&wants.wants, c);
	n.account.rows = arena_array(a, m->pool.claims.n, sizeof(*n.account.rows));
	if (!n.account.rows)
		return lacks_room(err);
	claim_table_each(&m->pool.claims, count_one, &n);
	if (n.rc != 0 || account_fits(&n.account, ask->policy, wants.wants))
		return n.rc;
	return account_refuse(&n.account, ask->policy, &wants, err);
}

/* ---- take ---- */

/* The claim's identity by rule R1 and its names, in the arena. A review without either gets its key
 * when it is kept. */
static int identify(const struct claim_ask *ask, struct arena *a, struct claim *ret,
	enum key_kind *ret_kind, struct err *err)
{
	if (!claim_ask_bounded(ask))
		return err_set(err, ERR_INVALID,
			"found a pod whose uid, namespace or name none can have, expected at most "
			"128 printable characters of a uid and 253 of a name");
	ret->namespace = arena_strdup(a, ask->namespace);
	ret->name = arena_strdup(a, ask->name);
	if (!ret->namespace || !ret->name)
		return lacks_room(err);
	if (ask->uid.len) {
		*ret_kind = KEY_UID;
		ret->key = arena_strdup(a, ask->uid);
	} else if (ask->name.len) {
		*ret_kind = KEY_NAME;
		ret->key = arena_fmt(a, "%s/%s", ret->namespace, ret->name);
	} else {
		*ret_kind = KEY_REVIEW;
		ret->key = "";
	}
	return ret->key ? 0 : lacks_room(err);
}

static int check_deadline(const struct claim_ask *ask, struct err *err)
{
	if (ask->deadline_ms == 0 || clock_ms() < ask->deadline_ms)
		return 0;
	return err_set(
		err, ERR_TIMEOUT, "the review's deadline passed before the ledger could answer");
}

/* Holds of the inventory as parts by name, in the arena. */
static int name_parts(const struct inventory *inv, const struct placement *p, struct arena *a,
	struct claim *c, struct err *err)
{
	c->n_parts = p->n_holds;
	c->parts = arena_array(a, p->n_holds, sizeof(*c->parts));
	for (size_t i = 0; c->parts && i < p->n_holds; i++) {
		const struct gpu_server *server = &inv->servers[p->holds[i].server];

		c->parts[i].server = arena_strdup(a, slice_of(server->name));
		c->parts[i].gpu = arena_strdup(a, slice_of(server->gpus[p->holds[i].gpu].id));
		c->parts[i].bytes = p->holds[i].bytes;
	}
	return a->failed ? lacks_room(err) : 0;
}

/* Store a decided claim. */
static int keep(struct ledger_memory *m, struct claim *c, enum key_kind kind, struct arena *a,
	uint64_t *ret_ticket, struct err *err)
{
	uint64_t ticket = m->last_ticket + 1;
	int rc;

	if (kind == KEY_REVIEW)
		c->key = arena_fmt(a, "review-%llu", (unsigned long long)ticket);
	if (!c->key)
		return lacks_room(err);
	c->since_ms = clock_wall_ms();
	c->state = CLAIM_PENDING;
	rc = pool_state_add(&m->pool, c, kind, ticket, clock_ms(), err);
	if (rc == 0)
		*ret_ticket = m->last_ticket = ticket;
	return rc;
}

/* Answer from a claim that is there. A uid has one pod, so this holds for another demand as well.
 */
static int answer(struct ledger_memory *m, struct claim_entry *e, bool dry_run, struct arena *a,
	struct claim_answer *ret, struct err *err)
{
	struct claim_part *parts = claim_parts_copy(&e->claim, a);

	if (!parts)
		return lacks_room(err);
	if (!dry_run) {
		/* A second allowed reply may rest on the claim from here on, and its review has no
		 * ticket. So whatever becomes of the first review, its undo must not end the claim:
		 * without the ticket it cannot. If the second reply is lost, the claim stays until
		 * it is released: too long rather than promised twice. */
		claim_table_forget_ticket(&m->pool.claims, e);
		claim_table_renew(&m->pool.claims, e, clock_ms());
	}
	*ret = (struct claim_answer){.parts = parts, .n_parts = e->claim.n_parts};
	return 0;
}

static int take_locked(struct ledger_memory *m, const struct claim_ask *ask, struct claim *c,
	enum key_kind kind, struct arena *a, struct claim_answer *ret, struct err *err)
{
	const struct inventory *inv;
	struct usage use;
	struct placement p;
	struct claim_entry *e;
	uint64_t ticket = 0;
	int rc;

	expire(m);
	e = kind == KEY_REVIEW ? NULL : claim_table_by_key(&m->pool.claims, kind, c->key);
	if (e)
		return answer(m, e, ask->dry_run, a, ret, err);
	inv = pool_state_inventory(&m->pool);
	use = pool_state_usage(&m->pool);
	rc = placement_find(inv, &use, ask->demand, a, &p, err);
	if (rc == ERR_REFUSED && presume_started(m))
		rc = placement_find(inv, &use, ask->demand, a, &p, err);
	if (rc == 0)
		rc = name_parts(inv, &p, a, c, err);
	if (rc == 0)
		rc = within_caps(m, ask, c, a, err);
	if (rc == 0)
		rc = check_deadline(ask, err);
	if (rc == 0 && !ask->dry_run)
		rc = keep(m, c, kind, a, &ticket, err);
	if (rc == 0)
		*ret = (struct claim_answer){
			.parts = c->parts, .n_parts = c->n_parts, .ticket = ticket};
	return rc;
}

static int memory_take(struct ledger *l, const struct claim_ask *ask, struct arena *a,
	struct claim_answer *ret, struct err *err)
{
	struct ledger_memory *m = (struct ledger_memory *)l;
	struct claim c = {.plan_hash = ask->plan_hash};
	enum key_kind kind = KEY_REVIEW;
	int rc = identify(ask, a, &c, &kind, err);

	if (rc != 0)
		return rc;
	pthread_mutex_lock(&m->lock);
	rc = check_deadline(ask, err);
	if (rc == 0)
		rc = take_locked(m, ask, &c, kind, a, ret, err);
	pthread_mutex_unlock(&m->lock);
	return rc;
}

/* ---- undo, release ---- */

static void memory_undo(struct ledger *l, uint64_t ticket)
{
	struct ledger_memory *m = (struct ledger_memory *)l;
	struct claim_entry *e;

	if (ticket == 0)
		return;
	pthread_mutex_lock(&m->lock);
	e = claim_table_by_ticket(&m->pool.claims, ticket);
	if (e)
		end_claim(m, e, END_UNSENT);
	pthread_mutex_unlock(&m->lock);
}

/* End the claim of that key, of whatever kind; how many it was. */
static size_t release_key(struct ledger_memory *m, const char *key)
{
	static const enum key_kind kinds[] = {KEY_UID, KEY_NAME, KEY_REVIEW};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		struct claim_entry *e = claim_table_by_key(&m->pool.claims, kinds[i], key);

		if (e) {
			end_claim(m, e, END_RELEASED);
			return 1;
		}
	}
	return 0;
}

static size_t release_pod(struct ledger_memory *m, const char *namespace, const char *name)
{
	struct claim_entry *e;
	size_t n = 0;

	while ((e = claim_table_by_pod(&m->pool.claims, namespace, name))) {
		end_claim(m, e, END_RELEASED);
		n++;
	}
	return n;
}

static int memory_release(struct ledger *l, struct slice uid, struct slice namespace,
	struct slice name, size_t *ret_n, struct err *err)
{
	struct ledger_memory *m = (struct ledger_memory *)l;
	char *key = strndup(uid.at ? uid.at : "", uid.len);
	char *ns = strndup(namespace.at ? namespace.at : "", namespace.len);
	char *pod = strndup(name.at ? name.at : "", name.len);
	size_t n = 0;
	int rc = 0;

	if (!key || !ns || !pod) {
		rc = lacks_room(err);
		goto out;
	}
	pthread_mutex_lock(&m->lock);
	expire(m);
	n = uid.len ? release_key(m, key) : release_pod(m, ns, pod);
	pthread_mutex_unlock(&m->lock);
	if (n)
		*ret_n = n;
	else if (uid.len)
		rc = err_set(err, ERR_NOTFOUND, "no claim has the uid %s", key);
	else
		rc = err_set(err, ERR_NOTFOUND, "no claim belongs to pod %s/%s", ns, pod);
out:
	free(key);
	free(ns);
	free(pod);
	return rc;
}

/* ---- what it tells of its claims ---- */

static void memory_count(struct ledger *l, size_t ret[CLAIM_STATES])
{
	struct ledger_memory *m = (struct ledger_memory *)l;

	memset(ret, 0, CLAIM_STATES * sizeof(*ret));
	pthread_mutex_lock(&m->lock);
	expire(m);
	presume_started(m);
	for (const struct claim_entry *e = m->pool.claims.oldest; e; e = e->newer)
		ret[e->claim.state]++;
	pthread_mutex_unlock(&m->lock);
}

static int memory_view(
	struct ledger *l, bool with_claims, struct arena *a, struct pool_view *ret, struct err *err)
{
	struct ledger_memory *m = (struct ledger_memory *)l;

	pthread_mutex_lock(&m->lock);
	expire(m);
	presume_started(m);
	pool_state_view(&m->pool, with_claims, a, ret);
	pthread_mutex_unlock(&m->lock);
	return a->failed ? lacks_room(err) : 0;
}

/* ---- life ---- */

static const struct ledger_ops memory_ops = {
	.take = memory_take,
	.undo = memory_undo,
	.release = memory_release,
	.count = memory_count,
	.view = memory_view,
};

struct ledger *ledger_memory_new(int64_t claim_ttl_ms)
{
	struct ledger_memory *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->base.ops = &memory_ops;
	m->base.ends_by_review = true;
	m->ttl_ms = claim_ttl_ms;
	if (!pool_state_set(&m->pool, &(const struct inventory){0}) ||
		pthread_mutex_init(&m->lock, NULL) != 0) {
		pool_state_release(&m->pool);
		free(m);
		return NULL;
	}
	return &m->base;
}

void ledger_memory_free(struct ledger *l)
{
	struct ledger_memory *m = (struct ledger_memory *)l;

	if (!m)
		return;
	pool_state_release(&m->pool);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

void ledger_memory_tell(struct ledger *l, struct metrics *metrics)
{
	((struct ledger_memory *)l)->metrics = metrics;
}

int ledger_memory_set_inventory(struct ledger *l, const struct inventory *inv, struct err *err)
{
	struct ledger_memory *m = (struct ledger_memory *)l;
	bool done;

	pthread_mutex_lock(&m->lock);
	expire(m);
	done = pool_state_set(&m->pool, inv);
	pthread_mutex_unlock(&m->lock);
	return done ? 0 : lacks_room(err);
}

void ledger_memory_set_ttl(struct ledger *l, int64_t claim_ttl_ms)
{
	struct ledger_memory *m = (struct ledger_memory *)l;

	pthread_mutex_lock(&m->lock);
	m->ttl_ms = claim_ttl_ms;
	pthread_mutex_unlock(&m->lock);
}
