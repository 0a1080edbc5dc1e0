/* SPDX-License-Identifier: Apache-2.0 */
/* core: a pod as its readers need it: its parts found once, nothing copied. */
#ifndef WEBHOOK_CORE_POD_POD_H
#define WEBHOOK_CORE_POD_POD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json/json_read.h"
#include "webhook/core/pool/placement.h"

/* One container of a pod. */
struct pod_container {
	const struct json_node *node;
	struct slice name;
	enum container_kind kind;
	size_t index;     /* in its own array */
	const char *path; /* "/spec/containers/2", a JSON pointer below the pod */
};

/* Nodes are NULL where the pod has nothing (or null) there. Borrows from the JSON text and the
 * arena. */
struct pod {
	const struct json *j;
	const struct json_node *root;
	const struct json_node *annotations;
	const struct json_node *labels;
	const struct json_node *spec;
	const struct json_node *volumes;
	bool has_inits;                   /* spec.initContainers is an array */
	struct pod_container *containers; /* initContainers first, then containers */
	size_t n_containers;
};

/* What the switch annotation says. */
enum pod_switch { SWITCH_OFF, SWITCH_FULL, SWITCH_INJECTION };

/* Find annotations and labels alone (total; for the quick "does this pod concern us" look). */
void pod_glance(const struct json *j, const struct json_node *root, struct pod *ret);

/* More containers than any kubelet runs; what looks at each pair of them stays cheap. */
#define POD_CONTAINERS_MAX 1024

/* Find all parts. ERR_INVALID with path, what was found and expected: spec, containers missing or
 * not an array, a container that is no object or has no name, two with one name. ERR_TOOBIG: over
 * POD_CONTAINERS_MAX. ERR_NOMEM. */
int pod_read(const struct json *j, const struct json_node *root, struct arena *a, struct pod *ret,
	struct err *err);

/* A JSON pointer and what stands below it ("/resources/limits"), or an index below it. NULL when
 * the arena ran out. */
char *pod_path(struct arena *a, const char *path, const char *below);
char *pod_path_at(struct arena *a, const char *path, size_t index);

/* An annotation's value, decoded; absent slice when it is not there or no string. */
struct slice pod_annotation(const struct pod *p, const char *key, struct arena *a);

/* `y yes true on all` and `injection`, in any case; everything else is off. */
enum pod_switch pod_switch_of(const struct pod *p, struct arena *a);

/* spec.imagePullSecrets, and is this Secret among them? */
const struct json_node *pod_pull_secrets(const struct pod *p);
bool pod_pulls_with(const struct pod *p, struct slice secret);

/* The owner that controls it, such as a ReplicaSet or a Job, which makes another one when it is
 * refused; NULL: it is bare. */
const struct json_node *pod_controller(const struct pod *p);

/* kube-system, kube-public and mirror pods of the kubelet are never touched. */
bool pod_is_exempt(const struct pod *p, struct slice namespace);

/* Does it run on Windows? *ret_path: the place that says so (spec.os.name, or the node selector
 * kubernetes.io/os). */
bool pod_is_windows(const struct pod *p, const char **ret_path);

/* Can it run on a node of this architecture ("amd64"), as far as its node selector and its required
 * node affinity say? When not, *ret_path is the place that says so. */
bool pod_allows_arch(const struct pod *p, struct slice arch, const char **ret_path);

#define POD_WHY_SIZE 32

/* Why a pod that is there does not run: "" where it does, or has; else the first container's reason
 * that is more than being made
 * ("ImagePullBackOff"), else the scheduler's ("Unschedulable"), else "Pending". Cut at POD_WHY_SIZE
 * - 1; letters alone. Total. */
void pod_waits(const struct json *j, const struct json_node *object, char ret[static POD_WHY_SIZE]);

#define POD_IPS_SIZE 96

/* Its own addresses, "10.1.2.3" or "10.1.2.3,fd00::3", as its status has them, at most two; ""
 * where it has none yet, or is on its node's network, whose address is not its own. What is no
 * address is left out. Total. */
void pod_ips(const struct json *j, const struct json_node *object, char ret[static POD_IPS_SIZE]);

/* Kubernetes' terminationGracePeriodSeconds. */
#define POD_GRACE_S 30

/* For how many seconds may its processes run on when it is deleted: by its spec (at least 1;
 * POD_GRACE_S where it does not say), and by the delete that was asked for
 * (metadata.deletionGracePeriodSeconds; 0: none was, or with none)? Total; object is the pod. */
uint32_t pod_grace(const struct json *j, const struct json_node *object);
uint32_t pod_delete_grace(const struct json *j, const struct json_node *object);

/* Has it ended, by its phase: at all, or with success? */
bool pod_finished(const struct json *j, const struct json_node *object);
bool pod_succeeded(const struct json *j, const struct json_node *object);

/* The container of that name, or NULL. */
const struct pod_container *pod_container(const struct pod *p, struct slice name);

#endif
