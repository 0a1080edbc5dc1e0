/* SPDX-License-Identifier: Apache-2.0 */
/* net: digests and MACs by GnuTLS. libcrypto would do it, too, but the first call of its would make
 * every server 2 MB larger. */
#include "net/mac.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <sys/random.h>

static int failed(const char *what, int rc, struct err *err)
{
	return err_set(err, ERR_INTERNAL, "%s: %s", what, gnutls_strerror(rc));
}

int mac_digest(struct slice data, unsigned char ret[MAC_BYTES], struct err *err)
{
	int rc = gnutls_hash_fast(GNUTLS_DIG_SHA256, data.at, data.len, ret);

	return rc == 0 ? 0 : failed("SHA-256", rc, err);
}

int mac_sign(const unsigned char key[MAC_BYTES], const struct slice *parts, size_t n,
	unsigned char ret[MAC_BYTES], struct err *err)
{
	gnutls_hmac_hd_t mac;
	int rc = gnutls_hmac_init(&mac, GNUTLS_MAC_SHA256, key, MAC_BYTES);

	if (rc != 0)
		return failed("HMAC-SHA-256", rc, err);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = gnutls_hmac(mac, parts[i].at, parts[i].len);
	gnutls_hmac_deinit(mac, ret);
	return rc == 0 ? 0 : failed("HMAC-SHA-256", rc, err);
}

bool mac_equal(const unsigned char a[MAC_BYTES], const unsigned char b[MAC_BYTES])
{
	return gnutls_memcmp(a, b, MAC_BYTES) == 0;
}

int mac_key_new(unsigned char ret[MAC_BYTES], struct err *err)
{
	return getrandom(ret, MAC_BYTES, 0) == MAC_BYTES
		       ? 0
		       : err_set(err, ERR_INTERNAL, "the system has no random numbers");
}

void mac_wipe(void *secret, size_t len)
{
	gnutls_memset(secret, 0, len);
}
