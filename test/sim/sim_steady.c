/* SPDX-License-Identifier: Apache-2.0 */
/* sim: what replicas say outside, each request and each answer with its time, is what it was
 * before. This tells that something is another, not that it is right: the laws do. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* vasprintf */
#endif
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/sim/sim_api.h"

bool sim_steady;

static void mix(const char *text)
{
	sim_result->said = (sim_result->said ^ store_hash(text)) * UINT64_C(0x9E3779B97F4A7C15);
}

void sim_said(const char *fmt, ...)
{
	va_list args;
	char *text = NULL, time[32];

	if (!sim_steady)
		return;
	va_start(args, fmt);
	if (vasprintf(&text, fmt, args) < 0)
		sim_fail("simulator", "no memory");
	va_end(args);
	(void)snprintf(time, sizeof(time), "%" PRId64, sim_now() / 1000);
	mix(time);
	mix(text);
	sim_result->n_said++;
	if (sim_tracing())
		(void)printf("%s ms: %s\n", time, text);
	free(text);
}

size_t steady_compare(const struct sim_result *runs, size_t n, const char *file, bool anew)
{
	FILE *f = fopen(file, anew ? "w" : "r");
	size_t others = 0;

	if (!f) {
		(void)fprintf(stderr, "sim: %s cannot be opened\n", file);
		return n;
	}
	for (size_t i = 0; i < n; i++) {
		char line[128], was[128] = "";

		(void)snprintf(line, sizeof(line), "%" PRIu64 " %" PRIu64 " %016" PRIx64 "\n",
			runs[i].seed, runs[i].n_said, runs[i].said);
		if (anew)
			(void)fputs(line, f);
		else if ((!fgets(was, sizeof(was), f) || strcmp(was, line) != 0) && others++ == 0)
			(void)printf("was %snow %s", was[0] ? was : "nothing\n", line);
	}
	(void)fclose(f);
	return others;
}
