/* SPDX-License-Identifier: Apache-2.0 */
/* gate: `gpugate take`: memory of a GPU, as a remote-GPU server would take it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "gate/process/try.h"

#define OUT_OF_MEMORY 2
#define LINE_BYTES 64

/* Of the driver's library, whose numbers and names have stood since CUDA 3.2. */
struct driver {
	int (*init)(unsigned flags);
	int (*device)(int *ret, int number);
	int (*retain)(void **ret_context, int device);
	int (*make_current)(void *context);
	int (*allocate)(uint64_t *ret, size_t bytes);
};

static bool say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static bool say(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	(void)vprintf(fmt, args);
	va_end(args);
	(void)putchar('\n');
	return fflush(stdout) == 0;
}

static bool find(void *library, const char *name, void *to)
{
	void *at = dlsym(library, name);

	*(void **)to = at;
	return at != NULL;
}

static bool load(struct driver *d)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);

	if (!library) {
		(void)say("error libcuda.so.1 cannot be loaded");
		return false;
	}
	if (find(library, "cuInit", &d->init) && find(library, "cuDeviceGet", &d->device) &&
		find(library, "cuDevicePrimaryCtxRetain", &d->retain) &&
		find(library, "cuCtxSetCurrent", &d->make_current) &&
		find(library, "cuMemAlloc_v2", &d->allocate))
		return true;
	(void)say("error libcuda.so.1 lacks a call that is needed");
	return false;
}

static bool open_context(const struct driver *d)
{
	void *context = NULL;
	int device = 0, rc = d->init(0);

	if (rc == 0)
		rc = d->device(&device, 0);
	if (rc == 0)
		rc = d->retain(&context, device);
	if (rc == 0)
		rc = d->make_current(context);
	if (rc != 0)
		(void)say("error there is no context: CUDA says %d", rc);
	return rc == 0;
}

int take_main(int argc, char **argv)
{
	char line[LINE_BYTES];
	struct driver d = {0};

	(void)argc, (void)argv;
	if (!load(&d) || !open_context(&d) || !say("ready"))
		return EXIT_FAILURE;
	while (fgets(line, sizeof(line), stdin)) {
		struct slice rest = slice_of(line), word;
		uint64_t bytes, at = 0;
		int rc;

		if (!text_word(&rest, &word) || !text_u64(word, SIZE_MAX, &bytes))
			return EXIT_FAILURE;
		rc = d.allocate(&at, (size_t)bytes);
		if (rc == 0)
			(void)say("taken");
		else if (rc == OUT_OF_MEMORY)
			(void)say("full");
		else
			(void)say("error CUDA says %d", rc);
	}
	return EXIT_SUCCESS;
}
