/* SPDX-License-Identifier: Apache-2.0 */
/* gate: what is asked about servers: whose a process is, how many there are, which GPUs they keep.
 */
#include <string.h>

#include "gate/children_impl.h"
#include "gate/process/family.h"

/* Of a family that is looked through. */
#define GENERATIONS_MAX 64

/* By its parents, else by its cgroup, in which it stays when the parent of all is killed. */
const char *children_of(const struct children *all, pid_t pid)
{
	char cgroup[CGROUP_PATH_MAX];
	pid_t at = pid;

	for (int i = 0; at > 1 && i < GENERATIONS_MAX; i++, at = family_parent(at))
		for (size_t k = 0; k < all->top; k++)
			if (all->server[k] && all->server[k]->pid == at)
				return all->server[k]->uid;
	if (!cgroup_of(&all->cgroups, pid, cgroup))
		return NULL;
	for (size_t k = 0; k < all->top; k++)
		if (all->server[k] && all->server[k]->cgroup &&
			strcmp(all->server[k]->cgroup, cgroup) == 0)
			return all->server[k]->uid;
	return NULL;
}

struct children_facts children_facts(const struct children *all)
{
	struct children_facts f = all->facts;

	f.apart = all->accounts > 0;
	for (size_t i = 0; i < all->top; i++) {
		const struct child *s = all->server[i];

		f.running += s && (s->state == CHILD_STARTING || s->state == CHILD_UP);
		f.ending += s && s->state == CHILD_ENDING;
		f.stuck += s && s->stuck;
		f.under_mps += s && s->state == CHILD_ENDING && s->mps;
	}
	return f;
}

size_t children_stuck(const struct children *all, struct children_stuck *ret, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < all->top; i++) {
		const struct child *s = all->server[i];

		for (const char *at = s && s->stuck ? s->share : NULL; at && n < max; n++) {
			ret[n] = (struct children_stuck){{at, strcspn(at, "=")}, s->uid};
			at = strchr(at, ',');
			at = at ? at + 1 : NULL;
		}
	}
	return n;
}
