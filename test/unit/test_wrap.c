/* SPDX-License-Identifier: Apache-2.0 */
/* core/inject/wrap: the program gets the very argv it would have had. */
#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/inject/wrap.h"

#define PAIRS 12000
#define WORDS_MAX 64

/* What the kubelet does to each word of command and args: $(VAR) of the container's environment, $$
 * for one $ (k8s.io/kubernetes third_party/forked/golang/expansion). */
static void expand(struct slice in, struct buf *out)
{
	static const char *const env[][2] = {{"A", "x y"}, {"TOKEN", "s3$cret"}, {"EMPTY", ""}};

	for (size_t i = 0; i < in.len; i++) {
		bool done = false;

		if (in.at[i] != '$' || i + 1 == in.len) {
			buf_char(out, in.at[i]);
			continue;
		}
		if (in.at[i + 1] == '$') {
			buf_char(out, '$');
			i++;
			continue;
		}
		if (in.at[i + 1] != '(') {
			buf_char(out, '$');
			continue;
		}
		for (size_t end = i + 2; end < in.len; end++) {
			if (in.at[end] != ')')
				continue;
			struct slice name = {in.at + i + 2, end - i - 2};
			const char *value = NULL;

			for (size_t k = 0; k < 3; k++)
				if (slice_is(name, env[k][0]))
					value = env[k][1];
			if (value)
				buf_str(out, value);
			else
				buf_add(out, in.at + i, end - i + 1);
			i = end;
			done = true;
			break;
		}
		if (!done)
			buf_char(out, '$');
	}
}

/* An argv after the kubelet. Words are kept in one buffer. */
struct argv {
	struct buf bytes;
	size_t at[WORDS_MAX + 32], len[WORDS_MAX + 32];
	size_t n;
};

static void argv_add(struct argv *a, struct slice word)
{
	a->at[a->n] = a->bytes.len;
	expand(word, &a->bytes);
	a->len[a->n] = a->bytes.len - a->at[a->n];
	a->n++;
}

static struct slice argv_word(const struct argv *a, size_t i)
{
	return (struct slice){a->bytes.data ? a->bytes.data + a->at[i] : "", a->len[i]};
}

/* The index of the program in an argv that starts with a launcher which strips its own options. */
static size_t strip(const struct argv *a, bool separator)
{
	size_t i = 2;

	if (separator) {
		while (!slice_is(argv_word(a, i), "--"))
			i++;
		return i + 1;
	}
	while (argv_word(a, i).len > 0 && argv_word(a, i).at[0] == '-')
		i += 2;
	return i;
}

static uint32_t seed = 20;

static uint32_t pick(uint32_t n)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % n;
}

static void random_word(struct buf *b)
{
	static const char *const bits[] = {"python", "train.py", "--", "-n", "-p", "$(A)", "$$(A)",
		"$(", "$", "$$", "$(NONE)", "'", "\"", "\\", "\n", "\t", " ", "ü", "漢", "😀", "-c",
		"sh", "=", "$(TOKEN)", "$(EMPTY)", ")", "{", "}", "{amount}", "--filter", "*", ";",
		"&&", "\x7f", "$$$(A)", "/bin/sh"};
	uint32_t n = pick(5);

	for (uint32_t i = 0; i < n; i++)
		buf_str(b, bits[pick(COUNT(bits))]);
}

/* A JSON array of n random words. */
static void random_array(struct buf *json, const char *key, size_t n)
{
	struct buf word;

	buf_init(&word, 4096);
	buf_fmt(json, ",\"%s\":[", key);
	for (size_t i = 0; i < n; i++) {
		buf_clear(&word);
		random_word(&word);
		if (i > 0)
			buf_char(json, ',');
		buf_json_str(json, buf_as_slice(&word));
	}
	buf_char(json, ']');
	buf_release(&word);
}

static void add_all(struct fixture *f, struct argv *a, const struct json_node *array)
{
	JSON_EACH(&f->json, array, e)
	argv_add(a, json_str(&f->json, e, &f->scratch));
}

static void check_pair(struct fixture *f, const struct launch *l, size_t *ret_wrapped)
{
	const struct json_node *c = json_root(&f->json);
	const struct json_node *command = json_get(&f->json, c, SLICE("command"));
	const struct json_node *args = json_get(&f->json, c, SLICE("args"));
	static struct argv want, got;
	struct warnings w = {0};
	struct wrap wrap;
	size_t program;

	want.n = got.n = 0;
	buf_init(&want.bytes, 1 << 20);
	buf_init(&got.bytes, 1 << 20);
	if (wrap_command(&f->json, c, l, &f->scratch, &w, &wrap, &f->err) < 0 ||
		wrap.mode == COMMAND_OWN)
		return;
	++*ret_wrapped;
	if (wrap.mode == COMMAND_SHELL) {
		argv_add(&want, SLICE("sh"));
		argv_add(&want, SLICE("-c"));
	}
	add_all(f, &want, command);
	add_all(f, &want, args);
	for (size_t i = 0; i < wrap.n_words; i++)
		argv_add(&got, wrap.words[i]);
	add_all(f, &got, command);
	add_all(f, &got, args);
	/* what a variable holds is only known in the pod: "$(EMPTY)-n" looks like a program, and is
	 * an option */
	if (l->profile->separator.at || want.len[0] == 0 || argv_word(&want, 0).at[0] != '-') {
		program = strip(&got, l->profile->separator.at != NULL);
		assert_int_equal(got.n - program, want.n);
	} else {
		program = got.n - want.n;
	}
	for (size_t i = 0; i < want.n; i++)
		if (!slice_eq(argv_word(&got, program + i), argv_word(&want, i)))
			fail_msg("word %zu of %s", i, f->json_text);
	buf_release(&want.bytes);
	buf_release(&got.bytes);
}

static struct fixture fix;

FIXTURES(fixture_init, fixture_release)

TEST(test_argv_is_exact)
{
	struct slice filters[] = {SLICE("server.name=$(HOME)"), SLICE("a$$b=c d")};
	struct buf json;
	size_t wrapped = 0;

	buf_init(&json, 1 << 20);
	for (size_t i = 0; i < PAIRS; i++) {
		struct launch l = {.profile = &fix.profiles[i % 4 == 0],
			.client = fix.profiles[i % 4 == 0].clients,
			.amount = 1 + i % 3,
			.percent = i % 2 ? 50 : 0,
			.memory_mb = i % 2 ? 0 : 4000,
			.filters = filters,
			.n_filters = i % 3};

		buf_clear(&json);
		buf_str(&json, "{\"name\":\"c\"");
		random_array(&json, "command", 1 + pick(6));
		random_array(&json, "args", pick(4));
		buf_char(&json, '}');
		fixture_raw(&fix, json.data);
		check_pair(&fix, &l, &wrapped);
	}
	/* some are refused (one string with blanks beside args, a dash without separator), most are
	 * wrapped */
	assert_true(wrapped >= 10000);
	buf_release(&json);
}

TEST(test_filters_survive_the_kubelet)
{
	struct slice filters[] = {SLICE("server.name=$(HOME)")};
	struct launch l;
	struct wrap w;
	struct argv a = {0};

	l = (struct launch){.profile = &fix.profiles[0],
		.client = fix.profiles[0].clients,
		.amount = 2,
		.percent = 50,
		.filters = filters,
		.n_filters = 1};
	assert_int_equal(wrap_words(&l, COMMAND_WRAPPED, &fix.scratch, &w, &fix.err), 0);
	buf_init(&a.bytes, 4096);
	for (size_t i = 0; i < w.n_words; i++)
		argv_add(&a, w.words[i]);
	assert_int_equal(a.n, 9);
	assert_true(slice_is(argv_word(&a, 5), "0.500000"));
	assert_true(slice_is(argv_word(&a, 7), "server.name=$(HOME)"));
	assert_true(slice_is(argv_word(&a, 8), "--"));
	buf_release(&a.bytes);
}

/* container; what becomes of its command; part of the refusal */
static const struct {
	const char *container;
	int rc;
	enum command_mode mode;
	const char *says;
} modes[] = {
	{"{'command':['python','t.py']}", 0, COMMAND_WRAPPED, NULL},
	{"{'command':['python t.py']}", 0, COMMAND_SHELL, NULL},
	{"{'command':['python\\tt.py']}", 0, COMMAND_SHELL, NULL},
	{"{'command':['python t.py'],'args':[]}", 0, COMMAND_SHELL, NULL},
	{"{'command':['python t.py'],'args':null}", 0, COMMAND_SHELL, NULL},
	{"{'command':['python t.py'],'args':['x']}", ERR_INVALID, 0, "beside args"},
	{"{'command':['']}", 0, COMMAND_WRAPPED, NULL},
	{"{'command':['/bin/sh','-c','cd /w && python t.py']}", 0, COMMAND_WRAPPED, NULL},
	{"{}", ERR_INVALID, 0, "no command"},
	{"{'command':[]}", ERR_INVALID, 0, "no command"},
	{"{'args':['x']}", ERR_INVALID, 0, "args but no command"},
	{"{'command':'python'}", ERR_INVALID, 0, "expected an array"},
	{"{'command':['a',1]}", ERR_INVALID, 0, "expected a string"},
	{"{'command':['bitfusion','run','-n','1','-p','0.5','--','python']}", 0, COMMAND_OWN, NULL},
	{"{'command':['/usr/bin/bitfusion','run','-n','1','-p','0.50']}", 0, COMMAND_OWN, NULL},
	{"{'command':['/bin/bash','-c','bitfusion run -n 1 -p 0.5 -- python']}", 0, COMMAND_OWN,
		NULL},
	{"{'command':['/bin/bash','-c'],'args':['exec bitfusion run -n1 --partial=0.5 python']}", 0,
		COMMAND_OWN, NULL},
	{"{'command':['bash','-o','pipefail','-ec','bitfusion run -n 1 -p 0.5 x']}", 0, COMMAND_OWN,
		NULL},
	{"{'command':['bitfusion run -n 1 -p 0.5 python']}", 0, COMMAND_OWN, NULL},
	{"{'command':['bitfusion','run','-n','8','-p','0.5','--','python']}", ERR_INVALID, 0,
		"GPU count of 8"},
	{"{'command':['bitfusion','run','-n','1','--','python','-p','0.5']}", ERR_INVALID, 0,
		"50 percent"},
	{"{'command':['bitfusion','run','-n','1','-m','4000']}", ERR_INVALID, 0, "memory 4000"},
	{"{'command':['bitfusion','run','-n','$N','-p','0.5']}", ERR_INVALID, 0,
		"GPU count of (not a number)"},
	{"{'command':['bitfusion','run','-n','1','-p','hunter2']}", ERR_INVALID, 0,
		"a share (not a number)"},
	{"{'command':['bitfusion','run','-n','1','-password=hunter2']}", ERR_INVALID, 0,
		"a share (not a number)"},
	{"{'command':['bitfusion','run','-n','1','-p','0.5','-m','hunter2']}", ERR_INVALID, 0,
		"memory (not a number)"},
	{"{'command':['t.py --password=hunter2'],'args':['x']}", ERR_INVALID, 0, "beside args"},
	{"{'command':['sh','-c','echo bitfusion']}", 0, COMMAND_WRAPPED, NULL},
	{"{'command':['python /opt/bitfusion']}", 0, COMMAND_SHELL, NULL},
	{"{'command':['python','bitfusion']}", 0, COMMAND_WRAPPED, NULL},
	/* a shell with nothing to do */
	{"{'command':['sh','-c','']}", 0, COMMAND_WRAPPED, NULL},
	{"{'command':['sh','-c',' \\t']}", 0, COMMAND_WRAPPED, NULL},
	{"{'command':['sh','-c','exec']}", 0, COMMAND_WRAPPED, NULL},
	{"{'command':['sh','-c']}", 0, COMMAND_WRAPPED, NULL},
	/* quotes around the launcher's words, and what is no pair of them */
	{"{'command':['sh','-c','\\\"bitfusion\\\" run -n 1 -p 0.5 x']}", 0, COMMAND_OWN, NULL},
	{"{'command':['sh','-c','\\\"/opt/bitfusion\\\" run -n \\\"1\\\" -p 0.5 x']}", 0,
		COMMAND_OWN, NULL},
	{"{'command':['sh','-c','\\\"bitfusion run']}", 0, COMMAND_WRAPPED, NULL},
	/* An option that is not known takes the next word along, one of one letter too, unless it
	   is an option. */
	{"{'command':['bitfusion','run','--foo','5','-n','1','-p','0.5','x']}", 0, COMMAND_OWN,
		NULL},
	{"{'command':['bitfusion','run','--foo','-n','1','-p','0.5','x']}", 0, COMMAND_OWN, NULL},
	{"{'command':['bitfusion','run','--foo','5','-n','2','-p','0.5','x']}", ERR_INVALID, 0,
		NULL},
	{"{'command':['bitfusion','run','--foo','','-n','1','-p','0.5','x']}", 0, COMMAND_OWN,
		NULL},
	{"{'command':['sh','-c','bitfusion run --foo \\u0027\\u0027 -n 1 -p 0.5 x']}", 0,
		COMMAND_OWN, NULL},
	{"{'command':['bitfusion','run','-','-n','1','-p','0.5','x']}", 0, COMMAND_OWN, NULL},
	/* the program and what is behind it is nobody's option */
	{"{'command':['bitfusion','run','-n','1','-p','0.5','x','-n','8']}", 0, COMMAND_OWN, NULL},
	{"{'command':['bitfusion','run','-n','1','-p','0.5','','-n','8']}", 0, COMMAND_OWN, NULL},
	{"{'command':['bitfusion','run','-n','1','-p','0.5','--','-n','8']}", 0, COMMAND_OWN, NULL},
	{"{'command':['bitfusion','-n','1','-p','0.5','x']}", 0, COMMAND_OWN, NULL},
	/* an option as the last word has no value */
	{"{'command':['bitfusion','run','-n','1','-p','0.5','--foo']}", 0, COMMAND_OWN, NULL},
	{"{'command':['bitfusion','run','--foo=','x','-n','8']}", ERR_INVALID, 0, "50 percent"},
	/* single quotes, and what is no pair */
	{"{'command':['sh','-c','\\u0027bitfusion\\u0027 run -n 1 -p 0.5 x']}", 0, COMMAND_OWN,
		NULL},
	{"{'command':['sh','-c','\\u0027bitfusion\\\" run -n 1 -p 0.5 x']}", 0, COMMAND_WRAPPED,
		NULL},
	{"{'command':['sh','-c','bbitfusionb run -n 8']}", 0, COMMAND_WRAPPED, NULL},
	/* a shell's words in front of its script */
	{"{'command':['sh','-e','-c','bitfusion run -n 1 -p 0.5 x']}", 0, COMMAND_OWN, NULL},
	{"{'command':['sh','+e','-c','bitfusion run -n 1 -p 0.5 x']}", 0, COMMAND_OWN, NULL},
	{"{'command':['bash','+o','posix','-c','bitfusion run -n 1 -p 0.5 x']}", 0, COMMAND_OWN,
		NULL},
	{"{'command':['bash','--norc','-c','bitfusion run -n 1 -p 0.5 x']}", 0, COMMAND_OWN, NULL},
	{"{'command':['bash','--foo','-c','bitfusion run -n 1 -p 0.5 x']}", 0, COMMAND_OWN, NULL},
	{"{'command':['bash','--o','-c','bitfusion run -n 1 -p 0.5 x']}", 0, COMMAND_OWN, NULL},
	{"{'command':['sh','-','-c','bitfusion run -n 8']}", 0, COMMAND_WRAPPED, NULL},
	{"{'command':['sh','','-c','bitfusion run -n 8']}", 0, COMMAND_WRAPPED, NULL},
	{"{'command':['sh','x.sh','-c','bitfusion run -n 8']}", 0, COMMAND_WRAPPED, NULL},
	{"{'command':['sh','cc','-c','bitfusion run -n 8']}", 0, COMMAND_WRAPPED, NULL},
	{"{'command':['sh','-e','bitfusion run -n 8']}", 0, COMMAND_WRAPPED, NULL},
	/* a line of one string that ends like a shell's name is a line all the same */
	{"{'command':['bitfusion run -n 1 -p 0.5 /bin/sh'],'args':['x.sh','y']}", 0, COMMAND_OWN,
		NULL},
	{"{'command':['bitfusion run -n 1 -p 0.5 /bin/sh'],'args':['-e','x.sh']}", 0, COMMAND_OWN,
		NULL},
	{"{'command':['bitfusion run -n 1 -p 0.5 /bin/sh'],'args':['x.sh']}", 0, COMMAND_OWN, NULL},
};

TEST(test_modes)
{
	for (size_t i = 0; i < COUNT(modes); i++) {
		struct launch l = {.profile = &fix.profiles[0],
			.client = fix.profiles[0].clients,
			.amount = 1,
			.percent = 50};
		const struct json_node *c = fixture_pod(&fix, modes[i].container);
		struct warnings w = {0};
		struct wrap wrap = {0};
		int rc = wrap_command(&fix.json, c, &l, &fix.scratch, &w, &wrap, &fix.err);

		if (rc != modes[i].rc || (rc == 0 && wrap.mode != modes[i].mode))
			fail_msg("%s: %d %s", modes[i].container, rc,
				rc ? fix.err.msg : command_mode_name(wrap.mode));
		if (modes[i].says && !strstr(fix.err.msg, modes[i].says))
			fail_msg("%s: %s", modes[i].container, fix.err.msg);
		/* a refusal goes on into logs, pages and events */
		if (rc != 0 && strstr(fix.err.msg, "hunter2"))
			fail_msg("quotes the command: %s", fix.err.msg);
	}
}

/* How many GPUs the command and the resources speak of; part of the refusal, or NULL. */
static const struct {
	const char *options;
	uint32_t amount;
	const char *says;
} amounts[] = {
	{"'-n','1'", 1, NULL},
	{"'-n','2'", 2, NULL},
	{"'-n','2.0'", 2, NULL},
	{"'-n2'", 2, NULL},
	/* without the option it is one */
	{"'-p','1'", 1, NULL},
	{"'-p','1'", 2, "a GPU count of 1, but the resources ask for 2 GPUs;"},
	{"'-n','2'", 1, "a GPU count of 2, but the resources ask for 1 GPU;"},
	{"'-n','0'", 1, "a GPU count of 0, but the resources ask for 1 GPU;"},
	{"'-n','1.000001'", 1, "a GPU count of 1.000001, but the resources ask for 1 GPU;"},
	{"'-n','2.5'", 2, "a GPU count of 2.5, but the resources ask for 2 GPUs;"},
	{"'-n','1'", 11, "a GPU count of 1, but the resources ask for 11 GPUs;"},
	{"'-n','2','-p','0.5'", 2, "a share 0.5, but the resources ask for 100 percent;"},
};

TEST(test_amounts)
{
	for (size_t i = 0; i < COUNT(amounts); i++) {
		struct launch l = {.profile = &fix.profiles[0],
			.client = fix.profiles[0].clients,
			.amount = amounts[i].amount,
			.percent = 100};
		struct warnings w = {0};
		struct wrap wrap = {0};
		char text[128];
		int rc;

		(void)snprintf(text, sizeof(text), "{'command':['bitfusion','run',%s,'--','x']}",
			amounts[i].options);
		rc = wrap_command(
			&fix.json, fixture_pod(&fix, text), &l, &fix.scratch, &w, &wrap, &fix.err);
		if (rc != (amounts[i].says ? ERR_INVALID : 0))
			fail_msg("row %zu gives %d", i, rc);
		if (amounts[i].says && !strstr(fix.err.msg, amounts[i].says))
			fail_msg("row %zu: %s", i, fix.err.msg);
	}
}

/* How the option that says how many GPUs may be spelled: alone, with its value behind '=', and of
 * one letter also right behind it. */
static const struct {
	const char *words;
	bool read;
} spellings[] = {
	{"'--num','2'", true},
	{"'--num=2'", true},
	{"'--num2'", false},
	{"'--nu','2'", false},
	{"'--number','2'", false},
	{"'-gpus','2'", true},
	{"'-gpus=2'", true},
	{"'-gpus2'", false},
	{"'-n','2'", true},
	{"'-n=2'", true},
	{"'-n2'", true},
	{"'--n','2'", false},
	{"'-','2'", true},
	{"'-=2'", true},
	{"'-2'", false},
	/* the last one counts */
	{"'-n','1','--num','2'", true},
	{"'--num=2','-n1'", false},
};

TEST(test_spellings_of_an_option)
{
	struct slice names[] = {SLICE("-gpus"), SLICE("--num"), SLICE("-"), SLICE("-n")};
	struct profile p = fix.profiles[0];

	p.options.amount = names;
	p.options.n_amount = COUNT(names);
	for (size_t i = 0; i < COUNT(spellings); i++) {
		struct launch l = {.profile = &p, .client = p.clients, .amount = 2, .percent = 100};
		struct warnings w = {0};
		struct wrap wrap = {0};
		char text[128];
		int rc;

		(void)snprintf(text, sizeof(text), "{'command':['bitfusion','run',%s,'--','x']}",
			spellings[i].words);
		rc = wrap_command(
			&fix.json, fixture_pod(&fix, text), &l, &fix.scratch, &w, &wrap, &fix.err);
		if (rc != (spellings[i].read ? 0 : ERR_INVALID))
			fail_msg("row %zu gives %d: %s", i, rc, fix.err.msg);
	}
}

TEST(test_no_separator_refuses_dash)
{
	struct launch l;
	struct warnings w = {0};
	struct wrap wrap;
	const struct json_node *c;

	l = (struct launch){.profile = &fix.profiles[1],
		.client = fix.profiles[1].clients,
		.amount = 1,
		.percent = 100};
	c = fixture_pod(&fix, "{'command':['-hunter2']}");
	assert_int_equal(
		wrap_command(&fix.json, c, &l, &fix.scratch, &w, &wrap, &fix.err), ERR_INVALID);
	assert_non_null(strstr(fix.err.msg, "no separator"));
	assert_null(strstr(fix.err.msg, "hunter2"));
}

TESTS_BETWEEN(set_up, tear_down, test_argv_is_exact, test_filters_survive_the_kubelet, test_modes,
	test_amounts, test_spellings_of_an_option, test_no_separator_refuses_dash)
