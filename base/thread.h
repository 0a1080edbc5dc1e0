/* SPDX-License-Identifier: Apache-2.0 */
/* base: threads that take no signals, and conditions whose waits end at a time of clock_ms(). */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdint.h>

/* pthread_create() of a thread that takes no signals: they are the main thread's. name: up to 15
 * bytes, for who looks from outside, or NULL. 0, or a number of errno. */
int thread_start(pthread_t *ret, const char *name, void *(*run)(void *arg), void *arg);

/* For the main thread of a server, before any other is begun: SIGTERM, SIGINT and SIGHUP wait until
 * it takes them (*ret: the three, for sigtimedwait()), and a peer that has gone raises none. */
void thread_hold_signals(sigset_t *ret);

/* pthread_cond_init() of a condition for thread_wait_until(). 0, or a number of errno. */
int thread_cond_init(pthread_cond_t *ret);

/* pthread_cond_timedwait() until clock_ms() is until_ms: 0, ETIMEDOUT, or another number of errno.
 * Under the lock; may return 0 for no reason. */
int thread_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_ms);

#endif
