/* SPDX-License-Identifier: Apache-2.0 */
/* test: the table of the words of servers. That searches find the same with it and without it is
 * test_placement's. */
#include "webhook/core/pool/server_words.h"

#include <stdio.h>

#include "test/unit/pool_fixture.h"
#include "test/unit/test.h"

static bool has(const struct server_words *w, size_t at, const char *key, const char *word)
{
	const struct word_column *c = server_words_column(w, slice_of(key));
	uint32_t number = c ? server_words_find(c, slice_of(word)) : 0;

	return number && c->of[at] == number;
}

TEST(words_are_found_by_key_and_each_server_has_its_own)
{
	struct server_words w = {0};
	struct pool p;

	pool_init(&p, "a zone=x host=1 t4:1; b zone=x t4:1; c host=x at=a:56001 t4:1; d t4:1");
	for (size_t i = 0; i < p.inv.n_servers; i++)
		assert_true(server_words_take(&w, i, &p.inv.servers[i]));
	/* what is kept of them outlives them */
	pool_release(&p);
	assert_true(has(&w, 0, "zone", "x") && has(&w, 1, "zone", "x"));
	assert_true(has(&w, 0, "host", "1") && has(&w, 2, "host", "x"));
	assert_false(has(&w, 2, "zone", "x") || has(&w, 0, "host", "x") || has(&w, 3, "zone", "x"));
	assert_false(has(&w, 1, "host", "1") || has(&w, 0, "zone", "y") || has(&w, 0, "row", "x"));
	assert_true(has(&w, 0, NULL, "a:56001") && has(&w, 2, NULL, "a:56001"));
	assert_true(has(&w, 3, NULL, "d:56001"));
	assert_false(has(&w, 1, NULL, "a:56001"));
	/* an address is no label */
	assert_null(server_words_column(&w, SLICE("server.addr")));
	server_words_release(&w);
	assert_null(server_words_column(&w, (struct slice){0}));
}

TEST(a_server_changes_its_words_and_a_word_ends_with_its_last_server)
{
	struct server_words w = {0};
	struct pool p;

	pool_init(&p, "a zone=x host=1 t4:1; b host=2 zone=x t4:1; c zone=y t4:1; d row=1 t4:1");
	assert_true(server_words_take(&w, 0, &p.inv.servers[0]));
	assert_true(server_words_take(&w, 0, &p.inv.servers[0]));
	assert_int_equal(w.columns[0].users, 1);
	/* labels in another order; then fewer; then none that there were */
	assert_true(server_words_take(&w, 0, &p.inv.servers[1]));
	assert_true(has(&w, 0, "zone", "x") && has(&w, 0, "host", "2"));
	assert_true(server_words_take(&w, 0, &p.inv.servers[2]));
	assert_true(has(&w, 0, "zone", "y"));
	assert_null(server_words_column(&w, SLICE("host")));
	assert_true(server_words_take(&w, 0, &p.inv.servers[3]));
	assert_null(server_words_column(&w, SLICE("zone")));
	assert_true(has(&w, 0, "row", "1"));
	server_words_drop(&w, 0);
	server_words_drop(&w, 0);
	server_words_drop(&w, 1000);
	assert_null(server_words_column(&w, SLICE("row")));
	server_words_release(&w);
	pool_release(&p);
}

/* Servers without end come and go, and words with them: the table gets as large as most that there
 * are at once. */
TEST(what_nobody_says_any_more_is_used_again)
{
	struct server_words w = {0};
	struct label label = {"host", NULL};
	struct gpu_server s = {.name = "a", .labels = &label, .n_labels = 1};
	char host[24], address[24];

	label.value = host;
	s.address = address;
	for (size_t i = 0; i < 5000; i++) {
		(void)snprintf(host, sizeof(host), "h%zu", i);
		(void)snprintf(address, sizeof(address), "a%zu:1", i);
		assert_true(server_words_take(&w, i % 100, &s));
		assert_true(has(&w, i % 100, "host", host) && has(&w, i % 100, NULL, address));
	}
	(void)snprintf(host, sizeof(host), "h%zu", (size_t)4900);
	assert_true(has(&w, 0, "host", host));
	(void)snprintf(host, sizeof(host), "h%zu", (size_t)4899);
	assert_int_equal(
		server_words_find(server_words_column(&w, SLICE("host")), slice_of(host)), 0);
	assert_int_equal(w.columns[0].users, 100);
	assert_in_range(w.columns[0].n, 101, 102);
	assert_in_range(w.columns[1].n, 101, 102);
	server_words_release(&w);
}

TEST(who_has_too_many_keys_or_one_twice_must_be_asked)
{
	struct server_words w = {0};
	struct label labels[SERVER_WORDS_KEYS + 1];
	char keys[SERVER_WORDS_KEYS + 1][24];
	struct gpu_server s = {.name = "a", .address = "a:1", .labels = labels};

	for (size_t i = 0; i <= SERVER_WORDS_KEYS; i++) {
		(void)snprintf(keys[i], sizeof(keys[i]), "key-%zu", i);
		labels[i] = (struct label){keys[i], "x"};
	}
	s.n_labels = SERVER_WORDS_KEYS + 1;
	assert_false(server_words_take(&w, 0, &s));
	assert_null(server_words_column(&w, (struct slice){0}));
	s.n_labels--;
	assert_true(server_words_take(&w, 0, &s));
	assert_true(has(&w, 0, "key-63", "x"));
	/* another server's key finds no place, and has one when a key is gone */
	s.labels = &labels[SERVER_WORDS_KEYS];
	s.n_labels = 1;
	assert_false(server_words_take(&w, 1, &s));
	server_words_drop(&w, 0);
	assert_true(server_words_take(&w, 1, &s));
	assert_true(has(&w, 1, "key-64", "x"));
	s.labels = labels;
	s.n_labels = 2;
	labels[1].key = labels[0].key;
	assert_false(server_words_take(&w, 1, &s));
	assert_null(server_words_column(&w, SLICE("key-64")));
	/* nor does it help that the server has the one of them */
	s.n_labels = 1;
	assert_true(server_words_take(&w, 1, &s));
	s.n_labels = 2;
	assert_false(server_words_take(&w, 1, &s));
	assert_null(server_words_column(&w, SLICE("key-0")));
	server_words_release(&w);
}

TESTS(words_are_found_by_key_and_each_server_has_its_own,
	a_server_changes_its_words_and_a_word_ends_with_its_last_server,
	what_nobody_says_any_more_is_used_again, who_has_too_many_keys_or_one_twice_must_be_asked)
