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

/* Where an object is, in the facts' arena; namespace NULL: in none. NULL: out of memory. */
const char *doctor_path(struct doctor_facts *f, const char *api, const char *namespace,
	const char *plural, const char *name);
/* GET an object into s; what is borrowed. path NULL: memory was out. */
void doctor_get(struct kube *k, const char *path, const char *what, struct sight *s);
/* Set the state that an error stands for. */
void sight_failed(struct sight *s, const struct err *err, struct arena *a);
/* Ask with a body: 0 and the answer, or an error. For reviews of rights, which change nothing. */
int doctor_ask(struct kube *k, const char *path, const struct buf *body, struct sight *ret,
	struct err *err);

/* ---- doctor_read_lists.c ---- */

/* All lists. Pods without a claim are looked at once more: lists that were made one after the other
 * differ by what happened between. */
void doctor_read_lists(struct kube *k, struct doctor_facts *f);
/* One object of such a list; ctx is a struct doctor_taking. False: out of memory. */
struct doctor_taking {
	struct doctor_facts *f;
	struct doctor_list *list;
};
kube_each doctor_take_other, doctor_take_pod, doctor_take_server, doctor_take_node,
	doctor_take_class, doctor_take_policy, doctor_take_pick, doctor_take_bound;
/* ---- doctor_read_rights.c ---- */

void doctor_read_registries(struct doctor_facts *f);
void doctor_read_rights(struct kube *k, struct doctor_facts *f);
void doctor_read_places(struct kube *k, struct doctor_facts *f);
/* What the manifests give to our account, as the settings name it; from f->shipped. */
void doctor_list_rights(struct doctor_facts *f, enum shipped which);

#endif
