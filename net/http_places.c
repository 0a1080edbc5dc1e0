/* SPDX-License-Identifier: Apache-2.0 */
/* net: connections counted by address, and which of them is to make room. */
#include "net/http_places.h"

#include <netinet/in.h>
#include <string.h>

/* One in so many is kept free. */
#define SPARE 64

void http_places_init(struct http_places *p, unsigned limit, uint64_t seed)
{
	memset(p, 0, sizeof(*p));
	p->seed = seed;
	p->limit = limit;
	p->most = limit >= SPARE ? limit - limit / SPARE : 0;
}

static uint64_t mix(uint64_t h, const void *bytes, size_t n)
{
	const unsigned char *at = bytes;
	for (size_t i = 0; i < n; i++)
		h = (h ^ at[i]) * 0x100000001b3ULL;
	return h;
}

/* IPv4 in IPv6 is another class than the same IPv4: one server's socket has one of the two. */
static unsigned class_of(const struct http_places *p, const struct sockaddr *addr)
{
	uint64_t h = 0xcbf29ce484222325ULL ^ p->seed;
	if (addr && addr->sa_family == AF_INET) {
		struct sockaddr_in v4;
		memcpy(&v4, addr, sizeof(v4));
		h = mix(h, &v4.sin_addr, sizeof(v4.sin_addr));
	} else if (addr && addr->sa_family == AF_INET6) {
		struct sockaddr_in6 v6;
		memcpy(&v6, addr, sizeof(v6));
		h = mix(h, &v6.sin6_addr, sizeof(v6.sin6_addr));
	}
	return (unsigned)((h ^ (h >> 32)) % HTTP_PLACES_CLASSES);
}

static void append(struct http_places *p, struct http_place *place)
{
	place->prev = p->last;
	place->next = NULL;
	if (p->last)
		p->last->next = place;
	else
		p->first = place;
	p->last = place;
}

static void detach(struct http_places *p, struct http_place *place)
{
	if (place->prev)
		place->prev->next = place->next;
	else
		p->first = place->next;
	if (place->next)
		place->next->prev = place->prev;
	else
		p->last = place->prev;
}

void http_place_take(struct http_places *p, struct http_place *place, const struct sockaddr *addr)
{
	place->class = class_of(p, addr);
	place->stage = HTTP_STAGE_NEW;
	append(p, place);
	p->taken++;
	p->held[place->class]++;
	p->at[place->class][place->stage]++;
}

static void count_out(struct http_places *p, const struct http_place *place)
{
	p->taken--;
	p->held[place->class]--;
	p->at[place->class][place->stage]--;
}

void http_place_set(struct http_places *p, struct http_place *place, enum http_stage stage)
{
	if (place->stage == HTTP_STAGE_LEAVING || place->stage == stage)
		return;
	detach(p, place);
	append(p, place);
	if (stage == HTTP_STAGE_LEAVING) {
		count_out(p, place);
	} else {
		p->at[place->class][place->stage]--;
		p->at[place->class][stage]++;
	}
	place->stage = stage;
}

void http_place_again(struct http_places *p, struct http_place *place)
{
	detach(p, place);
	append(p, place);
}

void http_place_free(struct http_places *p, struct http_place *place)
{
	detach(p, place);
	if (place->stage != HTTP_STAGE_LEAVING)
		count_out(p, place);
}

bool http_places_full(const struct http_places *p)
{
	return p->most > 0 && p->taken >= p->limit;
}

struct http_place *http_places_spare(const struct http_places *p, struct http_place *newest)
{
	if (p->most == 0 || p->taken <= p->most)
		return NULL;
	struct http_place *best = NULL;
	unsigned most = 0, crowd = 0;
	for (struct http_place *at = p->first; at; at = at->next) {
		if (at == newest || at->stage >= HTTP_STAGE_BUSY)
			continue;
		unsigned held = p->held[at->class], here = p->at[at->class][at->stage];
		if (held < most || (held == most && here <= crowd))
			continue;
		best = at;
		most = held;
		crowd = here;
	}
	if (best && newest && most < p->held[newest->class])
		return newest;
	return best;
}
