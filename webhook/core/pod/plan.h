/* SPDX-License-Identifier: Apache-2.0 */
/* core: the plan: what was decided for a pod. Patch writer, validator, CLI and log all read this
 * one record, and it travels with the pod in the annotation poolgate.io/plan, complete in itself.
 */
#ifndef WEBHOOK_CORE_POD_PLAN_H
#define WEBHOOK_CORE_POD_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "webhook/core/launcher/launcher.h"
#include "webhook/core/pool/placement.h"

#define PLAN_VERSION 1
#define PLAN_BYTES_MAX                                                                             \
	(64 * 1024) /* of the annotation; all annotations of an object together may have 256 KiB   \
		     */
#define PLAN_CONTAINERS_MAX 256
/* Of what is added to one container or to the pod: mounts, variables, volumes, init containers. No
 * profile holds more of one kind. */
#define PLAN_NAMES_MAX 64
#define PLAN_SERVERS_MAX 1024
/* Of variables: a profile's, those of a late place, and one that hides a node's GPUs. */
#define PLAN_ENV_MAX (PLAN_NAMES_MAX + LATE_VALUES + 1)
/* Of the proof (plan_proof.h): a digest, a MAC; and the shape. */
#define PLAN_PROOF_BYTES 32
#define PLAN_SHAPE_MAX (16 * 1024)
#define PLAN_RENDERED_MAX (32u << 20)
/* How the text goes on behind what the MAC covers. */
#define PLAN_PROOF_KEY ",\"proof\":"

#define ANN_SWITCH "auto-management/bitfusion"
#define ANN_STATUS "auto-management/status"
#define ANN_OS "bitfusion-client/os"
#define ANN_VERSION "bitfusion-client/version"
#define ANN_FILTER "bitfusion-client/filter"
#define ANN_PLAN "poolgate.io/plan"
#define ANN_LAUNCHER "poolgate.io/launcher"
#define ANN_WHEN_FULL "poolgate.io/when-full"
/* The gang that a pod belongs to, in its namespace, and how many members that has. */
#define ANN_GANG "poolgate.io/gang"
#define ANN_GANG_SIZE "poolgate.io/gang-size"
#define GANG_SIZE_MAX 4096
#define LABEL_INJECTED "poolgate.io/injected"
#define OURS_PREFIX "poolgate.io/"

/* What became of a container's command. */
enum command_mode {
	COMMAND_NONE,    /* untouched: `injection` mode, or a profile that does not wrap */
	COMMAND_WRAPPED, /* launcher words in front of the command's own words */
	COMMAND_SHELL, /* launcher words, then shell -c, then the one string that the command was */
	COMMAND_OWN    /* the command starts the launcher itself */
};

/* An environment variable of the container that was put in front of or replaced. */
struct plan_env {
	struct slice name;
	bool had;           /* the container had a value of its own, kept in `was` */
	struct slice was;   /* as the user spelled it: inside of the JSON string; absent for a name
			       without a value */
	struct slice moved; /* a valueFrom entry was renamed to this; absent otherwise */
};

struct plan_container {
	struct slice name;
	enum container_kind kind;
	uint32_t amount;
	uint32_t percent;   /* 0 when by memory */
	uint64_t memory_mb; /* 0 when by percent */
	uint64_t units;     /* bitfusion.io/gpu in limits and requests, unless node_resource_off */
	enum command_mode command;
	uint32_t argv; /* launcher words at the front of command, separator included */
	/* The container had no command: behind the launcher's stand so many words of its image,
	 * which had this digest. Absent: its own. */
	struct slice image;
	uint32_t image_words;
	/* For uninject: the members of limits and requests that were removed, as JSON objects;
	 * absent for none. */
	struct slice asked_limits;
	struct slice asked_requests;
	unsigned foreign; /* 1 << enum foreign_key for each key of others among these; 0: none */
	struct plan_env *env;
	size_t n_env;
	struct slice *mounts; /* mountPaths that were added */
	size_t n_mounts;
	struct slice
		*kept; /* variables that the container sets itself, just as the profile would */
	size_t n_kept;
	uint32_t slot; /* where its place comes late: the number of its values among the pod's */
	/* parents that did not exist before, so that uninject can take them away again */
	bool made_limits, made_requests, made_env, made_mounts;
};

/* What tied the pod to nodes with GPUs of their own and was taken out of it (law P3), as JSON that
 * stood there; absent for what was not. */
#define PLAN_TIES_MAX 256
struct plan_toleration {
	uint32_t at; /* its index among all of before */
	struct slice json;
};
struct plan_ties {
	struct slice node_selector; /* an object of the members that were taken */
	struct slice node_affinity; /* spec.affinity.nodeAffinity, all of it */
	struct slice runtime_class; /* a string, and spec.overhead, which the API server takes from
				       it */
	struct slice overhead;
	struct plan_toleration *tolerations; /* in rising order */
	size_t n_tolerations;
};

/* The proof as it was read; not written with the plan. */
struct plan_proof {
	struct slice text; /* of the plan, before it; absent: there is none */
	struct slice shape;
	unsigned char digest[PLAN_PROOF_BYTES], mac[PLAN_PROOF_BYTES];
};

/* A place that comes late: what the client has to be told, and what its GPUs must be like for that.
 */
struct plan_late {
	unsigned values; /* 1 << enum late_value for each; 0: the place was known, or the client
			    chooses */
	bool whole_servers, one_server, no_ipv4, no_ipv6;
};

struct plan {
	uint32_t version;
	uint32_t gang_size; /* of `gang`; 0: as many as its Job says */
	struct slice profile;
	uint64_t hash; /* the profile's */
	struct slice os,
		version_of_client; /* which client; absent when the profile is not by_client */
	bool full;                 /* mode: else injection */
	uint64_t total_mb;         /* TOTAL_GPU_MEMORY that units were counted by; 0: not set */
	bool node_resource_off;    /* its containers ask their node for no bitfusion.io/gpu */
	struct plan_container
		*containers; /* initContainers first, then containers, in the pod's order */
	size_t n_containers;
	struct slice *filters; /* tokens */
	size_t n_filters;
	struct slice *servers;   /* placement servers: names of GPUServers */
	struct slice *addresses; /* of these, what was written into the pod */
	size_t n_servers;
	struct plan_late late;
	uint16_t gate_port;       /* of its end of the first gate; 0: none */
	bool by_address;          /* it dials gates itself, which know it by its address */
	struct slice pull_secret; /* was put among the pod's, for the end's image; absent: none, or
				     it was there */
	bool guarded;             /* the gates hold it to its share: no other servers will do */
	bool waits; /* admitted without a claim: the leader gives it one when its turn comes, and
		       lets it go */
	struct slice gang; /* it waits for gang_size of this one, in its namespace; absent: it goes
			      alone */
	struct slice *inits; /* names of the init containers that were added */
	size_t n_inits;
	struct slice *volumes; /* names of the volumes that were added */
	size_t n_volumes;
	bool made_labels, made_inits, made_volumes, made_gates, made_annotations, made_metadata,
		made_pull_secrets;
	struct plan_ties ties;
	struct slice status_was; /* auto-management/status before; absent when there was none */
	/* annotations under poolgate.io/ that came with it; only what later versions write, who
	 * name them here */
	struct slice *keys;
	size_t n_keys;
	struct plan_proof proof;
};

/* "wrapped", … as in the plan's JSON */
const char *command_mode_name(enum command_mode m);

/* What a plan says of pods of this profile where places come late. */
struct plan_late plan_late_of(const struct profile *p);
bool plan_late_same(const struct plan_late *a, const struct plan_late *b);
/* Does its pod come behind our scheduling gate? */
static inline bool plan_is_gated(const struct plan *p)
{
	return p->late.values != 0 || p->waits;
}

/* Append the plan as compact JSON with members in a fixed order: the same plan gives the same
 * bytes. */
void plan_write(const struct plan *p, struct buf *out);

/* Read a plan from the annotation's value. Everything is copied into the arena. Unknown members are
 * ignored when the version is ours or newer (ledger rule R11: a newer replica may have written it).
 * ERR_SYNTAX, ERR_INVALID with the path inside the plan, ERR_TOOBIG, ERR_NOMEM. err may be NULL. */
int plan_read(struct slice text, struct arena *a, struct plan *ret, struct err *err);

/* The container of that name, or NULL. */
const struct plan_container *plan_container(const struct plan *p, struct slice name);

/* What the plan claims of the pool. Arrays live in the arena or are the plan's. ERR_NOMEM. */
int plan_demand(const struct plan *p, bool whole_servers, struct arena *a, struct demand *ret,
	struct err *err);

#endif
