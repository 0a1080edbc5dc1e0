/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate inject` and `poolgate uninject`. */
#ifndef WEBHOOK_CLI_INJECT_INJECT_H
#define WEBHOOK_CLI_INJECT_INJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "webhook/cli/inject/manifest.h"
#include "webhook/core/inject/mutate.h"

/* Exit codes, the worst of several files' the highest. */
enum { INJECT_DONE = 0, INJECT_REFUSED = 1, INJECT_USAGE = 2, INJECT_UNREADABLE = 3 };

/* All that is written. */
#define INJECT_OUT_MAX (128u << 20)

enum inject_form {
	INJECT_AS_READ, /* YAML for YAML, JSON for JSON */
	INJECT_YAML,
	INJECT_JSON,
	INJECT_PATCH, /* a JSON patch in a line for each document that bears pods */
	INJECT_DIFF   /* what changes in the text */
};

/* The new text of a file that is written in place. */
struct inject_held {
	char *path, *text;
	size_t len;
};

struct inject_job;

/* Told of each pod of a document in order, in the place of injecting it. What is wrong is said
 * there. Returns the exit code. */
typedef int inject_look(const struct inject_job *job, void *ctx, const struct manifest_pod *pod);

/* What is done to every file. */
struct inject_job {
	const char *verb;                 /* "inject" or "uninject", for messages */
	const struct mutate_world *world; /* NULL: take injections back */
	enum inject_form form;
	struct slice namespace; /* of objects that name none */
	bool verbose;           /* say why a pod is left alone */
	bool colour;            /* in a diff */
	struct buf *out;
	bool wrote;        /* out holds the text of an earlier file */
	bool in_place;     /* nothing is for out: new texts are held until all files are through */
	inject_look *look; /* NULL: pods are injected; else they are told, and nothing is written */
	void *ctx;
	struct inject_held *held; /* see inject_hold() */
	size_t n_held;
};

/* `poolgate inject …` and `poolgate uninject …`; argv[0] is the verb. Manifests from files or
 * standard input to standard output; messages to standard error. When anything is refused or
 * unreadable, nothing is written to standard output. Returns the exit code. With -w files are
 * written in place instead, all or, when anything is wrong with one, none. getopt's state: main
 * thread only. */
int inject_main(int argc, char **argv);
int uninject_main(int argc, char **argv);

struct inject_source; /* inject_world.h */

/* inject_file() of each that is named, and of each manifest in a folder that is. The worst exit
 * code. */
int inject_files(struct inject_job *job, const struct inject_source *s);

/* One file ("-": standard input): read, decide, append the result to job->out. What is wrong is
 * said on standard error. Returns the exit code. */
int inject_file(struct inject_job *job, const char *path);

/* Keep a copy of a file's new text for inject_write_held(). ERR_TOOBIG when all texts together pass
 * INJECT_OUT_MAX, ERR_NOMEM. */
int inject_hold(struct inject_job *job, const char *path, struct slice text, struct err *err);
/* Write what is held, each file in one step; the first that cannot be written ends it (ERR_IO, with
 * what was written before). */
int inject_write_held(struct inject_job *job, struct err *err);
/* Free what is held. */
void inject_release_held(struct inject_job *job);

/* Append a patch of the engine (a JSON array) with `pointer` in front of every path, without the
 * brackets. ERR_SYNTAX, ERR_NOMEM. */
int inject_prefix_patch(struct slice patch, struct slice pointer, struct buf *out, struct err *err);

/* "poolgate VERB: FILE:LINE: Kind/name: " on standard error; what follows is the caller's to write.
 */
void inject_say_place(const struct inject_job *job, const struct manifest_pod *pod, uint32_t line);

/* Warn on standard error of each annotation of ours on the pod whose value is no string. */
void inject_say_types(const struct inject_job *job, const struct manifest_pod *pod);

/* Is this error about what was read, or about us, and not about the pod? */
bool inject_is_our_fault(const struct err *err);

/* The line of the deepest node on a path (a JSON pointer, decoded segment by segment) below a pod.
 */
uint32_t inject_line(const struct manifest_pod *pod, struct slice path);

#endif
