/* SPDX-License-Identifier: Apache-2.0 */
/* core: the account of a policy's caps: read, raised, counted anew, written.
 *
 * The text: "1 GENERATION", then words without blanks between them: "n NAMESPACE GPUS BYTES" for
 * each row, "f UID NAMESPACE TAKE GPUS BYTES" for each claim in flight; numbers in decimal. */
#include "webhook/core/policy/policy_account.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/text.h"

#define VERSION SLICE("1")
/* Namespaces that a refusal names. */
#define SAY_MAX 4

static uint64_t plus(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

void account_sum_add(struct account_sum *sum, const struct claim *c)
{
	sum->gpus = plus(sum->gpus, c->n_parts);
	for (size_t i = 0; i < c->n_parts; i++)
		sum->bytes = plus(sum->bytes, c->parts[i].bytes);
}

bool policy_is_capped(const struct policy *p)
{
	return p && (p->gpus != UINT32_MAX || p->bytes != UINT64_MAX);
}

static void add(struct account_sum *to, struct account_sum s)
{
	to->gpus = plus(to->gpus, s.gpus);
	to->bytes = plus(to->bytes, s.bytes);
}

/* ---- text ---- */

static bool read_number(struct slice *rest, uint64_t *ret)
{
	struct slice word;

	return text_word(rest, &word) && text_u64(word, UINT64_MAX, ret);
}

static bool read_text(struct slice *rest, struct arena *a, const char **ret)
{
	struct slice word;

	if (!text_word(rest, &word))
		return false;
	*ret = arena_strdup(a, word);
	return true;
}

static bool read_sum(struct slice *rest, struct account_sum *ret)
{
	return read_number(rest, &ret->gpus) && read_number(rest, &ret->bytes);
}

static bool read_row(struct slice *rest, struct arena *a, struct account *c)
{
	struct account_row *r = &c->rows[c->n_rows++];

	return read_text(rest, a, &r->namespace) && read_sum(rest, &r->held) &&
	       (c->n_rows < 2 || a->failed || strcmp(r[-1].namespace, r->namespace) < 0);
}

static bool read_flight(struct slice *rest, struct arena *a, struct account *c)
{
	struct account_flight *f = &c->flights[c->n_flights++];

	return read_text(rest, a, &f->uid) && read_text(rest, a, &f->namespace) &&
	       read_number(rest, &f->take) && read_sum(rest, &f->held);
}

static bool read_all(struct slice rest, struct arena *a, struct account *c)
{
	uint64_t generation;
	struct slice word;

	if (!text_word(&rest, &word) || !slice_eq(word, VERSION) ||
		!read_number(&rest, &generation) || generation > INT64_MAX)
		return false;
	c->generation = (int64_t)generation;
	while (text_word(&rest, &word))
		if (slice_is(word, "n") ? !read_row(&rest, a, c)
					: !slice_is(word, "f") || !read_flight(&rest, a, c))
			return false;
	return true;
}

int account_read(struct slice text, struct arena *a, struct account *ret, struct err *err)
{
	struct slice rest = text, word;
	size_t words = 0;

	*ret = (struct account){0};
	if (text.len == 0)
		return 0;
	while (text_word(&rest, &word))
		words++;
	/* each takes four words at least */
	ret->rows = arena_array(a, words / 4 + 1, sizeof(*ret->rows));
	ret->flights = arena_array(a, words / 4 + 1, sizeof(*ret->flights));
	if (!ret->rows || !ret->flights)
		return err_set(err, ERR_NOMEM, "out of memory for the account of a policy");
	if (!read_all(text, a, ret)) {
		*ret = (struct account){0};
		return err_set(err, ERR_SYNTAX, "found an account that no replica writes");
	}
	return a->failed ? err_set(err, ERR_NOMEM, "out of memory for the account of a policy") : 0;
}

void account_write(const struct account *c, struct buf *out)
{
	buf_fmt(out, "1 %" PRId64, c->generation);
	for (size_t i = 0; i < c->n_rows; i++)
		buf_fmt(out, " n %s %" PRIu64 " %" PRIu64, c->rows[i].namespace,
			c->rows[i].held.gpus, c->rows[i].held.bytes);
	for (size_t i = 0; i < c->n_flights; i++) {
		const struct account_flight *f = &c->flights[i];

		buf_fmt(out, " f %s %s %" PRIu64 " %" PRIu64 " %" PRIu64, f->uid, f->namespace,
			f->take, f->held.gpus, f->held.bytes);
	}
}

/* ---- sums ---- */

struct account_sum account_held(const struct account *c)
{
	struct account_sum sum = {0};

	for (size_t i = 0; i < c->n_rows; i++)
		add(&sum, c->rows[i].held);
	return sum;
}

static int by_namespace(const void *key, const void *row)
{
	return strcmp(key, ((const struct account_row *)row)->namespace);
}

static struct account_row *row_of(const struct account *c, const char *namespace)
{
	return c->n_rows ? bsearch(namespace, c->rows, c->n_rows, sizeof(*c->rows), by_namespace)
			 : NULL;
}

static struct account_flight *flight_of(const struct account *c, const char *uid, uint64_t take)
{
	for (size_t i = 0; i < c->n_flights; i++)
		if (c->flights[i].take == take && strcmp(c->flights[i].uid, uid) == 0)
			return &c->flights[i];
	return NULL;
}

/* Of whom this record is. All of a gang is raised at once, and is in flight under one uid. */
static struct account_flight *flight_of_take(
	const struct account *c, const char *namespace, const char *uid, uint64_t take)
{
	struct account_flight *f = flight_of(c, uid, take);

	for (size_t i = 0; !f && take && i < c->n_flights; i++)
		if (c->flights[i].take == take && strcmp(c->flights[i].namespace, namespace) == 0)
			f = &c->flights[i];
	return f;
}

static void remove_flight(struct account *c, struct account_flight *f)
{
	*f = c->flights[--c->n_flights];
}

bool account_close(struct account *c, const char *uid, uint64_t take)
{
	struct account_flight *f = flight_of(c, uid, take);

	if (f)
		remove_flight(c, f);
	return f != NULL;
}

bool account_fits(const struct account *c, const struct policy *caps, struct account_sum wants)
{
	struct account_sum held = account_held(c);

	return (caps->gpus == UINT32_MAX || plus(held.gpus, wants.gpus) <= caps->gpus) &&
	       (caps->bytes == UINT64_MAX || plus(held.bytes, wants.bytes) <= caps->bytes);
}

static bool add_flight(struct account *c, const struct account_ask *ask, struct arena *a)
{
	struct account_flight *grown = arena_array(a, c->n_flights + 1, sizeof(*grown));

	if (!grown)
		return false;
	if (c->n_flights)
		memcpy(grown, c->flights, c->n_flights * sizeof(*grown));
	grown[c->n_flights++] =
		(struct account_flight){ask->uid, ask->namespace, ask->take, ask->wants};
	c->flights = grown;
	return true;
}

enum account_said account_raise(struct account *c, const struct policy *caps, int64_t generation,
	const struct account_ask *ask, struct arena *a)
{
	struct account_row *row = row_of(c, ask->namespace);
	struct account_flight *old;

	if (flight_of(c, ask->uid, ask->take))
		return ACCOUNT_THERE;
	if (!row || c->generation != generation)
		return ACCOUNT_UNKNOWN;
	old = ask->instead ? flight_of(c, ask->uid, ask->instead) : NULL;
	if (old) {
		row->held.gpus -= old->held.gpus < row->held.gpus ? old->held.gpus : row->held.gpus;
		row->held.bytes -=
			old->held.bytes < row->held.bytes ? old->held.bytes : row->held.bytes;
		remove_flight(c, old);
	}
	if (!ask->forced && !account_fits(c, caps, ask->wants))
		return ACCOUNT_FULL;
	if (add_flight(c, ask, a))
		add(&row->held, ask->wants);
	return ACCOUNT_RAISED;
}

void account_name(struct account *c, const struct account_ask *ask, struct arena *a)
{
	if (!flight_of(c, ask->uid, ask->take))
		(void)add_flight(c, ask, a);
}

/* ---- counting ---- */

bool account_knows(const struct account *c, const char *namespace)
{
	return row_of(c, namespace) != NULL;
}

bool account_know(struct account *c, const char *namespace, struct arena *a)
{
	struct account_row *grown;
	size_t at = 0;

	if (account_knows(c, namespace))
		return true;
	grown = arena_array(a, c->n_rows + 1, sizeof(*grown));
	if (!grown)
		return false;
	while (at < c->n_rows && strcmp(c->rows[at].namespace, namespace) < 0)
		at++;
	if (at > 0)
		memcpy(grown, c->rows, at * sizeof(*grown));
	grown[at] = (struct account_row){.namespace = namespace};
	if (c->n_rows > at)
		memcpy(grown + at + 1, c->rows + at, (c->n_rows - at) * sizeof(*grown));
	c->rows = grown;
	c->n_rows++;
	return true;
}

bool account_count_begin(struct account_count *n, struct account *c, struct arena *a)
{
	*n = (struct account_count){.account = c};
	n->rows = arena_array(a, c->n_rows, sizeof(*n->rows));
	n->flights = arena_array(a, c->n_flights, sizeof(*n->flights));
	return n->rows && n->flights;
}

void account_count_add(struct account_count *n, const char *namespace, const char *uid,
	uint64_t take, struct account_sum holds)
{
	struct account *c = n->account;
	struct account_flight *f = flight_of_take(c, namespace, uid, take);
	struct account_row *row;

	if (f) {
		add(&n->flights[f - c->flights], holds);
		return;
	}
	row = row_of(c, namespace);
	if (row)
		add(&n->rows[row - c->rows], holds);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

bool account_count_end(struct account_count *n, int64_t generation)
{
	struct account *c = n->account;
	bool changed = false;

	/* From the last on: one that goes is replaced by one that was looked at. */
	for (size_t i = c->n_flights; i-- > 0;) {
		struct account_flight *f = &c->flights[i];
		struct account_sum seen = n->flights[i], most = {larger(seen.gpus, f->held.gpus),
								 larger(seen.bytes, f->held.bytes)};
		struct account_row *row = row_of(c, f->namespace);

		/* Two leaders may have written under one name: what stands counts. */
		if (row)
			add(&n->rows[row - c->rows], most);
		if (seen.gpus < f->held.gpus || seen.bytes < f->held.bytes)
			continue;
		remove_flight(c, f);
		changed = true;
	}
	for (size_t i = 0; i < c->n_rows; i++) {
		struct account_sum *held = &c->rows[i].held, now = n->rows[i];

		if (n->partly)
			now = (struct account_sum){
				larger(now.gpus, held->gpus), larger(now.bytes, held->bytes)};
		changed = changed || now.gpus != held->gpus || now.bytes != held->bytes;
		*held = now;
	}
	changed = changed || c->generation != generation;
	c->generation = generation;
	return changed;
}

bool account_drop(
	struct account *c, bool (*keep)(void *ctx, const struct account_row *row), void *ctx)
{
	size_t n = 0, was = c->n_rows;

	for (size_t i = 0; i < was; i++) {
		bool in_flight = false;

		for (size_t k = 0; k < c->n_flights; k++)
			in_flight = in_flight ||
				    strcmp(c->flights[k].namespace, c->rows[i].namespace) == 0;
		if (in_flight || keep(ctx, &c->rows[i]))
			c->rows[n++] = c->rows[i];
	}
	c->n_rows = n;
	return n < was;
}

/* ---- words ---- */

/* "team-a 5, team-b 3" */
static void say_rows(const struct account *c, bool by_gpus, struct buf *b)
{
	uint64_t below = UINT64_MAX, rest = 0;
	size_t said = 0;

	/* The largest first; of equal ones all. */
	for (bool more = true; more && said < SAY_MAX;) {
		uint64_t most = 0;

		for (size_t i = 0; i < c->n_rows; i++) {
			uint64_t v = by_gpus ? c->rows[i].held.gpus : c->rows[i].held.bytes;

			if (v < below)
				most = larger(most, v);
		}
		more = most > 0;
		for (size_t i = 0; more && i < c->n_rows; i++) {
			uint64_t v = by_gpus ? c->rows[i].held.gpus : c->rows[i].held.bytes;

			if (v != most)
				continue;
			if (said++ < SAY_MAX)
				buf_fmt(b, "%s%s %" PRIu64 "%s", said > 1 ? ", " : "",
					c->rows[i].namespace, by_gpus ? v : v / 1000000,
					by_gpus ? "" : " MB");
			else
				rest++;
		}
		below = most;
	}
	for (size_t i = 0; i < c->n_rows; i++) {
		uint64_t v = by_gpus ? c->rows[i].held.gpus : c->rows[i].held.bytes;

		rest += v > 0 && v < below;
	}
	if (rest)
		buf_fmt(b, ", and %" PRIu64 " more", rest);
}

int account_refuse(const struct account *c, const struct policy *caps,
	const struct account_ask *ask, struct err *err)
{
	struct account_sum held = account_held(c);
	bool by_gpus = caps->gpus != UINT32_MAX && plus(held.gpus, ask->wants.gpus) > caps->gpus;
	uint64_t cap = by_gpus ? caps->gpus : caps->bytes / 1000000;
	uint64_t used = by_gpus ? held.gpus : held.bytes / 1000000;
	uint64_t wants = by_gpus ? ask->wants.gpus : ask->wants.bytes / 1000000;
	bool ever = by_gpus ? ask->wants.gpus <= caps->gpus : ask->wants.bytes <= caps->bytes;
	const char *unit = by_gpus ? "GPUs" : "MB";
	struct buf who;
	int rc;

	buf_init(&who, 400);
	say_rows(c, by_gpus, &who);
	rc = err_reason(err, ERR_REFUSED, "PolicyFull",
		"the GPUPolicy %s allows its namespaces %" PRIu64
		" %s at once (spec.allow.%s), of which they hold %" PRIu64 "%s%s%s, and the pod "
		"takes %" PRIu64 "; %s",
		caps->name, cap, unit, by_gpus ? "gpus" : "memory", used, who.len ? " (" : "",
		who.len ? who.data : "", who.len ? ")" : "", wants,
		ever ? "create the pod again when one of theirs has ended"
		     : "ask for less: no pod of theirs can have so much");
	buf_release(&who);
	return rc;
}
