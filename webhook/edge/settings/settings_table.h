/* SPDX-License-Identifier: Apache-2.0 */
/* edge: every setting once: its key in the config file, its flag, its type and bounds, its line of
 * the help. Both readers, the known keys, the help and what waits for a restart follow from it. */
#ifndef WEBHOOK_EDGE_SETTINGS_SETTINGS_TABLE_H
#define WEBHOOK_EDGE_SETTINGS_SETTINGS_TABLE_H

#include <limits.h>

#include "base/err.h"
#include "base/slice.h"
#include "base/yaml/yaml.h"
#include "webhook/edge/settings/settings.h"

/* In brackets the member's type. */
enum setting_kind {
	SETTING_HEAD,     /* what every file begins with, which was looked at before */
	SETTING_MAP,      /* a map of more settings; one that has a member (bool) is on where it is
			     there; as a flag it takes no value */
	SETTING_SWITCH,   /* a flag without a value (bool) */
	SETTING_BOOL,     /* (bool) */
	SETTING_COUNT,    /* (unsigned) */
	SETTING_NUMBER,   /* (int64_t) */
	SETTING_DURATION, /* milliseconds (int64_t) */
	SETTING_WORD,     /* one of the words, which are constants (const char *) */
	SETTING_CHOICE,   /* its place among them (an enum) */
	SETTING_TEXT,     /* (const char *) */
	SETTING_PATH,     /* from the config file's folder on; who named it is remembered */
	SETTING_LISTEN,   /* ADDR:PORT */
	SETTING_PORT,     /* the origin's flag: a port on all addresses, into SETTING_LISTEN's */
	SETTING_TEXTS,    /* const char *[max], and size_t n_MEMBER */
	SETTING_PATHS,
	SETTING_SLICE,       /* (struct slice) */
	SETTING_SLICES,      /* (struct slice *, and size_t n_MEMBER) */
	SETTING_TOTAL,       /* memory of the nominal GPU */
	SETTING_REGISTRIES,  /* a list of them */
	SETTING_IGNORED,     /* a flag of the origin's that takes a value and has no effect */
	SETTING_IGNORED_BOOL /* the same; a value only behind '=', as Go's boolean flags */
};

enum {
	SETTING_FIXED = 1,         /* what differs waits for a restart */
	SETTING_FIXED_WHETHER = 2, /* the same, whether there is one */
	SETTING_LIVE = 4,          /* does not, within a map that does */
	SETTING_OFF = 8,           /* a listener that can be left out */
	SETTING_OR_ZERO = 16,      /* a duration below min, too, when it is 0 */
	SETTING_IN_CLUSTER = 32    /* its flag says that there is a cluster */
};

struct setting {
	const char *key;  /* in its map of the file; NULL: a flag alone */
	const char *flag; /* without dashes; NULL: it stands in the file alone */
	const char *arg;  /* the flag's value, for the help; NULL: it takes none */
	const char *help; /* NULL: the help does not list it */
	enum setting_kind kind;
	unsigned flags;
	size_t at, n_at;  /* offsets of the member, and of a list's count */
	int64_t min, max; /* of a number, or a list's length; max 0 of a list: any */
	const char *expected;
	bool (*good)(struct slice); /* of a text, or of each in a list */
	const char *const *words;   /* NULL behind the last */
	const struct setting *in;   /* of a map */
	size_t n_in;
};

/* Rows of all tables that have flags. */
#define SETTINGS_ROWS_MAX 80

/* The settings of struct settings, in the order of the help. */
extern const struct setting settings_table[];
extern const size_t settings_table_n;

/* Where the config file is read from, and into. */
struct settings_reader {
	struct settings *s;
	const char *config; /* its path: its folder is where relative paths begin */
	struct err *err;
};

#endif
