/* SPDX-License-Identifier: Apache-2.0 */
/* test: replicas with the shared ledger over one kube_store, which aborts when a GPU is promised
 * twice. */
#ifndef TEST_UNIT_LEDGER_FIXTURE_H
#define TEST_UNIT_LEDGER_FIXTURE_H

#include "test/unit/kube_store.h"
#include "test/unit/pool_fixture.h"
#include "webhook/cluster/ledger/ledger_kube.h"
#include "webhook/edge/metrics/metrics.h"

#define STATUS_OF(name) STORE_SERVERS "/" name "/status"
#define SPEC_AT(address, count)                                                                    \
	"{'address':'" address "','gpus':[{'model':'V100','memory':'16000M','count':" count "}]}"
#define SPEC SPEC_AT("10.0.0.1:56001", "1")
/* A claim in a status, on gpu-0; the take that wrote it ends with these two digits. */
#define CLAIM_OF(uid, name, state, servers, bytes, take)                                           \
	"{'uid':'" uid "','namespace':'lab','name':'" name "','state':'" state                     \
	"','plan':'0000000000000005','since':'2026-01-01T00:00:00Z','take':'00000000000000" take   \
	"','servers':[" servers "],'gpus':[{'id':'gpu-0','bytes':" bytes "}]}"
#define CLAIM(uid, name, state, servers, bytes) CLAIM_OF(uid, name, state, servers, bytes, "aa")
#define WHOLE "16000000000"

/* One replica. */
struct replica {
	struct kube_config config;
	struct kube *kube;
	struct log log;
	struct metrics *metrics;
	struct servers *servers;
	struct ledger *ledger;
};

struct ledger_fixture {
	struct kube_store *store;
	struct api *api;
	struct replica r;
	struct arena a;
	struct claim_answer answer;
	struct err e;
};

/* Before a replica starts: servers_at_once(). 0: as the program holds right. */
extern size_t ledger_at_once;
/* Start, with what the store holds now in view. */
void replica_init(struct replica *r, struct kube_store *store);
void replica_release(struct replica *r);

/* A store and nothing in it; then servers are added; then the replica begins. */
void ledger_fixture_init(struct ledger_fixture *f);
void ledger_fixture_begin(struct ledger_fixture *f);
void ledger_fixture_release(struct ledger_fixture *f);

/* Take, as demand_init() reads it, in namespace lab, within ms; 0: without a deadline. The pod's
 * name is its uid. */
int ledger_take_in(struct replica *r, struct arena *a, const char *uid, const char *name,
	const char *demand, int ms, bool dry_run, struct claim_answer *ret, struct err *err);
int ledger_take(struct ledger_fixture *f, const char *uid, const char *demand, int ms);
void ledger_must_take(struct ledger_fixture *f, const char *uid, const char *demand);
/* Refused with that reason. */
void ledger_must_refuse(
	struct ledger_fixture *f, const char *uid, const char *demand, const char *reason);
/* May it wait (law W2)? */
int ledger_could_ever(struct ledger_fixture *f, const char *demand, int ms);
void ledger_undo(struct ledger_fixture *f, uint64_t ticket);

/* So far: lists past the cache, PUTs. */
size_t ledger_lists(struct ledger_fixture *f);
size_t ledger_puts(struct ledger_fixture *f);

/* A server as somebody else leaves it: claims exactly these, which a replica is not told of when
 * the watches are muted. */
void ledger_set_claims(struct ledger_fixture *f, const char *server, const char *claims);

#endif
