/* SPDX-License-Identifier: Apache-2.0 */
/* cli: what the doctor knows of an installation, and who judges it: judges (a file for each group)
 * look at facts alone, no clock, no cluster. */
#ifndef WEBHOOK_CLI_DOCTOR_DOCTOR_FACTS_H
#define WEBHOOK_CLI_DOCTOR_DOCTOR_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json/json_read.h"
#include "webhook/cli/doctor/doctor_report.h"
#include "webhook/cli/doctor/doctor_shipped.h"
#include "webhook/cli/inject/installed.h"
#include "webhook/core/policy/policy.h"
#include "webhook/core/server/server_object.h"
#include "webhook/edge/image/registry_client.h"
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

/* Nothing is known yet. */
void doctor_facts_init(struct doctor_facts *f, const char *namespace);
void doctor_facts_release(struct doctor_facts *f);
/* An element more, zeroed, in the facts' arena; NULL when out of memory. */
void *doctor_more(struct doctor_facts *f, struct doctor_list *list, size_t size);

/* ---- what this version ships (doctor_shipped.c) ---- */

/* The documents of a manifest as one JSON array. ERR_*: our own fault. */
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

/* The claim of that uid on any server. */
bool doctor_has_claim(const struct doctor_facts *f, const char *uid);

#endif
