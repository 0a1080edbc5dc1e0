/* SPDX-License-Identifier: Apache-2.0 */
/* core: launcher profiles: how one remote-GPU client is put around a program. Profiles are data;
 * see docs/launchers. */
#ifndef WEBHOOK_CORE_LAUNCHER_LAUNCHER_H
#define WEBHOOK_CORE_LAUNCHER_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

enum profile_kind {
	PROFILE_WRAP,    /* the program is started by a launcher: needs the container's command */
	PROFILE_PRELOAD, /* a library is preloaded by an environment variable */
	PROFILE_LIBPATH, /* a folder in front of the library path */
	PROFILE_ENV      /* environment variables alone */
};

/* When words of the argv template, or a variable, are written. */
enum word_when {
	WORD_ALWAYS,
	WORD_FRACTION,    /* the request is by percent */
	WORD_MEMORY,      /* the request is by memory */
	WORD_EACH_FILTER, /* once for each filter token */
	WORD_ANY_FILTER   /* once when the pod has filter tokens */
};

/* Words of the argv template that stand or fall together. Each is a template: literal text with
 * {places}. */
struct profile_words {
	enum word_when when;
	struct slice *word;
	size_t n;
};

/* An environment variable of a GPU container. */
struct profile_env {
	struct slice name;
	struct slice value; /* template */
	bool prepend;       /* put in front of the container's own value instead of setting it */
	struct slice separator; /* between ours and the container's own, usually ":" */
	enum word_when when;    /* not WORD_EACH_FILTER */
	/* Instead of value: a Secret of the pod's namespace and a key in it; absent otherwise. */
	struct slice secret;
	struct slice secret_key;
	struct slice field; /* or a field of the pod: metadata.uid, …; absent otherwise */
};

/* Has it its value from somewhere else? */
static inline bool profile_env_refers(const struct profile_env *e)
{
	return e->secret.at || e->field.at;
}

/* What is known of a container's place once the GPUs are chosen; templates have a place for each.
 */
enum late_value {
	LATE_SERVERS,     /* {servers} */
	LATE_SERVER_HOST, /* {server_host} */
	LATE_GPUS,        /* {gpus} */
	LATE_GPU_INDEXES, /* {gpu_indexes} */
	LATE_VALUES
};

/* "servers", … as templates and the plan's JSON name it. */
const char *late_value_name(enum late_value v);
/* The variable that holds this value in a container: "POOLGATE_SERVERS". */
const char *late_variable(enum late_value v);

/* How far a client can keep a promise. */
enum can {
	CAN_YES,
	CAN_NO,
	CAN_BOOKKEEPING, /* counted in the ledger although the client does not enforce it */
	CAN_GATE /* the gate in front of the GPU server does it: such servers alone are used */
};

/* Servers of a pod behind gates, at most: so many ports its end opens (docs/gpugate.md). */
#define PROFILE_GATE_SERVERS 16
/* What the end reads: the gates' addresses, in the order of its ports, and the CAs that signed
 * their certificates. */
#define ANN_GATE_SERVERS "poolgate.io/gate-servers"
#define ANN_GATE_CA "poolgate.io/gate-ca"

/* The gate in front of each GPU server, and the pod's end of it: its sidecar and volumes are among
 * the client's and the profile's. */
struct profile_gate {
	bool by_address; /* the client itself dials gates, which know its pod by its address: there
			    is no end */
	uint16_t port;   /* of the first server, on 127.0.0.1; 0: there is no end */
	struct slice ca; /* PEM */
	struct slice pull_secret; /* that the sidecar's image is pulled with, in the pod's
				     namespace; absent: none */
};

/* An init container that is added to the pod, rendered once when the profile is loaded. */
struct profile_init {
	struct slice name;
	struct slice json;      /* the whole object as compact JSON, without "resources" */
	struct slice resources; /* "resources" as JSON; absent: what follows, and of the pod's
				   containers what that leaves out */
	/* Its own resources as the operator wrote them, cpu and memory; absent where not written.
	 */
	struct slice limit_cpu, limit_memory, request_cpu, request_memory;
	struct slice other_limits,
		other_requests; /* further members as JSON text `"a":"1","b":"2"`, or absent */
	struct slice image;
};

struct profile_volume {
	struct slice name;
	struct slice json;
};

struct profile_mount {
	struct slice path; /* mountPath */
	struct slice json;
};

/* A named value of a client, for {client.NAME} in templates. */
struct profile_value {
	struct slice name;
	struct slice value;
};

/* One installation of the client that the pod's annotations os and version choose. A profile that
 * needs no such choice has exactly one, with absent os and version. */
struct profile_client {
	struct slice os;
	struct slice version;
	struct slice arch; /* of its programs, as nodes name it: "amd64"; absent: any */
	struct profile_value *values;
	size_t n_values;
	struct profile_init
		*inits; /* in the order in which they are put in front of the pod's own */
	size_t n_inits;
	/* For proofs (plan_proof.h): the shape of volumes, inits and mounts, absent where they have
	 * none, and the digest of all that. */
	struct slice shape;
	unsigned char parts_digest[32];
};

/* Option names of the launcher's own command line, for commands that start the launcher themselves.
 */
struct profile_options {
	struct slice *amount;
	size_t n_amount;
	struct slice *fraction;
	size_t n_fraction;
	struct slice *memory_mb;
	size_t n_memory_mb;
};

/* A profile. Immutable; lives in the arena of its configuration. */
struct profile {
	struct slice name;
	uint64_t hash; /* over everything that decides what is written into a pod */
	enum profile_kind kind;
	bool by_client;             /* annotations os and version must choose one of clients */
	struct profile_words *argv; /* wrap only */
	size_t n_argv;
	struct slice separator; /* the word between launcher and program; absent: none */
	struct slice basename; /* of the launcher, to recognise commands that start it themselves */
	struct profile_options options;
	struct slice shell; /* runs one-string commands: "sh" */
	struct profile_env *env;
	size_t n_env;
	struct profile_client *clients;
	size_t n_clients;
	struct profile_volume *volumes;
	size_t n_volumes;
	struct profile_mount *mounts;
	size_t n_mounts;
	struct slice
		*secrets; /* names of Secrets that volumes and variables need, and those listed */
	size_t n_secrets;
	enum can can_fraction; /* gpu-percent below 100 */
	enum can can_memory;   /* gpu-memory */
	uint32_t max_amount;   /* GPUs per container */
	bool servers_placed;   /* placement: servers (else client) */
	bool whole_servers;    /* granularity: server (else gpu) */
	bool one_server;       /* {server_host} is used: a pod's GPUs have to be on one server */
	bool no_ipv4, no_ipv6; /* address families of servers that the client cannot use */
	unsigned values;       /* 1 << enum late_value for each that a template of it holds */
	struct profile_gate gate;
	bool needs_late; /* one of them is known only once the claim stands: it cannot be served
			    where places do not come late */
};

/* What the places of a template stand for in one container. */
struct launch {
	const struct profile *profile;
	const struct profile_client *client;
	uint32_t amount;
	uint32_t percent;            /* 0 when by memory */
	uint64_t memory_mb;          /* 0 when by percent */
	const struct slice *filters; /* tokens */
	size_t n_filters;
	const struct slice *servers; /* addresses, host:port */
	size_t n_servers;
	bool late; /* its place is not known yet: places of enum late_value stand for variables that
		      will hold them */
};

/* The client of the profile that os and version choose: the only one when the profile is not
 * by_client. NULL when there is none. */
const struct profile_client *profile_client(
	const struct profile *p, struct slice os, struct slice version);

/* Can this profile keep what the request asks? ERR_INVALID with the reason and what to ask instead:
 * a fraction or a memory share that the client cannot express, more GPUs than max_amount. `can:
 * bookkeeping` accepts. */
int profile_expresses(const struct profile *p, uint32_t amount, uint32_t percent,
	uint64_t memory_mb, struct err *err);

/* Does the profile leave shares to gates, so that its pods need servers that are guarded? */
static inline bool profile_guarded(const struct profile *p)
{
	return p->can_fraction == CAN_GATE || p->can_memory == CAN_GATE;
}

/* Does the image stand under a host of the top-level domain invalid, which nobody can own? The
 * shipped clients' do, until an operator names his own: such a pod would never start. */
bool image_is_unset(struct slice image);

/* Places that a template may hold: {amount} {fraction} (six decimals) {percent} {memory_mb}
 * {memory_gib} {filters} (joined by ',') {filter} (within each-filter words) {servers} (joined by
 * ','; behind gates their ends in the pod) {server_host} (the first server without its port) {gpus}
 * (ids, joined by ',') {gpu_indexes} {client.NAME}; "{{" is a brace. Is this text a template with
 * known places alone? values: names for client.NAME that every client has. when: the condition of
 * the entry that it stands in; {filter} is known in each-filter words alone. ERR_INVALID names the
 * place and those that have a value there. */
int template_check(struct slice text, enum word_when when, const struct profile_value *values,
	size_t n_values, struct err *err);

/* Does the template hold this place ("fraction", without braces)? */
bool template_has(struct slice text, const char *place);

/* Expand a template. The result lives in the arena; without places it is `text` itself, and of one
 * place alone it may be the launch's own text (of its client, its servers or the filter). Absent
 * when the arena ran out. filter is the token for {filter}. Memory in GiB is rounded up to whole
 * GiB. */
struct slice template_expand(
	struct slice text, const struct launch *l, struct slice filter, struct arena *a);

/* The same as the pod must hold it, for the kubelet to expand: `$` doubled, and where the place
 * comes late "$(POOLGATE_SERVERS)" for {servers}. */
struct slice template_render(
	struct slice text, const struct launch *l, struct slice filter, struct arena *a);

/* Append the end of a gate for the pod's server number i: "127.0.0.1:14841", behind a comma where
 * there is something already. */
void launch_add_end(struct buf *b, uint16_t first_port, size_t i);

/* "host:port", "[v6]:port" or a bare host: without the port, and without brackets. */
struct slice launch_host(struct slice address);

/* How often what is written under this condition is written for this launch: 0, 1, or once for each
 * filter. */
size_t launch_times(const struct launch *l, enum word_when when);

/* The launcher's argv, separator included, as the pod must hold it (template_render). *ret_words
 * lives in the arena. ERR_NOMEM. */
int launch_argv(const struct launch *l, struct arena *a, struct slice **ret_words, size_t *ret_n,
	struct err *err);

/* Write `$` twice, so that the kubelet's expansion gives the text back
 * (k8s.io/kubernetes third_party/forked/golang/expansion). */
struct slice launcher_escape(struct slice s, struct arena *a);

#endif
