/* SPDX-License-Identifier: Apache-2.0 */
/* kube: a list that stays true: list, then watch from there, on a thread of its own, for as long as
 * it is wanted. */
#ifndef KUBE_KUBE_WATCH_H
#define KUBE_KUBE_WATCH_H

#include <stdbool.h>

#include "base/err.h"
#include "base/log.h"
#include "kube/kube.h"

/* What the watch calls, always from its own thread. */
struct kube_watch_app {
	void *ctx;
	/* A whole list begins: what is not put until listed() no longer exists. Also called when
	 * one is begun anew. */
	void (*listing)(void *ctx);
	/* An object that is there (listed, added or modified), or the last state of one that is
	 * gone. Valid for the call. False: there was no memory for it, and nothing else would tell
	 * of it again: the list is made anew. */
	bool (*change)(void *ctx, enum kube_change what, const struct json *j,
		const struct json_node *object);
	/* The list is complete, at this resourceVersion. */
	void (*listed)(void *ctx, const char *version);
	/* The stream broke, or came back (at the first event or list after it, or when it has been
	 * open for a second). May be NULL. */
	void (*connected)(void *ctx, bool yes);
};

struct kube_watch;

/* path: what to list and watch, "/api/v1/pods?labelSelector=…", with a query or without. k and log
 * are borrowed. The first list is begun at once; what follows is as kube/reflector.h says. A line
 * in the log when it breaks and when it is back, not for each try. NULL and err: ERR_NOMEM, ERR_IO
 * (no libcurl), ERR_INTERNAL (no thread). */
struct kube_watch *kube_watch_start(struct kube *k, const char *path,
	const struct kube_watch_app *app, const struct log *log, struct err *err);

/* Ends the thread, within about a second and a half (a call that runs is cut); nothing is called
 * afterwards. NULL-safe. */
void kube_watch_stop(struct kube_watch *w);

#endif
