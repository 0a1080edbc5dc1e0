/* SPDX-License-Identifier: Apache-2.0 */
/* test: a folder of a test's own. */
#define _GNU_SOURCE
#include <ftw.h>

#include "test/unit/scratch.h"
#include "test/unit/test.h"

static char folder[64];

int scratch_begin(void **state __attribute__((unused)))
{
	(void)snprintf(folder, sizeof(folder), "/tmp/poolgate-test-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st __attribute__((unused)),
	int type __attribute__((unused)), struct FTW *ftw __attribute__((unused)))
{
	return remove(path);
}

int scratch_end(void **state __attribute__((unused)))
{
	return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *scratch(const char *name)
{
	static char paths[64][512];
	static size_t next;
	char *path = paths[next++ % COUNT(paths)];

	(void)snprintf(path, sizeof(paths[0]), "%s%s%s", folder, *name ? "/" : "", name);
	return path;
}

void write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

const char *scratch_file(const char *name, const char *text)
{
	const char *path = scratch(name);

	write_text(path, text);
	return path;
}
