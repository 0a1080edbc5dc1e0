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
/* The servers that these letters name, each with one GPU of 16000 MB; then the replica begins. */
void ledger_fixture_begin_with(struct ledger_fixture *f, const char *letters);
void ledger_fixture_release(struct ledger_fixture *f);
/* What others do while a review waits may come too late on a machine that stands still: tried up to
 * five times, until it says that it did not, each time with a fixture that has not begun. */
bool ledger_in_time(struct ledger_fixture *f, bool (*tried)(void));

/* Take, as demand_init() reads it, in namespace lab, within ms; 0: without a deadline. The pod's
 * name is its uid. */
int ledger_take_in(struct replica *r, struct arena *a, const char *uid, const char *name,
	const char *demand, int ms, bool dry_run, struct claim_answer *ret, struct err *err);
int ledger_take(struct ledger_fixture *f, const char *uid, const char *demand, int ms);
/* One GPU, whole, for a pod that is called otherwise than its uid; within 5 s. */
int ledger_take_one(struct ledger_fixture *f, const char *uid, const char *name, bool dry_run);
void ledger_must_take(struct ledger_fixture *f, const char *uid, const char *demand);
/* Refused with that reason. */
#define ASSERT_REFUSED(f, call, why)                                                               \
	do {                                                                                       \
		assert_int_equal(call, ERR_REFUSED);                                               \
		assert_string_equal((f)->e.reason, why);                                           \
	} while (0)
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
