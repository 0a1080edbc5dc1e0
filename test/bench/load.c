// SPDX-License-Identifier: Apache-2.0
// bench: creates objects through a real API server, from several clients that keep their
// connections:
//   load KUBECONFIG PATH BODY FIRST COUNT CLIENTS RATE
// BODY is a file whose @N@ become FIRST, FIRST+1, … RATE 0: as fast as they go; else so many a
// second in all, begun when they are due, whatever became of the ones before, as long as a client
// is free. Prints one line of JSON; reasons of the first refusals go to stderr.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "kube/kube.h"

#define BODY_MAX (1024u * 1024)
#define CLIENTS_MAX 256
#define SAID_MAX 5
#define CALL_MS 30000
#define MARK "@N@"

struct load {
	struct kube *kube;
	const char *path;
	struct buf body;
	uint64_t first, count, rate;
	int64_t began_ns;
	pthread_mutex_t lock;
	/* Guarded by lock: */
	uint64_t next, created, refused, failed, late;
	int64_t *took_ns; /* of those that were created */
	unsigned said;
};

static int64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void sleep_until(int64_t ns)
{
	struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

	(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* The body of object number n. */
static void fill(const struct load *l, uint64_t n, struct buf *out)
{
	const char *at = l->body.data, *mark;

	buf_clear(out);
	while ((mark = strstr(at, MARK)) != NULL) {
		buf_add(out, at, (size_t)(mark - at));
		buf_fmt(out, "%llu", (unsigned long long)n);
		at = mark + strlen(MARK);
	}
	buf_str(out, at);
}

/* The next object's number, when it is due. False: there is none. */
static bool take(struct load *l, uint64_t *ret_n)
{
	uint64_t i;

	(void)pthread_mutex_lock(&l->lock);
	i = l->next;
	if (i < l->count)
		l->next++;
	(void)pthread_mutex_unlock(&l->lock);
	if (i >= l->count)
		return false;
	*ret_n = l->first + i;
	if (l->rate) {
		int64_t due = l->began_ns + (int64_t)(i * 1000000000 / l->rate);

		if (now_ns() - due > 2000000) {
			(void)pthread_mutex_lock(&l->lock);
			l->late++;
			(void)pthread_mutex_unlock(&l->lock);
		}
		sleep_until(due);
	}
	return true;
}

static void count(struct load *l, int rc, int64_t ns, const struct err *err)
{
	bool say;

	(void)pthread_mutex_lock(&l->lock);
	if (rc == 0)
		l->took_ns[l->created++] = ns;
	else if (rc == ERR_REFUSED || rc == ERR_CONFLICT || rc == ERR_INVALID)
		l->refused++;
	else
		l->failed++;
	say = rc != 0 && l->said < SAID_MAX;
	l->said += say;
	(void)pthread_mutex_unlock(&l->lock);
	if (say)
		(void)fprintf(stderr, "load: %s\n", err->msg);
}

static void *client(void *ctx)
{
	struct load *l = ctx;
	struct buf body;
	uint64_t n;

	buf_init(&body, BODY_MAX);
	while (take(l, &n)) {
		struct err err = {0};
		struct kube_call call = {.method = "POST", .path = l->path, .timeout_ms = CALL_MS};
		int64_t began;
		int rc;

		fill(l, n, &body);
		call.body = buf_as_slice(&body);
		began = now_ns();
		rc = kube_do(l->kube, &call, NULL, &err);
		count(l, rc, now_ns() - began, &err);
	}
	buf_release(&body);
	return NULL;
}

static int by_size(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static double percentile_ms(const struct load *l, uint64_t percent)
{
	uint64_t at = l->created * percent / 100;

	if (l->created == 0)
		return 0;
	return (double)l->took_ns[at < l->created ? at : l->created - 1] / 1e6;
}

static bool read_file(const char *path, struct buf *out)
{
	FILE *f = fopen(path, "rbe");
	char part[4096];
	size_t n;

	buf_init(out, BODY_MAX);
	if (!f)
		return false;
	while ((n = fread(part, 1, sizeof(part), f)) > 0)
		buf_add(out, part, n);
	(void)fclose(f);
	return out->len > 0 && !out->failed;
}

static uint64_t number(const char *text, uint64_t max)
{
	uint64_t n = 0;

	if (!text_u64(slice_of(text), max, &n)) {
		(void)fprintf(stderr, "load: not a number up to %llu: %s\n",
			(unsigned long long)max, text);
		exit(2);
	}
	return n;
}

static void run(struct load *l, size_t clients)
{
	static pthread_t threads[CLIENTS_MAX];
	double seconds;

	l->began_ns = now_ns();
	for (size_t i = 0; i < clients; i++)
		if (pthread_create(&threads[i], NULL, client, l) != 0)
			exit(1);
	for (size_t i = 0; i < clients; i++)
		(void)pthread_join(threads[i], NULL);
	seconds = (double)(now_ns() - l->began_ns) / 1e9;
	qsort(l->took_ns, l->created, sizeof(*l->took_ns), by_size);
	(void)printf(
		"{\"created\":%llu,\"refused\":%llu,\"failed\":%llu,\"late\":%llu,\"seconds\":%.3f,"
		"\"p50\":%.1f,\"p99\":%.1f,\"max\":%.1f}\n",
		(unsigned long long)l->created, (unsigned long long)l->refused,
		(unsigned long long)l->failed, (unsigned long long)l->late, seconds,
		percentile_ms(l, 50), percentile_ms(l, 99), percentile_ms(l, 100));
}

int main(int argc, char **argv)
{
	struct load l = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct kube_config config;
	struct err err = {0};
	size_t clients;

	if (argc != 8) {
		(void)fprintf(
			stderr, "usage: load KUBECONFIG PATH BODY FIRST COUNT CLIENTS RATE\n");
		return 2;
	}
	l.path = argv[2];
	l.first = number(argv[4], UINT32_MAX);
	l.count = number(argv[5], 1000000);
	clients = (size_t)number(argv[6], CLIENTS_MAX);
	l.rate = number(argv[7], 1000000);
	l.took_ns = calloc(l.count + 1, sizeof(*l.took_ns));
	if (!l.took_ns || !read_file(argv[3], &l.body)) {
		(void)fprintf(stderr, "load: cannot read %s\n", argv[3]);
		return 1;
	}
	if (kube_config_load(argv[1], &config, &err) != 0 ||
		kube_new(&config, &l.kube, &err) != 0) {
		(void)fprintf(stderr, "load: %s\n", err.msg);
		return 1;
	}
	run(&l, clients);
	kube_free(l.kube);
	kube_config_release(&config);
	buf_release(&l.body);
	free(l.took_ns);
	return l.failed ? 1 : 0;
}
