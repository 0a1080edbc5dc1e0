/* SPDX-License-Identifier: Apache-2.0 */
/* base: duplicate keys: the hashes' seed, the table for wide objects, and the comparison that has
 * the last word. */
#include "base/json/json_keys.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "base/text.h"

/* Objects of up to half as many keys are checked without an allocation. */
#define SMALL_TABLE 512
#define LEAST_TABLE 128
/* So much of a key is shown in a message. */
#define SHOWN_MAX 64

static pthread_once_t seed_once = PTHREAD_ONCE_INIT;
static struct json_seed seed;

static void draw_seed(void)
{
	struct timespec now = {0};
	ssize_t n;

	do
		n = getrandom(&seed, sizeof(seed), 0);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)sizeof(seed))
		return;
	/* A kernel without getrandom: the clock and where the stack was put are the best that is
	 * left. */
	clock_gettime(CLOCK_REALTIME, &now);
	seed.a = json_mix((uint64_t)now.tv_nsec ^ 0x9E3779B97F4A7C15U, (uintptr_t)&now);
	seed.b = json_mix((uint64_t)now.tv_sec ^ 0xD1B54A32D192ED03U, seed.a);
}

struct json_seed json_seed(void)
{
	pthread_once(&seed_once, draw_seed);
	return seed;
}

static int twice(const struct json_node *first, const struct json_node *key, struct slice name,
	struct err *err)
{
	size_t shown = text_utf8_cut(name, SHOWN_MAX);

	return err_set(err, ERR_SYNTAX,
		"at byte %u: the key \"%.*s%s\" stands twice in this object, first at byte %u; "
		"keep one",
		key->at, (int)shown, name.at, shown < name.len ? "..." : "", first->at);
}

int json_keys_compare(const struct json *j, uint32_t object, uint32_t key, struct err *err)
{
	const struct json_node *k = &j->node[key];
	struct slice name = json_inside(j, k);
	struct buf decoded;
	int rc = 0;

	buf_init(&decoded, name.len);
	if (k->escaped) {
		json_decode(j, k, &decoded);
		name = buf_as_slice(&decoded);
	}
	if (decoded.failed)
		rc = err_set(err, ERR_NOMEM, "no memory to compare keys of %u bytes", k->len);
	for (uint32_t i = object + 1; rc == 0 && i < key; i = j->node[i + 1].next)
		if (json_is_str(j, &j->node[i], name))
			rc = twice(&j->node[i], k, name, err);
	buf_release(&decoded);
	return rc;
}

/* The node index of the object's n-th key. */
static uint32_t nth_key(const struct json *j, uint32_t object, size_t n)
{
	uint32_t i = object + 1;

	for (; n > 0; n--)
		i = j->node[i + 1].next;
	return i;
}

/* Put the hashes into the open table of size slots (a power of two, zeroed); compare keys whose
 * hash is there. */
static int check_table(uint64_t *table, size_t size, const struct json *j, uint32_t object,
	const uint64_t *hash, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		/* Zero marks a free slot. */
		uint64_t h = hash[i] ? hash[i] : 1;
		size_t at = (size_t)(h >> 32) & (size - 1);
		int rc = 0;

		while (table[at] != 0 && table[at] != h)
			at = (at + 1) & (size - 1);
		if (table[at] == h)
			rc = json_keys_compare(j, object, nth_key(j, object, i), err);
		if (rc < 0)
			return rc;
		table[at] = h;
	}
	return 0;
}

int json_keys_check(
	const struct json *j, uint32_t object, const uint64_t *hash, size_t n, struct err *err)
{
	/* Zeroed as far as it is used. */
	uint64_t small[SMALL_TABLE] __attribute__((uninitialized));
	uint64_t *table = small;
	size_t size = LEAST_TABLE;
	int rc;

	while (size / 2 < n)
		size *= 2;
	if (size > SMALL_TABLE)
		table = calloc(size, sizeof(*table));
	else
		memset(small, 0, size * sizeof(*small));
	if (!table)
		return err_set(err, ERR_NOMEM, "no memory to check %zu keys", n);
	rc = check_table(table, size, j, object, hash, n, err);
	if (table != small)
		free(table);
	return rc;
}
