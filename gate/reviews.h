/* SPDX-License-Identifier: Apache-2.0 */
/* gate: TokenReviews, asked of the API server in poll(), a few at the same time. No answer is kept.
 */
#ifndef GATE_REVIEWS_H
#define GATE_REVIEWS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "gate/bearer.h"
#include "kube/kube_config.h"

/* At the same time: they cost the API server a few ms each. Others wait for their turn. */
#define REVIEWS_MAX 8
#define REVIEW_MS 5000

/* What came of it: the token is of the pod `uid`; it is nobody's for us; nobody can say now, for
 * the API server is away; or it does not answer us, which is a fault of the installation. */
enum review_word { REVIEW_YES, REVIEW_NO, REVIEW_AWAY, REVIEW_BROKEN };

struct reviews;
struct review;

/* err says why, but for a yes. */
typedef void review_done(void *ctx, enum review_word word, const char *uid, const struct err *err);

/* config is borrowed. ERR_INVALID: its server is no URL of ours; ERR_NOMEM. */
int reviews_new(const struct kube_config *config, struct reviews **ret, struct err *err);
/* NULL-safe; nobody is told any more. */
void reviews_free(struct reviews *r);

/* Have a token (copied) reviewed: done is called once, in reviews_turn(), unless it is dropped
 * before. NULL: no memory. */
struct review *reviews_ask(struct reviews *r, struct slice token, review_done *done, void *ctx);
/* NULL-safe. */
void review_drop(struct review *v);

/* For poll(): what to wait for, filled into `to`; their number. *ret_ms as of poll(). */
size_t reviews_poll(const struct reviews *r, struct pollfd to[static REVIEWS_MAX], int64_t *ret_ms);
void reviews_turn(struct reviews *r);

#endif
