/* SPDX-License-Identifier: Apache-2.0 */
/* base: a command line is a table. Each option is said once, with its value's type and bounds and
 * its line of the help.
 *
 *   static const struct opt options[] = {
 *           OPT_TEXT(gate, listen, "--listen", "ADDR:PORT", "where it listens [:9446]"),
 *           OPT_UNSIGNED(gate, tries, "--tries", "N", "in a minute [30]", .max = 6000),
 *   };
 *
 * A row that names a member of another type than it reads does not compile. */
#ifndef BASE_OPTS_H
#define BASE_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/log.h"

/* In brackets the member's type. */
enum opt_kind {
	OPT_KIND_FLAG,   /* takes no value (bool) */
	OPT_KIND_ANSWER, /* the same; the member becomes max (an enum) */
	OPT_KIND_TEXT,   /* not empty; points into argv (const char *) */
	OPT_KIND_TEXTS,  /* so many times as there is room (const char *[n], and size_t n_MEMBER) */
	OPT_KIND_UNSIGNED, /* decimal digits, from min to max (unsigned, uint16_t, uint64_t) */
	OPT_KIND_PORT,
	OPT_KIND_COUNT,
	OPT_KIND_MS,         /* a duration; min and max are milliseconds (int64_t) */
	OPT_KIND_SECONDS,    /* the same (double) */
	OPT_KIND_WORD,       /* one of the words (an enum) */
	OPT_KIND_LOG_FORMAT, /* of a log (struct log *) */
	OPT_KIND_LOG_LEVEL,
	OPT_KIND_OWN /* read by a function */
};

struct opt {
	const char *name; /* "--listen"; messages say it so */
	const char *arg;  /* its value, for the help; NULL: takes none; "[=FILE]": may have one */
	const char *help; /* NULL: the help does not list it */
	enum opt_kind kind;
	size_t at, n_at; /* offsets of the member, and of a list's count */
	uint64_t min, max;
	const char *form;         /* behind "takes "; NULL: as the kind says */
	const char *const *words; /* NULL behind the last */
	/* of: the struct; value: NULL where there is none. 0 or an error, as opts_wrong sets it. */
	int (*own)(const struct opt *o, const char *value, void *of, struct err *err);
	/* More names, of which the help lists the first: getopt_long's callers know them. */
	const char *also, *hidden;
};

/* The offset of a member that is of this very type. */
#define OPT_AT(tag, member, type)                                                                  \
	_Generic(((struct tag *)NULL)->member, type : offsetof(struct tag, member))
#define OPT_ROW(k, tag, member, type, ...)                                                         \
	{                                                                                          \
		.kind = (k), .at = OPT_AT(tag, member, type), .name = __VA_ARGS__                  \
	}
/* Behind the member: name, value, help; then other members of struct opt by their names. */
#define OPT_FLAG(tag, member, name_, ...)                                                          \
	OPT_ROW(OPT_KIND_FLAG, tag, member, bool, name_, NULL, __VA_ARGS__)
/* An enum without negative values is an unsigned to the compiler. */
#define OPT_ANSWER(tag, member, answer, name_, ...)                                                \
	OPT_ROW(OPT_KIND_ANSWER, tag, member, unsigned, name_, NULL, __VA_ARGS__, .max = (answer))
#define OPT_TEXT(tag, member, ...) OPT_ROW(OPT_KIND_TEXT, tag, member, const char *, __VA_ARGS__)
#define OPT_TEXTS(tag, member, ...)                                                                \
	{                                                                                          \
		.kind = OPT_KIND_TEXTS, .at = OPT_AT(tag, member[0], const char *),                \
		.n_at = OPT_AT(tag, n_##member, size_t),                                           \
		.max = sizeof(((struct tag *)NULL)->member) / sizeof(const char *),                \
		.name = __VA_ARGS__                                                                \
	}
#define OPT_UNSIGNED(tag, member, ...)                                                             \
	OPT_ROW(OPT_KIND_UNSIGNED, tag, member, unsigned, __VA_ARGS__)
#define OPT_PORT(tag, member, ...) OPT_ROW(OPT_KIND_PORT, tag, member, uint16_t, __VA_ARGS__)
#define OPT_COUNT(tag, member, ...) OPT_ROW(OPT_KIND_COUNT, tag, member, uint64_t, __VA_ARGS__)
#define OPT_MS(tag, member, ...) OPT_ROW(OPT_KIND_MS, tag, member, int64_t, __VA_ARGS__)
#define OPT_SECONDS(tag, member, ...) OPT_ROW(OPT_KIND_SECONDS, tag, member, double, __VA_ARGS__)
#define OPT_WORD(tag, member, ...) OPT_ROW(OPT_KIND_WORD, tag, member, unsigned, __VA_ARGS__)
#define OPT_OWN(function, ...)                                                                     \
	{                                                                                          \
		.kind = OPT_KIND_OWN, .own = (function), .name = __VA_ARGS__                       \
	}
/* Two rows. */
#define OPT_LOG(tag, member)                                                                       \
	OPT_ROW(OPT_KIND_LOG_FORMAT, tag, member, struct log *, "--log-format", "text|json",       \
		"[text]"),                                                                         \
		OPT_ROW(OPT_KIND_LOG_LEVEL, tag, member, struct log *, "--log-level",              \
			"error|warn|info|debug", "[info]")

/* Take argv[*i] into the struct, "--name value" or "--name=value"; *i moves on to the value. 0; 1:
 * it is no option of these; ERR_INVALID: its value is missing; errors of opts_value. */
int opts_take(const struct opt *opts, size_t n, void *of, int argc, char *const *argv, int *i,
	struct err *err);

/* All words behind argv[0], until one has set the answer. Errors of opts_value; ERR_INVALID for a
 * word that is no option, too. */
int opts_read(const struct opt *opts, size_t n, void *of, const unsigned *answer, int argc,
	char *const *argv, struct err *err);

/* One value, which is there unless the row says that none is needed. ERR_INVALID: what the option
 * takes, and what was found; ERR_TOOBIG: it stands more often than its list has room; ERR_INTERNAL:
 * there is no value, and the row needs one; those of the row's own function. */
int opts_value(const struct opt *o, const char *value, void *of, struct err *err);

/* Set "--units takes FORM, found "x"". Returns ERR_INVALID. */
int opts_wrong(const struct opt *o, const char *form, const char *value, struct err *err);

/* The lines of the help: what an option says stands from this column on. */
void opts_help(const struct opt *opts, size_t n, int column, FILE *out);

#endif
