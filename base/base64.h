/* SPDX-License-Identifier: Apache-2.0 */
/* base: reading base64. Writing it is buf_base64(). */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

/* Append the bytes that text (RFC 4648, the usual alphabet, padded) stands for. Line breaks are
 * skipped, as in Go; anything else is refused: other characters, missing or wrong padding, bytes
 * behind it, bits that no byte needs. ERR_SYNTAX with the offset, ERR_TOOBIG (out's max),
 * ERR_NOMEM; out is then as it was, but for `failed`. */
int base64_decode(struct slice text, struct buf *out, struct err *err);

#endif
