/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the CAs and names of the clients that reviews are answered to. */
#ifndef WEBHOOK_EDGE_ADMIN_CLIENT_CA_H
#define WEBHOOK_EDGE_ADMIN_CLIENT_CA_H

#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "net/tls_trust.h"
#include "webhook/edge/settings/settings.h"

/* Put the settings' CAs and names in force; log may be NULL. Nothing when clients is NULL (this
 * server does not ask), or the settings name none any more (that waits for a restart). Errors as of
 * tls_trust_load_file, with who named the path; what is in force stays then. */
int client_ca_load(struct tls_trust *clients, const struct settings *s, const struct log *log,
	struct err *err);

/* Changes when the file does, or the names. */
uint64_t client_ca_mark(const struct settings *s);

#endif
