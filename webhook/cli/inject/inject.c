/* SPDX-License-Identifier: Apache-2.0 */
/* cli: the command lines of `poolgate inject` and `poolgate uninject`. */
#define _GNU_SOURCE 1 /* program_invocation_short_name */
#include "webhook/cli/inject/inject.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/text.h"
#include "webhook/cli/inject/inject_world.h"
#include "webhook/cli/usage/usage.h"

#define FOLDER_BYTES_MAX (4u << 20)

static const char help[] =
	"usage: poolgate inject [options] [FILE|DIR...]  do to manifests what the server does to "
	"pods\n"
	"       poolgate uninject [options] [FILE|DIR...]  take it back\n"
	"\n"
	"YAML or JSON, from files or standard input (\"-\", also when no file is named), to "
	"standard\n"
	"output. Pods and pod templates are found in objects of any kind by their shape,\n"
	"{metadata, spec: {containers: [...]}}; what holds none passes as it is.\n"
	"The text is edited where it stands: comments, order and quotes stay.\n"
	"\n"
	"  -f, --file FILE|DIR    one more file, or the *.yaml, *.yml and *.json in a folder\n"
	"  -o, --output FORM      yaml, json, patch (JSON patches, a line per document) or diff\n"
	"                         [as the file is]\n"
	"      --diff             -o diff: what would change, in colour on a terminal\n"
	"  -w, --write            write the files in place, all or none\n"
	"  -n, --namespace NS     of objects that name none [default]\n"
	"  -v, --verbose          say why a pod or an object is left as it is\n"
	"\n"
	"What is injected, as for poolgate serve:\n"
	"  --config FILE, --client-catalogue FILE, --sidecar-config FILE, --client-shell PATH,\n"
	"  --launchers FILE|DIR, --default-launcher NAME, --total-gpu-memory SIZE "
	"[$TOTAL_GPU_MEMORY],\n"
	"  --node-resource BOOL, --pool FILE|DIR, --policies FILE|DIR\n"
	"  --registry HOST[,TOKENHOST...]\n"
	"                         ask this registry what an image starts whose container has no\n"
	"                         command, with the credentials of ~/.docker/config.json\n"
	"or what a cluster has installed:\n"
	"  --installed            the settings of the Deployment poolgate in " INSTALLED_NAMESPACE
	"; as\n"
	"                         `kubectl poolgate inject` without flags of the above this is "
	"meant\n"
	"  --kubeconfig FILE      the cluster [$KUBECONFIG, ~/.kube/config]\n"
	"\n"
	"Exit status: 0 done, 1 refused, 2 wrong usage, 3 something could not be read.\n"
	"\n"
	"Examples:\n"
	"  poolgate inject --config poolgate.yaml deployment.yaml | kubectl apply -f -\n"
	"  poolgate inject --installed --diff manifests/\n";

/* The command line, taken apart. */
struct command {
	const char *verb;
	enum inject_form form;
	bool verbose;
	bool in_place;
	struct inject_source source;
};

static bool set_form(const char *word, enum inject_form *ret)
{
	static const struct {
		const char *word;
		enum inject_form form;
	} forms[] = {{"yaml", INJECT_YAML}, {"json", INJECT_JSON}, {"patch", INJECT_PATCH},
		{"diff", INJECT_DIFF}};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (strcmp(word, forms[i].word) == 0) {
			*ret = forms[i].form;
			return true;
		}
	}
	return false;
}

enum { INSTALLED = INJECT_OWN, DIFF };

static const struct option options[] = {{"output", required_argument, NULL, 'o'},
	{"diff", no_argument, NULL, DIFF}, {"write", no_argument, NULL, 'w'},
	{"verbose", no_argument, NULL, 'v'}, {"help", no_argument, NULL, 'h'},
	{"installed", no_argument, NULL, INSTALLED}, INJECT_WORLD_OPTIONS, {NULL, 0, NULL, 0}};

/* One option. -1: go on; else the exit code. */
static int take_option(struct command *c, int found, int which, char **argv)
{
	const char *value = usage_value(argv);

	switch (found) {
	case 'o':
		return set_form(value, &c->form)
			       ? -1
			       : usage_wrong(c->verb,
					 "-o takes yaml, json, patch or diff, found \"%s\"", value);
	case 'v':
		c->verbose = true;
		return -1;
	case 'w':
		c->in_place = true;
		return -1;
	case DIFF:
		c->form = INJECT_DIFF;
		return -1;
	case 'h':
		(void)fputs(help, stdout);
		return INJECT_DONE;
	case 'f':
	case 'n':
	case INJECT_PASS_ON:
	case INJECT_KUBECONFIG:
	case INJECT_REGISTRY:
		return inject_source_take(c->verb, &c->source, found, &options[which], argv);
	case INSTALLED:
		c->source.installed = true;
		return -1;
	default:
		return usage_option(c->verb, found, options, argv);
	}
}

/* As the cluster has it, or as the flags say. -1: go on; else the exit code. */
static int choose_settings(struct command *c)
{
	bool plugin = strncmp(program_invocation_short_name, "kubectl-", 8) == 0;
	struct inject_source *s = &c->source;

	if (s->installed && s->n_passed)
		return usage_wrong(c->verb, "--installed and %s exclude each other", s->passed[0]);
	s->installed = s->installed || (plugin && s->n_passed == 0);
	if (s->kubeconfig && !s->installed)
		return usage_wrong(c->verb, "--kubeconfig needs --installed");
	return -1;
}

static int take_command(struct command *c, int argc, char **argv)
{
	int found, which = 0, rc = -1;

	optind = 0; /* getopt starts anew */
	opterr = 0;
	while (rc < 0 && (found = getopt_long(argc, argv, ":f:o:n:vwh", options, &which)) != -1)
		rc = take_option(c, found, which, argv);
	if (rc >= 0)
		return rc;
	rc = inject_source_rest(c->verb, &c->source, argc, argv);
	if (rc >= 0)
		return rc;
	if (c->in_place && c->source.n_inputs > 0)
		return usage_wrong(c->verb, "-w needs files: standard input has no place");
	if (c->in_place && c->form != INJECT_AS_READ)
		return usage_wrong(
			c->verb, "-w writes each file as it is, and excludes -o and --diff");
	return choose_settings(c);
}

static int inject_path(struct inject_job *job, const char *path)
{
	struct arena arena;
	struct file_list list;
	struct err err = {0};
	struct stat st;
	int worst = INJECT_DONE;

	if (strcmp(path, "-") == 0 || stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
		return inject_file(job, path);
	arena_init(&arena, FOLDER_BYTES_MAX);
	if (files_list(path, &arena, &list, &err) == 0 && list.n == 0)
		(void)err_set(
			&err, ERR_NOTFOUND, "%s: no *.yaml, *.yml or *.json in this folder", path);
	if (err.code != ERR_NONE) {
		(void)fprintf(stderr, "poolgate %s: %s\n", job->verb, err.msg);
		worst = INJECT_UNREADABLE;
	}
	for (size_t i = 0; err.code == ERR_NONE && i < list.n; i++) {
		int code = inject_file(job, list.path[i]);

		worst = code > worst ? code : worst;
	}
	arena_release(&arena);
	return worst;
}

int inject_files(struct inject_job *job, const struct inject_source *s)
{
	int worst = INJECT_DONE;

	for (size_t i = 0; i < s->n_files; i++) {
		int code = inject_path(job, s->files[i]);

		worst = code > worst ? code : worst;
	}
	return worst;
}

/* On a terminal, unless its user says otherwise (no-color.org). */
static bool wants_colour(void)
{
	const char *none = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && !(none && none[0]) && term && strcmp(term, "dumb") != 0;
}

static int write_files(struct inject_job *job)
{
	struct err err = {0};

	if (inject_write_held(job, &err) == 0)
		return INJECT_DONE;
	(void)fprintf(stderr, "poolgate %s: %s\n", job->verb, err.msg);
	return INJECT_UNREADABLE;
}

/* All files, and the output only when all went well. */
static int run(const struct command *c, const struct mutate_world *world)
{
	struct buf out;
	struct inject_job job = {.verb = c->verb,
		.world = world,
		.form = c->form,
		.namespace = slice_of(c->source.namespace),
		.verbose = c->verbose,
		.in_place = c->in_place,
		.colour = c->form == INJECT_DIFF && wants_colour(),
		.out = &out};
	int worst;

	buf_init(&out, INJECT_OUT_MAX);
	worst = inject_files(&job, &c->source);
	if (worst == INJECT_DONE && out.len > 0 && fwrite(out.data, 1, out.len, stdout) != out.len)
		worst = INJECT_UNREADABLE;
	if (fflush(stdout) != 0)
		worst = INJECT_UNREADABLE;
	if (worst == INJECT_UNREADABLE && ferror(stdout))
		(void)fprintf(stderr, "poolgate %s: cannot write the output\n", c->verb);
	if (worst == INJECT_DONE)
		worst = write_files(&job);
	inject_release_held(&job);
	buf_release(&out);
	return worst;
}

static int with_world(const struct command *c)
{
	struct inject_world w;
	int code = inject_world_load(c->verb, &c->source, &w);

	if (code == INJECT_DONE)
		code = run(c, &w.mutate);
	inject_world_release(&w);
	return code;
}

static int start(int argc, char **argv, const char *verb, bool inject)
{
	struct command c = {.verb = verb};
	int code = INJECT_UNREADABLE;

	if (inject_source_init(verb, &c.source, argc)) {
		code = take_command(&c, argc, argv);
		if (code < 0)
			code = inject ? with_world(&c) : run(&c, NULL);
	}
	inject_source_release(&c.source);
	return code;
}

int inject_main(int argc, char **argv)
{
	return start(argc, argv, "inject", true);
}

int uninject_main(int argc, char **argv)
{
	return start(argc, argv, "uninject", false);
}
