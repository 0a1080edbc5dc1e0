/* SPDX-License-Identifier: Apache-2.0 */
/* edge: would a registry answer if it were asked? */
#ifndef WEBHOOK_EDGE_IMAGE_REGISTRY_CHECK_H
#define WEBHOOK_EDGE_IMAGE_REGISTRY_CHECK_H

#include "webhook/core/image/image.h"

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
