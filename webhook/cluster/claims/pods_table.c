/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the table of the injected pods that the leader's watch shows, and of those that it lost
 * a moment ago. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "webhook/cluster/claims/pods_impl.h"

#define BUCKETS_FIRST 256
/* Lost pods that are remembered. One that is forgotten early is asked about within CLAIM_ASK_MS all
 * the same. */
#define LOST_MAX 4096

bool pods_table_init(struct pods_table *t)
{
	*t = (struct pods_table){.n_buckets = BUCKETS_FIRST};
	t->bucket = calloc(BUCKETS_FIRST, sizeof(struct pods_entry *));
	return t->bucket != NULL;
}

void pods_table_release(struct pods_table *t)
{
	for (size_t i = 0; i < t->n_buckets; i++)
		for (struct pods_entry *e = t->bucket[i], *next; e; e = next) {
			next = e->next;
			pod_waiting_release(e->waiting);
			free(e->why);
			free(e->ips);
			free(e);
		}
	free(t->bucket);
}

static struct pods_entry **place_of(const struct pods_table *t, struct slice uid, uint64_t hash)
{
	struct pods_entry **at = &t->bucket[hash & (t->n_buckets - 1)];

	while (*at && ((*at)->hash != (uint32_t)hash || (*at)->uid_len != uid.len ||
			      memcmp((*at)->text, uid.at, uid.len) != 0))
		at = &(*at)->next;
	return at;
}

struct pods_entry *pods_table_find(const struct pods_table *t, struct slice uid)
{
	return *place_of(t, uid, text_hash64(uid));
}

/* More buckets when there are more pods than these; without memory the chains grow longer. */
static void grow(struct pods_table *t)
{
	size_t more = t->n_buckets * 2;
	struct pods_entry **bucket;

	if (t->n < t->n_buckets)
		return;
	bucket = calloc(more, sizeof(struct pods_entry *));
	if (!bucket)
		return;
	for (size_t i = 0; i < t->n_buckets; i++)
		for (struct pods_entry *e = t->bucket[i], *next; e; e = next) {
			next = e->next;
			e->next = bucket[e->hash & (more - 1)];
			bucket[e->hash & (more - 1)] = e;
		}
	free(t->bucket);
	t->bucket = bucket;
	t->n_buckets = more;
}

/* The entry has this one from now on, or none. */
static void put_waiting(struct pods_table *t, struct pods_entry *e, struct pod_waiting *w)
{
	t->n_waiting += (w != NULL) - (size_t)(e->waiting != NULL);
	pod_waiting_release(e->waiting);
	e->waiting = w;
}

/* One that is lost, and waits for nothing any more. */
static void remove_at(struct pods_table *t, struct pods_entry **at)
{
	struct pods_entry *e = *at;

	*at = e->next;
	t->n--;
	t->n_lost--;
	free(e->why);
	free(e->ips);
	free(e);
}

static void forget_lost(struct pods_table *t, int64_t before_ms)
{
	for (size_t i = 0; i < t->n_buckets; i++)
		for (struct pods_entry **at = &t->bucket[i]; *at;)
			if ((*at)->seen == POD_NOT_SHOWN && (*at)->lost_ms < before_ms)
				remove_at(t, at);
			else
				at = &(*at)->next;
}

static void lose(struct pods_table *t, struct pods_entry *e, int64_t now)
{
	if (e->seen == POD_NOT_SHOWN)
		return;
	e->seen = POD_NOT_SHOWN;
	e->lost_ms = now;
	t->n_lost++;
	put_waiting(t, e, NULL);
}

static struct pods_entry *new_entry(const struct kube_meta *m, uint64_t hash, int64_t now)
{
	size_t len = m->uid.len + m->namespace.len + m->name.len + 3;
	struct pods_entry *e =
		len <= UINT16_MAX ? calloc(1, offsetof(struct pods_entry, text) + len) : NULL;

	if (!e)
		return NULL;
	e->hash = (uint32_t)hash;
	e->since_ms = now;
	e->uid_len = (uint16_t)m->uid.len;
	e->namespace_at = (uint16_t)(m->uid.len + 1);
	e->name_at = (uint16_t)(e->namespace_at + m->namespace.len + 1);
	memcpy(e->text, m->uid.at, m->uid.len);
	memcpy(e->text + e->namespace_at, m->namespace.at, m->namespace.len);
	memcpy(e->text + e->name_at, m->name.at, m->name.len);
	return e;
}

/* Does it make a difference to the queue? */
static bool is_other(const struct pod_waiting *a, const struct pod_waiting *b)
{
	return !a != !b ||
	       (a && (a->pod.foreign != b->pod.foreign || a->pod.since_ms != b->pod.since_ms ||
			     a->leaving != b->leaving || a->let_go != b->let_go ||
			     a->ended != b->ended));
}

/* Its age is from the first state that showed it without Kueue's gate, in whole seconds as it will
 * be written. */
static void see_queued(const struct pods_entry *e, struct pod_waiting *w)
{
	int64_t now = clock_wall_ms() / 1000 * 1000;

	if (!w || !w->unmarked)
		return;
	if (e && e->waiting && e->waiting->unmarked)
		now = e->waiting->pod.since_ms;
	if (w->pod.since_ms < now)
		w->pod.since_ms = now;
}

/* Nothing is kept of what is empty: most pods run. True when it was another. */
static bool put_text(struct pods_table *t, char **at, const char *text)
{
	if (strcmp(*at ? *at : "", text) == 0)
		return false;
	free(*at);
	*at = *text ? strdup(text) : NULL;
	t->missed = t->missed || (*text && !*at);
	return true;
}

bool pods_table_put(struct pods_table *t, const struct kube_meta *m, struct pod_told *told)
{
	uint64_t hash = text_hash64(m->uid);
	int64_t now = clock_ms();
	struct pods_entry **at = place_of(t, m->uid, hash);
	struct pods_entry *e = *at;
	bool changed;

	see_queued(e, told->waiting);
	changed = !e || e->seen != told->seen || e->waits != told->waits ||
		  is_other(e->waiting, told->waiting) || e->grace_s < told->grace_s;

	if (!e) {
		*at = e = new_entry(m, hash, now);
		if (!e) {
			t->missed = true;
			return false;
		}
		t->n++;
		grow(t);
	}
	if (e->lost_ms) { /* its label is back */
		t->n_lost--;
		e->since_ms = now;
		e->lost_ms = 0;
		e->unplaced = false;
	}
	e->seen = (uint8_t)told->seen;
	e->ended = told->seen == POD_FINISHED;
	e->waits = told->waits;
	/* Whom there was no memory to read waits on, as it was read before. */
	if (!told->missed || !told->waits)
		put_waiting(t, e, told->waiting);
	told->waiting = NULL;
	e->grace_s = told->grace_s > e->grace_s ? told->grace_s : e->grace_s;
	changed = put_text(t, &e->why, told->why) || changed;
	changed = put_text(t, &e->ips, told->ips) || changed;
	e->waits_ms = !*told->why ? 0 : e->waits_ms ? e->waits_ms : now;
	e->plan_hash = told->plan_hash;
	e->list = t->list;
	return changed;
}

bool pods_table_remove(struct pods_table *t, struct slice uid, const struct pod_told *last)
{
	struct pods_entry *e = pods_table_find(t, uid);
	bool shown = e && e->seen != POD_NOT_SHOWN;

	if (e) {
		e->ended = e->ended || last->seen == POD_FINISHED;
		e->unplaced = !last->placed; /* then nothing of it runs on (rule R13) */
		lose(t, e, clock_ms());
	}
	if (t->n_lost > LOST_MAX)
		forget_lost(t, clock_ms() - CLAIM_RETRY_MS);
	return shown;
}

void pods_table_begin_list(struct pods_table *t)
{
	t->list++;
	t->missed = false;
}

void pods_table_end_list(struct pods_table *t)
{
	int64_t now = clock_ms();

	for (size_t i = 0; i < t->n_buckets; i++)
		for (struct pods_entry *e = t->bucket[i]; e; e = e->next)
			if (e->list != t->list)
				lose(t, e, now);
	forget_lost(t, now - PODS_LOST_MS);
}
