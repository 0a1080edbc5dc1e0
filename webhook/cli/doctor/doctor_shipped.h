/* SPDX-License-Identifier: Apache-2.0 */
/* cli: the manifests of this version, which lie in the program. */
#ifndef WEBHOOK_CLI_DOCTOR_DOCTOR_SHIPPED_H
#define WEBHOOK_CLI_DOCTOR_DOCTOR_SHIPPED_H

#include "base/slice.h"

/* Manifests of this version. */
enum shipped {
	SHIPPED_BASE, /* its kustomization */
	SHIPPED_CRD,
	SHIPPED_HOOKS,
	SHIPPED_RIGHTS,
	SHIPPED_SECRET_RIGHTS,
	SHIPPED_WAITING_RIGHTS,
	SHIPPED_EVICTION_RIGHTS,
	SHIPPED_USAGE_RIGHTS,
	SHIPPED_POLICY_RIGHTS,
	SHIPPED_POLICY_MUTATING, /* the hooks of components/policies, beside SHIPPED_HOOKS */
	SHIPPED_POLICY_VALIDATING,
	SHIPPED_COUNT
};

/* The text of one, for as long as the program runs. */
struct slice shipped_text(enum shipped which);

#endif
