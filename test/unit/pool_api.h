/* SPDX-License-Identifier: Apache-2.0 */
/* test: an API server with GPUServers (list, watch, GET, merge patch, PUT of the status) and
 * Secrets, and the picture of it that a replica has. Whatever goes wrong inside aborts. */
#ifndef TEST_UNIT_POOL_API_H
#define TEST_UNIT_POOL_API_H

#include "test/unit/api_fixture.h"
#include "webhook/cluster/leader/leader.h"
#include "webhook/edge/metrics/metrics.h"

#define POOL_API_MAX 32
#define POOL_API_SECRETS "/api/v1/namespaces/poolgate-system/secrets/"

/* A GPUServer; all JSON but the name. */
struct pool_api_server {
	char *name, *spec, *status, *finalizers;
	unsigned version, generation, uid;
	bool there, deleting;
};

struct pool_api {
	struct api *api;
	struct kube_config config;
	struct kube *kube;
	struct servers *servers;
	struct metrics *metrics;
	struct log log;
	struct leader_duty duty;
	void *running; /* of that duty, once pool_api_run() was called */
	/* under the API server's lock */
	struct pool_api_server server[POOL_API_MAX];
	unsigned version, puts, patches;
	unsigned puts_max; /* beyond so many a PUT is answered with 403, as where the replica dies
			      before it; 0: none is */
	/* Once, before a PUT that holds the text `rival_before` is looked at, another replica adds
	 * `rival`, as it stands in a status. NULL: none does. rival_on: or it is the status of
	 * another server. */
	const char *rival_before, *rival, *rival_on;
	const char *header; /* a line of each answer's head, with its end; NULL: none */
	char *ca_pem, *token, *cert_pem, *key_pem; /* of the Secret "probe": ca.crt, token, tls.crt,
						      tls.key; NULL: not in it */
	const char *secret_type;                   /* NULL: Opaque */
};

struct pool_api *pool_api_new(void);
/* Before the duty runs: its log is kept, all but what is for debugging. */
void pool_api_log(struct pool_api *p);
/* How many lines of the log kept hold this text. */
size_t pool_api_logged(const struct pool_api *p, const char *text);
/* Stops the duty, too. */
void pool_api_free(struct pool_api *p);

/* Add a server, or change its spec. finalizers: "[]" for a new one. Single quotes stand for double
 * quotes. */
void pool_api_put(struct pool_api *p, const char *name, const char *finalizers, const char *spec,
	const char *status);
void pool_api_spec(struct pool_api *p, const char *name, const char *spec);
/* Replace its status as another replica would. */
void pool_api_status(struct pool_api *p, const char *name, const char *status);
/* As kubectl does: it goes when it has no finalizers. */
void pool_api_delete(struct pool_api *p, const char *name);

/* Start the replica's picture, then the duty. */
void pool_api_run(struct pool_api *p, struct leader_duty duty);

/* Wait until the status (or the list of finalizers) holds this text; single quotes stand for double
 * quotes. False after ms. */
bool pool_api_shows(struct pool_api *p, const char *name, const char *text, int ms);
bool pool_api_has_finalizers(struct pool_api *p, const char *name, const char *json, int ms);
/* Wait until it is gone. */
bool pool_api_gone(struct pool_api *p, const char *name, int ms);

#endif
