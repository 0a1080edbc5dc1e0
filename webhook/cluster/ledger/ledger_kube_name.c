/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: claims of other pods that have, or had, the name of the pod under review: a name that is
 * taken (rule R12), a pod that follows another (rules R6 and R13). */
#include "base/clock.h"
#include "webhook/cluster/ledger/ledger_kube_impl.h"

/* Of the time that is left, so that the claim can still be committed. */
#define ASK_SHARE 2
#define ASK_MAX_MS 2000
/* The leader hears of a pod's end, and writes, within so long. */
#define END_MAX_MS 2000

enum name { NAME_FREE, NAME_TAKEN, NAME_UNKNOWN };

/* Without the lock: who has this name, past every cache? */
static enum name ask_name(const struct take *t, int64_t deadline_ms)
{
	int64_t left = (deadline_ms - clock_ms()) / ASK_SHARE;
	enum name said = NAME_UNKNOWN;
	struct kube_answer answer = {0};
	struct err err = {0};
	int rc = ERR_TIMEOUT;

	if (left > 0)
		rc = kube_get_at(t->l->kube,
			(struct kube_place){"/api/v1", t->namespace, "pods", t->name, NULL},
			left < ASK_MAX_MS ? left : ASK_MAX_MS, &answer, &err);
	if (kube_says_gone(rc, &err))
		said = NAME_FREE;
	if (rc == 0 && json_root(&answer.json)) {
		struct slice uid = kube_meta(&answer.json, json_root(&answer.json)).uid;

		if (uid.len > 0 && !slice_is(uid, t->uid))
			said = NAME_TAKEN;
	}
	kube_answer_release(&answer);
	return said;
}

/* Does another pod of this name hold something, by the picture? Its own parts are of this name,
 * too. Lock held. */
static bool held_by_another(const struct take *t)
{
	const struct servers *s = t->l->servers;

	return servers_name_holds(s, t->namespace, t->name) >
	       uid_set_count(&s->uids, slice_of(t->uid));
}

bool take_name_is_taken(struct take *t, int64_t deadline_ms, bool *ret_asked, struct err *err)
{
	struct servers *s = t->l->servers;
	enum name name;

	*ret_asked = !t->asked_for_name && held_by_another(t);
	t->asked_for_name = true;
	if (!*ret_asked)
		return false;
	(void)pthread_mutex_unlock(&s->lock);
	name = ask_name(t, deadline_ms);
	(void)pthread_mutex_lock(&s->lock);
	t->name_is_free = name == NAME_FREE;
	if (name != NAME_TAKEN)
		return false;
	err_reason(err, ERR_REFUSED, "AlreadyExists", "pods \"%s\" already exists", t->name);
	return true;
}

/* A bound claim of another pod of this name of which nobody has said that it lingers. Lock held. */
static bool end_is_open(const struct take *t)
{
	const struct servers *s = t->l->servers;

	for (size_t i = 0; i < s->n; i++) {
		const struct held *h = s->entries[i]->held;

		for (size_t k = 0; h && k < h->object.status.n_claims; k++) {
			const struct claim_record *r = &h->object.status.claims[k];

			if (r->claim.state != CLAIM_PENDING && !r->lingers_ms &&
				strcmp(r->claim.name, t->name) == 0 &&
				strcmp(r->claim.namespace, t->namespace) == 0 &&
				strcmp(r->claim.key, t->uid) != 0)
				return true;
		}
	}
	return false;
}

bool take_waits_for_end(struct take *t, int64_t deadline_ms)
{
	struct servers *s = t->l->servers;
	int64_t now = clock_ms(), share = (deadline_ms - now) / ASK_SHARE;
	uint64_t room = s->room;

	if (!t->name_is_free || !held_by_another(t))
		return false;
	if (t->end_until_ms == 0)
		t->end_until_ms = now + (share < END_MAX_MS ? share : END_MAX_MS);
	while (s->room == room && end_is_open(t))
		if (!servers_wait(s, t->end_until_ms))
			break;
	if (s->room == room)
		return false;
	/* A "no" rests on a list that begins now. */
	t->list = 0;
	return true;
}
