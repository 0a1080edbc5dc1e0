/* SPDX-License-Identifier: Apache-2.0 */
/* A resolver for tests, loaded in front of the C library's: a file says which address each name has
 * at its first look-up, its second and so on (the last one stays; "slow" is none, after ten
 * seconds); every look-up is noted. Names that the file does not have are nobody's: no test asks a
 * real server. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAMES_MAX 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char seen[NAMES_MAX][256];
static unsigned times[NAMES_MAX];

/* How often has this name been looked up before? */
static unsigned count(const char *name)
{
	size_t i = 0;

	while (i < NAMES_MAX - 1 && seen[i][0] && strcmp(seen[i], name) != 0)
		i++;
	(void)snprintf(seen[i], sizeof(seen[i]), "%s", name);
	return times[i]++;
}

static void note(const char *name, const char *address)
{
	const char *path = getenv("NAMES_LOG");
	FILE *f = path ? fopen(path, "ae") : NULL;

	if (!f)
		return;
	(void)fprintf(f, "%s %s\n", name, address);
	(void)fclose(f);
}

/* The n-th address of the name's line ("NAME ADDRESS…"), or the last. */
static bool find(const char *name, unsigned n, char ret[static 64])
{
	const char *path = getenv("NAMES_FILE");
	FILE *f = path ? fopen(path, "re") : NULL;
	char line[1024];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		char *rest = line, *word = strtok_r(rest, " \n", &rest);

		found = word && strcmp(word, name) == 0;
		while (found && (word = strtok_r(rest, " \n", &rest))) {
			(void)snprintf(ret, 64, "%s", word);
			if (n-- == 0)
				break;
		}
	}
	if (f)
		(void)fclose(f);
	return found;
}

int getaddrinfo(
	const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **ret)
{
	__typeof__(&getaddrinfo) real;
	struct in6_addr bytes;
	char address[64];
	void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");

	memcpy(&real, &symbol, sizeof(real));
	if (!name || inet_pton(AF_INET, name, &bytes) == 1 ||
		inet_pton(AF_INET6, name, &bytes) == 1)
		return real(name, service, hints, ret);
	(void)pthread_mutex_lock(&lock);
	if (!find(name, count(name), address))
		address[0] = '\0';
	note(name, address[0] ? address : "-");
	(void)pthread_mutex_unlock(&lock);
	if (strcmp(address, "slow") == 0) {
		(void)sleep(10);
		return EAI_AGAIN;
	}
	return address[0] ? real(address, service, hints, ret) : EAI_NONAME;
}
