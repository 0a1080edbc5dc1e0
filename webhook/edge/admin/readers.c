/* SPDX-License-Identifier: Apache-2.0 */
/* edge: answers about tokens, known by the tokens' digests. */
#include "webhook/edge/admin/readers.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "net/mac.h"
#include "net/peers.h"

struct entry {
	unsigned char digest[MAC_BYTES];
	enum reader word;
	int64_t until_ms; /* 0: unused */
};

struct readers {
	pthread_mutex_t lock; /* guards the rest */
	struct entry entry[READERS_MAX];
	struct peers peers;
};

struct readers *readers_new(void)
{
	struct readers *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	(void)pthread_mutex_init(&r->lock, NULL);
	r->peers.per_minute = READERS_TRIES;
	return r;
}

void readers_free(struct readers *r)
{
	if (!r)
		return;
	(void)pthread_mutex_destroy(&r->lock);
	free(r);
}

/* What its tries are counted by. */
static uint64_t key_of(const char *peer)
{
	char host[64] = "";
	struct in6_addr v6;
	uint64_t key;
	uint16_t port;

	if (text_host_port(slice_of(peer), host, &port, NULL) != 0 ||
		inet_pton(AF_INET6, host, &v6) != 1)
		key = text_hash64(slice_of(host));
	else
		memcpy(&key, &v6, sizeof(key));
	return key ? key : 1;
}

static struct entry *find(struct readers *r, const unsigned char digest[MAC_BYTES])
{
	for (size_t i = 0; i < READERS_MAX; i++)
		if (r->entry[i].until_ms > 0 && mac_equal(r->entry[i].digest, digest))
			return &r->entry[i];
	return NULL;
}

/* It was let in not long ago. */
static bool is_known(const struct entry *e, int64_t now_ms)
{
	return e && e->word == READER_YES && now_ms < e->until_ms + READERS_KNOWN_MS;
}

enum reader readers_look(struct readers *r, struct slice token, const char *peer, int64_t now_ms)
{
	unsigned char digest[MAC_BYTES];
	enum reader word = READER_UNKNOWN;
	const struct entry *e;

	if (mac_digest(token, digest, NULL) != 0)
		return READER_AWAY;
	(void)pthread_mutex_lock(&r->lock);
	e = find(r, digest);
	if (e && now_ms < e->until_ms)
		word = e->word;
	else if (!is_known(e, now_ms) && !peers_may(&r->peers, key_of(peer), now_ms))
		word = READER_TRIES;
	(void)pthread_mutex_unlock(&r->lock);
	return word;
}

static bool is_good(const struct entry *e, int64_t now_ms)
{
	return e->word == READER_YES && now_ms < e->until_ms;
}

/* Of what is no yes that holds, or else of all, what ends first. */
static struct entry *oldest(struct readers *r, int64_t now_ms)
{
	struct entry *one = &r->entry[0];

	for (size_t i = 1; i < READERS_MAX; i++) {
		struct entry *e = &r->entry[i];
		bool good = is_good(e, now_ms), best = is_good(one, now_ms);

		if (good == best ? e->until_ms < one->until_ms : best)
			one = e;
	}
	return one;
}

void readers_note(
	struct readers *r, struct slice token, const char *peer, enum reader word, int64_t now_ms)
{
	unsigned char digest[MAC_BYTES];
	bool yes = word == READER_YES, away = word == READER_AWAY;
	struct entry *e;

	if (mac_digest(token, digest, NULL) != 0)
		return;
	(void)pthread_mutex_lock(&r->lock);
	e = find(r, digest);
	if (!yes && (!away || !is_known(e, now_ms)))
		peers_failed(&r->peers, key_of(peer), now_ms);
	if (!e)
		e = oldest(r, now_ms);
	/* Those who may not read push out nobody who may. */
	if (!away && (yes || !is_good(e, now_ms) || mac_equal(e->digest, digest))) {
		e->word = word;
		e->until_ms = now_ms + (yes ? READERS_YES_MS : READERS_NO_MS);
		memcpy(e->digest, digest, sizeof(digest));
	}
	(void)pthread_mutex_unlock(&r->lock);
}
