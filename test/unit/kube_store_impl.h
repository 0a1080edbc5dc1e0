/* SPDX-License-Identifier: Apache-2.0 */
/* test: what the files of kube_store share: objects and their events (kube_store_objects.c),
 * requests carried out (kube_store_requests.c), what goes wrong with them, and the watches
 * (kube_store_faults.c). All but store_on_request() and store_feed() with the store's lock held. */
#ifndef TEST_UNIT_KUBE_STORE_IMPL_H
#define TEST_UNIT_KUBE_STORE_IMPL_H

#include <pthread.h>

#include "base/buf.h"
#include "base/json/json_read.h"
#include "test/unit/kube_store.h"

#define NODES 1000000u
#define EVENTS_MAX 100000
#define FAULTS_MAX 64
#define BODY_MAX (16u << 20)

struct resource {
	const char *api, *plural, *kind, *version;
};

enum { STORE_OF_SERVERS, STORE_OF_PODS, STORE_OF_POLICIES, STORE_RESOURCES };

extern const struct resource store_resources[STORE_RESOURCES];

/* Texts are JSON, malloc'ed. */
struct object {
	struct object *next; /* by namespace and name */
	int of;
	char *namespace, *name, *uid;
	char *more; /* further members of metadata, or "" */
	char *finalizers, *spec, *status;
	uint64_t version, generation;
	uint64_t made; /* so many seconds after the first of January */
	bool deleting;
};

struct event {
	int of;
	uint64_t version;
	char *text;
};

struct fault {
	enum store_fault what;
	char method[16], path[512];
	int ms, times;
};

struct late {
	struct late *next;
	int64_t due_ms;
	struct api_request req;
};

struct kube_store {
	struct api *api;
	pthread_mutex_t lock; /* everything; taken under the fixture's */
	struct object *objects;
	uint64_t version, uids;
	struct object *backup;
	uint64_t backup_version;
	struct event events[EVENTS_MAX];
	size_t n_events, pushed;
	struct fault faults[FAULTS_MAX];
	size_t n_faults;
	struct late *late;
	size_t writes;
	int64_t opened_ms;
	char opened[2048]; /* the path of the stream that was opened last */
	bool muted, over, stopping;
	void (*on_write)(void *ctx, const char *name, const char *status);
	void *on_write_ctx;
	pthread_t feeder;
	pthread_cond_t feed; /* there may be something for it */
};

/* ---- kube_store_objects.c ---- */

/* Says why and aborts. */
_Noreturn void store_fatal(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Copies, malloc'ed; quoted: single quotes become double ones. */
char *store_own(struct slice s);
char *store_quoted(const char *text);
/* Put a malloc'ed text in the place of another. */
void store_replace(char **at, char *text);
/* The copy that j refers to is to be freed after j is released. */
char *store_read_json(struct json *j, const char *text);

struct object *store_find(struct kube_store *s, int of, struct slice namespace, struct slice name);
struct object *store_find_server(struct kube_store *s, const char *name);
/* uid NULL: a new one. Nobody is told yet. */
struct object *store_add(
	struct kube_store *s, int of, const char *namespace, const char *name, const char *uid);
void store_free_object(struct object *o);
void store_render(const struct object *o, struct buf *out);
/* The same, malloc'ed. */
char *store_text_of(const struct object *o);
/* It has changed: a new version, and an event. */
void store_tell(struct kube_store *s, struct object *o, const char *type);
/* Gone. */
void store_drop(struct kube_store *s, struct object *o);
/* As DELETE does: gone, or deleting while it has finalizers. */
void store_delete(struct kube_store *s, struct object *o);
/* No GPU over its memory, no uid twice, not more claims than a server may have; else it aborts. */
void store_check_status(const struct kube_store *s, const char *server, const char *text);

/* ---- kube_store_requests.c ---- */

/* Not 0: no resource of ours. */
int store_carry_out(struct kube_store *s, const struct api_request *req, struct api_reply *reply);

/* ---- kube_store_faults.c ---- */

/* What api_fixture calls; ctx is the store. */
int store_on_request(void *ctx, const struct api_request *req, struct api_reply *reply);
void store_free_late(struct late *l);
/* The thread that tells the watches, in the order of the writes, and carries out what is late; arg
 * is the store. */
void *store_feed(void *arg);

#endif
