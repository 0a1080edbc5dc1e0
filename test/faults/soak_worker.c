/* SPDX-License-Identifier: Apache-2.0 */
/* soak: what one worker asks for, and what is right. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "test/faults/soak_worker.h"

/* Requests until one that was cut off has been handled for certain, if it ever will be: the server
 * looks at every connection between two answers to the same one. */
#define SETTLED 50
#define SAID_MAX 10

static uint64_t draw(struct worker *w, uint64_t below)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return below ? w->random % below : 0;
}

/* ---- what is right ---- */

static void wrong(struct worker *w, const struct document *d, const char *what)
{
	struct run *r = w->run;

	w->totals.wrong++;
	(void)pthread_mutex_lock(&r->lock);
	if (r->said++ < SAID_MAX)
		(void)fprintf(stderr,
			"soak: worker %u, request %llu, document %zu: %s: %u %.600s\n", w->index,
			(unsigned long long)w->n, (size_t)(d - r->docs), what, w->reply.status,
			w->reply.len ? w->reply.body : "");
	(void)pthread_mutex_unlock(&r->lock);
}

/* Is the answer that text, with this review's uid in it? A hole is filled with what the text has
 * there. */
static bool is_reply(const struct worker *w, const struct marked *m, uint64_t number)
{
	char digits[MARK_LEN + 1], *have = w->reply.body;
	size_t at = 0;

	if (w->reply.len != m->len)
		return false;
	if (m->hole)
		have[m->hole] = m->text[m->hole];
	(void)snprintf(digits, sizeof(digits), "%012llx", (unsigned long long)number);
	for (size_t i = 0; i < m->n_review; at = m->review[i] + MARK_LEN, i++)
		if (memcmp(have + at, m->text + at, m->review[i] - at) != 0 ||
			memcmp(have + m->review[i], digits, MARK_LEN) != 0)
			return false;
	return memcmp(have + at, m->text + at, m->len - at) == 0;
}

/* An admission, and by which GPU. */
static bool is_admitted(const struct worker *w, uint64_t number, char *ret_gpu)
{
	const struct marked *m = &w->create->reply[0];

	*ret_gpu = m->hole && w->reply.len == m->len ? w->reply.body[m->hole] : '0';
	return w->reply.status == 200 && is_reply(w, m, number);
}

static bool is_exact(const struct worker *w, struct document *d, uint64_t number)
{
	for (unsigned i = 0; i < d->n_replies; i++) {
		if (w->reply.status == d->status && is_reply(w, &d->reply[i], number)) {
			(void)__atomic_fetch_add(&d->seen[i], 1, __ATOMIC_RELAXED);
			return true;
		}
	}
	return false;
}

/* A refusal for want of room, for this review. */
static bool is_refusal(struct worker *w, uint64_t number)
{
	const struct json_node *response, *status;
	struct json *j = &w->json;
	int64_t code = 0;
	char digits[MARK_LEN + 1];
	struct slice uid;

	memset(w->reply.body + w->reply.len, 0, JSON_PAD);
	if (w->reply.status != 200 || json_read(j, w->reply.body, w->reply.len, 10000, NULL) != 0)
		return false;
	response = json_get(j, json_root(j), SLICE("response"));
	status = json_get(j, response, SLICE("status"));
	uid = json_inside(j, json_get(j, response, SLICE("uid")));
	(void)snprintf(digits, sizeof(digits), "%012llx", (unsigned long long)number);
	return uid.len > MARK_LEN && memcmp(uid.at + uid.len - MARK_LEN, digits, MARK_LEN) == 0 &&
	       json_is(json_get(j, response, SLICE("allowed")), JSON_FALSE) &&
	       json_int(j, json_get(j, status, SLICE("code")), &code) && code == 403 &&
	       json_is_str(j, json_get(j, status, SLICE("reason")), SLICE("NoCapacity"));
}

/* ---- requests ---- */

static uint64_t number_of(const struct worker *w, uint64_t n)
{
	return (uint64_t)(w->index + 1) << 36 | n;
}

static void maybe(struct worker *w, uint64_t pod)
{
	if (w->n_unknown == UNKNOWN_MAX)
		abort(); /* each is asked for again long before */
	w->unknown[w->n_unknown++] = (struct unknown){pod, w->n + SETTLED};
}

static void drop_sure(struct worker *w, uint64_t pod)
{
	for (size_t i = 0; i < w->n_sure; i++)
		if (w->sure[i].pod == pod)
			w->sure[i] = w->sure[--w->n_sure];
}

/* Send all of it, or not all of it, and go away. Was all of it sent? */
static bool kill_one(struct worker *w, const struct document *d)
{
	bool handshake = draw(w, 4) == 0;
	char part[512];
	enum answer a;

	w->totals.killed++;
	if (handshake)
		client_kill(&w->client);
	else if (client_open(&w->client, &w->reply) != ANSWERED)
		return false;
	w->client.budget = (int64_t)draw(w, handshake ? 700 : d->request.len * 3 / 2) + 1;
	a = client_ask(&w->client, w->text, d->request.len, false, &w->reply);
	w->client.budget = -1;
	if (a == BROKEN)
		wrong(w, d, w->reply.why);
	if (a != ANSWERED)
		return false;
	/* at once, or with the first bytes of the reply */
	if (draw(w, 2))
		(void)recv(w->client.fd, part, 1 + draw(w, sizeof(part)), 0);
	client_kill(&w->client);
	return true;
}

static void fill(struct worker *w, const struct document *d, uint64_t number, uint64_t pod)
{
	struct marked m = d->request;

	memcpy(w->text, m.text, m.len + 1);
	marked_fill(&m, w->text, number, pod);
}

/* Ask, or kill. True when there is an answer. */
static bool ask(
	struct worker *w, const struct document *d, uint64_t pod, bool may_kill, bool *ret_sent)
{
	uint64_t number = number_of(w, w->n++);

	w->totals.asked++;
	*ret_sent = true;
	fill(w, d, number, pod);
	if (may_kill && draw(w, 1000) < w->run->kills) {
		*ret_sent = kill_one(w, d);
		return false;
	}
	w->totals.handshakes += w->client.tls == NULL;
	if (client_ask(&w->client, w->text, d->request.len, true, &w->reply) != ANSWERED) {
		wrong(w, d, w->reply.why);
		return false;
	}
	w->totals.answered++;
	return true;
}

static void exact(struct worker *w, struct document *d)
{
	bool sent;

	if (ask(w, d, number_of(w, ++w->last_pod), true, &sent) &&
		!is_exact(w, d, number_of(w, w->n - 1)))
		wrong(w, d, "not the right answer");
}

static void admitted(struct worker *w, uint64_t pod, char gpu)
{
	size_t there = 0;

	for (size_t i = 0; i < w->n_sure; i++)
		there += w->sure[i].gpu == gpu;
	if (there >= PER_GPU || gpu < '0' || gpu >= '0' + GPUS || w->n_sure == HOLDS) {
		wrong(w, w->create, "admitted where there is no room");
		maybe(w, pod);
		return;
	}
	w->sure[w->n_sure].pod = pod;
	w->sure[w->n_sure++].gpu = gpu;
}

/* A pod that wants room: by our count there is some, or there is none, or what was cut off decides.
 */
static void create(struct worker *w)
{
	uint64_t pod = number_of(w, ++w->last_pod), number;
	size_t least = w->n_sure, most = w->n_sure + w->n_unknown;
	bool sent;
	char gpu;

	if (!ask(w, w->create, pod, true, &sent)) {
		if (sent)
			maybe(w, pod);
		return;
	}
	number = number_of(w, w->n - 1);
	w->totals.either += least < HOLDS && most >= HOLDS;
	if (is_admitted(w, number, &gpu)) {
		w->totals.allowed++;
		admitted(w, pod, gpu);
	} else if (is_refusal(w, number)) {
		w->totals.refused++;
		if (most < HOLDS)
			wrong(w, w->create, "refused though there is room");
	} else {
		wrong(w, w->create, "neither admitted nor refused");
	}
}

/* Validated once more: it keeps its GPU, whatever becomes of this request. */
static void again(struct worker *w)
{
	size_t i = draw(w, w->n_sure);
	bool sent;
	char gpu;

	if (ask(w, w->create, w->sure[i].pod, true, &sent) &&
		(!is_admitted(w, number_of(w, w->n - 1), &gpu) || gpu != w->sure[i].gpu))
		wrong(w, w->create, "a pod that is in was refused, or given another GPU");
}

/* Its pod ends. The answer is the same whether it held room or not. */
static void let_go(struct worker *w, uint64_t pod, bool may_kill)
{
	bool sent, answered = ask(w, w->delete, pod, may_kill, &sent);

	if (!answered && !sent)
		return;
	drop_sure(w, pod);
	for (size_t i = 0; i < w->n_unknown; i++)
		if (w->unknown[i].pod == pod)
			w->unknown[i] = w->unknown[--w->n_unknown];
	if (!answered)
		maybe(w, pod);
	else if (!is_reply(w, &w->delete->reply[0], number_of(w, w->n - 1)))
		wrong(w, w->delete, "not the right answer");
}

static void one(struct worker *w)
{
	struct run *r = w->run;
	uint64_t what = draw(w, 100);

	for (size_t i = 0; i < w->n_unknown; i++) {
		if (w->unknown[i].settled <= w->n) {
			let_go(w, w->unknown[i].pod, true);
			return;
		}
	}
	if (what < 50) {
		struct document *d = &r->docs[draw(w, r->n_docs)];

		while (d->kind != DOC_EXACT)
			d = &r->docs[draw(w, r->n_docs)];
		exact(w, d);
	} else if (what < 80 || w->n_sure == 0) {
		create(w);
	} else if (what < 86) {
		again(w);
	} else {
		let_go(w, w->sure[draw(w, w->n_sure)].pod, true);
	}
}

void *worker_run(void *ctx)
{
	struct worker *w = ctx;
	struct run *r = w->run;

	for (uint64_t i = 0;; i++) {
		int64_t due = clock_us(), killed = (int64_t)w->totals.killed;

		if (r->rate) {
			struct timespec t;

			due = r->began_us +
			      (int64_t)((i * r->workers + w->index) * 1000000 / r->rate);
			t = (struct timespec){due / 1000000, due % 1000000 * 1000};
			(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
		}
		if (due >= r->end_us)
			break;
		one(w);
		if ((int64_t)w->totals.killed == killed)
			w->histogram[times_bucket((uint64_t)(clock_us() - due))]++;
	}
	w->ended_us = clock_us();
	/* What was cut off has been handled by then. */
	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_sec = 1}, NULL);
	while (w->n_sure > 0 && w->totals.wrong == 0)
		let_go(w, w->sure[0].pod, false);
	while (w->n_unknown > 0 && w->totals.wrong == 0)
		let_go(w, w->unknown[0].pod, false);
	client_close(&w->client);
	return NULL;
}
