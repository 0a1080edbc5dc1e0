/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: which lines the log has already. */
#include "webhook/cluster/duty/repeat.h"

#include <stddef.h>

#include "base/text.h"

/* Never 0, which is a free slot's. */
static uint64_t hash_of(const char *text)
{
	return text_hash64(slice_of(text)) | 1;
}

bool repeat_due(struct repeat *r, const char *what, const char *message, int64_t now_ms)
{
	uint64_t which = hash_of(what), said = hash_of(message);
	size_t at = 0;

	for (size_t i = 0; i < REPEAT_KEPT; i++) {
		if (r->slot[i].what == which) {
			at = i;
			break;
		}
		if (r->slot[at].what != 0 &&
			(r->slot[i].what == 0 || r->slot[i].told_ms < r->slot[at].told_ms))
			at = i;
	}
	if (r->slot[at].what == which && r->slot[at].message == said &&
		now_ms - r->slot[at].told_ms < REPEAT_MS)
		return false;
	r->slot[at].what = which;
	r->slot[at].message = said;
	r->slot[at].told_ms = now_ms;
	return true;
}

void repeat_forget(struct repeat *r, const char *what)
{
	uint64_t which = hash_of(what);

	for (size_t i = 0; i < REPEAT_KEPT; i++)
		if (r->slot[i].what == which)
			r->slot[i].what = 0;
}
