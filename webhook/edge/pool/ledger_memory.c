/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the ledger of a single process: deciding and taking under one mutex. */
#include "webhook/edge/pool/ledger_memory.h"

#include <stdlib.h>

#include "base/clock.h"
#include "webhook/edge/metrics/metrics.h"
#include "webhook/edge/pool/ledger_memory_impl.h"

/* How long a claim counts as one whose pod has not started. */
#define PENDING_MS 45000

int memory_lacks_room(struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory in the ledger");
}

/* Put another picture in force and count every claim into it. */
static void replace(struct ledger_memory *m, struct snapshot *fresh)
{
	for (struct claim_entry *e = m->claims.oldest; e; e = e->newer)
		/* Cannot fail: what is claimed is kept as missing. */
		if (snapshot_locate(fresh, &e->claim, e->places))
			snapshot_count(fresh, &e->claim, e->places, true);
	snapshot_free(m->now);
	m->now = fresh;
}

/* Drop missing GPUs that nobody claims any more. Without memory they stay a little longer, which
 * harms nobody. */
static void prune(struct ledger_memory *m)
{
	struct snapshot *fresh;

	if (!snapshot_stale(m->now))
		return;
	fresh = snapshot_new(&m->now->declared, m->now);
	if (fresh)
		replace(m, fresh);
}

static void end_claim(struct ledger_memory *m, struct claim_entry *e, enum metric_end why)
{
	if (m->metrics)
		metric_add(m->metrics, M_CLAIMS_ENDED, why, 0, 1);
	snapshot_count(m->now, &e->claim, e->places, false);
	claim_table_remove(&m->claims, e);
}

void memory_expire(struct ledger_memory *m)
{
	int64_t now = clock_ms();
	bool any = false;

	while (m->ttl_ms > 0 && m->claims.oldest && now - m->claims.oldest->taken_ms >= m->ttl_ms) {
		end_claim(m, m->claims.oldest, END_EXPIRED);
		any = true;
	}
	if (any)
		prune(m);
}

bool memory_presume_started(struct ledger_memory *m)
{
	int64_t now = clock_ms();
	bool any = false;

	for (struct claim_entry *e = m->claims.oldest; e && now - e->taken_ms >= PENDING_MS;
		e = e->newer) {
		if (e->claim.state != CLAIM_PENDING)
			continue;
		snapshot_count(m->now, &e->claim, e->places, false);
		e->claim.state = CLAIM_BOUND;
		snapshot_count(m->now, &e->claim, e->places, true);
		any = true;
	}
	return any;
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
		return memory_lacks_room(err);
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
	return ret->key ? 0 : memory_lacks_room(err);
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
	return a->failed ? memory_lacks_room(err) : 0;
}

/* Store a decided claim. */
static int keep(struct ledger_memory *m, struct claim *c, enum key_kind kind, struct arena *a,
	uint64_t *ret_ticket, struct err *err)
{
	uint64_t ticket = m->last_ticket + 1;
	struct claim_entry *e;

	if (kind == KEY_REVIEW)
		c->key = arena_fmt(a, "review-%llu", (unsigned long long)ticket);
	c->since_ms = clock_wall_ms();
	c->state = CLAIM_PENDING;
	e = c->key ? claim_entry_new(c, kind) : NULL;
	if (!e)
		return memory_lacks_room(err);
	e->ticket = ticket;
	e->taken_ms = clock_ms();
	if (!snapshot_locate(m->now, &e->claim, e->places)) {
		free(e);
		return err_set(err, ERR_INTERNAL, "the ledger chose a GPU that it does not know");
	}
	if (!claim_table_insert(&m->claims, e)) {
		free(e);
		return memory_lacks_room(err);
	}
	snapshot_count(m->now, &e->claim, e->places, true);
	*ret_ticket = m->last_ticket = ticket;
	return 0;
}

/* Answer from a claim that is there. A uid has one pod, so this holds for another demand as well.
 */
static int answer(struct ledger_memory *m, struct claim_entry *e, bool dry_run, struct arena *a,
	struct claim_answer *ret, struct err *err)
{
	struct claim_part *parts = claim_parts_copy(&e->claim, a);

	if (!parts)
		return memory_lacks_room(err);
	if (!dry_run) {
		/* A second allowed reply may rest on the claim from here on, and its review has no
		 * ticket. So whatever becomes of the first review, its undo must not end the claim:
		 * without the ticket it cannot. If the second reply is lost, the claim stays until
		 * it is released: too long rather than promised twice. */
		claim_table_forget_ticket(&m->claims, e);
		claim_table_renew(&m->claims, e, clock_ms());
	}
	*ret = (struct claim_answer){.parts = parts, .n_parts = e->claim.n_parts};
	return 0;
}

static int take_locked(struct ledger_memory *m, const struct claim_ask *ask, struct claim *c,
	enum key_kind kind, struct arena *a, struct claim_answer *ret, struct err *err)
{
	struct usage use;
	struct placement p;
	struct claim_entry *e;
	uint64_t ticket = 0;
	int rc;

	memory_expire(m);
	e = kind == KEY_REVIEW ? NULL : claim_table_by_key(&m->claims, kind, c->key);
	if (e)
		return answer(m, e, ask->dry_run, a, ret, err);
	use = snapshot_usage(m->now);
	rc = placement_find(&m->now->inv, &use, ask->demand, a, &p, err);
	if (rc == ERR_REFUSED && memory_presume_started(m))
		rc = placement_find(&m->now->inv, &use, ask->demand, a, &p, err);
	if (rc == 0)
		rc = name_parts(&m->now->inv, &p, a, c, err);
	if (rc == 0)
		rc = memory_within_caps(m, ask, c, a, err);
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

/* ---- undo, release, view ---- */

static void memory_undo(struct ledger *l, uint64_t ticket)
{
	struct ledger_memory *m = (struct ledger_memory *)l;
	struct claim_entry *e;

	if (ticket == 0)
		return;
	pthread_mutex_lock(&m->lock);
	e = claim_table_by_ticket(&m->claims, ticket);
	if (e) {
		end_claim(m, e, END_UNSENT);
		prune(m);
	}
	pthread_mutex_unlock(&m->lock);
}

/* End the claim of that key, of whatever kind; how many it was. */
static size_t release_key(struct ledger_memory *m, const char *key)
{
	static const enum key_kind kinds[] = {KEY_UID, KEY_NAME, KEY_REVIEW};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		struct claim_entry *e = claim_table_by_key(&m->claims, kinds[i], key);

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

	while ((e = claim_table_by_pod(&m->claims, namespace, name))) {
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
		rc = memory_lacks_room(err);
		goto out;
	}
	pthread_mutex_lock(&m->lock);
	memory_expire(m);
	n = uid.len ? release_key(m, key) : release_pod(m, ns, pod);
	if (n)
		prune(m);
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
	const struct inventory empty = {0};
	struct ledger_memory *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->base.ops = &memory_ops;
	m->base.ends_by_review = true;
	m->ttl_ms = claim_ttl_ms;
	m->now = snapshot_new(&empty, NULL);
	if (!m->now || pthread_mutex_init(&m->lock, NULL) != 0) {
		snapshot_free(m->now);
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
	claim_table_release(&m->claims);
	snapshot_free(m->now);
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
	struct snapshot *fresh;

	pthread_mutex_lock(&m->lock);
	memory_expire(m);
	fresh = snapshot_new(inv, m->now);
	if (fresh)
		replace(m, fresh);
	pthread_mutex_unlock(&m->lock);
	return fresh ? 0 : memory_lacks_room(err);
}

void ledger_memory_set_ttl(struct ledger *l, int64_t claim_ttl_ms)
{
	struct ledger_memory *m = (struct ledger_memory *)l;

	pthread_mutex_lock(&m->lock);
	m->ttl_ms = claim_ttl_ms;
	pthread_mutex_unlock(&m->lock);
}
