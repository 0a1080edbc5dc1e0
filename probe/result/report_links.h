/* SPDX-License-Identifier: Apache-2.0 */
/* probe: links between GPUs in the report: what each gave, what that says of each GPU, and how it
 * is shown. */
#ifndef PROBE_RESULT_REPORT_LINKS_H
#define PROBE_RESULT_REPORT_LINKS_H

#include "probe/result/report.h"
#include "probe/result/thresholds.h"

/* Two more links, from a to b and back, skipped as "not_run"; a, b: GPUs' indices. The place of the
 * first; -1: no memory. */
int links_add_pair(struct report *r, int a, int b);

/* It is not measured; reason: a literal of at most 31 bytes. */
void links_skip(struct report *r, size_t link, const char *reason);

/* What a worker told of a link. What was wrong stands with both its GPUs, too: a fault has two
 * ends. */
void links_take(struct report *r, size_t link, const struct check_result *found);

/* What kept a worker from telling of a link (a deadline, its death, an error): a link that was told
 * of stays as it is. */
void links_note(
	struct report *r, size_t link, enum probe_code code, int cuda_error, const char *message);

/* The result of CHECK_P2P for each GPU, in profiles that have it: of all links from it and to it.
 * Data are exact; rates are compared: those of a GPU, from the fastest to the slowest, with those
 * of the others of its model here, whose links are laid out as its own. */
void links_judge(const struct thresholds *t, struct report *r);

/* The member "links" of the report, without a comma; a matrix for people, in columns of the GPUs,
 * unless it is wider than `width` (0: no limit). */
void links_json(const struct report *r, struct buf *out);
void links_text(const struct report *r, unsigned width, struct buf *out);

#endif
