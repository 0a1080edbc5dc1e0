/* SPDX-License-Identifier: Apache-2.0 */
/* kube: how the Kubernetes API's objects are named, and its clock. Pure. */
#ifndef KUBE_KUBE_OBJECT_H
#define KUBE_KUBE_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json/json_read.h"
#include "base/slice.h"

/* metadata of an object, for everybody who reads one. Strings borrow from the json's text when they
 * hold no escapes (names, uids and versions never do), else they are absent. */
struct kube_meta {
	struct slice name, namespace, uid, version; /* version: resourceVersion */
	bool deleting;                              /* has a deletionTimestamp */
};
struct kube_meta kube_meta(const struct json *j, const struct json_node *object);

/* What became of an object that is watched. */
enum kube_change {
	KUBE_PUT,     /* it is there: listed, added or modified */
	KUBE_GONE,    /* this was its last state */
	KUBE_BOOKMARK /* it is nobody's: its resourceVersion says how far the watch has come */
};

/* resourceVersions of one resource type can be compared (Kubernetes 1.35 promises it, etcd
 * revisions always did): as a number. 0 when it is none. */
uint64_t kube_version_number(struct slice version);

/* What the Date of an answer's head says (RFC 9110's fixed form), in seconds since 1970. False:
 * there is none that can be read. */
bool kube_date(struct slice head, int64_t *ret_s);

/* Append "/apis/GROUP/v1/namespaces/NS/PLURAL/NAME/SUB": parts that are NULL are left out, names
 * are percent-encoded. api is
 * "/api/v1" or "/apis/coordination.k8s.io/v1". Where it does not fit, or memory runs out, nothing
 * is left in out: data is NULL, and out has failed. */
void kube_path(struct buf *out, const char *api, const char *namespace, const char *plural,
	const char *name, const char *sub);

/* Where an object stands: kube_path()'s parts. */
struct kube_place {
	const char *api, *namespace, *plural, *name, *sub;
};

#endif
