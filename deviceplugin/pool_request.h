/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: where the API server is, and a request to it as bytes. */
#ifndef DEVICEPLUGIN_POOL_REQUEST_H
#define DEVICEPLUGIN_POOL_REQUEST_H

#include "base/buf.h"
#include "base/err.h"
#include "kube/kube_config.h"
#include "net/client_socket.h"

/* What config->server says; points into itself and config. */
struct pool_server {
	const struct kube_config *config;
	struct client_target target;
	char host[256];
	const char *prefix; /* of paths, without a slash at its end */
	int prefix_len;
	char authority[300]; /* for the header Host */
};

/* config is borrowed. ERR_INVALID: its server is no URL of ours. */
int pool_server_init(struct pool_server *s, const struct kube_config *config, struct err *err);

/* Append a request for a table: GET of path, with the token of now. Holds a secret then. ERR_IO, ERR_NOTFOUND, ERR_INVALID (the token);
 * ERR_NOMEM. */
int pool_request(const struct pool_server *s, const char *path, struct buf *out, struct err *err);

#endif
