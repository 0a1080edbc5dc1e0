// SPDX-License-Identifier: Apache-2.0
// bench: the transport alone: net/http_server as `poolgate serve` starts it, and the same reply to
// every POST:
//   fixed ADDR:PORT CERT KEY LENGTH    so many bytes
//   fixed ADDR:PORT CERT KEY +LENGTH   the same once the body was read as JSON, every check on: the
//   least that a review can cost fixed ADDR:PORT CERT KEY @FILE     an AdmissionReview that allows;
//   from the path /patch with FILE, a patch in base64, unless
//                                      the object has the mark that it leaves: a hook that changes
//                                      something is asked again
// Ends at SIGTERM.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/files.h"
#include "base/json/json_read.h"
#include "base/text.h"
#include "net/http_server.h"
#include "net/tls_identity.h"

#define LENGTH_MAX (1024u * 1024)
#define WORKERS 2
#define STOP_MS 1000
#define MARK "poolgate.no/" /* as test/bench/noop.py writes it */
#define UID "\"uid\":\""    /* the first in a review is the request's */

static size_t length;
static bool reads;
static char *patch;

static bool is_json(const struct http_request *req)
{
	/* kept from one body to the next, as a review's is */
	static _Thread_local struct json json;
	struct err err;

	return req->body && json_read(&json, req->body, req->body_len, UINT32_MAX, &err) == 0;
}

/* A fresh allocation each time: that is what the server frees, and what a review's reply takes. */
static enum http_outcome answer(void *ctx, struct http_request *req, struct http_reply *reply)
{
	(void)ctx;
	if (reads && !is_json(req)) {
		http_reply_text(reply, 400, "no JSON");
		return HTTP_DONE;
	}
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

static enum http_outcome allow(void *ctx, struct http_request *req, struct http_reply *reply)
{
	const char *uid = req->body ? strstr(req->body, UID) : NULL,
		   *end = uid ? strchr(uid + sizeof(UID) - 1, '"') : NULL;
	struct buf b;

	(void)ctx;
	if (!end) {
		http_reply_text(reply, 400, "no AdmissionReview");
		return HTTP_DONE;
	}
	buf_init(&b, LENGTH_MAX);
	buf_fmt(&b,
		"{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/"
		"v1\",\"response\":{%.*s,\"allowed\":true",
		(int)(end - uid) + 1, uid);
	if (req->route->tag && !strstr(req->body, MARK))
		buf_fmt(&b, ",\"patchType\":\"JSONPatch\",\"patch\":\"%s\"", patch);
	buf_str(&b, "}}");
	reply->body_len = b.len;
	reply->body = b.data;
	reply->status = 200;
	reply->content_type = "application/json";
	return HTTP_DONE;
}

static const struct http_route same[] = {
	{.path = "/", .method = HTTP_POST, .prefix = true, .handle = answer}};
static const struct http_route review[] = {
	{.path = "/patch", .method = HTTP_POST, .handle = allow, .tag = 1},
	{.path = "/allow", .method = HTTP_POST, .handle = allow}};

static int serve(const char *listen, struct tls_identity *identity)
{
	struct http_config cfg = {.listen = listen, .identity = identity, .workers = WORKERS};
	struct http_app app = {.routes = patch ? review : same, .nroutes = patch ? 2 : 1};
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

	if (argc == 5 && argv[4][0] == '@') {
		struct buf file;

		buf_init(&file, LENGTH_MAX);
		if (files_read(argv[4] + 1, &file, &err) != 0) {
			(void)fprintf(stderr, "fixed: %s\n", err.msg);
			return 1;
		}
		patch = file.data;
	} else if (argc == 5 && text_u64(slice_of(argv[4] + (argv[4][0] == '+')), LENGTH_MAX, &n) &&
		   n > 0) {
		length = (size_t)n;
		reads = argv[4][0] == '+';
	} else {
		(void)fprintf(stderr, "usage: fixed ADDR:PORT CERT KEY [+]LENGTH|@FILE\n");
		return 2;
	}
	identity = tls_identity_new();
	if (!identity || tls_identity_load_files(identity, argv[2], argv[3], &err) != 0) {
		(void)fprintf(stderr, "fixed: %s\n", err.msg);
		return 1;
	}
	status = serve(argv[1], identity);
	tls_identity_free(identity);
	free(patch);
	return status;
}
