/* SPDX-License-Identifier: Apache-2.0 */
/* test: probe/result/options: what the command line may say, and what is refused with which words.
 */
#include "probe/result/options.h"
#include "test/unit/test.h"

/* Words with blanks between them; "''" is an empty one. The options point into them. */
static int read_line(const char *line, struct probe_options *o, struct err *err)
{
	static char text[512];
	char *words[64] = {text}, *at, *rest = NULL;
	int n = 1;

	assert_true(snprintf(text, sizeof(text), "%s", line) < (int)sizeof(text));
	for (at = strtok_r(text, " ", &rest); at; at = strtok_r(NULL, " ", &rest))
		words[n++] = strcmp(at, "''") == 0 ? at + 2 : at;
	words[n] = NULL;
	*err = (struct err){0};
	return options_read(n, words, o, err);
}

TEST(defaults)
{
	struct probe_options o;
	struct err err;

	assert_int_equal(read_line("", &o, &err), 0);
	assert_int_equal(o.command, COMMAND_VERIFY);
	assert_int_equal(o.answer, OPTIONS_RUN);
	assert_int_equal(o.expect_gpus, -1);
	assert_null(o.json);
	assert_true(o.memory_share <= 0 && o.memory_bytes == 0 && o.seed == 0 && o.timeout_s <= 0);
}

TEST(all_at_once)
{
	struct probe_options o;
	struct err err;

	assert_int_equal(
		read_line(
			"--gpu 1 --gpu=GPU-abc stress --expect-gpus 8 --expect-name NVIDIA* "
			"--min-memory 16160Mi --memory 25% "
			"--time 90s --timeout 5m --thresholds t --strict --require-idle --remote "
			"--json=f --progress never "
			"--seed 18446744073709551615 --cudart c --nvml n --in-process --plant lane",
			&o, &err),
		0);
	assert_int_equal(o.command, COMMAND_STRESS);
	assert_int_equal(o.n_gpus, 2);
	assert_string_equal(o.gpus[1], "GPU-abc");
	assert_int_equal(o.expect_gpus, 8);
	assert_string_equal(o.expect_name, "NVIDIA*");
	assert_int_equal(o.min_memory_bytes, 16160LL << 20);
	assert_true(o.memory_share > 0.249 && o.memory_share < 0.251);
	assert_true(o.seconds > 89 && o.seconds < 91 && o.timeout_s > 299 && o.timeout_s < 301);
	assert_true(o.strict && o.require_idle && o.remote && o.in_process && !o.nagios);
	assert_string_equal(o.json, "f");
	assert_int_equal(o.progress, SHOW_NEVER);
	assert_true(o.seed == UINT64_MAX);
	assert_int_equal(o.plant, 2);
	assert_int_equal(read_line("bench --json --save-reference r", &o, &err), 0);
	assert_string_equal(o.json, "-");
	assert_int_equal(read_line("--version", &o, &err), 0);
	assert_int_equal(o.answer, OPTIONS_VERSION);
	/* who asks for help gets it, whatever else stands there */
	assert_int_equal(read_line("list --time 5s --help", &o, &err), 0);
	assert_int_equal(o.answer, OPTIONS_HELP);
	assert_int_equal(read_line("verify --memory 4Gi", &o, &err), 0);
	assert_int_equal(o.memory_bytes, 4LL << 30);
}

TEST(refuses)
{
	static const struct {
		const char *line, *words;
	} cases[] = {{"--nonsense", "--nonsense"}, {"--nonsense=3", "--nonsense"}, {"-x", "-x"},
		{"-xy", "-x"}, {"--gpu", "--gpu"}, {"--gpu ''", "a text"}, {"--json=", "a text"},
		{"--strict=yes", "--strict"}, {"list verify", "one command"},
		{"frobnicate", "serve"}, {"-- verify", "verify"},
		{"--expect-gpus 0", "whole number"}, {"--expect-gpus -1", "whole number"},
		{"--expect-gpus 129", "whole number"}, {"--expect-gpus 8x", "whole number"},
		{"--seed 18446744073709551616", "whole number"}, {"--min-memory 0", "a size"},
		{"--min-memory -1Gi", "a size"}, {"--min-memory lots", "a size"},
		{"--memory 0%", "1% to 100%"}, {"--memory 101%", "1% to 100%"},
		{"--memory %", "1% to 100%"},
		{"--memory 25% --memory 4Gi", "a share and as a size"},
		{"bench --memory 25%", "verify and stress"}, {"stress --time 0s", "duration"},
		{"stress --time 5", "duration"}, {"stress --time 169h", "168h"},
		{"--timeout -5s", "duration"}, {"--time 5s", "stress"}, {"--free", "list"},
		{"--save-reference f", "bench"}, {"--no-nvml --require-nvml", "exclude"},
		{"--json --nagios", "exclude"}, {"bench --require-nvml", "verify"},
		{"--progress maybe", "auto, always or never"}, {"--plant sun", "memory or lane"}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct probe_options o;
		struct err err;

		if (read_line(cases[i].line, &o, &err) == 0)
			fail_msg("taken: %s", cases[i].line);
		assert_int_equal(err.code, ERR_INVALID);
		row_says(cases[i].line, err.msg, "", cases[i].words);
	}
}

TEST(too_many_gpus)
{
	char *words[2 * REPORT_GPUS_MAX + 4] = {NULL};
	char name[] = "gpuprobe", option[] = "--gpu", value[] = "0";
	int n = 0;
	struct probe_options o;
	struct err err = {0};

	words[n++] = name;
	for (int i = 0; i <= REPORT_GPUS_MAX; i++) {
		words[n++] = option;
		words[n++] = value;
	}
	assert_int_equal(options_read(n, words, &o, &err), ERR_TOOBIG);
	assert_int_equal(options_read(n - 2, words, &o, &err), 0);
	assert_int_equal(o.n_gpus, REPORT_GPUS_MAX);
}

TESTS(defaults, all_at_once, refuses, too_many_gpus)
