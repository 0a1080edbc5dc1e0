/* SPDX-License-Identifier: Apache-2.0 */
/* test: who of those that wait is served, what is kept for whom, and why the others wait. */
#include "webhook/core/pool/queue.h"

#include "base/buf.h"
#include "base/text.h"
#include "test/unit/pool_fixture.h"
#include "test/unit/test.h"

#define NOW 1000000000000ll
#define PODS_MAX 600

/* Who waits, out of a short text. */
struct queue {
	struct pool pool;
	struct queue_world w;
	struct queue_pod pods[PODS_MAX];
	struct demand demands[PODS_MAX];
	size_t n;
	struct queue_member members[PODS_MAX]; /* their pods are the first */
	size_t n_members;
	struct queue_share shares[16];
	struct queue_kept kept[64];
	struct queue_round round;
	struct buf out;
};

static struct slice before(struct slice s, char c, struct slice *rest)
{
	const char *at = s.len ? memchr(s.at, c, s.len) : NULL;

	*rest = at ? (struct slice){at + 1, s.len - (size_t)(at - s.at) - 1} : (struct slice){0};
	return at ? (struct slice){s.at, (size_t)(at - s.at)} : s;
}

static uint64_t number(struct slice s)
{
	uint64_t n = 0;

	assert_true(text_u64(s, UINT64_MAX, &n));
	return n;
}

static void read_word(struct queue *q, struct queue_pod *p, struct slice w)
{
	struct slice value, more, key = before(w, '=', &value);

	if (slice_is(key, "prio"))
		p->priority = (int64_t)number(value);
	else if (slice_is(key, "age"))
		p->since_ms = NOW - 1000 * (int64_t)number(value);
	else if (slice_is(key, "go"))
		p->gang_let_go = (uint32_t)number(value);
	else if (slice_is(key, "began")) {
		p->gang_began.size = (uint32_t)number(before(value, '/', &more));
		p->gang_began.bytes = number(more) * MB;
	} else if (slice_is(key, "missing")) {
		p->gang_missing = (uint32_t)number(before(value, '/', &more));
		p->gang_left = more.len ? number(more) * MB : UINT64_MAX;
	} else if (slice_is(w, "foreign"))
		p->foreign = true;
	else if (slice_is(w, "claimed"))
		p->claimed = true;
	else if (slice_is(w, "lives") || slice_is(w, "ended") || slice_is(w, "leaves"))
		q->members[q->n_members++] = (struct queue_member){.pod = p,
			.ended = slice_is(w, "ended"),
			.leaving = slice_is(w, "leaves"),
			.began = p->gang_began};
	else if (slice_is(key, "gone")) {
		value = before(value, '/', &more);
		p->gang_began.asks = more.len ? number(more) * MB : 0;
		q->members[q->n_members++] = (struct queue_member){.began = p->gang_began,
			.namespace = p->namespace,
			.bytes = number(value) * MB};
	} else if (slice_is(key, "of"))
		p->owner = value;
	else if (slice_is(w, "whole"))
		q->demands[q->n].whole_servers = true;
	else if (slice_is(key, "as"))
		q->demands[q->n].launcher = value;
	else if (slice_is(w, "one-server"))
		q->demands[q->n].one_server = true;
	else if (slice_is(key, "gang")) {
		p->gang = before(value, '/', &more);
		p->gang_job = slice_starts(more, SLICE("j"));
		p->gang_size = (uint32_t)number(
			(struct slice){more.at + p->gang_job, more.len - (size_t)p->gang_job});
		p->gang_began.key = queue_gang_key(p);
	} else {
		struct arena *a = &q->pool.arena;
		struct slice amount = before(w, 'x', &more);

		demand_init(&q->demands[q->n], a,
			arena_fmt(a, "app a %.*s %.*s", (int)amount.len, amount.at, (int)more.len,
				more.at),
			NULL, NULL, q->demands[q->n].whole_servers);
	}
}

/* "NAMESPACE/NAME whole 2x50% prio=1 age=SECONDS of=OWNER gang=NAME/SIZE go=N missing=N/MB
 * began=SIZE/MB foreign claimed lives ended leaves gone=MB/ASKED; ...": the uid is the name; SIZE
 * of a Job is "j2". */
static void read_pods(struct queue *q, const char *text)
{
	struct slice rest = slice_of(text), w;

	while (rest.len) {
		struct slice one = before(rest, ';', &rest);
		struct queue_pod *p = &q->pods[q->n];

		if (!text_word(&one, &w))
			continue;
		*p = (struct queue_pod){.demand = &q->demands[q->n], .since_ms = NOW};
		p->namespace = before(w, '/', &p->name);
		p->uid = p->name;
		while (text_word(&one, &w))
			read_word(q, p, w);
		q->n++;
	}
}

static void read_shares(struct queue *q, const char *text)
{
	struct slice rest = slice_of(text), w, mb;

	q->w.shares = q->shares;
	while (text && text_word(&rest, &w)) {
		q->shares[q->w.n_shares].namespace = before(w, '=', &mb);
		q->shares[q->w.n_shares++].bytes = number(mb) * MB;
	}
}

/* "UID SERVER/GPU=MB ...": of one head. */
static void read_kept(struct queue *q, const char *text)
{
	struct slice rest = slice_of(text), w, uid, gpu, mb;

	q->w.kept = q->kept;
	if (!text || !text_word(&rest, &uid))
		return;
	while (text_word(&rest, &w)) {
		struct queue_kept *k = &q->kept[q->w.n_kept++];

		k->server = number(before(w, '/', &gpu));
		k->gpu = number(before(gpu, '=', &mb));
		k->bytes = number(mb) * MB;
		k->uid = uid;
	}
}

static void queue_init(struct queue *q, const char *pool, const char *pods)
{
	*q = (struct queue){0};
	pool_init(&q->pool, pool);
	q->w = (struct queue_world){.inventory = &q->pool.inv,
		.usage = &q->pool.use,
		.now_ms = NOW,
		.reserve_ms = 60000};
	buf_init(&q->out, 1u << 20);
	read_pods(q, pods);
}

static void queue_release(struct queue *q)
{
	buf_release(&q->out);
	pool_release(&q->pool);
}

static void decide(struct queue *q, bool words)
{
	struct err err = {0};

	assert_int_equal(
		queue_decide(&q->w, q->pods, q->n, words, &q->pool.arena, &q->round, &err), 0);
}

static const char *const verdicts[] = {
	"start", "no-room", "kept", "foreign", "incomplete", "uneven", "never", "later"};

/* "NAME VERDICT PLACE [HOLDS] [<HEAD]; ...", then what is kept. */
static const char *tell(struct queue *q)
{
	const struct queue_round *r = &q->round;

	buf_clear(&q->out);
	for (size_t i = 0; i < q->n; i++) {
		const struct queue_entry *e = &r->entries[i];

		buf_fmt(&q->out, "%s%.*s %s %zu", i ? "; " : "", (int)q->pods[i].name.len,
			q->pods[i].name.at, verdicts[e->verdict], e->place);
		for (size_t k = 0; k < e->where.n_holds; k++)
			buf_fmt(&q->out, " %zu/%zu=%llu", e->where.holds[k].server,
				e->where.holds[k].gpu,
				(unsigned long long)(e->where.holds[k].bytes / MB));
		if (e->before != SIZE_MAX)
			buf_fmt(&q->out, " <%.*s", (int)q->pods[e->before].name.len,
				q->pods[e->before].name.at);
	}
	assert_int_equal(r->head == SIZE_MAX, r->n_keep == 0);
	if (r->n_keep)
		buf_fmt(&q->out, " | %.*s", (int)q->pods[r->head].name.len,
			q->pods[r->head].name.at);
	for (size_t i = 0; i < r->n_keep; i++)
		buf_fmt(&q->out, " %zu/%zu=%llu", r->keep[i].server, r->keep[i].gpu,
			(unsigned long long)(r->keep[i].bytes / MB));
	assert_false(q->out.failed);
	return q->out.data ? q->out.data : "";
}

struct row {
	const char *what, *pool, *shares, *kept, *pods, *want;
};

#define ONE "a t4:8000"
#define TWO "a t4:8000 t4:8000"
#define FULL "a t4:8000/8000 t4:8000/8000"
#define SIX "a t4:8000 t4:8000 t4:8000 t4:8000 t4:8000 t4:8000"

static const struct row rows[] = {
	{"nobody waits", ONE, NULL, NULL, "", ""},
	{"it fits", ONE, NULL, NULL, "x/p 1x50%", "p start 1 0/0=4000"},
	{"each on what those before leave", TWO, NULL, NULL,
		"x/p 1x100% age=3; x/q 1x100% age=2; x/r 1x100% age=1",
		"p start 1 0/0=8000; q start 2 0/1=8000; r no-room 1"},
	{"the older first", ONE, NULL, NULL, "x/p 1x100% age=3; x/q 1x100% age=4",
		"p no-room 1; q start 1 0/0=8000"},
	{"of one age the smaller uid first", ONE, NULL, NULL, "x/q 1x100%; x/p 1x100%",
		"q no-room 1; p start 1 0/0=8000"},
	{"also beside another namespace's of that age", SIX, NULL, NULL,
		"x/a 1x100% age=9; x/r 1x100%; x/q 1x100%; y/b 1x100% age=8; y/s 1x100%; y/p "
		"1x100%",
		"a start 1 0/0=8000; r start 5 0/4=8000; q start 4 0/3=8000; b start 2 0/1=8000; "
		"s start 6 0/5=8000; p start 3 0/2=8000"},
	{"whose turn it is by its share", ONE, "x=1", NULL, "x/q 1x100%; y/p 1x100%",
		"q no-room 1; p start 1 0/0=8000"},
	{"or by its share, whoever is called first", ONE, "y=1", NULL, "x/q 1x100%; y/p 1x100%",
		"q start 1 0/0=8000; p no-room 1"},
	{"the higher priority first", ONE, NULL, NULL, "x/p 1x100% age=9; y/q 1x100% prio=1",
		"p no-room 1; q start 1 0/0=8000"},
	{"the smaller share first", ONE, "x=1", NULL, "x/p 1x100% age=9; y/q 1x100%",
		"p no-room 1; q start 1 0/0=8000"},
	{"a share grows with what this round gives", SIX, NULL, NULL,
		"x/p 1x100% age=9; x/q 1x100% age=8; x/r 1x100% age=7; y/s 1x100%; y/t 1x100%",
		"p start 1 0/0=8000; q start 3 0/2=8000; r start 5 0/4=8000; s start 2 0/1=8000; "
		"t start 4 0/3=8000"},
	{"priority before share", ONE, "x=9", NULL, "x/p 1x100% prio=1; y/q 1x100%",
		"p start 1 0/0=8000; q no-room 1"},
	{"a smaller one passes", ONE, NULL, NULL, "x/p 2x100% age=9; x/q 1x50%",
		"p no-room 1; q start 1 0/0=4000"},
	{"a foreign gate takes no place", ONE, NULL, NULL, "x/p 1x100% age=9 foreign; x/q 1x100%",
		"p foreign 0; q start 1 0/0=8000"},
	{"what is unfit, stale or draining is not given", "a drain t4:8000; b t4:8000u t4:8000s",
		NULL, NULL, "x/p 1x100%", "p no-room 1"},
	{"another launcher asks for something else", "a for=x t4:8000", NULL, NULL,
		"x/p 1x100% as=y age=9; x/q 1x100% as=x", "p no-room 1; q start 1 0/0=8000"},
	{"whole servers", "a t4:8000/1 t4:8000; b t4:8000 t4:8000", NULL, NULL, "x/p whole 1x10%",
		"p start 1 1/0=8000 1/1=8000"},

	{"a gang is served whole", TWO, NULL, NULL, "x/p 1x100% gang=g/2; x/q 1x50% gang=g/2",
		"p start 1 0/0=8000; q start 2 0/1=4000"},
	{"or not at all", TWO, NULL, NULL,
		"x/p 1x100% gang=g/3; x/q 1x100% gang=g/3; x/r 1x100% gang=g/3",
		"p no-room 1; q no-room 2; r no-room 3"},
	{"then others pass", TWO, NULL, NULL,
		"x/p 1x100% gang=g/3; x/q 1x100% gang=g/3; x/r 1x100% gang=g/3; x/s 2x100%",
		"p no-room 1; q no-room 2; r no-room 3; s start 1 0/0=8000 0/1=8000"},
	{"two gangs of four, room for six", SIX, NULL, NULL,
		"x/a 1x100% gang=g/4; x/b 1x100% gang=g/4; x/c 1x100% gang=g/4; x/d 1x100% "
		"gang=g/4; x/e 1x100% gang=h/4; x/f 1x100% gang=h/4; x/g 1x100% gang=h/4; x/h "
		"1x100% gang=h/4",
		"a start 1 0/0=8000; b start 2 0/1=8000; c start 3 0/2=8000; d start 4 0/3=8000; "
		"e no-room 1; f no-room 2; g no-room 3; h no-room 4"},
	{"its largest member first", TWO, NULL, NULL, "x/p 1x50% gang=g/2; x/q 2x50% gang=g/2",
		"p start 2 0/0=4000; q start 1 0/0=4000 0/1=4000"},
	{"a gang has its youngest's age", ONE, NULL, NULL,
		"x/p 1x50% age=9 gang=g/2; x/q 1x50% age=1 gang=g/2; x/r 1x100% age=2",
		"p no-room 1; q no-room 2; r start 1 0/0=8000"},
	{"and its least priority", ONE, NULL, NULL,
		"x/p 1x50% prio=9 gang=g/2; x/q 1x50% gang=g/2; y/r 1x100% prio=1",
		"p no-room 1; q no-room 2; r start 1 0/0=8000"},
	{"too few", TWO, NULL, NULL, "x/p 1x50% gang=g/3; x/q 1x50% gang=g/3; y/g 1x50% gang=g/3",
		"p incomplete 0; q incomplete 0; g incomplete 0"},
	{"one with a foreign gate does not count", TWO, NULL, NULL,
		"x/p 1x50% gang=g/2; x/q 1x50% gang=g/2 foreign", "p incomplete 0; q foreign 0"},
	{"sizes that differ", TWO, NULL, NULL, "x/p 1x50% gang=g/1; x/q 1x50% gang=g/2",
		"p uneven 0; q uneven 0"},
	{"no size", TWO, NULL, NULL, "x/p 1x50% gang=g/0", "p uneven 0"},
	{"more than it takes: the older", TWO, NULL, NULL,
		"x/p 1x50% gang=g/2 age=1; x/q 1x50% gang=g/2 age=2; x/r 1x50% gang=g/2 age=3",
		"p later 0; q start 2 0/0=4000; r start 1 0/0=4000"},
	{"but who has a claim before these", TWO, NULL, NULL,
		"x/p 1x50% gang=g/2 age=9; x/q 1x50% gang=g/2 age=5; x/r 1x50% gang=g/2 age=1 "
		"claimed",
		"p start 1 0/0=4000; q later 0; r start 2"},
	{"wherever they stand", TWO, NULL, NULL,
		"x/p 1x50% gang=g/2 age=1 claimed; x/q 1x50% gang=g/2 age=5; "
		"x/r 1x50% gang=g/2 age=2 claimed",
		"p start 2; q later 0; r start 1"},
	{"a gang with claims is completed first", ONE, "x=9", NULL,
		"x/p 1x100% gang=g/2 claimed; x/q 1x100% gang=g/2; y/r 1x100% prio=9",
		"p start 2; q start 1 0/0=8000; r no-room 1"},
	{"and not in part", ONE, NULL, NULL,
		"x/p 1x100% gang=g/3 claimed; x/q 1x100% gang=g/3; x/r 1x100% gang=g/3",
		"p no-room 3; q no-room 1; r no-room 2"},
	{"all claims stand", FULL, NULL, NULL, "x/p 1x100% claimed; x/q 1x100% claimed gang=g/1",
		"p start 1; q start 2"},
	{"who is missing in a gang that runs is first, alone", ONE, "x=9", NULL,
		"x/p 1x50% gang=g/4 go=2 missing=2; x/q 1x100% gang=g/4 go=2 missing=2; "
		"y/r 1x50% prio=9",
		"p start 1 0/0=4000; q no-room 1; r start 2 0/0=4000"},
	{"who is one too many is not", ONE, "x=9", NULL,
		"x/p 1x100% gang=g/4 go=4 age=9; y/r 1x100%", "p no-room 1; r start 1 0/0=8000"},
	{"nor who asks more than is left of what it began with", ONE, "x=9", NULL,
		"x/p 1x100% gang=g/4 go=1 missing=3/7999; y/r 1x100%",
		"p no-room 1; r start 1 0/0=8000"},
	{"the older have it", TWO, "x=9", NULL,
		"x/p 1x100% gang=g/4 go=1 missing=3/8000; "
		"x/q 1x100% gang=g/4 go=1 missing=3/8000 age=1; y/r 1x100%",
		"p no-room 1; q start 1 0/0=8000; r start 2 0/1=8000"},
	{"those of two Jobs are two", TWO, NULL, NULL,
		"x/p 1x100% gang=g/j2 of=a; x/q 1x100% gang=g/j2 of=b; x/r 1x100% gang=g/j2 of=b",
		"p incomplete 0; q start 1 0/0=8000; r start 2 0/1=8000"},
	{"a gang that has grown with its Job goes singly, in its turn", ONE, "x=9", NULL,
		"x/p 1x100% gang=g/j9 of=a go=1; x/q 1x100% gang=g/j9 of=a go=1; y/r 1x100%",
		"p no-room 1; q no-room 2; r start 1 0/0=8000"},
	{"but for who is missing among those who began", TWO, "x=9", NULL,
		"x/p 1x100% gang=g/j9 of=a go=1 missing=1; "
		"x/q 1x100% gang=g/j9 of=a go=1 missing=1; y/r 1x100%",
		"p start 1 0/0=8000; q no-room 1; r start 2 0/1=8000"},
	{"its Job has shrunk", ONE, "x=9", NULL,
		"x/p 1x100% gang=g/j1 of=a go=1 missing=1; y/r 1x100%",
		"p start 1 0/0=8000; r no-room 1"},
	{"or nobody has read it", ONE, "x=9", NULL,
		"x/p 1x100% gang=g/j0 of=a go=1 missing=1; y/r 1x100%",
		"p start 1 0/0=8000; r no-room 1"},
	{"and has nothing that is kept", "a t4:8000 t4:8000/8000", NULL, "p 0/0=8000 0/1=8000",
		"x/p 2x100% age=60; y/q 1x100% gang=g/j2 of=a go=1",
		"p no-room 1; q kept 2 <p | p 0/0=8000 0/1=8000"},
	{"nobody has read the Job", TWO, NULL, NULL,
		"x/p 1x100% gang=g/j0 of=a; x/q 1x100% gang=g/j0 of=b go=1",
		"p incomplete 0; q start 1 0/0=8000"},
	{"gangs are of one namespace", TWO, NULL, NULL,
		"x/p 1x100% gang=g/2; y/q 1x100% gang=g/2; x/r 1x100% gang=g/2",
		"p start 1 0/0=8000; q incomplete 0; r start 2 0/1=8000"},

	{"a head that has waited has its GPUs kept", FULL, NULL, NULL, "x/p 1x100% age=60",
		"p no-room 1 | p 0/0=8000"},
	{"not before", FULL, NULL, NULL, "x/p 1x100% age=59", "p no-room 1"},
	{"nor does a smaller one pass from then on", "a t4:8000/8000 t4:8000", NULL, NULL,
		"x/p 2x100% age=60; y/q 1x50%", "p no-room 1; q kept 2 <p | p 0/0=8000 0/1=8000"},
	{"what has to free least", "a t4:8000/8000 t4:8000/7000; b t4:8000/6000 t4:8000/8000", NULL,
		NULL, "x/p 1x100% age=60", "p no-room 1 | p 1/0=8000"},
	{"only what it asks", "a t4:8000/6000", NULL, NULL, "x/p 1x50% age=60; x/q 1x25%",
		"p no-room 1; q kept 2 <p | p 0/0=4000"},
	{"who is older than the head may have it", "a t4:8000/8000 t4:8000", NULL, NULL,
		"x/p 1x100% age=50; x/q 2x100% age=60; x/r 1x100% age=70",
		"p no-room 2; q no-room 1; r start 1 0/1=8000 | q 0/0=8000 0/1=8000"},
	{"beside it others start", "a t4:8000/8000 t4:8000; b t4:9000", NULL, "q 0/0=8000 0/1=8000",
		"x/p 1x100% age=50; x/q 2x100% one-server age=60",
		"p start 1 1/0=9000 <q; q no-room 1 | q 0/0=8000 0/1=8000"},
	{"the oldest of the highest priority", FULL, NULL, NULL,
		"x/p 1x100% age=80; x/q 1x100% age=60 prio=1; y/r 1x100% age=70 prio=1",
		"p no-room 3; q no-room 2; r no-room 1 | r 0/0=8000"},
	{"a gang has its GPUs kept together", "a t4:8000 t4:8000/8000 t4:8000/8000", NULL, NULL,
		"x/q 1x100% age=60 gang=g/2; x/p 1x50% age=61 gang=g/2; y/r 1x50%",
		"q no-room 1; p no-room 2; r kept 3 <p | p 0/0=8000 0/1=4000"},
	{"a higher priority may have it", "a t4:8000 t4:8000/8000", NULL, "p 0/0=8000 0/1=8000",
		"x/p 2x100% age=60; y/q 1x100% prio=1",
		"p no-room 1; q start 1 0/0=8000 | p 0/0=8000 0/1=8000"},
	{"so may who is missing in a gang that runs", "a t4:8000 t4:8000/8000", NULL,
		"p 0/0=8000 0/1=8000", "x/p 2x100% age=60; y/q 1x100% gang=g/2 go=1 missing=1",
		"p no-room 1; q start 1 0/0=8000 | p 0/0=8000 0/1=8000"},
	{"but not who completes one that does not", "a t4:8000 t4:8000/8000", NULL,
		"p 0/0=8000 0/1=8000",
		"x/p 2x100% age=60; y/q 1x100% gang=g/2; y/r 1x100% gang=g/2 claimed",
		"p no-room 3; q kept 1 <p; r kept 2 <p | p 0/0=8000 0/1=8000"},
	{"it is kept where it was, whatever is better now",
		"a t4:8000/8000 t4:8000/7000; b t4:8000/1", NULL, "p 0/0=8000", "x/p 1x100% age=60",
		"p no-room 1 | p 0/0=8000"},
	{"and for whom it was", FULL, NULL, "p 0/0=8000", "x/p 1x100%; x/q 1x100% age=90",
		"p no-room 2; q no-room 1 | p 0/0=8000"},
	{"unless he is gone", FULL, NULL, "z 0/1=8000", "x/p 1x100%; x/q 1x100% age=90",
		"p no-room 2; q no-room 1 | q 0/0=8000"},
	{"or the GPU is", "a t4:8000/8000u t4:8000/8000", NULL, "p 0/0=8000", "x/p 1x100% age=60",
		"p no-room 1 | p 0/1=8000"},
	{"or one of a higher priority has waited", FULL, NULL, "p 0/1=8000",
		"x/p 1x100% age=90; x/q 1x100% age=60 prio=1",
		"p no-room 2; q no-room 1 | q 0/0=8000"},
	{"or all has come free and is not enough", "a t4:8000 t4:8000/8000", NULL, "p 0/0=8000",
		"x/p 2x100% age=90", "p no-room 1 | p 0/0=8000 0/1=8000"},
	{"or a part of it has gone", "a t4:8000/4000 t4:8000/8000", NULL, "p 0/0=8000",
		"x/p 2x100% age=90", "p no-room 1 | p 0/0=8000 0/1=8000"},
	{"or its gang has grown", "a t4:8000/4000 t4:8000/8000", NULL, "p 0/0=8000",
		"x/p 1x100% age=90 gang=g/2; x/q 1x100% age=90 gang=g/2",
		"p no-room 1; q no-room 2 | p 0/0=8000 0/1=8000"},
	{"and where the pool has got too small, nothing is kept", "a t4:8000/4000", NULL,
		"p 0/0=8000", "x/p 2x100% age=90; y/q 1x50%", "p no-room 1; q start 1 0/0=4000"},
	{"what has come free is the head's, and it starts", "a t4:8000 t4:8000/8000", "x=9",
		"p 0/0=8000", "x/p 1x100% age=60; y/q 1x100%", "p start 1 0/0=8000; q no-room 1"},
	{"who was passed for its sake has another turn", "a t4:8000 t4:8000", "x=9",
		"p 0/0=8000 0/1=8000", "x/p 1x100% age=60; y/q 1x100%",
		"p start 2 0/0=8000; q start 1 0/1=8000 <p"},
	{"the next head has its GPUs kept at once", "a t4:8000 t4:8000/8000", NULL, "p 0/0=8000",
		"x/p 1x100% age=60; y/q 1x100% age=60",
		"p start 1 0/0=8000; q no-room 1 | q 0/0=8000"},
	{"what others are given then counts once", "a t4:8000 t4:8000; b t4:9000/9000", "x=9",
		"p 0/0=8000 0/1=8000",
		"x/p 1x8000 prio=1 age=60; x/q 1x9000 age=60; y/r 1x4000 prio=1; y/s 1x4000",
		"p start 2 0/0=8000; q no-room 1; r start 1 0/1=4000 <p; s start 3 0/1=4000 <p | q "
		"1/0=9000"},
	{"nothing is kept where nothing would do", "a t4:8000/8000 t4:8000/8000u", NULL, NULL,
		"x/p 2x100% age=90; x/q 1x100% age=60", "p no-room 1; q no-room 2 | q 0/0=8000"},
	{"whole servers are kept whole", "a t4:8000/1 t4:8000/8000; b t4:8000/5000 t4:8000/3000",
		NULL, NULL, "x/p whole 1x10% age=60", "p no-room 1 | p 1/0=8000 1/1=8000"},
	{"one server", "a t4:8000/1 t4:8000/8000; b t4:8000/7000 t4:8000/3000", NULL, NULL,
		"x/p 2x100% one-server age=60", "p no-room 1 | p 1/0=8000 1/1=8000"},
	{"nonsense is kept for nobody", FULL, NULL, "p 7/0=8000", "x/p 1x100%", "p no-room 1"},
	{"nor what stands behind the last server", FULL, NULL, "p 1/0=8000", "x/p 1x100%",
		"p no-room 1"},
	{"nor behind a server's last GPU", FULL "; b t4:8000/8000 t4:8000/8000", NULL, "p 0/2=8000",
		"x/p 1x100%", "p no-room 1"},
	{"nor more than a GPU has", FULL, NULL, "p 0/1=8001", "x/p 1x100%", "p no-room 1"},
	{"as much as it has is kept", FULL, NULL, "p 0/1=8000", "x/p 1x100%",
		"p no-room 1 | p 0/1=8000"},
};

TEST(who_is_served)
{
	size_t wrong = 0;

	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct row *r = &rows[i];
		struct queue q;

		queue_init(&q, r->pool, r->pods);
		read_shares(&q, r->shares);
		read_kept(&q, r->kept);
		decide(&q, false);
		if (strcmp(tell(&q), r->want) != 0)
			print_error("%s: got \"%s\", want \"%s\"\n", r->what, tell(&q), r->want),
				wrong++;
		queue_release(&q);
	}
	assert_int_equal(wrong, 0);
}

/* A server or a GPU that the pool has no more is not looked for behind those that it has. */
TEST(what_was_kept_of_what_is_gone)
{
	static const struct {
		size_t servers, gpus;
		const char *kept;
	} all[] = {{1, 3, "p 1/0=8000"}, {2, 2, "p 0/2=8000"}};

	for (size_t i = 0; i < COUNT(all); i++) {
		struct gpu *gpus = malloc(all[i].gpus * sizeof(*gpus));
		struct queue q;

		assert_non_null(gpus);
		queue_init(&q, "a t4:8000/8000 t4:8000/8000 t4:8000/8000; b t4:8000/8000",
			"x/p 1x100%");
		read_kept(&q, all[i].kept);
		decide(&q, false);
		assert_int_equal(q.round.n_keep, 1);
		q.pool.inv.n_servers = all[i].servers;
		/* as many as there are, so that a sanitizer sees who reads more */
		memcpy(gpus, q.pool.inv.servers[0].gpus, all[i].gpus * sizeof(*gpus));
		q.pool.inv.servers[0].gpus = gpus;
		q.pool.inv.servers[0].n_gpus = all[i].gpus;
		decide(&q, false);
		assert_string_equal(tell(&q), "p no-room 1");
		free(gpus);
		queue_release(&q);
	}
}

/* ---- words ---- */

struct said {
	const char *pool, *kept, *pods, *want; /* of the first pod; a part of it */
};

static const struct said sayings[] = {
	{ONE, NULL, "x/p 1x100%", "it is its turn: it starts now"},
	{FULL, NULL, "x/p 1x100%; y/q 1x100%",
		"asked 1 GPU with 100 %; of 2 GPUs that can be used, none has that much free "
		"(best: "
		"a/gpu-0 0 of 8000 MB, a/gpu-1 0 of 8000 MB); it is number 1 of 2 that wait"},
	{FULL, NULL, "x/p 1x100% age=60", "1 of 1 that wait; what frees up is kept for it"},
	{TWO, NULL, "x/p 1x100% gang=g/3; x/q 1x100% gang=g/3; x/r 1x100% gang=g/3",
		"the pool would not hold all 3 members of its gang if nobody else used it"},
	{"a t4:8000 t4:8000 t4:8000/1", NULL,
		"x/p 1x100% gang=g/3; x/q 1x100% gang=g/3; x/r 1x100% gang=g/3",
		"all 3 members of its gang start together, and for one: asked 1 GPU"},
	{"a t4:8000 t4:8000/8000", NULL, "x/p 1x10%; x/q 2x100% age=60",
		"what is free is kept for pod q, which has waited for 60 s; it is number 2 of 2"},
	{"a t4:8000 t4:8000/8000", NULL, "x/p 1x10%; y/q 2x100% age=60",
		"what is free is kept for a pod of another namespace, which has waited"},
	{ONE, NULL, "x/p 1x100% foreign", "a scheduling gate of somebody else stands"},
	{ONE, NULL, "x/p 1x100% gang=g/3 go=0; x/q 1x1% gang=g/3; x/r 1x1% gang=g/3 foreign",
		"its gang has 2 of 3 members"},
	{ONE, NULL, "x/p 1x100% gang=g/3; x/q 1x1% gang=g/2", "must all name the same size"},
	{ONE, NULL, "x/p 1x100% gang=g/j3 of=a; x/q 1x1% gang=g/j2 of=b; x/r 1x1% gang=g/2",
		"its gang has 1 of 3 members"},
	{ONE, NULL, "x/p 1x100% gang=g/j0 of=a",
		"its gang is as large as its Job says, which could not be read"},
	{ONE, NULL, "x/p 2x100%", "the pool has 1 GPU that can be used; ask for at most 1"},
	{"a t4:8000 t4:8000u", NULL, "x/p 2x100%",
		"1 unfit (a/gpu-1: ECC errors); ask for at most 1; it is number 1 of 1 that wait"},
	{ONE, NULL, "x/p 1x1% gang=g/1; x/q 1x1% gang=g/1 age=9",
		"its gang has 1 members before it"},
};

TEST(what_its_owner_reads)
{
	for (size_t i = 0; i < COUNT(sayings); i++) {
		struct queue q;

		queue_init(&q, sayings[i].pool, sayings[i].pods);
		read_kept(&q, sayings[i].kept);
		decide(&q, true);
		buf_clear(&q.out);
		queue_say(&q.w, q.pods, q.n, &q.round, 0, &q.out);
		if (!q.out.data || !strstr(q.out.data, sayings[i].want))
			fail_msg("got \"%s\", want \"%s\"", q.out.data, sayings[i].want);
		queue_release(&q);
	}
}

/* Words change no decision but that what never fits is told from what does not fit now. */
TEST(what_the_pool_never_holds)
{
	static const char *const pods =
		"x/p 3x100%; x/q 2x100%; x/r 1x9000; x/s 1x100%; "
		"x/t 1x100% gang=g/3; x/u 1x100% gang=g/3; x/v 1x100% gang=g/3";
	struct queue q;

	queue_init(&q, "a t4:8000/8000 t4:8000u; b drain t4:9000", pods);
	decide(&q, true);
	assert_string_equal(tell(&q),
		"p never 1; q no-room 2; r never 3; s no-room 4; t never 5; u never 6; v never 7");
	decide(&q, false);
	assert_string_equal(tell(&q),
		"p no-room 1; q no-room 2; r no-room 3; s no-room 4; t no-room "
		"5; u no-room 6; v no-room 7");
	queue_release(&q);
}

TEST(what_could_ever_fit)
{
	static const struct {
		const char *pool, *asks;
		bool whole, could;
	} asked[] = {
		{"a t4:8000/8000", "app a 1 100%", false, true},
		{"a claims=256 t4:8000/8000", "app a 1 100%", false, true},
		{"a t4:8000u t4:8000s", "app a 2 100%", false, true},
		{"a t4:8000/8000u t4:8000s", "app a 1 1%", true, true},
		{"a t4:8000 t4:8000m", "app a 2 100%", false, false},
		{"a t4:8000; b drain t4:8000", "app a 2 100%", false, false},
		{"a t4:8000", "app a 1 8001", false, false},
		{"", "app a 1 1%", false, false},
	};

	for (size_t i = 0; i < COUNT(asked); i++) {
		struct err err = {0};
		struct demand d;
		struct pool p;

		pool_init(&p, asked[i].pool);
		demand_init(&d, &p.arena, asked[i].asks, NULL, NULL, asked[i].whole);
		assert_int_equal(queue_could_ever(&p.inv, &d, &p.arena, &err),
			asked[i].could ? 0 : ERR_REFUSED);
		assert_int_equal(asked[i].could, err.msg[0] == '\0');
		pool_release(&p);
	}
}

/* A review asks while it holds the picture of the pool: what a few servers would hold costs nothing
 * of the others. */
TEST(what_could_ever_fit_on_a_few)
{
	static const struct {
		const char *asks;
		bool all;
	} asked[] = {{"app a 1 50%", false}, {"app a 2 100%", false}, {"app a 64 100%", true}};
	enum { SERVERS = 2000 };
	struct gpu_server *servers = calloc(SERVERS, sizeof(*servers));
	struct inventory inv = {
		.servers = servers, .n_servers = SERVERS, .n_gpus = (size_t)SERVERS * 2};
	struct gpu gpus[] = {{.id = "g0", .model = "t4", .bytes = 8000},
		{.id = "g1", .model = "t4", .bytes = 8000}};

	for (size_t i = 0; i < SERVERS; i++)
		servers[i] = (struct gpu_server){.name = "s",
			.address = "10.0.0.1:1",
			.gpus = gpus,
			.n_gpus = COUNT(gpus),
			.first_gpu = i * COUNT(gpus),
			/* the first ones are no help */
			.drain = i < 100};
	for (size_t i = 0; i < COUNT(asked); i++) {
		struct err err = {0};
		struct demand d;
		struct arena a;

		arena_init(&a, 64u << 20);
		demand_init(&d, &a, asked[i].asks, NULL, NULL, false);
		assert_int_equal(queue_could_ever(&inv, &d, &a, &err), 0);
		assert_int_equal(a.used > SERVERS * sizeof(*servers), asked[i].all);
		arena_release(&a);
	}
	free(servers);
}

/* ---- bounds and times ---- */

/* Two pods of each of many, in any order: all are found again, and none twice, whatever they are
 * called. */
TEST(many_namespaces)
{
	for (size_t first = 0; first < 1200; first += 40) {
		struct queue q;

		queue_init(&q, ONE, "");
		for (; q.n < 80; q.n++) {
			struct queue_pod *p = &q.pods[q.n];

			demand_init(
				&q.demands[q.n], &q.pool.arena, "app a 1 1%", NULL, NULL, false);
			*p = (struct queue_pod){
				.demand = &q.demands[q.n], .since_ms = NOW - 50000 + (int64_t)q.n};
			p->namespace = slice_of(arena_fmt(&q.pool.arena, "%c%zu",
				"abcdefghijklmnopqrstuvwxyz"[first / 40 % 26],
				first + q.n * 7 % 40));
			p->uid = p->name = slice_of(arena_fmt(&q.pool.arena, "p%02zu", q.n));
		}
		decide(&q, false);
		assert_int_equal(q.round.n_start, 80);
		assert_int_equal(q.round.depth, 0);
		queue_release(&q);
	}
}

TEST(so_many_of_a_namespace_are_looked_at)
{
	struct queue q;
	size_t later = 0;

	queue_init(&q, ONE, "");
	for (; q.n < 300; q.n++) {
		struct queue_pod *p = &q.pods[q.n];

		demand_init(&q.demands[q.n], &q.pool.arena,
			q.n == 255   ? "app a 1 60%"
			: q.n == 256 ? "app a 1 40%"
				     : "app a 9 100%",
			NULL, NULL, false);
		*p = (struct queue_pod){.demand = &q.demands[q.n],
			.namespace = SLICE("x"),
			.since_ms = NOW - 50000 + (int64_t)q.n};
		p->uid = p->name = slice_of(arena_fmt(&q.pool.arena, "p%03zu", q.n));
	}
	read_pods(&q, "y/q 1x40%");
	decide(&q, false);
	for (size_t i = 0; i < 300; i++)
		later += q.round.entries[i].verdict == QUEUE_LATER;
	assert_int_equal(later, 300 - QUEUE_LOOK_MAX);
	assert_int_equal(q.round.entries[255].verdict, QUEUE_START);
	assert_int_equal(q.round.entries[256].verdict, QUEUE_LATER);
	assert_int_equal(q.round.entries[256].place, 256);
	assert_int_equal(q.round.entries[300].verdict, QUEUE_START);
	assert_int_equal(q.round.n_start, 2);
	assert_int_equal(q.round.depth, 299);
	buf_clear(&q.out);
	queue_say(&q.w, q.pods, q.n, &q.round, 256, &q.out);
	assert_string_equal(q.out.data,
		"256 pods of its namespace are looked at before it; it is number 256 of 299 that "
		"wait");
	queue_release(&q);
}

/* Many have waited for long, each asks something else, and for none of them anything can be kept
 * since what they need is drained: that costs memory once, not for each of them. */
TEST(many_for_whom_nothing_can_be_kept)
{
	enum { SERVERS = 1000, GPUS = 8, PODS = 300 };
	static uint64_t claimed[SERVERS * GPUS], pending[SERVERS * GPUS];
	static uint32_t n_claims[SERVERS];
	static struct gpu_server servers[SERVERS];
	static struct queue_pod pods[PODS];
	static struct demand demands[PODS];
	struct gpu gpus[GPUS];
	struct inventory inv = {
		.servers = servers, .n_servers = SERVERS, .n_gpus = (size_t)SERVERS * GPUS};
	struct usage use = {.claimed = claimed, .pending = pending, .n_claims = n_claims};
	struct queue_world w = {
		.inventory = &inv, .usage = &use, .now_ms = NOW, .reserve_ms = 600000};
	struct queue_round round;
	struct err err = {0};
	struct arena a, scratch;
	size_t before;

	for (size_t i = 0; i < GPUS; i++)
		gpus[i] = (struct gpu){
			.id = "g", .model = "t4", .bytes = 8000 * MB, .fit = true, .fresh = true};
	arena_init(&scratch, 64u << 20);
	for (size_t i = 0; i < SERVERS; i++)
		servers[i] = (struct gpu_server){.name = arena_fmt(&scratch, "s%04zu", i),
			.address = "10.0.0.1:1",
			.gpus = gpus,
			.n_gpus = GPUS,
			.first_gpu = i * GPUS,
			.drain = i > 0};
	arena_init(&a, 256u << 20);
	for (size_t i = 0; i < PODS; i++) {
		demand_init(&demands[i], &scratch, arena_fmt(&scratch, "app a 9 %zu", 100 + i),
			NULL, NULL, false);
		pods[i] = (struct queue_pod){.demand = &demands[i],
			.namespace = SLICE("x"),
			.since_ms = NOW - 700000,
			.uid = slice_of(arena_fmt(&scratch, "p%03zu", i))};
	}
	before = a.used;
	assert_int_equal(queue_decide(&w, pods, PODS, false, &a, &round, &err), 0);
	assert_int_equal(round.head, SIZE_MAX);
	assert_int_equal(round.depth, PODS);
	assert_true(a.used - before < 4u << 20);
	arena_release(&a);
	arena_release(&scratch);
}

/* Of the pod that comes last: how many of its gang were let go, how many are missing, how many MB
 * of what they asked; and what its claim is to say, without the bytes where it begins. */
#define G "1x50% gang=g/4"
#define SEAT G " began=4/16000"
#define OF_JOB "1x50% of=j gang=g/j9"
TEST(which_gangs_run)
{
	static const struct {
		const char *pods;
		uint32_t want, missing;
		uint64_t left;
		uint32_t size;
	} all[] = {
		{"x/p " SEAT " lives; x/q " SEAT " lives; x/r " G, 2, 2, 8000, 4},
		{"x/p " G, 0, 0, 0, 4},
		{"x/p 1x50% lives; x/r " G, 0, 0, 0, 4},
		{"x/p 1x50% gang=h/4 lives; x/r " G, 0, 0, 0, 4},
		{"y/p " SEAT " lives; x/r " G, 0, 0, 0, 4},
		{"x/p " SEAT " lives; x/q " SEAT " lives; x/s " SEAT " lives; x/t " SEAT
		 " lives; x/u " SEAT " lives; x/r " G,
			5, 0, 0, 4},
		/* who forges the size */
		{"x/p 1x50% gang=g/1 lives; x/r " G, 0, 0, 0, 4},
		/* nobody makes large places of small ones: seats and bytes are as they were when it
		   began, whoever of them is left */
		{"x/p 4x100% gang=g/4 began=4/32240 lives; x/r 4x100% gang=g/4", 1, 3, 240, 4},
		{"x/p 1x1% gang=g/4 began=4/32240 lives; x/r 4x100% gang=g/4", 1, 3, 32160, 4},
		{"x/p 4x100% gang=g/4 began=4/32000 lives; x/q 1x1% gang=g/4 lives; x/r " G, 2, 2,
			0, 4},
		/* of one of before nobody knows it */
		{"x/p " G " lives; x/r " G, 1, 0, 0, 0},
		{"x/p " G " lives; x/q " SEAT " lives; x/r " G, 2, 2, 8000, 4},
		/* who is being deleted has his seat, and does not show that the gang runs */
		{"x/p " SEAT " lives; x/q " SEAT " leaves; x/r " G, 1, 2, 8000, 4},
		{"x/p " SEAT " leaves; x/r " G, 0, 0, 0, 4},
		/* and so has who is gone, as by force, with what he asked, whatever he holds */
		{"x/p " SEAT " lives; x/q " SEAT " gone=4000/3999; x/r " G, 1, 2, 8001, 4},
		{"x/p " SEAT " lives; x/q " SEAT " gone=1/4000; x/r " G, 1, 2, 8000, 4},
		/* where nobody knows that, with no less than one of those who began, nor than he
		   holds */
		{"x/p " SEAT " lives; x/q " SEAT " gone=1; x/r " G, 1, 2, 8000, 4},
		{"x/p " SEAT " lives; x/q " SEAT " gone=5000; x/r " G, 1, 2, 7000, 4},
		{"x/p " SEAT " lives; x/q " SEAT " gone=4000; x/s " SEAT " gone=4000; x/t " SEAT
		 " gone=4000; x/r " G,
			1, 0, 0, 4},
		{"x/p " SEAT " lives; y/q " SEAT " gone=4000; x/r " G, 1, 3, 12000, 4},
		{"x/p " SEAT " lives; x/q 1x50% gang=h/4 gone=4000; x/r " G, 1, 3, 12000, 4},
		{"x/p " SEAT " gone=4000; x/r " G, 0, 0, 0, 4},
		/* what those of an earlier run say who are not gone yet is nothing to this one */
		{"x/p 1x50% gang=g/4 began=4/64000 gone=1/1; x/q 1x50% gang=g/4 began=4/64000 "
		 "leaves; x/s " SEAT " lives; x/r " G,
			1, 1, 7999, 4},
		/* it has run: later pods of that controller go singly, each in its turn */
		{"x/p " SEAT " of=j ended; x/r " G " of=j", 1, 0, 0, 0},
		{"x/p " SEAT " of=j ended; x/r " G " of=k", 0, 0, 0, 4},
		{"x/p " SEAT " ended; x/r " G, 0, 0, 0, 4},
		{"x/p " SEAT " of=j ended; x/q " SEAT " lives; x/r " G " of=j", 1, 3, 12000, 4},
		/* of that Job alone, and whatever it says by now */
		{"x/p " OF_JOB " lives; x/q " OF_JOB " began=3/12000 lives; x/r " OF_JOB, 2, 1,
			4000, 3},
		{"x/p " OF_JOB " began=3/12000 lives; x/q " OF_JOB
		 " gone=4000; x/r 1x50% of=j gang=g/j2",
			1, 1, 4000, 3},
		{"x/p " OF_JOB " began=3/12000 lives; x/q 1x50% of=k gang=g/j9 gone=4000; "
		 "x/r " OF_JOB,
			1, 2, 8000, 3},
		{"x/p 1x50% of=k gang=g/j9 began=3/12000 lives; x/r " OF_JOB, 0, 0, 0, 9},
	};

	for (size_t i = 0; i < COUNT(all); i++) {
		const struct queue_pod *p;
		struct queue q;

		queue_init(&q, TWO, all[i].pods);
		p = &q.pods[q.n - 1];
		queue_count_gangs(&q.pool.inv, &q.pods[q.n - 1], 1, q.members, q.n_members);
		if (p->gang_let_go != all[i].want || p->gang_missing != all[i].missing ||
			p->gang_left != all[i].left * MB || p->gang_began.size != all[i].size ||
			!p->gang_began.key)
			fail_msg("row %zu: %u %u %llu %u", i, (unsigned)p->gang_let_go,
				(unsigned)p->gang_missing, (unsigned long long)(p->gang_left / MB),
				(unsigned)p->gang_began.size);
		queue_release(&q);
	}
}

/* One that asks more than its gang did takes its turn like others; who does not has the seat. */
TEST(who_asks_more_joins_no_gang_first)
{
	struct queue q;

	queue_init(&q, ONE,
		"x/p 1x50% gang=g/2 began=2/8000 lives; x/q 1x100% gang=g/2 age=9; "
		"x/r 1x50% gang=g/2 age=1; y/s 1x50% prio=9");
	queue_count_gangs(&q.pool.inv, q.pods + 1, q.n - 1, q.members, q.n_members);
	assert_int_equal(queue_decide(&q.w, q.pods + 1, q.n - 1, false, &q.pool.arena, &q.round,
				 &(struct err){0}),
		0);
	assert_int_equal(q.round.entries[1].verdict, QUEUE_START);
	assert_int_equal(q.round.entries[1].place, 1);
	assert_int_equal(q.round.entries[0].verdict, QUEUE_NO_ROOM);
	assert_int_equal(q.round.entries[2].verdict, QUEUE_START);
	queue_release(&q);
}

TEST(when_the_next_reservation_begins)
{
	static const struct {
		const char *pods;
		int64_t want; /* seconds from now; -1: never */
	} all[] = {
		{"x/p 1x100% age=20; x/q 1x100% age=40", 20},
		{"x/p 1x100% age=20 foreign; x/q 1x100% gang=g/2 age=9", -1},
		{"x/p 1x100% age=60; x/q 1x100% age=40", -1},
		{"x/p 1x100% age=60; x/q 1x100% prio=1 age=40", 20},
		{"x/p 1x100% claimed", -1},
		{"", -1},
	};

	for (size_t i = 0; i < COUNT(all); i++) {
		struct queue q;

		queue_init(&q, FULL, all[i].pods);
		decide(&q, false);
		assert_int_equal(
			q.round.next_ms, all[i].want < 0 ? INT64_MAX : NOW + 1000 * all[i].want);
		q.w.reserve_ms = INT64_MAX;
		decide(&q, false);
		assert_int_equal(q.round.next_ms, INT64_MAX);
		assert_int_equal(q.round.head, SIZE_MAX);
		queue_release(&q);
	}
}

TEST(times_from_nowhere_do_no_harm)
{
	struct queue q;

	queue_init(&q, FULL, "x/p 1x100%; x/q 1x100%; x/r 1x100%");
	q.pods[0].since_ms = INT64_MIN;
	q.pods[1].since_ms = INT64_MAX;
	q.pods[2].since_ms = -1;
	decide(&q, false);
	assert_string_equal(tell(&q), "p no-room 1; q no-room 3; r no-room 2 | p 0/0=8000");
	queue_release(&q);
}

/* By server, then by GPU, whatever their order was. */
TEST(what_is_kept_is_ordered)
{
	static const struct {
		size_t server, gpu;
	} right[] = {{0, 0}, {0, 1}, {1, 0}, {1, 2}, {7, 1}};
	struct queue_kept list[COUNT(right)];

	for (size_t n = 0; n <= COUNT(right); n++)
		for (size_t turn = 0; turn < 2 * COUNT(right); turn++) {
			/* forwards and backwards, from each of them on */
			for (size_t i = 0; i < n; i++) {
				size_t at = (turn % COUNT(right) + i) % n;

				at = turn < COUNT(right) ? at : n - 1 - at;
				list[i] = (struct queue_kept){.server = right[at].server,
					.gpu = right[at].gpu,
					.bytes = at};
			}
			queue_kept_order(list, n);
			for (size_t i = 0; i < n; i++)
				assert_int_equal(list[i].bytes, i);
		}
}

TESTS(what_is_kept_is_ordered, who_is_served, what_was_kept_of_what_is_gone, what_its_owner_reads,
	what_the_pool_never_holds, what_could_ever_fit, what_could_ever_fit_on_a_few,
	many_namespaces, so_many_of_a_namespace_are_looked_at, which_gangs_run,
	who_asks_more_joins_no_gang_first, many_for_whom_nothing_can_be_kept,
	when_the_next_reservation_begins, times_from_nowhere_do_no_harm)
