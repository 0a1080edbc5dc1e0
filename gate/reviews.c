/* SPDX-License-Identifier: Apache-2.0 */
/* gate: TokenReviews over connections of their own: one each, since pods come seldom and a
 * connection that is kept open and has died would be found out by a pod. */
#include "gate/reviews.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "kube/api_ask.h"
#include "kube/kube_review.h"
#include "net/http_answer.h"

#define REQUEST_MAX (256u << 10)
/* The token comes back in it. */
#define ANSWER_MAX (64u << 10)
#define NODES_MAX 2048

struct review {
	struct reviews *all;
	struct review *next;
	struct buf body;   /* the request's; then the answer's */
	review_done *done; /* NULL: dropped */
	void *ctx;
	bool asked; /* a connection was begun */
	bool sent;
	int64_t until_ms;
	struct client_socket *socket;
	struct http_answer answer;
};

struct reviews {
	struct api_server server;
	struct review *first; /* in the order in which they were asked for */
};

int reviews_new(const struct kube_config *config, struct reviews **ret, struct err *err)
{
	struct reviews *r = calloc(1, sizeof(*r));
	int rc = r ? api_server_init(&r->server, config, "gpugate", err)
		   : err_set(err, ERR_NOMEM, "out of memory for reviews");

	if (rc != 0) {
		free(r);
		return rc;
	}
	*ret = r;
	return 0;
}

static void forget(struct buf *secret)
{
	if (secret->data)
		explicit_bzero(secret->data, secret->cap);
	buf_release(secret);
}

static void free_review(struct review *v)
{
	client_socket_free(v->socket);
	forget(&v->body);
	free(v);
}

void reviews_free(struct reviews *r)
{
	if (!r)
		return;
	while (r->first) {
		struct review *next = r->first->next;

		free_review(r->first);
		r->first = next;
	}
	free(r);
}

struct review *reviews_ask(struct reviews *r, struct slice token, review_done *done, void *ctx)
{
	struct review *v = calloc(1, sizeof(*v)), **end = &r->first;

	if (!v)
		return NULL;
	v->all = r;
	v->done = done;
	v->ctx = ctx;
	buf_init(&v->body, REQUEST_MAX);
	bearer_ask(token, &v->body);
	if (v->body.failed) {
		free_review(v);
		return NULL;
	}
	while (*end)
		end = &(*end)->next;
	*end = v;
	return v;
}

void review_drop(struct review *v)
{
	if (v)
		v->done = NULL;
}

/* ---- one ---- */

static bool on_body(void *ctx, struct slice piece)
{
	struct review *v = ctx;

	buf_slice(&v->body, piece);
	return !v->body.failed;
}

static void tell(struct review *v, enum review_word word, const char *uid, const struct err *err)
{
	review_done *done = v->done;

	v->done = NULL;
	client_socket_free(v->socket);
	v->socket = NULL;
	if (done)
		done(v->ctx, word, uid, err);
}

static int ask(struct review *v, struct err *err)
{
	const struct api_ask what = {TOKEN_REVIEWS_PATH, API_JSON, buf_as_slice(&v->body)};
	struct buf out;
	int rc;

	buf_init(&out, REQUEST_MAX);
	rc = api_ask_write(&v->all->server, &what, &out, err);
	if (rc == 0)
		rc = client_socket_send(v->socket, buf_as_slice(&out), err);
	forget(&out);
	if (rc != 0)
		return rc;
	explicit_bzero(v->body.data, v->body.len);
	buf_clear(&v->body);
	v->body.max = ANSWER_MAX;
	http_answer_init(&v->answer, on_body, v);
	v->sent = true;
	return client_socket_turn(v->socket, err);
}

static int receive(struct review *v, struct err *err)
{
	char in[4096];
	bool end = false;
	size_t n = 1;
	int rc = 0;

	while (rc == 0 && n > 0 && !end && !v->answer.done) {
		struct slice bytes = {in, 0};

		rc = client_socket_read(v->socket, in, sizeof(in), &n, &end, err);
		bytes.len = n;
		if (rc == 0 && n > 0)
			rc = http_answer_read(&v->answer, &bytes, err);
	}
	explicit_bzero(in, sizeof(in));
	if (rc == 0 && end && !v->answer.done)
		rc = http_answer_end(&v->answer, err);
	return rc;
}

/* A 5xx or 429 is of an API server that is not at work now; any other that is not 2xx is an answer
 * to us. */
static void judge(struct review *v)
{
	char uid[BEARER_UID_MAX];
	long status = v->answer.status;
	struct json j = {0};
	struct err err = {0};
	char *copy = NULL;
	enum review_word word = REVIEW_BROKEN;
	int rc;

	if (status < 200 || status > 299) {
		(void)err_set(&err, ERR_REFUSED, "the API server answered a TokenReview with %ld%s",
			status, status == 403 ? ": may this account create tokenreviews?" : "");
		tell(v, status >= 500 || status == 429 ? REVIEW_AWAY : REVIEW_BROKEN, NULL, &err);
		return;
	}
	rc = json_read_copy(
		&j, v->body.data ? v->body.data : "", v->body.len, NODES_MAX, &copy, &err);
	if (rc == 0)
		rc = bearer_reviewed(&j, uid, &err);
	if (rc == 0)
		word = REVIEW_YES;
	else if (rc == ERR_REFUSED)
		word = REVIEW_NO;
	json_release(&j);
	if (copy)
		explicit_bzero(copy, v->body.len);
	free(copy);
	tell(v, word, uid, &err);
}

static void turn(struct review *v)
{
	struct err err = {0};
	int rc = 0;

	if (!v->asked) {
		v->asked = true;
		v->until_ms = clock_ms() + REVIEW_MS;
		rc = client_socket_open(&v->all->server.target, &v->socket, &err);
	}
	if (rc == 0)
		rc = client_socket_turn(v->socket, &err);
	if (rc == 0 && client_socket_ready(v->socket) && !v->sent)
		rc = ask(v, &err);
	if (rc == 0 && v->sent)
		rc = receive(v, &err);
	if (rc == 0 && v->sent && v->answer.done) {
		judge(v);
		return;
	}
	if (rc == 0 && clock_ms() >= v->until_ms)
		rc = err_set(&err, ERR_TIMEOUT, "the API server did not answer a TokenReview");
	if (rc == 0)
		return;
	/* Of a name's addresses one may be dead. */
	v->all->server.target.first++;
	tell(v, REVIEW_AWAY, NULL, &err);
}

/* ---- all ---- */

size_t reviews_poll(const struct reviews *r, struct pollfd to[static REVIEWS_MAX], int64_t *ret_ms)
{
	const struct review *v = r->first;
	int64_t now = clock_ms();
	size_t n = 0;

	*ret_ms = -1;
	for (; v && n < REVIEWS_MAX; v = v->next, n++) {
		int64_t left = v->asked && v->done ? v->until_ms - now : 0;

		to[n] = (struct pollfd){.fd = -1};
		if (v->socket) {
			to[n].fd = client_socket_fd(v->socket);
			to[n].events = client_socket_events(v->socket);
		}
		if (*ret_ms < 0 || left < *ret_ms)
			*ret_ms = left > 0 ? left : 0;
	}
	return n;
}

void reviews_turn(struct reviews *r)
{
	struct review *v = r->first, **at = &r->first;

	for (size_t n = 0; v && n < REVIEWS_MAX; v = v->next, n++)
		if (v->done)
			turn(v);
	/* Whoever was told may have asked for more, behind these. */
	while ((v = *at) != NULL) {
		if (v->done) {
			at = &v->next;
			continue;
		}
		*at = v->next;
		free_review(v);
	}
}
