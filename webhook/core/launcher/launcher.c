/* SPDX-License-Identifier: Apache-2.0 */
/* core: launcher profiles at work: which client, what it can express, and the argv for one
 * container. */
#include "webhook/core/launcher/launcher.h"

#include <string.h>

size_t launch_times(const struct launch *l, enum word_when when)
{
	switch (when) {
	case WORD_ALWAYS:
		return 1;
	case WORD_FRACTION:
		return l->percent > 0;
	case WORD_MEMORY:
		return l->memory_mb > 0;
	case WORD_EACH_FILTER:
		return l->n_filters;
	case WORD_ANY_FILTER:
		break;
	}
	return l->n_filters > 0;
}

int launch_argv(const struct launch *l, struct arena *a, struct slice **ret_words, size_t *ret_n,
	struct err *err)
{
	const struct profile *p = l->profile;
	size_t n = p->separator.at != NULL, at = 0;
	struct slice *words;

	for (size_t i = 0; i < p->n_argv; i++)
		n += p->argv[i].n * launch_times(l, p->argv[i].when);
	words = arena_array(a, n, sizeof(*words));
	if (!words)
		return err_set(err, ERR_NOMEM, "out of memory for the launcher's %zu words", n);
	for (size_t i = 0; i < p->n_argv; i++) {
		const struct profile_words *w = &p->argv[i];
		size_t n_times = launch_times(l, w->when);

		for (size_t t = 0; t < n_times; t++) {
			struct slice filter =
				w->when == WORD_EACH_FILTER ? l->filters[t] : SLICE("");

			for (size_t k = 0; k < w->n; k++)
				words[at++] = template_render(w->word[k], l, filter, a);
		}
	}
	if (p->separator.at)
		words[at++] = launcher_escape(p->separator, a);
	if (a->failed)
		return err_set(err, ERR_NOMEM, "out of memory for the launcher's words");
	*ret_words = words;
	*ret_n = at;
	return 0;
}

const struct profile_client *profile_client(
	const struct profile *p, struct slice os, struct slice version)
{
	if (!p->by_client)
		return p->n_clients ? &p->clients[0] : NULL;
	for (size_t i = 0; i < p->n_clients; i++)
		if (slice_eq(p->clients[i].os, os) && slice_eq(p->clients[i].version, version))
			return &p->clients[i];
	return NULL;
}

bool image_is_unset(struct slice image)
{
	const struct slice top = SLICE(".invalid");
	size_t host = 0;

	while (host < image.len && image.at[host] != '/' && image.at[host] != ':')
		host++;
	return host < image.len && host > top.len &&
	       slice_eq((struct slice){image.at + host - top.len, top.len}, top);
}

int profile_expresses(const struct profile *p, uint32_t amount, uint32_t percent,
	uint64_t memory_mb, struct err *err)
{
	if (amount > p->max_amount)
		return err_set(err, ERR_INVALID,
			"asks for %u GPUs, but the launcher %.*s gives a container at most %u: ask "
			"for "
			"bitfusion.io/gpu-amount %u%s",
			amount, (int)p->name.len, p->name.at, p->max_amount, p->max_amount,
			p->max_amount > 1 ? " or less" : "");
	if (memory_mb > 0 && p->can_memory == CAN_NO)
		return err_set(err, ERR_INVALID,
			"asks for %llu MB of a GPU, but the launcher %.*s cannot hold a program to "
			"a share "
			"of a GPU's memory: ask for whole GPUs (bitfusion.io/gpu-amount alone)",
			(unsigned long long)memory_mb, (int)p->name.len, p->name.at);
	if (memory_mb == 0 && percent < 100 && p->can_fraction == CAN_NO)
		return err_set(err, ERR_INVALID,
			"asks for %u percent of a GPU, but the launcher %.*s cannot hold a program "
			"to a "
			"fraction of a GPU: ask for whole GPUs (bitfusion.io/gpu-amount alone)",
			percent, (int)p->name.len, p->name.at);
	return 0;
}
