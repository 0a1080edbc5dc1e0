/* SPDX-License-Identifier: Apache-2.0 */
/* core: claims: words for their states, their order, copies, and what one may be asked for. */
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

int claim_order(const struct claim *x, const struct claim *y)
{
	int c = strcmp(x->namespace, y->namespace);

	c = c ? c : strcmp(x->name, y->name);
	return c ? c : strcmp(x->key, y->key);
}

struct claim_part *claim_parts_copy(const struct claim *c, struct arena *a)
{
	struct claim_part *parts = arena_array(a, c->n_parts, sizeof(*parts));

	for (size_t i = 0; parts && i < c->n_parts; i++)
		parts[i] = (struct claim_part){arena_strdup(a, slice_of(c->parts[i].server)),
			arena_strdup(a, slice_of(c->parts[i].gpu)), c->parts[i].bytes};
	return a->failed ? NULL : parts;
}

void claim_copy(struct claim *to, const struct claim *from, struct arena *a)
{
	*to = *from;
	to->key = arena_strdup(a, slice_of(from->key));
	to->namespace = arena_strdup(a, slice_of(from->namespace));
	to->name = arena_strdup(a, slice_of(from->name));
	to->parts = claim_parts_copy(from, a);
}
