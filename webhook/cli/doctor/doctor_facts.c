/* SPDX-License-Identifier: Apache-2.0 */
/* cli: see doctor_facts.h. */
#include "webhook/cli/doctor/doctor_facts.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "webhook/edge/settings/settings_file.h"

#define ARENA_MAX (512u << 20)

void sight_release(struct sight *s)
{
	json_release(&s->json);
	/* the serving pair's key is among what is read */
	if (s->text)
		explicit_bzero(s->text, s->text_len);
	free(s->text);
	*s = (struct sight){0};
}

bool sight_there(const struct sight *s, struct doctor_report *r)
{
	switch (s->state) {
	case SIGHT_THERE:
		return true;
	case SIGHT_FORBIDDEN:
		doctor_unchecked(r, "may not read %s", s->what);
		return false;
	case SIGHT_FAILED:
		doctor_unchecked(r, "cannot read %s: %s", s->what, s->why ? s->why : "no answer");
		return false;
	case SIGHT_NOT_ASKED:
		doctor_unchecked(r, "did not read %s", s->what ? s->what : "it");
		return false;
	case SIGHT_MISSING:
		return false;
	}
	return false;
}

const char *sight_str(const struct json *j, const struct json_node *v, struct arena *a)
{
	struct slice s = json_str(j, v, a);

	return s.at ? arena_strdup(a, s) : NULL;
}

void doctor_facts_init(struct doctor_facts *f, const char *namespace)
{
	*f = (struct doctor_facts){.namespace = namespace};
	arena_init(&f->arena, ARENA_MAX);
	arena_init(&f->settings.arena, 1u << 20);
	settings_cluster_defaults(&f->settings.cluster);
}

void doctor_facts_release(struct doctor_facts *f)
{
	for (size_t i = 0; i < SHIPPED_COUNT; i++)
		sight_release(&f->shipped[i]);
	for (size_t i = 0; i < HOOKS_COUNT; i++)
		sight_release(&f->hooks[i]);
	for (size_t i = 0; i < CLIENTS_COUNT; i++)
		sight_release(&f->clients[i]);
	sight_release(&f->deployment);
	sight_release(&f->config);
	sight_release(&f->tls);
	sight_release(&f->plan_keys);
	sight_release(&f->crd);
	sight_release(&f->lease);
	sight_release(&f->kueue);
	sight_release(&f->source);
	arena_release(&f->settings.arena);
	arena_release(&f->arena);
}

void *doctor_more(struct doctor_facts *f, struct doctor_list *list, size_t size)
{
	if (list->n == list->cap && !list_grow(&f->arena, &list->at, &list->cap, size))
		return NULL;
	return memset((char *)list->at + list->n++ * size, 0, size);
}
