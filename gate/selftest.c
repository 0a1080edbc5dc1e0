/* SPDX-License-Identifier: Apache-2.0 */
/* gate: the self-test: started, measured, heard, ended. */
#define _GNU_SOURCE
#include "gate/selftest.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

/* In all; and until somebody has seen the context, else the usual one is taken. */
#define PATIENCE_MS 120000
#define MEASURE_MS 30000
/* Where no GPU is free; after a try that told nothing. */
#define NONE_FREE_MS 10000
#define AGAIN_MS 600000
#define SAME_ACCOUNT "servers run, with the same account"
/* Where a server is still being ended, or the processes before. */
#define HELD_MS 100

static void over(struct selftest *t, enum gate_shares shares, const char *why)
{
	children_tried(t->children, &t->tried);
	t->shares = shares;
	t->state = shares == GATE_SHARES_UNKNOWN ? SELFTEST_DUE : SELFTEST_DONE;
	t->again_ms = clock_ms() + AGAIN_MS;
	t->control = false;
	if (shares != GATE_SHARES_UNKNOWN)
		log_line(t->log, shares == GATE_SHARES_HELD ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR,
			shares == GATE_SHARES_HELD
				? "the profile holds a claim to its share"
				: "the profile does not hold a claim to its share",
			log_int("context", (int64_t)t->context));
	else if (!t->told)
		log_line(t->log, LOG_LEVEL_WARN,
			"whether the profile holds a claim to its share is not known",
			log_str("error", why));
	t->told = shares == GATE_SHARES_UNKNOWN;
}

/* A tenant's process of the same account could answer for ours. */
static bool is_alone(const struct selftest *t, uint64_t starts)
{
	struct children_facts f = children_facts(t->children);

	return f.apart || (f.running + f.ending == 0 && f.starts == starts);
}

/* What the processes found: of half of the GPU, or, in a control, of all of it. */
static void judge(struct selftest *t, bool held)
{
	if (!is_alone(t, t->starts)) {
		over(t, GATE_SHARES_UNKNOWN, SAME_ACCOUNT);
	} else if (!held && !t->control) {
		over(t, GATE_SHARES_EXCEEDED, "");
	} else if (t->others) {
		over(t, GATE_SHARES_UNKNOWN, "somebody else computes on the GPU");
	} else if (!held) {
		over(t, GATE_SHARES_HELD, "");
	} else if (t->control) {
		over(t, GATE_SHARES_UNKNOWN,
			"two processes do not get more with all of the GPU as "
			"their share: others may have the rest");
	} else {
		children_tried(t->children, &t->tried);
		t->control = true;
		t->state = SELFTEST_DUE;
		t->again_ms = clock_ms();
	}
}

static void go_on(struct selftest *t)
{
	char line[32];
	int n = snprintf(line, sizeof(line), "%llu\n",
		(unsigned long long)(t->context ? t->context : t->usual));

	t->state = SELFTEST_TRYING;
	if (write(t->tried.in, line, (size_t)n) != n)
		over(t, GATE_SHARES_UNKNOWN, "it does not listen");
}

static void hear_line(struct selftest *t, const char *line)
{
	if (t->state == SELFTEST_STARTING && strcmp(line, "ready") == 0) {
		t->state = SELFTEST_MEASURING;
		t->until_ms = clock_ms() + (t->looks ? MEASURE_MS : 0);
	} else if (t->state == SELFTEST_TRYING &&
		   (strcmp(line, "held") == 0 || strcmp(line, "exceeded") == 0)) {
		judge(t, strcmp(line, "held") == 0);
	} else {
		over(t, GATE_SHARES_UNKNOWN,
			strncmp(line, "unknown ", 8) == 0 ? line + 8 : "what it says is not known");
	}
}

static void hear(void *ctx, uint32_t events)
{
	struct selftest *t = ctx;

	(void)events;
	while (t->tried.pid) {
		char *end;
		ssize_t n = read(t->tried.out, t->line + t->len, sizeof(t->line) - 1 - t->len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			over(t, GATE_SHARES_UNKNOWN, "it has ended");
			return;
		}
		t->len += (size_t)n;
		t->line[t->len] = '\0';
		while (t->tried.pid && (end = strchr(t->line, '\n')) != NULL) {
			*end = '\0';
			hear_line(t, t->line);
			t->len -= (size_t)(end + 1 - t->line);
			memmove(t->line, end + 1, t->len + 1);
		}
	}
}

static void start(struct selftest *t, const struct picture *p)
{
	uint64_t half = p->spare.bytes / 2;
	/* A control of another GPU would tell nothing. */
	bool control = t->control && strcmp(t->gpu, p->spare.id) == 0;
	struct picture_gpu gpu = {p->spare.id, control ? p->spare.bytes : half, p->spare.bytes};
	const struct picture_claim claim = {.uid = CHILDREN_TRY, .gpu = &gpu, .n_gpus = 1};
	struct err err = {0};
	char share[32];

	if (children_held(t->children, &claim)) {
		t->again_ms = clock_ms() + HELD_MS;
		return;
	}
	t->control = control;
	if (!control) {
		t->others = false;
		t->starts = children_facts(t->children).starts;
		(void)snprintf(t->gpu, sizeof(t->gpu), "%s", gpu.id);
	}
	(void)snprintf(share, sizeof(share), "%llu", (unsigned long long)half);
	t->len = 0;
	t->watch = (struct loop_watch){.ready = hear, .ctx = t};
	if (children_try(t->children, &claim, share, &t->tried, &err) != 0 ||
		loop_add(t->loop, t->tried.out, &t->watch, &err) != 0) {
		over(t, GATE_SHARES_UNKNOWN, err.msg);
		return;
	}
	t->state = SELFTEST_STARTING;
	t->until_ms = clock_ms() + PATIENCE_MS;
	log_line(t->log, LOG_LEVEL_INFO, "the self-test begins", log_str("gpu", gpu.id),
		log_bool("control", control));
}

/* NULL: it may begin. */
static const char *why_not(const struct selftest *t, const struct picture *p)
{
	if (!p->spare.id)
		return "no GPU is free of claims, and known by UUID";
	return is_alone(t, children_facts(t->children).starts) ? NULL : SAME_ACCOUNT;
}

int64_t selftest_turn(struct selftest *t, const struct picture *p)
{
	int64_t now = clock_ms(), until;
	const char *why;

	if (t->state == SELFTEST_DONE || (t->state == SELFTEST_DUE && (!p || !p->gated)))
		return -1;
	if (t->state == SELFTEST_DUE && now < t->again_ms)
		return t->again_ms - now;
	if (t->state == SELFTEST_DUE && children_over(t->children, CHILDREN_TRY)) {
		t->again_ms = now + HELD_MS;
		return HELD_MS;
	}
	why = t->state == SELFTEST_DUE ? why_not(t, p) : NULL;
	if (why) {
		if (!t->told)
			log_line(t->log, LOG_LEVEL_WARN,
				"whether the profile holds a claim to its share is not known",
				log_str("error", why));
		t->told = true;
		t->control = false;
		t->again_ms = now + NONE_FREE_MS;
		return NONE_FREE_MS;
	}
	if (t->state == SELFTEST_DUE)
		start(t, p);
	else if (now >= t->until_ms && t->state == SELFTEST_MEASURING) {
		t->until_ms = now + PATIENCE_MS;
		go_on(t);
	} else if (now >= t->until_ms) {
		over(t, GATE_SHARES_UNKNOWN, "it takes too long");
	}
	now = clock_ms();
	until = t->state == SELFTEST_DUE ? t->again_ms : t->until_ms;
	return until <= now ? 0 : until - now;
}

/* A process on the GPU where it is tried. An empty context, as MPS's own server has one, takes room
 * from nobody. */
static void see(struct selftest *t, const struct usage_process *one)
{
	const char *uid = children_of(t->children, one->pid);
	bool ours = uid && strcmp(uid, CHILDREN_TRY) == 0;

	if (ours && one->known && t->state == SELFTEST_MEASURING && one->bytes > t->context)
		t->context = one->bytes;
	/* What has ended since the look may have been ours. */
	if (!ours && (!one->known || one->bytes > (t->context ? t->context : t->usual)) &&
		(uid || kill(one->pid, 0) == 0 || errno != ESRCH))
		t->others = true;
}

void selftest_looked(struct selftest *t, const struct usage_look *look)
{
	for (size_t g = 0; t->state != SELFTEST_DONE && g < look->n_gpus; g++)
		for (size_t i = 0; i < look->gpus[g].n_processes; i++)
			if (strcmp(look->gpus[g].id, t->gpu) == 0)
				see(t, &look->gpus[g].processes[i]);
	if (t->state != SELFTEST_MEASURING || t->context == 0)
		return;
	t->until_ms = clock_ms() + PATIENCE_MS;
	go_on(t);
}

void selftest_end(struct selftest *t)
{
	if (t->children)
		children_tried(t->children, &t->tried);
	t->state = SELFTEST_DONE;
}
