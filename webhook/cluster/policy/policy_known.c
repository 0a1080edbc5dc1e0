/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: names and what is known of each. */
#include "webhook/cluster/policy/policy_known.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"

static void entry_release(struct known_entry *e)
{
	free(e->name);
	free(e->text);
}

void known_release(struct known *k)
{
	for (size_t i = 0; i < k->n; i++)
		entry_release(&k->at[i]);
	free(k->at);
	*k = (struct known){0};
}

/* Where it is, or would be. */
static size_t place_of(const struct known *k, struct slice name, bool *ret_there)
{
	size_t low = 0, high = k->n;

	*ret_there = false;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = slice_order(slice_of(k->at[middle].name), name);

		if (order == 0) {
			*ret_there = true;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void take_out(struct known *k, size_t i)
{
	entry_release(&k->at[i]);
	k->n--;
	memmove(&k->at[i], &k->at[i + 1], (k->n - i) * sizeof(*k->at));
}

void known_listing(struct known *k)
{
	k->round++;
}

void known_listed(struct known *k)
{
	size_t kept = 0;

	for (size_t i = 0; i < k->n; i++) {
		if (k->at[i].round == k->round)
			k->at[kept++] = k->at[i];
		else
			entry_release(&k->at[i]);
	}
	k->n = kept;
	k->whole = true;
}

void known_put(struct known *k, struct slice name, char *text, bool replaces)
{
	bool there;
	size_t i = place_of(k, name, &there);
	char *copy;

	if (there) {
		k->at[i].round = k->round;
		if (!replaces)
			return;
		free(k->at[i].text);
		k->at[i].text = text;
		return;
	}
	copy = name.len ? strndup(name.at, name.len) : NULL;
	if (!copy || !LIST_ROOM(k->at, k->n, k->room)) {
		free(copy);
		free(text);
		return;
	}
	memmove(&k->at[i + 1], &k->at[i], (k->n - i) * sizeof(*k->at));
	k->at[i] = (struct known_entry){copy, text, k->round};
	k->n++;
}

void known_drop(struct known *k, struct slice name)
{
	bool there;
	size_t i = place_of(k, name, &there);

	if (there)
		take_out(k, i);
}

const struct known_entry *known_find(const struct known *k, struct slice name)
{
	bool there;
	size_t i = place_of(k, name, &there);

	return there ? &k->at[i] : NULL;
}
