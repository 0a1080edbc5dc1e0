/* SPDX-License-Identifier: Apache-2.0 */
/* kube: what the files of the Kubernetes client share. */
#ifndef KUBE_KUBE_IMPL_H
#define KUBE_KUBE_IMPL_H

#include "kube/kube.h"
#include "net/http_client.h"

/* Whether what runs is still wanted; asked about once a second. go_on NULL: always. */
struct kube_wanted {
	bool (*go_on)(void *ctx);
	void *ctx;
};

/* What a request to the API server points into. */
struct kube_request {
	struct http_request http;
	struct buf url, token, content_type;
	const char *headers[3];
};

/* Fill in URL, credentials and headers; method is borrowed. Errors as kube_token, ERR_NOMEM. Release it in every case. */
int kube_request_init(struct kube_request *r, const struct kube *k, const char *method,
	const char *path, const char *content_type, struct err *err);
void kube_request_release(struct kube_request *r);

/* Read body, after making room for the padding behind it. A blank one leaves *j without nodes. ERR_SYNTAX, ERR_TOOBIG,
 * ERR_NOMEM. */
int kube_read(struct buf *body, struct json *j, struct err *err);

/* The error that a status other than 2xx stands for; j is what was read of the body, which may be nothing. */
int kube_failure(const char *method, const char *path, long status, const struct json *j,
	struct slice body, struct err *err);

/* kube_list that can be given up: ERR_TIMEOUT then. */
int kube_list_while(struct kube *k, const char *path, int64_t timeout_ms, struct kube_wanted wanted,
	void (*begin)(void *ctx), kube_each *each, void *ctx, char ret_version[static 32],
	struct err *err);

/* What is kept of a page of a list. */
struct kube_page {
	struct buf
		next; /* the continue token; empty: the first page, or behind the last. Inited and released by the caller */
	char version[32]; /* the list's resourceVersion */
};

/* A page that was read; each is told of its objects. path is for messages. ERR_SYNTAX (no list), ERR_NOMEM, ERR_REFUSED (each said so). */
int kube_page_read(struct kube_page *page, const char *path, const struct json *j, kube_each *each,
	void *ctx, struct err *err);

/* "?" or "&": what a further parameter of this path begins with. */
char kube_separator(const char *path);

#endif
