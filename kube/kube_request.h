/* SPDX-License-Identifier: Apache-2.0 */
/* kube: a request to the Kubernetes API as libcurl takes it. */
#ifndef KUBE_KUBE_REQUEST_H
#define KUBE_KUBE_REQUEST_H

#include "kube/kube.h"
#include "net/http_client.h"

/* What a request to the API server points into. */
struct kube_request {
	struct http_ask http;
	struct buf url, token, content_type;
	const char *headers[3];
};

/* Fill in URL, credentials and headers; method is borrowed. Errors as kube_config_token,
 * ERR_INVALID (the path is too long), ERR_NOMEM. Release it in every case. */
int kube_request_init(struct kube_request *r, const struct kube *k, const char *method,
	const char *path, const char *content_type, struct err *err);
void kube_request_release(struct kube_request *r);

/* What came of an answer's head: its Date is what kube_wall_ms() goes by. */
void kube_note_date(struct kube *k, struct slice head);
/* An answer to a watch has begun or ended, which kube_breaks() counts. */
void kube_broken(struct kube *k);

#endif
