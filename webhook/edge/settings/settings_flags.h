/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the server's command line, ours and the origin's, as a list of flags with their values. For
 * settings.c. */
#ifndef WEBHOOK_EDGE_SETTINGS_SETTINGS_FLAGS_H
#define WEBHOOK_EDGE_SETTINGS_SETTINGS_FLAGS_H

#include "webhook/edge/settings/settings_table.h"

/* One flag as it was given. */
struct flag {
	const struct setting *row;
	const char *name;  /* as written, with its dashes: "-port" */
	const char *value; /* NULL for a flag that takes none */
};

/* What is done with one flag: 0 or an error, which ends the walk. */
typedef int flag_each(struct settings *s, const struct flag *f, struct err *err);

/* All flags of argv, one after the other. ERR_SYNTAX: an unknown flag, a missing value, a value too
 * many, or a word that is no flag; or what each returns. */
int settings_flags(
	int argc, char *const *argv, struct settings *s, flag_each *each, struct err *err);

/* The flag's value into s, over what it holds. ERR_SYNTAX with "flag …: found …, expected …";
 * ERR_NOMEM. */
int settings_flag_apply(struct settings *s, const struct flag *f, struct err *err);

/* A sentence that the log says at the start; past SETTINGS_NOTES_MAX, or without memory, it is
 * dropped. */
__attribute__((format(printf, 2, 3))) void settings_note(struct settings *s, const char *fmt, ...);

#endif
