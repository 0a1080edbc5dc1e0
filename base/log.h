/* SPDX-License-Identifier: Apache-2.0 */
/* base: log lines. One call, one line, one write(2); nothing a stranger sends can forge a line or
 * reach a terminal. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

/* A line with its newline; at most PIPE_BUF, so that lines of several processes do not mix in one
 * pipe. */
#define LOG_LINE_MAX 4096
/* Bytes of one text value before it is cut (after "…" stands for the rest). */
#define LOG_VALUE_MAX 1024

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

/* What is kept of a pipe that may be full; for log.c alone. */
struct log_pipe {
	pthread_mutex_t
		lock; /* also around the write, so that the room that was seen is still there */
	int64_t lost; /* lines since the last that was written */
	int64_t patience_ms; /* left until refill_ms, of the monotonic clock */
	int64_t refill_ms;
};

/* Zero is: text, errors only, to fd 0; use log_init. */
struct log {
	int fd;
	enum log_format format;
	enum log_level level;  /* the most talkative that is written */
	struct log_pipe *pipe; /* borrowed; NULL: a write may wait */
};

enum log_kind { LOG_KIND_TEXT, LOG_KIND_INT, LOG_KIND_BOOL };

/* A key and its value. The key is ours: a-z, 0-9 and '_'. Text is borrowed for the call. */
struct log_field {
	const char *key;
	enum log_kind kind;
	struct slice text;
	int64_t number;
};

static inline struct log_field log_slice(const char *key, struct slice value)
{
	return (struct log_field){key, LOG_KIND_TEXT, value, 0};
}

/* value NULL: the field is left out. */
static inline struct log_field log_str(const char *key, const char *value)
{
	return (struct log_field){key, LOG_KIND_TEXT, slice_of(value), 0};
}

static inline struct log_field log_int(const char *key, int64_t value)
{
	return (struct log_field){key, LOG_KIND_INT, {NULL, 0}, value};
}

static inline struct log_field log_bool(const char *key, bool value)
{
	return (struct log_field){key, LOG_KIND_BOOL, {NULL, 0}, value};
}

/* Text on fd (2: stderr) from info upwards. */
void log_init(struct log *l, int fd);

/* From now on no line waits for long for somebody who does not read the pipe or socket that l
 * writes to: after 200 ms in any ten seconds, for all lines together, lines are dropped, and
 * counted in the next that is taken. Other kinds of file stay as they are. p must outlive the last
 * line; before other threads use l. */
void log_never_wait(struct log *l, struct log_pipe *p);

/* "text" or "json"; "error", "warn", "info" or "debug". ERR_INVALID otherwise, the setting
 * unchanged. */
int log_set_format(struct log *l, const char *name, struct err *err);
int log_set_level(struct log *l, const char *name, struct err *err);

/* Is this level written? For fields that are dear to compute. */
static inline bool log_on(const struct log *l, enum log_level level)
{
	return level <= l->level;
}

/* Write one line: `2026-11-21T09:30:00.123Z info msg key=value …`, or one JSON object with time,
 * level, msg and the fields. Fields with absent text are left out. Control bytes, bad UTF-8 and
 * characters that turn a line around are escaped; too long a value is cut, a field that does not
 * fit any more is left out and `cut=true` says so. A failed write is ignored: nobody is left to
 * tell. Any thread, as long as nobody changes l. */
void log_fields(const struct log *l, enum log_level level, const char *msg,
	const struct log_field *field, size_t nfields);

/* log_line(l, LOG_LEVEL_INFO, "review", log_str("uid", uid), log_int("ms", 3)); at least one field.
 */
#define log_line(l, level, msg, ...)                                                               \
	log_fields(l, level, msg, (const struct log_field[]){__VA_ARGS__},                         \
		sizeof((const struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field))

/* A line without fields. */
void log_text(const struct log *l, enum log_level level, const char *msg);

#endif
