/* SPDX-License-Identifier: Apache-2.0 */
/* core: why a pod waits, in a sentence for its owner. */
#include "webhook/core/pool/placement_say.h"
#include "webhook/core/pool/queue_impl.h"

/* Another pod: by name to people of its own namespace, who may see it; to others not. */
static void say_pod(struct buf *b, const struct queue_pod *to, const struct queue_pod *p)
{
	if (!slice_eq(to->namespace, p->namespace)) {
		buf_str(b, "a pod of another namespace");
		return;
	}
	buf_str(b, "pod ");
	say_word(b, p->name, 2 * SAY_WORD_MAX);
}

static void say_place(struct buf *b, const struct queue_round *r, const struct queue_entry *e)
{
	buf_fmt(b, "; it is number %zu of %zu that wait", e->place, r->depth);
}

/* The sentence without its advice to those who do not wait. */
static struct slice without_advice(struct slice why)
{
	static const char advice[] = "create the pod again";
	static const char *const joints[] = {", or ", " or ", "; "};
	size_t at = 0, n = sizeof(advice) - 1;

	while (at + n <= why.len && memcmp(why.at + at, advice, n) != 0)
		at++;
	if (at + n > why.len)
		return why;
	for (size_t i = 0; i < sizeof(joints) / sizeof(joints[0]); i++) {
		size_t len = strlen(joints[i]);

		if (at >= len && memcmp(why.at + at - len, joints[i], len) == 0)
			return (struct slice){why.at, at - len};
	}
	return (struct slice){why.at, at};
}

static void say_kept(const struct queue_world *w, const struct queue_pod *pods,
	const struct queue_round *r, const struct queue_entry *e, const struct queue_pod *p,
	struct buf *b)
{
	const struct queue_pod *head = &pods[e->before];
	int64_t since = head->since_ms > 0 ? head->since_ms : 0;
	int64_t s = w->now_ms > since ? (w->now_ms - since) / 1000 : 0;

	buf_str(b, "what is free is kept for ");
	say_pod(b, p, head);
	buf_fmt(b, ", which has waited for %llu s", (unsigned long long)s);
	say_place(b, r, e);
}

/* How many of its gang are there, those that were let go included. */
static size_t count_gang(const struct queue_pod *pods, size_t n, const struct queue_pod *p)
{
	size_t there = p->gang_let_go;

	for (size_t i = 0; i < n; i++)
		there += !pods[i].foreign && pods[i].gang.at &&
			 slice_eq(pods[i].namespace, p->namespace) &&
			 queue_compare_gang(&pods[i], p) == 0;
	return there;
}

void queue_say(const struct queue_world *w, const struct queue_pod *pods, size_t n,
	const struct queue_round *r, size_t pod, struct buf *out)
{
	const struct queue_entry *e = &r->entries[pod];
	const struct queue_pod *p = &pods[pod];

	switch (e->verdict) {
	case QUEUE_START:
		buf_str(out, "it is its turn: it starts now");
		break;
	case QUEUE_NO_ROOM:
		if (p->gang.at && p->gang_let_go == 0)
			buf_fmt(out, "all %u members of its gang start together, and for one: ",
				(unsigned)p->gang_size);
		buf_slice(out, e->why.len ? without_advice(e->why)
					  : SLICE("nothing that is free holds it"));
		say_place(out, r, e);
		if (r->head == pod)
			buf_str(out, "; what frees up is kept for it");
		break;
	case QUEUE_KEPT:
		say_kept(w, pods, r, e, p, out);
		break;
	case QUEUE_FOREIGN:
		buf_str(out, "a scheduling gate of somebody else stands; it keeps its age and "
			     "takes no place from others");
		break;
	case QUEUE_BARRED:
		buf_slice(out, without_advice(p->barred));
		break;
	case QUEUE_INCOMPLETE:
		if (p->gang_size == 0)
			buf_str(out, "its gang is as large as its Job says, which could not be "
				     "read");
		else
			buf_fmt(out, "its gang has %zu of %u members", count_gang(pods, n, p),
				(unsigned)p->gang_size);
		break;
	case QUEUE_UNEVEN:
		buf_str(out, "the members of its gang must all name the same size, 1 or more");
		break;
	case QUEUE_NEVER:
		if (p->gang.at && p->gang_let_go == 0)
			buf_fmt(out,
				"the pool would not hold all %u members of its gang if nobody "
				"else used it",
				(unsigned)p->gang_size);
		else
			buf_slice(out, without_advice(e->why));
		break;
	case QUEUE_LATER:
		if (e->place == 0)
			buf_fmt(out, "its gang has %u members before it", (unsigned)p->gang_size);
		else
			buf_fmt(out, "%u pods of its namespace are looked at before it",
				QUEUE_LOOK_MAX);
		if (e->place)
			say_place(out, r, e);
		break;
	}
}
