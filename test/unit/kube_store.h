/* SPDX-License-Identifier: Apache-2.0 */
/* test: gpuservers, gpupolicies and pods as an API server keeps them: versions, compare-and-swap,
 * finalizers, watches; and what can go wrong on the way. On top of api_fixture. Every write of a
 * GPUServer's status is looked at: a GPU that is promised twice aborts the test. */
#ifndef TEST_UNIT_KUBE_STORE_H
#define TEST_UNIT_KUBE_STORE_H

#include "test/unit/api_fixture.h"

#define STORE_SERVERS "/apis/poolgate.io/v1alpha1/gpuservers"
#define STORE_PODS "/api/v1/pods"

struct kube_store;

/* In all texts of JSON single quotes stand for double quotes. */
struct kube_store *kube_store_start(void);
void kube_store_stop(struct kube_store *s);
/* What was asked; api_config(), api_down(), api_up(). Scripts go before the store. */
struct api *kube_store_api(struct kube_store *s);

/* ---- what is there ---- */

/* A server with GPUs gpu-0 … of so many MB, listed by hand, with our finalizer, their status filled
 * in. claims: the list's elements, "" for none. */
void kube_store_server(
	struct kube_store *s, const char *name, unsigned gpus, uint64_t mb, const char *claims);
/* Make or change a server as somebody else: whole spec, status and list of finalizers. NULL: as it
 * is (a new one has {} and []). */
void kube_store_put(struct kube_store *s, const char *name, const char *spec, const char *status,
	const char *finalizers);
/* As kubectl delete does: gone, or deleting while it has finalizers. */
void kube_store_delete(struct kube_store *s, const char *name);
/* Deleted, and nobody has a finalizer on it: it is gone. */
void kube_store_remove(struct kube_store *s, const char *name);
/* Make or change a pod. more: of its metadata, "'labels':{…},'annotations':{…}", or NULL; phase:
 * "Running". uid NULL: it is gone. Another uid is another pod: the old one goes first. */
void kube_store_pod(struct kube_store *s, const char *namespace, const char *name, const char *uid,
	const char *phase, const char *more);

/* Make or change a GPUPolicy: its spec, NULL: it is gone; its status, as somebody else. And what a
 * member of its status says, malloc'ed; "": nothing. */
void kube_store_policy(struct kube_store *s, const char *name, const char *spec);
void kube_store_policy_status(struct kube_store *s, const char *name, const char *status);
char *kube_store_policy_says(struct kube_store *s, const char *name, const char *member);

/* The object as GET shows it, malloc'ed; NULL: there is none. */
char *kube_store_text(struct kube_store *s, const char *server);
/* How many claims the server's status holds; with a uid those of it. All servers: server NULL. */
size_t kube_store_claims(struct kube_store *s, const char *server, const char *uid);
/* Waits up to 5 s until there are so many. */
bool kube_store_wait_claims(struct kube_store *s, const char *server, const char *uid, size_t n);
/* Status writes that changed something. */
size_t kube_store_writes(struct kube_store *s);

/* ---- what goes wrong ---- */

enum store_fault {
	STORE_CONFLICT,   /* 409, nothing is done */
	STORE_FAIL,       /* 500, nothing is done */
	STORE_FORBID,     /* 403, nothing is done */
	STORE_CUT_BEFORE, /* nothing is done, the connection is cut */
	STORE_CUT_AFTER,  /* done, and cut: the client cannot know */
	STORE_CUT_LATE,   /* cut, and done ms later: a write that lands late */
	STORE_SLOW        /* done, and answered ms later */
};

/* The next `times` requests (-1: all) with this method whose path, without its query, matches (a
 * '*' at its end: begins so). Of several the first that was made. */
void kube_store_fault(struct kube_store *s, enum store_fault what, const char *method,
	const char *path, int ms, int times);
/* No faults any more. */
void kube_store_heal(struct kube_store *s);
/* Watches stand still (caches get stale), or tell what happened meanwhile. */
void kube_store_mute(struct kube_store *s, bool yes);
/* Watches have told what happened so far, and from now on stand still. */
void kube_store_hush(struct kube_store *s);
/* Remember everything; then etcd is restored from that: versions go back, too, and API servers
 * begin anew. Once. */
void kube_store_backup(struct kube_store *s);
void kube_store_restore(struct kube_store *s);
/* Called after each status write with the server's text, with the store's lock held: no call back.
 * NULL: nobody. */
void kube_store_on_write(struct kube_store *s,
	void (*fn)(void *ctx, const char *name, const char *status), void *ctx);
/* Over-full GPUs are fine: for tests of adoption. */
void kube_store_allow_over(struct kube_store *s);

#endif
