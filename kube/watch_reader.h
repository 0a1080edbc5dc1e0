/* SPDX-License-Identifier: Apache-2.0 */
/* kube: the stream of a watch as events: JSON documents, one a line, that come in pieces. Pure. */
#ifndef KUBE_WATCH_READER_H
#define KUBE_WATCH_READER_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_read.h"
#include "kube/kube_object.h"

/* An event holds one object, of which etcd takes 1.5 MiB by default; written as JSON it can be
 * longer. */
#define WATCH_LINE_MAX (16u << 20)

struct watch_event {
	enum kube_change what;
	char version[32]; /* the object's resourceVersion */
	const struct json *json;
	const struct json_node *object;
};

/* Told of each event. An error, with err set, ends the reading. */
typedef int watch_on_event(void *ctx, const struct watch_event *event, struct err *err);

struct watch_reader {
	watch_on_event *on_event;
	void *ctx;
	struct buf line; /* what came of the line that is not complete */
	struct json json;
	struct err err; /* why the stream is of no more use */
	bool expired;   /* because the version that was asked for is too old */
};

void watch_reader_init(struct watch_reader *r, watch_on_event *on_event, void *ctx);
/* Forget what came: a new stream begins. */
void watch_reader_reset(struct watch_reader *r);
void watch_reader_release(struct watch_reader *r);

/* The next bytes. False when the stream is of no more use: r->err is ERR_SYNTAX (what is no event),
 * ERR_TOOBIG (a line), ERR_NOMEM, ERR_IO (an ERROR event, with what its Status says) or on_event's.
 */
bool watch_reader_read(struct watch_reader *r, struct slice bytes);

#endif
