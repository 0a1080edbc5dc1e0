/* SPDX-License-Identifier: Apache-2.0 */
/* certs: certificates and keys on disk: whole or not at all, keys readable by their owner alone
 * from the first byte. */
#ifndef CERTS_CERTS_FILES_H
#define CERTS_CERTS_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

/* A bundle of a few hundred certificates; more is not a certificate file. */
#define CERTS_FILE_MAX ((size_t)1 << 20)
/* Files that one call writes. */
#define CERTS_FILES_MAX 8

/* One file to write. Everything is borrowed. */
struct certs_file {
	const char *name; /* in the directory; no slash */
	struct slice bytes;
	bool secret; /* mode 0600, else 0644 */
};

/* Write n files (1 to CERTS_FILES_MAX) into dir, which is made (0700, parents too) when missing.
 * All are first written and fsynced under temporary names, then renamed in their order, so that a
 * full disk or a read-only directory leaves everything as it was. replace false: a file that exists
 * is never overwritten, not even by a race; replace true: it is replaced, a symbolic link itself
 * and not what it points to. ERR_CONFLICT: a file exists (replace false), or another call is
 * writing in this directory. ERR_IO: the rest, with the path, the system's words and, where one is
 * known, the remedy. */
int certs_files_write(
	const char *dir, const struct certs_file *files, size_t n, bool replace, struct err *err);

/* Read a whole regular file (or a link to one) of at most CERTS_FILE_MAX bytes into ret, which the
 * caller inited; for keys, release it with certs_files_wipe(). ERR_NOTFOUND, ERR_TOOBIG, ERR_NOMEM,
 * ERR_IO (no permission, a directory, a pipe, …). ret is empty after an error. */
int certs_files_read(const char *path, struct buf *ret, struct err *err);

/* buf_release() after overwriting the bytes. */
void certs_files_wipe(struct buf *b);

/* "dir/name" into ret[size]. ERR_TOOBIG when it does not fit. */
int certs_files_path(const char *dir, const char *name, char *ret, size_t size, struct err *err);

#endif
