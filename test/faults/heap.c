/* SPDX-License-Identifier: Apache-2.0 */
/* soak: preloaded into a program, writes the bytes that its heap has in use into the file
 * FAULT_HEAP, each second the least of that second, when few requests are on their way: a leak
 * shows there long before it shows in the resident set. */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LOOKS 50 /* a second */

static void *write_on(void *ctx)
{
	int fd = open(ctx, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	while (fd >= 0) {
		uint64_t least = UINT64_MAX;

		for (int i = 0; i < LOOKS; i++) {
			struct mallinfo2 m = mallinfo2();

			if (m.uordblks + m.hblkhd < least)
				least = m.uordblks + m.hblkhd;
			(void)nanosleep(&(struct timespec){.tv_nsec = 1000000000 / LOOKS}, NULL);
		}
		if (pwrite(fd, &least, sizeof(least), 0) != (ssize_t)sizeof(least))
			break;
	}
	return NULL;
}

__attribute__((constructor)) static void begin(void)
{
	char *path = getenv("FAULT_HEAP");
	sigset_t all, before;
	pthread_t thread;

	if (!path)
		return;
	/* The program's signals are for its own threads. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&thread, NULL, write_on, path) == 0)
		(void)pthread_detach(thread);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}
