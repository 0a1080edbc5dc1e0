/* SPDX-License-Identifier: Apache-2.0 */
/* edge: two rings of decisions under one lock. */
#include "webhook/edge/admission/decisions.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"

/* An API server asks again within one request, which takes 30 s at most; so many others are looked
 * past. */
#define AGAIN_MS 30000
#define AGAIN_LOOKS 16

struct ring {
	struct decision kept[DECISIONS_KEPT];
	uint64_t n; /* ever noted */
};

struct decisions {
	pthread_mutex_t lock;
	/* Guarded by lock: */
	struct ring allowed, refused;
	uint64_t last;
};

struct decisions *decisions_new(void)
{
	struct decisions *d = calloc(1, sizeof(*d));

	if (d && pthread_mutex_init(&d->lock, NULL) != 0) {
		free(d);
		return NULL;
	}
	return d;
}

void decisions_free(struct decisions *d)
{
	if (!d)
		return;
	(void)pthread_mutex_destroy(&d->lock);
	free(d);
}

static void copy_text(char *to, size_t size, struct slice from)
{
	size_t n = text_utf8_cut(from, size - 1);

	if (n)
		memcpy(to, from.at, n);
	to[n] = '\0';
}

/* What is too long ends with " …" behind a word: half a number would say something else. */
static void copy_message(char to[static DECISION_MESSAGE_MAX], struct slice from)
{
	static const char more[] = " \xe2\x80\xa6";
	size_t n;

	if (from.len < DECISION_MESSAGE_MAX) {
		copy_text(to, DECISION_MESSAGE_MAX, from);
		return;
	}
	n = text_utf8_cut(from, DECISION_MESSAGE_MAX - sizeof(more));
	for (size_t blank = n; blank > DECISION_MESSAGE_MAX / 2; blank--)
		if (from.at[blank] == ' ') {
			n = blank;
			break;
		}
	memcpy(to, from.at, n);
	memcpy(to + n, more, sizeof(more));
}

static bool same_pod(const struct decision *a, const struct decision *b)
{
	return a->hook == b->hook && a->operation == b->operation && a->dry_run == b->dry_run &&
	       strcmp(a->kind, b->kind) == 0 && strcmp(a->namespace, b->namespace) == 0 &&
	       strcmp(a->name, b->name) == 0;
}

/* Our hook is asked again after others have changed a pod, and finds nothing to do: what was done
 * to the pod stands above that. */
static void keep_patched_above(struct ring *ring, struct decision *last)
{
	for (uint64_t i = 1; i <= AGAIN_LOOKS && i < ring->n; i++) {
		struct decision *was = &ring->kept[(ring->n - 1 - i) % DECISIONS_KEPT], swap = *was;

		if (last->at_ms - was->at_ms > AGAIN_MS)
			return;
		if (was->result != RESULT_PATCHED || !same_pod(was, last))
			continue;
		*was = *last;
		*last = swap;
		last->number = was->number;
		last->at_ms = was->at_ms;
		was->number = swap.number;
		was->at_ms = swap.at_ms;
		return;
	}
}

void decisions_add(struct decisions *d, const struct decision_note *note)
{
	struct ring *ring;
	struct decision *to;
	int64_t now;

	if (!d)
		return;
	ring = note->result == RESULT_REFUSED || note->result == RESULT_FAILED ? &d->refused
									       : &d->allowed;
	now = clock_wall_ms();
	(void)pthread_mutex_lock(&d->lock);
	to = &ring->kept[ring->n++ % DECISIONS_KEPT];
	to->number = ++d->last;
	to->at_ms = now;
	to->hook = note->hook;
	to->operation = note->operation;
	to->result = note->result;
	to->dry_run = note->dry_run;
	copy_text(to->kind, sizeof(to->kind), note->kind);
	copy_text(to->namespace, sizeof(to->namespace), note->namespace);
	copy_text(to->name, sizeof(to->name), note->name);
	copy_text(to->reason, sizeof(to->reason), slice_of(note->reason));
	copy_message(to->message, note->message);
	if (to->result == RESULT_UNTOUCHED)
		keep_patched_above(ring, to);
	(void)pthread_mutex_unlock(&d->lock);
}

/* The i-th youngest of a ring, NULL behind the oldest. */
static const struct decision *youngest(const struct ring *r, uint64_t i)
{
	if (i >= r->n || i >= DECISIONS_KEPT)
		return NULL;
	return &r->kept[(r->n - 1 - i) % DECISIONS_KEPT];
}

size_t decisions_copy(struct decisions *d, struct decision *ret, size_t max)
{
	uint64_t i = 0, j = 0;
	size_t n = 0;

	(void)pthread_mutex_lock(&d->lock);
	while (n < max) {
		const struct decision *a = youngest(&d->allowed, i);
		const struct decision *r = youngest(&d->refused, j);

		if (!a && !r)
			break;
		if (a && (!r || a->number > r->number)) {
			ret[n++] = *a;
			i++;
		} else {
			ret[n++] = *r;
			j++;
		}
	}
	(void)pthread_mutex_unlock(&d->lock);
	return n;
}

static void add_decision(const struct decision *d, struct buf *out)
{
	const struct {
		const char *key, *value;
	} members[] = {{"hook", d->hook == HOOK_MUTATE ? "mutate" : "validate"},
		{"operation", metric_operation_name(d->operation)}, {"kind", d->kind},
		{"namespace", d->namespace}, {"name", d->name},
		{"result", metric_result_name(d->result)}, {"reason", d->reason},
		{"message", d->message}};
	char at[CLOCK_TEXT_SIZE];

	buf_fmt(out, "{\"at\":\"%s\",\"dryRun\":%s", clock_text(d->at_ms / 1000, at),
		d->dry_run ? "true" : "false");
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		buf_fmt(out, ",\"%s\":", members[i].key);
		buf_json_str(out, slice_of(members[i].value));
	}
	buf_char(out, '}');
}

void decisions_write(struct decisions *d, struct buf *out)
{
	struct decision *kept = NULL;
	size_t n = 0;

	if (d) {
		kept = calloc(2 * DECISIONS_KEPT, sizeof(*kept));
		if (!kept) {
			out->failed = true;
			return;
		}
		n = decisions_copy(d, kept, 2 * DECISIONS_KEPT);
	}
	buf_char(out, '[');
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_char(out, ',');
		add_decision(&kept[i], out);
	}
	buf_char(out, ']');
	free(kept);
}
