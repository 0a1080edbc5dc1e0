/* SPDX-License-Identifier: Apache-2.0 */
/* base: threads that take no signals, and conditions that wait by the monotonic clock. */
#define _GNU_SOURCE 1 /* pthread_setname_np */
#include "base/thread.h"

#include <time.h>

int thread_start(pthread_t *ret, const char *name, void *(*run)(void *arg), void *arg)
{
	sigset_t all, before;
	int rc;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(ret, NULL, run, arg);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc == 0 && name)
		(void)pthread_setname_np(*ret, name);
	return rc;
}

void thread_hold_signals(sigset_t *ret)
{
	(void)sigemptyset(ret);
	(void)sigaddset(ret, SIGTERM);
	(void)sigaddset(ret, SIGINT);
	(void)sigaddset(ret, SIGHUP);
	(void)pthread_sigmask(SIG_BLOCK, ret, NULL);
	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
}

int thread_cond_init(pthread_cond_t *ret)
{
	pthread_condattr_t attr;
	int rc = pthread_condattr_init(&attr);

	if (rc != 0)
		return rc;
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	rc = pthread_cond_init(ret, &attr);
	(void)pthread_condattr_destroy(&attr);
	return rc;
}

int thread_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_ms)
{
	struct timespec t = {
		.tv_sec = (time_t)(until_ms / 1000), .tv_nsec = (long)(until_ms % 1000) * 1000000};

	return pthread_cond_timedwait(cond, lock, &t);
}
