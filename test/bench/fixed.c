// SPDX-License-Identifier: Apache-2.0
// bench: the transport alone: net/http_server as `poolgate serve` starts it, and a reply of a fixed length to every POST:
//   fixed ADDR:PORT CERT KEY LENGTH
// Ends at SIGTERM.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "net/http_server.h"
#include "net/tls_identity.h"

#define LENGTH_MAX (1024u * 1024)
#define WORKERS 2
#define STOP_MS 1000

static size_t length;

/* A fresh allocation each time: that is what the server frees, and what a review's reply takes. */
static enum http_outcome answer(void *ctx, struct http_request *req, struct http_reply *reply)
{
	(void)ctx, (void)req;
	reply->body = malloc(length);
	if (!reply->body) {
		http_reply_text(reply, 500, "out of memory");
		return HTTP_DONE;
	}
	memset(reply->body, 'x', length);
	reply->body_len = length;
	reply->status = 200;
	reply->content_type = "application/json";
	return HTTP_DONE;
}

static const struct http_route routes[] = {
	{.path = "/", .method = HTTP_POST, .prefix = true, .handle = answer}};

static int serve(const char *listen, struct tls_identity *identity)
{
	struct http_config cfg = {.listen = listen, .identity = identity, .workers = WORKERS};
	struct http_app app = {.routes = routes, .nroutes = 1};
	struct http_server *server;
	struct err err = {0};
	sigset_t ends;
	int sig;

	(void)sigemptyset(&ends);
	(void)sigaddset(&ends, SIGTERM);
	(void)sigaddset(&ends, SIGINT);
	(void)sigprocmask(SIG_BLOCK, &ends, NULL);
	if (http_server_start(&cfg, &app, &server, &err) != 0) {
		(void)fprintf(stderr, "fixed: %s\n", err.msg);
		return 1;
	}
	(void)sigwait(&ends, &sig);
	http_server_stop(server, STOP_MS);
	return 0;
}

int main(int argc, char **argv)
{
	struct tls_identity *identity;
	struct err err = {0};
	uint64_t n;
	int status;

	if (argc != 5 || !text_u64(slice_of(argv[4]), LENGTH_MAX, &n) || n == 0) {
		(void)fprintf(stderr, "usage: fixed ADDR:PORT CERT KEY LENGTH\n");
		return 2;
	}
	length = (size_t)n;
	identity = tls_identity_new();
	if (!identity || tls_identity_load_files(identity, argv[2], argv[3], &err) != 0) {
		(void)fprintf(stderr, "fixed: %s\n", err.msg);
		return 1;
	}
	status = serve(argv[1], identity);
	tls_identity_free(identity);
	return status;
}
