/* SPDX-License-Identifier: Apache-2.0 */
/* core: what the policy of its namespace says of a pod, where the pod does not say it itself. Pure.
 */
#ifndef WEBHOOK_CORE_POD_POD_POLICY_H
#define WEBHOOK_CORE_POD_POD_POLICY_H

#include <stdbool.h>

#include "base/arena.h"
#include "webhook/core/pod/pod.h"
#include "webhook/core/policy/policy.h"

/* What is done to it: its own annotation decides, on or off; without one the policy (NULL: none),
 * by spec.inject and spec.share. many: it is the template of pods to come, whose groups nobody
 * knows yet: a share of more than none counts as all. Whether it asks for GPUs is not looked at. */
enum pod_switch pod_policy_switch(const struct pod *p, const struct policy *policy,
	struct slice namespace, bool many, struct arena *a);

/* Does the policy decide about it at all: has it no annotation of its own? */
bool pod_policy_decides(const struct pod *p, struct arena *a);

/* Law P5: is its group of pods among so many of 100? The same pod, and each of one group, always
 * hears the same, and who was among fewer is among more. One without any name is a template in a
 * file: yes, where it is not 0. */
bool pod_policy_shares(
	const struct pod *p, struct slice namespace, uint32_t share, struct arena *a);

/* The pod's annotation of that key, else what the policy says (NULL: nothing); absent: neither. */
struct slice pod_policy_word(
	const struct pod *p, const char *key, const char *by_policy, struct arena *a);

#endif
