/* SPDX-License-Identifier: Apache-2.0 */
/* gate: what `gpugate serve` is made of, for serve*.c and guest*.c. One thread. */
#ifndef GATE_GATE_IMPL_H
#define GATE_GATE_IMPL_H

#include "base/log.h"
#include "base/metric.h"
#include "gate/carry.h"
#include "gate/children.h"
#include "gate/frame.h"
#include "gate/gate_options.h"
#include "gate/gpus.h"
#include "gate/loop.h"
#include "gate/readmit.h"
#include "gate/reviews.h"
#include "gate/selftest.h"
#include "gate/session.h"
#include "kube/object_watch.h"
#include "net/peers.h"
#include "net/status_server.h"

/* Connections that have not been let in, in all, and of one peer those that hold no claim as far as
 * is known. Beyond the first the oldest makes room, when it had a second. */
#define GUESTS_WAITING_MAX 256
#define GUESTS_OF_PEER_MAX 64
/* All who come from one /64 of IPv6 and hold no claim have places and tries together, too: one of
 * them cannot spend those, and with a network of addresses nobody has any number of either. */
#define GUESTS_OF_NET_MAX 192
#define GUESTS_OF_NET_TRIES 16 /* times a peer's */
/* Nobody has all of --connections: of a pod that is known one in so many, rounded up, and as many
 * as this of them while they wait for its server. */
#define GUESTS_OF_POD_PART 4
#define GUESTS_OF_POD_WAITING_MAX 64
/* The handshake and the token come within this time, */
#define GUEST_HELLO_MS 10000
/* and so long a claim is waited for, since a pod may be quicker than the watch. */
#define GUEST_CLAIM_MS 10000
/* After a connection that could not be taken, for want of a descriptor or of memory. */
#define GUEST_AGAIN_MS 1000
/* A server that listens takes a connection within this time. */
#define GUEST_DIAL_MS 10000
/* A session comes in so many pieces, since each is judged from the beginning on. */
#define GUEST_PIECES_MAX 32
/* And of whom it is refused after more than so many, that was a try. */
#define GUEST_PIECES_USUAL 4
/* What a refusal has for its way. */
#define GUEST_LEAVE_MS 2000

enum guest_stage {
	GUEST_HANDSHAKE,
	GUEST_HELLO,
	GUEST_CLAIM,  /* its claim is not known yet, or its session */
	GUEST_REVIEW, /* its token is being reviewed */
	GUEST_SERVER, /* its server is starting */
	GUEST_DIAL,   /* it is being connected to */
	GUEST_REPLY,  /* that it is in is on the way */
	GUEST_CARRY,
	GUEST_LEAVE /* that it is refused is on the way */
};

/* A connection. */
struct guest {
	struct gate *gate;
	struct guest *next, **at; /* in the gate's list of its kind: waiting or carrying; in the
				     graves: next alone */
	struct guest *next_busy;
	bool busy, dead;
	bool holds; /* it is a claim's, as far as is known: by its address, or after its review */
	enum guest_stage stage;
	int64_t since_ms, until_ms;
	uint64_t peer, net;        /* net/peers; net is 0 where it has none, or holds a claim */
	char who[56];              /* its address */
	struct client_socket *tls; /* in the mode `address` without TLS */
	struct loop_watch tls_watch, plain_watch;
	struct frame *frame; /* until its token was reviewed; owned */
	char uid[BEARER_UID_MAX];
	bool came;          /* maybe more of its session, since the last look */
	ssize_t judged_len; /* how much of it was judged, */
	unsigned judged;    /* and how often */
	int64_t expires_s;
	unsigned char token[MAC_BYTES]; /* its digest */
	struct review *review;
	int plain; /* -1: not connected */
	bool used; /* its server was told */
	struct carry carry;
};

enum gate_metric {
	METRIC_MODE,
	METRIC_ADMITTED,
	METRIC_READMITTED,
	METRIC_REFUSED,
	METRIC_CUT,
	METRIC_BYTES,
	METRIC_REVIEWS,
	METRIC_CONNECTIONS,
	METRIC_CLAIMS,
	METRIC_SHUT_OUT,
	METRIC_SERVERS,
	METRIC_STARTS,
	METRIC_FAILURES,
	METRIC_WATCHED,
	METRIC_BREAKS,
	METRIC_CERTIFICATE,
	METRIC_USAGE_KNOWN,
	METRIC_USED,
	METRIC_OVER,
	METRIC_OVERDONE,
	METRIC_STUCK,
	METRIC_STRANGERS,
	METRIC_SHARES,
	METRIC_CONTEXT
};

/* Why somebody was refused: rows of the metric's label. */
enum gate_refusal {
	REFUSED_BUSY,
	REFUSED_TRIES,
	REFUSED_HANDSHAKE,
	REFUSED_PROTOCOL,
	REFUSED_NO_CLAIM,
	REFUSED_TOKEN,
	REFUSED_SESSION,
	REFUSED_AWAY,
	REFUSED_SERVER
};

struct gate {
	const struct gate_serve_options *o;
	struct log log;
	struct metrics *metrics;
	int loop, listener, signals;
	struct loop_others others;
	int n_carried; /* those of the loop's turn by which bytes were carried, and nothing else */
	int64_t accept_ms; /* nobody is taken in before then */
	/* What the GPUServer says. */
	struct kube_config kube;
	struct object_watch *watch;
	struct picture picture;
	bool readable, seen, listing; /* there is a picture; the list on its way had our object */
	bool changed;                 /* what follows from it is to be done */
	char unreadable[160];         /* why there is none; "": nobody has told yet */
	bool connected;
	int64_t good_ms; /* when the API server last answered */
	/* Who comes, and where to. */
	struct tls_identity *identity;
	struct server_tls *tls;
	uint64_t mark; /* of the certificate's files */
	int64_t mark_ms;
	struct peers peers, nets;
	uint64_t secret; /* of the numbers of peers */
	struct readmit readmit;
	struct reviews *reviews;
	struct arena profile_arena;
	struct server_profile profile;
	struct children *children;
	struct guest *waiting, *carrying, *graves, *busy;
	size_t n_waiting, n_carrying;
	struct status_server *status, *tell; /* NULL: not served */
	bool told_no_token;                  /* that the leader's cannot be read */
	/* What is used of the GPUs. */
	struct gpus *gpus; /* NULL: nobody looks */
	struct gate_usage usage;
	struct selftest selftest;
	int64_t looked_at_ms; /* the same moment as usage.looked_ms, since 1970 */
	uid_t account[SERVER_PROFILE_ACCOUNTS_MAX];
	size_t n_accounts;
	char scratch[CLIENT_SOCKET_BURST];
	int spare[2]; /* carry_splice() */
};

/* ---- guest.c ---- */

/* All that want to come in now. */
void guests_accept(struct gate *g);
/* Wait for so long, and carry bytes: until something else is told, too. */
void guests_carry(struct gate *g, int64_t ms);
/* Time has passed, or something that guests wait for has changed. */
void guests_turn(struct gate *g);
/* Whoever has no claim any more is cut off; also all of them. */
void guests_claims(struct gate *g);
void guests_cut_all(struct gate *g);
/* Milliseconds until guests_turn() is to be called, -1: for as long as nothing comes. */
int64_t guests_patience(const struct gate *g);

/* Is who comes known by his address? Then no word is exchanged: connections are plain. */
static inline bool gate_by_address(const struct gate *g)
{
	return g->profile.mode == GATE_MODE_ADDRESS;
}

/* By what pods are known, for the log. */
static inline const char *gate_mode(const struct gate *g)
{
	return gate_modes[g->profile.mode];
}

/* ---- guest_stage.c ---- */

/* Go on with a connection for as long as nothing has to be waited for. It may be dead then. */
void guest_go(struct guest *x);
/* Refuse it, with a sentence. */
void guest_refuse(struct guest *x, enum gate_refusal why, enum frame_word word, const char *text);

/* Of guest.c, for it: it is in; it is over; it is over, and both sides are to notice. */
void guest_is_in(struct guest *x);
void guest_end(struct guest *x);
void guest_cut(struct guest *x, const char *why);
void guest_count_failed(struct guest *x);
/* By address: the uid of the pod that is who comes from there, NULL: of none that is let in, or
 * several claims name it, or nobody can say (not known). */
const char *guest_at(const struct gate *g, const char *who, bool *ret_known, bool *ret_several);
/* May its pod, which is known now, have one more? */
bool guest_has_place(const struct guest *x);

/* ---- serve_watch.c ---- */

/* The way to the API server is known, and the picture goes by what the turns of g->watch bring.
 * ERR_INVALID, ERR_SYNTAX, ERR_NOTFOUND (the kubeconfig), ERR_IO, ERR_NOMEM. */
int gate_watch_open(struct gate *g, struct err *err);

/* ---- serve_usage.c ---- */

/* Somebody looks at the GPUs from now on. ERR_NOTFOUND: there is no such account as the profile
 * names; ERR_NOMEM. */
int gate_usage_open(struct gate *g, struct err *err);
/* Was there a look lately? */
bool gate_usage_known(const struct gate *g);
/* Do what is due; milliseconds until more is, -1: nothing is. */
int64_t gate_usage_turn(struct gate *g);
/* Nobody looks any more. */
void gate_usage_close(struct gate *g);
/* The page /usage. */
void gate_usage_page(void *ctx, struct buf *out);
/* Is it the token of --tell-token? */
bool gate_usage_may(void *ctx, struct slice token);

/* ---- serve_metrics.c ---- */

struct metrics *gate_metrics_new(void);
void gate_metrics(void *ctx, struct buf *out);
const char *gate_unready(void *ctx);

#endif
