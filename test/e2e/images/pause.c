/* SPDX-License-Identifier: Apache-2.0 */
/* test: holds a pod's namespaces until it is told to end; collects the children that others leave
 * to it. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int number)
{
	_exit(number == SIGTERM || number == SIGINT ? 0 : 1);
}

static void collect(int number)
{
	(void)number;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

int main(void)
{
	sigaction(SIGTERM, &(struct sigaction){.sa_handler = end}, NULL);
	sigaction(SIGINT, &(struct sigaction){.sa_handler = end}, NULL);
	sigaction(SIGCHLD, &(struct sigaction){.sa_handler = collect}, NULL);
	for (;;)
		pause();
}
