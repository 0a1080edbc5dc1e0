/* SPDX-License-Identifier: Apache-2.0 */
/* core: the parts of a refusal's sentence: words, what was asked, which values exist, the best
 * GPUs. */
#include "webhook/core/pool/placement_say.h"
#include "webhook/core/pool/server_words.h"

#define ASKED_MAX 80
#define BEST_MAX 270
#define NAMES_SHOWN 3

void say_word(struct buf *b, struct slice s, size_t max)
{
	for (size_t i = 0; i < s.len && i < max; i++)
		buf_char(b, s.at[i] >= 0x20 && s.at[i] < 0x7f ? s.at[i] : '?');
	if (s.len > max)
		buf_str(b, "...");
}

void say_name(struct buf *b, const char *s)
{
	say_word(b, slice_of(s), SAY_WORD_MAX);
}

void say_value(struct buf *b, struct slice s, size_t max)
{
	bool quoted = s.len && memchr(s.at, ' ', s.len);

	buf_str(b, quoted ? "\"" : "");
	say_word(b, s, max);
	buf_str(b, quoted ? "\"" : "");
}

void say_token(struct buf *b, const struct filter *f)
{
	size_t room = f->key.len < SAY_WORD_MAX ? SAY_WORD_MAX - 1 - f->key.len : 0;

	say_word(b, f->key, SAY_WORD_MAX);
	buf_char(b, '=');
	say_value(b, f->value, room);
}

void say_amount(struct buf *b, const struct demand_container *c, uint64_t amount)
{
	buf_u64(b, amount);
	buf_str(b, amount == 1 ? " GPU with " : " GPUs with ");
	if (c->percent)
		buf_fmt(b, "%u %%", (unsigned)c->percent);
	else
		buf_fmt(b, "%llu MB", (unsigned long long)c->memory_mb);
	if (amount > 1)
		buf_str(b, " each");
}

static void say_filters(const struct search *s, struct buf *b, const char *before)
{
	for (size_t i = 0; i < s->n_known && i < 2; i++) {
		buf_str(b, i ? " " : before);
		say_token(b, s->known[i]);
	}
	if (s->n_known > 2)
		buf_str(b, " ...");
}

void say_asked(const struct search *s, struct buf *b)
{
	size_t asking = 0, said = 0;

	for (size_t i = 0; i < s->d->n_containers; i++)
		asking += s->d->containers[i].amount > 0;
	buf_str(b, "asked ");
	for (size_t i = 0; i < s->d->n_containers; i++) {
		const struct demand_container *c = &s->d->containers[i];

		if (c->amount == 0)
			continue;
		if (said == NAMES_SHOWN || b->len > ASKED_MAX) {
			buf_fmt(b, " and more for %zu other%s", asking - said,
				asking - said == 1 ? "" : "s");
			break;
		}
		buf_str(b, said++ ? ", " : "");
		say_amount(b, c, c->amount);
		if (asking > 1) {
			buf_str(b, " for ");
			say_word(b, c->name, SAY_SHORT_MAX);
		}
	}
	if (s->d->whole_servers)
		buf_str(b, " on whole servers");
	if (s->n_known) {
		say_filters(s, b, " (filter ");
		buf_char(b, ')');
	}
}

/* A walk over the values that exist for a token's key. */
struct existing {
	enum filter_sort sort;
	const struct word_column *words; /* of that key; NULL: nobody keeps them */
	uint32_t told[NAMES_SHOWN];      /* the first of these */
	size_t n_told;
	size_t server, gpu;
};

/* Has a server that was looked at before the same? As far as can be told without asking this one.
 */
static bool told_before(const struct search *s, struct existing *e, size_t server)
{
	uint32_t kind = inventory_kind(s->inv, server), word;
	bool told;

	if (!kind || e->sort == FILTER_NAME)
		return false;
	if (e->sort == FILTER_MODEL) {
		told = s->told[kind];
		s->told[kind] = true;
		return told;
	}
	word = e->words ? e->words->of[server] : 0;
	for (size_t i = 0; i < e->n_told; i++)
		if (e->told[i] == word)
			return true;
	if (word && e->n_told < NAMES_SHOWN)
		e->told[e->n_told++] = word;
	return word == 0;
}

/* The next value; NULL behind the last. Repeats that told_before() cannot see are the caller's to
 * skip. */
static const char *existing(const struct search *search, const struct filter *f, struct existing *e)
{
	const struct inventory *inv = search->inv;

	for (; e->server < inv->n_servers; e->server++, e->gpu = 0) {
		size_t at = inventory_nth(inv, e->server);
		const struct gpu_server *s = &inv->servers[at];

		if (e->gpu == 0 && told_before(search, e, at))
			continue;
		if (e->sort == FILTER_MODEL) {
			if (e->gpu < s->n_gpus)
				return s->gpus[e->gpu++].model;
			continue;
		}
		if (e->gpu)
			continue;
		e->gpu = 1;
		if (e->sort == FILTER_NAME || e->sort == FILTER_ADDRESS)
			return e->sort == FILTER_NAME ? s->name : s->address;
		for (size_t i = 0; i < s->n_labels; i++)
			if (slice_is(f->key, s->labels[i].key))
				return s->labels[i].value;
	}
	return NULL;
}

void say_existing(const struct search *s, const struct filter *f, struct buf *b)
{
	struct existing e = {.sort = inventory_filter_sort(f)};
	const char *shown[NAMES_SHOWN];
	const char *value;
	struct slice key = {0};
	size_t n = 0;

	/* the addresses are the words without a key */
	if (e.sort != FILTER_ADDRESS)
		key = f->key;
	if (s->inv->words)
		e.words = server_words_column(s->inv->words, key);
	if (s->inv->n_kinds)
		memset(s->told, 0, s->inv->n_kinds * sizeof(*s->told));
	while ((value = existing(s, f, &e))) {
		bool repeated = false;

		for (size_t i = 0; i < n; i++)
			repeated |= strcmp(shown[i], value) == 0;
		if (repeated)
			continue;
		if (n == NAMES_SHOWN) {
			buf_str(b, ", ...");
			break;
		}
		if (n == 0) {
			buf_str(b, " (");
			say_word(b, f->key, SAY_WORD_MAX);
			buf_str(b, " has ");
		} else {
			buf_str(b, ", ");
		}
		say_value(b, slice_of(value), SAY_WORD_MAX);
		shown[n++] = value;
	}
	if (n)
		buf_char(b, ')');
}

static uint64_t free_bytes(const struct search *s, const struct gpu_server *server, size_t gpu)
{
	return gpu_left(&server->gpus[gpu], s->use->claimed[server->first_gpu + gpu]);
}

void say_best(const struct search *s, struct buf *b)
{
	struct {
		const struct gpu_server *server;
		size_t gpu;
		uint64_t free;
	} best[NAMES_SHOWN];
	struct memo memo = {0};
	size_t n = 0, shown = 0;

	for (size_t at_turn = 0; at_turn < s->inv->n_servers; at_turn++) {
		size_t i = inventory_nth(s->inv, at_turn);
		const struct gpu_server *server = &s->inv->servers[i];

		if ((n == NAMES_SHOWN && s->room.most[i] <= best[n - 1].free) ||
			search_kind(s, i) == SELECTED_NONE)
			continue;
		for (size_t j = 0; j < server->n_gpus; j++) {
			uint64_t free = free_bytes(s, server, j);
			size_t at;

			if (!inventory_usable(server, &server->gpus[j]) ||
				(n == NAMES_SHOWN && free <= best[n - 1].free) ||
				!search_selects(s, server, &server->gpus[j], &memo))
				continue;
			if (n < NAMES_SHOWN)
				n++;
			for (at = n - 1; at > 0 && best[at - 1].free < free; at--)
				best[at] = best[at - 1];
			best[at].server = server;
			best[at].gpu = j;
			best[at].free = free;
		}
	}
	for (; shown < n && b->len < BEST_MAX; shown++) {
		size_t i = shown;

		buf_str(b, i ? ", " : " (best: ");
		say_name(b, best[i].server->name);
		buf_char(b, '/');
		say_word(b, slice_of(best[i].server->gpus[best[i].gpu].id), SAY_SHORT_MAX);
		buf_fmt(b, " %llu of %llu MB", (unsigned long long)(best[i].free / PLACEMENT_MB),
			(unsigned long long)(best[i].server->gpus[best[i].gpu].bytes /
					     PLACEMENT_MB));
	}
	if (shown)
		buf_char(b, ')');
}

/* ---- what would fit ---- */

/* How many slots have room for so many megabytes. */
static size_t count_mb(const struct search *s, const struct demand_container *c, uint64_t mb)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_slots; i++)
		n += search_room(s, c, &s->slots[i]) / PLACEMENT_MB >= mb;
	return n;
}

/* The largest percentage (0: none) that `amount` slots have room for. */
static uint32_t fitting_percent(
	const struct search *s, const struct demand_container *c, uint32_t amount)
{
	size_t at[101] = {0}, n = 0;

	for (size_t i = 0; i < s->n_slots; i++) {
		uint64_t room = search_room(s, c, &s->slots[i]), bytes = s->slots[i].bytes;
		struct demand_container probe = {
			.percent = room < bytes ? (uint32_t)(room / (bytes / 100 + 1)) : 100};

		/* that is less than one below */
		while (probe.percent < 100) {
			struct demand_container more = {.percent = probe.percent + 1};

			if (search_need(&more, bytes) > room)
				break;
			probe = more;
		}
		at[search_need(&probe, bytes) ? probe.percent : 0]++;
	}
	for (uint32_t p = 100; p > 0; p--) {
		n += at[p];
		if (n >= amount)
			return p;
	}
	return 0;
}

/* The same in megabytes. */
static uint64_t fitting_mb(
	const struct search *s, const struct demand_container *c, uint32_t amount)
{
	uint64_t lo = 0, hi = c->memory_mb;

	while (lo < hi) {
		uint64_t mid = lo + (hi - lo + 1) / 2;

		if (count_mb(s, c, mid) >= amount)
			lo = mid;
		else
			hi = mid - 1;
	}
	return lo;
}

void say_advice(const struct search *s, size_t room, bool waiting_helps, struct buf *b)
{
	const char *const never = "the pool would not hold it if nobody else used it";
	const struct demand_container *c = &s->d->containers[s->failed];
	uint32_t percent = c->percent ? fitting_percent(s, c, c->amount) : 0;
	uint64_t mb = c->percent ? 0 : fitting_mb(s, c, c->amount);
	bool fewer = room > 0 && room < c->amount;
	/* Room for all of it, but not as a whole: another container is in the way; then no number
	 * helps. */
	bool smaller = room < c->amount && (percent || mb);

	if (!fewer && !smaller && waiting_helps) {
		buf_str(b, "; create the pod again when others have ended");
		return;
	}
	if (!fewer && !smaller) {
		buf_fmt(b, "; %s: ask for less", never);
		return;
	}
	buf_str(b, "; now would fit: ");
	if (fewer)
		say_amount(b, c, room);
	if (smaller) {
		struct demand_container less = {.percent = percent, .memory_mb = mb};

		buf_str(b, fewer ? ", or " : "");
		say_amount(b, &less, c->amount);
	}
	if (waiting_helps)
		buf_str(b, "; ask for less or create the pod again when others have ended");
	else
		buf_fmt(b, "; ask for less, since %s", never);
}
