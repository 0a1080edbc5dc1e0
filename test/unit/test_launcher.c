/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of webhook/core/launcher/launcher: templates, argv, clients, and what a profile can
 * express. */

#include "base/buf.h"
#include "test/unit/test.h"
#include "webhook/core/launcher/launcher.h"

ARENA_FIXTURES(1 << 20)

static struct profile_value values[] = {
	{{"binary", 6}, {"/opt/x/bin/tool", 15}}, {{"lib", 3}, {"/opt/x/lib", 10}}};

static const struct profile_client client = {.values = values, .n_values = 2};

static const struct slice filters[] = {{"gpu.model=V100", 14}, {"a=b", 3}};
static const struct slice servers[] = {{"10.0.0.1:14833", 14}, {"[fd00::2]:14833", 15}};

static struct launch launch(uint32_t amount, uint32_t percent, uint64_t memory_mb)
{
	return (struct launch){.client = &client,
		.amount = amount,
		.percent = percent,
		.memory_mb = memory_mb,
		.filters = filters,
		.n_filters = 2,
		.servers = servers,
		.n_servers = 2};
}

static void expect(struct slice got, const char *want)
{
	if (!slice_is(got, want))
		fail_msg("got \"%.*s\", expected \"%s\"", (int)got.len, got.at, want);
}

TEST(test_expand)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"", ""},
		{"plain", "plain"},
		{"}", "}"},
		{"{{", "{"},
		{"a{{b}", "a{b}"},
		{"{{amount}", "{amount}"},
		{"{amount}", "3"},
		{"n={amount},{amount};", "n=3,3;"},
		{"{percent}%", "13%"},
		{"{fraction}", "0.130000"},
		{"{memory_mb}m", "8589m"},
		{"{memory_gib}", "8"},
		{"{filters}", "gpu.model=V100,a=b"},
		{"{filter}", "x=y"},
		{"{servers}", "10.0.0.1:14833,[fd00::2]:14833"},
		{"{server_host}", "10.0.0.1"},
		{"{client.binary}", "/opt/x/bin/tool"},
		{"{client.lib}:{client.lib}", "/opt/x/lib:/opt/x/lib"},
	};
	struct launch l = launch(3, 13, 8589);

	for (size_t i = 0; i < COUNT(cases); i++)
		expect(template_expand(slice_of(cases[i].text), &l, SLICE("x=y"), &arena),
			cases[i].want);
}

/* Exactly what printf("%f", percent / 100.0) gives, for every percent there is. */
TEST(test_fraction)
{
	for (uint32_t percent = 1; percent <= 100; percent++) {
		struct launch l = launch(1, percent, 0);
		char want[16];

		snprintf(want, sizeof(want), "%f", (double)percent / 100.0);
		expect(template_expand(SLICE("{fraction}"), &l, SLICE(""), &arena), want);
	}
}

TEST(test_memory_gib)
{
	static const struct {
		uint64_t mb;
		const char *want;
	} cases[] = {
		{1, "1"},
		{1073, "1"},
		{1074, "2"},
		{8589, "8"},
		{8590, "9"},
		{16000, "15"},
		/* 2^30 and 10^6 have 2^6 in common: a whole number of both, and one more */
		{16777216, "15625"},
		{16777217, "15626"},
		{1000000000, "931323"},
		{UINT64_MAX, "17179869184000000"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct launch l = launch(1, 0, cases[i].mb);

		expect(template_expand(SLICE("{memory_gib}"), &l, SLICE(""), &arena),
			cases[i].want);
	}
}

TEST(test_server_host)
{
	static const struct {
		const char *address, *want;
	} cases[] = {
		{"10.0.0.1:1", "10.0.0.1"},
		{"gpu-01", "gpu-01"},
		{"gpu-01.lab:14833", "gpu-01.lab"},
		{"[fd00::1]:14833", "fd00::1"},
		{"[fd00::1]", "fd00::1"},
		{"[broken", "[broken"},
		{"", ""},
	};
	struct launch none = launch(1, 100, 0);

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct slice address = slice_of(cases[i].address);
		struct launch l = launch(1, 100, 0);

		l.servers = &address;
		l.n_servers = 1;
		expect(template_expand(SLICE("{server_host}"), &l, SLICE(""), &arena),
			cases[i].want);
	}
	none.n_servers = 0;
	expect(template_expand(SLICE("<{server_host}>"), &none, SLICE(""), &arena), "<>");
}

TEST(test_expand_out_of_memory)
{
	static const char *const texts[] = {"{fraction}", "={client.binary}"};
	struct launch l = launch(1, 100, 0);
	struct arena tiny;

	for (size_t i = 0; i < COUNT(texts); i++) {
		arena_init(&tiny, 4);
		assert_null(template_expand(slice_of(texts[i]), &l, SLICE(""), &tiny).at);
		assert_true(tiny.failed);
		arena_release(&tiny);
	}
}

/* Where places come late, with so little memory: nothing, or all of it. */
TEST(test_render_out_of_memory)
{
	struct launch l = launch(3, 100, 0);
	struct slice got = {0};

	l.late = true;
	for (size_t max = 0; !got.at; max++) {
		struct arena tiny;

		assert_true(max < 1000);
		arena_init(&tiny, max);
		got = template_render(
			SLICE("$a={amount} {servers};{client.lib}$"), &l, SLICE(""), &tiny);
		if (got.at)
			expect(got, "$$a=3 $(POOLGATE_SERVERS);/opt/x/lib$$");
		assert_int_equal(tiny.failed, !got.at);
		assert_true(got.at || got.len == 0);
		arena_release(&tiny);
		if (!got.at)
			continue;
		got = template_render(SLICE(""), &l, SLICE(""), &arena);
		assert_non_null(got.at);
		assert_int_equal(got.len, 0);
	}
}

TEST(test_check)
{
	static const struct {
		const char *text;
		enum word_when when;
		const char *complaint; /* NULL: fine */
	} cases[] = {
		{"", WORD_ALWAYS, NULL},
		{"{amount} {fraction} {percent} {memory_mb} {memory_gib}", WORD_ALWAYS, NULL},
		{"{filters} {servers} {server_host} {client.lib}", WORD_ALWAYS, NULL},
		{"{filter}", WORD_EACH_FILTER, NULL},
		{"{{anything", WORD_ALWAYS, NULL},
		{"}", WORD_ALWAYS, NULL},
		{"{filter}", WORD_ALWAYS, "unknown place {filter}"},
		{"{gpu}", WORD_ALWAYS,
			"unknown place {gpu}; known here: {amount}, {filters}, {servers}, "
			"{server_host}, {gpus}, {gpu_indexes}, {client."},
		{"{gpu}", WORD_ANY_FILTER,
			"known here: {amount}, {filters}, {servers}, {server_host}, {gpus}, "
			"{gpu_indexes}, {c"},
		{"{gpu}", WORD_FRACTION,
			"known here: {amount}, {fraction}, {percent}, {filters}, {s"},
		{"{gpu}", WORD_MEMORY,
			"known here: {amount}, {memory_mb}, {memory_gib}, {filters}, {s"},
		{"{gpu}", WORD_EACH_FILTER, "{filter}, {servers}"},
		{"{gpu}", WORD_ALWAYS, "{client.binary}, {client.lib}"},
		{"{Amount}", WORD_ALWAYS, "unknown place {Amount}"},
		{"{}", WORD_ALWAYS, "unknown place {}"},
		{"{ amount}", WORD_ALWAYS, "unknown place { amount}"},
		{"{client.x}", WORD_ALWAYS, "unknown place {client.x}"},
		{"{client.}", WORD_ALWAYS, "unknown place {client.}"},
		{"{clientlib}", WORD_ALWAYS, "unknown place {clientlib}"},
		{"a {amount", WORD_ALWAYS, "\"{amount\" opens a place that is never closed"},
		{"{", WORD_ALWAYS, "never closed; a brace itself is written {{"},
		{"{{{", WORD_ALWAYS, "never closed"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct err err = {0};
		int rc = template_check(
			slice_of(cases[i].text), cases[i].when, values, COUNT(values), &err);

		if (!cases[i].complaint) {
			if (rc != 0)
				fail_msg("%s: %s", cases[i].text, err.msg);
			continue;
		}
		assert_int_equal(rc, ERR_INVALID);
		row_says(cases[i].text, err.msg, "", cases[i].complaint);
	}
}

TEST(test_has)
{
	assert_true(template_has(SLICE("-n {amount}"), "amount"));
	assert_false(template_has(SLICE("-n {{amount}"), "amount"));
	assert_false(template_has(SLICE("amount"), "amount"));
	assert_false(template_has(SLICE("{filters}"), "filter"));
	assert_false(template_has(SLICE(""), "amount"));
}

/* A profile shaped like Bitfusion's. */
static struct slice run_words[] = {{"{client.binary}", 15}, {"run", 3}, {"-n", 2}, {"{amount}", 8}};
static struct slice fraction_words[] = {{"-p", 2}, {"{fraction}", 10}};
static struct slice memory_words[] = {{"-m", 2}, {"{memory_mb}", 11}};
static struct slice each_words[] = {{"--filter", 8}, {"{filter}", 8}};
static struct slice any_words[] = {{"--match", 7}, {"{filters}", 9}};
static struct profile_words groups[] = {
	{WORD_ALWAYS, run_words, 4},
	{WORD_FRACTION, fraction_words, 2},
	{WORD_MEMORY, memory_words, 2},
	{WORD_EACH_FILTER, each_words, 2},
	{WORD_ANY_FILTER, any_words, 2},
};

static void expect_argv(const struct launch *l, const char *want)
{
	struct slice *words;
	struct err err = {0};
	struct buf b;
	size_t n;

	assert_int_equal(launch_argv(l, &arena, &words, &n, &err), 0);
	buf_init(&b, 4096);
	for (size_t i = 0; i < n; i++)
		buf_fmt(&b, "%s%.*s", i ? "|" : "", (int)words[i].len, words[i].at);
	assert_string_equal(b.data, want);
	buf_release(&b);
}

TEST(test_argv)
{
	struct profile p = {.name = SLICE("tool"),
		.argv = groups,
		.n_argv = COUNT(groups),
		.separator = SLICE("--")};
	struct launch l = launch(1, 50, 0);

	l.profile = &p;
	expect_argv(&l,
		"/opt/x/bin/tool|run|-n|1|-p|0.500000|--filter|gpu.model=V100|--filter|a=b|--match|"
		"gpu.model=V100,a=b|--");
	l.n_filters = 0;
	expect_argv(&l, "/opt/x/bin/tool|run|-n|1|-p|0.500000|--");
	l.percent = 0;
	l.memory_mb = 8000;
	l.amount = 2;
	expect_argv(&l, "/opt/x/bin/tool|run|-n|2|-m|8000|--");
	p.separator = (struct slice){NULL, 0};
	expect_argv(&l, "/opt/x/bin/tool|run|-n|2|-m|8000");
}

TEST(test_argv_out_of_memory)
{
	struct profile p = {.name = SLICE("tool"), .argv = groups, .n_argv = COUNT(groups)};
	struct launch l = launch(1, 50, 0);
	struct slice *words = NULL;
	size_t n = 77;

	l.profile = &p;
	for (size_t max = 0; max < 2048; max += 16) {
		struct err err = {0};
		struct arena small;
		int rc;

		arena_init(&small, max);
		rc = launch_argv(&l, &small, &words, &n, &err);
		arena_release(&small);
		if (rc == 0) {
			assert_true(max > 100);
			return;
		}
		assert_int_equal(rc, ERR_NOMEM);
		assert_int_equal(err.code, ERR_NOMEM);
		assert_int_equal(n, 77);
	}
	fail_msg("never enough memory");
}

TEST(test_client)
{
	struct profile_client clients[] = {
		{.os = SLICE("ubuntu18"), .version = SLICE("400")},
		{.os = SLICE("ubuntu20"), .version = SLICE("450")},
	};
	struct profile p = {.clients = clients, .n_clients = 2, .by_client = true};

	assert_ptr_equal(profile_client(&p, SLICE("ubuntu18"), SLICE("400")), &clients[0]);
	assert_ptr_equal(profile_client(&p, SLICE("ubuntu20"), SLICE("450")), &clients[1]);
	assert_null(profile_client(&p, SLICE("ubuntu20"), SLICE("400")));
	assert_null(profile_client(&p, SLICE("Ubuntu18"), SLICE("400")));
	assert_null(profile_client(&p, SLICE(""), SLICE("")));
	p.by_client = false;
	p.n_clients = 1;
	assert_ptr_equal(profile_client(&p, SLICE(""), SLICE("")), &clients[0]);
	p.n_clients = 0;
	assert_null(profile_client(&p, SLICE(""), SLICE("")));
}

TEST(test_expresses)
{
	static const struct {
		enum can fraction, memory;
		uint32_t max, amount, percent;
		uint64_t mb;
		const char *complaint;
	} cases[] = {
		{CAN_YES, CAN_YES, 8, 8, 50, 0, NULL},
		{CAN_YES, CAN_YES, 8, 9, 100, 0,
			"asks for 9 GPUs, but the launcher tool gives a container at most 8: ask "
			"for "
			"bitfusion.io/gpu-amount 8 or less"},
		{CAN_YES, CAN_YES, 1, 2, 100, 0, "ask for bitfusion.io/gpu-amount 1"},
		{CAN_NO, CAN_NO, 8, 1, 100, 0, NULL},
		{CAN_NO, CAN_YES, 8, 1, 99, 0, "asks for 99 percent of a GPU"},
		{CAN_NO, CAN_YES, 8, 1, 0, 4000, NULL},
		{CAN_YES, CAN_NO, 8, 1, 0, 4000, "asks for 4000 MB of a GPU"},
		{CAN_YES, CAN_NO, 8, 1, 50, 0, NULL},
		{CAN_BOOKKEEPING, CAN_NO, 8, 1, 50, 0, NULL},
		{CAN_NO, CAN_BOOKKEEPING, 8, 1, 0, 4000, NULL},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct profile p = {.name = SLICE("tool"),
			.can_fraction = cases[i].fraction,
			.can_memory = cases[i].memory,
			.max_amount = cases[i].max};
		struct err err = {0};
		int rc =
			profile_expresses(&p, cases[i].amount, cases[i].percent, cases[i].mb, &err);

		assert_int_equal(rc, cases[i].complaint ? ERR_INVALID : 0);
		if (cases[i].complaint && !strstr(err.msg, cases[i].complaint))
			fail_msg("\"%s\" lacks \"%s\"", err.msg, cases[i].complaint);
	}
}

/* An image of the reserved domain: its registry's host ends in it. */
TEST(test_unset_image)
{
	static const struct {
		const char *image;
		bool unset;
	} rows[] = {
		{"a.invalid/x", true},
		{"set-me.invalid/x/y:1", true},
		{"a.invalid:5000/x", true},
		{".invalid/x", false},
		{"a.invalid", false},
		{"invalid/x", false},
		{"a.invalid.io/x", false},
		{"ainvalid/x", false},
		{"x/a.invalid/y", false},
		{"", false},
	};

	for (size_t i = 0; i < COUNT(rows); i++)
		if (image_is_unset(slice_of(rows[i].image)) != rows[i].unset)
			fail_msg("%s", rows[i].image);
}

/* What has no room in a text, in one place or in all of them together, is nothing, and not a part
 * of it. */
TEST(test_render_too_much)
{
	enum { HALF = (1 << 19) + 1, MOST = 1 << 20 };
	static char bytes[MOST + 1];
	struct profile_value large[] = {
		{{"half", 4}, {bytes, HALF}}, {{"more", 4}, {bytes, MOST + 1}}};
	const struct profile_client c = {.values = large, .n_values = 2};
	static const struct {
		const char *text;
		size_t len;
	} rows[] = {{"{client.half}", HALF}, {"{client.more}", 0},
		{"{client.half}{client.half}", 0}, {"{client.half}{servers}{client.half}", 0}};
	struct launch l = launch(1, 100, 0);

	memset(bytes, 'x', sizeof(bytes));
	l.client = &c;
	l.late = true;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct arena a;
		struct slice got;

		arena_init(&a, 64u << 20);
		got = template_render(slice_of(rows[i].text), &l, SLICE(""), &a);
		if (got.len != rows[i].len || (got.at != NULL) != (rows[i].len > 0) ||
			a.failed != (rows[i].len == 0))
			fail_msg("row %zu: %zu bytes", i, got.len);
		arena_release(&a);
	}
}

/* How often words stand for what is asked, from the least on. */
TEST(test_times)
{
	struct launch l = launch(1, 0, 0);

	assert_int_equal(launch_times(&l, WORD_ALWAYS), 1);
	for (uint32_t n = 0; n < 3; n++) {
		l.percent = n;
		l.memory_mb = n;
		l.n_filters = n;
		assert_int_equal(launch_times(&l, WORD_FRACTION), n > 0);
		assert_int_equal(launch_times(&l, WORD_MEMORY), n > 0);
		assert_int_equal(launch_times(&l, WORD_EACH_FILTER), n);
		assert_int_equal(launch_times(&l, WORD_ANY_FILTER), n > 0);
	}
}

TESTS_BETWEEN(set_up, tear_down, test_unset_image, test_expand, test_render_out_of_memory,
	test_fraction, test_memory_gib, test_server_host, test_expand_out_of_memory, test_check,
	test_has, test_argv, test_argv_out_of_memory, test_client, test_expresses,
	test_render_too_much, test_times)
