/* SPDX-License-Identifier: Apache-2.0 */
/* net: reads certificates and keys from files for tls_identity and tls_trust, and leaves no key
 * behind in freed memory. */
#include "net/tls_trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_all(int fd, const char *path, char *bytes, size_t *ret_len, struct err *err)
{
	size_t len = 0;
	while (len <= TLS_FILE_MAX) {
		ssize_t n = read(fd, bytes + len, TLS_FILE_MAX + 1 - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, ERR_IO, "cannot read %s: %s", path, strerror(errno));
		if (n == 0) {
			*ret_len = len;
			return 0;
		}
		len += (size_t)n;
	}
	return err_set(err, ERR_TOOBIG, "%s is larger than %d bytes", path, TLS_FILE_MAX);
}

/* The whole file into bytes, which holds TLS_FILE_MAX + 1. */
static int read_file(const char *path, char *bytes, size_t *ret_len, struct err *err)
{
	/* Not blocked by a FIFO that nobody writes to. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return err_set(err, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, "cannot open %s: %s",
			path, strerror(errno));
	struct stat st;
	int rc = fstat(fd, &st) == 0 && S_ISREG(st.st_mode)
			 ? read_all(fd, path, bytes, ret_len, err)
			 : err_set(err, ERR_IO, "%s is not a regular file", path);
	(void)close(fd);
	return rc;
}

int tls_identity_load_files(
	struct tls_identity *id, const char *cert_path, const char *key_path, struct err *err)
{
	const size_t size = TLS_FILE_MAX + 1;
	char *bytes = malloc(2 * size);
	if (!bytes)
		return err_set(err, ERR_NOMEM, "out of memory while reading %s", cert_path);
	struct tls_pem cert = {{bytes, 0}, cert_path};
	struct tls_pem key = {{bytes + size, 0}, key_path};
	int rc = read_file(cert_path, bytes, &cert.bytes.len, err);
	if (rc == 0)
		rc = read_file(key_path, bytes + size, &key.bytes.len, err);
	if (rc == 0)
		rc = tls_identity_load_pem(id, &cert, &key, err);
	explicit_bzero(bytes + size, key.bytes.len);
	free(bytes);
	return rc;
}

int tls_trust_load_file(struct tls_trust *t, const char *path, const char *const *names,
	size_t n_names, struct err *err)
{
	char *bytes = malloc(TLS_FILE_MAX + 1);
	struct tls_pem ca = {{bytes, 0}, path};
	int rc;

	if (!bytes)
		return err_set(err, ERR_NOMEM, "out of memory while reading %s", path);
	rc = read_file(path, bytes, &ca.bytes.len, err);
	if (rc == 0)
		rc = tls_trust_load_pem(t, &ca, names, n_names, err);
	free(bytes);
	return rc;
}
