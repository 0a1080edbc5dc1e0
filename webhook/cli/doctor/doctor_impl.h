/* SPDX-License-Identifier: Apache-2.0 */
/* cli: what the files of the doctor share: facts that were read, findings about them. Reading
 * (doctor_read*.c) and judging (a file for each group) are apart: judges look at facts alone, no
 * clock, no cluster. */
#ifndef WEBHOOK_CLI_DOCTOR_DOCTOR_IMPL_H
#define WEBHOOK_CLI_DOCTOR_DOCTOR_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/json/json_read.h"
#include "kube/kube.h"
#include "webhook/cli/doctor/doctor_shipped.h"
#include "webhook/cli/inject/installed.h"
#include "webhook/core/policy/policy.h"
#include "webhook/core/server/server_object.h"
#include "webhook/edge/image/registry_check.h"
#include "webhook/edge/settings/settings.h"

#define DOCTOR_NAMESPACE INSTALLED_NAMESPACE
#define DOCTOR_ACCOUNT "poolgate"
#define DOCTOR_DEPLOYMENT "poolgate"
#define DOCTOR_UNITS "bitfusion.io/gpu"
/* Where Kueue's own manifests put its settings. */
#define DOCTOR_KUEUE "kueue-system"
#define DOCTOR_KUEUE_SETTINGS "kueue-manager-config"
/* Nodes that the device plugin runs on. */
#define DOCTOR_NODES "poolgate.io/gpu-client"
/* Lines about one kind of trouble; the others are counted. */
#define DOCTOR_LINES_MAX 5
/* Namespaces that the API server is asked about, one question each and one for each Secret that
 * waiting pods mount. */
#define DOCTOR_PLACES_MAX 500
/* Lines about namespaces: each has a command of its own. */
#define DOCTOR_PLACE_LINES_MAX 50

/* ---- findings (doctor_report.c) ---- */

enum doctor_verdict { DOCTOR_OK, DOCTOR_WRONG, DOCTOR_UNCHECKED };

struct doctor_finding {
	enum doctor_verdict verdict;
	const char *group, *text;
	const char *mend; /* a command; NULL: there is none */
};

/* Zero it but for the arena. Out of memory shows as arena->failed. */
struct doctor_report {
	struct arena *arena;
	struct doctor_finding *at;
	size_t n, cap;
	const char *group; /* that findings go to */
};

/* Add one (printf style). What a terminal would obey becomes '?'. mend: of the report's arena or
 * static. */
void doctor_ok(struct doctor_report *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void doctor_wrong(struct doctor_report *r, const char *mend, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void doctor_unchecked(struct doctor_report *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* As arena_fmt, "" when out of memory: for `mend`. */
const char *doctor_fmt(struct doctor_report *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Has this group a finding that is no "ok"? */
bool doctor_group_troubled(const struct doctor_report *r);
size_t doctor_count(const struct doctor_report *r, enum doctor_verdict verdict);
/* One line each, or one JSON object. */
void doctor_print(const struct doctor_report *r, bool json, struct buf *out);

/* ---- facts ---- */

enum sight_state { SIGHT_NOT_ASKED, SIGHT_THERE, SIGHT_MISSING, SIGHT_FORBIDDEN, SIGHT_FAILED };

/* An object or a list that was asked for. */
struct sight {
	enum sight_state state;
	const char *what; /* "Secret poolgate-tls in poolgate-system" */
	const char *why;  /* SIGHT_FAILED: the error */
	struct json json; /* of an object */
	char *text;       /* that json stands on; owned */
	size_t text_len;
};

/* Overwrites and frees what was read. */
void sight_release(struct sight *s);
/* True when it is there. Says what cannot be checked otherwise, but for SIGHT_MISSING, which is the
 * judge's to say. */
bool sight_there(const struct sight *s, struct doctor_report *r);
/* A string member of the object along a path, in the arena; NULL when there is none. */
const char *sight_str(const struct json *j, const struct json_node *v, struct arena *a);

/* A pod of any namespace that was injected, be it by the origin. */
struct doctor_pod {
	const char *namespace, *name, *uid;
	bool finished, running;
	bool planned;         /* carries a plan; else the origin's mark alone */
	bool held;            /* our scheduling gate stands before it: it may have no claim yet */
	int64_t since_ms;     /* creationTimestamp; 0: not known */
	const char **secrets; /* of the client, that it mounts */
	size_t n_secrets;
};

struct doctor_replica {
	const char *name, *image, *image_id;
	bool running, ready, deleting;
};

struct doctor_server {
	const char *name;
	const char *path, *why; /* cannot be read; why NULL: it can */
	struct server_object object;
};

struct doctor_node {
	const char *name;
	int64_t units; /* allocatable bitfusion.io/gpu; -1: not offered */
	bool labelled; /* the device plugin is to run there */
};

/* A right that our account needs. Empty strings for what does not matter. */
struct doctor_right {
	const char *verb, *group, *resource, *subresource, *name, *namespace;
	bool asked, allowed;
};

/* A namespace whose pods mount the client's Secrets. */
struct doctor_place {
	const char *namespace;
	bool left_out;            /* behind DOCTOR_PLACES_MAX others: nothing was asked */
	bool asked, open;         /* may our account write Secrets there? */
	const char *lacks;        /* a Secret that is not there; NULL: none */
	enum sight_state secrets; /* could they be read? */
};

/* Somebody else's mutating hooks on pods. */
struct doctor_other {
	const char *name;
	bool after; /* called behind ours */
};

/* A DeviceClass by which our resource is somebody else's, too. */
struct doctor_class {
	const char *name;
};

/* A registry that the settings name. */
struct doctor_registry {
	const char *host, *ca; /* ca: as the settings have it; NULL: none */
	bool asked, ca_found;
	enum registry_trouble trouble;
	const char *why;
};

struct doctor_policy {
	const char *name;
	const char *path, *why; /* cannot be read; why NULL: it can */
	struct policy policy;   /* zero where it cannot */
};

/* A namespace that picks a policy. */
struct doctor_pick {
	const char *namespace, *policy;
};

/* A ResourceQuota or LimitRange over keys of others. */
struct doctor_bound {
	const char *namespace, *name;
	unsigned keys;
};

struct doctor_list {
	struct sight sight;
	void *at;
	size_t n, cap;
};
#define DOCTOR_EACH(type, list, e)                                                                 \
	for (const type *e = (list)->at, *e##_end = e ? e + (list)->n : NULL; e != e##_end; e++)

/* Where images of clients stand: the sidecar config, and launcher profiles. */
enum { CLIENTS_SIDECAR, CLIENTS_LAUNCHERS, CLIENTS_COUNT };

enum { HOOKS_MUTATING, HOOKS_VALIDATING, HOOKS_COUNT };

struct doctor_facts {
	struct arena arena;
	const char *namespace;
	int64_t now_ms; /* wall clock */
	/* The settings that the replicas run with; without their ConfigMap those of the manifests.
	 */
	struct settings settings;
	bool settings_known;
	int api_major, api_minor; /* 0 0: not known */
	const char *user;         /* who we are; NULL: not known */
	bool in_cluster_account;  /* the replicas' own */
	struct sight shipped[SHIPPED_COUNT];
	struct sight deployment, config, hooks[HOOKS_COUNT], tls, plan_keys, crd, lease;
	struct sight kueue;                  /* its settings, where pods wait; else not asked for */
	struct sight clients[CLIENTS_COUNT]; /* ConfigMaps */
	bool lease_moved;                    /* it was renewed while we looked */
	struct sight source;                 /* of the client's Secrets */
	bool source_whole;                   /* some of its keys are there */
	struct doctor_list others, replicas, servers, pods, nodes, rights, places, registries;
	struct doctor_list classes; /* doctor_class; empty too where they cannot be read */
	/* Where namespaces pick policies; else not asked for. */
	struct doctor_list policies, picks, quotas, ranges;
};

/* An element more, zeroed, in the facts' arena; NULL when out of memory. */
void *doctor_more(struct doctor_facts *f, struct doctor_list *list, size_t size);

/* ---- reading ---- */

/* Everything. 0, or an error that says that the cluster cannot be reached, or does not let us in;
 * then nothing is known. Whatever else goes wrong stands in the facts. f is inited here; release it
 * in every case. */
int doctor_read(struct kube *k, const char *namespace, struct doctor_facts *f, struct err *err);
void doctor_facts_init(struct doctor_facts *f, const char *namespace);
void doctor_facts_release(struct doctor_facts *f);

/* GET an object into s; what is borrowed. */
void doctor_get(struct kube *k, const char *path, const char *what, struct sight *s);
/* Set the state that an error stands for. */
void sight_failed(struct sight *s, const struct err *err, struct arena *a);
/* Ask with a body: 0 and the answer, or an error. For reviews of rights, which change nothing. */
int doctor_ask(struct kube *k, const char *path, const struct buf *body, struct sight *ret,
	struct err *err);

/* doctor_read_lists.c */
void doctor_read_others(struct kube *k, struct doctor_facts *f);
void doctor_read_replicas(struct kube *k, struct doctor_facts *f);
void doctor_read_pods(struct kube *k, struct doctor_facts *f);
void doctor_read_servers(struct kube *k, struct doctor_facts *f);
void doctor_read_nodes(struct kube *k, struct doctor_facts *f);
void doctor_read_policies(struct kube *k, struct doctor_facts *f);
/* One object of such a list; ctx is a struct doctor_taking. False: out of memory. */
struct doctor_taking {
	struct doctor_facts *f;
	struct doctor_list *list;
};
kube_each doctor_take_other, doctor_take_replica, doctor_take_pod, doctor_take_server,
	doctor_take_node, doctor_take_class, doctor_take_policy, doctor_take_pick,
	doctor_take_bound;
/* Pods without a claim, and claims without a pod, once more: lists that were made one after the
 * other differ by what happened between. */
void doctor_look_again(struct kube *k, struct doctor_facts *f);

/* doctor_read_registries.c */
void doctor_read_registries(struct doctor_facts *f);

/* doctor_read_rights.c */
void doctor_read_rights(struct kube *k, struct doctor_facts *f);
void doctor_read_places(struct kube *k, struct doctor_facts *f);
/* What the manifests give to our account, as the settings name it; from f->shipped. */
void doctor_list_rights(struct doctor_facts *f, enum shipped which);

/* doctor_shipped.c: the documents of a manifest as one JSON array. ERR_*: our own fault. */
int shipped_read(enum shipped which, struct sight *ret, struct err *err);
/* The command that applies what is installed once more, with one of manifests/components (may be
 * NULL). A kustomization of the operator's own is known by its image or by components beside that
 * one: no command of ours puts other ones back. */
const char *doctor_apply(
	const struct doctor_facts *f, struct doctor_report *r, const char *component);
/* The document of that kind and name in it. */
const struct json_node *shipped_doc(const struct sight *s, const char *kind, const char *name);
/* Does got say what want says? exact: and no more. path (may be NULL) gets the place of the first
 * difference. */
bool shipped_same(const struct json *wj, const struct json_node *want, const struct json *gj,
	const struct json_node *got, bool exact, struct buf *path);

/* ---- judging: one group each ---- */

typedef void doctor_judge(const struct doctor_facts *f, struct doctor_report *r);
doctor_judge doctor_replicas, doctor_versions, doctor_clients, doctor_crd, doctor_rights,
	doctor_webhooks, doctor_certificates, doctor_leader, doctor_servers, doctor_secrets,
	doctor_registries, doctor_nodes, doctor_kueue, doctor_policies, doctor_pods;
/* All of them. */
void doctor_judge_all(const struct doctor_facts *f, struct doctor_report *r);

/* The hook of that name in a webhook configuration, or NULL. */
const struct json_node *doctor_hook(const struct json *j, const char *name);
/* The claim of that uid on any server. */
bool doctor_has_claim(const struct doctor_facts *f, const char *uid);

#endif
