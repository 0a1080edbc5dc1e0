/* SPDX-License-Identifier: Apache-2.0 */
/* base/opts: every kind of option, both ways to give a value, what is refused, and the help. */
#include "base/opts.h"
#include "test/unit/test.h"

enum answer { RUN, HELP, VERSION };
enum colour { RED, GREEN };

struct all {
	enum answer answer;
	bool yes;
	const char *text, *names[2];
	size_t n_names;
	unsigned few;
	uint16_t port;
	uint64_t many;
	int64_t ms;
	double seconds;
	enum colour colour;
	const char *own;
	struct log *log;
};

static int take_own(const struct opt *o, const char *value, void *of, struct err *err)
{
	if (value && strcmp(value, "bad") == 0)
		return opts_wrong(o, "something good", value, err);
	((struct all *)of)->own = value ? value : "none";
	return 0;
}

static const char *const colours[] = {"red", "green", NULL};
static const struct opt options[] = {
	OPT_FLAG(all, yes, "--yes", "it is so", .also = "-y"),
	OPT_TEXT(all, text, "--text", "WORD", "one\nor two"),
	OPT_TEXTS(all, names, "--name", "NAME", NULL),
	OPT_UNSIGNED(all, few, "--few", "N", NULL, .min = 2, .max = 9),
	OPT_PORT(all, port, "--port", "N", NULL, .max = UINT16_MAX),
	OPT_COUNT(all, many, "--many", "N", NULL, .max = UINT64_MAX),
	OPT_MS(all, ms, "--ms", "DURATION", NULL, .min = 10, .max = 1000),
	OPT_SECONDS(all, seconds, "--seconds", "DURATION", "a value that is rather long",
		.max = 5000, .form = "seconds"),
	OPT_WORD(all, colour, "--colour", "WORD", NULL, .words = colours),
	OPT_OWN(take_own, "--own", "[=X]", "may have a value", .also = "--mine"),
	OPT_LOG(all, log),
	OPT_ANSWER(all, answer, VERSION, "--version", ""),
	OPT_ANSWER(all, answer, HELP, "--help", ""),
};

/* Words with blanks between them; "''" is an empty one. */
static int read_line(const char *line, struct all *ret, struct err *err)
{
	static char text[256];
	static struct log log;
	char *argv[32] = {text}, *rest = NULL;
	int argc = 1;

	(void)snprintf(text, sizeof(text), "%s", line);
	for (char *at = strtok_r(text, " ", &rest); at; at = strtok_r(NULL, " ", &rest))
		argv[argc++] = strcmp(at, "''") == 0 ? at + 2 : at;
	log_init(&log, STDERR_FILENO);
	*ret = (struct all){.log = &log};
	*err = (struct err){0};
	return opts_read(options, COUNT(options), ret, &ret->answer, argc, argv, err);
}

TEST(every_kind)
{
	struct all a;
	struct err err;

	assert_int_equal(
		read_line("--yes --text t --name=a --name b=c --few 2 --few=9 --port 65535 "
			  "--many 18446744073709551615 --ms 1s --seconds=2500ms --colour green "
			  "--own=v --log-format json --log-level=warn",
			&a, &err),
		0);
	assert_int_equal(a.answer, RUN);
	assert_true(a.yes);
	assert_string_equal(a.text, "t");
	assert_int_equal(a.n_names, 2);
	assert_string_equal(a.names[1], "b=c");
	assert_int_equal(a.few, 9);
	assert_int_equal(a.port, 65535);
	assert_true(a.many == UINT64_MAX);
	assert_int_equal(a.ms, 1000);
	assert_true(a.seconds > 2.4 && a.seconds < 2.6);
	assert_int_equal(a.colour, GREEN);
	assert_string_equal(a.own, "v");
	/* No value of its own; the first answer ends the reading. */
	assert_int_equal(read_line("--own --version --nonsense --help", &a, &err), 0);
	assert_string_equal(a.own, "none");
	assert_int_equal(a.answer, VERSION);
	assert_int_equal(read_line("", &a, &err), 0);
}

TEST(refused)
{
	static const struct {
		const char *line, *says;
	} cases[] = {
		{"--nonsense", "unknown word \"--nonsense\""},
		{"text", "unknown word \"text\""},
		{"--tex t", "unknown word \"--tex\""},
		{"--help=x", "unknown word \"--help=x\""},
		{"--text", "a value is missing after --text"},
		{"--text ''", "--text takes a text, found \"\""},
		{"--text=", "--text takes a text, found \"\""},
		{"--name a --name b --name c", "--name stands more than 2 times"},
		{"--few 1", "--few takes a number from 2 to 9, found \"1\""},
		{"--few 10", "--few takes a number from 2 to 9, found \"10\""},
		{"--port 65536", "--port takes a number from 0 to 65535"},
		{"--many -1", "--many takes a number"},
		{"--ms 9ms", "--ms takes a duration from 10ms to 1000ms, found \"9ms\""},
		{"--ms 1001ms", "--ms takes a duration"},
		{"--seconds soon", "--seconds takes seconds, found \"soon\""},
		{"--colour blue", "--colour takes red or green, found \"blue\""},
		{"--own=bad", "--own takes something good, found \"bad\""},
		{"--log-format xml", "xml"},
		{"--log-level loud", "loud"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct all a;
		struct err err;

		if (read_line(cases[i].line, &a, &err) >= 0)
			fail_msg("taken: %s", cases[i].line);
		row_says(cases[i].line, err.msg, "", cases[i].says);
	}
}

TEST(help)
{
	char text[1024] = "";
	FILE *f = fmemopen(text, sizeof(text), "w");

	assert_non_null(f);
	opts_help(options, COUNT(options), 20, f);
	assert_int_equal(fclose(f), 0);
	assert_string_equal(text, "  -y, --yes         it is so\n"
				  "  --text WORD       one\n"
				  "                    or two\n"
				  "  --seconds DURATION\n"
				  "                    a value that is rather long\n"
				  "  --own, --mine[=X] may have a value\n"
				  "  --log-format text|json\n"
				  "                    [text]\n"
				  "  --log-level error|warn|info|debug\n"
				  "                    [info]\n"
				  "  --version\n"
				  "  --help\n");
}

TESTS(every_kind, refused, help)
