/* SPDX-License-Identifier: Apache-2.0 */
/* probe: numbers with their units, as people read them and as JSON takes them. */
#ifndef PROBE_RESULT_UNITS_H
#define PROBE_RESULT_UNITS_H

#include "base/buf.h"

#define UNITS_MAX 32

/* "4.42 TB/s", "55.1 GB/s", "612 TFLOP/s" (powers of 1000), "125 GiB" for "B" (powers of 1024),
 * "310 ms" for "s"; "-" for what is not a number. unit NULL: the number alone. */
void units_write(double value, const char *unit, char ret[static UNITS_MAX]);

/* A JSON number that reads back as the same double, in as few digits as that takes; null for NAN
 * and infinities. */
void units_json(double value, struct buf *out);

/* Unit of this spelling as a literal that lives as long as the program; NULL: not one of
 * check_result's. */
const char *units_by_name(struct slice name);

#endif
