/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: work that one thread repeats: when it is due, and when somebody says that something has
 * changed. */
#ifndef WEBHOOK_CLUSTER_DUTY_DUTY_H
#define WEBHOOK_CLUSTER_DUTY_DUTY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct duty;

/* Do what is to be done now; the answer says in how many milliseconds to be called again at the
 * latest. Long work asks duty_stopping() between its steps. */
typedef int64_t duty_tick(void *ctx, struct duty *d);

/* A thread that calls tick at once, then when due or woken. name (15 bytes at most) is the
 * thread's. ERR_NOMEM, ERR_INTERNAL. */
struct duty *duty_start(const char *name, duty_tick *tick, void *ctx, struct err *err);
/* Call it soon. Any thread, from within tick too. NULL-safe. */
void duty_wake(struct duty *d);
/* Has somebody asked it to end? */
bool duty_stopping(const struct duty *d);
/* Wait up to ms, or until it is to end: then false. For use within tick; does not end early when
 * woken. */
bool duty_sleep(struct duty *d, int64_t ms);
/* Ask it to end, wait until the tick that runs has returned, free it. NULL-safe. */
void duty_stop(struct duty *d);

/* A keeper has one thread and what that keeps between its ticks: a struct whose first member is its
 * struct duty *. Start one: it is malloc'ed, the tick's ctx, and *ret. Errors of duty_start; then
 * it has been freed. NULL is taken: ERR_NOMEM. */
int duty_keep(void *keeper, const char *name, duty_tick *tick, void **ret, struct err *err);
void duty_wake_keeper(void *keeper);
/* Stop its thread, free it. */
void duty_free_keeper(void *keeper);

#endif
