/* SPDX-License-Identifier: Apache-2.0 */
/* certs: when certificates are renewed and how one CA follows another. Pure: dates in, action out;
 * no I/O, no clock.
 *
 * A CA is replaced without a moment in which a client trusts the wrong one: the next CA is made, a
 * bundle with both is published, every client is given time to load it, the serving pair is signed
 * anew by the next CA, every replica is given time to load that, the old CA is dropped from the
 * bundle. Each step is decided from what is there, so a leader that dies between two steps is
 * followed by one that goes on at the same place. */
#ifndef CERTS_ROTATION_H
#define CERTS_ROTATION_H

#include <stdbool.h>
#include <stdint.h>

/* The API server reads a changed webhook configuration within seconds; kubelets need up to about
 * two minutes to renew a mounted Secret. Both with much room, as a rotation is never in a hurry. */
#define ROTATION_PUBLISH_WAIT_S 3600
#define ROTATION_DROP_WAIT_S 86400

/* A certificate's validity in Unix seconds, the backdated part included. until <= from: there is
 * none. */
struct rotation_span {
	int64_t from;
	int64_t until; /* not valid any more at this second */
};

struct rotation_state {
	struct rotation_span ca;      /* the CA that signed the serving pair in use */
	struct rotation_span next_ca; /* a CA that is to follow it and has signed nothing yet */
	struct rotation_span old_ca;  /* the CA before, still kept */
	struct rotation_span serving; /* the serving pair in use */
	bool ca_published;            /* is it in the bundle that clients trust? */
	bool next_published;
	bool old_published;
	int64_t published_at; /* when the bundle last changed; used while next_published */
	int64_t switched_at;  /* when the serving pair was switched to `ca`; used while old_ca is
				 there */
};

struct rotation_policy {
	int64_t publish_wait_s; /* from publishing both CAs until the pair may be switched */
	int64_t drop_wait_s;    /* from switching the pair until the old CA may be dropped */
};

/* What to do now. All but NOTHING are done at once; then ask again. */
enum rotation_action {
	ROTATION_NOTHING,       /* ask again at `again_at` */
	ROTATION_START_OVER,    /* no CA that is valid: make CA and pair, publish, no waits */
	ROTATION_PUBLISH_CA,    /* the signing CA is not in the bundle: add it */
	ROTATION_RENEW_SERVING, /* a new serving pair, signed by `ca` */
	ROTATION_MAKE_NEXT_CA,  /* a CA to follow; signs nothing yet */
	ROTATION_PUBLISH_BOTH,  /* a bundle of `ca` and `next_ca` */
	ROTATION_SWITCH_PAIR,   /* a new serving pair signed by next_ca; next_ca becomes ca, ca
				   becomes old_ca */
	ROTATION_DROP_OLD_CA    /* take old_ca out of the bundle and forget it */
};

struct rotation_step {
	enum rotation_action action;
	int64_t again_at; /* NOTHING: the next second at which the answer may differ. Otherwise now.
			   */
};

/* The waits above. */
struct rotation_policy rotation_policy_default(void);

/* Two thirds of a validity: the second from which on a certificate is renewed. */
int64_t rotation_due_at(struct rotation_span span);

/* Decide. Serving goes before everything that can wait; an expired CA or pair shortens the waits,
 * as clients refuse it anyway. A CA that is valid only in the future means a wrong clock: nothing
 * is done until its first second. */
struct rotation_step rotation_decide(
	const struct rotation_state *state, const struct rotation_policy *policy, int64_t now);

/* "renew-serving" and so on, for logs. Never NULL. */
const char *rotation_action_name(enum rotation_action action);

#endif
