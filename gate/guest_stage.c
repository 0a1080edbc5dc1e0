/* SPDX-License-Identifier: Apache-2.0 */
/* gate: a connection on its way in: who are you, may you, and where to. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "gate/gate_impl.h"

static bool is_late(const struct guest *x)
{
	return clock_ms() >= x->until_ms;
}

void guest_refuse(struct guest *x, enum gate_refusal why, enum frame_word word, const char *text)
{
	struct gate *g = x->gate;
	struct buf out;

	metric_add(g->metrics, METRIC_REFUSED, why, 0, 1);
	log_line(&g->log, LOG_LEVEL_WARN, "a pod is refused", log_str("mode", gate_mode(g)),
		log_str("uid", x->uid[0] ? x->uid : NULL), log_str("peer", x->who),
		log_str("error", text));
	if (why == REFUSED_PROTOCOL || why == REFUSED_NO_CLAIM || why == REFUSED_TOKEN)
		guest_count_failed(x);
	if (gate_by_address(g)) {
		guest_end(x);
		return;
	}
	buf_init(&out, FRAME_HEAD + FRAME_BODY_MAX);
	frame_write(word, slice_of(text), &out);
	x->stage = GUEST_LEAVE;
	x->until_ms = clock_ms() + GUEST_LEAVE_MS;
	if (out.failed || client_socket_send(x->tls, buf_as_slice(&out), NULL) != 0)
		guest_end(x);
	buf_release(&out);
}

/* ---- who ---- */

static bool shake_hands(struct guest *x)
{
	struct err err = {0};
	bool late = is_late(x);

	if (!late && client_socket_turn(x->tls, &err) == 0) {
		if (!client_socket_ready(x->tls))
			return false;
		x->stage = GUEST_HELLO;
		return true;
	}
	metric_add(x->gate->metrics, METRIC_REFUSED, REFUSED_HANDSHAKE, 0, 1);
	log_line(&x->gate->log, LOG_LEVEL_INFO, "no handshake", log_str("mode", gate_mode(x->gate)),
		log_str("peer", x->who),
		log_str("error", late ? "it did not come in time" : err.msg));
	guest_count_failed(x);
	guest_end(x);
	return false;
}

static void take_hello(struct guest *x)
{
	struct slice token = frame_body(x->frame);
	struct bearer b;
	struct err err = {0};

	if (frame_word(x->frame) != FRAME_HELLO) {
		guest_refuse(x, REFUSED_PROTOCOL, FRAME_NO_TOKEN, "the first frame is no hello");
	} else if (bearer_read(token, &b, &err) != 0 || mac_digest(token, x->token, &err) != 0) {
		guest_refuse(x, REFUSED_TOKEN, FRAME_NO_TOKEN, err.msg);
	} else if (b.expires_s <= clock_wall_s()) {
		guest_refuse(x, REFUSED_TOKEN, FRAME_NO_TOKEN, "the token has expired");
	} else {
		memcpy(x->uid, b.uid, sizeof(x->uid));
		x->expires_s = b.expires_s;
		x->stage = GUEST_CLAIM;
		x->until_ms = clock_ms() + GUEST_CLAIM_MS;
	}
}

static bool read_hello(struct guest *x)
{
	struct err err = {0};
	bool end = false;
	size_t n = 1, wants;
	int rc = 0;

	if (!x->frame)
		x->frame = calloc(1, sizeof(*x->frame));
	if (!x->frame) {
		guest_end(x);
		return false;
	}
	while (rc == 0 && !end && (wants = frame_wants(x->frame)) > 0) {
		rc = client_socket_read(
			x->tls, x->frame->bytes + x->frame->have, wants, &n, &end, &err);
		if (rc == 0 && n > 0)
			rc = frame_got(x->frame, n, &err);
		if (rc == 0 && n == 0 && (end || client_socket_dry(x->tls)))
			break;
	}
	if (rc == ERR_SYNTAX || rc == ERR_TOOBIG) {
		guest_refuse(x, REFUSED_PROTOCOL, FRAME_NO_TOKEN, err.msg);
	} else if (rc == 0 && frame_wants(x->frame) == 0) {
		take_hello(x);
	} else if (rc != 0 || end || is_late(x)) {
		metric_add(x->gate->metrics, METRIC_REFUSED, REFUSED_PROTOCOL, 0, 1);
		log_line(&x->gate->log, LOG_LEVEL_INFO, "no token",
			log_str("mode", gate_mode(x->gate)), log_str("peer", x->who),
			log_str("error", rc != 0 ? err.msg
					 : end   ? "it has hung up"
						 : "none came in time"));
		guest_count_failed(x);
		guest_end(x);
	}
	return !x->dead && x->stage != GUEST_HELLO;
}

/* ---- may it ---- */

static void forget_token(struct guest *x)
{
	explicit_bzero(x->frame, sizeof(*x->frame));
	free(x->frame);
	x->frame = NULL;
}

static void tell_readmitted(struct guest *x, const char *what, const char *why)
{
	struct gate *g = x->gate;

	metric_add(g->metrics, METRIC_READMITTED, 0, 0, 1);
	log_line(&g->log, LOG_LEVEL_WARN, what, log_str("mode", gate_mode(g)),
		log_str("uid", x->uid), log_str("peer", x->who), log_str("error", why));
}

/* It is known who it is, so the pod's places count; servers have a time of their own. */
static void wait_for_server(struct guest *x)
{
	x->holds = true;
	if (!guest_has_place(x)) {
		guest_refuse(x, REFUSED_BUSY, FRAME_BUSY, "this pod has too many connections");
		return;
	}
	x->stage = GUEST_SERVER;
	x->until_ms = INT64_MAX;
}

/* Nobody can be asked: whoever was reviewed with this very token comes in again, for as long as the
 * operator said. */
static void ask_memory(struct guest *x, const struct err *why)
{
	struct gate *g = x->gate;
	int64_t away_ms = g->connected ? 0 : clock_ms() - g->good_ms;

	if (away_ms < g->o->away_ms && readmit_may(&g->readmit, x->uid, x->token, clock_wall_s())) {
		tell_readmitted(x, "a pod that was reviewed before comes again", why->msg);
		wait_for_server(x);
		return;
	}
	guest_refuse(x, REFUSED_AWAY, FRAME_AWAY, why->msg);
}

static void on_review(void *ctx, enum review_word word, const char *uid, const struct err *err)
{
	struct guest *x = ctx;
	struct gate *g = x->gate;

	x->review = NULL;
	metric_add(g->metrics, METRIC_REVIEWS, word, 0, 1);
	switch (word) {
	case REVIEW_YES:
		g->good_ms = clock_ms();
		if (strcmp(uid, x->uid) != 0) {
			guest_refuse(
				x, REFUSED_TOKEN, FRAME_NO_TOKEN, "the token is another pod's");
			break;
		}
		readmit_put(&g->readmit, x->uid, x->token, x->expires_s);
		wait_for_server(x);
		break;
	case REVIEW_NO:
		g->good_ms = clock_ms();
		guest_refuse(x, REFUSED_TOKEN, FRAME_NO_TOKEN, err->msg);
		break;
	case REVIEW_AWAY:
		ask_memory(x, err);
		break;
	case REVIEW_BROKEN:
		guest_refuse(x, REFUSED_AWAY, FRAME_AWAY, err->msg);
		break;
	}
	guest_go(x);
}

/* It holds nothing here, as far as is known: why. It may be quicker than the watch. */
static bool wait_for_claim(struct guest *x, bool known, const char *why)
{
	if (!is_late(x))
		return false;
	if (known)
		guest_refuse(x, REFUSED_NO_CLAIM, FRAME_NO_CLAIM, why);
	else
		guest_refuse(x, REFUSED_AWAY, FRAME_AWAY, gate_unready(x->gate));
	return !x->dead;
}

/* What it shows stays where it is, for its server. It is judged again only when there is more. */
static enum session_word read_session(struct guest *x, const char *uid)
{
	struct gate *g = x->gate;
	ssize_t n;

	if (!g->profile.session)
		return SESSION_OURS;
	if (!x->came)
		return SESSION_MORE;
	x->came = false;
	n = recv(client_socket_fd(x->tls), g->scratch, SESSION_BYTES_MAX, MSG_PEEK);
	if (n <= x->judged_len)
		return SESSION_MORE;
	x->judged_len = n;
	if (++x->judged > GUEST_PIECES_MAX)
		return SESSION_BROKEN;
	return session_judge(
		(struct slice){g->scratch, (size_t)n}, slice_of(g->profile.session), slice_of(uid));
}

/* At its pod's address is the pod, for as long as the picture is not too old to say so. */
static bool find_address(struct guest *x)
{
	static const char *const faults[] = {[SESSION_MORE] = "its session did not come in time",
		[SESSION_MISSING] = "its first request has no session",
		[SESSION_FORGED] = "its session is not that of the pod at this address",
		[SESSION_BROKEN] = "it does not begin as HTTP does"};
	struct gate *g = x->gate;
	enum session_word session;
	bool known, several;
	const char *uid = guest_at(g, x->who, &known, &several);

	x->holds = uid != NULL;
	if (!uid || strlen(uid) >= sizeof(x->uid))
		return wait_for_claim(x, known,
			several ? "more than one claim on this server names this address"
				: "at this address is no pod that holds a GPU of this server");
	session = read_session(x, uid);
	if (session == SESSION_MORE && !is_late(x))
		return false;
	if (session != SESSION_OURS) {
		/* A client that does not know of sessions tries nothing. */
		if (session == SESSION_FORGED || x->judged > GUEST_PIECES_USUAL)
			guest_count_failed(x);
		guest_refuse(x, REFUSED_SESSION, FRAME_NO_TOKEN,
			x->judged > GUEST_PIECES_MAX ? "its session comes in too many pieces"
						     : faults[session]);
		return false;
	}
	memcpy(x->uid, uid, strlen(uid) + 1);
	if (!g->connected)
		tell_readmitted(x, "a pod comes by the claims of before", gate_unready(g));
	wait_for_server(x);
	return !x->dead;
}

/* A review is spent on a uid only that holds a claim here. */
static bool find_claim(struct guest *x)
{
	struct gate *g = x->gate;

	if (gate_by_address(g))
		return find_address(x);
	if (!g->readable || !picture_claim(&g->picture, x->uid))
		return wait_for_claim(x, g->readable, "this pod holds no GPU of this server");
	x->review = reviews_ask(g->reviews, frame_body(x->frame), on_review, x);
	forget_token(x);
	if (!x->review) {
		guest_end(x);
		return false;
	}
	x->stage = GUEST_REVIEW;
	x->until_ms = INT64_MAX; /* the review has a time of its own */
	return false;
}

/* ---- where to ---- */

static bool is_not_taken(struct guest *x, const char *text)
{
	guest_refuse(x, REFUSED_SERVER, FRAME_NO_SERVER, text);
	return !x->dead;
}

static bool dial(struct guest *x, const struct sockaddr_in *to)
{
	struct err err = {0};

	x->plain = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (x->plain < 0 || loop_add(x->gate->loop, x->plain, &x->plain_watch, &err) != 0 ||
		(connect(x->plain, (const struct sockaddr *)to, sizeof(*to)) != 0 &&
			errno != EINPROGRESS))
		return is_not_taken(x, "this pod's server does not take connections");
	x->stage = GUEST_DIAL;
	x->until_ms = clock_ms() + GUEST_DIAL_MS;
	return true;
}

static bool find_server(struct guest *x)
{
	struct gate *g = x->gate;
	const struct picture_claim *claim = picture_claim(&g->picture, x->uid);
	struct sockaddr_in to;
	struct err err = {0};

	if (!claim) {
		guest_cut(x, "its claim has ended");
		return false;
	}
	switch (children_want(g->children, claim, &to, &err)) {
	case CHILDREN_WAIT:
		return false;
	case CHILDREN_READY:
		children_used(g->children, x->uid, 1);
		x->used = true;
		return dial(x, &to);
	case CHILDREN_FAILED:
		break;
	}
	guest_refuse(x, REFUSED_SERVER, FRAME_NO_SERVER, err.msg);
	return !x->dead;
}

static bool finish_dial(struct guest *x)
{
	struct sockaddr_in to;
	socklen_t len = sizeof(to);
	struct buf out;
	int why = 0;

	if (getpeername(x->plain, (struct sockaddr *)&to, &len) != 0) {
		bool waits;

		len = sizeof(why);
		waits = getsockopt(x->plain, SOL_SOCKET, SO_ERROR, &why, &len) == 0 && why == 0;
		if (waits && !is_late(x))
			return false;
		return is_not_taken(x, waits ? "this pod's server does not take connections in time"
					     : "this pod's server does not take connections");
	}
	x->until_ms = INT64_MAX;
	client_socket_keepalive(x->plain);
	if (gate_by_address(x->gate)) {
		carry_begin(&x->carry, x->tls, x->plain);
		carry_splice(&x->carry, x->gate->spare);
		guest_is_in(x);
		return true;
	}
	buf_init(&out, FRAME_HEAD);
	frame_write(FRAME_IN, (struct slice){0}, &out);
	x->stage = GUEST_REPLY;
	if (out.failed || client_socket_send(x->tls, buf_as_slice(&out), NULL) != 0)
		guest_end(x);
	buf_release(&out);
	return !x->dead;
}

/* What is to be said is sent. */
static bool say(struct guest *x)
{
	struct err err = {0};

	if (client_socket_turn(x->tls, &err) != 0 || is_late(x)) {
		guest_end(x);
		return false;
	}
	if (client_socket_sending(x->tls))
		return false;
	if (x->stage == GUEST_LEAVE) {
		guest_end(x);
		return false;
	}
	carry_begin(&x->carry, x->tls, x->plain);
	guest_is_in(x);
	return true;
}

static void carry(struct guest *x)
{
	struct gate *g = x->gate;
	bool more, over;
	struct err err = {0};

	if (carry_turn(&x->carry, g->scratch, &more, &over, &err) != 0 ||
		(gate_by_address(g) && !over &&
			carry_ask(&x->carry, g->loop, &x->tls_watch, &x->plain_watch, &err) != 0)) {
		guest_cut(x, err.msg);
	} else if (over) {
		log_line(&g->log, LOG_LEVEL_DEBUG, "a connection has ended",
			log_str("mode", gate_mode(g)), log_str("uid", x->uid),
			log_int("up", (int64_t)x->carry.down.bytes),
			log_int("down", (int64_t)x->carry.up.bytes));
		guest_end(x);
	} else if (more && !x->busy) {
		x->busy = true;
		x->next_busy = g->busy;
		g->busy = x;
	}
}

void guest_go(struct guest *x)
{
	bool on = true;

	while (on && !x->dead) {
		switch (x->stage) {
		case GUEST_HANDSHAKE:
			on = shake_hands(x);
			break;
		case GUEST_HELLO:
			on = read_hello(x);
			break;
		case GUEST_CLAIM:
			on = find_claim(x);
			break;
		case GUEST_REVIEW:
			on = false;
			break;
		case GUEST_SERVER:
			on = find_server(x);
			break;
		case GUEST_DIAL:
			on = finish_dial(x);
			break;
		case GUEST_REPLY:
		case GUEST_LEAVE:
			on = say(x);
			break;
		case GUEST_CARRY:
			carry(x);
			on = false;
			break;
		}
	}
}
