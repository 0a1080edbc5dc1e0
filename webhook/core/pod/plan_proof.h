/* SPDX-License-Identifier: Apache-2.0 */
/* core: the proof in a plan (ledger rule R18): a digest of everything that was rendered, and a MAC
 * over namespace, plan and digest. A replica with another version or configuration finds by it that
 * a pod is as one of its own kind has written it.
 *
 * It is the plan's last member, "proof":{"shape":…,"digest":…,"mac":…}; the MAC covers every byte
 * before it. The digest is over
 *   - the parts of the profile: volumes, init containers, mounts, and their shape (part_shape.h)
 *   - the CAs of the gates, where the plan knows of gates
 *   - the image pull secret that was put in for their end, where the plan has one
 *   - of each container in the plan its name, its launcher's words (its whole command and args
 *     where there are none), and the value or Secret of each variable that the profile sets or puts
 *     in front
 * so that the same places of a pod give the same digest. */
#ifndef WEBHOOK_CORE_POD_PLAN_PROOF_H
#define WEBHOOK_CORE_POD_PLAN_PROOF_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_read.h"
#include "webhook/core/launcher/launcher.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pod/pod.h"

/* SHA-256. Any thread. ERR_INTERNAL. */
typedef int plan_digest(struct slice data, unsigned char ret[PLAN_PROOF_BYTES], struct err *err);

/* Who knows the keys. Any thread; may not wait. */
struct plan_signer {
	void *ctx;
	plan_digest *digest;
	/* The MAC of the parts, one after the other, by the key that signs now. ERR_INTERNAL. */
	int (*sign)(void *ctx, const struct slice *parts, size_t n,
		unsigned char ret[PLAN_PROOF_BYTES], struct err *err);
	/* Is it the MAC of these by a key that is in force? Takes as long whatever the MAC is.
	 * ERR_INTERNAL. */
	int (*verify)(void *ctx, const struct slice *parts, size_t n,
		const unsigned char mac[PLAN_PROOF_BYTES], bool *ret, struct err *err);
};

/* Note in each client of the profile what is rendered alike for every pod of it: the shape (in the
 * arena) and the digest. Where an object has no shape, or all of them a long one, there is none,
 * and the plans get no proof. ERR_NOMEM, ERR_INTERNAL. */
int profile_prepare_proof(struct profile *p, plan_digest *digest, struct arena *a, struct err *err);

/* ---- what is rendered for one pod; out NULL: nobody asks ---- */

void proof_container(struct buf *out, struct slice name);
/* Launcher's words, decoded. */
void proof_words(struct buf *out, const struct slice *words, size_t n);
/* The container's whole command and args. */
void proof_command(
	struct buf *out, const struct json *j, const struct json_node *container, struct arena *a);
void proof_variable(struct buf *out, struct slice name, struct slice value);
void proof_variable_secret(
	struct buf *out, struct slice name, struct slice secret, struct slice key);
void proof_variable_field(struct buf *out, struct slice name, struct slice path);
/* The CAs of the pod's end of a gate, behind all containers. */
void proof_gate(struct buf *out, struct slice ca);
/* The image pull secret for it, where it was added. */
void proof_pull(struct buf *out, struct slice secret);

/* ---- proofs ---- */

/* Append the proof to a plan's text: content is what the functions above have noted, client the
 * pod's. Nothing is appended where the client has no shape, or it does not fit. ERR_NOMEM (text or
 * content failed, too), ERR_INTERNAL. */
int plan_prove(const struct plan_signer *signer, struct slice namespace,
	const struct profile_client *client, const struct buf *content, struct buf *text,
	struct err *err);

/* What a plan's proof is worth. */
enum proof {
	PROOF_UNASKED, /* the pod is what this replica would write now */
	PROOF_NONE,    /* the plan has none */
	PROOF_UNKNOWN, /* no key in force has made it, for this namespace and plan */
	PROOF_OTHER,   /* genuine, and the pod is not what was rendered */
	PROOF_HOLDS
};

/* Did a replica that shares our keys write this plan for this namespace? signer may be NULL: no.
 * When that cannot be told the arena has failed. */
bool plan_is_genuine(const struct plan_signer *signer, struct slice namespace,
	const struct plan *plan, struct arena *a);

/* Judge the proof of the pod's plan. When the arena has failed the answer means nothing. */
enum proof plan_judge(const struct plan_signer *signer, struct slice namespace,
	const struct pod *pod, const struct plan *plan, struct arena *a);

#endif
