/* SPDX-License-Identifier: Apache-2.0 */
/* cli: new texts of files that are written in place, held until nothing can be refused any more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "webhook/cli/inject/inject.h"

int inject_hold(struct inject_job *job, const char *path, struct slice text, struct err *err)
{
	size_t all = text.len;
	struct inject_held *grown, held;

	for (size_t i = 0; i < job->n_held; i++)
		all += job->held[i].len;
	if (all > INJECT_OUT_MAX)
		return err_set(err, ERR_TOOBIG, "%s: the output is too large", path);
	grown = realloc(job->held, (job->n_held + 1) * sizeof(grown[0]));
	if (grown)
		job->held = grown;
	held = (struct inject_held){strdup(path), malloc(text.len + 1), text.len};
	if (!grown || !held.path || !held.text) {
		free(held.path);
		free(held.text);
		return err_set(err, ERR_NOMEM, "%s: out of memory", path);
	}
	memcpy(held.text, text.at, text.len);
	job->held[job->n_held++] = held;
	return 0;
}

int inject_write_held(struct inject_job *job, struct err *err)
{
	struct err why = {0};

	for (size_t i = 0; i < job->n_held; i++) {
		const struct inject_held *h = &job->held[i];

		if (files_replace(h->path, (struct slice){h->text, h->len}, &why) != 0)
			return err_set(err, why.code, "%s; %zu of %zu changed files are written",
				why.msg, i, job->n_held);
		if (job->verbose)
			(void)fprintf(stderr, "poolgate %s: %s: written\n", job->verb, h->path);
	}
	return 0;
}

void inject_release_held(struct inject_job *job)
{
	for (size_t i = 0; i < job->n_held; i++) {
		free(job->held[i].path);
		free(job->held[i].text);
	}
	free(job->held);
}
