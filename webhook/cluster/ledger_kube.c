// SPDX-License-Identifier: Apache-2.0
// cluster: the shared ledger: decide by the picture, reserve, commit on each server by compare-and-swap.
#include "webhook/cluster/ledger_kube.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "webhook/cluster/ledger_kube_impl.h"

/* How long a review waits for others' commits before it looks again. */
#define LOOK_AGAIN_MS 50

/* One review's way to its claim. */
struct take {
	struct ledger_kube *l;
	const struct claim_ask *ask;
	struct arena *arena;
	struct arena scratch; /* for one decision: a review that waits makes many */
	const char *uid, *namespace, *name;
	uint64_t ticket;
	bool fresh; /* the picture holds a list that was begun after the review came */
	/* Rule R6: a bound claim of the pod that had this name before; its pod is gone. NULL: none known. */
	const char *replaces;
	bool asked_for_old;
	bool half;                    /* this uid holds a half claim: what the next one replaces */
	struct claim_record *records; /* one for each server, in name order */
	struct reservation *reserved;
	size_t n;
};

static int no_memory(struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory in the ledger");
}

/* Nobody can say whether a byte is free: no. Another try by whoever created the pod heals it. */
static int away(struct err *err)
{
	struct err why = *err;

	return err_reason(err, ERR_REFUSED, "ApiServerAway",
		"the ledger of the GPU pool, which lives in the cluster's GPUServer objects, could "
		"not be "
		"reached in time; nothing is held, create the pod again (%s)",
		why.msg[0] ? why.msg : "no answer");
}

/* ---- what is there ---- */

/* The claim that uid holds, gathered from all servers. */
struct found {
	struct claim_part *parts;
	size_t n;
	size_t servers; /* on which it was found */
	size_t expected;
	const char **names;
};

/* Lock held. False: none, or a half one (rule R1). */
static bool find_claim(const struct take *t, struct found *ret)
{
	const struct servers *s = t->l->servers;

	*ret = (struct found){0};
	for (size_t i = 0; i < s->n; i++) {
		const struct held *h = s->entries[i]->held;
		ptrdiff_t at = h ? server_status_claim(&h->object.status, slice_of(t->uid)) : -1;
		const struct claim_record *r;
		struct claim_part *parts;

		if (at < 0)
			continue;
		r = &h->object.status.claims[at];
		parts = arena_array(t->arena, ret->n + r->claim.n_parts, sizeof(*parts));
		if (!parts)
			return false;
		if (ret->n)
			memcpy(parts, ret->parts, ret->n * sizeof(*parts));
		for (size_t k = 0; k < r->claim.n_parts; k++)
			parts[ret->n + k] = (struct claim_part){
				.server = arena_strdup(t->arena, slice_of(h->object.name)),
				.gpu = arena_strdup(t->arena, slice_of(r->claim.parts[k].gpu)),
				.bytes = r->claim.parts[k].bytes};
		ret->parts = parts;
		ret->n += r->claim.n_parts;
		ret->servers++;
		ret->expected = r->n_servers;
	}
	return ret->servers > 0 && ret->servers == ret->expected && !t->arena->failed;
}

/* Servers of the parts, each once: parts of one server stand together. */
static size_t server_names(struct take *t, const struct found *f, const char ***ret)
{
	size_t n = 0;

	*ret = arena_array(t->arena, f->servers, sizeof(**ret));
	for (size_t i = 0; *ret && i < f->n; i++)
		if (n == 0 || strcmp((*ret)[n - 1], f->parts[i].server) != 0)
			(*ret)[n++] = f->parts[i].server;
	return n;
}

/* A second reply is about to rest on the claim: from now on the first review's undo must not end it. */
static enum edit_result retake(
	void *ctx, struct server_object *o, bool again, struct arena *a, struct err *err)
{
	const struct take *t = ctx;
	ptrdiff_t i = server_status_claim(&o->status, slice_of(t->uid));

	(void)again;
	(void)a;
	if (i < 0) {
		err_set(err, ERR_CONFLICT, "the claim of %s ended meanwhile", t->uid);
		return EDIT_GIVE_UP;
	}
	if (o->status.claims[i].take == t->ticket)
		return EDIT_SAME;
	o->status.claims[i].take = t->ticket;
	return EDIT_CHANGED;
}

/* ---- decide ---- */

/* The placement as records, one for each server; reserved at once. Lock held. */
static int reserve(struct take *t, const struct placement *p, struct err *err)
{
	struct servers *s = t->l->servers;
	const char **names = arena_array(t->arena, p->n_holds, sizeof(*names));

	t->n = 0;
	t->records = arena_array(t->arena, p->n_holds, sizeof(*t->records));
	t->reserved = arena_array(t->arena, p->n_holds, sizeof(*t->reserved));
	if (!names || !t->records || !t->reserved)
		return no_memory(err);
	for (size_t i = 0; i < p->n_holds; i++) {
		const struct gpu_server *server = &s->inv.servers[p->holds[i].server];
		struct claim_record *r;

		if (i == 0 || p->holds[i].server != p->holds[i - 1].server) {
			r = &t->records[t->n];
			*r = (struct claim_record){
				.claim = {.key = t->uid,
					.namespace = t->namespace,
					.name = t->name,
					.state = CLAIM_PENDING,
					.plan_hash = t->ask->plan_hash,
					.since_ms = clock_wall_ms(),
					.parts = arena_array(
						t->arena, server->n_gpus, sizeof(*r->claim.parts))},
				.take = t->ticket,
				.servers = names};
			names[t->n++] = arena_strdup(t->arena, slice_of(server->name));
		}
		r = &t->records[t->n - 1];
		if (t->arena->failed)
			return no_memory(err);
		r->claim.parts[r->claim.n_parts++] = (struct claim_part){.server = names[t->n - 1],
			.gpu = arena_strdup(t->arena, slice_of(server->gpus[p->holds[i].gpu].id)),
			.bytes = p->holds[i].bytes};
	}
	if (t->arena->failed)
		return no_memory(err);
	for (size_t i = 0; i < t->n; i++) {
		struct server_entry *e = servers_find(s, names[i]);

		t->records[i].n_servers = t->n;
		t->reserved[i] = (struct reservation){.next = e->reserved, .claim = &t->records[i]};
		e->reserved = &t->reserved[i];
		s->n_reserved++;
		servers_recount(s, e);
	}
	return 0;
}

/* Lock held. */
static void unreserve(struct take *t)
{
	struct servers *s = t->l->servers;

	for (size_t i = 0; i < t->n; i++) {
		struct server_entry *e = servers_find(s, t->records[i].servers[i]);
		struct reservation **at = e ? &e->reserved : NULL;

		while (at && *at && *at != &t->reserved[i])
			at = &(*at)->next;
		if (!at || !*at)
			continue;
		*at = (*at)->next;
		s->n_reserved--;
		servers_recount(s, e);
	}
	t->n = 0;
	(void)pthread_cond_broadcast(&s->cond);
}

/* Take what uid holds out of the sums. Lock held. */
static void subtract(const struct servers *s, const char *uid, uint64_t *sums)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct held *h = s->entries[i]->held;
		ptrdiff_t at = h ? server_status_claim(&h->object.status, slice_of(uid)) : -1;
		const struct claim *c;

		if (at < 0)
			continue;
		c = &h->object.status.claims[at].claim;
		for (size_t k = 0; k < c->n_parts; k++) {
			ptrdiff_t g =
				server_status_gpu(&h->object.status, slice_of(c->parts[k].gpu));
			uint64_t *sum =
				g < 0 ? NULL
				      : &sums[s->inv.servers[s->entries[i]->index].first_gpu +
						(size_t)g];

			if (sum)
				*sum -= c->parts[k].bytes < *sum ? c->parts[k].bytes : *sum;
		}
	}
}

/* The picture without what this claim replaces. Lock held; NULL: out of memory. */
static uint64_t *without_old(struct take *t, const uint64_t *claimed)
{
	const struct servers *s = t->l->servers;
	uint64_t *sums = arena_array(&t->scratch, s->inv.n_gpus, sizeof(*sums));

	if (!sums || s->inv.n_gpus == 0)
		return sums;
	memcpy(sums, claimed, s->inv.n_gpus * sizeof(*sums));
	if (t->half)
		subtract(s, t->uid, sums);
	if (t->replaces)
		subtract(s, t->replaces, sums);
	return sums;
}

/* A bound claim of another pod of this name (rule R6). Lock held; its uid in the arena, or NULL. */
static const char *old_of_name(const struct take *t)
{
	const struct servers *s = t->l->servers;

	for (size_t i = 0; i < s->n; i++) {
		const struct held *h = s->entries[i]->held;

		for (size_t k = 0; h && k < h->object.status.n_claims; k++) {
			const struct claim *c = &h->object.status.claims[k].claim;

			if (c->state != CLAIM_PENDING && strcmp(c->name, t->name) == 0 &&
				strcmp(c->namespace, t->namespace) == 0 &&
				strcmp(c->key, t->uid) != 0)
				return arena_strdup(t->arena, slice_of(c->key));
		}
	}
	return NULL;
}

/* Without the lock: is there no pod of this name, past every cache? */
static bool name_is_free(const struct take *t)
{
	struct buf path;
	struct err err = {0};
	int64_t left = t->ask->deadline_ms ? t->ask->deadline_ms - servers_now_ms() : TAKE_MS;
	int rc;

	buf_init(&path, 2048);
	kube_path(&path, "/api/v1", t->namespace, "pods", t->name, NULL);
	rc = path.failed || left <= 0 ? ERR_TIMEOUT
				      : kube_get(t->l->kube, path.data, left, NULL, &err);
	buf_release(&path);
	return rc == ERR_NOTFOUND;
}

enum next { NEXT_COMMIT, NEXT_DECIDE, NEXT_DONE };

/* Refused by the picture as it is: is that final? Lock held, and let go meanwhile. */
static enum next refused(struct take *t, int64_t deadline_ms, int *rc, struct err *err)
{
	struct servers *s = t->l->servers;
	struct usage committed = servers_usage(s, false);
	struct placement p;
	struct err why = {0};

	if (!t->fresh) {
		(void)pthread_mutex_unlock(&s->lock);
		*rc = servers_refresh(s, deadline_ms, &why);
		(void)pthread_mutex_lock(&s->lock);
		t->fresh = true;
		if (*rc == 0)
			return NEXT_DECIDE;
		*err = why;
		*rc = *rc == ERR_NOMEM ? ERR_NOMEM : away(err);
		return NEXT_DONE;
	}
	/* What others on this replica are about to commit may yet come to nothing: no refusal rests on it. */
	if (s->n_reserved &&
		placement_find(&s->inv, &committed, t->ask->demand, &t->scratch, &p, &why) == 0 &&
		servers_now_ms() < deadline_ms) {
		int64_t until = servers_now_ms() + LOOK_AGAIN_MS;

		(void)servers_wait(s, until < deadline_ms ? until : deadline_ms);
		return NEXT_DECIDE;
	}
	if (!t->asked_for_old) {
		const char *old = old_of_name(t);

		t->asked_for_old = true;
		if (old) {
			(void)pthread_mutex_unlock(&s->lock);
			if (name_is_free(t))
				t->replaces = old;
			(void)pthread_mutex_lock(&s->lock);
			if (t->replaces)
				return NEXT_DECIDE;
		}
	}
	return NEXT_DONE;
}

/* Find GPUs and reserve them. Lock held, and let go meanwhile. */
static enum next decide(struct take *t, int64_t deadline_ms, int *rc, struct err *err)
{
	struct servers *s = t->l->servers;
	struct usage use = servers_usage(s, true);
	struct placement p;

	err_clear(err);
	arena_reset(&t->scratch);
	if (!s->synced) {
		*rc = err_reason(err, ERR_REFUSED, "ApiServerAway",
			"this replica has not read the GPU pool yet; create the pod again");
		return NEXT_DONE;
	}
	if (t->half || t->replaces)
		use.claimed = without_old(t, use.claimed);
	*rc = use.claimed || s->inv.n_gpus == 0
		      ? placement_find(&s->inv, &use, t->ask->demand, &t->scratch, &p, err)
		      : no_memory(err);
	if (*rc == ERR_REFUSED)
		return refused(t, deadline_ms, rc, err);
	if (*rc == 0)
		*rc = reserve(t, &p, err);
	return *rc == 0 ? NEXT_COMMIT : NEXT_DONE;
}

/* ---- commit ---- */

struct add {
	const struct take *t;
	const struct claim_record *record;
	uint64_t base; /* the version that the last write follows; 0: none was begun */
};

static enum edit_result add_claim(
	void *ctx, struct server_object *o, bool again, struct arena *a, struct err *err)
{
	struct add *add = ctx;
	const struct take *t = add->t;
	ptrdiff_t i = server_status_claim(&o->status, slice_of(t->uid));
	const char *out = i >= 0 ? t->uid : t->replaces;

	(void)again;
	if (i >= 0 && o->status.claims[i].take == add->record->take)
		return EDIT_SAME;
	if (server_claim_fits(o, &add->record->claim, slice_of(out), err) != 0)
		return EDIT_GIVE_UP;
	i = out ? server_status_claim(&o->status, slice_of(out)) : -1;
	if (i >= 0)
		server_status_remove_claim(&o->status, (size_t)i);
	if (!server_status_add_claim(&o->status, add->record, a)) {
		err_set(err, ERR_NOMEM, "out of memory in the ledger");
		return EDIT_GIVE_UP;
	}
	add->base = kube_version_number(slice_of(o->version));
	return EDIT_CHANGED;
}

/* Without the lock: each server in the order of names. When one fails the parts are taken back later. */
static int commit_all(struct take *t, int64_t deadline_ms, struct err *err)
{
	const char *const *names = t->records[0].servers;
	struct add add;
	size_t i;
	int rc = 0;

	for (i = 0; rc == 0 && i < t->n; i++) {
		add = (struct add){.t = t, .record = &t->records[i]};
		rc = servers_edit(t->l->servers, names[i], add_claim, &add, deadline_ms, err);
	}
	if (rc == 0)
		return 0;
	/* The last one was not confirmed: it may stand all the same, or stand soon. */
	i--;
	if (add.base)
		take_back_later(t->l, t->uid, t->ticket, names[i], add.base);
	while (i-- > 0)
		take_back_later(t->l, t->uid, t->ticket, names[i], 0);
	return rc;
}

static int all_parts(struct take *t, struct claim_answer *ret, struct err *err)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		n += t->records[i].claim.n_parts;
	ret->parts = arena_array(t->arena, n, sizeof(*ret->parts));
	if (!ret->parts)
		return no_memory(err);
	ret->n_parts = 0;
	for (size_t i = 0; i < t->n; i++)
		for (size_t k = 0; k < t->records[i].claim.n_parts; k++)
			ret->parts[ret->n_parts++] = t->records[i].claim.parts[k];
	return 0;
}

/* The claim stands already: answer from it, as the one that it rests on now. Lock held, and let go meanwhile. */
static int answer_from(struct take *t, const struct found *f, int64_t deadline_ms,
	struct claim_answer *ret, struct err *err)
{
	struct servers *s = t->l->servers;
	const char **names;
	size_t n = server_names(t, f, &names);
	int rc = 0;

	if (!names)
		return no_memory(err);
	*ret = (struct claim_answer){.parts = f->parts, .n_parts = f->n};
	if (t->ask->dry_run)
		return 0;
	(void)pthread_mutex_unlock(&s->lock);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = servers_edit(s, names[i], retake, t, deadline_ms, err);
	(void)pthread_mutex_lock(&s->lock);
	return rc;
}

static bool one_is_unreadable(const struct take *t)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct server_entry *e =
			servers_find(t->l->servers, t->records[i].servers[i]);

		if (e && e->unreadable)
			return true;
	}
	return false;
}

/* One try. Lock held, and let go meanwhile. NEXT_DECIDE: try again. */
static enum next try_once(
	struct take *t, int64_t deadline_ms, int *rc, struct claim_answer *ret, struct err *err)
{
	struct servers *s = t->l->servers;
	struct found f;
	enum next next;

	if (find_claim(t, &f)) {
		*rc = answer_from(t, &f, deadline_ms, ret, err);
		return *rc == ERR_CONFLICT || *rc == ERR_NOTFOUND ? NEXT_DECIDE : NEXT_DONE;
	}
	t->half = f.servers > 0;
	next = decide(t, deadline_ms, rc, err);
	if (next != NEXT_COMMIT)
		return next;
	*rc = all_parts(t, ret, err);
	if (*rc != 0 || t->ask->dry_run) {
		unreserve(t);
		return NEXT_DONE;
	}
	(void)pthread_mutex_unlock(&s->lock);
	*rc = commit_all(t, deadline_ms, err);
	(void)pthread_mutex_lock(&s->lock);
	/* Somebody broke a server's status a moment ago; others may do. */
	if (*rc == ERR_INVALID && one_is_unreadable(t))
		*rc = ERR_CONFLICT;
	unreserve(t);
	if (*rc == 0) {
		ret->ticket = t->ticket;
		return NEXT_DONE;
	}
	return *rc == ERR_CONFLICT || *rc == ERR_NOTFOUND ? NEXT_DECIDE : NEXT_DONE;
}

static int kube_take(struct ledger *base, const struct claim_ask *ask, struct arena *a,
	struct claim_answer *ret, struct err *err)
{
	struct ledger_kube *l = (struct ledger_kube *)base;
	struct take t = {.l = l, .ask = ask, .arena = a};
	int64_t deadline = ask->deadline_ms ? ask->deadline_ms : servers_now_ms() + TAKE_MS;
	enum next next = NEXT_DECIDE;
	int rc = 0;

	if (ask->uid.len == 0)
		return err_set(err, ERR_INVALID,
			"found a pod without metadata.uid, expected the validating review of an "
			"API "
			"server: in a cluster claims are kept by the pod's uid");
	t.uid = arena_strdup(a, ask->uid);
	t.namespace = arena_strdup(a, ask->namespace);
	t.name = arena_strdup(a, ask->name);
	if (!t.uid || !t.namespace || !t.name)
		return no_memory(err);
	*ret = (struct claim_answer){0};
	arena_init(&t.scratch, a->max);
	(void)pthread_mutex_lock(&l->servers->lock);
	while (next == NEXT_DECIDE) {
		/* Each try is another take, so that what takes one back cannot end the next. */
		t.ticket = l->replica | (atomic_fetch_add(&l->last, 1) + 1);
		if (servers_now_ms() >= deadline) {
			rc = err_set(
				err, ERR_TIMEOUT, "the deadline passed while others were first");
			break;
		}
		next = try_once(&t, deadline, &rc, ret, err);
	}
	(void)pthread_mutex_unlock(&l->servers->lock);
	arena_release(&t.scratch);
	/* ERR_INVALID: the API server takes no such status, which is nothing that the pod's user could mend. */
	if (rc == ERR_TIMEOUT || rc == ERR_IO || rc == ERR_INVALID)
		rc = away(err);
	return rc;
}

/* ---- view ---- */

static int by_pod(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;
	int c = strcmp(x->namespace, y->namespace);

	if (c == 0)
		c = strcmp(x->name, y->name);
	return c ? c : strcmp(x->key, y->key);
}

/* A copy of a server's part of a claim. */
static void copy_claim(
	const struct held *h, const struct claim *c, struct arena *a, struct claim *to)
{
	*to = *c;
	to->key = arena_strdup(a, slice_of(c->key));
	to->namespace = arena_strdup(a, slice_of(c->namespace));
	to->name = arena_strdup(a, slice_of(c->name));
	to->parts = arena_array(a, c->n_parts, sizeof(*to->parts));
	for (size_t i = 0; to->parts && i < c->n_parts; i++)
		to->parts[i] =
			(struct claim_part){.server = arena_strdup(a, slice_of(h->object.name)),
				.gpu = arena_strdup(a, slice_of(c->parts[i].gpu)),
				.bytes = c->parts[i].bytes};
}

/* Parts of one claim on several servers become one. */
static size_t merge(struct claim *list, size_t n, struct arena *a)
{
	size_t out = 0;

	for (size_t i = 0; i < n && !a->failed; i++) {
		struct claim *last = out ? &list[out - 1] : NULL;
		struct claim_part *parts;

		if (!last || strcmp(last->key, list[i].key) != 0) {
			list[out++] = list[i];
			continue;
		}
		parts = arena_array(a, last->n_parts + list[i].n_parts, sizeof(*parts));
		if (!parts)
			break;
		if (last->n_parts)
			memcpy(parts, last->parts, last->n_parts * sizeof(*parts));
		if (list[i].n_parts)
			memcpy(parts + last->n_parts, list[i].parts,
				list[i].n_parts * sizeof(*parts));
		last->parts = parts;
		last->n_parts += list[i].n_parts;
	}
	return out;
}

static struct claim *list_claims(const struct servers *s, struct arena *a, size_t *ret_n)
{
	struct claim *list;
	size_t n = 0, cap = 0;

	for (size_t i = 0; i < s->n; i++)
		cap += s->entries[i]->held ? s->entries[i]->held->object.status.n_claims : 0;
	list = arena_array(a, cap, sizeof(*list));
	for (size_t i = 0; list && i < s->n; i++) {
		const struct held *h = s->entries[i]->held;

		for (size_t k = 0; h && k < h->object.status.n_claims; k++)
			copy_claim(h, &h->object.status.claims[k].claim, a, &list[n++]);
	}
	if (!list || a->failed)
		return NULL;
	if (n > 1)
		qsort(list, n, sizeof(*list), by_pod);
	*ret_n = merge(list, n, a);
	return list;
}

static void *copy_array(struct arena *a, const void *from, size_t n, size_t size)
{
	void *to = arena_array(a, n, size);

	if (to && n)
		memcpy(to, from, n * size);
	return to;
}

static int kube_view(struct ledger *base, bool with_claims, struct arena *a, struct pool_view *ret,
	struct err *err)
{
	struct servers *s = ((struct ledger_kube *)base)->servers;
	struct pool_view v = {0};
	int rc;

	(void)pthread_mutex_lock(&s->lock);
	rc = inventory_copy(&s->inv, a, &v.inventory, err);
	v.usage.claimed = copy_array(a, s->claimed, s->inv.n_gpus, sizeof(*s->claimed));
	v.usage.pending = copy_array(a, s->pending, s->inv.n_gpus, sizeof(*s->pending));
	v.usage.n_claims = copy_array(a, s->n_claims, s->inv.n_servers, sizeof(*s->n_claims));
	if (with_claims)
		v.claims = list_claims(s, a, &v.n_claims);
	(void)pthread_mutex_unlock(&s->lock);
	if (rc != 0 || a->failed)
		return no_memory(err);
	*ret = v;
	return 0;
}

static int kube_release(struct ledger *base, struct slice uid, struct slice namespace,
	struct slice name, size_t *ret_n, struct err *err)
{
	(void)base;
	(void)uid;
	(void)namespace;
	(void)name;
	*ret_n = 0;
	return err_set(err, ERR_INVALID,
		"in a cluster a claim ends with its pod: delete the pod, and it ends within "
		"seconds");
}

const struct ledger_ops ledger_kube_ops = {
	.take = kube_take,
	.undo = kube_undo,
	.release = kube_release,
	.view = kube_view,
};
