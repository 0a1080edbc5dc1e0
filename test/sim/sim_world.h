/* SPDX-License-Identifier: Apache-2.0 */
/* sim: replicas of the product (sim_replica.c), and who creates, runs and deletes pods
 * (sim_pods.c). */
#ifndef TEST_SIM_SIM_WORLD_H
#define TEST_SIM_SIM_WORLD_H

#include "test/sim/sim_laws.h"

struct config;

/* ---- sim_config.c ---- */

/* What a rollout may bring: what is written into pods changes, or the profile is gone. */
enum { CONFIG_NOW, CONFIG_LATER, CONFIG_WITHOUT, CONFIGS };

/* By which replicas prove their plans, of 32 bytes (R18). */
#define SHARED_KEY "0123456789abcdefghijklmnopqrstuv"

/* Before the first run: the configurations, and the shapes of pods, injected by the product. */
void configs_prepare(void);
const struct config *config_of(int version);
/* From now on there is this one alone. */
void replicas_use(const struct config *c);
extern struct shape shapes[];
extern const int n_shapes;

/* ---- sim_replica.c ---- */

/* Before the first run. */
void replicas_prepare(void);

/* Start one; it must not be running. */
void replica_start(int owner);
/* As SIGTERM does; it ends by itself. */
void replica_stop(int owner);
/* As SIGKILL does. Also from within. */
void replica_kill(int owner);
bool replica_runs(int owner);
/* Has it started? */
bool replica_is_ready(int owner);

/* The version of the configuration that it has, or is given: a running one by a reload. */
int replica_config(int owner);
void replica_configure(int owner, int version);

enum verdict { VERDICT_NONE, VERDICT_YES, VERDICT_NO };
/* A validating review of this pod by that replica, as the API server has it after its timeout: none
 * came, or it cannot be used. */
enum verdict replica_review(int owner, struct attempt *a, int64_t timeout_us);
/* What it answers to this review, at /mutate or /validate; NULL: it is not ready, or dies. The
 * caller frees it. */
char *replica_answer(int owner, const char *path, const char *body);
/* What those that run have counted is said (sim_steady.c). */
void replicas_said(void);

/* ---- sim_pods.c ---- */

/* What happens to creates and pods, in so many of a million. */
struct habits {
	unsigned second_hook, quota, lost_create, late, twice, clash, force, evict, delete_review;
	bool waits; /* some pods wait for their turn */
	bool crowd; /* small ones come on after the faults, while somebody waits who did so then */
	bool caps;  /* a policy bounds what some namespaces hold at once */
	bool company; /* small ones come several at once, under a cap that is far at first */
	bool far;     /* and stays so */
	bool wide;    /* servers have one GPU each, and pods that do not wait ask for four */
	bool gangs;   /* some of these for one another */
	/* A leader stands still behind what its queue has decided; runs are long, and no pod has a
	 * priority. */
	unsigned stall;
	unsigned give_up,
		foreign; /* of these: leave before it comes; have somebody else's gate, too */
	int64_t patience_us;
	int64_t turns_us; /* between two creates of these, at most */
	bool nodes;       /* pods have some, and run on there when they are deleted by force */
	unsigned names;   /* that pods are given */
	int64_t every_us, life_us; /* between two creates, and of a pod, at most */
};
extern struct habits habits;
extern int replicas; /* how many there are */

/* Tasks that create pods until then; those that wait. */
void users(void *until);
void waiters(void *until);
/* That attempt's pod, if it is there. */
struct object *pod_of(const struct attempt *a);
/* Is it stored? A pod that came back with a restore of etcd: nothing runs behind one that had
 * ended. */
bool pods_has(const struct attempt *a);
void pods_is_back(struct attempt *a);
/* Pods that are there, creates that are on their way. */
unsigned pods_open(void);

/* ---- sim_waiting.c ---- */

/* The pod of an attempt as it is created. */
cJSON *pod_made(const struct attempt *a);
/* Does our gate stand before it; another's? */
bool pod_is_held(cJSON *doc);
bool pod_has_foreign(cJSON *doc);
void pod_drop_gate(cJSON *doc);
/* What a pod that waits is like; drawn. small: half a GPU, and of no priority. */
struct attempt *waiting_attempt(bool small);
struct attempt *waiting_member(unsigned gang, unsigned i);
/* The next of the same name. */
struct attempt *waiting_again(const struct attempt *a);
/* Wait until it is let go. False: its owner has had enough. */
bool waiting_ends(struct attempt *a);

/* ---- sim_slips.c ---- */

/* In all runs: places reach pods by slips (carrier.h), not by patches. */
extern bool slips_on;
extern const struct carrier carrier_slips;
/* A task that reads slips. */
void slips(void *arg);
/* The leader leaves this one with a pod. False: it is of another, or the pod has been let go. */
bool slip_left(struct object *o, cJSON *slip, const char *who, bool unaware);

/* ---- sim_lean.c ---- */

/* In all runs in which things fail: allocations of replicas do, too, until everything is mended. */
extern bool lean_on;
/* How often, for this seed; from now on none does. */
void lean_draw(uint64_t seed);
void lean_end(void);

/* ---- sim_gangs.c ---- */

/* Its number; 0: there are too many. */
unsigned gang_new(void);
unsigned gang_size(unsigned gang);
struct attempt *gang_member(unsigned gang, const char *namespace, const char *name);
/* Its pod says which gang it is of. */
void gang_name(const struct attempt *a, cJSON *pod);
/* One of it is let go: all others hold whole claims, or somebody was before. */
void gang_let_go(const struct attempt *a, const char *who);
/* None of them holds something for longer than that where not all do. */
void gang_laws(int64_t from, int64_t most);

/* ---- sim_caps.c ---- */

/* The policy, and the namespaces; its cap becomes another one. */
void caps_make(void);
void caps_change(void);
/* Does it bound this one's namespace? */
bool caps_bind(const struct attempt *a);
/* For the store: etcd was restored; the policy was written; its account, for the trace. */
void caps_restored(void);
void caps_written(const struct object *o);
const char *caps_say(const struct object *o);
/* A claim was given that was not there before. */
void caps_after_write(const struct attempt *given, bool adopted, const char *who);
/* What its account owes when all is quiet. */
void caps_owed(char *out, size_t size);

/* ---- sim_probe.c ---- */

struct http_ask;
struct http_response;
struct err;
/* Whose probe is asked by this URL; -1: nobody's. */
int probe_of(const char *url);
/* http_client_do towards it. */
int probe_call(int machine, const struct http_ask *req, struct http_response *ret, struct err *err);
/* The same of gates: what they tell is drawn anew for each question. */
int gate_at(const char *url);
int gate_told(int machine, const struct http_ask *req, struct http_response *ret, struct err *err);
/* From now on it answers, or does not, by chance; all of them answer. */
void probes_change(int machine);
void probes_mend(void);
/* Its GPUServer is made anew: nobody knows how it was. */
void probes_forget(int machine);

/* ---- sim_chaos.c ---- */

/* Draw what goes wrong in this run, without what sim_cut leaves out; make the servers. */
void chaos_draw(void);
/* The name of that fault; NULL: there are not so many. */
const char *chaos_fault(size_t i);
/* A task that makes things go wrong until then, and then mends everything. */
void chaos(void *until);
/* It dies, as by SIGKILL, and is started again. Also from within. */
void chaos_kill(int owner);
/* Everything is mended and has been since then; 0: not yet. */
int64_t chaos_calm(void);

/* ---- sim_run.c ---- */

/* Everything is mended: what the world owes must come true within its time. */
void run_calm(void);

#endif
