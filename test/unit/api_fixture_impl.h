/* SPDX-License-Identifier: Apache-2.0 */
/* test: what the files of api_fixture share: connections (api_connection.c), and what tests call
 * (api_fixture.c). */
#ifndef TEST_UNIT_API_FIXTURE_IMPL_H
#define TEST_UNIT_API_FIXTURE_IMPL_H

#include <pthread.h>

#include "test/unit/api_fixture.h"

#define CONNECTIONS 256
#define SEEN_MAX 20000
#define SCRIPTS_MAX 4096

struct script {
	char *method, *path;
	struct api_reply reply;
	bool used;
};

struct connection {
	struct api *api;
	pthread_t thread;
	int fd; /* -1: free or closed */
	bool started;
	bool streaming;
	char path[2048];                /* of the stream */
	const struct api_request *held; /* its answer is delayed; NULL: none is */
};

struct api {
	api_handle *handle;
	void *ctx;
	char url[64];
	int port;
	pthread_mutex_t handling; /* held while handle runs; taken before lock */
	pthread_mutex_t lock;     /* everything below */
	pthread_cond_t let_go;    /* an answer is delayed no more */
	pthread_t acceptor;
	int listener; /* -1: down */
	int place; /* does not listen: it keeps the port while we are down, or somebody else would
		      be given it */
	struct connection connection[CONNECTIONS];
	struct script script[SCRIPTS_MAX];
	size_t scripts;
	struct api_request *seen[SEEN_MAX];
	size_t nseen;
};

/* Else says why and aborts. */
void api_must(bool ok, const char *what);
/* p, which may not be NULL. */
void *api_some(void *p);
/* Does the text match, a '*' at the pattern's end standing for the rest? */
bool api_fits(const char *pattern, const char *text);

/* ---- api_connection.c ---- */

/* False: the connection is gone. */
bool api_send_all(int fd, const char *text, size_t len);
bool api_send_chunk(int fd, const char *text);
void api_request_free(struct api_request *r);
/* Serve a new connection, on a thread of its own. */
void api_take(struct api *a, int fd);

#endif
