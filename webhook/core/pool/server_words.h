/* SPDX-License-Identifier: Apache-2.0 */
/* core: what servers say of themselves in words, their labels and their addresses, as numbers that
 * lie side by side: whoever looks for a word compares numbers, whatever words there are. */
#ifndef WEBHOOK_CORE_POOL_SERVER_WORDS_H
#define WEBHOOK_CORE_POOL_SERVER_WORDS_H

#include "webhook/core/pool/inventory.h"

/* Each key costs four bytes a server, whoever has it. Beyond so many a server must be asked itself.
 */
#define SERVER_WORDS_KEYS 64

struct server_word;

struct word_column {
	char *key;    /* of a label; NULL: these are the addresses */
	uint32_t *of; /* per server the number of its word; 0: it has none, or its words are not
			 kept */
	struct server_word *words; /* from 1 on */
	uint32_t *heads;           /* of chains of words, by hash */
	uint32_t n, cap, unused, n_heads;
	size_t users; /* servers that have one */
};

/* Zero is an empty table. Not thread-safe. */
struct server_words {
	struct word_column columns[1 + SERVER_WORDS_KEYS]; /* the first is the addresses' */
	size_t n;                                          /* those behind have never been used */
	size_t places;                                     /* the length of each word_column.of */
};

/* Keep the words of the server at this index, instead of those that it had. What is kept is a copy.
 * False: the keys are too many, or one is there twice, or memory ran out: its words are not kept.
 */
bool server_words_take(struct server_words *w, size_t at, const struct gpu_server *s);
/* The server at this index has gone, if there was one. */
void server_words_drop(struct server_words *w, size_t at);
/* Frees; the table is empty afterwards. */
void server_words_release(struct server_words *w);

/* The words of the labels of that key; absent: the addresses. NULL: no server has one. */
const struct word_column *server_words_column(const struct server_words *w, struct slice key);
/* The number of a word; 0: no server has it. */
uint32_t server_words_find(const struct word_column *c, struct slice word);

#endif
