/* SPDX-License-Identifier: Apache-2.0 */
/* test: an HTTPS server with a certificate, for tests of net/http_client.h, whose names clash with
 * those of net/http_server.h. */
#ifndef TEST_UNIT_TLS_SERVER_H
#define TEST_UNIT_TLS_SERVER_H

#include "test/unit/make_pair.h"

struct tls_server;

/* GET /livez is answered with 200. On 127.0.0.1, at *ret_port. */
struct tls_server *tls_server_start(const struct made_pair *pair, unsigned *ret_port);
/* Ends it; how many requests it has handled. */
int tls_server_stop(struct tls_server *s);

#endif
