/* SPDX-License-Identifier: Apache-2.0 */
/* test: claims in memory by key, pod and ticket, and by age. */
#define _GNU_SOURCE 1 /* RTLD_NEXT */
#include <dlfcn.h>
#include <search.h>

#include "test/unit/test.h"
#include "webhook/core/pool/claim_table.h"

static struct claim_table table;
static int fails_at; /* which entry into a tree from now on finds no memory; 0: none */

/* In place of the C library's, which is called. */
void *tsearch(const void *key, void **tree, int (*compare)(const void *, const void *))
{
	static void *(*real)(const void *, void **, int (*)(const void *, const void *));

	if (fails_at && --fails_at == 0)
		return NULL;
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "tsearch");
	return real(key, tree, compare);
}

FIXTURE(tear_down)
{
	claim_table_release(&table);
	assert_null(table.oldest);
	return 0;
}

static struct claim_entry *put(enum key_kind kind, const char *key, const char *namespace,
	const char *name, uint64_t ticket)
{
	struct claim_part parts[] = {{.server = "gpu-01", .gpu = "0", .bytes = 5},
		{.server = "gpu-02", .gpu = "1", .bytes = 7}};
	const struct claim c = {.key = key,
		.namespace = namespace,
		.name = name,
		.parts = parts,
		.n_parts = COUNT(parts)};
	struct claim_entry *e = claim_entry_new(&c, kind);

	assert_non_null(e);
	e->ticket = ticket;
	assert_true(claim_table_insert(&table, e));
	return e;
}

/* The keys by age, the oldest first; both ways. */
static void by_age(const char *want)
{
	char there[64] = "", back[64] = "";
	size_t n = 0;

	for (const struct claim_entry *e = table.oldest; e; e = e->newer, n++)
		(void)snprintf(
			there + strlen(there), sizeof(there) - strlen(there), "%s ", e->claim.key);
	for (const struct claim_entry *e = table.newest; e; e = e->older) {
		char rest[64];

		(void)snprintf(rest, sizeof(rest), "%.20s %.40s", e->claim.key, back);
		strcpy(back, rest);
	}
	assert_string_equal(there, want);
	assert_string_equal(back, want);
	assert_int_equal(table.n, n);
}

TEST(test_the_entry_is_a_copy)
{
	char key[] = "k", namespace[] = "ml", name[] = "p";
	const struct claim_entry *e = put(KEY_UID, key, namespace, name, 1);

	key[0] = namespace[0] = name[0] = 'x';
	assert_string_equal(e->claim.key, "k");
	assert_string_equal(e->claim.namespace, "ml");
	assert_string_equal(e->claim.name, "p");
	assert_int_equal(e->claim.n_parts, 2);
	assert_string_equal(e->claim.parts[0].server, "gpu-01");
	assert_string_equal(e->claim.parts[0].gpu, "0");
	assert_int_equal(e->claim.parts[0].bytes, 5);
	assert_string_equal(e->claim.parts[1].server, "gpu-02");
	assert_string_equal(e->claim.parts[1].gpu, "1");
	assert_int_equal(e->claim.parts[1].bytes, 7);
}

/* Keys of different kinds are never the same, nor are pods of different namespaces. */
TEST(test_found_by_each)
{
	struct claim_entry *a = put(KEY_UID, "k", "ml", "p", 1);
	struct claim_entry *b = put(KEY_NAME, "k", "ml", "q", 2);
	struct claim_entry *c = put(KEY_REVIEW, "k", "other", "p", 3);

	assert_ptr_equal(claim_table_by_key(&table, KEY_UID, "k"), a);
	assert_ptr_equal(claim_table_by_key(&table, KEY_NAME, "k"), b);
	assert_ptr_equal(claim_table_by_key(&table, KEY_REVIEW, "k"), c);
	assert_null(claim_table_by_key(&table, KEY_UID, "l"));
	assert_ptr_equal(claim_table_by_pod(&table, "ml", "p"), a);
	assert_ptr_equal(claim_table_by_pod(&table, "ml", "q"), b);
	assert_ptr_equal(claim_table_by_pod(&table, "other", "p"), c);
	assert_null(claim_table_by_pod(&table, "other", "q"));
	assert_ptr_equal(claim_table_by_ticket(&table, 1), a);
	assert_ptr_equal(claim_table_by_ticket(&table, 2), b);
	assert_ptr_equal(claim_table_by_ticket(&table, 3), c);
	assert_null(claim_table_by_ticket(&table, 4));
	claim_table_forget_ticket(&table, b);
	assert_null(claim_table_by_ticket(&table, 2));
	assert_ptr_equal(claim_table_by_ticket(&table, 1), a);
	assert_int_equal(b->ticket, 0);
	claim_table_forget_ticket(&table, b);
	assert_ptr_equal(claim_table_by_key(&table, KEY_NAME, "k"), b);
	claim_table_remove(&table, a);
	assert_null(claim_table_by_key(&table, KEY_UID, "k"));
	assert_null(claim_table_by_pod(&table, "ml", "p"));
	assert_null(claim_table_by_ticket(&table, 1));
	assert_ptr_equal(claim_table_by_key(&table, KEY_NAME, "k"), b);
}

/* Two claims of one name, one after the other: whichever is found, and the other when it is gone.
 */
TEST(test_two_of_a_pod)
{
	struct claim_entry *a = put(KEY_UID, "k1", "ml", "p", 1), *found;
	struct claim_entry *b = put(KEY_UID, "k2", "ml", "p", 2);

	found = claim_table_by_pod(&table, "ml", "p");
	assert_true(found == a || found == b);
	claim_table_remove(&table, found);
	assert_ptr_equal(claim_table_by_pod(&table, "ml", "p"), found == a ? b : a);
	assert_int_equal(table.n, 1);
}

TEST(test_the_order_of_their_age)
{
	struct claim_entry *a = put(KEY_UID, "a", "ml", "a", 1);
	struct claim_entry *b = put(KEY_UID, "b", "ml", "b", 2);
	struct claim_entry *c = put(KEY_UID, "c", "ml", "c", 3);

	by_age("a b c ");
	claim_table_renew(&table, b, 70);
	assert_int_equal(b->taken_ms, 70);
	by_age("a c b ");
	claim_table_renew(&table, a, 80);
	by_age("c b a ");
	claim_table_renew(&table, a, 90);
	by_age("c b a ");
	claim_table_remove(&table, b);
	by_age("c a ");
	claim_table_remove(&table, c);
	by_age("a ");
	claim_table_remove(&table, a);
	by_age("");
	(void)put(KEY_UID, "d", "ml", "d", 4);
	by_age("d ");
}

/* By namespace, name and key, whatever their age. */
TEST(test_the_list)
{
	static const char *const want[] = {"k6", "k5", "k1", "k2", "k3", "k4"};
	struct claim *list;
	struct arena a;

	arena_init(&a, 1 << 16);
	(void)put(KEY_UID, "k4", "ml", "q", 1);
	(void)put(KEY_UID, "k2", "ml", "p", 2);
	(void)put(KEY_UID, "k3", "ml", "pp", 3);
	(void)put(KEY_UID, "k1", "ml", "p", 4);
	(void)put(KEY_UID, "k6", "a", "z", 5);
	(void)put(KEY_UID, "k5", "b", "a", 6);
	list = claim_table_list(&table, &a);
	assert_non_null(list);
	claim_table_release(&table);
	for (size_t i = 0; i < COUNT(want); i++) {
		assert_string_equal(list[i].key, want[i]);
		assert_int_equal(list[i].n_parts, 2);
		assert_string_equal(list[i].parts[1].server, "gpu-02");
		assert_string_equal(list[i].parts[1].gpu, "1");
		assert_int_equal(list[i].parts[1].bytes, 7);
	}
	arena_release(&a);
}

TEST(test_a_list_without_memory)
{
	struct arena a;

	(void)put(KEY_UID, "k", "ml", "p", 1);
	for (size_t max = 0; max < 200; max += 8) {
		arena_init(&a, max);
		if (claim_table_list(&table, &a))
			assert_false(a.failed);
		arena_release(&a);
	}
	arena_init(&a, 0);
	assert_null(claim_table_list(&table, &a));
	assert_null(claim_parts_copy(&table.oldest->claim, &a));
	arena_release(&a);
}

/* An entry that finds no memory in one of the trees stands in none of them, and may be freed. */
TEST(test_an_insertion_without_memory)
{
	const struct claim c = {.key = "k", .namespace = "ml", .name = "p"};
	struct claim_entry *a = put(KEY_UID, "a", "ml", "a", 1);

	for (int n = 1; n <= 3; n++) {
		struct claim_entry *e = claim_entry_new(&c, KEY_UID);

		assert_non_null(e);
		e->ticket = 2;
		fails_at = n;
		assert_false(claim_table_insert(&table, e));
		assert_int_equal(fails_at, 0);
		memset(e, 0, sizeof(*e));
		free(e);
		assert_null(claim_table_by_key(&table, KEY_UID, "k"));
		assert_null(claim_table_by_pod(&table, "ml", "p"));
		assert_null(claim_table_by_ticket(&table, 2));
		assert_ptr_equal(claim_table_by_key(&table, KEY_UID, "a"), a);
		assert_ptr_equal(claim_table_by_pod(&table, "ml", "a"), a);
		by_age("a ");
	}
	(void)put(KEY_UID, "k", "ml", "p", 2);
	by_age("a k ");
}

TESTS_BETWEEN(NULL, tear_down, test_the_entry_is_a_copy, test_found_by_each, test_two_of_a_pod,
	test_the_order_of_their_age, test_the_list, test_a_list_without_memory,
	test_an_insertion_without_memory)
