/* SPDX-License-Identifier: Apache-2.0 */
/* core: a GPUServer object as the API server shows it, read; and its status, changed and written
 * again. Pure.
 *
 * The status (docs/design.md has the table):
 *   {"version": 1, "observedGeneration": 3, "usage": "open 2026-11-25T00:00:00Z …",
 *    "gpus": [{"id", "parent", "model", "memory" (bytes), "fit", "missing", "reason", "closed"}],
 *    "claims": [{"uid", "namespace", "name", "state", "plan" (16 hex digits), "since" (RFC 3339,
 *                UTC), "take" (16 hex digits), "servers": ["gpu-01"], "grace" (seconds),
 *                "lingers" (RFC 3339, UTC), "waits", "open", "gang", "gangKey", "gangSize",
 *                "gangBytes", "gangLike", "gangAsks", "used" (bytes), "usedUntil" (RFC 3339, UTC),
 *                "podIPs": ["10.1.2.3"], "gpus": [{"id", "bytes"}]}],
 *    "conditions": [{"type", "status", "observedGeneration", "lastTransitionTime", "reason",
 *                    "message"}],
 *    "phantoms": [{"namespace", "since"}],
 *    "kept": [{"uid", "namespace", "name", "since", "gpus": [{"id", "bytes"}]}],
 *    "summary": {"gpus", "fit", "free" (MB of GPUs that take claims), "claims"}}
 * By ledger rule R11 members that this version does not know, of the status, of its summary and of
 * each gpu, claim, claim's gpu and condition in it, are written again as they were read. A member
 * that is null is absent. */
#ifndef WEBHOOK_CORE_SERVER_SERVER_OBJECT_H
#define WEBHOOK_CORE_SERVER_SERVER_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_read.h"
#include "webhook/core/pool/ledger.h"

#define SERVER_API "poolgate.io/v1alpha1"
#define SERVER_KIND "GPUServer"
#define SERVER_FINALIZER "poolgate.io/claims"
#define SERVER_STATUS_VERSION 1
#define SERVER_GPUS_MAX 256
#define SERVER_LAUNCHERS_MAX 64
#define SERVER_PHANTOMS_MAX 64
/* Addresses of a pod: one of each family. */
#define SERVER_POD_IPS_MAX 2
/* A namespace is a phantom's for so long. */
#define SERVER_PHANTOM_MS 600000
/* GPUs in a status that is read: those of the spec or probe, and missing ones beside them. */
#define SERVER_STATUS_GPUS_MAX 1024

/* Conditions. Fresh: the verdicts on its GPUs are recent (True for hand-listed ones). Ready: it
 * takes new claims. Unique: no older server has its address or one of its GPUs (rule R15); absent
 * for True, unless it was False. Lingering: it keeps claims of pods that are gone and may still run
 * (rule R13); Unstarted: such of pods that have not started for long. Both are absent for False,
 * unless they were True. Guarded: its gate lets in who holds a claim, and holds him to his share;
 * absent for no gate. OverShare: pods have more of its GPUs than they hold; Unused: pods hold GPUs
 * and use nothing; Strangers: somebody computes there without a claim. These three are absent for
 * False, unless they were True, and Unknown while the gate does not tell. */
#define SERVER_FRESH "Fresh"
#define SERVER_READY "Ready"
#define SERVER_UNIQUE "Unique"
#define SERVER_LINGERING "Lingering"
#define SERVER_UNSTARTED "Unstarted"
#define SERVER_GUARDED "Guarded"
#define SERVER_OVER_SHARE "OverShare"
#define SERVER_UNUSED "Unused"
#define SERVER_STRANGERS "Strangers"

/* An entry of spec.gpus. */
struct gpu_declared {
	const char *model;
	uint64_t bytes;
	uint32_t count;
};

/* A GPU in the status. gpu.fresh is neither read nor written (false here): it follows from the
 * condition Fresh, and server_object_inventory() sets it. gpu.why is the member `reason`. gpu.twin
 * is not read, either: it follows from the other servers (server_object_set_twins). */
struct gpu_status {
	struct gpu gpu;
	const char *closed; /* why it takes nothing new for now, as its gate tells; NULL: it does */
	struct slice rest;  /* members we do not know: `"a":1,"b":[]`; absent for none */
};

/* Unknown members of a claim's entry for this GPU. */
struct part_rest {
	const char *gpu;
	struct slice rest;
};

/* A claim in the status: what one pod holds of this server. */
struct claim_record {
	struct claim claim; /* key is the uid; parts are this server's alone */
	uint64_t take; /* which review took it last: an undo names it, so that it cannot end a claim
			  that another reply rests on */
	const char **servers; /* names of all servers that the pod's claim spans, sorted; as read,
				 else this server's */
	size_t n_servers;
	/* Rule R19: uid of the member of its gang whose claim decides: this one counts when that
	 * one is whole. NULL: it stands by itself. */
	const char *gang;
	/* Of its gang, whether it stands by itself or not: who takes the place of one of those goes
	 * first (law W11). */
	struct gang_began began;
	/* Rule R13: how long its pod's processes may run on after a delete, in seconds; 0: not
	 * said, which is Kubernetes' 30. */
	uint32_t grace_s;
	/* Rule R19, on the first of several servers: not all parts are written yet. Whoever writes
	 * it last makes the claim whole. */
	bool open;
	/* Its pod has held this for long and does not run: why, in a word; NULL: it runs, or has
	 * not waited for long. */
	const char *waits;
	/* Its pod is gone, nobody saw it end, and so it is kept until then, by the leader's clock
	 * of the day (for people: leaders wait by clocks of their own); 0: it does not linger. */
	int64_t lingers_ms;
	/* What its pod uses of this server, in bytes, as its gate has told. That counts until then,
	 * by the clock of the day of the leader who asked; 0: nobody knows. */
	uint64_t used;
	int64_t used_until_ms;
	/* Of a server whose gate knows pods by their addresses: its pod's, one of each family at
	 * most; none: not known yet, or it is on its node's network. */
	const char **pod_ips;
	size_t n_pod_ips;
	struct part_rest *part_rests; /* of the parts that have some; a part that was taken out
					 leaves its own here, unused */
	size_t n_part_rests;
	struct slice rest;
};

struct condition {
	const char *type;
	const char *status; /* "True", "False", "Unknown" */
	const char *reason; /* CamelCase */
	const char *message;
	const char *since; /* lastTransitionTime as written */
	int64_t observed_generation;
	struct slice rest;
};

/* Rule R12: a namespace in which a claim has ended whose pod never came. */
struct phantom {
	const char *namespace;
	int64_t since_ms; /* when the last such claim ended, by the leader's clock of the day */
	struct slice rest;
};

/* Law W6 of waiting: what frees up of these GPUs is kept for the pod that has waited longest. Its
 * uid may be unknown by now. */
struct kept_part {
	const char *gpu;
	uint64_t bytes;
	struct slice rest;
};

struct kept_for {
	const char *uid, *namespace, *name;
	int64_t since_ms; /* by the leader's clock of the day */
	struct kept_part *gpus;
	size_t n_gpus;
	struct slice rest;
};

struct server_status {
	int64_t version; /* as read; 0: none yet. Written: the larger of it and ours */
	int64_t observed_generation;
	struct gpu_status *gpus;
	size_t n_gpus;
	struct claim_record
		*claims; /* at most CLAIMS_PER_SERVER_MAX are added; more are read all the same */
	size_t n_claims;
	struct condition *conditions;
	size_t n_conditions;
	struct phantom *phantoms;
	size_t n_phantoms;
	struct kept_for *kept;
	size_t n_kept;
	const char *usage; /* what was used of it (usage_record.h); NULL or "": nobody counts */
	struct slice summary_rest;
	struct slice rest;
};

struct server_object {
	const char *name, *uid;
	const char *version; /* resourceVersion */
	int64_t generation;
	int64_t created_ms; /* creationTimestamp; 0: not known */
	const char *twin; /* neither read nor written: why it is not Unique; NULL: it is, or nobody
			     has judged */
	bool hearsay;   /* nor is this: no list or watch has shown it as it is, so an older one may
			   not be known: it takes no claims (rule R15) */
	bool deleting;  /* has a deletionTimestamp */
	bool finalizer; /* carries SERVER_FINALIZER */
	/* spec */
	const char *address;
	const char *probe_url; /* NULL: GPUs are listed by hand */
	const char *probe_ca_secret, *probe_token_secret,
		*probe_client_secret; /* names of Secrets in our namespace; NULL: none */
	const char *gate_profile;     /* the ServerProfile of its gate; NULL: it has none */
	const char *gate_url;
	const char *gate_ca_secret, *gate_token_secret;
	bool gate_by_address;     /* it knows pods by their addresses, not by their tokens */
	bool gate_lets_strangers; /* they are told, and close no GPU */
	struct gpu_declared *declared;
	size_t n_declared;
	bool drain;
	const char **launchers; /* names of the launcher profiles that may be placed here; none: all
				   of them */
	size_t n_launchers;
	struct label *labels;
	size_t n_labels;
	struct server_status status;
};

/* May a probe, or with tls (https alone, since a token goes along) a gate, be asked at this URL? As
 * the CRD has it. */
bool server_object_url(const char *s, bool tls);

/* Read an object. Everything is copied into the arena. A status that is missing is empty; parts of
 * it that do not have the type they should (somebody edited it), and a GPU id that is there twice,
 * are ERR_INVALID with the path: such a server takes no claims, and nobody writes over what it
 * says. So is a spec or metadata that the CRD would refuse. Required are metadata.name, uid and
 * resourceVersion, spec.address and one of gpus and probe; in the status a gpu's id and memory, a
 * claim's uid, state and gpus (each id and bytes), a condition's type and status. A claim that is
 * there twice counts twice. ERR_SYNTAX: it is no GPUServer. ERR_NOMEM. On error ret is as it was.
 */
int server_object_read(const struct json *j, const struct json_node *object, struct arena *a,
	struct server_object *ret, struct err *err);

/* The server as the inventory shows it, in the arena, strings and labels shared with o: GPUs from
 * the status with their free-standing verdict, `drain` also for a server that is being deleted or
 * does not carry the finalizer (rule R9), fresh from the condition Fresh (absent: false for a
 * probe's, true for listed ones), why from the reason or the condition's message; a GPU that has a
 * twin is unfit for that reason. ERR_NOMEM. */
int server_object_inventory(
	const struct server_object *o, struct arena *a, struct gpu_server *ret, struct err *err);

/* The verdicts on shown's GPUs anew, after server_object_inventory(o, …, shown). */
void server_object_verdicts(const struct server_object *o, struct gpu_server *shown);

/* What inventory_find_twins() has found of shown, which server_object_inventory(o, …) made: o
 * borrows the sentences, and what both say of the GPUs follows from them. */
void server_object_set_twins(struct server_object *o, struct gpu_server *shown);

/* Where something that the leader asks is, and by which Secrets; url NULL: nowhere. */
struct server_end {
	const char *url, *ca_secret, *token_secret, *client_secret;
};
struct server_end server_object_probe(const struct server_object *o);
struct server_end server_object_gate(const struct server_object *o);

/* Claimed bytes of GPU i (index into status.gpus); at most UINT64_MAX. */
uint64_t server_status_claimed(const struct server_status *s, size_t gpu);

/* Bytes of GPU i that are kept for pods that wait; at most UINT64_MAX. */
uint64_t server_status_kept(const struct server_status *s, size_t gpu);

/* The GPU's index, or -1. The claim's index, or -1. The condition, or NULL. */
ptrdiff_t server_status_gpu(const struct server_status *s, struct slice id);
ptrdiff_t server_status_claim(const struct server_status *s, struct slice uid);
const struct condition *server_status_condition(const struct server_status *s, const char *type);

/* Do both list the same servers, in the same order? */
bool claim_record_same_servers(const struct claim_record *x, const struct claim_record *y);

/* One of the records that a uid has, and where it stands. */
struct claim_on {
	const char *server;
	const struct claim_record *record;
	bool left; /* of a try that came to nothing: it makes no claim with any other */
};
/* Rule R1: of all records of r's uid, does every server that r lists hold one with the same list,
 * and says the first that these are all (R19)? */
bool claim_is_whole(const struct claim_on *on, size_t n, const struct claim_record *r);

/* Changes, in place; arrays grow in the arena; what is added is not copied (it must live as long as
 * the status). add: at the end, whatever the sums are. remove: the claim at this index.
 * set_condition: replaces the one of that type, whose unknown members stay, or adds it; `now` (RFC
 * 3339, copied; c->since is not used) becomes lastTransitionTime only when status changes. True
 * when it changed anything (message, reason, status, generation). False with a->failed when out of
 * memory. */
bool server_status_add_claim(
	struct server_status *s, const struct claim_record *claim, struct arena *a);
void server_status_remove_claim(struct server_status *s, size_t index);
bool server_status_set_condition(
	struct server_status *s, const struct condition *c, const char *now, struct arena *a);

/* Rule R12: a claim of this namespace (not copied) has ended, and its pod never came. Beyond
 * SERVER_PHANTOMS_MAX the oldest makes room. False with a->failed when out of memory. */
bool server_status_add_phantom(
	struct server_status *s, const char *namespace, int64_t wall_ms, struct arena *a);
/* Is it older than SERVER_PHANTOM_MS, or of a clock that was ahead by so much? Forget those that
 * are; true when there was one. */
bool phantom_is_over(const struct phantom *p, int64_t wall_ms);
bool server_status_drop_phantoms(struct server_status *s, int64_t wall_ms);

/* May this claim be added: all its GPUs are there and usable, sums stay within their memory, fewer
 * than CLAIMS_PER_SERVER_MAX claims, none of its uid yet, the server is not draining, carries the
 * finalizer and is not being deleted (R9)? All parts are taken for this server's, whatever their
 * `server` says. Claims of `without` (a uid; absent: nobody) count as gone. What is kept counts as
 * taken. ERR_CONFLICT with what does not fit. */
int server_claim_fits(const struct server_object *o, const struct claim *claim,
	struct slice without, struct err *err);

/* The GPUs of a hand-listed server's status from its spec: ids gpu-0 and on; what is there keeps
 * its `rest`, and its claims even when model or memory are others now (over-full: it takes nothing
 * until the sum fits); GPUs that vanished stay behind them as missing while a claim is on them
 * (R10). True when that differs from the status (then it was changed). False with a->failed when
 * out of memory. False, too, for a server with a probe. */
bool server_status_from_spec(struct server_object *o, struct arena *a);

/* Drop missing GPUs without claims; true when there was one. */
bool server_status_prune(struct server_status *s);

/* The object for PUT …/status: apiVersion, kind, metadata {name, uid, resourceVersion} and the
 * status with its summary counted anew: gpus are all that are listed, fit those that take claims
 * (inventory_usable: none of a server that drains or is stale), free what these have left. Compact.
 */
void server_object_write(const struct server_object *o, struct buf *out);

#endif
