/* SPDX-License-Identifier: Apache-2.0 */
/* net: what an answer's head says, and URLs in it. Pure; whoever sent them may mean harm. */
#ifndef NET_HTTP_HEAD_H
#define NET_HTTP_HEAD_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/slice.h"

/* The value of the n-th line of that name (from 0), without blanks around it; absent: there is
 * none. */
struct slice http_head_value(struct slice head, const char *name, size_t n);

/* A media type without its parameters. */
struct slice http_media_type(struct slice value);

/* An https URL whose parts can be read in one way alone: small letters, digits, '-' and single dots
 * between them in the host, a port without zeros in front, no user, no fragment, nothing but
 * printing ASCII. */
struct https_url {
	struct slice host; /* with its port unless that is 443 */
	struct slice rest; /* path and query, "/" in front; "" for none */
};

/* False: it is no such URL. The slices point into text. */
bool https_url_read(struct slice text, struct https_url *ret);

/* Is it a host as such a URL gives it: in small letters, with its port unless that is 443? */
bool https_host_good(struct slice text);

/* A challenge of WWW-Authenticate (RFC 7235, RFC 6750). */
struct http_challenge {
	bool bearer;                 /* else Basic */
	struct slice realm, service; /* absent where it says none */
};

/* The first challenge of the value that is Bearer or Basic; a Bearer anywhere comes before a Basic.
 * False: there is none, or the value cannot be read, or the arena ran out. */
bool http_challenge_read(struct slice value, struct arena *a, struct http_challenge *ret);

#endif
