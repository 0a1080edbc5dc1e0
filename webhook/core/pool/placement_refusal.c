/* SPDX-License-Identifier: Apache-2.0 */
/* core: the sentence for a pod that the pool cannot hold: what was asked, what is free, what would
 * fit, what to do. */
#include "webhook/core/pool/placement_say.h"

/* What the GPUs that match the filter are like. */
struct tally {
	size_t selected; /* match the filter */
	size_t usable;   /* of these, can take claims at all */
	size_t draining, unfit, stale, missing;
	const struct gpu_server *why_server; /* of the first unfit or stale one */
	const struct gpu *why;
	size_t crowded;        /* servers with such GPUs that have no claim left for this pod */
	size_t crowded_server; /* the first of them */
	uint64_t largest;      /* bytes of the largest usable one */
	uint64_t pending; /* bytes of usable ones that are held by pods which have not started */
};

static void count_gpu(
	const struct search *s, const struct gpu_server *server, size_t i, struct tally *t)
{
	const struct gpu *g = &server->gpus[i];

	t->selected++;
	if (g->missing) {
		t->missing++;
	} else if (server->drain) {
		t->draining++;
	} else if (!g->fit || !g->fresh) {
		*(g->fit ? &t->stale : &t->unfit) += 1;
		if (!t->why) {
			t->why = g;
			t->why_server = server;
		}
	} else {
		t->usable++;
		t->pending += s->use->pending[server->first_gpu + i];
		if (g->bytes > t->largest)
			t->largest = g->bytes;
	}
}

/* All of the server's GPUs are alike, take claims, and match: no need to look at each. */
static bool count_alike(const struct search *s, size_t server, struct tally *t)
{
	uint32_t first = s->room.first[server], n = s->room.gpus[server];

	if (!search_alike(s, server) || s->room.usable[server] < n)
		return false;
	t->selected += n;
	t->usable += n;
	for (uint32_t i = 0; i < n; i++)
		t->pending += s->use->pending[first + i];
	if (s->room.bytes[server] > t->largest)
		t->largest = s->room.bytes[server];
	return true;
}

static void count(const struct search *s, struct tally *t)
{
	struct memo memo = {0};

	*t = (struct tally){0};
	for (size_t at = 0; at < s->inv->n_servers; at++) {
		size_t i = inventory_nth(s->inv, at);
		const struct gpu_server *server = &s->inv->servers[i];
		size_t before = t->usable;
		bool alike = search_kind(s, i) == SELECTED_NONE || count_alike(s, i, t);

		for (size_t j = 0; !alike && j < server->n_gpus; j++)
			if (search_selects(s, server, &server->gpus[j], &memo))
				count_gpu(s, server, j, t);
		if (t->usable > before && !search_claims_left(s, i, s->use->n_claims[i])) {
			t->crowded++;
			if (t->crowded == 1)
				t->crowded_server = i;
		}
	}
}

static int finish(struct buf *b, const char *reason, struct err *err)
{
	if (b->data)
		err_reason(err, ERR_REFUSED, reason, "%s", b->data);
	else
		err_reason(err, ERR_REFUSED, reason, "the pool cannot hold this pod now");
	buf_release(b);
	return ERR_REFUSED;
}

static bool server_has(const struct gpu_server *server, const struct filter *f)
{
	size_t i = 0;

	while (i < server->n_gpus && !inventory_gpu_matches(&server->gpus[i], f))
		i++;
	return i < server->n_gpus && inventory_server_matches(server, f);
}

/* Does any GPU match this one token? */
static bool token_matches(const struct search *s, const struct filter *f)
{
	const struct inventory *inv = s->inv;
	enum filter_sort sort = inventory_filter_sort(f);
	struct word_test t = {0};

	if (sort == FILTER_NAME) {
		const struct gpu_server *of = inventory_server(inv, f->value);

		return of && of->n_gpus > 0;
	}
	for (size_t i = 1; sort == FILTER_MODEL && i < inv->n_kinds; i++)
		if (server_has(&inv->kinds[i], f))
			return true;
	if (sort != FILTER_MODEL && inv->words)
		t = search_test(inv, f);
	for (size_t i = 0; i < inv->n_servers; i++) {
		size_t server = inventory_nth(inv, i);

		if (inventory_kind(inv, server)
				? t.word && t.of[server] == t.word && s->room.gpus[server] > 0
				: server_has(&inv->servers[server], f))
			return true;
	}
	return false;
}

/* Servers whose address the launcher cannot use. */
static void say_unreached(const struct search *s, struct buf *b)
{
	size_t n = 0;

	for (size_t i = 0; i < s->inv->n_servers; i++)
		n += !search_reaches(s->d, inventory_seen(s->inv, inventory_nth(s->inv, i)));
	if (n)
		buf_fmt(b,
			"; the launcher cannot use the %s of %zu server%s: ask the operator for an "
			"address that it can",
			s->d->no_ipv6 ? "IPv6 address" : "IPv4 address", n, n == 1 ? "" : "s");
}

/* Servers on which pods of this launcher must not be placed. */
static size_t count_closed(const struct search *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->inv->n_servers; i++)
		n += !inventory_admits(
			inventory_seen(s->inv, inventory_nth(s->inv, i)), s->d->launcher);
	return n;
}

/* Servers and models that the policy does not allow; whether all GPUs are such. */
static bool say_bound(const struct search *s, struct buf *b)
{
	const struct pool_bound *bound = s->d->bound;
	size_t servers = 0, models = 0, n = 0;

	for (size_t i = 0; bound && i < s->inv->n_servers; i++) {
		size_t server = inventory_nth(s->inv, i);
		uint32_t within;

		if (!search_within(s, server)) {
			servers++;
			continue;
		}
		within = search_gpus_within(s, server);
		n += within;
		models += s->room.gpus[server] - within;
	}
	if (servers)
		buf_fmt(b, "; %zu server%s not for the GPUPolicy %s (spec.allow.servers)", servers,
			servers == 1 ? " is" : "s are", bound->policy);
	if (models)
		buf_fmt(b,
			"; %zu GPU%s of models that the GPUPolicy %s does not allow "
			"(spec.allow.models)",
			models, models == 1 ? " is" : "s are", bound->policy);
	return bound && n == 0;
}

/* Servers without a gate that holds its claims to their shares. */
static void say_unguarded(const struct search *s, struct buf *b)
{
	size_t n = 0;

	for (size_t i = 0; s->d->guarded && i < s->inv->n_servers; i++)
		n += !inventory_seen(s->inv, inventory_nth(s->inv, i))->guarded;
	if (n == 0)
		return;
	buf_fmt(b, "; %zu server%s not guarded (condition Guarded), which the launcher ", n,
		n == 1 ? " is" : "s are");
	say_word(b, s->d->launcher, SAY_WORD_MAX);
	buf_str(b, n == s->inv->n_servers ? " needs: choose another one, or ask the operator"
					  : " needs");
}

/* Servers whose gates know pods otherwise than by what this one has. */
static void say_other_gates(const struct search *s, struct buf *b)
{
	size_t n = 0;

	for (size_t i = 0; i < s->inv->n_servers; i++)
		n += inventory_other_gate(
			inventory_seen(s->inv, inventory_nth(s->inv, i)), s->d->gate_by);
	if (n == 0)
		return;
	buf_fmt(b, "; the gate%s of %zu server%s by %s (spec.gate.mode), and the launcher ",
		n == 1 ? "" : "s", n, n == 1 ? " goes" : "s go",
		s->d->gate_by == GATE_BY_TOKEN ? "addresses" : "tokens");
	say_word(b, s->d->launcher, SAY_WORD_MAX);
	buf_str(b, s->d->gate_by == GATE_BY_TOKEN ? " shows a token" : " shows none");
	if (n == s->inv->n_servers)
		buf_str(b, ": choose another one, or ask the operator");
}

static void say_closed(const struct search *s, struct buf *b)
{
	size_t n = count_closed(s);

	if (say_bound(s, b) && n == 0)
		buf_str(b, ": ask whoever keeps that policy");
	if (n > 0) {
		buf_fmt(b, "; %zu server%s not for the launcher ", n, n == 1 ? " is" : "s are");
		say_word(b, s->d->launcher, SAY_WORD_MAX);
		buf_str(b,
			n == s->inv->n_servers ? ": choose another one, or ask the operator" : "");
	}
	say_unguarded(s, b);
	say_other_gates(s, b);
}

static int refuse_no_match(const struct search *s, struct buf *b, struct err *err)
{
	size_t said = 0;

	if (s->inv->n_servers == 0) {
		buf_str(b, "; the pool has no GPU server: its operator must add one");
		return finish(b, "NoServer", err);
	}
	if (s->inv->n_gpus == 0) {
		buf_fmt(b,
			"; none of the pool's %zu servers has reported a GPU yet: ask its operator",
			s->inv->n_servers);
		return finish(b, "NoServer", err);
	}
	say_closed(s, b);
	say_unreached(s, b);
	if (s->n_known == 0)
		return finish(b, "NoServer", err);
	buf_str(b, "; no GPU of the pool matches");
	for (size_t i = 0; i < s->n_known && said < 2; i++) {
		if (token_matches(s, s->known[i]))
			continue;
		buf_str(b, said++ ? " nor " : " ");
		say_token(b, s->known[i]);
		say_existing(s, s->known[i], b);
	}
	if (said == 0)
		buf_str(b, " all of these together");
	buf_str(b, "; change the annotation bitfusion-client/filter");
	return finish(b, "NoServer", err);
}

/* ", 1 unfit": one kind of GPU that cannot be used. */
static void say_kind(struct buf *b, size_t n, const char *kind, const char **separator)
{
	if (n == 0)
		return;
	buf_fmt(b, "%s%zu %s", *separator, n, kind);
	*separator = ", ";
}

static void say_unusable(const struct tally *t, struct buf *b)
{
	const char *separator = "";

	say_kind(b, t->draining, "on draining servers", &separator);
	say_kind(b, t->unfit, "unfit", &separator);
	say_kind(b, t->stale, "not reported lately", &separator);
	say_kind(b, t->missing, "gone", &separator);
	if (!t->why)
		return;
	buf_str(b, " (");
	say_name(b, t->why_server->name);
	buf_char(b, '/');
	say_name(b, t->why->id);
	if (t->why->why && *t->why->why) {
		buf_str(b, ": ");
		say_word(b, slice_of(t->why->why), 3 * SAY_WORD_MAX);
	}
	buf_char(b, ')');
}

static int refuse_unusable(
	const struct search *s, const struct tally *t, struct buf *b, struct err *err)
{
	if (t->selected == 1)
		buf_fmt(b, "; the only GPU that %s cannot be used: ",
			s->n_known ? "matches" : "is there");
	else
		buf_fmt(b, "; of %zu GPUs that %s none can be used: ", t->selected,
			s->n_known ? "match" : "there are");
	say_unusable(t, b);
	say_closed(s, b);
	buf_str(b, "; create the pod again when they are back");
	return finish(b, "NoServer", err);
}

static int refuse_taken(const struct search *s, struct buf *b, struct err *err)
{
	size_t at = s->taken_server < s->d->n_servers ? s->taken_server : 0;

	/* The name of one that is gone is the better news. */
	for (size_t i = 0; i < s->d->n_servers; i++)
		if (!inventory_server(s->inv, s->d->servers[i]))
			at = i;
	buf_str(b, "; server ");
	say_word(b, s->d->servers[at], SAY_WORD_MAX);
	if (s->d->n_servers > 1)
		buf_fmt(b, " (of %zu that were chosen)", s->d->n_servers);
	buf_str(b,
		inventory_server(s->inv, s->d->servers[at])
			? " is taken: create the pod again and another server is chosen"
			: " has left the pool: create the pod again and another server is chosen");
	return finish(b, "ServerTaken", err);
}

/* Servers that are drained, and GPUs that are unfit or stale, come back. */
static bool waiting_helps(const struct search *s, const struct tally *t)
{
	return !s->never || t->usable + t->missing < t->selected;
}

static void say_crowded(const struct search *s, size_t server, struct buf *b)
{
	uint32_t n = s->use->n_claims[server];

	buf_str(b, "; server ");
	say_name(b, s->inv->servers[server].name);
	if (n >= CLAIMS_PER_SERVER_MAX)
		buf_fmt(b, " takes no more: it has %d claims", CLAIMS_PER_SERVER_MAX);
	else
		buf_fmt(b,
			" has %u claims of at most %d and leaves the others to pods that take more "
			"than half of a GPU",
			n, CLAIMS_PER_SERVER_MAX);
}

static int refuse_full(
	const struct search *s, const struct tally *t, struct buf *b, struct err *err)
{
	const struct demand_container *c = &s->d->containers[s->failed];
	size_t room = search_count_room(s, c);

	buf_fmt(b, "; of %zu GPU%s that %s, ", t->usable, t->usable == 1 ? "" : "s",
		s->n_known ? (t->usable == 1 ? "matches" : "match") : "can be used");
	if (room == 0)
		buf_str(b, "none has that much free");
	else
		buf_fmt(b, "%zu %s that much free", room, room == 1 ? "has" : "have");
	if (s->d->whole_servers)
		buf_str(b, " on a server that nobody uses");
	if (s->n_order > 1 || s->d->n_containers > s->n_order + 1) {
		buf_str(b, " for ");
		say_word(b, c->name, SAY_SHORT_MAX);
		buf_str(b, " beside its pod's other containers");
	}
	say_best(s, b);
	if (t->pending)
		buf_fmt(b, "; %llu MB are held by pods that have not started",
			(unsigned long long)(t->pending / PLACEMENT_MB));
	if (t->crowded)
		say_crowded(s, t->crowded_server, b);
	say_closed(s, b);
	say_advice(s, room, waiting_helps(s, t), b);
	return finish(b, "NoCapacity", err);
}

int placement_refuse(const struct search *s, struct err *err)
{
	const struct demand_container *c = &s->d->containers[s->failed];
	uint64_t amount = c->amount;
	struct tally t;
	struct buf b;

	count(s, &t);
	buf_init(&b, sizeof(err->msg));
	say_asked(s, &b);
	if (!s->concluded && s->work >= s->budget) {
		buf_fmt(&b,
			"; the search for a place was ended when its budget of %u steps was used "
			"up: ask for fewer containers with GPUs in one pod, or for fewer GPUs",
			SEARCH_WORK_MAX);
		return finish(&b, "SearchTooLong", err);
	}
	if (s->d->n_servers)
		return refuse_taken(s, &b, err);
	if (s->split) {
		buf_str(&b, "; the pool has that, but not on one server, and this launcher reaches "
			    "one GPU server per pod: ");
		buf_str(&b, s->d->n_containers == 1
				    ? "ask for fewer GPUs"
				    : "ask for less, or put each container into a pod of its own");
		if (waiting_helps(s, &t))
			buf_str(&b, ", or create the pod again when others have ended");
		return finish(&b, "NoCapacity", err);
	}
	if (t.selected == 0)
		return refuse_no_match(s, &b, err);
	if (t.usable == 0)
		return refuse_unusable(s, &t, &b, err);
	if (search_need(c, t.largest) > t.largest) {
		buf_fmt(&b, "; no GPU has %llu MB; the largest%s has %llu MB: ask for at most that",
			(unsigned long long)c->memory_mb, s->n_known ? " that matches" : "",
			(unsigned long long)(t.largest / PLACEMENT_MB));
		return finish(&b, "NoCapacity", err);
	}
	if (amount > t.usable) {
		buf_fmt(&b, "; the pool has %zu GPU%s that can be used%s", t.usable,
			t.usable == 1 ? "" : "s",
			!s->n_known     ? ""
			: t.usable == 1 ? " and matches the filter"
					: " and match the filter");
		if (t.selected > t.usable) {
			buf_fmt(&b, ", beside %zu that cannot: ", t.selected - t.usable);
			say_unusable(&t, &b);
		}
		say_closed(s, &b);
		buf_fmt(&b, "; ask for at most %zu", t.usable);
		return finish(&b, "NoCapacity", err);
	}
	return refuse_full(s, &t, &b, err);
}
