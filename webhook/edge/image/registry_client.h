/* SPDX-License-Identifier: Apache-2.0 */
/* edge: asks a registry what an image starts, by the distribution specification. Whoever runs a
 * registry, or pushes to it, may mean harm: only hosts that the operator named get credentials,
 * and only addresses that are public, or named, are connected to. And would it answer? */
#ifndef WEBHOOK_EDGE_IMAGE_REGISTRY_CLIENT_H
#define WEBHOOK_EDGE_IMAGE_REGISTRY_CLIENT_H

#include "webhook/core/image/image.h"
#include "webhook/core/image/pull_config.h"

/* What is read of one document, of one head, of a token; how often one question may ask, one
 * document may lie elsewhere, and how many platforms are looked at. */
#define REGISTRY_DOCUMENT_MAX (512u * 1024)
#define REGISTRY_HEAD_MAX (16u * 1024)
#define REGISTRY_TOKEN_MAX (16u * 1024)
#define REGISTRY_REQUESTS_MAX 48
#define REGISTRY_REDIRECTS_MAX 3
#define REGISTRY_PLATFORMS_MAX 12

/* Everything is borrowed. */
struct registry_question {
	const struct registry *registry;
	const struct image_name *name;
	unsigned arches; /* that the pod may run on (image_doc.h) */
	const struct pull_logins *logins;
	int64_t deadline_ms; /* CLOCK_MONOTONIC */
};

/* 0 with ret in the arena. ERR_REFUSED with a sentence: it could not be found out, or nobody can
 * tell; ERR_TIMEOUT, with one, too: the time was over; ERR_NOMEM. */
int registry_ask(const struct registry_question *q, struct arena *a, struct image_start *ret,
	struct err *err);

enum registry_trouble {
	REGISTRY_WELL,
	REGISTRY_NAME,        /* its name does not resolve */
	REGISTRY_ADDRESS,     /* to an address that may not be asked */
	REGISTRY_CERTIFICATE, /* it is not trusted, or not its own */
	REGISTRY_SILENT,      /* no connection, or no answer in time */
	REGISTRY_REALM, /* it wants credentials in a way, or for somebody, that is not listed */
	REGISTRY_OTHER  /* it answers as no registry does */
};

/* Ask it for the start of its API, as a question for an image would ask, without a credential. 0
 * with *ret REGISTRY_WELL or with what is wrong and a sentence in err (code ERR_REFUSED);
 * ERR_NOMEM. deadline_ms: CLOCK_MONOTONIC. */
int registry_check(
	const struct registry *r, int64_t deadline_ms, enum registry_trouble *ret, struct err *err);

#endif
