/* SPDX-License-Identifier: Apache-2.0 */
/* net: SHA-256, HMAC-SHA-256 (RFC 2104) and the keys of it, out of the TLS library that is loaded
 * anyway. Any thread. */
#ifndef NET_MAC_H
#define NET_MAC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/slice.h"

/* Bytes of a digest, of a MAC and of a key. */
#define MAC_BYTES 32

/* The digest of data. ERR_INTERNAL: the library failed. */
int mac_digest(struct slice data, unsigned char ret[MAC_BYTES], struct err *err);

/* The MAC of the n parts one after the other; a caller that needs to tell where one ends writes
 * that into it. ERR_INTERNAL. */
int mac_sign(const unsigned char key[MAC_BYTES], const struct slice *parts, size_t n,
	unsigned char ret[MAC_BYTES], struct err *err);

/* Are they the same? Takes as long whatever they are. */
bool mac_equal(const unsigned char a[MAC_BYTES], const unsigned char b[MAC_BYTES]);

/* A new key out of the system's random numbers. ERR_INTERNAL. */
int mac_key_new(unsigned char ret[MAC_BYTES], struct err *err);

/* Overwrite what was secret; no compiler leaves this out. */
void mac_wipe(void *secret, size_t len);

#endif
