/* SPDX-License-Identifier: Apache-2.0 */
/* sim: a policy with caps, which some namespaces pick, and law P6: what the claims of these hold
 * together never passes the cap by a claim that somebody gave, the account never says less than
 * stands, and after quiet it says just that. */
#include <stdio.h>
#include <string.h>

#include "test/sim/sim_view.h"

#define NAME "small"
/* A claim that was counted under the cap of before may be on its way for so long. */
#define CHANGED_US (240 * SECOND)

static unsigned gpus, before_gpus; /* the cap in force, and the one before it */
static double bytes;               /* 0: there is none */
static int64_t changed_at;
static bool told; /* its account has been written since etcd was restored */
/* What replicas have given since then out of what was counted ahead before: the account that came
 * back does not have it, until a leader has counted. */
#define AHEAD_US (15 * SECOND)
static int64_t restored_at;
static double owed;

bool caps_bind(const struct attempt *a)
{
	return habits.caps && strcmp(a->namespace, "vision") != 0;
}

static void make_namespace(const char *name, const char *policy)
{
	cJSON *doc = cJSON_CreateObject(),
	      *labels = cJSON_AddObjectToObject(cJSON_AddObjectToObject(doc, "metadata"), "labels");

	if (policy)
		cJSON_AddStringToObject(labels, "poolgate.io/policy", policy);
	(void)store_add(NAMESPACES, "", name, NULL, doc, "admin");
}

static cJSON *spec_now(void)
{
	cJSON *spec = cJSON_CreateObject(), *allow = cJSON_AddObjectToObject(spec, "allow");

	cJSON_AddNumberToObject(allow, "gpus", gpus);
	if (bytes > 0)
		cJSON_AddNumberToObject(allow, "memory", bytes);
	return spec;
}

static unsigned cap_drawn(void)
{
	return habits.far ? 128 : habits.company ? 16u << sim_below(4) : 1 + (unsigned)sim_below(6);
}

void caps_make(void)
{
	cJSON *doc = cJSON_CreateObject();

	gpus = before_gpus = cap_drawn();
	bytes = sim_chance(400000) ? 8e9 * (double)(1 + sim_below(8)) : 0;
	cJSON_AddItemToObject(doc, "spec", spec_now());
	(void)store_add(POLICIES, "", NAME, NULL, doc, "admin");
	make_namespace("ml", NAME);
	make_namespace("nlp", NAME);
	make_namespace("vision", NULL);
}

void caps_change(void)
{
	struct object *o = store_find(POLICIES, "", NAME);

	before_gpus =
		gpus > before_gpus || sim_now() - changed_at > CHANGED_US ? gpus : before_gpus;
	gpus = cap_drawn();
	changed_at = sim_now();
	cJSON_ReplaceItemInObjectCaseSensitive(o->doc, "spec", spec_now());
	o->generation++;
	store_changed(o, "admin");
}

/* What the claims of its namespaces hold now. */
static void hold(unsigned *ret_gpus, double *ret_bytes)
{
	*ret_gpus = 0;
	*ret_bytes = 0;
	for (struct object *o = store_first(SERVERS); o; o = store_next(o))
		for (int i = 0; i < view_of(o)->n_claims; i++) {
			const struct seen_claim *c = &view_of(o)->claims[i];

			if (!caps_bind(&attempts[c->who]))
				continue;
			*ret_gpus += c->n_parts;
			for (unsigned k = 0; k < c->n_parts; k++)
				*ret_bytes += (double)c->parts[k].bytes;
		}
}

/* Its cap, too, is what it was. */
void caps_restored(void)
{
	struct object *o = store_find(POLICIES, "", NAME);
	cJSON *allow = o ? store_at(o->doc, "spec", "allow") : NULL;

	told = false;
	restored_at = sim_now();
	if (!allow)
		return;
	before_gpus = gpus;
	gpus = (unsigned)cJSON_GetNumberValue(store_at(allow, "gpus", NULL));
	changed_at = sim_now();
}

void caps_written(const struct object *o)
{
	told = told || cJSON_GetNumberValue(store_at(o->doc, "status", "gpus")) >= 0;
}

const char *caps_say(const struct object *o)
{
	const char *text = cJSON_GetStringValue(store_at(o->doc, "status", "account"));

	return text ? text : "-";
}

/* given: a claim that was not there before. */
void caps_after_write(const struct attempt *given, bool adopted, const char *who)
{
	struct object *o = store_find(POLICIES, "", NAME);
	unsigned held, cap = gpus;
	double held_bytes, lacks;

	if (!habits.caps || !caps_bind(given))
		return;
	hold(&held, &held_bytes);
	if (changed_at && sim_now() - changed_at < CHANGED_US && before_gpus > cap)
		cap = before_gpus;
	lacks = (double)held - cJSON_GetNumberValue(store_at(o->doc, "status", "gpus"));
	if (restored_at && sim_now() - restored_at < AHEAD_US)
		owed = lacks;
	owed = lacks < owed ? lacks : owed;
	owed = owed > 0 ? owed : 0;
	if (!adopted && (held > cap + owed || (bytes > 0 && owed == 0 && held_bytes > bytes)))
		sim_fail("cap",
			"%s gave u%d a claim, and the namespaces of the policy hold %u GPUs and "
			"%.0f bytes, of %u and %.0f",
			who, (int)(given - attempts), held, held_bytes, cap, bytes);
	if (told && lacks > owed)
		sim_fail("account",
			"%s gave u%d a claim: the namespaces of the policy hold %u GPUs, and its "
			"account says %.0f",
			who, (int)(given - attempts), held,
			cJSON_GetNumberValue(store_at(o->doc, "status", "gpus")));
}

void caps_owed(char *out, size_t size)
{
	struct object *o = store_find(POLICIES, "", NAME);
	const char *text = o ? cJSON_GetStringValue(store_at(o->doc, "status", "account")) : NULL;
	unsigned held;
	double held_bytes;

	hold(&held, &held_bytes);
	if (!habits.caps || (!text && held == 0))
		return;
	if (!text || strstr(text, " f ") ||
		cJSON_GetNumberValue(store_at(o->doc, "status", "gpus")) != (double)held ||
		cJSON_GetNumberValue(store_at(o->doc, "status", "bytes")) != held_bytes)
		(void)snprintf(out, size,
			"the namespaces of the policy hold %u GPUs and %.0f bytes, and its account "
			"says \"%s\"",
			held, held_bytes, text ? text : "");
}
