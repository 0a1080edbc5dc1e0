/* SPDX-License-Identifier: Apache-2.0 */
/* gate: servers and their claims: when one starts, and when it ends. */
#define _GNU_SOURCE
#include "gate/children.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "gate/children_impl.h"
#include "gate/process/family.h"
#include "gate/process/keep.h"

/* Between two looks whether it listens. */
#define LOOK_MS 20
/* Its parent has so much more than the grace for ending its family. */
#define FORCE_MS 300
/* MPS, which it asks first, has so much more. */
#define MPS_MS 2000
/* After the first failure it waits so long, after each further one twice that. */
#define AGAIN_FIRST_MS 250
#define AGAIN_LAST_MS 30000
/* What has run for so long did not fail at its start. */
#define GOOD_MS 60000
#define NOT_STARTED 127

/* ---- one server ---- */

void child_say(const struct child *s, enum log_level level, const char *what)
{
	log_line(s->all->cfg.log, level, what, log_str("uid", s->uid),
		log_str("address", s->address), log_int("pid", s->pid),
		log_str("error", level == LOG_LEVEL_INFO ? NULL : s->why));
}

static void fail(struct child *s)
{
	int64_t wait = AGAIN_FIRST_MS;

	for (unsigned i = 0; i < s->failures && wait < AGAIN_LAST_MS; i++)
		wait *= 2;
	s->failures++;
	s->again_ms = clock_ms() + (wait < AGAIN_LAST_MS ? wait : AGAIN_LAST_MS);
	s->all->facts.failures++;
	child_say(s, LOG_LEVEL_WARN, "a server failed");
}

static void forget_failures(struct child *s, enum child_state was)
{
	if (was == CHILD_UP && clock_ms() - s->since_ms >= GOOD_MS)
		s->failures = 0;
}

void child_end(struct child *s)
{
	if (s->state == CHILD_ENDING || s->state == CHILD_DOWN)
		return;
	s->state = CHILD_ENDING;
	s->until_ms = clock_ms() + s->all->cfg.profile->grace_ms + FORCE_MS + (s->mps ? MPS_MS : 0);
	child_mark(s);
	child_stop(s, false);
	child_say(s, LOG_LEVEL_INFO, "a server is ended");
}

/* Its parent has ended, and so has all that came of it. */
static void gone(struct child *s)
{
	s->state = CHILD_DOWN;
	s->stuck = false;
	if (s->was == CHILD_TRYING)
		return;
	if (s->was == CHILD_ENDING) {
		child_say(s, LOG_LEVEL_INFO, "a server has ended");
		return;
	}
	forget_failures(s, s->was);
	(void)snprintf(s->why, sizeof(s->why), "%s",
		WIFEXITED(s->status) && WEXITSTATUS(s->status) == NOT_STARTED
			? "it cannot be started"
		: s->was == CHILD_UP ? "it has ended by itself"
				     : "it has ended while it was starting");
	fail(s);
}

/* Where its parent was killed its cgroup may hold others, whose GPU is nobody's before they are
 * gone. */
static void on_over(void *ctx, uint32_t events)
{
	struct child *s = ctx;

	(void)events;
	if (s->pid == 0)
		return;
	s->was = s->state;
	if (s->was == CHILD_TRYING)
		s->over = true;
	s->status = child_reap(s);
	s->state = CHILD_ENDING;
	s->until_ms = clock_ms();
	if (child_clear(s))
		gone(s);
}

static void look(struct child *s)
{
	const struct server_profile *p = s->all->cfg.profile;

	if (!child_accepts(s)) {
		if (clock_ms() < s->until_ms)
			return;
		(void)snprintf(s->why, sizeof(s->why), "it does not %s at %s port %u after %lld ms",
			s->listener < 0 ? "listen" : "take connections", s->address,
			(unsigned)p->port, (long long)p->readiness_ms);
	} else if (child_listens(CHILDREN_NOBODY, p->port)) {
		/* Everybody could go around the gate, and into other claims' servers. */
		(void)snprintf(s->why, sizeof(s->why),
			"it listens on all addresses, expected {address} alone");
	} else {
		child_close(&s->listener);
		s->state = CHILD_UP;
		s->since_ms = s->idle_ms = clock_ms();
		child_say(s, LOG_LEVEL_INFO, "a server is up");
		return;
	}
	fail(s);
	child_end(s);
	if (!s->mps)
		child_stop(s, true);
}

/* Its parent takes too long. Under MPS nobody is ended by force: that could take others along. */
static void insist(struct child *s)
{
	if (!s->mps) {
		child_stop(s, true);
		return;
	}
	s->stuck = true;
	(void)snprintf(s->why, sizeof(s->why), "MPS does not answer: it is not ended");
	child_say(s, LOG_LEVEL_ERROR, "a server has its GPUs still");
}

/* ---- all of them ---- */

static struct child *find(const struct children *s, const char *uid)
{
	for (size_t i = 0; i < s->top; i++)
		if (s->server[i] && strcmp(s->server[i]->uid, uid) == 0)
			return s->server[i];
	return NULL;
}

struct child *child_new(struct children *all, const char *uid)
{
	struct child *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->all = all;
	s->pidfd = s->listener = -1;
	s->watch = (struct loop_watch){.ready = on_over, .ctx = s};
	(void)snprintf(s->uid, sizeof(s->uid), "%s", uid);
	return s;
}

void child_put(struct children *all, struct child *s)
{
	(void)snprintf(s->address, sizeof(s->address), CHILDREN_NET ".%u.%u", s->slot / 250,
		s->slot % 250 + 1);
	all->server[s->slot] = s;
	if (all->top <= s->slot)
		all->top = s->slot + 1;
}

void child_free(struct child *s)
{
	child_close_pidfd(s);
	child_close(&s->listener);
	free(s->share);
	free(s->cgroup);
	free(s);
}

/* "GPU-1=4096,GPU-2=4096": the bytes of each. NULL: no memory. */
static char *share_of(const struct picture_claim *c)
{
	struct buf text;

	buf_init(&text, 65536);
	for (size_t i = 0; i < c->n_gpus; i++)
		buf_fmt(&text, "%s%s=%llu", i ? "," : "", c->gpu[i].id,
			(unsigned long long)c->gpu[i].bytes);
	if (c->n_gpus == 0)
		buf_char(&text, '-');
	return buf_take(&text, &(size_t){0});
}

/* Of those that still have a GPU of the claim one that is stuck, else any; NULL: there is none. */
static const struct child *holder(const struct children *all, const struct picture_claim *claim)
{
	const struct child *found = NULL;

	for (size_t i = 0; i < all->top; i++) {
		const struct child *s = all->server[i];

		if (!s || (s->state != CHILD_ENDING && s->state != CHILD_TRYING))
			continue;
		for (size_t g = 0; g < claim->n_gpus; g++)
			if ((!found || s->stuck) && strstr(s->share, claim->gpu[g].id))
				found = s;
	}
	return found;
}

bool children_held(const struct children *all, const struct picture_claim *claim)
{
	return holder(all, claim) != NULL;
}

static struct child *add(struct children *all, const struct picture_claim *claim)
{
	struct child *s = child_new(all, claim->uid);

	if (!s)
		return NULL;
	while (s->slot < CHILDREN_MAX && all->server[s->slot])
		s->slot++;
	s->share = share_of(claim);
	if (s->slot == (all->accounts ? all->accounts : CHILDREN_MAX) || !s->share) {
		child_free(s);
		return NULL;
	}
	child_put(all, s);
	return s;
}

static enum children_answer start(
	struct child *s, const struct picture_claim *claim, struct err *err)
{
	const struct child *other = holder(s->all, claim);

	if (clock_ms() < s->again_ms) {
		(void)err_set(err, ERR_REFUSED, "%s", s->why);
		return CHILDREN_FAILED;
	}
	if (other && other->stuck) {
		(void)err_set(err, ERR_REFUSED, "another server has its GPU still: %s", other->why);
		return CHILDREN_FAILED;
	}
	if (other)
		return CHILDREN_WAIT;
	if (child_start(s, claim, NULL, NULL, err) != 0) {
		(void)snprintf(s->why, sizeof(s->why), "%.150s", err->msg);
		fail(s);
		return CHILDREN_FAILED;
	}
	s->state = CHILD_STARTING;
	s->until_ms = clock_ms() + s->all->cfg.profile->readiness_ms;
	s->all->facts.starts++;
	return CHILDREN_WAIT;
}

static void give_up(struct child *s, const char *why)
{
	(void)snprintf(s->why, sizeof(s->why), "%s", why);
	forget_failures(s, s->state);
	fail(s);
	child_end(s);
}

enum children_answer children_want(struct children *all, const struct picture_claim *claim,
	struct sockaddr_in *ret, struct err *err)
{
	struct child *s = find(all, claim->uid);

	if (!s)
		s = add(all, claim);
	if (!s) {
		(void)err_set(err, ERR_NOMEM, "no room for one more server");
		return CHILDREN_FAILED;
	}
	s->idle_ms = clock_ms();
	/* Its parent has others of its family to end yet, and perhaps MPS to ask: one of them may
	 * have its socket still, where connections would come, and wait for nobody. */
	if (s->state == CHILD_UP && family_is_named(s->pid, KEEP_ALONE))
		give_up(s, "it has ended by itself");
	if (s->state == CHILD_ENDING && (s->stuck || (!s->over && clock_ms() < s->again_ms))) {
		(void)err_set(err, ERR_REFUSED, "%s", s->why);
		return CHILDREN_FAILED;
	}
	/* Its place and its share are those of the claim before. */
	if (s->over)
		return CHILDREN_WAIT;
	if (s->state == CHILD_DOWN)
		return start(s, claim, err);
	if (s->state != CHILD_UP)
		return CHILDREN_WAIT;
	*ret = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons(all->cfg.profile->port)};
	(void)inet_pton(AF_INET, s->address, &ret->sin_addr);
	return CHILDREN_READY;
}

void children_used(struct children *all, const char *uid, int change)
{
	struct child *s = find(all, uid);

	if (!s)
		return;
	s->connections = (size_t)((ptrdiff_t)s->connections + change);
	s->idle_ms = clock_ms();
}

void children_claims(struct children *all, const struct picture *p)
{
	for (size_t i = 0; i < all->top; i++) {
		struct child *s = all->server[i];
		const struct picture_claim *claim = s ? picture_claim(p, s->uid) : NULL;
		char *share = claim ? share_of(claim) : NULL;

		if (s && s->state != CHILD_TRYING &&
			(!claim || (share && strcmp(share, s->share) != 0))) {
			s->over = true;
			child_end(s);
		}
		free(share);
	}
}

void children_overdone(struct children *all, const char *uid)
{
	struct child *s = find(all, uid);

	if (s && (s->state == CHILD_UP || s->state == CHILD_STARTING))
		give_up(s, "it took more of a GPU than its claim has");
}

int children_try(struct children *all, const struct picture_claim *claim, const char *share,
	struct children_tried *ret, struct err *err)
{
	struct child *s;
	int ends[2], rc;

	*ret = (struct children_tried){0};
	if (find(all, CHILDREN_TRY))
		return err_set(err, ERR_IO, "the last self-test has not ended");
	s = add(all, claim);
	if (!s)
		return err_set(err, ERR_NOMEM, "no room for one more server");
	s->state = CHILD_TRYING;
	rc = child_start(s, claim, share, ends, err);
	if (rc == 0) {
		*ret = (struct children_tried){s->pid, ends[0], ends[1]};
		return 0;
	}
	all->server[s->slot] = NULL;
	child_free(s);
	return rc;
}

/* Without its input it ends, and so do those that it has started; a call into the driver may hold
 * them: its parent ends whom it must, as those of servers. */
void children_tried(struct children *all, struct children_tried *t)
{
	struct child *s = find(all, CHILDREN_TRY);

	if (t->pid == 0)
		return;
	(void)close(t->in);
	(void)close(t->out);
	*t = (struct children_tried){0};
	if (!s || s->state != CHILD_TRYING)
		return;
	s->over = true;
	child_end(s);
}

bool children_over(const struct children *all, const char *uid)
{
	const struct child *s = find(all, uid);

	return s && s->over;
}

void children_end(struct children *all)
{
	for (size_t i = 0; i < all->top; i++) {
		if (!all->server[i])
			continue;
		all->server[i]->over = true;
		child_end(all->server[i]);
	}
}

static int64_t turn(struct child *s)
{
	const struct server_profile *p = s->all->cfg.profile;
	int64_t now = clock_ms();

	if (s->state == CHILD_STARTING) {
		look(s);
		return LOOK_MS;
	}
	if (s->state == CHILD_ENDING && s->pid == 0) {
		if (child_clear(s))
			gone(s);
		return LOOK_MS;
	}
	if (s->state == CHILD_ENDING && !s->stuck) {
		if (now >= s->until_ms)
			insist(s);
		return now >= s->until_ms ? LOOK_MS : s->until_ms - now;
	}
	if (s->state != CHILD_UP || p->linger_ms < 0 || s->connections > 0)
		return -1;
	if (now >= s->idle_ms + p->linger_ms) {
		child_end(s);
		return LOOK_MS;
	}
	return s->idle_ms + p->linger_ms - now;
}

int64_t children_turn(struct children *all)
{
	int64_t least = -1;

	for (size_t i = 0; i < all->top; i++) {
		struct child *s = all->server[i];
		int64_t ms;

		if (!s)
			continue;
		/* A start that failed may have left something. */
		if (s->over && s->state == CHILD_DOWN && child_clear(s)) {
			all->server[i] = NULL;
			child_free(s);
			continue;
		}
		ms = s->over && s->state == CHILD_DOWN ? LOOK_MS : turn(s);
		if (ms >= 0 && (least < 0 || ms < least))
			least = ms;
	}
	return least;
}
