/* SPDX-License-Identifier: Apache-2.0 */
/* test: an API server that plays what a test tells it: scripted answers, a handler with state,
 * streams that a test feeds, and a log of what was asked. Plain HTTP on 127.0.0.1, any number of
 * connections. Whatever goes wrong inside aborts. */
#ifndef TEST_UNIT_API_FIXTURE_H
#define TEST_UNIT_API_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kube/kube_config.h"

/* A request, as it came. Strings are never NULL: "" for what is not there. */
struct api_request {
	char *method, *path; /* the path with its query */
	char *token;         /* of "Authorization: Bearer" */
	char *content_type;
	char *body; /* NUL-terminated, with zeroes behind for json_read */
	size_t body_len;
};

/* An answer. Zero is 200 with an empty body. */
struct api_reply {
	int status;         /* 0: 200 */
	char *body;         /* malloc'ed, freed by the fixture; NULL: empty */
	const char *header; /* more lines, each with "\r\n"; NULL: none */
	int delay_ms;       /* before anything is sent; 0: a moment; -1: none */
	bool stream;        /* chunked: the body is the first chunk, the rest comes by api_push() */
	bool cut;  /* nothing is answered, the connection closes; with stream: after the first chunk
		    */
	bool half; /* closes after half of the body */
};

/* A 2xx or other answer with this text, printf style. */
void api_text(struct api_reply *reply, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* A Status object as the API server writes it. */
void api_status(struct api_reply *reply, int status, const char *reason, const char *message);

/* What answers when no script does. One call at a time, with api_lock() held; may call api_push()
 * and the like. 0: reply is the answer; not 0: 404. */
typedef int api_handle(void *ctx, const struct api_request *req, struct api_reply *reply);

struct api;

/* handle may be NULL. */
struct api *api_start(api_handle *handle, void *ctx);
/* Ends every connection and thread. */
void api_stop(struct api *a);

/* "http://127.0.0.1:PORT" */
const char *api_url(const struct api *a);
/* A configuration that leads there, without a token. No release is needed. */
void api_config(const struct api *a, struct kube_config *ret);

/* Answer the next request that matches, once; scripts are tried in the order they were made. A path
 * that ends in '*' matches what begins so; method "*" is any. */
void api_expect(struct api *a, const char *method, const char *path, int status, const char *body);
/* The same with everything; the body is taken over. */
void api_expect_reply(
	struct api *a, const char *method, const char *path, const struct api_reply *reply);
/* Scripts that were not used yet. */
size_t api_left(struct api *a);

/* Send a chunk on every open stream whose path matches; how many there were. */
size_t api_push(struct api *a, const char *path, const char *text);
/* End these streams properly, or cut them. */
size_t api_end(struct api *a, const char *path);
size_t api_cut(struct api *a, const char *path);
/* Open streams that match. */
size_t api_streams(struct api *a, const char *path);
/* Wait until that many are open; false after 5 s. */
bool api_wait_streams(struct api *a, const char *path, size_t n);

/* Go away (the port refuses, connections are cut), and come back at the same port. */
void api_down(struct api *a);
void api_up(struct api *a);

/* Answers to such requests are delayed no more. */
void api_let_go(struct api *a, const char *method, const char *path);

/* What was asked so far. A request stays valid until api_stop(). */
size_t api_seen_count(struct api *a);
const struct api_request *api_seen(struct api *a, size_t i);
/* How many that match. */
size_t api_seen_of(struct api *a, const char *method, const char *path);
/* The latest that matches, or NULL. */
const struct api_request *api_last(struct api *a, const char *method, const char *path);
/* Wait until that many matching requests came; false after 5 s. */
bool api_wait(struct api *a, const char *method, const char *path, size_t n);

void api_nap(int ms);
/* clock_ms(). */
int64_t api_now_ms(void);

/* The lock that is held while handle runs. */
void api_lock(struct api *a);
void api_unlock(struct api *a);

#endif
