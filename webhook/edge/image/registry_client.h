/* SPDX-License-Identifier: Apache-2.0 */
/* edge: asks a registry what an image starts, by the distribution specification. Whoever runs a
 * registry, or pushes to it, may mean harm: only hosts that the operator named get credentials, and
 * only addresses that are public, or named, are connected to. */
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

#endif
