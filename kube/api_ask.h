/* SPDX-License-Identifier: Apache-2.0 */
/* kube: where the API server is, and a request to it as bytes. */
#ifndef KUBE_API_ASK_H
#define KUBE_API_ASK_H

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "kube/kube_config.h"
#include "net/client_socket.h"

/* What config->server says; points into itself and config. */
struct api_server {
	const struct kube_config *config;
	const char *agent; /* who asks, for User-Agent */
	struct client_target target;
	char host[256];
	const char *prefix; /* of paths, without a slash at its end */
	int prefix_len;
	char authority[300]; /* for the header Host */
};

#define API_JSON "application/json"
#define API_TABLES "application/json;as=Table;v=v1;g=meta.k8s.io"

/* A request: GET, or with a body POST of it as JSON. */
struct api_ask {
	const char *path;
	const char *accept; /* API_JSON or API_TABLES */
	struct slice body;  /* absent: none */
};

/* config and agent are borrowed. ERR_INVALID: its server is no URL of ours. */
int api_server_init(
	struct api_server *s, const struct kube_config *config, const char *agent, struct err *err);

/* Append the request, with the token of now. Holds a secret then. ERR_IO, ERR_NOTFOUND, ERR_INVALID
 * (the token); ERR_NOMEM. */
int api_ask_write(
	const struct api_server *s, const struct api_ask *ask, struct buf *out, struct err *err);

#endif
