/* SPDX-License-Identifier: Apache-2.0 */
/* sim: pods that wait for their turn, as their owners make them, and what happens to them before it
 * comes. */
#include <stdio.h>
#include <string.h>

#include "test/sim/sim_world.h"

#define OUR_GATE "poolgate.io/capacity"
#define FOREIGN_GATE "example.com/quota"
#define FOREIGN_US (30 * SECOND)
#define GANG_US (150 * SECOND)

static const char *const namespaces[] = {"ml", "nlp", "vision"};

/* ---- gates ---- */

static cJSON *gate_of(cJSON *doc, const char *name, int *ret_i)
{
	cJSON *one;

	*ret_i = 0;
	cJSON_ArrayForEach(one, store_at(doc, "spec", "schedulingGates"))
	{
		const char *is = cJSON_GetStringValue(store_at(one, "name", NULL));

		if (is && strcmp(is, name) == 0)
			return one;
		++*ret_i;
	}
	return NULL;
}

bool pod_is_held(cJSON *doc)
{
	int i;

	return gate_of(doc, OUR_GATE, &i) != NULL;
}

void pod_drop_gate(cJSON *doc)
{
	int i;

	if (gate_of(doc, OUR_GATE, &i))
		cJSON_DeleteItemFromArray(store_at(doc, "spec", "schedulingGates"), i);
}

bool pod_has_foreign(cJSON *doc)
{
	int i;

	return gate_of(doc, FOREIGN_GATE, &i) != NULL;
}

/* Its owner's. */
static void drop_foreign(struct attempt *a, struct object *o)
{
	int i;

	if (!gate_of(o->doc, FOREIGN_GATE, &i))
		return;
	cJSON_DeleteItemFromArray(store_at(o->doc, "spec", "schedulingGates"), i);
	a->foreign = false;
	a->free_at = sim_now();
	store_changed(o, "quota");
}

/* ---- a pod ---- */

cJSON *pod_made(const struct attempt *a)
{
	cJSON *pod, *spec, *gate;

	if (!a->waits)
		return cJSON_Parse(a->shape->pods[a->writer][a->config]);
	pod = cJSON_Parse(a->shape->waiting[a->config]);
	spec = store_at(pod, "spec", NULL);
	cJSON_ReplaceItemInObjectCaseSensitive(
		store_at(pod, "metadata", NULL), "namespace", cJSON_CreateString(a->namespace));
	if (a->gang)
		gang_name(a, pod);
	if (a->priority) {
		cJSON_AddStringToObject(spec, "priorityClassName", "high");
		cJSON_AddNumberToObject(spec, "priority", a->priority);
	}
	if (a->foreign) {
		gate = cJSON_CreateObject();
		cJSON_AddStringToObject(gate, "name", FOREIGN_GATE);
		cJSON_InsertItemInArray(
			store_at(spec, "schedulingGates", NULL), a->priority > 0, gate);
	}
	return pod;
}

static struct attempt *make(const char *namespace, const char *name, bool small)
{
	/* Half a GPU to two of them; where order is judged many ask the same. */
	uint64_t i = small ? 1 : orderly ? 1 + 2 * sim_below(2) : 1 + sim_below(5);
	struct attempt *a = laws_attempt(&shapes[i], name);

	a->namespace = namespace;
	a->waits = true;
	a->priority = !small && !habits.stall && sim_chance(200000) ? 100 : 0;
	a->foreign = sim_chance(habits.foreign);
	return a;
}

struct attempt *waiting_again(const struct attempt *a)
{
	return a->gang ? gang_member(a->gang, a->namespace, a->name)
		       : make(a->namespace, a->name, false);
}

struct attempt *waiting_member(unsigned gang, unsigned i)
{
	char name[32];

	(void)snprintf(name, sizeof(name), "gang-%u-%u", gang, i);
	return gang_member(gang, namespaces[gang % 3], name);
}

/* NULL: there is one of that name. */
struct attempt *waiting_attempt(bool small)
{
	const char *namespace = namespaces[sim_below(3)];
	char name[32];

	(void)snprintf(name, sizeof(name), "wait-%u", (unsigned)sim_below(2 + habits.names));
	return store_find(PODS, namespace, name) ? NULL : make(namespace, name, small);
}

bool waiting_ends(struct attempt *a)
{
	int64_t until = sim_chance(habits.give_up)
				? sim_now() + (int64_t)sim_below((uint64_t)habits.patience_us)
				: FOREVER,
		foreign_until = sim_now() + (int64_t)sim_below(FOREIGN_US);

	while (a->gated && sim_now() < until) {
		struct object *o = pod_of(a);

		if (o && sim_now() >= foreign_until)
			drop_foreign(a, o);
		/* What the pool has become too small for. */
		if (chaos_calm() && !laws_could_ever(a))
			return false;
		/* Of its gang some have not come, or not all of it fits; or a cap is full. */
		if ((a->gang || caps_bind(a)) && chaos_calm() && sim_now() - chaos_calm() > GANG_US)
			return false;
		sim_sleep(SECOND / 2);
	}
	return !a->gated;
}
