/* SPDX-License-Identifier: Apache-2.0 */
/* base: times as Kubernetes writes them. Pure: no clock, no time zone of the machine. */
#ifndef BASE_RFC3339_H
#define BASE_RFC3339_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

#define RFC3339_SIZE 32

/* Milliseconds since 1970 in UTC with whole seconds, "2026-11-21T09:30:00Z", and back (also with
 * fractions and offsets as Go writes them). Years 0000 to 9999: what lies beyond is written as the
 * nearest end. False for what is none; *ret_ms is then as it was. */
void rfc3339_write(int64_t ms, char ret[static RFC3339_SIZE]);
bool rfc3339_read(struct slice text, int64_t *ret_ms);

#endif
