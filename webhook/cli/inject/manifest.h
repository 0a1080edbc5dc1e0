/* SPDX-License-Identifier: Apache-2.0 */
/* cli: where pods live in the documents that people apply. */
#ifndef WEBHOOK_CLI_INJECT_MANIFEST_H
#define WEBHOOK_CLI_INJECT_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "base/yaml/yaml.h"

/* Pods of one document, and objects: items of Lists count one by one. */
#define MANIFEST_PODS_MAX 10000
/* Lists in Lists. */
#define MANIFEST_LISTS_MAX 8

/* A pod, or the template of the pods that a workload makes. Everything lives as long as the
 * document. */
struct manifest_pod {
	struct yaml_node *node;      /* the map with metadata (which may be absent) and spec */
	const struct yaml_node *via; /* the alias or merge key that leads to it: then it cannot be
					changed. Else NULL */
	struct slice pointer; /* to it from the document's root: "", "/spec/template", "/items/2" */
	const struct yaml_node *object; /* that it is in, itself for a Pod */
	struct slice kind;              /* of the object that it is in: "Pod", "Job" */
	struct slice name;      /* of that object: its name, else its generateName, else empty */
	struct slice namespace; /* of that object, absent when it names none */
	uint32_t line;          /* where that object begins */
	const struct yaml_node *stray; /* see manifest_pods.others; else NULL */
};

struct manifest_pods {
	struct manifest_pod *at;
	size_t n;
	/* Objects in which no pod was found, and those with a key of ours outside their pods, where
	 * it has no effect: then stray is the first of these keys. Of a pod's members only kind,
	 * name, namespace and line mean something here; node is the object. */
	struct manifest_pod *others;
	size_t n_others;
};

/* Find the pods of a document, in order: a Pod (v1; without apiVersion, too), and in any other kind
 * every map that has the shape of a pod template, {metadata, spec: {containers: [{…}]}}, however
 * deep; Lists hold objects. ERR_TOOBIG with the place, or ERR_NOMEM. */
int manifest_pods(struct yaml_doc *doc, struct manifest_pods *ret, struct err *err);

#endif
