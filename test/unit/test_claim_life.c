/* SPDX-License-Identifier: Apache-2.0 */
/* core/pool/claim_life: each rule as a table, then random histories of a small world against the
 * two promises. */
#include "test/unit/test.h"
#include "webhook/core/pool/claim_life.h"

#define START 1000000 /* when claims come in view */

struct row {
	const char *what;
	struct claim_sight c; /* since_ms, lost_ms, asked_ms, gone_ms: relative to START; -1 for
				 asked_ms: never */
	int64_t now;          /* relative to START */
	enum claim_act act;
	int64_t until; /* relative; for CLAIM_KEEP and CLAIM_LINGER; -1: for ever */
};

static void check(const struct row *rows, size_t n)
{
	struct claim_pace pace = claim_pace();

	for (size_t i = 0; i < n; i++) {
		struct claim_sight c = rows[i].c;
		struct claim_verdict v;
		int64_t until = rows[i].until < 0 ? INT64_MAX : START + rows[i].until;

		c.since_ms += START;
		c.lost_ms = c.lost_ms ? START + c.lost_ms : 0;
		c.asked_ms = c.asked_ms < 0 ? 0 : START + c.asked_ms;
		c.gone_ms = c.gone_ms ? START + c.gone_ms : 0;
		v = claim_life(&c, &pace, START + rows[i].now);
		if (v.act != rows[i].act ||
			((v.act == CLAIM_KEEP || v.act == CLAIM_LINGER) && v.until_ms != until))
			fail_msg("%s: act %d until %lld", rows[i].what, (int)v.act,
				(long long)(v.until_ms - START));
	}
}

#define PENDING .pending = true, .unbound = true, .synced = true
#define BOUND .synced = true
#define NEVER .asked_ms = -1

TEST(test_r5_pending)
{
	static const struct row rows[] = {
		{"just taken", {PENDING, NEVER}, 0, CLAIM_KEEP, 45000},
		{"before 45 s", {PENDING, NEVER}, 44999, CLAIM_KEEP, 45000},
		{"at 45 s", {PENDING, NEVER}, 45000, CLAIM_ASK, 0},
		{"not synced makes no difference",
			{.pending = true, .unbound = true, .synced = false, NEVER}, 45000,
			CLAIM_ASK, 0},
		{"a 404 of before says nothing",
			{PENDING, .asked_ms = 44999, .answer = ANSWER_GONE}, 50000, CLAIM_ASK, 0},
		{"nor before 45 s", {PENDING, .asked_ms = 10, .answer = ANSWER_GONE}, 20,
			CLAIM_KEEP, 45000},
		{"404 afterwards", {PENDING, .asked_ms = 45000, .answer = ANSWER_GONE}, 45001,
			CLAIM_END, 0},
		{"no answer: once more, soon", {PENDING, .asked_ms = 45000}, 45001, CLAIM_KEEP,
			47000},
		{"and again", {PENDING, .asked_ms = 45000}, 47000, CLAIM_ASK, 0},
		{"a GET shows it", {PENDING, .asked_ms = 45000, .answer = ANSWER_LIVE}, 45001,
			CLAIM_BIND, 0},
		{"the watch shows it", {PENDING, .seen = POD_LIVE, NEVER}, 5, CLAIM_BIND, 0},
		{"it has finished already", {PENDING, .seen = POD_FINISHED, NEVER}, 5, CLAIM_END,
			0},
		{"a GET says finished", {PENDING, .asked_ms = 45000, .answer = ANSWER_FINISHED},
			45001, CLAIM_END, 0},
	};

	check(rows, COUNT(rows));
}

/* What the watch has once shown is stored: it can go, and not come. */
TEST(test_r12_shown_and_lost)
{
	static const struct row rows[] = {
		{"at once", {PENDING, .lost_ms = 100, NEVER}, 101, CLAIM_ASK, 0},
		{"before the claim came in view", {PENDING, .lost_ms = -50, NEVER}, 0, CLAIM_ASK,
			0},
		{"404", {PENDING, .lost_ms = 100, .asked_ms = 101, .answer = ANSWER_GONE}, 102,
			CLAIM_END, 0},
		{"its label was taken away",
			{PENDING, .lost_ms = 100, .asked_ms = 101, .answer = ANSWER_LIVE}, 102,
			CLAIM_BIND, 0},
		{"no answer: once more, soon", {PENDING, .lost_ms = 100, .asked_ms = 101}, 102,
			CLAIM_KEEP, 2101},
	};

	check(rows, COUNT(rows));
}

TEST(test_r6_bound)
{
	static const struct row rows[] = {
		{"shown", {BOUND, .seen = POD_LIVE, NEVER}, 100000, CLAIM_KEEP, -1},
		{"finished", {BOUND, .seen = POD_FINISHED, NEVER}, 1, CLAIM_END, 0},
		{"not shown: at once", {BOUND, NEVER}, 0, CLAIM_ASK, 0},
		{"404", {BOUND, .asked_ms = 1, .answer = ANSWER_GONE}, 2, CLAIM_END, 0},
		{"a 404 from before it was bound",
			{BOUND, .since_ms = 100, .asked_ms = 99, .answer = ANSWER_GONE}, 101,
			CLAIM_ASK, 0},
		{"there, label stripped: every 15 s", {BOUND, .asked_ms = 1, .answer = ANSWER_LIVE},
			2, CLAIM_KEEP, 15001},
		{"the 15 s are over", {BOUND, .asked_ms = 1, .answer = ANSWER_LIVE}, 15001,
			CLAIM_ASK, 0},
		{"just lost: at once",
			{BOUND, .asked_ms = 1, .answer = ANSWER_LIVE, .lost_ms = 500}, 501,
			CLAIM_ASK, 0},
		{"lost before it was asked for",
			{BOUND, .asked_ms = 600, .answer = ANSWER_LIVE, .lost_ms = 500}, 601,
			CLAIM_KEEP, 15600},
		{"no answer", {BOUND, .asked_ms = 1}, 2, CLAIM_KEEP, 2001},
		{"no list yet: not everybody at once", {.synced = false, NEVER}, 0, CLAIM_KEEP,
			15000},
		{"no list for long", {.synced = false, NEVER}, 15000, CLAIM_ASK, 0},
		{"bound in part", {BOUND, .unbound = true, .seen = POD_LIVE, NEVER}, 3, CLAIM_BIND,
			0},
		{"bound in part, gone",
			{BOUND, .unbound = true, .asked_ms = 3, .answer = ANSWER_GONE}, 4,
			CLAIM_END, 0},
	};

	check(rows, COUNT(rows));
}

/* Gone, and nobody saw it end: its kubelet may be about to. */
TEST(test_r13_gone_without_an_end)
{
#define GONE .answer = ANSWER_GONE, .grace_ms = 20000
	static const struct row rows[] = {
		{"for its grace period and a margin",
			{BOUND, .asked_ms = 100, .gone_ms = 100, GONE}, 101, CLAIM_LINGER, 35100},
		{"until then", {BOUND, .asked_ms = 100, .gone_ms = 100, GONE}, 35099, CLAIM_LINGER,
			35100},
		{"asked once more", {BOUND, .asked_ms = 100, .gone_ms = 100, GONE}, 35100,
			CLAIM_ASK, 0},
		{"and ended", {BOUND, .asked_ms = 35100, .gone_ms = 100, GONE}, 35101, CLAIM_END,
			0},
		{"by an answer alone",
			{BOUND, .asked_ms = 35100, .gone_ms = 100, .grace_ms = 20000}, 35101,
			CLAIM_KEEP, 37100},
		{"a pod without a node never ran",
			{BOUND, .asked_ms = 100, .gone_ms = 100, .unplaced = true, GONE}, 101,
			CLAIM_END, 0},
		{"one that was seen to finish has ended",
			{BOUND, .seen = POD_FINISHED, .lost_ms = 100, .asked_ms = -1,
				.grace_ms = 20000},
			101, CLAIM_END, 0},
		{"seen by the watch, and not bound yet",
			{PENDING, .lost_ms = 90, .asked_ms = 100, .gone_ms = 100, GONE}, 101,
			CLAIM_LINGER, 35100},
		{"whom nobody has seen never came",
			{PENDING, .asked_ms = 45000, .gone_ms = 45000, GONE}, 45001, CLAIM_END, 0},
	};

	check(rows, COUNT(rows));
}

/* ---- a small world ---- */

#define STEP 250
#define CREATE_MAX 34000
#define NEVER_MS INT64_MAX

static uint64_t seed = 88172645463325252ull;

static int64_t upto(int64_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (int64_t)(seed % (uint64_t)(n + 1));
}

static bool one_in(int64_t n)
{
	return upto(n - 1) == 0;
}

/* The truth. Times are START + what happens. */
struct world {
	int64_t claimed;                    /* the review commits */
	int64_t created, finished, deleted; /* of the pod; NEVER_MS */
	int64_t stripped;                   /* of the label */
	int64_t grace; /* so long it runs on behind a delete; 0: it has no node */
	int64_t watch_late, picture_late; /* how far behind they are */
	bool get_fails;                   /* one in four does */
	/* the record */
	bool there, bound;
	int64_t version_ms; /* when it changed last */
	int64_t ended;
};

/* One leader's head. */
struct head {
	int64_t born, dies, synced_at, still_until;
	bool in_view;
	struct claim_sight c;
	/* what it is about to write, when it stood still between its GET and its PUT */
	bool has_write;
	enum claim_act write;
	int64_t seen_version;
};

static bool exists(const struct world *w, int64_t t)
{
	return w->created <= t && t < w->deleted;
}

static enum pod_answer truth(const struct world *w, int64_t t)
{
	if (!exists(w, t))
		return ANSWER_GONE;
	return t >= w->finished ? ANSWER_FINISHED : ANSWER_LIVE;
}

/* What the watch shows at t is what was true a while ago. */
static void look(const struct world *w, struct head *h, int64_t t)
{
	int64_t then = t - w->watch_late;

	h->c.synced = t >= h->synced_at;
	h->c.seen = POD_NOT_SHOWN;
	if (!h->c.synced)
		return;
	if (exists(w, then) && then < w->stripped)
		h->c.seen = then >= w->finished ? POD_FINISHED : POD_LIVE;
	else if (then >= w->created && h->born < then) {
		bool told = h->synced_at < w->created + w->watch_late && w->deleted < w->stripped;

		h->c.lost_ms =
			(w->deleted < w->stripped ? w->deleted : w->stripped) + w->watch_late;
		if (told && w->finished <= w->deleted)
			h->c.seen = POD_FINISHED;
		h->c.unplaced = told && !w->grace;
	}
}

/* The claim may not go while its pod is there, or can still come; nor, where the leader knows that
 * it was there, while it may run on. */
static void end_claim(struct world *w, const struct head *h, int64_t t)
{
	bool known = !h->c.pending || h->c.lost_ms || h->c.seen != POD_NOT_SHOWN;

	if (known && w->finished > w->deleted && t >= w->deleted && t < w->deleted + w->grace)
		fail_msg("R13 broken: ended at %lld, deleted %lld, may run until %lld",
			(long long)t, (long long)w->deleted, (long long)(w->deleted + w->grace));
	if (w->created != NEVER_MS && t < w->deleted && t < w->finished)
		fail_msg("R5/R6 broken: ended at %lld, claimed %lld, created %lld, deleted %lld, "
			 "finished %lld",
			(long long)t, (long long)w->claimed, (long long)w->created,
			(long long)w->deleted, (long long)w->finished);
	w->there = false;
	w->ended = t;
}

static void put(struct world *w, struct head *h, int64_t t)
{
	h->has_write = false;
	if (!w->there)
		return;
	if (w->version_ms > h->seen_version) { /* conflict: asked anew */
		h->c.asked_ms = 0;
		h->c.answer = ANSWER_NONE;
		return;
	}
	w->version_ms = t;
	if (h->write == CLAIM_END) {
		end_claim(w, h, t);
	} else {
		w->bound = true;
	}
}

/* What the leader sees of the record: late, and its clocks start again when it changes. */
static bool view(const struct world *w, struct head *h, int64_t t)
{
	bool bound = w->bound && w->version_ms <= t - w->picture_late;

	if (!w->there || t < w->claimed + w->picture_late) {
		h->in_view = false;
		return false;
	}
	if (!h->in_view || (h->c.pending && bound)) {
		h->c.since_ms = t;
		h->c.asked_ms = h->c.gone_ms = 0;
		h->c.answer = ANSWER_NONE;
	}
	h->in_view = true;
	h->c.pending = h->c.unbound = !bound;
	h->c.grace_ms = w->grace;
	h->seen_version = t - w->picture_late;
	return true;
}

static void tick(struct world *w, struct head *h, int64_t t)
{
	struct claim_pace pace = claim_pace();
	struct claim_verdict v;

	if (t < h->born || t >= h->dies || t < h->still_until)
		return;
	if (h->has_write) {
		put(w, h, t);
		return;
	}
	if (!view(w, h, t))
		return;
	look(w, h, t);
	v = claim_life(&h->c, &pace, t);
	if (v.act == CLAIM_ASK) {
		h->c.asked_ms = t;
		h->c.answer = w->get_fails && one_in(4) ? ANSWER_NONE : truth(w, t);
		if (h->c.answer == ANSWER_GONE && !h->c.gone_ms)
			h->c.gone_ms = t;
		v = claim_life(&h->c, &pace, t);
		assert_int_not_equal(v.act, CLAIM_ASK);
	}
	if (v.act == CLAIM_KEEP || v.act == CLAIM_LINGER)
		return;
	h->has_write = true;
	h->write = v.act;
	if (one_in(8))
		h->still_until = t + upto(60000);
	else
		put(w, h, t);
}

static struct world any_world(void)
{
	struct world w = {.claimed = START,
		.created = NEVER_MS,
		.finished = NEVER_MS,
		.deleted = NEVER_MS,
		.stripped = NEVER_MS,
		.watch_late = upto(2000),
		.picture_late = upto(1000),
		.there = true,
		.version_ms = START,
		.get_fails = one_in(3)};

	if (one_in(8))
		w.watch_late = upto(90000);
	if (one_in(3))
		return w;
	w.created = w.claimed + (one_in(4) ? CREATE_MAX : upto(CREATE_MAX));
	if (!one_in(3))
		w.deleted = w.created + 1 + upto(60000);
	if (one_in(3))
		w.finished = w.created + upto(60000);
	if (one_in(4))
		w.stripped = w.created + upto(30000);
	if (one_in(2))
		w.grace = 1000 + upto(60000);
	return w;
}

#define HEADS 4

/* Leaders come and go; the last one stays and does not stand still again for long. */
static void any_heads(struct head *h, int64_t *ret_last)
{
	int64_t t = START - 5000 + upto(10000);

	for (int i = 0; i < HEADS; i++) {
		h[i] = (struct head){.born = t, .synced_at = t + upto(10000)};
		t += upto(40000);
		/* two lead at once for a while, or nobody does */
		h[i].dies = i + 1 < HEADS ? t + upto(20000) - 5000 : NEVER_MS;
	}
	*ret_last = h[HEADS - 1].synced_at;
}

static void one_history(void)
{
	struct world w = any_world();
	struct head heads[HEADS];
	int64_t last, gone, limit;

	any_heads(heads, &last);
	gone = w.created == NEVER_MS ? w.claimed : w.finished < w.deleted ? w.finished : w.deleted;
	/* the last leader has it in view, the watch has told; a pause, the failed questions */
	limit = gone == NEVER_MS
			? START + 200000
			: (last > gone ? last : gone) + w.watch_late + 1000 + CLAIM_PENDING_MS +
				  CLAIM_ASK_MS + STEP + w.grace + CLAIM_MARGIN_MS +
				  (w.get_fails ? 40 * CLAIM_RETRY_MS : 0) + 130000;
	for (int64_t t = START - 5000; t <= limit && w.there; t += STEP)
		for (int i = 0; i < HEADS; i++)
			tick(&w, &heads[i], t);
	if (gone != NEVER_MS && w.there)
		fail_msg("leaked: claimed %lld, created %lld, gone %lld", (long long)w.claimed,
			(long long)w.created, (long long)gone);
	if (gone == NEVER_MS && !w.there)
		fail_msg("ended");
}

TEST(test_random_histories)
{
	for (int i = 0; i < 150000; i++)
		one_history();
}

/* One leader, no pauses, answers: then the promise is exact. */
TEST(test_ended_within_a_minute)
{
	for (int i = 0; i < 20000; i++) {
		struct world w = any_world();
		struct head h = {.born = START - 1000, .synced_at = START, .dies = NEVER_MS};
		int64_t t = START, late = 0;

		w.created = w.deleted = w.finished = w.stripped = NEVER_MS;
		w.get_fails = false;
		for (; w.there && late <= 60000 + STEP;
			t += STEP, late = t - START - w.picture_late) {
			h.still_until = 0;
			tick(&w, &h, t);
		}
		assert_false(w.there);
		assert_true(w.ended - START >= CLAIM_PENDING_MS);
	}
}

TESTS(test_r5_pending, test_r12_shown_and_lost, test_r6_bound, test_r13_gone_without_an_end,
	test_random_histories, test_ended_within_a_minute)
