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

/* The command line, taken apart. */
struct command {
	struct inject_source source;
	const char *verb;
	enum inject_form form;
	bool verbose, in_place;
};
_Static_assert(offsetof(struct command, source) == 0, "rows of inject_world are of it");

static int take_form(const struct opt *row, const char *value, void *of, struct err *err)
{
	static const char *const words[] = {[INJECT_YAML] = "yaml",
		[INJECT_JSON] = "json",
		[INJECT_PATCH] = "patch",
		[INJECT_DIFF] = "diff"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (words[i] && strcmp(value, words[i]) == 0) {
			((struct command *)of)->form = (enum inject_form)i;
			return 0;
		}
	return opts_wrong(row, "yaml, json, patch or diff", value, err);
}

static const struct opt options[] = {
	OPT_OWN(take_form, "-o", "FORM",
		"yaml, json, patch (JSON patches, a line per document) or diff\n"
		"[as the file is]",
		.also = "--output"),
	OPT_ANSWER(command, form, INJECT_DIFF, "--diff",
		"-o diff: what would change, in colour on a terminal"),
	OPT_FLAG(command, in_place, "--write", "write the files in place, all or none",
		.also = "-w"),
	OPT_FLAG(command, verbose, "--verbose", "say why a pod or an object is left as it is",
		.also = "-v"),
	OPT_FLAG(command, source.installed, "--installed",
		"the settings of the Deployment poolgate in " INSTALLED_NAMESPACE ";\n"
		"`kubectl poolgate inject` means it unless one of the flags under\n"
		"\"What is injected\" is given"),
	INJECT_WORLD_OPTIONS,
};
static const struct subcommand shared = {NULL,
	"usage: poolgate inject [options] [FILE|DIR...]  do to manifests what the server does to "
	"pods\n"
	"       poolgate uninject [options] [FILE|DIR...]  take it back\n"
	"\n"
	"YAML or JSON, from files or standard input (\"-\", also when no file is named), to "
	"standard\n"
	"output. Pods and pod templates are found in objects of any kind by their shape,\n"
	"{metadata, spec: {containers: [...]}}; what holds none passes as it is.\n"
	"The text is edited where it stands: comments, order and quotes stay.\n"
	"\n",
	"\n"
	"What is injected, as for poolgate serve:\n" INJECT_PASSED_HELP "\n"
	"Exit status: 0 done, 1 refused, 2 wrong usage, 3 something could not be read.\n"
	"\n"
	"Examples:\n"
	"  poolgate inject --config poolgate.yaml deployment.yaml | kubectl apply -f -\n"
	"  poolgate inject --installed --diff manifests/\n",
	USAGE_OPTIONS(options)};

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
	struct subcommand own = shared;
	int rc;

	own.command = c->verb;
	if ((rc = usage_read(&own, c, argc, argv)) >= 0)
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
