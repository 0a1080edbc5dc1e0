/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the command line of gpuprobe. */
#include "probe/result/options.h"

#include <getopt.h>
#include <string.h>

#include "base/quantity.h"
#include "base/text.h"

#define SECONDS_MAX (7 * 24 * 3600.0)

static const char help[] =
	"usage: gpuprobe [list|verify|stress|bench|serve] [options]      (verify when "
	"none is named)\n"
	"       gpuprobe compare LOCAL.json REMOTE.json\n"
	"\n"
	"  list      which GPUs there are; --free shows free memory too\n"
	"  verify    is every GPU fit: memory, exact arithmetic, bandwidth; seconds\n"
	"  stress    the same under load, for --time\n"
	"  bench     how fast: memory, links, arithmetic, against what is expected\n"
	"  compare   two reports of bench: what remote costs; `gpuprobe compare --help`\n"
	"  serve     answer inventory, report and metrics over HTTPS; `gpuprobe serve --help`\n"
	"\n"
	"  --gpu WHICH           only this one: index, UUID or PCI id; may stand several times\n"
	"  --expect-gpus N       fewer GPUs than N are a failure\n"
	"  --expect-name GLOB    so must each GPU's name be, as \"NVIDIA H100*\"\n"
	"  --min-memory SIZE     so much must each GPU have, as 16160Mi or 80G\n"
	"  --memory AMOUNT       of free memory to test: 25% or 4Gi\n"
	"  --time DURATION       how long stress goes on [5m]\n"
	"  --timeout DURATION    of the whole run [60s; stress: its time and 60s; bench: 10m]\n"
	"  --thresholds FILE     other shares, reference rates and fatal XIDs\n"
	"  --save-reference FILE bench: write this server's rates as a reference\n"
	"  --strict              warnings are failures\n"
	"  --require-nvml        a server without NVML is not fit\n"
	"  --require-idle        memory in use before the run is a failure\n"
	"  --no-nvml             do not look for NVML\n"
	"  --remote              take the GPU for a remote one\n"
	"  --free                list: make a context on each GPU for its free memory\n"
	"  --json[=FILE]         the report as JSON, to standard output or a file\n"
	"  --nagios              one line and the exit status of a monitoring plugin\n"
	"  --progress WHEN       auto, always or never [auto]\n"
	"  --seed N              of the patterns [from the clock]\n"
	"  --cudart FILE         this CUDA runtime, not the own one\n"
	"  --nvml FILE           this NVML library\n"
	"  --in-process          no process per GPU: for launchers that forbid children\n"
	"  --version, --help\n"
	"\n"
	"Exit status: 0 every GPU fit, 1 at least one is not, 2 wrong usage, 3 CUDA cannot be used "
	"here,\n"
	"4 no verdict.\n";

enum {
	OPT_GPU = 256,
	OPT_EXPECT_GPUS,
	OPT_EXPECT_NAME,
	OPT_MIN_MEMORY,
	OPT_MEMORY,
	OPT_TIME,
	OPT_TIMEOUT,
	OPT_THRESHOLDS,
	OPT_SAVE_REFERENCE,
	OPT_STRICT,
	OPT_REQUIRE_NVML,
	OPT_REQUIRE_IDLE,
	OPT_NO_NVML,
	OPT_REMOTE,
	OPT_FREE,
	OPT_JSON,
	OPT_NAGIOS,
	OPT_PROGRESS,
	OPT_SEED,
	OPT_CUDART,
	OPT_NVML,
	OPT_IN_PROCESS,
	OPT_PLANT,
	OPT_VERSION,
	OPT_HELP
};

static const struct option names[] = {{"gpu", required_argument, NULL, OPT_GPU},
	{"expect-gpus", required_argument, NULL, OPT_EXPECT_GPUS},
	{"expect-name", required_argument, NULL, OPT_EXPECT_NAME},
	{"min-memory", required_argument, NULL, OPT_MIN_MEMORY},
	{"memory", required_argument, NULL, OPT_MEMORY},
	{"time", required_argument, NULL, OPT_TIME},
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"thresholds", required_argument, NULL, OPT_THRESHOLDS},
	{"save-reference", required_argument, NULL, OPT_SAVE_REFERENCE},
	{"strict", no_argument, NULL, OPT_STRICT},
	{"require-nvml", no_argument, NULL, OPT_REQUIRE_NVML},
	{"require-idle", no_argument, NULL, OPT_REQUIRE_IDLE},
	{"no-nvml", no_argument, NULL, OPT_NO_NVML}, {"remote", no_argument, NULL, OPT_REMOTE},
	{"free", no_argument, NULL, OPT_FREE}, {"json", optional_argument, NULL, OPT_JSON},
	{"nagios", no_argument, NULL, OPT_NAGIOS},
	{"progress", required_argument, NULL, OPT_PROGRESS},
	{"seed", required_argument, NULL, OPT_SEED},
	{"cudart", required_argument, NULL, OPT_CUDART},
	{"nvml", required_argument, NULL, OPT_NVML},
	{"in-process", no_argument, NULL, OPT_IN_PROCESS},
	{"plant", required_argument, NULL, OPT_PLANT}, {"version", no_argument, NULL, OPT_VERSION},
	{"help", no_argument, NULL, OPT_HELP}, {NULL, 0, NULL, 0}};

static int wants(struct err *err, const char *what, const char *form)
{
	return err_set(err, ERR_INVALID, "%s takes %s, found \"%s\"", what, form, optarg);
}

static int take_count(const char *what, uint64_t max, uint64_t *ret, struct err *err)
{
	if (!text_u64(slice_of(optarg), max, ret) || *ret == 0)
		return wants(err, what, "a whole number from 1 on");
	return 0;
}

/* A text that is not empty: an empty one is a variable that was not set. */
static int take_text(const char *what, const char **ret, struct err *err)
{
	if (!optarg[0])
		return wants(err, what, "a text");
	*ret = optarg;
	return 0;
}

static int take_seconds(const char *what, double *ret, struct err *err)
{
	int64_t ms;

	if (!text_duration_ms(slice_of(optarg), &ms) || ms <= 0 || (double)ms / 1000 > SECONDS_MAX)
		return wants(err, what, "a duration up to 168h, as 90s or 5m");
	*ret = (double)ms / 1000;
	return 0;
}

static int take_size(const char *what, int64_t *ret, struct err *err)
{
	struct quantity q;

	if (quantity_parse(slice_of(optarg), &q, NULL) != 0 || quantity_ceil(q) <= 0)
		return wants(err, what, "a size, as 16160Mi or 80G");
	*ret = quantity_ceil(q);
	return 0;
}

/* "25%" or a size. */
static int take_amount(struct probe_options *o, struct err *err)
{
	size_t len = strlen(optarg);
	uint64_t percent;

	if (len > 0 && optarg[len - 1] == '%') {
		if (!text_u64((struct slice){optarg, len - 1}, 100, &percent) || percent == 0)
			return wants(err, "--memory", "1% to 100%, or a size as 4Gi");
		o->memory_share = (double)percent / 100;
		return 0;
	}
	return take_size("--memory", &o->memory_bytes, err);
}

static int take_word(
	const char *what, const char *const *words, const char *form, int *ret, struct err *err)
{
	for (int i = 0; words[i]; i++) {
		if (strcmp(words[i], optarg) == 0) {
			*ret = i;
			return 0;
		}
	}
	return wants(err, what, form);
}

/* Options that are only noted. False: not one of them. */
static bool take_flag(struct probe_options *o, int found)
{
	switch (found) {
	case OPT_STRICT:
		o->strict = true;
		return true;
	case OPT_REQUIRE_NVML:
		o->require_nvml = true;
		return true;
	case OPT_REQUIRE_IDLE:
		o->require_idle = true;
		return true;
	case OPT_NO_NVML:
		o->no_nvml = true;
		return true;
	case OPT_REMOTE:
		o->remote = true;
		return true;
	case OPT_FREE:
		o->free_memory = true;
		return true;
	case OPT_NAGIOS:
		o->nagios = true;
		return true;
	case OPT_IN_PROCESS:
		o->in_process = true;
		return true;
	case OPT_VERSION:
		o->answer = OPTIONS_VERSION;
		return true;
	case OPT_HELP:
		o->answer = OPTIONS_HELP;
		return true;
	default:
		return false;
	}
}

static int take_value(struct probe_options *o, int found, struct err *err)
{
	static const char *const when[] = {"auto", "always", "never", NULL};
	static const char *const plants[] = {"none", "memory", "lane", NULL};
	uint64_t n = 0;
	int word = 0, rc;

	switch (found) {
	case OPT_GPU:
		if (o->n_gpus == REPORT_GPUS_MAX)
			return err_set(err, ERR_TOOBIG, "--gpu stands more than %d times",
				REPORT_GPUS_MAX);
		return take_text("--gpu", &o->gpus[o->n_gpus++], err);
	case OPT_JSON:
		if (optarg)
			return take_text("--json", &o->json, err);
		o->json = "-";
		return 0;
	case OPT_THRESHOLDS:
		return take_text("--thresholds", &o->thresholds, err);
	case OPT_SAVE_REFERENCE:
		return take_text("--save-reference", &o->save_reference, err);
	case OPT_CUDART:
		return take_text("--cudart", &o->cudart, err);
	case OPT_NVML:
		return take_text("--nvml", &o->nvml, err);
	case OPT_EXPECT_NAME:
		return take_text("--expect-name", &o->expect_name, err);
	case OPT_EXPECT_GPUS:
		rc = take_count("--expect-gpus", REPORT_GPUS_MAX, &n, err);
		o->expect_gpus = (int)n;
		return rc;
	case OPT_SEED:
		return take_count("--seed", UINT64_MAX, &o->seed, err);
	case OPT_MIN_MEMORY:
		return take_size("--min-memory", &o->min_memory_bytes, err);
	case OPT_MEMORY:
		return take_amount(o, err);
	case OPT_TIME:
		return take_seconds("--time", &o->seconds, err);
	case OPT_TIMEOUT:
		return take_seconds("--timeout", &o->timeout_s, err);
	case OPT_PROGRESS:
		rc = take_word("--progress", when, "auto, always or never", &word, err);
		o->progress = (enum probe_show)word;
		return rc;
	case OPT_PLANT:
		return take_word("--plant", plants, "none, memory or lane", &o->plant, err);
	default:
		return ERR_INTERNAL;
	}
}

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
	bool named = false;
	int found, rc = 0;

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
		} else if (!take_flag(ret, found)) {
			rc = take_value(ret, found, err);
		}
	}
	if (rc == 0 && optind < argc)
		return err_set(err, ERR_INVALID, "unexpected \"%s\"", argv[optind]);
	return rc == 0 && ret->answer == OPTIONS_RUN ? check_together(ret, err) : rc;
}

void options_help(FILE *out)
{
	(void)fputs(help, out);
}
