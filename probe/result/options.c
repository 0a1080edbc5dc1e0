/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the command line of gpuprobe. */
#include "probe/result/options.h"

#include <getopt.h>
#include <string.h>

#include "base/opts.h"
#include "base/quantity.h"
#include "base/text.h"

#define SECONDS_MAX (7 * 24 * 3600)
#define SIZE_FORM "a size, as 16160Mi or 80G"

/* Behind what getopt_long itself answers. */
#define FIRST_ROW 256

static int take_count(const struct opt *row, const char *value, void *of, struct err *err)
{
	struct probe_options *o = of;
	uint64_t n;

	if (!text_u64(slice_of(value), REPORT_GPUS_MAX, &n) || n == 0)
		return opts_wrong(row, row->form, value, err);
	o->expect_gpus = (int)n;
	return 0;
}

static int take_size(
	const struct opt *row, const char *form, const char *value, int64_t *ret, struct err *err)
{
	struct quantity q;

	if (quantity_parse(slice_of(value), &q, NULL) != 0 || quantity_ceil(q) <= 0)
		return opts_wrong(row, form, value, err);
	*ret = quantity_ceil(q);
	return 0;
}

static int take_min_memory(const struct opt *row, const char *value, void *of, struct err *err)
{
	return take_size(
		row, row->form, value, &((struct probe_options *)of)->min_memory_bytes, err);
}

/* "25%" or a size. */
static int take_memory(const struct opt *row, const char *value, void *of, struct err *err)
{
	struct probe_options *o = of;
	size_t len = strlen(value);
	uint64_t percent;

	if (len == 0 || value[len - 1] != '%')
		return take_size(row, SIZE_FORM, value, &o->memory_bytes, err);
	if (!text_u64((struct slice){value, len - 1}, 100, &percent) || percent == 0)
		return opts_wrong(row, "1% to 100%, or a size as 4Gi", value, err);
	o->memory_share = (double)percent / 100;
	return 0;
}

static int take_json(const struct opt *row, const char *value, void *of, struct err *err)
{
	if (value && !*value)
		return opts_wrong(row, "a text", value, err);
	((struct probe_options *)of)->json = value ? value : "-";
	return 0;
}

static const char *const when[] = {"auto", "always", "never", NULL};
static const char *const plants[] = {"none", "memory", "lane", NULL};

#define TEXT(member, ...) OPT_TEXT(probe_options, member, __VA_ARGS__)
#define FLAG(member, ...) OPT_FLAG(probe_options, member, __VA_ARGS__)
#define SECONDS(member, ...)                                                                       \
	OPT_SECONDS(probe_options, member, __VA_ARGS__, .min = 1, .max = SECONDS_MAX * 1000ull,    \
		.form = "a duration up to 168h, as 90s or 5m")
static const struct opt options[] = {
	OPT_TEXTS(probe_options, gpus, "--gpu", "WHICH",
		"only this one: index, UUID or PCI id; may stand several times"),
	OPT_OWN(take_count, "--expect-gpus", "N", "fewer GPUs than N are a failure",
		.form = "a whole number from 1 on"),
	TEXT(expect_name, "--expect-name", "GLOB",
		"so must each GPU's name be, as \"NVIDIA H100*\""),
	OPT_OWN(take_min_memory, "--min-memory", "SIZE",
		"so much must each GPU have, as 16160Mi or 80G", .form = SIZE_FORM),
	OPT_OWN(take_memory, "--memory", "AMOUNT", "of free memory to test: 25% or 4Gi"),
	SECONDS(seconds, "--time", "DURATION", "how long stress goes on [5m]"),
	SECONDS(timeout_s, "--timeout", "DURATION",
		"of the whole run [60s; stress: its time and 60s; bench: 10m]"),
	TEXT(thresholds, "--thresholds", "FILE", "other shares, reference rates and fatal XIDs"),
	TEXT(save_reference, "--save-reference", "FILE",
		"bench: write this server's rates as a reference"),
	FLAG(strict, "--strict", "warnings are failures"),
	FLAG(require_nvml, "--require-nvml", "a server without NVML is not fit"),
	FLAG(require_idle, "--require-idle", "memory in use before the run is a failure"),
	FLAG(no_nvml, "--no-nvml", "do not look for NVML"),
	FLAG(remote, "--remote", "take the GPU for a remote one"),
	FLAG(free_memory, "--free", "list: make a context on each GPU for its free memory"),
	OPT_OWN(take_json, "--json", "[=FILE]", "the report as JSON, to standard output or a file"),
	FLAG(nagios, "--nagios", "one line and the exit status of a monitoring plugin"),
	OPT_WORD(probe_options, progress, "--progress", "WHEN", "auto, always or never [auto]",
		.words = when),
	OPT_COUNT(probe_options, seed, "--seed", "N", "of the patterns [from the clock]", .min = 1,
		.max = UINT64_MAX, .form = "a whole number from 1 on"),
	TEXT(cudart, "--cudart", "FILE", "this CUDA runtime, not the own one"),
	TEXT(nvml, "--nvml", "FILE", "this NVML library"),
	FLAG(in_process, "--in-process", "no process per GPU: for launchers that forbid children"),
	OPT_WORD(probe_options, plant, "--plant", "FAULT", NULL, .words = plants),
	OPT_ANSWER(probe_options, answer, OPTIONS_VERSION, "--version", ""),
	OPT_ANSWER(probe_options, answer, OPTIONS_HELP, "--help", ""),
};
#define N_OPTIONS (sizeof(options) / sizeof(options[0]))

static int take_command(struct probe_options *o, const char *word, struct err *err)
{
	static const char *const commands[] = {"list", "verify", "stress", "bench"};

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(word, commands[i]) == 0) {
			o->command = (enum probe_command)i;
			return 0;
		}
	}
	return err_set(err, ERR_INVALID,
		"unknown command \"%s\", expected list, verify, stress, bench or (first of all) "
		"compare or serve",
		word);
}

/* Options that exclude each other, or belong to another command. */
static int check_together(const struct probe_options *o, struct err *err)
{
	if (o->no_nvml && o->require_nvml)
		return err_set(err, ERR_INVALID, "--no-nvml and --require-nvml exclude each other");
	if (o->json && o->nagios)
		return err_set(err, ERR_INVALID, "--json and --nagios exclude each other");
	if (o->seconds > 0 && o->command != COMMAND_STRESS)
		return err_set(err, ERR_INVALID, "--time belongs to stress");
	if (o->save_reference && o->command != COMMAND_BENCH)
		return err_set(err, ERR_INVALID, "--save-reference belongs to bench");
	if (o->free_memory && o->command != COMMAND_LIST)
		return err_set(err, ERR_INVALID, "--free belongs to list");
	if (o->memory_share > 0 && o->memory_bytes > 0)
		return err_set(err, ERR_INVALID, "--memory is given as a share and as a size");
	if ((o->memory_share > 0 || o->memory_bytes > 0) && o->command != COMMAND_VERIFY &&
		o->command != COMMAND_STRESS)
		return err_set(err, ERR_INVALID, "--memory belongs to verify and stress");
	if (o->require_nvml && o->command != COMMAND_VERIFY)
		return err_set(err, ERR_INVALID, "--require-nvml belongs to verify");
	return 0;
}

/* What getopt did not know: a short option stands in optopt, for its word may have others. */
static int unknown(char **argv, struct err *err)
{
	if (optopt > 0 && optopt < 256)
		return err_set(err, ERR_INVALID, "unknown option -%c", optopt);
	return err_set(err, ERR_INVALID, "unknown option %s, or one that takes no value",
		argv[optind - 1]);
}

int options_read(int argc, char **argv, struct probe_options *ret, struct err *err)
{
	struct option names[N_OPTIONS + 1] = {0};
	bool named = false;
	int found, rc = 0;

	for (size_t i = 0; i < N_OPTIONS; i++)
		names[i] = (struct option){options[i].name + 2,
			!options[i].arg          ? no_argument
			: *options[i].arg == '[' ? optional_argument
						 : required_argument,
			NULL, FIRST_ROW + (int)i};
	*ret = (struct probe_options){.command = COMMAND_VERIFY, .expect_gpus = -1};
	opterr = 0;
	optind = 0; /* getopt begins anew, also when called twice */
	while (rc == 0 && (found = getopt_long(argc, argv, "-:h", names, NULL)) != -1) {
		if (found == 1) {
			if (named)
				return err_set(err, ERR_INVALID,
					"one command only, found \"%s\" too", optarg);
			named = true;
			rc = take_command(ret, optarg, err);
		} else if (found == ':') {
			return err_set(
				err, ERR_INVALID, "a value is missing after %s", argv[optind - 1]);
		} else if (found == '?') {
			return unknown(argv, err);
		} else if (found == 'h') {
			ret->answer = OPTIONS_HELP;
		} else {
			rc = opts_value(&options[found - FIRST_ROW], optarg, ret, err);
		}
	}
	if (rc == 0 && optind < argc)
		return err_set(err, ERR_INVALID, "unexpected \"%s\"", argv[optind]);
	return rc == 0 && ret->answer == OPTIONS_RUN ? check_together(ret, err) : rc;
}

void options_help(FILE *out)
{
	(void)fputs(
		"usage: gpuprobe [list|verify|stress|bench|serve] [options]      (verify when "
		"none is named)\n"
		"       gpuprobe compare LOCAL.json REMOTE.json\n"
		"\n"
		"  list      which GPUs there are; --free shows free memory too\n"
		"  verify    is every GPU fit: memory, exact arithmetic, bandwidth; seconds\n"
		"  stress    the same under load, for --time\n"
		"  bench     how fast: memory, links, arithmetic, against what is expected\n"
		"  compare   two reports of bench: what remote costs; `gpuprobe compare --help`\n"
		"  serve     answer inventory, report and metrics over HTTPS; `gpuprobe serve "
		"--help`\n"
		"\n",
		out);
	opts_help(options, N_OPTIONS, 24, out);
	(void)fputs("\n"
		    "Exit status: 0 every GPU fit, 1 at least one is not, 2 wrong usage, 3 CUDA "
		    "cannot be used here,\n"
		    "4 no verdict.\n",
		out);
}
