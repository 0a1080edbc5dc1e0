/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: writes the claim of a live pod that had none, or of one that has waited for it, and
 * takes away what it holds besides a whole claim (rule R7, law W3). */
#include "base/clock.h"
#include "webhook/cluster/claims/adopt_whole.h"
#include "webhook/cluster/claims/claims_impl.h"
#include "webhook/core/pod/pod.h"

struct adopt_edit {
	struct adoption *a;
	const struct claim_record *record; /* NULL: what is there goes */
	const struct record *seen;         /* what was there when it was judged; NULL: nothing */
	uint64_t base; /* the version that the last write follows, which may land yet; 0: none */
};

static bool same_record(const struct claim_record *x, const struct claim_record *y)
{
	if (x->take != y->take || x->claim.state != y->claim.state ||
		x->claim.plan_hash != y->claim.plan_hash || !claim_record_same_servers(x, y) ||
		x->claim.n_parts != y->claim.n_parts)
		return false;
	for (size_t i = 0; i < x->claim.n_parts; i++)
		if (strcmp(x->claim.parts[i].gpu, y->claim.parts[i].gpu) != 0 ||
			x->claim.parts[i].bytes != y->claim.parts[i].bytes)
			return false;
	return true;
}

/* All its GPUs are there, and (unless the pool is too small for it) have room. */
static bool has_room(const struct adopt_edit *e, const struct server_object *o)
{
	for (size_t i = 0; i < e->record->claim.n_parts; i++) {
		const struct claim_part *part = &e->record->claim.parts[i];
		ptrdiff_t gpu = server_status_gpu(&o->status, slice_of(part->gpu));
		uint64_t size, taken;

		if (gpu < 0)
			return false;
		size = o->status.gpus[gpu].gpu.bytes;
		taken = server_status_claimed(&o->status, (size_t)gpu);
		if (!e->a->full && (taken > size || part->bytes > size - taken))
			return false;
	}
	return true;
}

/* The queue has seen to what is kept, as far as it was known: a review may have taken since what
 * lay beside it. So that is left to the head that stands before it, until the head has its claim,
 * and, where that is a gang's, the others have theirs. What is kept for anybody else is old where
 * the queue knew it, unless the write met another one (again); else it is the word of the next
 * leader. */
static bool fits_beside_kept(const struct adopt_edit *e, const struct server_object *o, bool again,
	struct arena *a, struct err *err)
{
	struct server_object seen = *o;
	struct server_status *s = &seen.status;
	struct slice head = e->a->behind, own = slice_of(e->a->who->uid);
	ptrdiff_t at = server_status_claim(s, head);
	bool for_head = at < 0 || s->claims[at].gang;
	size_t n = s->n_kept;

	s->n_kept = 0;
	s->kept = arena_copy(a, o->status.kept, n, sizeof(*s->kept));
	if (!s->kept) {
		(void)err_set(err, ERR_NOMEM, "out of memory for a claim");
		return false;
	}
	for (size_t i = 0; i < n; i++)
		if (slice_is(head, s->kept[i].uid)
				? for_head
				: !slice_is(own, s->kept[i].uid) &&
					  (again || !keep_known(e->a->kept, o->name, &s->kept[i])))
			s->kept[s->n_kept++] = s->kept[i];
	return server_claim_fits(&seen, &e->record->claim, (struct slice){0}, err) == 0;
}

/* Where nothing has changed meanwhile, the API server did not write what it was sent: that is no
 * conflict, which is tried again at once. */
static enum edit_result give_up(
	const struct adopt_edit *e, const struct server_object *o, struct err *err)
{
	bool same = e->base && kube_version_number(slice_of(o->version)) == e->base;

	(void)err_set(err, same ? ERR_IO : ERR_CONFLICT, "the status of %s has %s", o->name,
		same ? "not been written" : "changed meanwhile");
	return EDIT_GIVE_UP;
}

/* Nothing is written on top of what was not seen, nor what has become whole since taken away: the
 * next round judges it. */
static enum edit_result judge_record(
	struct adopt_edit *e, struct server_object *o, bool again, struct arena *a, struct err *err)
{
	ptrdiff_t at = server_status_claim(&o->status, slice_of(e->a->who->uid));

	if (at < 0 && !e->record)
		return EDIT_SAME;
	if (at >= 0 && e->record && same_record(&o->status.claims[at], e->record)) {
		if (o->status.claims[at].open == e->record->open)
			return EDIT_SAME;
		o->status.claims[at].open = e->record->open;
		return EDIT_CHANGED;
	}
	if ((again && !e->a->turn) || (at >= 0) != (e->seen != NULL) ||
		(at >= 0 && (o->status.claims[at].take != e->seen->take ||
				    o->status.claims[at].open != e->seen->open)))
		return give_up(e, o, err);
	if (at >= 0)
		server_status_remove_claim(&o->status, (size_t)at);
	if (!e->record)
		return EDIT_CHANGED;
	/* Who has waited comes in as by a review; who runs already is counted. */
	if (e->a->turn && !fits_beside_kept(e, o, again, a, err))
		return EDIT_GIVE_UP;
	if (!e->a->turn && !has_room(e, o))
		return give_up(e, o, err);
	if (!server_status_add_claim(&o->status, e->record, a)) {
		(void)err_set(err, ERR_NOMEM, "out of memory for a claim");
		return EDIT_GIVE_UP;
	}
	return EDIT_CHANGED;
}

static enum edit_result edit_record(
	void *ctx, struct server_object *o, bool again, struct arena *a, struct err *err)
{
	struct adopt_edit *e = ctx;
	enum edit_result result = judge_record(e, o, again, a, err);
	uint64_t version = kube_version_number(slice_of(o->version));

	if (result == EDIT_CHANGED)
		e->base = version;
	else if (version > e->base)
		e->base = 0;
	return result;
}

static int write_one(struct adoption *a, const char *server, const struct claim_record *record,
	const struct record *seen, struct err *err)
{
	struct adopt_edit e = {.a = a, .record = record, .seen = seen};
	int rc = servers_edit(
		a->c->cfg->servers, server, edit_record, &e, clock_ms() + CLAIMS_CALL_MS, err);

	a->unsure_base = rc < 0 ? e.base : 0;
	a->unsure_on = server;
	return rc;
}

/* What the pod holds on this server of the picture, or NULL. */
static const struct record *seen_on(const struct adoption *a, const char *server)
{
	const struct picture *p = &a->c->now;

	for (size_t i = 0; i < p->n_parts; i++) {
		if (strcmp(p->parts[i].name, server) != 0)
			continue;
		for (size_t k = p->parts[i].first; k < p->parts[i].first + p->parts[i].n; k++)
			if (p->records[k].who == a->who)
				return &p->records[k];
	}
	return NULL;
}

static bool is_chosen(const struct adoption *a, const char *server)
{
	for (size_t i = 0; i < a->n_servers; i++)
		if (strcmp(a->servers[i], server) == 0)
			return true;
	return false;
}

/* What it held elsewhere goes, now that the new claim stands. */
int adopt_drop_elsewhere(struct adoption *a, struct err *err)
{
	const struct picture *p = &a->c->now;

	for (size_t i = 0; i < p->n_parts; i++)
		for (size_t k = p->parts[i].first; k < p->parts[i].first + p->parts[i].n; k++) {
			int rc;

			if (p->records[k].who != a->who || is_chosen(a, p->parts[i].name))
				continue;
			rc = write_one(a, p->parts[i].name, NULL, &p->records[k], err);
			if (rc < 0 && rc != ERR_NOTFOUND)
				return rc;
		}
	return 0;
}

/* The part of the placement on its i-th server. */
static struct claim_record *make_record(struct adoption *a, size_t i, int64_t wall_ms)
{
	const struct placement *w = &a->where;
	const struct gpu_server *s = &a->pool.inventory.servers[w->servers[i]];
	struct claim_record *r = arena_alloc(&a->arena, sizeof(*r));
	struct claim_part *parts = arena_array(&a->arena, w->n_holds, sizeof(*parts));
	size_t n = 0;

	if (!r || !parts)
		return NULL;
	for (size_t k = 0; k < w->n_holds; k++)
		if (w->holds[k].server == w->servers[i])
			parts[n++] = (struct claim_part){
				s->name, s->gpus[w->holds[k].gpu].id, w->holds[k].bytes};
	r->claim = (struct claim){.key = a->who->uid,
		.namespace = a->who->namespace,
		.name = a->who->name,
		.state = a->turn ? CLAIM_BOUND : CLAIM_ADOPTED,
		.plan_hash = a->plan_hash,
		.since_ms = wall_ms,
		.parts = parts,
		.n_parts = n};
	r->gang = a->gang;
	r->began = a->began;
	r->take = a->take;
	r->grace_s = a->grace_s;
	r->servers = a->servers;
	r->n_servers = a->n_servers;
	return r;
}

/* What a leader wrote before it died may stand on the same servers: nothing is whole before all of
 * it is new (R19). */
static int write_all(struct adoption *a, int64_t wall_ms, struct err *err)
{
	struct claim_record *head = make_record(a, 0, wall_ms);
	int rc;

	if (!head)
		return err_set(err, ERR_NOMEM, "out of memory for a claim");
	head->open = a->n_servers > 1 || a->stays_open;
	rc = write_one(a, a->servers[0], head, seen_on(a, a->servers[0]), err);
	for (size_t i = 1; rc >= 0 && i < a->n_servers; i++) {
		struct claim_record *r = make_record(a, i, wall_ms);

		rc = r ? write_one(a, a->servers[i], r, seen_on(a, a->servers[i]), err)
		       : err_set(err, ERR_NOMEM, "out of memory for a claim");
	}
	return rc < 0 || !head->open || a->stays_open ? rc : adopt_close(a, err);
}

int adopt_close(struct adoption *a, struct err *err)
{
	struct claim_record *head = make_record(a, 0, clock_wall_ms());

	return head ? write_one(a, a->servers[0], head,
			      &(struct record){.take = head->take, .open = true}, err)
		    : err_set(err, ERR_NOMEM, "out of memory for a claim");
}

int adopt_write(struct adoption *a, struct err *err)
{
	uint64_t raised = 0;
	int rc;

	a->n_servers = a->where.n_servers;
	a->servers = arena_array(&a->arena, a->n_servers, sizeof(char *));
	if (!a->servers)
		return err_set(err, ERR_NOMEM, "out of memory for a claim");
	/* In the order of the inventory, which is that of the names. */
	for (size_t i = 0; i < a->n_servers; i++)
		a->servers[i] = a->pool.inventory.servers[a->where.servers[i]].name;
	/* All of a gang is counted before the first of it is written. */
	rc = a->gang ? 0 : claims_raise(&a, 1, &raised, err);
	/* By this its account knows it, from the moment when it stands; and of two leaders each its
	 * own (R19). */
	if (!a->gang)
		a->take = raised ? raised : accounts_new_take();
	if (rc == 0)
		rc = write_all(a, clock_wall_ms(), err);
	claims_raised(&a, 1, raised);
	return rc < 0 ? rc : adopt_drop_elsewhere(a, err);
}

bool adopt_has_whole(struct adoption *a)
{
	return adopt_whole(a->c->cfg->servers, a->c, slice_of(a->who->uid), a->who->n_records,
		&a->demand, &a->arena, &a->servers, &a->n_servers);
}
