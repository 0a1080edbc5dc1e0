/* SPDX-License-Identifier: Apache-2.0 */
/* kube: calls to the Kubernetes API. */
#ifndef KUBE_KUBE_H
#define KUBE_KUBE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_read.h"
#include "kube/kube_config.h"
#include "kube/kube_object.h"

/* One answer may be this long: a page of a list. */
#define KUBE_ANSWER_MAX (64u * 1024 * 1024)

#define KUBE_JSON "application/json"
#define KUBE_MERGE_PATCH "application/merge-patch+json"
#define KUBE_STRATEGIC_PATCH "application/strategic-merge-patch+json"
#define KUBE_JSON_PATCH "application/json-patch+json"
#define KUBE_APPLY "application/apply-patch+yaml"

/* The API server, for any number of threads: as many connections come to exist as calls run at one
 * time. */
struct kube;

/* One call. Borrowed. */
struct kube_call {
	const char *method;   /* "GET", "POST", "PUT", "PATCH", "DELETE" */
	const char *path;     /* "/api/v1/namespaces/a/pods/b?dryRun=All"; see kube_path(). NULL,
				 as of one that failed: ERR_NOMEM */
	struct kube_place at; /* what the path is made of instead, where it names an api */
	const char *content_type; /* of the body; NULL: KUBE_JSON */
	struct slice body;        /* absent: none */
	const struct buf *text;   /* what the body is instead; one that failed: ERR_NOMEM */
	int64_t timeout_ms;       /* for everything; 0: 10 s */
	/* Asked about once a second; false gives up with ERR_TIMEOUT. NULL: never. */
	bool (*go_on)(void *ctx);
	void *go_on_ctx;
};

/* An answer, read. */
struct kube_answer {
	long status;     /* HTTP's */
	struct buf body; /* padded for json_read */
	struct json json;
};

/* config is borrowed and must outlive it. ERR_IO: libcurl cannot be loaded; ERR_NOMEM. */
int kube_new(const struct kube_config *config, struct kube **ret, struct err *err);
/* No call may be running. NULL-safe. */
void kube_free(struct kube *k);

/* Make the call and read the answer. 0 for 2xx; the body may be empty then (json.count 0).
 * Otherwise err says method, path and the API server's own message, its reason word is the Status'
 * reason ("AlreadyExists"), and the code is
 *   ERR_NOTFOUND 404           ERR_TIMEOUT  504, or no answer in time
 *   ERR_CONFLICT 409, 412      ERR_IO       429, 5xx, or no connection
 *   ERR_REFUSED  401, 403      ERR_TOOBIG   413, or an answer over KUBE_ANSWER_MAX
 *   ERR_INVALID  400, 422 and other 4xx
 *   ERR_SYNTAX   no JSON       ERR_NOMEM
 * ret->status is HTTP's (410 for a list that is too old to go on), 0 when no answer came. ret may
 * be NULL. It is inited here and released by the caller in every case. A write that ends with
 * ERR_TIMEOUT or ERR_IO may have been carried out, also twice. */
int kube_do(struct kube *k, const struct kube_call *call, struct kube_answer *ret, struct err *err);
void kube_answer_release(struct kube_answer *a);
/* Did the API server itself say that there is no such object? A 404 of something between us and it
 * has no reason word. rc and err: of a call. */
bool kube_says_gone(int rc, const struct err *err);

/* Versions have gone back: etcd was restored from a backup, as a consistent list shows (ledger rule
 * R16). A watch that waits for a version that is yet to come hears of it when nothing has come for
 * long, so whoever sees it says so here, and every kube_watch of k lists anew within about a
 * second. Returns how often it was said, this time among them; kube_restores() how often so far.
 * For any thread. */
unsigned kube_restored(struct kube *k);
unsigned kube_restores(const struct kube *k);

/* How often an answer to a kube_watch of k has begun or ended so far: whenever it does, the API
 * server may be another one, on an etcd that was restored from a backup, of which nothing else
 * tells for up to 90 s. Restoring needs API servers to be stopped, so what a list has said that was
 * begun since the last time has not been taken back, as far as can be known. For any thread. */
unsigned kube_breaks(const struct kube *k);

/* Our clock of the day, but no more than KUBE_AHEAD_MS ahead of the API server's, which its last
 * answer told: what is counted by it is never counted years ahead. Without an answer, or a Date in
 * it, it is ours. Milliseconds since 1970. */
#define KUBE_AHEAD_MS 60000
int64_t kube_wall_ms(struct kube *k);

/* Shorthands. */
int kube_get(struct kube *k, const char *path, int64_t timeout_ms, struct kube_answer *ret,
	struct err *err);
int kube_get_at(struct kube *k, struct kube_place at, int64_t timeout_ms, struct kube_answer *ret,
	struct err *err);

/* Told of each object of a list; false ends it with ERR_REFUSED. The json is that of the page it
 * stands on. */
typedef bool kube_each(void *ctx, const struct json *j, const struct json_node *object);

/* List page by page with a quorum read ("the most recent", no resourceVersion). path without limit
 * and continue, with a query or without. ret_version (NUL-terminated) gets the list's
 * resourceVersion. Errors as kube_do, ERR_SYNTAX for what is no list; status 410 (the list got too
 * old between two pages) starts it over up to twice, after begin (may be NULL) was called once
 * more: it is called before each start. timeout_ms is for all pages. */
int kube_list(struct kube *k, const char *path, int64_t timeout_ms, void (*begin)(void *ctx),
	kube_each *each, void *ctx, char ret_version[static 32], struct err *err);

/* An Event about an object (events.k8s.io is not needed for what kubectl shows): type "Normal" or
 * "Warning", reason a CamelCase word, note a sentence. Best effort: errors come back but nobody
 * needs them. */
struct kube_event {
	const char *api_version, *kind; /* "v1", "Pod" */
	struct slice namespace, name, uid;
	const char *type, *reason, *note;
	const char *component; /* "poolgate" */
};
int kube_tell(struct kube *k, const struct kube_event *event, struct err *err);

#endif
