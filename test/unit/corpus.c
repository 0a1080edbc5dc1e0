/* SPDX-License-Identifier: Apache-2.0 */
/* Seeds of the fuzz targets as texts for tests. */
#include <dirent.h>

#include "base/buf.h"
#include "base/files.h"
#include "test/unit/corpus.h"
#include "test/unit/kept.h"
#include "test/unit/test.h"
#include "test/unit/vary.h"

#define TEXT_MAX (1u << 20)

static void one_seed(
	const char *folder, const char *file, size_t places, void (*say)(struct slice text))
{
	char path[512];
	struct err err = {0};
	struct buf b;
	struct slice text;
	size_t step;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, file);
	buf_init(&b, TEXT_MAX);
	if (files_read(path, &b, &err) != 0)
		fail_msg("%s", err.msg);
	text = b.len ? buf_as_slice(&b) : SLICE("");
	step = 1 + text.len / places;
	kept_group(file);
	say(text);
	vary_text(text, text.len % step, step, say);
	kept_group_end();
	buf_release(&b);
}

void corpus_kept(const char *name, size_t places, void (*say)(struct slice text))
{
	char folder[256];
	struct dirent **names = NULL;
	int n;

	(void)snprintf(folder, sizeof(folder), "test/fuzz/corpus/%s", name);
	n = scandir(folder, &names, NULL, alphasort);
	if (n < 0)
		fail_msg("%s is not there: run me where the tree is", folder);
	kept_begin(name);
	for (int i = 0; i < n; i++) {
		if (names[i]->d_name[0] != '.')
			one_seed(folder, names[i]->d_name, places, say);
		free(names[i]);
	}
	free(names);
	kept_end();
}
