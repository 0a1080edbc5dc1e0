/* SPDX-License-Identifier: Apache-2.0 */
/* kube: what an answer of the Kubernetes API means, and the pages of a list, whoever fetches them.
 * Pure. */
#ifndef KUBE_KUBE_ANSWER_H
#define KUBE_KUBE_ANSWER_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_read.h"

/* Nodes of one answer. */
#define KUBE_NODES_MAX 8000000u
/* Objects asked for per page of a list. */
#define KUBE_PAGE 500

/* Read body, after making room for the padding behind it. A blank one leaves *j without nodes.
 * ERR_SYNTAX, ERR_TOOBIG, ERR_NOMEM. */
int kube_read(struct buf *body, struct json *j, struct err *err);

/* The error that a status other than 2xx stands for; j is what was read of the body, which may be
 * nothing. Codes: see kube_do. */
int kube_failure(const char *method, const char *path, long status, const struct json *j,
	struct slice body, struct err *err);

/* What is kept of a page of a list. */
struct kube_page {
	/* The continue token; empty: the first page, or behind the last. Inited and released by the
	 * caller. */
	struct buf next;
	char version[32]; /* the list's resourceVersion */
};

/* "?" or "&": what a further parameter of this path begins with. */
char kube_separator(const char *path);

/* Append what to GET for the page behind this one: path with its limit and its continue token. */
void kube_page_path(const struct kube_page *page, const char *path, struct buf *out);

/* Take the token and the version from a page that was read, of objects or of a table's rows; path
 * is for messages. ERR_SYNTAX (no list), ERR_NOMEM. */
int kube_page_read(struct kube_page *page, const char *path, const struct json *j, struct err *err);
/* The objects of a page, for JSON_EACH. ERR_SYNTAX: no list of objects. */
int kube_page_items(
	const struct json *j, const char *path, const struct json_node **ret, struct err *err);

#endif
