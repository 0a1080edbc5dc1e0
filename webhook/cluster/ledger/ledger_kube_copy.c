/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: a copy of this replica's picture, on which a review decides without the lock. */
#include "webhook/cluster/ledger/ledger_kube_impl.h"
#include "webhook/core/pool/queue.h"

void take_drop_copy(struct take *t)
{
	struct servers *s = t->l->servers;

	if (t->copy.used == 0)
		return;
	(void)pthread_mutex_unlock(&s->lock);
	arena_reset(&t->copy);
	(void)pthread_mutex_lock(&s->lock);
}

/* By one review at a time: it is as large as the picture. Lock held, and let go meanwhile.
 * ERR_NOMEM, ERR_TIMEOUT. */
static int copy_picture(
	struct take *t, bool with_reserved, int64_t deadline_ms, struct copy *ret, struct err *err)
{
	struct servers *s = t->l->servers;
	uint64_t room;
	int rc;

	take_drop_copy(t);
	while (s->copied)
		if (!servers_wait(s, deadline_ms))
			return err_set(
				err, ERR_TIMEOUT, "the deadline passed before others had decided");
	s->copied = true;
	room = s->room;
	ret->still = !s->list_comes_in;
	(void)pthread_mutex_unlock(&s->lock);
	arena_reset(&t->copy);
	rc = servers_copy(s, with_reserved, &t->copy, &ret->view, err);
	(void)pthread_mutex_lock(&s->lock);
	ret->still = ret->still && s->room == room && !s->list_comes_in;
	ret->reserved = with_reserved && (s->n_reserved > 0 || s->n_ahead > 0);
	return rc;
}

/* The others may. Lock held. */
static void copy_done(struct servers *s)
{
	s->copied = false;
	(void)pthread_cond_broadcast(&s->cond);
}

bool copy_holds_now(const struct servers *s, const struct pool_view *v, struct placement *p)
{
	for (size_t i = 0; i < p->n_holds; i++) {
		const struct gpu_server *then = &v->inventory.servers[p->holds[i].server];
		const struct gpu_server *now = inventory_server(&s->inv, slice_of(then->name));
		const struct gpu *g =
			now ? inventory_gpu(now, slice_of(then->gpus[p->holds[i].gpu].id)) : NULL;
		uint64_t taken = g ? s->claimed[now->first_gpu + (size_t)(g - now->gpus)] : 0;

		/* and it may have become one for other launchers, or for no tokens */
		if (!g || !server_kinds_alike(now, then) || !inventory_usable(now, g) ||
			taken > g->bytes || g->bytes - taken < p->holds[i].bytes ||
			s->n_claims[now - s->inv.servers] >= CLAIMS_PER_SERVER_MAX)
			return false;
		p->holds[i].server = (size_t)(now - s->inv.servers);
		p->holds[i].gpu = (size_t)(g - now->gpus);
	}
	return true;
}

int take_decide_on_copy(struct take *t, bool with_reserved, int64_t deadline_ms, struct copy *c,
	struct placement *p, struct err *err)
{
	struct servers *s = t->l->servers;
	struct pool_view *v = &c->view;
	int rc = copy_picture(t, with_reserved, deadline_ms, c, err);

	if (rc == 0) {
		v->usage.first = servers_usage(s, with_reserved).first;
		(void)pthread_mutex_unlock(&s->lock);
		rc = placement_find(&v->inventory, &v->usage, t->ask->demand, &t->copy, p, err);
		if (rc != 0)
			arena_reset(&t->copy);
		(void)pthread_mutex_lock(&s->lock);
	}
	if (rc != ERR_TIMEOUT)
		copy_done(s);
	return rc;
}

int take_could_by_all(struct take *t, int64_t deadline_ms, bool *ret_still, struct err *err)
{
	struct servers *s = t->l->servers;
	struct copy c = {.still = true};
	int rc;

	*ret_still = true;
	if (t->copies++ >= COPIES_MAX)
		return queue_could_ever(&s->inv, t->ask->demand, &t->scratch, err);
	rc = copy_picture(t, true, deadline_ms, &c, err);
	if (rc == ERR_TIMEOUT)
		return rc;
	if (rc == 0) {
		(void)pthread_mutex_unlock(&s->lock);
		rc = queue_could_ever(&c.view.inventory, t->ask->demand, &t->copy, err);
		arena_reset(&t->copy);
		(void)pthread_mutex_lock(&s->lock);
	}
	copy_done(s);
	*ret_still = c.still;
	return rc;
}
