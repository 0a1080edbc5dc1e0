/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the command line of `gpuprobe compare`. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/files.h"
#include "probe/show/compare.h"
#include "probe/show/output.h"

#define FILE_BYTES_MAX (16u << 20)

static const char help[] =
	"usage: gpuprobe compare LOCAL.json REMOTE.json [-o table|json]\n"
	"\n"
	"What remote costs: what `gpuprobe bench` reports on a GPU server, as JSON, beside what "
	"it\n"
	"reports in a pod that uses its GPU through a remote-GPU client. Launches, copies by size\n"
	"and kernels, how many times slower each is, and for which kinds of programs that is fit.\n"
	"\n"
	"  -o, --output table|json\n"
	"\n"
	"Exit status: 0 compared, 2 wrong usage or a file that is no report of bench, 4 nothing "
	"that\n"
	"both have measured.\n"
	"\n"
	"Examples:\n"
	"  gpuprobe compare server.json pod.json\n"
	"  gpuprobe compare server.json pod.json -o json | jq '.gpus[0].kinds'\n";

static int refuse(const struct err *err, int status)
{
	(void)fprintf(stderr, "gpuprobe compare: %s%s\n", err->msg,
		status == EXIT_USAGE && !err->path[0] && err->code == ERR_CONFLICT
			? "; `gpuprobe compare --help` tells more"
			: "");
	return status;
}

static int read_side(const char *file, struct compare_side **ret, struct err *err)
{
	struct compare_side *side = malloc(sizeof(*side));
	struct err why = {0};
	struct buf text;
	int rc;

	buf_init(&text, FILE_BYTES_MAX);
	if (!side)
		rc = err_set(err, ERR_NOMEM, "no memory for a report");
	else if ((rc = files_read(file, &text, &why)) != 0)
		*err = why;
	else if ((rc = compare_read(
			  (struct slice){text.data ? text.data : "", text.len}, side, &why)) != 0)
		(void)err_set(
			err, rc, "%s: %s%s%s", file, why.path, why.path[0] ? ": " : "", why.msg);
	buf_release(&text);
	*ret = side;
	return rc;
}

static int compare_files(char *const *files, bool json)
{
	struct compare_side *local = NULL, *remote = NULL;
	struct err err = {0};
	struct buf out, warnings;
	int status = EXIT_FIT;

	buf_init(&out, FILE_BYTES_MAX);
	buf_init(&warnings, FILE_BYTES_MAX);
	if (read_side(files[0], &local, &err) != 0 || read_side(files[1], &remote, &err) != 0) {
		status = refuse(&err, EXIT_USAGE);
	} else if (compare_write(local, remote, json, &out, &warnings) == 0) {
		(void)err_set(&err, ERR_INVALID,
			"nothing was measured in both: see why in the reports, or make them anew "
			"with "
			"`gpuprobe bench --json`");
		status = refuse(&err, EXIT_INCONCLUSIVE);
	} else if (output_file("-", &out, &err) != 0) {
		status = refuse(&err, EXIT_INCONCLUSIVE);
	}
	if (warnings.len > 0 && !warnings.failed)
		(void)fwrite(warnings.data, 1, warnings.len, stderr);
	buf_release(&warnings);
	buf_release(&out);
	free(local);
	free(remote);
	return status;
}

int compare_main(int argc, char **argv)
{
	static const struct option names[] = {{"output", required_argument, NULL, 'o'},
		{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
	struct err err = {0};
	bool json = false;
	int found;

	opterr = 0;
	optind = 0;
	while ((found = getopt_long(argc, argv, ":o:h", names, NULL)) != -1) {
		if (found == 'h') {
			(void)fputs(help, stdout);
			return fflush(stdout) == 0 ? EXIT_FIT : EXIT_INCONCLUSIVE;
		}
		if (found == 'o' && (strcmp(optarg, "json") == 0 || strcmp(optarg, "table") == 0)) {
			json = optarg[0] == 'j';
			continue;
		}
		if (found == 'o')
			(void)err_set(
				&err, ERR_CONFLICT, "-o takes table or json, found \"%s\"", optarg);
		else
			(void)err_set(&err, ERR_CONFLICT,
				found == ':' ? "%s needs a value" : "unknown option %s",
				argv[optind - 1]);
		return refuse(&err, EXIT_USAGE);
	}
	if (argc - optind != 2) {
		(void)err_set(&err, ERR_CONFLICT,
			"expected two reports, LOCAL.json and REMOTE.json, found %d",
			argc - optind);
		return refuse(&err, EXIT_USAGE);
	}
	return compare_files(argv + optind, json);
}
