/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what is asked of gates: whether they guard the server, and what is used of its GPUs. Of
 * who has more than his share, or uses nothing, his pod is told; of strangers, the server. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "webhook/cluster/reconcile/probe_poll_impl.h"
#include "webhook/core/server/server_guard.h"

#define NOTE_BYTES 512
#define MB 1000000u

static int read(const struct json *j, struct arena *a, void *ret, struct err *err)
{
	return gate_page_read(j, a, ret, err);
}

/* That it answers is what counts: what it does not know it says. */
static void judge(struct verdict *v, char message[static VERDICT_MESSAGE])
{
	const struct gate_page *p = v->answer;

	v->result = p->known ? PROBE_ANSWERED : PROBE_STALE;
	v->reason = "";
	(void)snprintf(message, VERDICT_MESSAGE, "the gate answers");
}

/* A pod, and what about it; or a GPU on which a stranger computes. */
struct word {
	const char *namespace, *name, *uid; /* of the pod; of a GPU its id alone, as uid */
	enum metric_finding what;
	const struct gate_claim *claim;
	int pid;     /* the stranger's */
	bool closed; /* the GPU, for that */
};

static void add(struct verdict *v, const struct claim_record *r, const struct gate_claim *c,
	enum metric_finding what)
{
	struct word w = {arena_strdup(&v->arena, slice_of(r->claim.namespace)),
		arena_strdup(&v->arena, slice_of(r->claim.name)),
		arena_strdup(&v->arena, slice_of(r->claim.key)), what, c, 0, false};

	if (w.namespace && w.name && w.uid)
		v->words[v->n_words++] = w;
}

static void add_stranger(struct verdict *v, const struct server_object *o, const struct gpu *g)
{
	const struct gate_stranger *s = server_guard_stranger(v->answer, g);
	struct word w = {.what = FINDING_STRANGERS, .closed = !o->gate_lets_strangers};

	if (!s)
		return;
	w.uid = arena_strdup(&v->arena, slice_of(g->id));
	w.pid = s->pid;
	if (w.uid)
		v->words[v->n_words++] = w;
}

/* Who is to be told, as the status has them now. */
static void note(struct verdict *v, const struct server_object *o)
{
	const struct gate_page *p = v->answer;

	arena_reset(&v->arena);
	v->n_words = 0;
	v->known = p->known && strcmp(p->server, o->name) == 0;
	v->words = arena_array(
		&v->arena, 2 * o->status.n_claims + o->status.n_gpus, sizeof(*v->words));
	if (!v->known || !v->words)
		return;
	for (size_t i = 0; i < o->status.n_claims; i++) {
		const struct claim_record *r = &o->status.claims[i];
		const struct gate_claim *c = gate_page_claim(p, slice_of(r->claim.key));

		if (c && c->over)
			add(v, r, c, FINDING_OVER_SHARE);
		if (server_guard_unused(r, c))
			add(v, r, c, FINDING_UNUSED);
	}
	for (size_t i = 0; i < o->status.n_gpus; i++)
		add_stranger(v, o, &o->status.gpus[i].gpu);
}

static bool write(struct verdict *v, struct server_object *o, struct arena *a)
{
	bool changed;

	if (!v->answer)
		return server_guard_silent(o, v->reason, v->message, v->now, a);
	note(v, o);
	changed = server_guard_told(o, v->answer, v->now, a);
	return server_guard_used(o, v->answer, kube_wall_ms(v->poll->cfg.kube), changed) || changed;
}

/* ---- who is told ---- */

static void tell_pod(struct probe_poll *p, const struct target *t, const struct word *w)
{
	bool over = w->what == FINDING_OVER_SHARE;
	char text[NOTE_BYTES];
	struct kube_event event = {.api_version = "v1",
		.kind = "Pod",
		.namespace = slice_of(w->namespace),
		.name = slice_of(w->name),
		.uid = slice_of(w->uid),
		.type = "Warning",
		.reason = over ? "MoreThanShare" : "HoldsUnused",
		.note = text,
		.component = "poolgate"};

	if (over)
		(void)snprintf(text, sizeof(text),
			"has %llu MB of %s on %s for more than ten seconds, and holds %llu",
			(unsigned long long)(w->claim->has / MB), w->claim->gpu, t->name,
			(unsigned long long)(w->claim->share / MB));
	else
		(void)snprintf(text, sizeof(text),
			"holds GPUs on %s, and has used nothing of them for an hour", t->name);
	(void)kube_tell(p->cfg.kube, &event, NULL);
	log_line(p->cfg.log, LOG_LEVEL_WARN,
		over ? "pod has more of a GPU than its share" : "pod holds GPUs and uses nothing",
		log_str("uid", w->uid), log_str("namespace", w->namespace),
		log_str("name", w->name), log_str("server", t->name), log_str("note", text));
}

static void tell_server(struct probe_poll *p, const struct target *t, const struct word *w)
{
	char text[NOTE_BYTES];
	struct kube_event event = {.api_version = "poolgate.io/v1alpha1",
		.kind = "GPUServer",
		.name = slice_of(t->name),
		.uid = slice_of(t->uid),
		.type = "Warning",
		.reason = "StrangerComputes",
		.note = text,
		.component = "poolgate"};

	(void)snprintf(text, sizeof(text),
		"process %d, which belongs to no claim, computes on %s%s", w->pid, w->uid,
		w->closed ? ", which takes nothing new until it is gone" : "");
	(void)kube_tell(p->cfg.kube, &event, NULL);
	log_line(p->cfg.log, LOG_LEVEL_WARN, "a process that belongs to no claim computes on a GPU",
		log_str("server", t->name), log_str("gpu", w->uid), log_int("pid", w->pid),
		log_bool("closed", w->closed));
}

static bool was_told(const struct target_use *use, enum metric_finding what, uint64_t who)
{
	for (size_t i = 0; i < use->n_told[what]; i++)
		if (use->told[what][i] == who)
			return true;
	return false;
}

/* Once for as long as it lasts. */
static void tell_new(struct probe_poll *p, const struct verdict *v)
{
	struct target_use *next = calloc(1, sizeof(*next));
	struct target *t = v->target;

	for (size_t i = 0; next && i < v->n_words; i++) {
		const struct word *one = &v->words[i];
		uint64_t who = text_hash64(slice_of(one->uid));

		if (!t->use || !was_told(t->use, one->what, who)) {
			if (one->what == FINDING_STRANGERS)
				tell_server(p, t, one);
			else
				tell_pod(p, t, one);
		}
		if (next->n_told[one->what] < TARGET_TOLD_MAX)
			next->told[one->what][next->n_told[one->what]++] = who;
		next->found[one->what]++;
	}
	if (!next)
		return;
	(void)pthread_mutex_lock(&p->lock);
	free(t->use);
	t->use = next;
	(void)pthread_mutex_unlock(&p->lock);
}

/* ---- the metrics ---- */

static void count(struct probe_poll *p, struct target *t, unsigned strangers, bool unknown)
{
	unsigned sum[METRIC_FINDINGS] = {0};

	(void)pthread_mutex_lock(&p->lock);
	if (!t->use)
		t->use = calloc(1, sizeof(*t->use));
	if (t->use) {
		t->use->found[FINDING_STRANGERS] = strangers;
		t->use->found[FINDING_UNKNOWN] = unknown;
	}
	for (const struct target *one = p->first; one; one = one->next)
		for (size_t i = 0; one->there && one->use && i < METRIC_FINDINGS; i++)
			sum[i] += one->use->found[i];
	for (unsigned i = 0; i < METRIC_FINDINGS; i++)
		metric_set(p->cfg.metrics, M_GATE_FINDINGS, i, 0, sum[i]);
	(void)pthread_mutex_unlock(&p->lock);
}

static void tell(struct probe_poll *p, const struct verdict *v)
{
	const struct gate_page *page = v->answer;

	/* What was told stays so while nobody knows. */
	if (v->known)
		tell_new(p, v);
	count(p, v->target, v->known ? (unsigned)page->n_strangers : 0, !v->known);
}

const struct poll_kind poll_gates = {.who = "gate",
	.ask = "gate-poll",
	.age = "gate-age",
	.at_once = 4,
	.path = GATE_PAGE_PATH,
	.answer_size = sizeof(struct gate_page),
	.read = read,
	.end = server_object_gate,
	.of_spec = true,
	.polls = M_GATE_POLLS,
	.condition = SERVER_GUARDED,
	.bad = "Unknown",
	.heard = GUARDED_UNTRIED,
	.aged = "the gate has given no answer lately",
	.lost = "server's gate does not answer",
	.back = "gate answers again",
	.judge = judge,
	.write = write,
	.tell = tell};
