/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: where the API server is, and a request to it as bytes. */
#ifndef DEVICEPLUGIN_POOL_REQUEST_H
#define DEVICEPLUGIN_POOL_REQUEST_H

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "kube/kube_config.h"
#include "net/client_socket.h"

/* What config->server says; points into itself and config. */
struct pool_server {
	const struct kube_config *config;
	const char *agent; /* who asks, for User-Agent */
	struct client_target target;
	char host[256];
	const char *prefix; /* of paths, without a slash at its end */
	int prefix_len;
	char authority[300]; /* for the header Host */
};

#define POOL_JSON "application/json"
#define POOL_TABLES "application/json;as=Table;v=v1;g=meta.k8s.io"

/* A request: GET, or with a body POST of it as JSON. */
struct pool_ask {
	const char *path;
	const char *accept; /* POOL_JSON or POOL_TABLES */
	struct slice body;  /* absent: none */
};

/* config and agent are borrowed. ERR_INVALID: its server is no URL of ours. */
int pool_server_init(struct pool_server *s, const struct kube_config *config, const char *agent,
	struct err *err);

/* Append the request, with the token of now. Holds a secret then. ERR_IO, ERR_NOTFOUND, ERR_INVALID (the token); ERR_NOMEM. */
int pool_request(
	const struct pool_server *s, const struct pool_ask *ask, struct buf *out, struct err *err);

#endif
