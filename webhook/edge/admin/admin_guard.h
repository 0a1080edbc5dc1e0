/* SPDX-License-Identifier: Apache-2.0 */
/* edge: who may ask the admin listener: people and programs of this machine, but no web page that
 * they visit. */
#ifndef WEBHOOK_EDGE_ADMIN_ADMIN_GUARD_H
#define WEBHOOK_EDGE_ADMIN_ADMIN_GUARD_H

#include <stdbool.h>

#include "net/http_server.h"

/* A page from elsewhere whose own name is made to lead to this machine (DNS rebinding) may read
 * what is answered; its browser then sends that name as Host. So over loopback Host must be an
 * address or localhost; NULL (none was sent) is no browser. peer as in struct http_request. */
bool admin_host_allowed(const char *host, const char *peer);

/* In handle(): false, with the reply filled (421), when the request's Host is not allowed. */
bool admin_allows(const struct http_request *req, struct http_reply *reply);

#endif
