/* SPDX-License-Identifier: Apache-2.0 */
/* net: whose connection goes when there are too many, so that no client can keep the others out. No
 * sockets, no threads, no clock. */
#ifndef NET_HTTP_PLACES_H
#define NET_HTTP_PLACES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* Addresses are counted in so many classes; two that fall into one class count as one. */
#define HTTP_PLACES_CLASSES 1024

/* How far a connection is. */
enum http_stage {
	HTTP_STAGE_NEW,       /* in its TLS handshake; without TLS: nothing has come */
	HTTP_STAGE_UNUSED,    /* after the handshake, before its first request */
	HTTP_STAGE_IDLE,      /* between two requests */
	HTTP_STAGE_RECEIVING, /* a request's body is on its way */
	HTTP_STAGE_SENDING,   /* its reply is on its way */
	HTTP_STAGE_BUSY,      /* a request is being answered: never taken away */
	HTTP_STAGE_LEAVING    /* was told to go */
};

/* One connection; embedded in it, zero before http_place_take. */
struct http_place {
	struct http_place *prev, *next;
	unsigned class;
	enum http_stage stage;
};

/* All connections of a server, in the order in which they came to their stage; zero before
 * http_places_init. */
struct http_places {
	struct http_place *first, *last;
	unsigned taken; /* less those that leave */
	unsigned most;  /* more than that, and one has to go; 0: none ever has to */
	unsigned limit; /* that the transport accepts */
	uint64_t seed;
	unsigned held[HTTP_PLACES_CLASSES];
	unsigned at[HTTP_PLACES_CLASSES][HTTP_STAGE_LEAVING]; /* of these, by stage */
};

/* limit: connections that the transport accepts. Some of them are kept free, so that it goes on
 * accepting while one leaves; below 64 there is nothing to spare, and clients wait outside as they
 * come. seed: anything that clients do not know. */
void http_places_init(struct http_places *p, unsigned limit, uint64_t seed);

/* A connection has come, HTTP_STAGE_NEW. addr may be NULL. */
void http_place_take(struct http_places *p, struct http_place *place, const struct sockaddr *addr);

/* It has come to another stage. One that leaves stays so. */
void http_place_set(struct http_places *p, struct http_place *place, enum http_stage stage);

/* It did something at the stage it has: of those there it counts as the last that came. */
void http_place_again(struct http_places *p, struct http_place *place);

/* It is closed. */
void http_place_free(struct http_places *p, struct http_place *place);

/* Is the last place taken? The transport accepts nobody until somebody goes, and so there is no
 * newcomer who could ask for room. */
bool http_places_full(const struct http_places *p);

/* newest was taken (NULL: nobody is new, and there still is no room): who must go so that there is
 * room, or NULL. It is a connection of the address that has most; at the stage where most of these
 * are, so that neither handshakes nor silence nor requests that are never finished nor replies that
 * are never read keep the others out, also where all clients have one address; and there the one
 * that has been at it for longest. Where the address of the newest has most and nothing to spare,
 * it is the newest. */
struct http_place *http_places_spare(const struct http_places *p, struct http_place *newest);

#endif
