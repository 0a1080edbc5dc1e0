/* SPDX-License-Identifier: Apache-2.0 */
/* edge: GET / of the admin listener: the page with the pool. */
#ifndef WEBHOOK_EDGE_PAGE_ROUTE_H
#define WEBHOOK_EDGE_PAGE_ROUTE_H

#include "net/http_server.h"

/* For the route table; ctx is the struct plain. ?servers=2&claims=3 choose what is shown of a large pool. A worker writes it. */
enum http_outcome page_route(void *ctx, struct http_request *req, struct http_reply *reply);
enum http_outcome page_route_slow(void *ctx, struct http_request *req, struct http_reply *reply);

#endif
