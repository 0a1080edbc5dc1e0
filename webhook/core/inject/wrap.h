/* SPDX-License-Identifier: Apache-2.0 */
/* core: put the launcher in front of a container's command, so that the program gets the very argv
 * it would have had. */
#ifndef WEBHOOK_CORE_INJECT_WRAP_H
#define WEBHOOK_CORE_INJECT_WRAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json/json_read.h"
#include "webhook/core/image/image.h"
#include "webhook/core/launcher/launcher.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/review/review.h"

/* What is written in front of `command`; the container's own words and `args` stay where and as
 * they are. */
struct wrap {
	enum command_mode mode; /* WRAPPED, SHELL or OWN */
	struct slice *words;    /* as the pod must hold them: `$` doubled, since the kubelet expands
				   $(VAR) */
	size_t n_words;         /* launcher words, and for SHELL the shell and -c behind them */
	uint32_t argv;          /* launcher words alone */
};

/* Decide for one container. The launch must be complete (client, amounts, filters, servers).
 * - exec form: launcher words in front;
 * - one string that holds blanks: a shell line, run by the profile's shell -c; refused with args
 * beside it;
 * - a command that starts the launcher itself (first word, first word of its shell's -c script or
 * of its one string, by basename): left alone; its own amount, fraction and memory must agree with
 * the request;
 * - no command: refused with what to add.
 * ERR_INVALID with a path below the container; ERR_NOMEM. */
int wrap_command(const struct json *j, const struct json_node *container, const struct launch *l,
	struct arena *a, struct warnings *w, struct wrap *ret, struct err *err);

/* The same for a container without a command, whose image starts this: ret_words are the image's
 * own, `$` doubled (a runtime takes an image's words as they are), CMD's only where the container
 * has no args. A launcher among them cannot be counted: refused, as an image that starts nothing.
 */
int wrap_image(const struct json *j, const struct json_node *container, const struct launch *l,
	const struct image_start *start, struct arena *a, struct wrap *ret,
	struct slice **ret_words, size_t *ret_n, struct err *err);

/* err says why an image cannot be looked at: make it the refusal of its container. Returns the
 * code, ERR_REFUSED. */
int wrap_refuse_image(const struct profile *p, struct err *err);

/* Has the container a command? */
bool wrap_has_command(const struct json *j, const struct json_node *container);

/* The words that wrap_command would put in front in that mode. ERR_NOMEM. */
int wrap_words(const struct launch *l, enum command_mode mode, struct arena *a, struct wrap *ret,
	struct err *err);

/* Does this command start the launcher itself? (See wrap_command.) Total: false for anything
 * malformed. */
bool wrap_is_own(const struct json *j, const struct json_node *container, const struct profile *p,
	struct arena *a);

/* The same for the words of an image, in front of the container's args. */
bool wrap_is_own_image(const struct json *j, const struct json_node *container,
	const struct slice *words, size_t n, const struct profile *p, struct arena *a);

#endif
