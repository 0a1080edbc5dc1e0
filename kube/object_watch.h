/* SPDX-License-Identifier: Apache-2.0 */
/* kube: objects, watched through the API server over one connection, by the thread that does
 * everything else, too: nothing waits in here but the look-up of a name, when the API server is
 * known by one. kube/reflector decides and tells; kube/kube_watch drives it on a thread of its own
 * through libcurl, which with what it needs is twice the memory of a small program. */
#ifndef KUBE_OBJECT_WATCH_H
#define KUBE_OBJECT_WATCH_H

#include <poll.h>
#include <stdint.h>

#include "base/err.h"
#include "kube/kube_config.h"
#include "kube/reflector.h"

struct object_watch;

/* config and agent (the program's name, for User-Agent) are borrowed; of reflector, the seed is
 * chosen here. ERR_INVALID: config's server is no URL of ours; ERR_NOMEM. */
int object_watch_new(const struct kube_config *config, const struct reflector_config *reflector,
	const char *agent, struct object_watch **ret, struct err *err);
/* NULL-safe. */
void object_watch_free(struct object_watch *w);

/* What to wait for: *ret is for poll() (fd -1: nothing to wait for), and after the number of
 * milliseconds it returns (0: now) there is something to do though nothing came. */
int64_t object_watch_poll(const struct object_watch *w, struct pollfd *ret);
/* Do what can be done without waiting; the reflector's app is told in here. */
void object_watch_turn(struct object_watch *w);

#endif
