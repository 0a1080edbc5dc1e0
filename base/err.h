/* SPDX-License-Identifier: Apache-2.0 */
/* base: what went wrong, where, and what would have been accepted. Fixed size, so that it works
 * without memory. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdbool.h>
#include <stddef.h>

enum err_code {
	ERR_NONE = 0,
	ERR_NOMEM = -1,    /* an allocation failed */
	ERR_SYNTAX = -2,   /* bytes that are not in the format they claim */
	ERR_INVALID = -3,  /* readable, but a value is out of what is accepted */
	ERR_NOTFOUND = -4, /* something that was named does not exist */
	ERR_CONFLICT = -5, /* two things that exclude each other; somebody else was first */
	ERR_TOOBIG = -6,   /* over a limit: bytes, nodes, depth, count */
	ERR_IO = -7,       /* a system call failed */
	ERR_REFUSED = -8,  /* understood and refused: capacity, policy */
	ERR_TIMEOUT = -9,  /* the deadline passed */
	ERR_INTERNAL = -10 /* our own fault */
};

/* The caller owns it, usually on its stack, and zeroes it with err_clear() or `= {0}`. */
struct err {
	enum err_code code;
	char path[192];  /* where in the input: "/spec/containers/2/resources", or "" */
	char reason[32]; /* CamelCase word for machines, or "" : "NotInjected" */
	char msg[640];   /* a sentence without a final full stop, fit to print as it is */
};

/* Make it say "no error". */
void err_clear(struct err *err);

/* Set code and message (printf style) and return the code, so that callers write
 * `return err_set(err, ERR_INVALID, "…")`. A message that is too long is cut at a UTF-8 boundary;
 * control characters become '?'. err may be NULL: then only the code is returned. Clears path and
 * reason. */
int err_set(struct err *err, enum err_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* As err_set, with the reason word first (copied, cut at 31 bytes). */
int err_reason(struct err *err, enum err_code code, const char *reason, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Put a path segment (printf style, without slashes at its ends) in front of the path that is
 * there: err_in(err, "containers/%zu", i) turns "/command" into "/containers/2/command". Returns
 * err's code, so that callers write `return err_in(err, "spec")`. A path that is too long keeps its
 * end, which is the precise part. */
int err_in(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
