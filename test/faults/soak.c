/* SPDX-License-Identifier: Apache-2.0 */
/* soak: reviews at a steady rate over TLS, each answer held against what is right:
 *   soak PORT TRUST DOCUMENTS WORKERS RATE SECONDS KILLS SEED
 * Answers whose text is known must be that text, byte for byte. Each worker has a server of the
 * pool for itself, on which HOLDS pods find room, and counts its pods: by that count a pod must be
 * admitted or refused. KILLS of 1000 requests end in an RST at a random byte of the handshake, of
 * the request, or after it. RATE 0: as fast as they go. Prints one line of JSON; exit status 1 when
 * an answer was wrong. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "test/faults/soak_worker.h"

#define WORKERS_MAX 64

static bool prepare(struct worker *w, struct run *r, unsigned index)
{
	w->run = r;
	w->index = index;
	w->random = (r->seed * 1000 + index + 1) * 0x9e3779b97f4a7c15u;
	w->client = (struct client){.trust = r->trust, .port = r->port, .fd = -1, .budget = -1};
	w->text = malloc(r->longest + 1);
	w->reply.body = malloc(REPLY_MAX + JSON_PAD);
	for (size_t i = 0; i < r->n_docs; i++) {
		if (r->docs[i].worker != index)
			continue;
		if (r->docs[i].kind == DOC_CREATE)
			w->create = &r->docs[i];
		else if (r->docs[i].kind == DOC_DELETE)
			w->delete = &r->docs[i];
	}
	return w->text && w->reply.body && w->create && w->delete;
}

static void sum_up(struct run *r, struct worker *w)
{
	uint64_t *to = (uint64_t *)&r->totals;
	const uint64_t *from = (const uint64_t *)&w->totals;

	for (size_t i = 0; i < sizeof(r->totals) / sizeof(*to); i++)
		to[i] += from[i];
	if (w->ended_us > r->end_us)
		r->end_us = w->ended_us; /* it lags behind */
	for (size_t i = 0; i < TIMES; i++)
		r->histogram[i] += w->histogram[i];
	json_release(&w->json);
	free(w->text);
	free(w->reply.body);
}

static void say(const struct run *r)
{
	const struct totals *t = &r->totals;
	uint64_t first = 0, second = 0;

	for (size_t i = 0; i < r->n_docs; i++) {
		if (r->docs[i].n_replies == 2) {
			first += r->docs[i].seen[0];
			second += r->docs[i].seen[1];
		}
	}
	(void)printf("{\"asked\":%llu,\"answered\":%llu,\"wrong\":%llu,\"killed\":%llu,"
		     "\"admitted\":%llu,"
		     "\"refused\":%llu,\"undecided\":%llu,\"handshakes\":%llu,\"before\":%llu,"
		     "\"after\":%llu,"
		     "\"seconds\":%.3f,\"p50\":%.3f,\"p99\":%.3f,\"p999\":%.3f,\"max\":%.3f}\n",
		(unsigned long long)t->asked, (unsigned long long)t->answered,
		(unsigned long long)t->wrong, (unsigned long long)t->killed,
		(unsigned long long)t->allowed, (unsigned long long)t->refused,
		(unsigned long long)t->either, (unsigned long long)t->handshakes,
		(unsigned long long)first, (unsigned long long)second,
		(double)(r->end_us - r->began_us) / 1e6, times_ms(r->histogram, 5000),
		times_ms(r->histogram, 9900), times_ms(r->histogram, 9990),
		times_ms(r->histogram, 10000));
}

static uint64_t number(const char *text, uint64_t max)
{
	uint64_t n = 0;

	if (!text_u64(slice_of(text), max, &n)) {
		(void)fprintf(stderr, "soak: not a number up to %llu: %s\n",
			(unsigned long long)max, text);
		exit(2);
	}
	return n;
}

int main(int argc, char **argv)
{
	static struct worker workers[WORKERS_MAX];
	pthread_t threads[WORKERS_MAX];
	static struct run r = {.lock = PTHREAD_MUTEX_INITIALIZER};

	if (argc != 9) {
		(void)fprintf(stderr,
			"usage: soak PORT TRUST DOCUMENTS WORKERS RATE SECONDS KILLS SEED\n");
		return 2;
	}
	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	r.port = (uint16_t)number(argv[1], 65535);
	r.workers = (unsigned)number(argv[4], WORKERS_MAX);
	r.rate = number(argv[5], 1000000);
	r.kills = number(argv[7], 1000);
	r.seed = number(argv[8], UINT32_MAX);
	if (gnutls_certificate_allocate_credentials(&r.trust) != 0 ||
		gnutls_certificate_set_x509_trust_file(r.trust, argv[2], GNUTLS_X509_FMT_PEM) <=
			0) {
		(void)fprintf(stderr, "soak: no certificate in %s\n", argv[2]);
		return 2;
	}
	r.docs = documents_read(argv[3], &r.n_docs);
	if (!r.docs)
		return 2;
	for (size_t i = 0; i < r.n_docs; i++)
		r.longest = r.docs[i].request.len > r.longest ? r.docs[i].request.len : r.longest;
	for (unsigned i = 0; i < r.workers; i++) {
		if (!prepare(&workers[i], &r, i)) {
			(void)fprintf(stderr, "soak: no documents for worker %u\n", i);
			return 2;
		}
	}
	r.began_us = clock_us();
	r.end_us = r.began_us + (int64_t)number(argv[6], 1000000) * 1000000;
	for (unsigned i = 0; i < r.workers; i++)
		if (pthread_create(&threads[i], NULL, worker_run, &workers[i]) != 0)
			return 2;
	for (unsigned i = 0; i < r.workers; i++) {
		(void)pthread_join(threads[i], NULL);
		sum_up(&r, &workers[i]);
	}
	say(&r);
	return r.totals.wrong > 0;
}
