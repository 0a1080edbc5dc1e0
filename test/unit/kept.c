/* SPDX-License-Identifier: Apache-2.0 */
/* What a program said once, and says again. */
#include <inttypes.h>

#include "test/unit/kept.h"
#include "test/unit/test.h"

static struct {
	char path[128], group[128];
	FILE *file, *say;
	bool update;
	unsigned long others, all;
	size_t n; /* things said in the group */
	uint64_t digest;
} kept;

void kept_begin(const char *file)
{
	const char *update = getenv("UPDATE");

	memset(&kept, 0, sizeof(kept));
	kept.update = update && *update;
	snprintf(kept.path, sizeof(kept.path), "test/unit/kept/%s.txt", file);
	kept.file = fopen(kept.path, kept.update ? "w" : "r");
	if (!kept.file)
		fail_msg("%s is not there: run me where the tree is", kept.path);
}

void kept_end(void)
{
	bool more = !kept.update && fgetc(kept.file) != EOF;

	assert_int_equal(fclose(kept.file), 0);
	print_message("%lu answers\n", kept.all);
	if (kept.others > 0 || more)
		fail_msg("%s: %lu lines are others%s: docs/testing.md#kept-answers says how to see "
			 "what is another, and how to keep it",
			kept.path, kept.others, more ? ", and there are more" : "");
}

void kept_group(const char *name)
{
	const char *folder = getenv("SAY");
	char path[512];

	snprintf(kept.group, sizeof(kept.group), "%s", name);
	kept.n = 0;
	kept.digest = 0xcbf29ce484222325ULL;
	if (!folder)
		return;
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	kept.say = fopen(path, "w");
	if (!kept.say)
		fail_msg("%s cannot be written", path);
}

void kept_group_end(void)
{
	char line[256], was[256] = "";

	if (kept.say)
		fclose(kept.say);
	kept.say = NULL;
	kept.all += kept.n;
	snprintf(line, sizeof(line), "%s %zu %016" PRIx64 "\n", kept.group, kept.n, kept.digest);
	if (kept.update) {
		fputs(line, kept.file);
		return;
	}
	if (!fgets(was, sizeof(was), kept.file) || strcmp(was, line) != 0) {
		print_message("was %snow %s", was[0] ? was : "nothing\n", line);
		kept.others++;
	}
}

/* FNV-1a, of 64 bits, with a NUL for the end of what is said. */
static void say_bytes(struct slice s)
{
	for (size_t i = 0; i <= s.len; i++)
		kept.digest =
			(kept.digest ^ (i < s.len ? (unsigned char)s.at[i] : 0)) * 0x100000001b3ULL;
	kept.n++;
	if (!kept_shows())
		return;
	fwrite(s.at, 1, s.len, kept.say);
	fputc('\n', kept.say);
}

void kept_text(const char *text)
{
	say_bytes(slice_of(text));
}

void kept_say(const char *fmt, ...)
{
	char text[4096];
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	assert_in_range(n, 0, sizeof(text) - 1);
	kept_text(text);
}

void kept_slice(const char *name, struct slice s)
{
	kept_say("%s: %zu bytes%s", name, s.len, s.at ? "" : ", absent");
	say_bytes(s.at ? s : SLICE(""));
}

void kept_err(int rc, const struct err *err)
{
	kept_say("%d %s %s: %s", rc, err->reason, err->path, err->msg);
}

bool kept_shows(void)
{
	return kept.say != NULL;
}

void kept_note(const char *text)
{
	if (kept_shows())
		fprintf(kept.say, "%s\n", text);
}
