/* SPDX-License-Identifier: Apache-2.0 */
/* core: words for the states of a claim, and what a claim may be asked for. */
#include "webhook/core/pool/ledger.h"

/* Of a pod's uid, which has 36 in every API server that there is; of a name (RFC 1123). */
#define UID_BYTES_MAX 128
#define NAME_BYTES_MAX 253

bool claim_ask_bounded(const struct claim_ask *ask)
{
	for (size_t i = 0; i < ask->uid.len && ask->uid.len <= UID_BYTES_MAX; i++)
		if (ask->uid.at[i] <= ' ' || ask->uid.at[i] > '~')
			return false;
	return ask->uid.len <= UID_BYTES_MAX && ask->namespace.len <= NAME_BYTES_MAX &&
	       ask->name.len <= NAME_BYTES_MAX;
}

const char *claim_state_name(enum claim_state s)
{
	switch (s) {
	case CLAIM_PENDING:
		return "pending";
	case CLAIM_BOUND:
		return "bound";
	case CLAIM_ADOPTED:
		return "adopted";
	}
	return "unknown";
}
