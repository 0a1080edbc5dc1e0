/* SPDX-License-Identifier: Apache-2.0 */
/* core: words for the states of a claim. */
#include "webhook/core/ledger.h"

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
