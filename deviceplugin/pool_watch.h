/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: the pool, watched through the API server over one connection, by the thread that
 * does everything else, too: nothing waits in here but the look-up of a name, when the API server
 * is known by one. kube/reflector decides; kube/kube_watch drives it on a thread of its own through
 * libcurl, which with what it needs is twice the memory of this whole program. */
#ifndef DEVICEPLUGIN_POOL_WATCH_H
#define DEVICEPLUGIN_POOL_WATCH_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "kube/kube_config.h"

/* Units of one GPU: per cent. */
#define POOL_UNITS_PER_GPU 100u

struct pool_watch;

/* The pool as it is known now. */
struct pool_now {
	bool known;     /* false: not listed yet, or the API server has been away for longer than
			   away_ms */
	bool connected; /* the watch runs */
	uint64_t units; /* POOL_UNITS_PER_GPU for each GPU that takes claims */
	size_t servers;
	uint64_t breaks; /* times that the watch broke */
};

/* config and log are borrowed. ERR_INVALID: config's server is no URL of ours; ERR_NOMEM. */
int pool_watch_new(const struct kube_config *config, int64_t away_ms, const struct log *log,
	struct pool_watch **ret, struct err *err);
/* NULL-safe. */
void pool_watch_free(struct pool_watch *w);

/* What to wait for: *ret is for poll() (fd -1: nothing to wait for), and after the number of
 * milliseconds it returns (0: now, -1: never) there is something to do though nothing came. */
int64_t pool_watch_poll(const struct pool_watch *w, struct pollfd *ret);
/* Do what can be done without waiting; when what is asked: kube/reflector.h. One line in the log
 * when it breaks, one when it is back. */
void pool_watch_turn(struct pool_watch *w);

struct pool_now pool_watch_now(const struct pool_watch *w);

#endif
