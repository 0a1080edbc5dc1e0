/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: what the files of the pool's watch share. */
#ifndef DEVICEPLUGIN_POOL_WATCH_IMPL_H
#define DEVICEPLUGIN_POOL_WATCH_IMPL_H

#include "base/buf.h"
#include "deviceplugin/gpu_count.h"
#include "deviceplugin/pool_watch.h"
#include "kube/kube_answer.h"
#include "kube/watch_reader.h"
#include "net/client_socket.h"
#include "net/http_answer.h"

#define POOL_PATH "/apis/poolgate.io/v1alpha1/gpuservers"
/* One page of the list, or a refusal. */
#define POOL_PAGE_MAX (4u << 20)
#define POOL_TOKEN_MAX 16384
/* A record of TLS. */
#define POOL_READ 16384

enum pool_connection { CONNECTION_NEW, CONNECTION_UP, CONNECTION_DOWN };

struct pool_watch {
	const struct kube_config *config;
	const struct log *log;
	int64_t away_ms;
	/* Where the API server is. */
	struct client_target target;
	char host[256];
	const char *prefix; /* of paths, without a slash at its end; in config->server */
	int prefix_len;
	char authority[300]; /* for the header Host */
	/* The connection, and what was asked on it. */
	struct client_socket *socket;
	bool asked; /* and not answered in full */
	bool more;  /* there may be bytes to read that poll() does not know of */
	struct http_answer answer;
	int64_t opened_ms, asked_ms, heard_ms;
	int64_t due_ms; /* not before */
	/* The list on its way, and the watch. */
	bool watching; /* what is asked for, or is next */
	struct buf body, page;
	struct json json;
	struct gpu_count next;
	struct watch_reader reader;
	char version[32];
	/* What is known. */
	struct gpu_count count;
	bool listed, said;
	enum pool_connection connection;
	unsigned failures; /* in a row */
	int64_t broken_ms;
	uint64_t breaks;
	char in[POOL_READ];
};

/* Fill in target, host, prefix and authority from config. ERR_INVALID. */
int pool_target(struct pool_watch *w, struct err *err);

/* Send the next request: of the list's next page, or of the watch. ERR_NOMEM, ERR_IO, ERR_NOTFOUND, ERR_INVALID (the token). */
int pool_ask(struct pool_watch *w, bool (*on_body)(void *ctx, struct slice piece), struct err *err);

/* The error for an answer that body has no room for: ERR_TOOBIG, ERR_NOMEM. */
int pool_too_long(const struct pool_watch *w, struct err *err);

/* From 0 to n - 1. */
uint32_t pool_dice(uint32_t n);

#endif
