/* SPDX-License-Identifier: Apache-2.0 */
/* gate: claims of one GPUServer. Pure. */
#include "gate/picture.h"

#include <string.h>

#include "base/text.h"
#include "webhook/core/server/server_object.h"

/* 256 claims of eight GPUs are a tenth of it. */
#define ARENA_MAX (16u << 20)

static int no_memory(struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory for the claims");
}

/* A container's GPUs may be another's, too: the sum counts. */
static void add_gpu(struct picture_claim *c, const char *id, uint64_t bytes, uint64_t of_bytes)
{
	for (size_t i = 0; i < c->n_gpus; i++) {
		if (strcmp(c->gpu[i].id, id) == 0) {
			c->gpu[i].bytes += bytes;
			return;
		}
	}
	c->gpu[c->n_gpus++] = (struct picture_gpu){id, bytes, of_bytes};
}

static int take(const struct server_object *o, const struct claim *from, struct arena *a,
	struct picture_claim *c, struct err *err)
{
	*c = (struct picture_claim){
		.uid = from->key, .namespace = from->namespace, .name = from->name};
	c->gpu = arena_array(a, from->n_parts, sizeof(*c->gpu));
	if (!c->gpu)
		return no_memory(err);
	for (size_t i = 0; i < from->n_parts; i++) {
		ptrdiff_t gpu = server_status_gpu(&o->status, slice_of(from->parts[i].gpu));

		add_gpu(c, from->parts[i].gpu, from->parts[i].bytes,
			gpu >= 0 ? o->status.gpus[gpu].gpu.bytes : from->parts[i].bytes);
	}
	return 0;
}

static bool lets_in(const struct claim_record *r)
{
	return r->lingers_ms == 0 && !r->open;
}

static int find_addresses(const struct server_object *o, struct picture *p, struct err *err)
{
	p->address = arena_array(
		&p->arena, o->status.n_claims * SERVER_POD_IPS_MAX, sizeof(*p->address));
	if (!p->address)
		return no_memory(err);
	for (size_t i = 0; i < o->status.n_claims; i++) {
		const struct claim_record *r = &o->status.claims[i];

		for (size_t k = 0; k < r->n_pod_ips; k++) {
			struct picture_address *a = &p->address[p->n_addresses];

			a->uid = r->claim.key;
			a->shut_out = !lets_in(r);
			p->n_addresses += text_ip(slice_of(r->pod_ips[k]), a->at);
		}
	}
	return 0;
}

/* The largest: there it is easiest to tell. MIG instances and whole GPUs are known by UUIDs. */
static void find_spare(const struct server_object *o, struct picture *p)
{
	for (size_t i = 0; i < o->status.n_gpus; i++) {
		const struct gpu *g = &o->status.gpus[i].gpu;
		bool known = strncmp(g->id, "GPU-", 4) == 0 || strncmp(g->id, "MIG-", 4) == 0;

		if (known && g->fit && !g->missing && !o->status.gpus[i].closed &&
			server_status_claimed(&o->status, i) == 0 && g->bytes > p->spare.of_bytes)
			p->spare = (struct picture_gpu){g->id, g->bytes, g->bytes};
	}
}

int picture_read(
	struct picture *p, const struct json *j, const struct json_node *object, struct err *err)
{
	struct picture next = {0};
	struct server_object o;
	int rc;

	arena_init_small(&next.arena, ARENA_MAX, 4096);
	rc = server_object_read(j, object, &next.arena, &o, err);
	if (rc == 0) {
		next.claim = arena_array(&next.arena, o.status.n_claims, sizeof(*next.claim));
		rc = next.claim ? 0 : no_memory(err);
	}
	if (rc == 0)
		rc = find_addresses(&o, &next, err);
	if (rc == 0)
		find_spare(&o, &next);
	next.gated = rc == 0 && o.gate_profile;
	for (size_t i = 0; rc == 0 && i < o.status.n_claims; i++) {
		const struct claim_record *record = &o.status.claims[i];

		if (!lets_in(record))
			next.shut_out++;
		else
			rc = take(
				&o, &record->claim, &next.arena, &next.claim[next.n_claims++], err);
	}
	if (rc != 0) {
		arena_release(&next.arena);
		return rc;
	}
	picture_release(p);
	*p = next;
	return 0;
}

void picture_release(struct picture *p)
{
	if (p->claim)
		arena_release(&p->arena);
	*p = (struct picture){0};
}

const struct picture_claim *picture_claim(const struct picture *p, const char *uid)
{
	for (size_t i = 0; i < p->n_claims; i++)
		if (strcmp(p->claim[i].uid, uid) == 0)
			return &p->claim[i];
	return NULL;
}

const char *picture_at(const struct picture *p, const char *address, bool *ret_several)
{
	const struct picture_address *found = NULL;
	unsigned char at[16];

	*ret_several = false;
	if (!text_ip(slice_of(address), at))
		return NULL;
	for (size_t i = 0; i < p->n_addresses; i++) {
		const struct picture_address *a = &p->address[i];

		if (memcmp(a->at, at, sizeof(at)) != 0)
			continue;
		*ret_several = *ret_several || (found && found->uid != a->uid);
		found = a;
	}
	return found && !found->shut_out && !*ret_several ? found->uid : NULL;
}
