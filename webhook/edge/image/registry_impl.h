/* SPDX-License-Identifier: Apache-2.0 */
/* edge: what the files that ask a registry share: one question on its way, one request of it, and
 * what goes wrong. */
#ifndef WEBHOOK_EDGE_IMAGE_REGISTRY_IMPL_H
#define WEBHOOK_EDGE_IMAGE_REGISTRY_IMPL_H

#include "net/http_client.h"
#include "net/http_head.h"
#include "webhook/edge/image/registry_client.h"

/* One question on its way. */
struct asking {
	const struct registry_question *q;
	const struct pull_login *login; /* that is tried; NULL: none */
	struct http_client *client;
	struct arena a;    /* of the whole question */
	struct arena doc;  /* of the platform that is looked at */
	struct slice api;  /* the host that is asked */
	char *token;       /* NULL: none was given */
	const char *basic; /* Authorization's line, for the registry itself or who gives its tokens;
			      NULL: no login */
	bool sends_basic;  /* the registry itself wants it */
	bool denied;       /* it might be another login's to read */
	unsigned requests;
	enum http_trouble trouble; /* of the last request that was not answered */
	bool barred, late;         /* that one: by its address; for want of time */
	struct err *err;
};

/* Hosts that the operator named for one purpose. */
struct hosts {
	const struct slice *list;
	size_t n;
};

/* What a request carries, and where it may go. */
struct carries {
	const char *accept; /* a header's line; NULL: none */
	bool token, basic;
	size_t max;
	struct hosts named; /* may be at the registry's inner addresses, as the registry itself */
};

/* ---- registry_fetch.c ---- */

/* ERR_REFUSED with this sentence, or ERR_NOMEM. */
int registry_say(struct asking *s, const char *what);
int registry_no_memory(struct asking *s);
/* What an answer without the thing asked for says. */
int registry_bad_status(struct asking *s, long status);

/* The host that answers for this registry. */
struct slice registry_api(const struct registry *r);
/* One GET. 0 when an HTTP answer came, whatever its status; release it in every case. */
int registry_fetch(struct asking *s, const struct https_url *url, const struct carries *with,
	struct http_response *ret);
void registry_release(struct http_response *r);

/* Where a redirect may lead to. */
struct redirect {
	const char *what;    /* that it is for: "a blob" */
	bool bound;          /* a digest says which bytes it is: whoever has them may have them */
	struct carries with; /* without a credential */
};

/* Follow the redirects that io, the registry's answer, may be the first of. */
int registry_follow(struct asking *s, const struct redirect *r, struct http_response *io);

/* Is it a challenge that can be met, and a realm that may be asked? */
int registry_realm(struct asking *s, const struct http_response *res);
/* The registry wants to know who asks, as this answer says: get a token, or see that the login is
 * sent. */
int registry_authorize(struct asking *s, const struct http_response *res);

/* ---- registry_document.c ---- */

/* What the image starts; ret points into the question's arenas. */
int registry_look(struct asking *s, struct image_start *ret);

#endif
