/* SPDX-License-Identifier: Apache-2.0 */
/* cli: how the doctor comes to know: it asks the cluster, and judges nothing. */
#ifndef WEBHOOK_CLI_DOCTOR_DOCTOR_READ_H
#define WEBHOOK_CLI_DOCTOR_DOCTOR_READ_H

#include "kube/kube.h"
#include "webhook/cli/doctor/doctor_facts.h"

/* Everything. 0, or an error that says that the cluster cannot be reached, or does not let us in;
 * then nothing is known. Whatever else goes wrong stands in the facts. f is inited here; release it
 * in every case. */
int doctor_read(struct kube *k, const char *namespace, struct doctor_facts *f, struct err *err);

/* GET an object into s; what is borrowed. */
void doctor_get(struct kube *k, const char *path, const char *what, struct sight *s);
/* Set the state that an error stands for. */
void sight_failed(struct sight *s, const struct err *err, struct arena *a);
/* Ask with a body: 0 and the answer, or an error. For reviews of rights, which change nothing. */
int doctor_ask(struct kube *k, const char *path, const struct buf *body, struct sight *ret,
	struct err *err);

/* ---- doctor_read_lists.c ---- */

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

/* ---- doctor_read_rights.c ---- */

void doctor_read_registries(struct doctor_facts *f);
void doctor_read_rights(struct kube *k, struct doctor_facts *f);
void doctor_read_places(struct kube *k, struct doctor_facts *f);
/* What the manifests give to our account, as the settings name it; from f->shipped. */
void doctor_list_rights(struct doctor_facts *f, enum shipped which);

#endif
