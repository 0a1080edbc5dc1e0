/* SPDX-License-Identifier: Apache-2.0 */
/* net: reads certificates and keys from files for tls_identity and tls_trust, and leaves no key
 * behind in freed memory. */
#include "net/tls_trust.h"

#include <string.h>

#include "base/buf.h"
#include "base/files.h"

/* The whole file, in room that does not grow: a copy of a key would stay behind. */
static int read_file(struct tls_pem *pem, struct buf *bytes, struct err *err)
{
	int rc;

	buf_init(bytes, TLS_FILE_MAX);
	if (!buf_reserve(bytes, TLS_FILE_MAX))
		return err_set(err, ERR_NOMEM, "out of memory while reading %s", pem->name);
	rc = files_read(pem->name, bytes, err);
	pem->bytes = buf_as_slice(bytes);
	return rc;
}

int tls_identity_load_files(
	struct tls_identity *id, const char *cert_path, const char *key_path, struct err *err)
{
	struct tls_pem cert = {.name = cert_path}, key = {.name = key_path};
	struct buf cert_bytes, key_bytes = {0};
	int rc = read_file(&cert, &cert_bytes, err);

	if (rc == 0)
		rc = read_file(&key, &key_bytes, err);
	if (rc == 0)
		rc = tls_identity_load_pem(id, &cert, &key, err);
	if (key_bytes.data)
		explicit_bzero(key_bytes.data, key_bytes.len);
	buf_release(&key_bytes);
	buf_release(&cert_bytes);
	return rc;
}

int tls_trust_load_file(struct tls_trust *t, const char *path, const char *const *names,
	size_t n_names, struct err *err)
{
	struct tls_pem ca = {.name = path};
	struct buf bytes;
	int rc = read_file(&ca, &bytes, err);

	if (rc == 0)
		rc = tls_trust_load_pem(t, &ca, names, n_names, err);
	buf_release(&bytes);
	return rc;
}
