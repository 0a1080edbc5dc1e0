/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what the report's forms share: members of JSON, lists of GPUs, the last line. */
#ifndef PROBE_RESULT_REPORT_WORDS_H
#define PROBE_RESULT_REPORT_WORDS_H

#include "probe/result/report.h"

/* Members of a JSON object, each with a comma in front but behind '{': unknown is null (text "",
 * negative numbers, NAN). Bytes that are not UTF-8 become '?'. */
void out_key(struct buf *out, const char *key);
void out_text(struct buf *out, const char *key, const char *text);
void out_text_or_null(struct buf *out, const char *key, const char *text);
/* Seconds since 1970 as "2026-11-20T17:40:11Z"; 0 and less are unknown. */
void out_time(struct buf *out, const char *key, int64_t seconds);
void out_count(struct buf *out, const char *key, int64_t value);
void out_double(struct buf *out, const char *key, double value);
void out_bool(struct buf *out, const char *key, bool value);
/* 1 true, 0 false, else null */
void out_tri(struct buf *out, const char *key, int value);
/* code, message, hint, action and CUDA's number of what is wrong */
void out_problem(struct buf *out, enum probe_code code, const char *message, int cuda_error);

/* "7 of 8 GPUs fit, 4.3 s, 1 failed: GPU 7 (drain, reset or reboot the server)", without a newline.
 */
void words_verdict(const struct report *r, struct buf *out);

#endif
