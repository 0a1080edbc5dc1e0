/* SPDX-License-Identifier: Apache-2.0 */
/* test: the reflector by tables of what comes and what it asks and tells. Each table is played
 * twice: with bodies in one piece, and byte by byte. */
#include "base/buf.h"
#include "kube/reflector.h"
#include "test/unit/test.h"

#define LIST "/p?limit=500"
#define LIST_AT(token) "/p?limit=500&continue=" token
#define OBJECT(name, version)                                                                      \
	"{\"metadata\":{\"name\":\"" name "\",\"resourceVersion\":\"" version "\"}}"
#define PAGE(version, items)                                                                       \
	"{\"metadata\":{\"resourceVersion\":\"" version "\"},\"items\":[" items "]}"
#define PART(version, token, items)                                                                \
	"{\"metadata\":{\"resourceVersion\":\"" version "\",\"continue\":\"" token                 \
	"\"},\"items\":[" items "]}"
#define EVENT(type, name, version) "{\"type\":\"" type "\",\"object\":" OBJECT(name, version) "}\n"
#define GONE                                                                                       \
	"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"message\":\"too "      \
	"old\"}}\n"
#define STATUS(message) "{\"kind\":\"Status\",\"message\":\"" message "\"}"

enum op {
	OP_END, /* of the table */
	ASKS,   /* this path, for a watch without its timeoutSeconds and resourceVersion: WATCHES */
	WATCHES, /* from this version */
	HEAD,    /* with this status */
	BODY,
	BODY_LAST, /* of which it wants no more */
	CLOSES,    /* in full */
	CUT,       /* because of this */
	PASS,      /* so many milliseconds, and it goes on */
	PASS_LAST, /* and it does not */
	WAITS,     /* for n milliseconds, of which up to a half is left out by chance; they pass */
	ANEW,      /* somebody else has seen a restore */
	TOLD       /* what was told since */
};

struct step {
	enum op op;
	const char *text;
	int64_t n;
};

/* An answer in full. */
#define ANSWER(status, body)                                                                       \
	{HEAD, NULL, status}, {BODY, body, 0},                                                     \
	{                                                                                          \
		CLOSES, NULL, 0                                                                    \
	}
/* The list of a at 10, and the head of its watch. */
#define WATCHED                                                                                    \
	{ASKS, LIST, 0}, ANSWER(200, PAGE("10", OBJECT("a", "3"))), {TOLD, "L +a =10 up ", 0},     \
		{WATCHES, "10", 0},                                                                \
	{                                                                                          \
		HEAD, NULL, 200                                                                    \
	}

/* What is told, as words: L a list begins, =N it is complete at N, +x put, -x gone, *N a bookmark,
 * up, down(why), restored. */
struct play {
	struct reflector *r;
	int64_t now;
	struct buf told;
	bool wanted; /* by the last that was said */
};

static void on_listing(void *ctx)
{
	buf_str(ctx, "L ");
}

static int on_change(void *ctx, enum kube_change what, const struct json *j,
	const struct json_node *object, struct err *err)
{
	struct kube_meta meta = kube_meta(j, object);

	if (what == KUBE_BOOKMARK)
		buf_fmt(ctx, "*%.*s ", (int)meta.version.len, meta.version.at);
	else if (json_is_str(j, json_get(j, object, SLICE("kind")), SLICE("Table")))
		buf_fmt(ctx, "%cT%.*s ", what == KUBE_PUT ? '+' : '-', (int)meta.version.len,
			meta.version.at);
	else
		buf_fmt(ctx, "%c%.*s ", what == KUBE_PUT ? '+' : '-', (int)meta.name.len,
			meta.name.at);
	return slice_is(meta.name, "bad") ? err_set(err, ERR_INVALID, "a bad one") : 0;
}

static void on_listed(void *ctx, const char *version)
{
	buf_fmt(ctx, "=%s ", version);
}

static void on_restored(void *ctx)
{
	buf_str(ctx, "restored ");
}

static void on_connected(void *ctx, bool yes, const struct err *why)
{
	if (yes)
		buf_str(ctx, "up ");
	else
		buf_fmt(ctx, "down(%s) ", why->msg);
}

/* ---- the player ---- */

static void asks(struct play *p, const char *expected)
{
	const char *path = reflector_ask(p->r, p->now);

	if (!path)
		fail_msg("nothing is asked, expected %s", expected);
	assert_string_equal(path, expected);
	assert_null(reflector_ask(p->r, p->now));
	p->wanted = true;
}

static void watches(struct play *p, const char *version)
{
	static const char start[] = "/p?watch=true&allowWatchBookmarks=true&timeoutSeconds=";
	const char *path = reflector_ask(p->r, p->now);
	char *end;
	long seconds;

	if (!path)
		fail_msg("nothing is asked, expected a watch from %s", version);
	if (strncmp(path, start, strlen(start)) != 0)
		fail_msg("asked %s, expected a watch from %s", path, version);
	seconds = strtol(path + strlen(start), &end, 10);
	assert_in_range(seconds, 240, 359);
	assert_memory_equal(end, "&resourceVersion=", 17);
	assert_string_equal(end + 17, version);
	p->wanted = true;
}

static void body(struct play *p, const char *text, bool bytewise)
{
	size_t len = strlen(text);

	if (!bytewise)
		p->wanted = reflector_body(p->r, (struct slice){text, len}, p->now);
	for (size_t i = 0; bytewise && i < len && p->wanted; i++)
		p->wanted = reflector_body(p->r, (struct slice){text + i, 1}, p->now);
}

static void waits(struct play *p, int64_t ms)
{
	int64_t left = reflector_when(p->r) - p->now;

	assert_null(reflector_ask(p->r, p->now));
	assert_in_range(left, ms / 2, ms);
	assert_null(reflector_ask(p->r, p->now + left - 1));
	p->now += left;
}

/* As a driver does: whenever reflector_when() has come. */
static void pass(struct play *p, int64_t ms)
{
	int64_t until = p->now + ms;

	while (p->wanted && reflector_when(p->r) <= until) {
		int64_t when = reflector_when(p->r);

		p->now = when > p->now ? when : p->now;
		p->wanted = reflector_tick(p->r, p->now);
		if (p->wanted && reflector_when(p->r) <= p->now)
			fail_msg("it would be asked again and again");
	}
	p->now = until;
}

static void one_step(struct play *p, const struct step *s, bool bytewise)
{
	struct err why = {0};

	switch (s->op) {
	case ASKS:
		asks(p, s->text);
		break;
	case WATCHES:
		watches(p, s->text);
		break;
	case HEAD:
		p->wanted = reflector_head(p->r, (long)s->n, p->now);
		assert_true(p->wanted);
		break;
	case BODY:
	case BODY_LAST:
		body(p, s->text, bytewise);
		assert_int_equal(p->wanted, s->op == BODY);
		/* What is of no more use stays so, whatever else comes of it, and is told once. */
		if (s->op == BODY_LAST)
			for (int i = 0; i < 2; i++)
				assert_false(reflector_body(p->r, SLICE("{}\n"), p->now));
		break;
	case CUT:
		(void)err_set(&why, ERR_IO, "%s", s->text);
		reflector_end(p->r, &why, p->now);
		break;
	case PASS:
	case PASS_LAST:
		pass(p, s->n);
		assert_int_equal(p->wanted, s->op == PASS);
		break;
	case WAITS:
		waits(p, s->n);
		break;
	case ANEW:
		reflector_anew(p->r);
		break;
	case TOLD:
		assert_string_equal(p->told.len ? p->told.data : "", s->text);
		buf_clear(&p->told);
		break;
	case CLOSES:
	case OP_END:
		break;
	}
	/* Whatever it wants no more is over. */
	if (s->op == CLOSES || s->op == BODY_LAST || s->op == PASS_LAST)
		reflector_end(p->r, NULL, p->now);
}

static void play(const struct step *table, struct reflector_config cfg)
{
	for (int bytewise = 0; bytewise < 2; bytewise++) {
		struct play p = {.now = 1000};

		buf_init(&p.told, 1 << 20);
		cfg.app = (struct reflector_app){
			&p.told, on_listing, on_change, on_listed, on_connected, on_restored};
		cfg.seed = (uint64_t)bytewise;
		assert_int_equal(reflector_new(&cfg, &p.r, NULL), 0);
		for (const struct step *s = table; s->op != OP_END; s++)
			one_step(&p, s, bytewise);
		assert_string_equal(p.told.len ? p.told.data : "", "");
		reflector_free(p.r);
		buf_release(&p.told);
	}
}

static const struct reflector_config objects = {.path = "/p", .answer_max = 1 << 20};

#define TABLE(name, ...)                                                                           \
	static void name(void **state)                                                             \
	{                                                                                          \
		static const struct step table[] = {__VA_ARGS__, {OP_END, NULL, 0}};               \
                                                                                                   \
		(void)state;                                                                       \
		play(table, objects);                                                              \
	}

/* ---- the course of things ---- */

TABLE(list_then_events, WATCHED, {BODY, EVENT("ADDED", "b", "11") EVENT("MODIFIED", "a", "12"), 0},
	{TOLD, "+b +a ", 0}, {BODY, EVENT("DELETED", "b", "13") "\n", 0}, {TOLD, "-b ", 0},
	{PASS, NULL, 1000}, {CLOSES, NULL, 0}, {WATCHES, "13", 0}, {HEAD, NULL, 200})

TABLE(pages, {ASKS, LIST, 0}, ANSWER(200, PART("10", "a/b=", OBJECT("a", "3"))),
	{ASKS, LIST_AT("a%2Fb%3D"), 0}, ANSWER(200, PART("10", "c", "")), {ASKS, LIST_AT("c"), 0},
	ANSWER(200, PAGE("10", OBJECT("b", "4"))), {TOLD, "L +a +b =10 up ", 0}, {WATCHES, "10", 0})

TABLE(bookmarks, WATCHED, {BODY, EVENT("BOOKMARK", "", "99"), 0}, {TOLD, "*99 ", 0},
	{CUT, "reset", 0}, {TOLD, "down(reset) ", 0}, {WAITS, NULL, 200}, {WATCHES, "99", 0},
	{HEAD, NULL, 200}, {BODY, EVENT("ADDED", "b", "100"), 0}, {TOLD, "up +b ", 0})

/* What has not come in full by the end of a stream comes again. */
TABLE(half_lines, WATCHED, {BODY, "{\"type\":\"ADDED\",\"obj", 0}, {PASS, NULL, 5},
	{BODY, "ect\":" OBJECT("b", "11") "}\n{\"ty", 0}, {TOLD, "+b ", 0}, {PASS, NULL, 2000},
	{CLOSES, NULL, 0}, {WATCHES, "11", 0}, {HEAD, NULL, 200},
	{BODY, EVENT("DELETED", "a", "12"), 0}, {TOLD, "-a ", 0})

/* What a second list does not hold is not put again. */
TABLE(list_that_shrinks, {ASKS, LIST, 0},
	ANSWER(200, PAGE("10", OBJECT("a", "3") "," OBJECT("b", "4"))),
	{TOLD, "L +a +b =10 up ", 0}, {WATCHES, "10", 0}, {HEAD, NULL, 200}, {BODY_LAST, GONE, 0},
	{WAITS, NULL, 200}, {ASKS, LIST, 0}, ANSWER(200, PAGE("20", OBJECT("b", "4"))),
	{TOLD, "L +b =20 ", 0}, {WATCHES, "20", 0}, {HEAD, NULL, 200}, {BODY_LAST, GONE, 0},
	{WAITS, NULL, 400}, {ASKS, LIST, 0}, ANSWER(200, PAGE("30", "")), {TOLD, "L =30 ", 0})

/* ---- versions and tokens that are too old ---- */

TABLE(too_old_as_an_event, WATCHED, {BODY_LAST, EVENT("ADDED", "b", "11") GONE, 0},
	{TOLD, "+b ", 0}, {WAITS, NULL, 200}, {ASKS, LIST, 0}, ANSWER(200, PAGE("20", "")),
	{TOLD, "L =20 ", 0}, {WATCHES, "20", 0})

TABLE(too_old_as_an_answer, WATCHED, {PASS, NULL, 5000}, {CLOSES, NULL, 0}, {WATCHES, "10", 0},
	ANSWER(410, STATUS("too old")), {WAITS, NULL, 200}, {ASKS, LIST, 0},
	ANSWER(200, PAGE("20", "")), {TOLD, "L =20 ", 0})

TABLE(token_expires, {ASKS, LIST, 0}, ANSWER(200, PART("10", "x", OBJECT("a", "3"))),
	{ASKS, LIST_AT("x"), 0}, ANSWER(410, STATUS("expired")), {ASKS, LIST, 0},
	ANSWER(200, PAGE("20", OBJECT("b", "4"))), {TOLD, "L +a L +b =20 up ", 0})

/* Twice; then it waits. */
TABLE(token_expires_again, {ASKS, LIST, 0}, ANSWER(200, PART("1", "x", "")),
	{ASKS, LIST_AT("x"), 0}, ANSWER(410, ""), {ASKS, LIST, 0}, ANSWER(200, PART("2", "y", "")),
	{ASKS, LIST_AT("y"), 0}, ANSWER(410, ""), {ASKS, LIST, 0}, ANSWER(200, PART("3", "z", "")),
	{ASKS, LIST_AT("z"), 0}, ANSWER(410, STATUS("expired")),
	{TOLD, "L L L down(GET /p: 410 expired) ", 0}, {WAITS, NULL, 200}, {ASKS, LIST, 0},
	ANSWER(200, PAGE("4", "")), {TOLD, "L =4 up ", 0})

/* ---- versions that go back: etcd was restored from a backup ---- */

/* The watch waits for a version that will not come for long; a bookmark says so. */
TABLE(restored_under_a_watch, WATCHED, {BODY, EVENT("ADDED", "b", "20"), 0}, {TOLD, "+b ", 0},
	{CUT, "reset", 0}, {TOLD, "down(reset) ", 0}, {WAITS, NULL, 200}, {WATCHES, "20", 0},
	{HEAD, NULL, 200}, {BODY_LAST, EVENT("BOOKMARK", "", "12"), 0}, {WAITS, NULL, 400},
	{ASKS, LIST, 0}, ANSWER(200, PART("13", "x", OBJECT("a", "3"))), {ASKS, LIST_AT("x"), 0},
	ANSWER(200, PAGE("13", OBJECT("c", "13"))), {TOLD, "L restored +a +c =13 up ", 0},
	{WATCHES, "13", 0}, {HEAD, NULL, 200}, {BODY, EVENT("ADDED", "d", "14"), 0},
	{TOLD, "+d ", 0})

/* Others have seen it, while an answer comes, between two, and in the middle of a list. */
TABLE(restored_says_another, WATCHED, {ANEW, NULL, 0}, {PASS_LAST, NULL, 1000},
	{TOLD,
		"down(GET /p: another list says that versions have gone back, as after a restore "
		"of "
		"etcd) ",
		0},
	{WAITS, NULL, 200}, {ASKS, LIST, 0}, {ANEW, NULL, 0}, ANSWER(200, PAGE("7", "")),
	{TOLD, "L restored =7 up ", 0}, {WATCHES, "7", 0}, {HEAD, NULL, 200}, {PASS, NULL, 2000},
	{CLOSES, NULL, 0}, {ANEW, NULL, 0}, {ASKS, LIST, 0}, ANSWER(200, PAGE("8", "")),
	{TOLD, "L =8 ", 0})

/* Once: what comes after it is compared with it. */
TABLE(restored_between_lists, WATCHED, {BODY_LAST, GONE, 0}, {WAITS, NULL, 200}, {ASKS, LIST, 0},
	ANSWER(200, PAGE("7", OBJECT("a", "3"))), {TOLD, "L restored +a =7 ", 0}, {WATCHES, "7", 0},
	{HEAD, NULL, 200}, {BODY_LAST, GONE, 0}, {WAITS, NULL, 400}, {ASKS, LIST, 0},
	ANSWER(200, PAGE("8", "")), {TOLD, "L =8 ", 0})

/* ---- time ---- */

TABLE(silent_stream, WATCHED, {PASS, NULL, 89000}, {BODY, EVENT("ADDED", "b", "11"), 0},
	{TOLD, "+b ", 0}, {PASS, NULL, 89999}, {PASS_LAST, NULL, 1},
	{TOLD, "down(GET /p: nothing came for 90 s) ", 0}, {WAITS, NULL, 200}, {ASKS, LIST, 0},
	ANSWER(200, PAGE("11", "")), {TOLD, "L =11 up ", 0})

TABLE(quiet_stream_is_a_good_one, WATCHED, {CUT, "reset", 0}, {TOLD, "down(reset) ", 0},
	{WAITS, NULL, 200}, {WATCHES, "10", 0}, {CUT, "refused", 0}, {WAITS, NULL, 400},
	{WATCHES, "10", 0}, {HEAD, NULL, 200}, {PASS, NULL, 999}, {TOLD, "", 0}, {PASS, NULL, 1},
	{TOLD, "up ", 0}, {CUT, "reset", 0}, {TOLD, "down(reset) ", 0}, {WAITS, NULL, 200})

TABLE(list_that_does_not_come, {ASKS, LIST, 0}, {HEAD, NULL, 200}, {BODY, "{", 0},
	{PASS, NULL, 59999}, {PASS_LAST, NULL, 1},
	{TOLD, "L down(GET /p: the page did not come within 60 s) ", 0}, {WAITS, NULL, 200},
	{ASKS, LIST, 0}, {TOLD, "L ", 0})

/* Each page has its own time: a long list takes as long as it takes. */
TABLE(pages_that_take_their_time, {ASKS, LIST, 0}, {PASS, NULL, 40000},
	ANSWER(200, PART("1", "x", "")), {ASKS, LIST_AT("x"), 0}, {PASS, NULL, 59999},
	ANSWER(200, PART("1", "y", "")), {ASKS, LIST_AT("y"), 0}, {PASS, NULL, 59999},
	{PASS_LAST, NULL, 1}, {TOLD, "L down(GET /p: the page did not come within 60 s) ", 0},
	{WAITS, NULL, 200}, {ASKS, LIST, 0}, {TOLD, "L ", 0})

TABLE(waits_longer_each_time, {ASKS, LIST, 0}, {CUT, "no", 0}, {TOLD, "L down(no) ", 0},
	{WAITS, NULL, 200}, {ASKS, LIST, 0}, {CUT, "no", 0}, {WAITS, NULL, 400}, {ASKS, LIST, 0},
	{CUT, "no", 0}, {WAITS, NULL, 800}, {ASKS, LIST, 0}, {CUT, "no", 0}, {WAITS, NULL, 1600},
	{ASKS, LIST, 0}, {CUT, "no", 0}, {WAITS, NULL, 3200}, {ASKS, LIST, 0}, {CUT, "no", 0},
	{WAITS, NULL, 5000}, {ASKS, LIST, 0}, {CUT, "no", 0}, {WAITS, NULL, 5000}, {ASKS, LIST, 0},
	ANSWER(200, PAGE("1", "")), {TOLD, "L L L L L L L =1 up ", 0})

/* It ends at once, again and again: that breaks nothing, but is not asked for in a hot loop. */
TABLE(no_hot_loop, WATCHED, {CLOSES, NULL, 0}, {WAITS, NULL, 200}, {WATCHES, "10", 0},
	ANSWER(200, ""), {WAITS, NULL, 400}, {WATCHES, "10", 0}, ANSWER(200, ""),
	{WAITS, NULL, 800})

/* ---- refusals and garbage ---- */

/* Who we are and whether there is time for us is not the version's fault. */
TABLE(refused_for_who_we_are, WATCHED, {PASS, NULL, 5000}, {CLOSES, NULL, 0}, {WATCHES, "10", 0},
	ANSWER(401, "Unauthorized\n"), {TOLD, "down(GET /p: 401 Unauthorized) ", 0},
	{WAITS, NULL, 200}, {WATCHES, "10", 0}, ANSWER(403, STATUS("no")), {WAITS, NULL, 400},
	{WATCHES, "10", 0}, ANSWER(429, ""), {WAITS, NULL, 800}, {WATCHES, "10", 0},
	ANSWER(408, ""), {WAITS, NULL, 1600}, {WATCHES, "10", 0})

TABLE(refused_for_the_version, WATCHED, {PASS, NULL, 5000}, {CLOSES, NULL, 0}, {WATCHES, "10", 0},
	ANSWER(400, STATUS("resourceVersion")), {TOLD, "down(GET /p: 400 resourceVersion) ", 0},
	{WAITS, NULL, 200}, {ASKS, LIST, 0}, ANSWER(200, PAGE("20", "")), {TOLD, "L =20 up ", 0})

/* Five times the server's own fault: perhaps it is the version after all. */
TABLE(refused_too_often, WATCHED, {PASS, NULL, 5000}, {CLOSES, NULL, 0}, {WATCHES, "10", 0},
	ANSWER(500, ""), {TOLD, "down(GET /p: 500) ", 0}, {WAITS, NULL, 200}, {WATCHES, "10", 0},
	ANSWER(503, ""), {WAITS, NULL, 400}, {WATCHES, "10", 0}, ANSWER(500, ""),
	{WAITS, NULL, 800}, {WATCHES, "10", 0}, ANSWER(500, ""), {WAITS, NULL, 1600},
	{WATCHES, "10", 0}, ANSWER(500, ""), {WAITS, NULL, 3200}, {WATCHES, "10", 0},
	ANSWER(500, ""), {WAITS, NULL, 5000}, {ASKS, LIST, 0}, {TOLD, "L ", 0})

TABLE(refused_list, {ASKS, LIST, 0}, ANSWER(403, STATUS("forbidden")),
	{TOLD, "L down(GET /p: 403 forbidden) ", 0}, {WAITS, NULL, 200}, {ASKS, LIST, 0},
	ANSWER(200, PAGE("1", "")), {TOLD, "L =1 up ", 0})

TABLE(no_events, WATCHED, {BODY_LAST, "{\"type\":\"NEW\",\"object\":" OBJECT("a", "1") "}\n", 0},
	{TOLD, "down(a watch sent what is no event: its type is unknown) ", 0}, {WAITS, NULL, 200},
	{ASKS, LIST, 0}, {TOLD, "L ", 0})

TABLE(error_event, WATCHED,
	{BODY_LAST, "{\"type\":\"ERROR\",\"object\":{\"code\":500,\"message\":\"etcd\"}}\n", 0},
	{TOLD, "down(the watch ended with 500: etcd) ", 0}, {WAITS, NULL, 200}, {ASKS, LIST, 0},
	{TOLD, "L ", 0})

TABLE(list_that_is_none, {ASKS, LIST, 0}, ANSWER(200, "[]"),
	{TOLD, "L down(GET /p: the answer is no list: it has no resourceVersion) ", 0},
	{WAITS, NULL, 200}, {ASKS, LIST, 0}, ANSWER(200, ""), {WAITS, NULL, 400}, {ASKS, LIST, 0},
	ANSWER(200, "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":{}}"), {WAITS, NULL, 800},
	{ASKS, LIST, 0}, {TOLD, "L L L ", 0})

/* What the one who is told does not take: the list is made anew. */
TABLE(not_taken, WATCHED, {BODY_LAST, EVENT("ADDED", "bad", "11") EVENT("ADDED", "c", "12"), 0},
	{TOLD, "+bad down(a bad one) ", 0}, {WAITS, NULL, 200}, {ASKS, LIST, 0},
	ANSWER(200, PAGE("20", OBJECT("bad", "11") "," OBJECT("c", "12"))), {TOLD, "L +bad ", 0},
	{WAITS, NULL, 400}, {ASKS, LIST, 0}, ANSWER(200, PAGE("30", "")), {TOLD, "L =30 up ", 0})

TABLE(cut_within_a_list, {ASKS, LIST, 0}, ANSWER(200, PART("1", "x", OBJECT("a", "1"))),
	{ASKS, LIST_AT("x"), 0}, {HEAD, NULL, 200}, {BODY, "{\"meta", 0}, {CUT, "reset", 0},
	{TOLD, "L +a down(reset) ", 0}, {WAITS, NULL, 200}, {ASKS, LIST, 0},
	ANSWER(200, PAGE("2", "")), {TOLD, "L =2 up ", 0})

/* A version is opaque: it goes back as it came, and becomes no other part of the request. */
TABLE(version_of_any_kind, {ASKS, LIST, 0}, ANSWER(200, PAGE("1 /&x=y", "")),
	{TOLD, "L =1 /&x=y up ", 0}, {WATCHES, "1%20%2F%26x%3Dy", 0})

/* ---- other configurations ---- */

/* Tables are told of whole, and their bookmarks may hold columns; a path with a query of its own.
 */
TEST(tables)
{
	static const struct step table[] = {{ASKS, "/t?x=1&limit=500", 0},
		ANSWER(200, "{\"kind\":\"Table\",\"metadata\":{\"resourceVersion\":\"5\"}}"),
		{TOLD, "L +T5 =5 up ", 0}, {OP_END, NULL, 0}};
	struct reflector_config cfg = objects;

	cfg.path = "/t?x=1";
	cfg.tables = true;
	play(table, cfg);
}

TEST(answers_that_are_too_long)
{
	struct reflector_config cfg = objects;
	char *long_text = malloc((1 << 20) + 2);
	const struct step table[] = {{ASKS, LIST, 0}, {HEAD, NULL, 200}, {BODY_LAST, long_text, 0},
		{TOLD, "L down(GET /p: a page of the list is over 1 MiB; do so) ", 0},
		{WAITS, NULL, 200}, {ASKS, LIST, 0}, ANSWER(200, PAGE("1", "")),
		{TOLD, "L =1 up ", 0}, {WATCHES, "1", 0}, {HEAD, NULL, 500},
		{BODY_LAST, long_text, 0},
		{TOLD, "down(GET /p was answered with status 500 and more than 1 MiB) ", 0},
		{WAITS, NULL, 400}, {WATCHES, "1", 0}, {OP_END, NULL, 0}};

	assert_non_null(long_text);
	memset(long_text, 'x', (1 << 20) + 1);
	long_text[(1 << 20) + 1] = '\0';
	cfg.advice = "do so";
	play(table, cfg);
	free(long_text);
}

TESTS(list_then_events, pages, bookmarks, half_lines, list_that_shrinks, too_old_as_an_event,
	too_old_as_an_answer, restored_under_a_watch, restored_says_another, restored_between_lists,
	token_expires, token_expires_again, silent_stream, quiet_stream_is_a_good_one,
	list_that_does_not_come, pages_that_take_their_time, waits_longer_each_time, no_hot_loop,
	refused_for_who_we_are, refused_for_the_version, refused_too_often, refused_list, no_events,
	error_event, list_that_is_none, not_taken, cut_within_a_list, version_of_any_kind, tables,
	answers_that_are_too_long)
