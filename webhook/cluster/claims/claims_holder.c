/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what the leader remembers of each uid from round to round, found by uid. */
#include <stdlib.h>

#include "base/text.h"
#include "webhook/cluster/claims/claims_impl.h"

#define BUCKETS_FIRST 256

/* uids are made by the API server, not by those who might want them to collide. */
static struct holder **place_of(const struct claims *c, struct slice uid, uint64_t hash)
{
	struct holder **at = &c->bucket[hash & (c->n_buckets - 1)];

	while (*at && ((*at)->hash != (uint32_t)hash || !slice_is(uid, (*at)->uid)))
		at = &(*at)->next;
	return at;
}

struct holder *claims_find(const struct claims *c, struct slice uid)
{
	return *place_of(c, uid, text_hash64(uid));
}

bool claims_remember(struct claims *c)
{
	c->bucket = calloc(BUCKETS_FIRST, sizeof(struct holder *));
	c->n_buckets = c->bucket ? BUCKETS_FIRST : 0;
	return c->bucket != NULL;
}

void claims_expect(struct claims *c, size_t holders)
{
	size_t more = c->n_buckets * 2;
	struct holder **bucket;

	if (holders < c->n_buckets)
		return;
	while (more <= holders)
		more *= 2;
	bucket = calloc(more, sizeof(struct holder *));
	if (!bucket)
		return;
	for (size_t i = 0; i < c->n_buckets; i++)
		for (struct holder *h = c->bucket[i], *next; h; h = next) {
			next = h->next;
			h->next = bucket[h->hash & (more - 1)];
			bucket[h->hash & (more - 1)] = h;
		}
	free(c->bucket);
	c->bucket = bucket;
	c->n_buckets = more;
}

struct holder *claims_holder(
	struct claims *c, const char *uid, const char *namespace, const char *name)
{
	struct slice key = slice_of(uid);
	size_t uid_len = key.len, namespace_len = strlen(namespace), name_len = strlen(name);
	uint64_t hash = text_hash64(key);
	struct holder **at = place_of(c, key, hash);
	struct holder *h = *at;
	char *text;

	if (h) {
		h->round = c->round;
		return h;
	}
	h = calloc(1, offsetof(struct holder, uid) + uid_len + namespace_len + name_len + 3);
	if (!h)
		return NULL;
	h->hash = (uint32_t)hash;
	h->round = c->round;
	memcpy(h->uid, uid, uid_len);
	text = h->uid + uid_len + 1;
	memcpy(text, namespace, namespace_len);
	h->namespace = text;
	text += namespace_len + 1;
	memcpy(text, name, name_len);
	h->name = text;
	*at = h;
	c->n_holders++;
	claims_expect(c, c->n_holders);
	return h;
}

void claims_forget(struct claims *c, bool all)
{
	for (size_t i = 0; i < c->n_buckets; i++)
		for (struct holder **at = &c->bucket[i]; *at;) {
			struct holder *h = *at;

			if (all || h->round != c->round) {
				*at = h->next;
				free(h->rest);
				free(h);
				c->n_holders--;
			} else {
				at = &h->next;
			}
		}
}

struct holder_rest *holder_rest(struct holder *h)
{
	if (!h->rest)
		h->rest = calloc(1, sizeof(*h->rest));
	return h->rest;
}

void holder_tidy(struct holder *h)
{
	/* what an Event has said is not said again */
	if (!h->rest || *h->rest->why || *h->rest->why_told || h->rest->unplaced_ms)
		return;
	free(h->rest);
	h->rest = NULL;
}

const char *holder_why(const struct holder *h)
{
	return h->rest ? h->rest->why : "";
}

bool holder_complete(const struct holder *h)
{
	return h->n_records > 0 && h->agree && h->n_records == h->n_listed;
}
