/* SPDX-License-Identifier: Apache-2.0 */
/* edge: keys that sign plans, and who of them does now. */
#include "webhook/edge/admission/plan_keys.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

struct plan_keys {
	struct plan_signer signer;
	unsigned char own[MAC_BYTES];
	pthread_mutex_t lock;
	/* Guarded by lock: */
	struct plan_key shared[PLAN_KEYS_MAX];
	size_t n;
};

size_t plan_keys_signing(const struct plan_key *keys, size_t n, int64_t now_ms)
{
	for (size_t i = n; i-- > 0;)
		if (keys[i].seen_ms + PLAN_KEY_WAIT_MS <= now_ms)
			return i;
	return 0;
}

size_t plan_keys_next(struct plan_key *keys, size_t n, int64_t now_ms, int64_t rotate_ms,
	const unsigned char fresh[MAC_BYTES], bool *ret_changed)
{
	*ret_changed = false;
	if (n > 1 && keys[n - 1].seen_ms + PLAN_KEY_WAIT_MS + PLAN_KEY_KEEP_MS <= now_ms) {
		keys[0] = keys[n - 1];
		n = 1;
		*ret_changed = true;
	}
	if (n == 0 || (n < PLAN_KEYS_MAX && keys[n - 1].seen_ms + rotate_ms <= now_ms)) {
		keys[n].number = n > 0 ? keys[n - 1].number + 1 : 1;
		keys[n].seen_ms = now_ms;
		memcpy(keys[n++].bytes, fresh, MAC_BYTES);
		*ret_changed = true;
	}
	return n;
}

/* Copy the keys out, so that no lock is held while they are used. The caller wipes them. */
static size_t take_shared(struct plan_keys *k, struct plan_key keys[PLAN_KEYS_MAX])
{
	size_t n;

	(void)pthread_mutex_lock(&k->lock);
	n = k->n;
	memcpy(keys, k->shared, n * sizeof(*keys));
	(void)pthread_mutex_unlock(&k->lock);
	return n;
}

static int sign(void *ctx, const struct slice *parts, size_t n, unsigned char ret[MAC_BYTES],
	struct err *err)
{
	struct plan_keys *k = ctx;
	struct plan_key keys[PLAN_KEYS_MAX];
	size_t n_keys = take_shared(k, keys);
	size_t i = plan_keys_signing(keys, n_keys, clock_ms());
	int rc = mac_sign(i < n_keys ? keys[i].bytes : k->own, parts, n, ret, err);

	mac_wipe(keys, n_keys * sizeof(*keys));
	return rc;
}

/* *io becomes true when that key has made the MAC. */
static int try_key(const unsigned char key[MAC_BYTES], const struct slice *parts, size_t n,
	const unsigned char mac[MAC_BYTES], bool *io, struct err *err)
{
	unsigned char made[MAC_BYTES];
	int rc = mac_sign(key, parts, n, made, err);

	if (rc == 0)
		*io |= mac_equal(made, mac);
	mac_wipe(made, sizeof(made));
	return rc;
}

static int verify(void *ctx, const struct slice *parts, size_t n,
	const unsigned char mac[MAC_BYTES], bool *ret, struct err *err)
{
	struct plan_keys *k = ctx;
	struct plan_key keys[PLAN_KEYS_MAX];
	size_t n_keys = take_shared(k, keys);
	bool good = false;
	int rc = try_key(k->own, parts, n, mac, &good, err);

	for (size_t i = 0; i < n_keys && rc == 0; i++)
		rc = try_key(keys[i].bytes, parts, n, mac, &good, err);
	mac_wipe(keys, n_keys * sizeof(*keys));
	*ret = good;
	return rc;
}

struct plan_keys *plan_keys_new(struct err *err)
{
	struct plan_keys *k = calloc(1, sizeof(*k));

	if (!k) {
		err_set(err, ERR_NOMEM, "out of memory for the plans' keys");
		return NULL;
	}
	(void)pthread_mutex_init(&k->lock, NULL);
	k->signer = (struct plan_signer){
		.ctx = k, .digest = mac_digest, .sign = sign, .verify = verify};
	if (mac_key_new(k->own, err) < 0) {
		plan_keys_free(k);
		return NULL;
	}
	return k;
}

void plan_keys_free(struct plan_keys *k)
{
	if (!k)
		return;
	(void)pthread_mutex_destroy(&k->lock);
	mac_wipe(k, sizeof(*k));
	free(k);
}

static int64_t seen(const struct plan_keys *k, const struct plan_key *key, int64_t now_ms)
{
	for (size_t i = 0; i < k->n; i++)
		if (k->shared[i].number == key->number && mac_equal(k->shared[i].bytes, key->bytes))
			return k->shared[i].seen_ms;
	return now_ms;
}

void plan_keys_share(struct plan_keys *k, struct plan_key *keys, size_t n, int64_t now_ms)
{
	size_t first = n > PLAN_KEYS_MAX ? n - PLAN_KEYS_MAX : 0;

	(void)pthread_mutex_lock(&k->lock);
	for (size_t i = 0; i < n; i++)
		keys[i].seen_ms = seen(k, &keys[i], now_ms);
	mac_wipe(k->shared, sizeof(k->shared));
	k->n = 0;
	for (size_t i = first; i < n; i++)
		k->shared[k->n++] = keys[i];
	(void)pthread_mutex_unlock(&k->lock);
}

const struct plan_signer *plan_keys_signer(const struct plan_keys *k)
{
	return &k->signer;
}
