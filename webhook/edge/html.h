/* SPDX-License-Identifier: Apache-2.0 */
/* edge: text that strangers chose as HTML that shows it and does nothing else; sizes and times for people. */
#ifndef WEBHOOK_EDGE_HTML_H
#define WEBHOOK_EDGE_HTML_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

/* Append s so that it stands for itself in text and in a quoted attribute: the five characters of markup and the backtick as
 * references, what no UTF-8 is as U+FFFD, and what moves, hides or turns text around (controls, bidirectional marks, characters
 * without width) as \uXXXX. Absent counts as empty. */
void html_text(struct buf *out, struct slice s);
void html_str(struct buf *out, const char *s);

/* The same, of at most max characters; what is longer ends with an ellipsis. */
void html_cut(struct buf *out, struct slice s, size_t max);

/* Bytes as pool tables and refusals count them, in powers of ten: "0", "950 MB", "16.2 GB", "1.3 TB"; what is not 0 is never
 * shown as 0. */
void html_bytes(struct buf *out, uint64_t bytes);

/* "5.9 of 16.9 GB", "950 MB of 16.9 GB". */
void html_bytes_of(struct buf *out, uint64_t part, uint64_t whole);

/* part of whole as a percentage with two decimals, "12.50%"; never above 100, and 0.00% of nothing. */
void html_percent(struct buf *out, uint64_t part, uint64_t whole);

/* How long that is: "8 s", "3 min", "2 h 5 min", "4 d 2 h"; what is negative counts as 0. */
void html_age(struct buf *out, int64_t ms);

/* Milliseconds since 1970 as "2027-08-01T10:00:00Z", or nothing for a date that cannot be written. */
void html_time(struct buf *out, int64_t ms);

#endif
