/* SPDX-License-Identifier: Apache-2.0 */
/* base: configuration files on disk: reading one, listing a folder of them, and telling that
 * something changed. */
#ifndef BASE_FILES_H
#define BASE_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

/* Files of one folder: more is a mistake in the path. */
#define FILES_MAX 4096

struct file_list {
	const char **path; /* sorted bytewise */
	size_t n;
};

/* Read a whole regular file (or a link to one) of at most out->max bytes into out, which the caller
 * inited. ERR_NOTFOUND, ERR_TOOBIG, ERR_NOMEM, ERR_IO; the message names the file. out is empty
 * after an error. */
int files_read(const char *path, struct buf *out, struct err *err);

/* Append all that a descriptor gives until its end. ERR_IO (errno says why), ERR_TOOBIG, ERR_NOMEM;
 * what came before stays in out. */
int files_drain(int fd, struct buf *out);
/* Write all of it to a descriptor. 0, or errno. */
int files_write(int fd, struct slice text);

/* Put text in the place of a regular file in one step: whoever reads it has the old text or the new
 * one. Mode and owner stay; a link goes on naming the file, but other hard links keep the old text.
 * Refused where the file may not be written. ERR_NOTFOUND, ERR_NOMEM, ERR_IO; the message names the
 * file, which is then as it was. */
int files_replace(const char *path, struct slice text, struct err *err);

/* "/proc/self/fd/" and a number. */
#define FILES_MEMORY_PATH 32

/* The bytes as a file in memory, for libraries that want a file's name: its descriptor, with which
 * it ends, and its path. A negative ERR_IO: there can be none. */
int files_in_memory(struct slice bytes, char ret[static FILES_MEMORY_PATH], struct err *err);

/* The files that a path stands for: itself, or the *.yaml, *.yml and *.json in a folder (no
 * sub-folders, nothing that begins with '.', so that a mounted ConfigMap works). Strings live in
 * the arena. ERR_NOTFOUND, ERR_TOOBIG, ERR_NOMEM, ERR_IO; a folder without such files gives n = 0.
 */
int files_list(const char *path, struct arena *a, struct file_list *ret, struct err *err);

/* A number that changes when the file, or the set of files that files_list gives, or one of them
 * changes: from names, device, inode, size and times. Costs a stat per file. 0 when there is
 * nothing at the path. */
uint64_t files_mark(const char *path);

#endif
