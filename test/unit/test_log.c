/* SPDX-License-Identifier: Apache-2.0 */
/* test: log lines: one line per call, whatever is in the values. */
#include <fcntl.h>
#include <time.h>

#include "base/log.h"
#include "test/unit/test.h"

static int pipe_fd[2];
static char line[2 * LOG_LINE_MAX];

FIXTURE(open_pipe)
{
	return pipe(pipe_fd) == 0 && fcntl(pipe_fd[0], F_SETFL, O_NONBLOCK) == 0 ? 0 : -1;
}

FIXTURE(close_pipe)
{
	(void)close(pipe_fd[0]);
	(void)close(pipe_fd[1]);
	return 0;
}

/* What was written, as text; "" for nothing. */
static const char *written(void)
{
	ssize_t n = read(pipe_fd[0], line, sizeof(line) - 1);
	line[n > 0 ? n : 0] = '\0';
	return line;
}

/* Behind the time and level of a text line. */
static const char *text_of(struct slice value)
{
	struct log l;
	log_init(&l, pipe_fd[1]);
	log_line(&l, LOG_LEVEL_INFO, "m", log_slice("k", value));
	const char *at = strstr(written(), " info m k=");
	assert_non_null(at);
	return at + 10;
}

static const char *json_of(struct slice value)
{
	struct log l;
	log_init(&l, pipe_fd[1]);
	l.format = LOG_FORMAT_JSON;
	log_line(&l, LOG_LEVEL_INFO, "m", log_slice("k", value));
	const char *at = strstr(written(), "\"msg\":\"m\",\"k\":");
	assert_non_null(at);
	return at + 14;
}

TEST(shapes)
{
	struct log l;
	log_init(&l, pipe_fd[1]);
	log_line(&l, LOG_LEVEL_WARN, "review refused", log_str("uid", "a-b"), log_int("ms", -3),
		log_bool("dry_run", true), log_str("absent", NULL), log_str("empty", ""));
	const char *out = written();
	int y, mo, d, h, mi, s, ms, n = 0;
	assert_int_equal(
		sscanf(out, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ %n", &y, &mo, &d, &h, &mi, &s, &ms, &n),
		7);
	assert_int_equal(n, 25);
	struct tm then = {.tm_year = y - 1900,
		.tm_mon = mo - 1,
		.tm_mday = d,
		.tm_hour = h,
		.tm_min = mi,
		.tm_sec = s};
	time_t ago = time(NULL) - timegm(&then);
	assert_true(ago >= 0 && ago < 60);
	assert_string_equal(out + n, "warn review refused uid=a-b ms=-3 dry_run=true empty=\"\"\n");
	log_line(&l, LOG_LEVEL_INFO, "m", log_int("a", INT64_MIN), log_int("b", INT64_MAX),
		log_int("c", 0));
	assert_non_null(strstr(written(), " a=-9223372036854775808 b=9223372036854775807 c=0\n"));
	l.format = LOG_FORMAT_JSON;
	log_line(&l, LOG_LEVEL_ERROR, "m", log_str("uid", "a-b"), log_int("ms", 3),
		log_bool("x", false));
	out = written();
	assert_int_equal(strncmp(out, "{\"time\":\"20", 11), 0);
	assert_string_equal(strstr(out, "\",\"level\""),
		"\",\"level\":\"error\",\"msg\":\"m\",\"uid\":\"a-b\",\"ms\":3,\"x\":false}\n");
	log_text(&l, LOG_LEVEL_INFO, "started");
	assert_non_null(strstr(written(), "\"msg\":\"started\"}\n"));
}

TEST(levels)
{
	struct log l;
	struct err err = {0};
	log_init(&l, pipe_fd[1]);
	log_text(&l, LOG_LEVEL_DEBUG, "not seen");
	assert_string_equal(written(), "");
	assert_int_equal(log_set_level(&l, "debug", &err), 0);
	log_text(&l, LOG_LEVEL_DEBUG, "seen");
	assert_non_null(strstr(written(), " debug seen\n"));
	assert_int_equal(log_set_level(&l, "error", &err), 0);
	log_text(&l, LOG_LEVEL_WARN, "not seen");
	assert_string_equal(written(), "");
	assert_int_equal(log_set_level(&l, "loud", &err), ERR_INVALID);
	assert_non_null(strstr(err.msg, "loud"));
	assert_int_equal(l.level, LOG_LEVEL_ERROR);
	assert_int_equal(log_set_format(&l, "json", &err), 0);
	assert_int_equal(log_set_format(&l, "JSON", &err), ERR_INVALID);
	assert_int_equal(l.format, LOG_FORMAT_JSON);
	assert_int_equal(log_set_format(&l, "text", &err), 0);
}

TEST(nobody_forges_a_line)
{
	const struct {
		struct slice value;
		const char *text, *json; /* NULL: as in text */
	} cases[] = {
		{SLICE("plain"), "plain\n", "\"plain\"}\n"},
		{SLICE("two words"), "\"two words\"\n", "\"two words\"}\n"},
		{SLICE("a\n2026-01-01T00:00:00.000Z info forged"),
			"\"a\\n2026-01-01T00:00:00.000Z info forged\"\n", NULL},
		{SLICE("a\r\tb"), "\"a\\u000d\\tb\"\n", NULL},
		{SLICE("a\" k2=\"v"), "\"a\\\" k2=\\\"v\"\n", NULL},
		{SLICE("k=v"), "\"k=v\"\n", NULL},
		{SLICE("back\\slash"), "\"back\\\\slash\"\n", NULL},
		{SLICE("nul\0byte"), "\"nul\\u0000byte\"\n", NULL},
		{SLICE("\x1b[31mred"), "\"\\u001b[31mred\"\n", NULL},
		{SLICE("\x7f"), "\"\\u007f\"\n", NULL},
		{SLICE("\xc2\x9b"
		       "31m"),
			"\"\\u009b31m\"\n", NULL},                            /* C1: CSI */
		{SLICE("\xe2\x80\xa8"), "\"\\u2028\"\n", NULL},               /* line separator */
		{SLICE("\xe2\x80\xaetxt.exe"), "\"\\u202etxt.exe\"\n", NULL}, /* right to left */
		{SLICE("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), "\"é€😀\"\n", NULL},
		{SLICE("\xff\xc3("), "\"\\ufffd\\ufffd(\"\n", NULL},          /* bad UTF-8 */
		{SLICE("\xed\xa0\x80"), "\"\\ufffd\\ufffd\\ufffd\"\n", NULL}, /* a surrogate */
		{SLICE("\xe2\x82"), "\"\\ufffd\\ufffd\"\n", NULL},            /* cut off */
		{SLICE(""), "\"\"\n", "\"\"}\n"},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		char json[256];
		if (strcmp(text_of(cases[i].value), cases[i].text) != 0)
			fail_msg("case %zu: %s", i, line);
		(void)snprintf(json, sizeof(json), "%.*s}\n", (int)strlen(cases[i].text) - 1,
			cases[i].text);
		if (strcmp(json_of(cases[i].value), cases[i].json ? cases[i].json : json) != 0)
			fail_msg("case %zu: %s", i, line);
	}
}

/* What moves a cursor, ends a line or turns its direction, and nothing else. */
TEST(each_character)
{
	static const unsigned harmful[][2] = {{0, 0x1f}, {0x7f, 0x9f}, {0x61c, 0x61c},
		{0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}, {0xfeff, 0xfeff}};

	for (unsigned c = 0x80; c < 0xffff; c = c == 0x2100 ? 0xf000 : c + 1) {
		char text[4] = {(char)(0xe0 | c >> 12), (char)(0x80 | (c >> 6 & 0x3f)),
			(char)(0x80 | (c & 0x3f))};
		size_t len = 3;
		bool hides = false;

		if (c < 0x800) {
			text[0] = (char)(0xc0 | c >> 6);
			text[1] = text[2];
			len = 2;
		}
		for (size_t i = 0; i < COUNT(harmful); i++)
			hides = hides || (c >= harmful[i][0] && c <= harmful[i][1]);
		if ((text_of((struct slice){text, len})[1] == '\\') != hides)
			fail_msg("U+%04X %s", c, hides ? "stands there" : "does not");
	}
}

TEST(a_hostile_message)
{
	struct log l;
	log_init(&l, pipe_fd[1]);
	log_text(&l, LOG_LEVEL_INFO, "TLS: \n forged");
	assert_non_null(strstr(written(), " info \"TLS: \\n forged\"\n"));
	log_text(&l, LOG_LEVEL_INFO, NULL);
	assert_non_null(strstr(written(), " info \n"));
}

TEST(long_values)
{
	static char big[10000];
	memset(big, 'x', sizeof(big));
	const char *out = text_of((struct slice){big, sizeof(big)});
	assert_int_equal(strlen(out), 1 + LOG_VALUE_MAX + strlen("…") + 1 + 1);
	assert_non_null(strstr(out, "x…\"\n"));
	/* A cut never leaves half a character. */
	for (size_t i = 0; i + 2 <= sizeof(big); i += 2)
		memcpy(big + i, "é", 2);
	out = text_of((struct slice){big + 1, LOG_VALUE_MAX + 5});
	assert_null(strchr(out, '?'));
	assert_non_null(strstr(out, "é…\"\n"));
	/* What is escaped counts as one byte, and the last that fits is still there. */
	memset(big, 'x', LOG_VALUE_MAX + 1);
	big[10] = '"';
	big[LOG_VALUE_MAX - 1] = '\n';
	out = text_of((struct slice){big, LOG_VALUE_MAX});
	assert_int_equal(strlen(out), 1 + LOG_VALUE_MAX + 2 + 1 + 1);
	assert_non_null(strstr(out, "x\\n\"\n"));
	out = text_of((struct slice){big, LOG_VALUE_MAX + 1});
	assert_non_null(strstr(out, "x\\n…\"\n"));
	/* More fields than fit: what does not is left out, and the line says so and stays whole. */
	struct log l;
	struct log_field field[10];
	memset(big, 'y', sizeof(big));
	log_init(&l, pipe_fd[1]);
	for (int json = 0; json < 2; json++) {
		l.format = json ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT;
		for (int i = 0; i < 10; i++)
			field[i] = log_slice("big", (struct slice){big, 1000});
		field[9] = log_int("small", 7);
		log_fields(&l, LOG_LEVEL_INFO, "m", field, 10);
		out = written();
		assert_true(strlen(out) <= LOG_LINE_MAX);
		assert_non_null(
			strstr(out, json ? ",\"small\":7,\"cut\":true}\n" : " small=7 cut=true\n"));
		assert_ptr_equal(strchr(out, '\n'), out + strlen(out) - 1);
	}
}

TEST(a_closed_fd_is_survived)
{
	struct log l;
	log_init(&l, -1);
	log_text(&l, LOG_LEVEL_ERROR, "nobody hears this");
	assert_string_equal(written(), "");
}

/* Fill the pipe; how many bytes that were. */
static size_t fill_pipe(int fd)
{
	static const char dots[4096];
	size_t n = 0;
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	for (ssize_t one = 0; one >= 0; n += one > 0 ? (size_t)one : 0)
		one = write(fd, dots, sizeof(dots));
	assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
	return n;
}

/* Who does not read must not stop who serves; later it is said how much was lost. The alarm ends a
 * test that waits for ever. */
TEST(a_pipe_that_nobody_reads)
{
	struct log l;
	struct log_pipe p;
	struct timespec began, ended;
	FILE *file = tmpfile();
	assert_non_null(file);
	log_init(&l, fileno(file));
	log_never_wait(&l, &p);
	assert_null(l.pipe); /* a file takes what it is given */
	(void)fclose(file);
	log_init(&l, pipe_fd[1]);
	log_never_wait(&l, &p);
	(void)alarm(60);
	size_t filled = fill_pipe(pipe_fd[1]);
	(void)clock_gettime(CLOCK_MONOTONIC, &began);
	for (int i = 0; i < 1000; i++)
		log_line(&l, LOG_LEVEL_INFO, "lost", log_int("number", i));
	(void)clock_gettime(CLOCK_MONOTONIC, &ended);
	assert_true(ended.tv_sec - began.tv_sec < 5);
	for (size_t n = 0; n < filled;) {
		ssize_t one = read(pipe_fd[0], line, sizeof(line));
		assert_true(one > 0);
		n += (size_t)one;
	}
	assert_string_equal(written(), "");
	log_text(&l, LOG_LEVEL_INFO, "heard");
	log_text(&l, LOG_LEVEL_INFO, "heard, too");
	const char *count = strstr(
		written(), " warn lines of the log were lost: nobody read them lines=1000\n");
	const char *next = strstr(line, " info heard\n"),
		   *last = strstr(line, " info heard, too\n");
	assert_true(count && next && last && count < next && next < last);
	assert_null(strstr(next, "were lost"));
	(void)alarm(0);
}

TESTS_WITHIN(open_pipe, close_pipe, shapes, levels, nobody_forges_a_line, each_character,
	a_hostile_message, long_values, a_closed_fd_is_survived, a_pipe_that_nobody_reads)
