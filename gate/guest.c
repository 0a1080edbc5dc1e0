/* SPDX-License-Identifier: Apache-2.0 */
/* gate: connections of pods: accepted, kept in lists, ended. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "gate/gate_impl.h"
#include "net/address.h"

/* Connections that are accepted in one turn. */
#define ACCEPTS_MAX 64
/* Between two looks at those who wait. */
#define LOOK_MS 50
/* So long the oldest one that may have to go can wait though there is no room for a new one. */
#define OLD_MS 1000

/* ---- lists ---- */

static void link_in(struct guest *x, struct guest **list)
{
	x->next = *list;
	x->at = list;
	if (x->next)
		x->next->at = &x->next;
	*list = x;
}

static void unlink_it(struct guest *x)
{
	*x->at = x->next;
	if (x->next)
		x->next->at = x->at;
}

static bool is_waiting(const struct guest *x)
{
	return x->stage != GUEST_CARRY;
}

void guest_is_in(struct guest *x)
{
	struct gate *g = x->gate;

	unlink_it(x);
	g->n_waiting--;
	x->stage = GUEST_CARRY;
	link_in(x, &g->carrying);
	g->n_carrying++;
	metric_add(g->metrics, METRIC_ADMITTED, g->profile.mode, 0, 1);
	log_line(&g->log, LOG_LEVEL_INFO, "a pod is let in", log_str("mode", gate_mode(g)),
		log_str("uid", x->uid), log_str("peer", x->who));
}

/* ---- the end ---- */

static void count_bytes(struct guest *x)
{
	metric_add(x->gate->metrics, METRIC_BYTES, 0, 0, (int64_t)x->carry.down.bytes);
	metric_add(x->gate->metrics, METRIC_BYTES, 1, 0, (int64_t)x->carry.up.bytes);
}

void guest_end(struct guest *x)
{
	struct gate *g = x->gate;

	if (x->dead)
		return;
	x->dead = true;
	unlink_it(x);
	if (is_waiting(x))
		g->n_waiting--;
	else
		g->n_carrying--;
	count_bytes(x);
	review_drop(x->review);
	if (x->used)
		children_used(g->children, x->uid, -1);
	loop_drop(g->loop, client_socket_fd(x->tls));
	client_socket_free(x->tls);
	if (x->plain >= 0) {
		loop_drop(g->loop, x->plain);
		(void)close(x->plain);
	}
	carry_release(&x->carry);
	if (x->frame)
		explicit_bzero(x->frame, sizeof(*x->frame));
	free(x->frame);
	/* The loop may be about to tell it something. */
	x->next = g->graves;
	g->graves = x;
}

/* Not an end that could be taken for one of the stream. */
static void reset(int fd)
{
	const struct linger now = {.l_onoff = 1};

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

void guest_cut(struct guest *x, const char *why)
{
	struct gate *g = x->gate;

	if (x->dead)
		return;
	log_line(&g->log, LOG_LEVEL_INFO, "a connection is cut", log_str("mode", gate_mode(g)),
		log_str("uid", x->uid[0] ? x->uid : NULL), log_str("peer", x->who),
		log_str("why", why));
	metric_add(g->metrics, METRIC_CUT, 0, 0, 1);
	client_socket_break(x->tls);
	if (x->plain >= 0)
		reset(x->plain);
	guest_end(x);
}

void guest_count_failed(struct guest *x)
{
	int64_t now = clock_ms();

	peers_failed(&x->gate->peers, x->peer, now);
	if (x->net)
		peers_failed(&x->gate->nets, x->net, now);
}

/* ---- those who come ---- */

static void name(const struct sockaddr_storage *from, char ret_who[static INET6_ADDRSTRLEN])
{
	const struct sockaddr_in *v4 = (const void *)from;
	const struct sockaddr_in6 *v6 = (const void *)from;

	if (from->ss_family == AF_INET)
		(void)inet_ntop(AF_INET, &v4->sin_addr, ret_who, INET6_ADDRSTRLEN);
	else
		(void)inet_ntop(AF_INET6, &v6->sin6_addr, ret_who, INET6_ADDRSTRLEN);
}

static bool may_try(const struct gate *g, uint64_t peer, uint64_t net)
{
	int64_t now = clock_ms();

	return peers_may(&g->peers, peer, now) && (!net || peers_may(&g->nets, net, now));
}

/* Room for one more, of this peer? The oldest may have to go for it: of those that have shown no
 * claim, else of those whose token is being reviewed. Who is known to hold one is pushed out by
 * nobody, takes no place of the others', and needs none. */
static bool has_room(struct gate *g, uint64_t peer, uint64_t net, bool holds)
{
	struct guest *oldest = NULL, *asked = NULL;
	size_t of_peer = 0, of_net = 0, held = 0;

	if (g->n_waiting + g->n_carrying >= g->o->connections)
		return false;
	for (struct guest *x = g->waiting; x; x = x->next) {
		of_peer += x->peer == peer && x->stage < GUEST_REVIEW;
		of_net += net && x->net == net && x->stage < GUEST_REVIEW;
		held += x->holds;
		/* the newest is the first */
		if (x->holds)
			continue;
		if (x->stage < GUEST_REVIEW || x->stage == GUEST_LEAVE)
			oldest = x;
		else if (x->stage == GUEST_REVIEW)
			asked = x;
	}
	if (of_peer >= GUESTS_OF_PEER_MAX || of_net >= GUESTS_OF_NET_MAX)
		return false;
	if (holds || g->n_waiting - held < GUESTS_WAITING_MAX)
		return true;
	oldest = oldest ? oldest : asked;
	if (!oldest || clock_ms() - oldest->since_ms < OLD_MS)
		return false;
	/* Else a crowd that says nothing would never run out of tries. */
	if (!oldest->uid[0])
		guest_count_failed(oldest);
	guest_cut(oldest, "it has waited for longest, and there is no room");
	return true;
}

const char *guest_at(const struct gate *g, const char *who, bool *ret_known, bool *ret_several)
{
	*ret_known = g->readable && (g->connected || clock_ms() - g->good_ms < g->o->away_ms);
	*ret_several = false;
	return *ret_known ? picture_at(&g->picture, who, ret_several) : NULL;
}

bool guest_has_place(const struct guest *x)
{
	const struct gate *g = x->gate;
	size_t waiting = 0, carrying = 0;

	for (const struct guest *o = g->waiting; o; o = o->next)
		waiting += o->stage > GUEST_REVIEW && o->stage < GUEST_CARRY &&
			   strcmp(o->uid, x->uid) == 0;
	for (const struct guest *o = g->carrying; o; o = o->next)
		carrying += strcmp(o->uid, x->uid) == 0;
	return waiting < GUESTS_OF_POD_WAITING_MAX &&
	       (waiting + carrying) * GUESTS_OF_POD_PART < g->o->connections;
}

/* Else a crowd that comes and goes would never run out of tries. A probe by who holds a claim,
 * which says nothing, is no try; nor is waiting while nobody knows who holds one. */
static void count_who_left(struct guest *x)
{
	if (x->stage != GUEST_CLAIM || !x->gate->readable || (x->holds && x->judged == 0))
		return;
	metric_add(x->gate->metrics, METRIC_REFUSED, x->holds ? REFUSED_SESSION : REFUSED_NO_CLAIM,
		0, 1);
	log_line(&x->gate->log, LOG_LEVEL_INFO, x->holds ? "no session" : "no claim",
		log_str("mode", gate_mode(x->gate)), log_str("uid", x->uid[0] ? x->uid : NULL),
		log_str("peer", x->who),
		log_str("error", x->holds ? "it has hung up within its session"
					  : "it has hung up before one was known"));
	guest_count_failed(x);
}

static void on_tls(void *ctx, uint32_t events)
{
	struct guest *x = ctx;
	/* A plain one may have said already all that it has to say. */
	uint32_t gone = EPOLLERR | EPOLLHUP | (gate_by_address(x->gate) ? 0 : EPOLLRDHUP);

	if (x->dead)
		return;
	x->came = true;
	if (x->stage == GUEST_CARRY) {
		carry_told_tls(&x->carry, events);
		x->gate->n_carried++;
	} else if ((events & gone) && x->stage > GUEST_HELLO) {
		/* Nobody is left who could be answered. */
		count_who_left(x);
		guest_end(x);
		return;
	}
	guest_go(x);
}

static void on_plain(void *ctx, uint32_t events)
{
	struct guest *x = ctx;

	if (x->dead)
		return;
	if (x->stage == GUEST_CARRY) {
		carry_told_plain(&x->carry, events);
		x->gate->n_carried++;
	}
	guest_go(x);
}

static void welcome(struct gate *g, int fd, const struct sockaddr_storage *from)
{
	struct guest *x;
	struct err err = {0};
	char who[INET6_ADDRSTRLEN];
	uint64_t peer, net;
	bool holds, may;

	name(from, who);
	holds = gate_by_address(g) && guest_at(g, who, &(bool){0}, &(bool){0});
	peer = address_host(from, g->secret);
	/* Who holds no claim may have a whole network to come from. */
	net = holds ? 0 : address_network(from);
	/* A session is something that can be tried. */
	may = (holds && !g->profile.session) || may_try(g, peer, net);
	if (!may || !has_room(g, peer, net, holds)) {
		metric_add(g->metrics, METRIC_REFUSED, may ? REFUSED_BUSY : REFUSED_TRIES, 0, 1);
		log_line(&g->log, LOG_LEVEL_DEBUG, "no room", log_str("mode", gate_mode(g)),
			log_str("peer", who));
		(void)close(fd);
		return;
	}
	x = calloc(1, sizeof(*x));
	if (!x || client_socket_accept(
			  fd, who, gate_by_address(g) ? NULL : g->tls, &x->tls, &err) != 0) {
		if (!x)
			(void)close(fd);
		free(x);
		return;
	}
	x->gate = g;
	x->peer = peer;
	x->net = net;
	x->holds = holds;
	x->plain = -1;
	x->since_ms = clock_ms();
	x->until_ms = x->since_ms + GUEST_HELLO_MS;
	if (gate_by_address(g)) {
		x->stage = GUEST_CLAIM;
		x->until_ms = x->since_ms + GUEST_CLAIM_MS;
	}
	memcpy(x->who, who, sizeof(who));
	x->tls_watch = (struct loop_watch){.ready = on_tls, .ctx = x};
	x->plain_watch = (struct loop_watch){.ready = on_plain, .ctx = x};
	link_in(x, &g->waiting);
	g->n_waiting++;
	if (loop_add(g->loop, fd, &x->tls_watch, &err) != 0)
		guest_end(x);
}

void guests_accept(struct gate *g)
{
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		struct sockaddr_storage from;
		socklen_t len = sizeof(from);
		int fd = accept4(
			g->listener, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			welcome(g, fd, &from);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno != EAGAIN) {
			g->accept_ms = clock_ms() + GUEST_AGAIN_MS;
			log_line(&g->log, LOG_LEVEL_ERROR, "no connection can be taken now",
				log_str("error", strerrordesc_np(errno)));
		}
		return;
	}
}

/* ---- all of them ---- */

static void bury(struct gate *g)
{
	/* One that was to go on may have been cut since. */
	for (struct guest **at = &g->busy; *at;)
		if ((*at)->dead)
			*at = (*at)->next_busy;
		else
			at = &(*at)->next_busy;
	while (g->graves) {
		struct guest *x = g->graves;

		g->graves = x->next;
		free(x);
	}
}

static void go_on(struct gate *g)
{
	struct guest *busy = g->busy, *next;

	g->busy = NULL;
	for (; busy; busy = next) {
		next = busy->next_busy;
		busy->busy = false;
		if (!busy->dead)
			guest_go(busy);
	}
}

void guests_carry(struct gate *g, int64_t ms)
{
	int64_t until = clock_ms() + ms;
	int told;

	do {
		g->n_carried = 0;
		told = loop_turn(g->loop, g->busy ? 0 : (int)ms);
		go_on(g);
		ms = until - clock_ms();
	} while (told == g->n_carried && !g->graves && ms > 0);
}

void guests_turn(struct gate *g)
{
	struct guest *next;
	int64_t now = clock_ms();

	for (struct guest *x = g->waiting; x; x = next) {
		next = x->next;
		/* Others are told by the loop. */
		if (x->stage == GUEST_CLAIM || x->stage == GUEST_SERVER || now >= x->until_ms)
			guest_go(x);
	}
	bury(g);
}

static bool has_its_address(const struct guest *x)
{
	bool several;
	const char *uid = picture_at(&x->gate->picture, x->who, &several);

	return uid && strcmp(uid, x->uid) == 0;
}

/* Its claim has ended; or it has become another, and with it ends the server that it is connected
 * to. */
static void cut_without_claim(struct guest *x)
{
	if (!picture_claim(&x->gate->picture, x->uid))
		guest_cut(x, "its claim has ended");
	else if (gate_by_address(x->gate) && !has_its_address(x))
		guest_cut(x, "its address is not its claim's alone any more");
	else if (x->used && children_over(x->gate->children, x->uid))
		guest_cut(x, "its claim has become another");
}

void guests_claims(struct gate *g)
{
	struct guest *next;

	for (struct guest *x = g->carrying; x; x = next) {
		next = x->next;
		cut_without_claim(x);
	}
	for (struct guest *x = g->waiting; x; x = next) {
		next = x->next;
		if (x->stage > GUEST_CLAIM && x->stage < GUEST_LEAVE)
			cut_without_claim(x);
	}
}

void guests_cut_all(struct gate *g)
{
	while (g->carrying)
		guest_cut(g->carrying, "the gate ends");
	while (g->waiting)
		guest_cut(g->waiting, "the gate ends");
	g->busy = NULL;
	bury(g);
}

int64_t guests_patience(const struct gate *g)
{
	if (g->busy)
		return 0;
	return g->waiting ? LOOK_MS : -1;
}
