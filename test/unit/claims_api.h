/* SPDX-License-Identifier: Apache-2.0 */
/* test: pods and their Events on an API server of their own, beside the GPUServers of pool_api, and
 * the duty that keeps claims true over both, with short times. */
#ifndef TEST_UNIT_CLAIMS_API_H
#define TEST_UNIT_CLAIMS_API_H

#include "test/unit/pool_api.h"
#include "webhook/cluster/claims/claims.h"

/* The times of the duty here, in milliseconds; what lingers does so for 2 ms, where a test does not
 * say another time. */
#define PENDING_MS 900
#define ASK_MS 500
#define ADOPT_AFTER_MS 300
#define LOST_AFTER_MS 400
/* Longer than all of these: what has not happened by then does not happen. */
#define SOON 5000
#define POD_OF(name) "/api/v1/namespaces/n/pods/" name
#define OURS "['poolgate.io/claims']"
#define SPEC "{'address':'10.0.0.1:56001','gpus':[{'model':'V100','memory':'16G','count':2}]}"
#define GPU(id) "{'id':'" id "','model':'V100','memory':16000000000,'fit':true}"
#define STATUS(claims)                                                                             \
	"{'version':1,'gpus':[" GPU("gpu-0") "," GPU("gpu-1") "],'claims':[" claims "]}"

#define WHOLE "16000000000"
#define HOLDS(gpu, bytes) "{'id':'" gpu "','bytes':" bytes "}"
/* The take that wrote it ends with these two digits; more: members, each with a comma behind it. */
#define CLAIM_OF(ns, uid, name, state, take, servers, more, gpus)                                  \
	"{'uid':'" uid "','namespace':'" ns "','name':'" name "','state':'" state                  \
	"','plan':'0000000000000000','since':'2026-11-21T09:30:00Z','take':'00000000000000" take   \
	"','servers':[" servers "]," more "'gpus':[" gpus "]}"
#define CLAIM_WITH(uid, name, state, take, servers, more, gpus)                                    \
	CLAIM_OF("n", uid, name, state, take, servers, more, gpus)
#define CLAIM_ON(uid, name, state, servers, gpu, bytes)                                            \
	CLAIM_WITH(uid, name, state, "aa", servers, "", HOLDS(gpu, bytes))
#define CLAIM(uid, name, state) CLAIM_ON(uid, name, state, "'a'", "gpu-0", "8000000000")

#define PLAN_OF(amount, percent)                                                                   \
	"{'v':1,'profile':'p','hash':'0123456789abcdef','mode':'full','containers':[{'name':'a',"  \
	"'kind':'app','amount':" amount ",'percent':" percent                                      \
	",'units':100,'command':'wrapped','argv':7}]}"
#define PLAN_HALF PLAN_OF("1", "50")
#define PLAN_WAITS(amount, percent)                                                                \
	"{'v':1,'profile':'p','hash':'0123456789abcdef','mode':'full','waits':true,'containers':[" \
	"{'name':'a','kind':'app','amount':" amount ",'percent':" percent                          \
	",'units':100,'command':'wrapped','argv':7}]}"

#define PLAN_GANG(gang, size, amount, percent)                                                     \
	"{'v':1,'profile':'p','hash':'0123456789abcdef','mode':'full','waits':true,'gang':'" gang  \
	"','gangSize':" size ",'containers':[{'name':'a','kind':'app','amount':" amount            \
	",'percent':" percent ",'units':100,'command':'wrapped','argv':7}]}"

#define PODS_API_MAX 320
#define PODS_API_JOBS 4

struct pods_api_pod {
	char *name, *uid, *plan;
	char namespace;    /* a letter; 0: n */
	const char *place; /* that it was told; NULL: none */
	const char *phase;
	bool there, labelled, deleting, placed, gated;
	char *said;        /* the condition that it was given last, as it was patched; NULL: none */
	const char *owner; /* its ownerReferences; NULL: none */
	bool foreign;      /* a gate of somebody else's stands before ours */
	bool kueue;        /* it has Kueue's label */
	char since[32];    /* as the leader wrote it: poolgate.io/queued-since; "": it has not */
	unsigned born;     /* its minute */
	unsigned grace;    /* that its delete has named */
	unsigned version;
};

/* What becomes of the patch that brings a place. */
enum place_fate {
	PLACE_WRITTEN,
	PLACE_NOT_WRITTEN, /* 500, as where the leader dies before it */
	PLACE_NOT_HEARD,   /* written, and 500: as where it dies before it hears of it */
	PLACE_REFUSED      /* 403 */
};

struct claims_api {
	struct pool_api *pool;
	struct api *api; /* of the pods */
	struct kube_config config;
	struct kube *kube;
	struct claims_config cfg;
	/* Under the lock of api: */
	struct pods_api_pod pod[PODS_API_MAX];
	unsigned version;
	enum place_fate fate;
	int evict_status; /* what evictions answer instead; 0: the pod goes, where it is the one
			     that was read */
	unsigned evicted; /* pods that went */
	struct {
		const char *name, *text;
	} job[PODS_API_JOBS]; /* of namespace n; all others are not there */
	unsigned places;      /* that were written */
	unsigned places_max;  /* beyond so many fate is PLACE_NOT_WRITTEN; 0: it is not */
	unsigned told;        /* conditions that were */
	unsigned marked;      /* poolgate.io/queued-since that were */
	int get_status;       /* what GETs of a pod answer instead; 0: the truth */
	const char *get_true; /* but those of this name */
	int patch_ms;         /* that the answer to a PATCH of a pod takes */
	/* Called once, when the next GET of a pod has been answered, before the answer is sent. */
	void (*between)(struct claims_api *c);
};

/* Servers are put with pool_api_put() before claims_api_run(). */
struct claims_api *claims_api_new(void);
void claims_api_run(struct claims_api *c);
/* The leader ends; it ends, and another goes on from what it reads. */
void claims_api_end_leader(struct claims_api *c);
void claims_api_next_leader(struct claims_api *c);
void claims_api_free(struct claims_api *c);

/* The one of a test, for TESTS_BETWEEN. */
extern struct claims_api *api;
int claims_api_begin(void **state);
int claims_api_end(void **state);

/* A running pod in namespace n, with the label. plan in single quotes, or NULL. */
void pod_put(struct claims_api *c, const char *name, const char *uid, const char *plan);
/* The same, behind the gate poolgate.io/capacity and one of somebody else's. */
void pod_put_gated(struct claims_api *c, const char *name, const char *uid, const char *plan);
/* The same, behind our gate alone, created in that minute of an hour. */
void pod_put_waiting(
	struct claims_api *c, const char *name, const char *uid, const char *plan, unsigned born);
/* The same, with these ownerReferences. */
void pod_put_owned(struct claims_api *c, const char *name, const char *uid, const char *plan,
	unsigned born, const char *references);
/* Somebody else puts a gate before it, as if it had been there from the beginning, or takes it
 * away. */
void pod_foreign(struct claims_api *c, const char *uid, bool yes);
/* It waits in a queue of Kueue's. */
void pod_kueue(struct claims_api *c, const char *uid);
/* Does it say within ms since when it waits for us? Copied into ret. */
bool pod_is_marked(struct claims_api *c, const char *uid, char ret[static 32], int ms);
/* Our gate stands before it, of which the watch does not tell. */
void pod_gate_unseen(struct claims_api *c, const char *uid);
/* It is in that namespace, of which the watch does not tell: a pod is from the beginning. */
void pod_namespace(struct claims_api *c, const char *uid, char namespace);
/* It was told this place. */
void pod_told_place(struct claims_api *c, const char *uid, const char *place);
void pod_phase(struct claims_api *c, const char *uid, const char *phase);
void pod_strip(struct claims_api *c, const char *uid);
/* It gets a deletionTimestamp, with so many seconds. */
void pod_delete(struct claims_api *c, const char *uid, unsigned grace);
/* It has these ownerReferences, of which the watch does not tell: a pod has them from the
 * beginning. */
void pod_owner(struct claims_api *c, const char *uid, const char *references);
/* Evictions answer so from now on. */
void evictions_fare(struct claims_api *c, int status);
/* It gets a node. */
void pod_place(struct claims_api *c, const char *uid);
void pod_gone(struct claims_api *c, const char *uid);
/* The same, of which the watch does not tell. */
void pod_gone_unseen(struct claims_api *c, const char *uid);
/* Places are written like this from now on. */
/* Does what the pod was told last hold this text within ms? */
bool pod_is_told(struct claims_api *c, const char *uid, const char *text, int ms);
void places_fare(struct claims_api *c, enum place_fate fate);
/* Does its gate fall within ms? */
bool pod_is_let_go(struct claims_api *c, const char *uid, int ms);
void pods_get_status(struct claims_api *c, int status);

/* The nth uid, from 0, that is the first of its table, however large that is. Valid until the next
 * call but one. */
const char *first_uid(unsigned nth);

/* Requests of all kinds so far, of servers and of pods. */
size_t claims_api_asked(struct claims_api *c);
/* GETs of that pod so far. */
size_t pod_asked(struct claims_api *c, const char *name);
/* Events so far that hold this text; do they come to be n? */
size_t pod_events(struct claims_api *c, const char *text);
bool pod_events_come(struct claims_api *c, const char *text, size_t n);

/* Replace a server's status as another replica would. */
void status_put(struct claims_api *c, const char *server, const char *status);
/* It was that all the time, of which no watch tells: etcd is restored, and the API server begun
 * anew, so that watches end. Behind it a list of the servers is waited for, but not for ever:
 * false. */
bool status_restored(struct claims_api *c, const char *server, const char *status);
/* Does the server hold (or not hold) the text within ms? "not" waits until it is gone. */
bool status_has(struct claims_api *c, const char *server, const char *text, int ms);
bool status_has_not(struct claims_api *c, const char *server, const char *text, int ms);
/* The text stays for so long. */
bool status_keeps(struct claims_api *c, const char *server, const char *text, int ms);

#endif
