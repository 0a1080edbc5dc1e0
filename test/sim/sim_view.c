/* SPDX-License-Identifier: Apache-2.0 */
/* sim: a GPUServer's status as the laws read it, not as the product does. */
#include "test/sim/sim_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int number_of(const char *uid)
{
	return uid && strlen(uid) == 36 && uid[0] == '2' ? (int)strtol(uid + 24, NULL, 16) : -1;
}

static uint64_t number(cJSON *o, const char *name)
{
	return (uint64_t)cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(o, name));
}

/* 0: it is not there. */
static uint64_t number_if(cJSON *o, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(o, name) ? number(o, name) : 0;
}

static const char *text(cJSON *o, const char *name)
{
	const char *t = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));

	return t ? t : "";
}

int gpu_of(const struct view *v, const char *id)
{
	for (int i = 0; i < v->n_gpus; i++)
		if (strcmp(v->gpus[i].id, id) == 0)
			return i;
	return -1;
}

static void read_claim(struct view *v, cJSON *from)
{
	struct seen_claim *c = &v->claims[v->n_claims];
	cJSON *one;

	if (v->n_claims == CLAIMS_MAX)
		sim_fail("simulator", "more than %d claims on one server", CLAIMS_MAX);
	*c = (struct seen_claim){
		.who = number_of(text(from, "uid")), .state = text(from, "state")[0]};
	if (c->who < 0 || c->who >= n_attempts)
		sim_fail("identity", "a claim is of uid %s, which no pod ever had",
			text(from, "uid"));
	c->open = cJSON_IsTrue(store_at(from, "open", NULL));
	c->seat = (struct seat){number_if(from, "gangKey"), number_if(from, "gangSize"),
		number_if(from, "gangBytes"), number_if(from, "gangLike"),
		number_if(from, "gangAsks")};
	cJSON_ArrayForEach(one, store_at(from, "servers", NULL)) if (c->n_servers < SPAN_MAX)(void)
		snprintf(c->servers[c->n_servers++], sizeof(c->servers[0]), "%s", one->valuestring);
	cJSON_ArrayForEach(one, store_at(from, "gpus", NULL)) if (c->n_parts < GPUS_MAX)
		c->parts[c->n_parts++] =
		(struct part){gpu_of(v, text(one, "id")), number(one, "bytes")};
	v->n_claims++;
}

static void read_kept(struct view *v, cJSON *from)
{
	cJSON *one;

	cJSON_ArrayForEach(one, store_at(from, "gpus", NULL))
	{
		if (v->n_kept == GPUS_MAX)
			sim_fail("simulator", "more than %d GPUs are kept on one server", GPUS_MAX);
		v->kept[v->n_kept].who = number_of(text(from, "uid"));
		v->kept[v->n_kept].gpu = gpu_of(v, text(one, "id"));
		v->kept[v->n_kept++].bytes = number(one, "bytes");
	}
}

/* What a server without a probe says is always so. */
static bool is_fresh(cJSON *doc)
{
	cJSON *one;

	if (!store_at(doc, "spec", "probe"))
		return true;
	cJSON_ArrayForEach(one,
		store_at(doc, "status", "conditions")) if (strcmp(text(one, "type"), "Fresh") ==
							   0) return strcmp(text(one, "status"),
		"True") == 0;
	return false;
}

void laws_read(struct object *o)
{
	struct view *v = o->view;
	cJSON *status = store_at(o->doc, "status", NULL), *one;
	bool finalized;

	if (o->kind != SERVERS)
		return;
	if (!v)
		o->view = v = calloc(1, sizeof(*v));
	v->n_gpus = v->n_claims = v->n_kept = 0;
	(void)snprintf(v->address, sizeof(v->address), "%s",
		text(store_at(o->doc, "spec", NULL), "address"));
	(void)snprintf(v->created, sizeof(v->created), "%s",
		text(store_at(o->doc, "metadata", NULL), "creationTimestamp"));
	v->future = store_at(status, "future", NULL) != NULL;
	finalized = cJSON_GetArraySize(store_at(o->doc, "metadata", "finalizers")) > 0;
	v->opened = v->opened || finalized;
	v->takes = finalized && !o->deleting && !cJSON_IsTrue(store_at(o->doc, "spec", "drain")) &&
		   is_fresh(o->doc);
	cJSON_ArrayForEach(one, store_at(status, "gpus", NULL))
	{
		if (v->n_gpus == GPUS_MAX)
			sim_fail("simulator", "more than %d GPUs on one server", GPUS_MAX);
		(void)snprintf(v->gpus[v->n_gpus].id, sizeof(v->gpus[0].id), "%s", text(one, "id"));
		v->gpus[v->n_gpus].missing =
			cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(one, "missing"));
		v->gpus[v->n_gpus].fit =
			cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(one, "fit")) &&
			!v->gpus[v->n_gpus].missing;
		v->gpus[v->n_gpus++].bytes = number(one, "memory");
	}
	cJSON_ArrayForEach(one, store_at(status, "claims", NULL)) read_claim(v, one);
	cJSON_ArrayForEach(one, store_at(status, "kept", NULL)) read_kept(v, one);
}

const struct view *view_of(const struct object *o)
{
	return o->view;
}

bool has_older(const struct object *o)
{
	for (struct object *p = store_first(SERVERS); p; p = store_next(p))
		if (p != o && strcmp(view_of(p)->address, view_of(o)->address) == 0 &&
			strcmp(view_of(p)->created, view_of(o)->created) < 0)
			return true;
	return false;
}

uint64_t sum_of(const struct view *v, int gpu)
{
	uint64_t sum = 0;

	for (int i = 0; i < v->n_claims; i++)
		for (unsigned k = 0; k < v->claims[i].n_parts; k++)
			if (v->claims[i].parts[k].gpu == gpu)
				sum += v->claims[i].parts[k].bytes;
	return sum;
}

uint64_t kept_of(const struct view *v, int gpu, int who)
{
	uint64_t sum = 0;

	for (int i = 0; i < v->n_kept; i++)
		sum += v->kept[i].gpu == gpu && v->kept[i].who != who ? v->kept[i].bytes : 0;
	return sum;
}

const struct seen_claim *claim_of(const struct view *v, int who)
{
	for (int i = 0; i < v->n_claims; i++)
		if (v->claims[i].who == who)
			return &v->claims[i];
	return NULL;
}

bool holds_whole(int who)
{
	for (struct object *o = store_first(SERVERS); o; o = store_next(o)) {
		const struct seen_claim *c = claim_of(view_of(o), who);
		bool whole = c && c->n_servers > 0;

		for (unsigned i = 0; whole && i < c->n_servers; i++) {
			const struct object *other = store_find(SERVERS, "", c->servers[i]);
			const struct seen_claim *there =
				other ? claim_of(view_of(other), who) : NULL;

			whole = there && !there->open && there->n_servers == c->n_servers &&
				memcmp(there->servers, c->servers, sizeof(c->servers)) == 0;
		}
		if (whole)
			return true;
	}
	return false;
}

unsigned parts_of(int who)
{
	unsigned n = 0;

	for (struct object *o = store_first(SERVERS); o; o = store_next(o)) {
		const struct seen_claim *c = claim_of(view_of(o), who);

		n += c ? c->n_parts : 0;
	}
	return n;
}

const char *laws_say(const struct object *o)
{
	static char out[1500];
	const struct view *v = view_of(o);
	size_t n = (size_t)snprintf(out, sizeof(out), "%s", v->takes ? "" : "(closed)");

	for (int i = 0; i < v->n_gpus && n < sizeof(out) - 200; i++)
		n += (size_t)snprintf(out + n, sizeof(out) - n, " %s:%lluM", v->gpus[i].id,
			(unsigned long long)(v->gpus[i].bytes / 1000000));
	for (int i = 0; i < v->n_claims && n < sizeof(out) - 200; i++) {
		n += (size_t)snprintf(
			out + n, sizeof(out) - n, " u%d%c{", v->claims[i].who, v->claims[i].state);
		for (unsigned k = 0; k < v->claims[i].n_parts && n < sizeof(out) - 100; k++)
			n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%d:%lluM", k ? "," : "",
				v->claims[i].parts[k].gpu,
				(unsigned long long)(v->claims[i].parts[k].bytes / 1000000));
		n += (size_t)snprintf(
			out + n, sizeof(out) - n, "}%s", v->claims[i].n_servers > 1 ? "+" : "");
	}
	for (int i = 0; i < v->n_kept && n < sizeof(out) - 100; i++)
		n += (size_t)snprintf(out + n, sizeof(out) - n, " kept for u%d{%d:%lluM}",
			v->kept[i].who, v->kept[i].gpu,
			(unsigned long long)(v->kept[i].bytes / 1000000));
	return out;
}
