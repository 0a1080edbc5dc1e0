/* SPDX-License-Identifier: Apache-2.0 */
/* core: the parts of a refusal's sentence. Together they fit into err.msg with the advice at the
 * end, however long the names in them are. */
#ifndef WEBHOOK_CORE_POOL_PLACEMENT_SAY_H
#define WEBHOOK_CORE_POOL_PLACEMENT_SAY_H

#include "base/buf.h"
#include "webhook/core/pool/placement_search.h"

#define SAY_WORD_MAX 32
#define SAY_SHORT_MAX 16

/* Foreign words: printable ASCII (else '?'), at most max bytes (then "..."). */
void say_word(struct buf *b, struct slice s, size_t max);
void say_name(struct buf *b, const char *s);

/* A value as it is typed into the filter: in quotes when it holds blanks. And a whole word of the
 * filter, key=value. */
void say_value(struct buf *b, struct slice s, size_t max);
void say_token(struct buf *b, const struct filter *f);

/* "2 GPUs with 100 % each", "1 GPU with 8000 MB" */
void say_amount(struct buf *b, const struct demand_container *c, uint64_t amount);

/* "asked 2 GPUs with 100 % each (filter server.name=gpu-01)" */
void say_asked(const struct search *s, struct buf *b);

/* " (zone has lab, attic)": values that the pool has for the token's key; nothing when it has none.
 */
void say_existing(const struct search *s, const struct filter *f, struct buf *b);

/* " (best: gpu-02/gpu-0 8085 of 8085 MB, …)": the GPUs that match and have the most free, best
 * first; at equality in the order of the pool. */
void say_best(const struct search *s, struct buf *b);

/* "; now would fit: 1 GPU with 100 %, or 2 with 23 %; ask for less or …", of the container that
 * failed, for which so many GPUs have room. */
void say_advice(const struct search *s, size_t room, bool waiting_helps, struct buf *b);

#endif
