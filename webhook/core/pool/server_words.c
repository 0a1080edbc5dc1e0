/* SPDX-License-Identifier: Apache-2.0 */
/* core: a table of the words of servers: a column for each key of a label, and in it each word
 * once, with how many servers have it. */
#include "webhook/core/pool/server_words.h"

#include <stdlib.h>

#include "base/text.h"

struct server_word {
	char *text; /* NULL: unused */
	uint32_t hash;
	uint32_t users;
	uint32_t next; /* in its chain, or of those that are unused */
};

static uint32_t *chain_of(const struct word_column *c, uint32_t hash)
{
	return &c->heads[hash & (c->n_heads - 1)];
}

static uint32_t find(const struct word_column *c, struct slice word, uint32_t hash)
{
	uint32_t i = c->n_heads ? *chain_of(c, hash) : 0;

	while (i && (c->words[i].hash != hash || !slice_is(word, c->words[i].text)))
		i = c->words[i].next;
	return i;
}

uint32_t server_words_find(const struct word_column *c, struct slice word)
{
	return find(c, word, (uint32_t)text_hash64(word));
}

const struct word_column *server_words_column(const struct server_words *w, struct slice key)
{
	for (size_t i = key.at ? 1 : 0; i < (key.at ? w->n : 1); i++)
		if (w->columns[i].users && (i == 0 || slice_is(key, w->columns[i].key)))
			return &w->columns[i];
	return NULL;
}

static char *copy_of(const char *s)
{
	size_t size = s ? strlen(s) + 1 : 0;
	char *copy = s ? malloc(size) : NULL;

	return copy ? memcpy(copy, s, size) : NULL;
}

/* Twice as many chains, or the first ones. */
static bool grow_chains(struct word_column *c)
{
	uint32_t n = c->n_heads ? 2 * c->n_heads : 8;
	uint32_t *heads = calloc(n, sizeof(*heads));

	if (!heads)
		return false;
	free(c->heads);
	c->heads = heads;
	c->n_heads = n;
	for (uint32_t i = 1; i < c->n; i++) {
		uint32_t *head;

		if (!c->words[i].text)
			continue;
		head = chain_of(c, c->words[i].hash);
		c->words[i].next = *head;
		*head = i;
	}
	return true;
}

/* A number that no word has, or 0. */
static uint32_t find_number(struct word_column *c)
{
	uint32_t i = c->unused;

	if (i) {
		c->unused = c->words[i].next;
		return i;
	}
	if (c->n == c->cap) {
		uint32_t cap = c->cap + c->cap / 2 + 8;
		struct server_word *more = realloc(c->words, cap * sizeof(*more));

		if (!more)
			return 0;
		c->words = more;
		c->cap = cap;
		c->n = c->n ? c->n : 1;
	}
	return c->n++;
}

static void let_go(struct word_column *c, size_t at)
{
	uint32_t i = c->of[at], *link;
	struct server_word *word = &c->words[i];

	c->of[at] = 0;
	c->users--;
	if (--word->users > 0)
		return;
	for (link = chain_of(c, word->hash); *link != i; link = &c->words[*link].next)
		;
	*link = word->next;
	free(word->text);
	*word = (struct server_word){.next = c->unused};
	c->unused = i;
}

static bool hold(struct word_column *c, size_t at, const char *text)
{
	uint32_t hash = (uint32_t)text_hash64(slice_of(text)), i = find(c, slice_of(text), hash),
		 *head;

	if (!i) {
		char *copy = copy_of(text);

		if (!copy || (c->n >= c->n_heads && !grow_chains(c)) || !(i = find_number(c))) {
			free(copy);
			return false;
		}
		head = chain_of(c, hash);
		c->words[i] = (struct server_word){.text = copy, .hash = hash, .next = *head};
		*head = i;
	}
	c->words[i].users++;
	c->users++;
	c->of[at] = i;
	return true;
}

static bool grow_places(struct server_words *w, size_t at)
{
	size_t places = at + at / 2 + 8;

	if (at < w->places)
		return true;
	for (size_t i = 0; i < w->n; i++) {
		uint32_t *more = realloc(w->columns[i].of, places * sizeof(*more));

		if (!more)
			return false;
		memset(more + w->places, 0, (places - w->places) * sizeof(*more));
		w->columns[i].of = more;
	}
	w->places = places;
	return true;
}

static void free_column(struct word_column *c)
{
	for (uint32_t i = 1; i < c->n; i++)
		free(c->words[i].text);
	free(c->key);
	free(c->of);
	free(c->words);
	free(c->heads);
	*c = (struct word_column){0};
}

/* A column for that key (NULL: the addresses): one that nobody uses any more, or a new one. NULL:
 * there are too many, or memory ran out. */
static struct word_column *make_column(struct server_words *w, const char *key)
{
	size_t i = key ? 1 : 0;
	struct word_column *c;

	while (key && i < w->n && w->columns[i].users)
		i++;
	if (i > SERVER_WORDS_KEYS)
		return NULL;
	c = &w->columns[i];
	if (i == w->n) {
		c->of = calloc(w->places, sizeof(*c->of));
		if (!c->of)
			return NULL;
		w->n++;
	}
	free(c->key);
	c->key = copy_of(key);
	return c->key || !key ? c : NULL;
}

/* The column of that label. Servers have theirs in the same order, so it is mostly the one behind
 * the last. */
static struct word_column *column_of(struct server_words *w, const char *key, size_t *turn)
{
	for (size_t i = 1; i < w->n; i++, ++*turn) {
		struct word_column *c = &w->columns[1 + *turn % (w->n - 1)];

		if (c->users && strcmp(c->key, key) == 0) {
			++*turn;
			return c;
		}
	}
	return NULL;
}

/* Are these the words that it has? */
static bool same(struct server_words *w, size_t at, const struct gpu_server *s)
{
	const struct word_column *c = &w->columns[0];
	size_t turn = 0, n = 0;

	if (w->n == 0 || at >= w->places || !c->of[at] ||
		strcmp(c->words[c->of[at]].text, s->address) != 0)
		return false;
	for (size_t i = 0; i < s->n_labels; i++) {
		c = column_of(w, s->labels[i].key, &turn);
		if (!c || !c->of[at] || strcmp(c->words[c->of[at]].text, s->labels[i].value) != 0)
			return false;
	}
	for (size_t i = 1; i < w->n; i++)
		n += w->columns[i].of[at] != 0;
	return n == s->n_labels;
}

void server_words_drop(struct server_words *w, size_t at)
{
	for (size_t i = 0; i < w->n && at < w->places; i++)
		if (w->columns[i].of[at])
			let_go(&w->columns[i], at);
}

bool server_words_take(struct server_words *w, size_t at, const struct gpu_server *s)
{
	struct word_column *c;
	size_t turn = 0;
	bool ok;

	if (same(w, at, s))
		return true;
	server_words_drop(w, at);
	if (!grow_places(w, at))
		return false;
	c = w->n ? &w->columns[0] : make_column(w, NULL);
	ok = c && hold(c, at, s->address);
	for (size_t i = 0; ok && i < s->n_labels; i++) {
		c = column_of(w, s->labels[i].key, &turn);
		c = c ? c : make_column(w, s->labels[i].key);
		ok = c && !c->of[at] && hold(c, at, s->labels[i].value);
	}
	if (!ok)
		server_words_drop(w, at);
	return ok;
}

void server_words_release(struct server_words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free_column(&w->columns[i]);
	*w = (struct server_words){0};
}
