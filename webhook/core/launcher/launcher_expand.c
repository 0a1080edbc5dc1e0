/* SPDX-License-Identifier: Apache-2.0 */
/* core: the templates of a launcher profile: which places there are, and what they stand for in one
 * container. */
#include "webhook/core/launcher/launcher.h"

#include <stdint.h>
#include <string.h>

#include "base/buf.h"

#define CLIENT_PREFIX SLICE("client.")
/* A template comes from config and its places from a bounded review; this only stops arithmetic
 * mistakes. */
#define TEXT_MAX (1u << 20)

/* Numbers first: PLACE_MEMORY_GIB is the last of them. */
enum place {
	PLACE_AMOUNT,
	PLACE_FRACTION,
	PLACE_PERCENT,
	PLACE_MEMORY_MB,
	PLACE_MEMORY_GIB,
	PLACE_FILTERS,
	PLACE_FILTER,
	PLACE_SERVERS,
	PLACE_SERVER_HOST,
	PLACE_GPUS,
	PLACE_GPU_INDEXES,
	PLACE_CLIENT, /* {client.NAME} */
	PLACE_UNKNOWN
};

/* Indexed by enum place. */
static const char *const place_names[] = {
	[PLACE_AMOUNT] = "amount",
	[PLACE_FRACTION] = "fraction",
	[PLACE_PERCENT] = "percent",
	[PLACE_MEMORY_MB] = "memory_mb",
	[PLACE_MEMORY_GIB] = "memory_gib",
	[PLACE_FILTERS] = "filters",
	[PLACE_FILTER] = "filter",
	[PLACE_SERVERS] = "servers",
	[PLACE_SERVER_HOST] = "server_host",
	[PLACE_GPUS] = "gpus",
	[PLACE_GPU_INDEXES] = "gpu_indexes",
};

#define N_PLACES (sizeof(place_names) / sizeof(place_names[0]))

/* One step through a template: a run of literal text, then possibly a place. */
struct step {
	struct slice literal;
	struct slice place; /* absent: none follows */
};

static enum place place_of(struct slice name)
{
	for (size_t i = 0; i < N_PLACES; i++)
		if (slice_is(name, place_names[i]))
			return (enum place)i;
	return slice_starts(name, CLIENT_PREFIX) ? PLACE_CLIENT : PLACE_UNKNOWN;
}

static struct slice client_name(struct slice place)
{
	return (struct slice){place.at + CLIENT_PREFIX.len, place.len - CLIENT_PREFIX.len};
}

static const struct slice *find_value(
	const struct profile_value *values, size_t n, struct slice name)
{
	for (size_t i = 0; i < n; i++)
		if (slice_eq(values[i].name, name))
			return &values[i].value;
	return NULL;
}

/* The next step of *rest; false at its end. A place that is never closed takes all that is left,
 * its brace included. */
static bool next_step(struct slice *rest, struct step *ret)
{
	const char *end, *brace, *close;

	if (rest->len == 0)
		return false;
	end = rest->at + rest->len;
	brace = memchr(rest->at, '{', rest->len);
	*ret = (struct step){.literal = *rest};
	if (!brace) {
		*rest = (struct slice){end, 0};
		return true;
	}
	ret->literal.len = (size_t)(brace - rest->at);
	if (brace + 1 < end && brace[1] == '{') {
		ret->literal.len++;
		*rest = (struct slice){brace + 2, (size_t)(end - brace - 2)};
		return true;
	}
	close = memchr(brace, '}', (size_t)(end - brace));
	if (!close) {
		ret->place = (struct slice){brace, (size_t)(end - brace)};
		*rest = (struct slice){end, 0};
		return true;
	}
	ret->place = (struct slice){brace + 1, (size_t)(close - brace - 1)};
	*rest = (struct slice){close + 1, (size_t)(end - close - 1)};
	return true;
}

/* Has this place a value in every container for which an entry of this condition is written? */
static bool has_value(enum place place, enum word_when when)
{
	if (place == PLACE_FRACTION || place == PLACE_PERCENT)
		return when == WORD_FRACTION;
	if (place == PLACE_MEMORY_MB || place == PLACE_MEMORY_GIB)
		return when == WORD_MEMORY;
	return place != PLACE_FILTER || when == WORD_EACH_FILTER;
}

/* "{amount}, {filters}, …" for messages. */
static void list_places(
	struct buf *b, enum word_when when, const struct profile_value *values, size_t n_values)
{
	for (size_t i = 0; i < N_PLACES; i++)
		if (has_value((enum place)i, when))
			buf_fmt(b, "%s{%s}", b->len ? ", " : "", place_names[i]);
	for (size_t i = 0; i < n_values; i++)
		buf_fmt(b, ", {client.%.*s}", (int)values[i].name.len, values[i].name.at);
}

static int bad_place(struct slice place, enum word_when when, const struct profile_value *values,
	size_t n_values, struct err *err)
{
	struct buf known;
	int code;

	if (place.len && place.at[0] == '{')
		return err_set(err, ERR_INVALID,
			"\"%.*s\" opens a place that is never closed; a brace itself is written {{",
			place.len > 60 ? 60 : (int)place.len, place.at);
	buf_init(&known, 512);
	list_places(&known, when, values, n_values);
	code = err_set(err, ERR_INVALID, "unknown place {%.*s}; known here: %s (a brace is {{)",
		place.len > 60 ? 60 : (int)place.len, place.at, known.data ? known.data : "");
	buf_release(&known);
	return code;
}

int template_check(struct slice text, enum word_when when, const struct profile_value *values,
	size_t n_values, struct err *err)
{
	struct step s;

	while (next_step(&text, &s)) {
		enum place place;

		if (!s.place.at)
			continue;
		place = place_of(s.place);
		if (place == PLACE_UNKNOWN || (place == PLACE_FILTER && when != WORD_EACH_FILTER) ||
			(place == PLACE_CLIENT &&
				!find_value(values, n_values, client_name(s.place))))
			return bad_place(s.place, when, values, n_values, err);
	}
	return 0;
}

bool template_has(struct slice text, const char *place)
{
	const struct slice want = {place, strlen(place)};
	struct step s;

	while (next_step(&text, &s))
		if (s.place.at && slice_eq(s.place, want))
			return true;
	return false;
}

/* Room for what a number is written as. */
#define NUMBER_BYTES 24

static struct slice digits_of(uint64_t n, char room[NUMBER_BYTES])
{
	size_t at = NUMBER_BYTES;

	do {
		room[--at] = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	return (struct slice){room + at, NUMBER_BYTES - at};
}

/* Percent as the fraction of one GPU that launchers take, six decimals as printf("%f") writes it.
 */
static struct slice fraction_of(uint32_t percent, char room[NUMBER_BYTES])
{
	const char digits[] = {(char)('0' + percent / 100), '.', (char)('0' + percent / 10 % 10),
		(char)('0' + percent % 10), '0', '0', '0', '0'};

	memcpy(room, digits, sizeof(digits));
	return (struct slice){room, sizeof(digits)};
}

static void add_joined(struct buf *b, const struct slice *words, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_char(b, ',');
		buf_slice(b, words[i]);
	}
}

void launch_add_end(struct buf *b, uint16_t first_port, size_t i)
{
	buf_fmt(b, "%s127.0.0.1:%zu", b->len ? "," : "", first_port + i);
}

static void add_servers(struct buf *b, const struct launch *l)
{
	struct buf ends;

	if (!l->profile || l->profile->gate.port == 0) {
		add_joined(b, l->servers, l->n_servers);
		return;
	}
	buf_init(&ends, TEXT_MAX);
	for (size_t i = 0; i < l->n_servers; i++)
		launch_add_end(&ends, l->profile->gate.port, i);
	buf_slice(b, buf_as_slice(&ends));
	b->failed = b->failed || ends.failed;
	buf_release(&ends);
}

struct slice launch_host(struct slice address)
{
	const char *close;

	if (address.len && address.at[0] == '[') {
		close = memchr(address.at, ']', address.len);
		if (close)
			return (struct slice){address.at + 1, (size_t)(close - address.at) - 1};
		return address;
	}
	for (size_t i = address.len; i > 0; i--)
		if (address.at[i - 1] == ':')
			return (struct slice){address.at, i - 1};
	return address;
}

static struct slice value_of(const struct profile_client *client, struct slice name)
{
	const struct slice *value =
		client ? find_value(client->values, client->n_values, name) : NULL;

	return value ? *value : SLICE("");
}

/* The text that a place stands for: numbers in room, all else as the launch has it. Absent for a
 * list. */
static struct slice place_text(enum place place, struct slice name, const struct launch *l,
	struct slice filter, char room[NUMBER_BYTES])
{
	switch (place) {
	case PLACE_AMOUNT:
		return digits_of(l->amount, room);
	case PLACE_FRACTION:
		return fraction_of(l->percent, room);
	case PLACE_PERCENT:
		return digits_of(l->percent, room);
	case PLACE_MEMORY_MB:
		return digits_of(l->memory_mb, room);
	case PLACE_MEMORY_GIB:
		/* MB are 10^6 bytes. Divided first, so that no value can overflow: 2^30 =
		 * 1073.741824 × 10^6. */
		return digits_of(
			(uint64_t)(((__uint128_t)l->memory_mb * 1000000 + (1u << 30) - 1) >> 30),
			room);
	case PLACE_FILTER:
		return filter.at ? filter : SLICE("");
	case PLACE_SERVER_HOST:
		return l->n_servers ? launch_host(l->servers[0]) : SLICE("");
	case PLACE_CLIENT:
		return value_of(l->client, client_name(name));
	case PLACE_GPUS: /* nobody knows them before the claim stands */
	case PLACE_GPU_INDEXES:
	case PLACE_UNKNOWN: /* template_check lets none through */
		return SLICE("");
	case PLACE_FILTERS:
	case PLACE_SERVERS:
		break;
	}
	return (struct slice){0};
}

static void add_place(struct buf *b, struct slice name, const struct launch *l, struct slice filter)
{
	enum place place = place_of(name);
	char room[NUMBER_BYTES];

	if (place == PLACE_FILTERS)
		add_joined(b, l->filters, l->n_filters);
	else if (place == PLACE_SERVERS)
		add_servers(b, l);
	else
		buf_slice(b, place_text(place, name, l, filter, room));
}

/* A template that is one place and nothing else, as most are: nothing to put together. Absent for a
 * list. */
static struct slice expand_place(
	struct slice name, const struct launch *l, struct slice filter, struct arena *a)
{
	enum place place = place_of(name);
	char room[NUMBER_BYTES];
	struct slice text = place_text(place, name, l, filter, room);

	return place <= PLACE_MEMORY_GIB ? arena_slice(a, text) : text;
}

static struct slice expand_steps(
	struct slice text, const struct launch *l, struct slice filter, struct arena *a)
{
	struct slice out;
	struct buf b;
	struct step s;

	buf_init(&b, TEXT_MAX);
	while (next_step(&text, &s)) {
		buf_slice(&b, s.literal);
		if (s.place.at)
			add_place(&b, s.place, l, filter);
	}
	out = b.failed ? (struct slice){NULL, 0}
		       : arena_slice(a, b.len ? buf_as_slice(&b) : SLICE(""));
	if (b.failed)
		a->failed = true;
	buf_release(&b);
	return out;
}

struct slice template_expand(
	struct slice text, const struct launch *l, struct slice filter, struct arena *a)
{
	struct slice rest = text, value;
	struct step s;

	if (!text.len || !memchr(text.at, '{', text.len))
		return text;
	if (next_step(&rest, &s) && s.literal.len == 0 && s.place.at && rest.len == 0) {
		value = expand_place(s.place, l, filter, a);
		if (value.at || a->failed)
			return value;
	}
	return expand_steps(text, l, filter, a);
}

const char *late_value_name(enum late_value v)
{
	static const char *const names[LATE_VALUES] = {
		"servers", "server_host", "gpus", "gpu_indexes"};

	return names[v];
}

const char *late_variable(enum late_value v)
{
	static const char *const names[LATE_VALUES] = {
		[LATE_SERVERS] = "POOLGATE_SERVERS",
		[LATE_SERVER_HOST] = "POOLGATE_SERVER_HOST",
		[LATE_GPUS] = "POOLGATE_GPUS",
		[LATE_GPU_INDEXES] = "POOLGATE_GPU_INDEXES",
	};

	return names[v];
}

struct slice launcher_escape(struct slice s, struct arena *a)
{
	size_t dollars = 0, n = 0;
	char *out;

	if (s.len == 0 || !memchr(s.at, '$', s.len))
		return s;
	for (size_t i = 0; i < s.len; i++)
		dollars += s.at[i] == '$';
	out = arena_alloc(a, s.len + dollars + 1);
	if (!out)
		return (struct slice){0};
	for (size_t i = 0; i < s.len; i++) {
		if (s.at[i] == '$')
			out[n++] = '$';
		out[n++] = s.at[i];
	}
	return (struct slice){out, n};
}

/* The variable that stands for this place where it comes late; NULL: it is known. */
static const char *variable_of(enum place place, const struct launch *l)
{
	if (!l->late || place < PLACE_SERVERS || place > PLACE_GPU_INDEXES)
		return NULL;
	return late_variable((enum late_value)(place - PLACE_SERVERS));
}

struct slice template_render(
	struct slice text, const struct launch *l, struct slice filter, struct arena *a)
{
	struct slice out;
	struct buf b;
	struct step s;

	if (!l->late)
		return launcher_escape(template_expand(text, l, filter, a), a);
	buf_init(&b, TEXT_MAX);
	while (next_step(&text, &s)) {
		const char *variable = s.place.at ? variable_of(place_of(s.place), l) : NULL;
		struct buf known;

		buf_slice(&b, launcher_escape(s.literal, a));
		if (variable) {
			buf_fmt(&b, "$(%s)", variable);
			continue;
		}
		buf_init(&known, TEXT_MAX);
		if (s.place.at)
			add_place(&known, s.place, l, filter);
		buf_slice(&b, launcher_escape(buf_as_slice(&known), a));
		a->failed = a->failed || known.failed;
		buf_release(&known);
	}
	a->failed = a->failed || b.failed;
	out = a->failed ? (struct slice){NULL, 0}
			: arena_slice(a, b.len ? buf_as_slice(&b) : SLICE(""));
	buf_release(&b);
	return out;
}
