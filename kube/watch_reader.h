/* SPDX-License-Identifier: Apache-2.0 */
/* kube: the stream of a watch as events: JSON documents, one a line, that come in pieces. Pure. */
#ifndef KUBE_WATCH_READER_H
#define KUBE_WATCH_READER_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json_read.h"

/* An event holds one object, of which etcd takes 1.5 MiB by default; written as JSON it can be longer. */
#define KUBE_WATCH_LINE_MAX (16u << 20)

enum kube_watch_type { KUBE_WATCH_PUT, KUBE_WATCH_GONE, KUBE_WATCH_BOOKMARK };

struct kube_watch_event {
	enum kube_watch_type type;
	char version[32];
	const struct json *json;
	const struct json_node *object;
};

/* Told of each event; false ends the reading. */
typedef bool kube_watch_told(void *ctx, const struct kube_watch_event *event);

struct kube_watch_reader {
	kube_watch_told *told;
	void *ctx;
	struct buf line; /* what came of the line that is not complete */
	struct json json;
	/* Why the stream is of no more use: 0, or an error with its sentence. */
	int code;
	bool expired; /* because the version that was asked for is too old */
	struct err err;
};

void kube_watch_reader_init(struct kube_watch_reader *r, kube_watch_told *told, void *ctx);
/* Forget what came: a new stream begins. */
void kube_watch_reader_reset(struct kube_watch_reader *r);
void kube_watch_reader_release(struct kube_watch_reader *r);

/* The next bytes. False when told said so, or when code is set: ERR_SYNTAX (what is no event), ERR_TOOBIG (a line), ERR_NOMEM, or
 * what the Status of an ERROR event means. */
bool kube_watch_read(struct kube_watch_reader *r, struct slice bytes);

#endif
