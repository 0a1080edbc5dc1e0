/* SPDX-License-Identifier: Apache-2.0 */
/* core: what a GPUServer's status says, and how it is changed. Nothing here moves a claim (ledger
 * rule R10). */
#include "webhook/core/server/server_object_impl.h"

ptrdiff_t server_status_gpu(const struct server_status *s, struct slice id)
{
	for (size_t i = 0; i < s->n_gpus; i++)
		if (slice_is(id, s->gpus[i].gpu.id))
			return (ptrdiff_t)i;
	return -1;
}

ptrdiff_t server_status_claim(const struct server_status *s, struct slice uid)
{
	for (size_t i = 0; i < s->n_claims; i++)
		if (slice_is(uid, s->claims[i].claim.key))
			return (ptrdiff_t)i;
	return -1;
}

struct server_end server_object_probe(const struct server_object *o)
{
	return (struct server_end){
		o->probe_url, o->probe_ca_secret, o->probe_token_secret, o->probe_client_secret};
}

struct server_end server_object_gate(const struct server_object *o)
{
	return (struct server_end){o->gate_url, o->gate_ca_secret, o->gate_token_secret, NULL};
}

const struct condition *server_status_condition(const struct server_status *s, const char *type)
{
	for (size_t i = 0; i < s->n_conditions; i++)
		if (strcmp(s->conditions[i].type, type) == 0)
			return &s->conditions[i];
	return NULL;
}

/* Sums saturate: a status that somebody edited must not make a full GPU look free. */
static uint64_t plus(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* What the claim holds of the GPU. */
static uint64_t claim_bytes(const struct claim *c, const char *gpu)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < c->n_parts; i++)
		if (strcmp(c->parts[i].gpu, gpu) == 0)
			sum = plus(sum, c->parts[i].bytes);
	return sum;
}

uint64_t server_status_claimed(const struct server_status *s, size_t gpu)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->n_claims; i++)
		sum = plus(sum, claim_bytes(&s->claims[i].claim, s->gpus[gpu].gpu.id));
	return sum;
}

uint64_t server_status_kept(const struct server_status *s, size_t gpu)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->n_kept; i++)
		for (size_t k = 0; k < s->kept[i].n_gpus; k++)
			if (strcmp(s->kept[i].gpus[k].gpu, s->gpus[gpu].gpu.id) == 0)
				sum = plus(sum, s->kept[i].gpus[k].bytes);
	return sum;
}

/* Is any claim on it, be it with no bytes? */
static bool is_claimed(const struct server_status *s, const char *gpu)
{
	for (size_t i = 0; i < s->n_claims; i++)
		for (size_t j = 0; j < s->claims[i].claim.n_parts; j++)
			if (strcmp(s->claims[i].claim.parts[j].gpu, gpu) == 0)
				return true;
	return false;
}

/* Does the server take no new claims whatever its GPUs are: draining, being deleted, without the
 * finalizer? */
static bool server_object_drains(const struct server_object *o)
{
	return o->drain || o->deleting || !o->finalizer;
}

/* Are the verdicts on its GPUs recent? */
static bool server_object_fresh(const struct server_object *o)
{
	const struct condition *fresh = server_status_condition(&o->status, SERVER_FRESH);

	return fresh ? strcmp(fresh->status, "True") == 0 : !o->probe_url;
}

bool server_gpu_usable(const struct server_object *o, size_t i)
{
	const struct gpu_server as_server = {.drain = server_object_drains(o)};
	struct gpu g = o->status.gpus[i].gpu;

	g.fresh = server_object_fresh(o);
	return !g.twin && !o->status.gpus[i].closed && inventory_usable(&as_server, &g);
}

/* Has its gate told that it holds a claim to what it has? */
static bool server_object_guarded(const struct server_object *o)
{
	const struct condition *c = server_status_condition(&o->status, SERVER_GUARDED);

	/* of another spec it says nothing: that may have named another gate */
	return o->gate_profile && c && strcmp(c->status, "True") == 0 &&
	       c->observed_generation == o->generation;
}

static const char *why_stale(const struct server_object *o)
{
	const struct condition *fresh = server_status_condition(&o->status, SERVER_FRESH);

	if (!fresh)
		return "its probe has not answered yet";
	return fresh->message && *fresh->message ? fresh->message : "its verdict is not recent";
}

void server_object_verdicts(const struct server_object *o, struct gpu_server *shown)
{
	bool fresh = server_object_fresh(o);

	for (size_t i = 0; i < shown->n_gpus; i++) {
		const char *closed = o->status.gpus[i].closed;
		struct gpu *g = &shown->gpus[i];

		*g = o->status.gpus[i].gpu;
		g->fresh = fresh;
		if (g->fit)
			g->why = g->twin ? g->twin : closed ? closed : fresh ? "" : why_stale(o);
		g->fit = g->fit && !g->twin && !closed;
	}
}

void server_object_set_twins(struct server_object *o, struct gpu_server *shown)
{
	o->twin = shown->twin;
	for (size_t i = 0; i < shown->n_gpus; i++)
		o->status.gpus[i].gpu.twin = shown->gpus[i].twin;
	server_object_verdicts(o, shown);
}

int server_object_inventory(
	const struct server_object *o, struct arena *a, struct gpu_server *ret, struct err *err)
{
	const struct server_status *s = &o->status;
	struct gpu *gpus = arena_array(a, s->n_gpus, sizeof(*gpus));

	if (!gpus)
		return err_set(err, ERR_NOMEM, "out of memory while a GPUServer was looked at");
	*ret = (struct gpu_server){.name = o->name,
		.address = o->address,
		.probe_url = o->probe_url,
		.labels = o->labels,
		.n_labels = o->n_labels,
		.launchers = o->launchers,
		.n_launchers = o->n_launchers,
		.gpus = gpus,
		.n_gpus = s->n_gpus,
		.guarded = server_object_guarded(o),
		.gate_by = !o->gate_profile     ? GATE_BY_ANY
			   : o->gate_by_address ? GATE_BY_ADDRESS
						: GATE_BY_TOKEN,
		.drain = server_object_drains(o),
		.created_ms = o->created_ms,
		.twin = o->twin};
	server_object_verdicts(o, ret);
	return 0;
}

/* A copy of the array with room for one more; NULL when out of memory. */
static void *grown(const void *array, size_t n, size_t size, struct arena *a)
{
	char *copy = arena_array(a, n + 1, size);

	if (copy && n > 0)
		memcpy(copy, array, n * size);
	return copy;
}

bool server_status_add_claim(
	struct server_status *s, const struct claim_record *claim, struct arena *a)
{
	struct claim_record *claims = grown(s->claims, s->n_claims, sizeof(*claims), a);

	if (!claims)
		return false;
	claims[s->n_claims] = *claim;
	s->claims = claims;
	s->n_claims++;
	return true;
}

void server_status_remove_claim(struct server_status *s, size_t index)
{
	s->n_claims--;
	memmove(&s->claims[index], &s->claims[index + 1],
		(s->n_claims - index) * sizeof(s->claims[0]));
}

static bool same(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

bool server_status_set_condition(
	struct server_status *s, const struct condition *c, const char *now, struct arena *a)
{
	const struct condition *old = server_status_condition(s, c->type);
	struct condition new = *c, *conditions = s->conditions;
	size_t at = old ? (size_t)(old - s->conditions) : s->n_conditions;

	if (old)
		new.rest = old->rest;
	if (old && same(old->status, c->status) && old->since && *old->since) {
		new.since = old->since;
		if (same(old->reason, c->reason) && same(old->message, c->message) &&
			old->observed_generation == c->observed_generation)
			return false;
	} else {
		new.since = arena_strdup(a, slice_of(now));
	}
	if (!old)
		conditions = grown(s->conditions, s->n_conditions, sizeof(*conditions), a);
	if (!new.since || !conditions)
		return false;
	conditions[at] = new;
	s->conditions = conditions;
	s->n_conditions += !old;
	return true;
}

bool server_status_add_phantom(
	struct server_status *s, const char *namespace, int64_t wall_ms, struct arena *a)
{
	struct phantom *list = s->phantoms;
	size_t at = 0, oldest = 0;

	while (at < s->n_phantoms && strcmp(list[at].namespace, namespace) != 0) {
		if (list[at].since_ms < list[oldest].since_ms)
			oldest = at;
		at++;
	}
	if (at == SERVER_PHANTOMS_MAX) {
		at = oldest;
		list[at] = (struct phantom){.namespace = namespace};
	} else if (at == s->n_phantoms) {
		list = grown(list, s->n_phantoms, sizeof(*list), a);
		if (!list)
			return false;
		s->phantoms = list;
		list[s->n_phantoms++] = (struct phantom){.namespace = namespace};
	}
	list[at].since_ms = wall_ms;
	return true;
}

bool phantom_is_over(const struct phantom *p, int64_t wall_ms)
{
	int64_t age = wall_ms - p->since_ms;

	return age >= SERVER_PHANTOM_MS || age < -SERVER_PHANTOM_MS;
}

bool server_status_drop_phantoms(struct server_status *s, int64_t wall_ms)
{
	size_t kept = 0, n = s->n_phantoms;

	for (size_t i = 0; i < n; i++)
		if (!phantom_is_over(&s->phantoms[i], wall_ms))
			s->phantoms[kept++] = s->phantoms[i];
	s->n_phantoms = kept;
	return kept < n;
}

/* May the server take this claim at all, whatever its GPUs have left? */
static int server_takes(const struct server_object *o, const struct claim *claim,
	struct slice without, struct err *err)
{
	const struct server_status *s = &o->status;
	size_t left = 0;

	if (o->deleting)
		return err_set(err, ERR_CONFLICT, "%s is being deleted", o->name);
	if (!o->finalizer)
		return err_set(err, ERR_CONFLICT,
			"%s takes no claims yet: it does not carry the finalizer " SERVER_FINALIZER,
			o->name);
	if (o->drain)
		return err_set(
			err, ERR_CONFLICT, "%s takes no new claims: it is draining", o->name);
	if (o->hearsay)
		return err_set(err, ERR_CONFLICT,
			"%s takes no claims yet: whether its GPUs are another's is not known",
			o->name);
	for (size_t i = 0; i < s->n_claims; i++) {
		if (without.at && slice_is(without, s->claims[i].claim.key))
			continue;
		if (same(s->claims[i].claim.key, claim->key))
			return err_set(
				err, ERR_CONFLICT, "%s holds a claim of this pod already", o->name);
		left++;
	}
	if (left >= CLAIMS_PER_SERVER_MAX)
		return err_set(err, ERR_CONFLICT, "%s has %zu claims, the most it can hold is %d",
			o->name, left, CLAIMS_PER_SERVER_MAX);
	return 0;
}

/* Does all that the claim wants of this GPU fit? */
static int gpu_takes(const struct server_object *o, size_t gpu, const struct claim *claim,
	struct slice without, struct err *err)
{
	const struct server_status *s = &o->status;
	const struct gpu *g = &s->gpus[gpu].gpu;
	uint64_t taken = server_status_kept(s, gpu), wanted = claim_bytes(claim, g->id);

	if (g->missing)
		return err_set(err, ERR_CONFLICT, "%s of %s is gone", g->id, o->name);
	if (!g->fit)
		return err_set(err, ERR_CONFLICT, "%s of %s is not fit: %s", g->id, o->name,
			g->why && *g->why ? g->why : "no reason is given");
	if (g->twin || s->gpus[gpu].closed)
		return err_set(err, ERR_CONFLICT, "%s of %s is not fit: %s", g->id, o->name,
			g->twin ? g->twin : s->gpus[gpu].closed);
	for (size_t i = 0; i < s->n_claims; i++)
		if (!without.at || !slice_is(without, s->claims[i].claim.key))
			taken = plus(taken, claim_bytes(&s->claims[i].claim, g->id));
	if (plus(taken, wanted) > g->bytes)
		return err_set(err, ERR_CONFLICT,
			"%s of %s has %llu bytes free, %llu are asked for", g->id, o->name,
			(unsigned long long)gpu_left(g, taken), (unsigned long long)wanted);
	return 0;
}

int server_claim_fits(const struct server_object *o, const struct claim *claim,
	struct slice without, struct err *err)
{
	int rc = server_takes(o, claim, without, err);

	if (rc == 0 && !server_object_fresh(o))
		rc = err_set(err, ERR_CONFLICT, "%s is stale: %s", o->name, why_stale(o));
	for (size_t i = 0; rc == 0 && i < claim->n_parts; i++) {
		ptrdiff_t gpu = server_status_gpu(&o->status, slice_of(claim->parts[i].gpu));

		if (gpu < 0)
			return err_set(err, ERR_CONFLICT, "%s has no GPU %s", o->name,
				claim->parts[i].gpu);
		rc = gpu_takes(o, (size_t)gpu, claim, without, err);
	}
	return rc;
}

static bool same_gpu(const struct gpu *a, const struct gpu *b)
{
	return same(a->id, b->id) && same(a->parent, b->parent) && same(a->model, b->model) &&
	       a->bytes == b->bytes && a->fit == b->fit && a->missing == b->missing &&
	       same(a->why, b->why);
}

bool server_status_replace_gpus(
	struct server_status *s, const struct gpu *gpus, size_t n, struct arena *a)
{
	struct gpu_status *all = arena_array(a, n + s->n_gpus, sizeof(*all));
	const struct server_status now = {.gpus = all, .n_gpus = n};
	bool differs;

	if (!all)
		return false;
	for (size_t i = 0; i < n; i++) {
		ptrdiff_t old = server_status_gpu(s, slice_of(gpus[i].id));

		if (old >= 0)
			all[i] = s->gpus[old];
		all[i].gpu = gpus[i];
		all[i].gpu.twin = old >= 0 ? s->gpus[old].gpu.twin : NULL;
	}
	for (size_t i = 0; i < s->n_gpus; i++) {
		const char *id = s->gpus[i].gpu.id;

		if (server_status_gpu(&now, slice_of(id)) >= 0 || !is_claimed(s, id))
			continue;
		all[n] = s->gpus[i];
		all[n++].gpu.missing = true;
	}
	differs = n != s->n_gpus;
	for (size_t i = 0; !differs && i < n; i++)
		differs = !same_gpu(&all[i].gpu, &s->gpus[i].gpu);
	if (differs) {
		s->gpus = all;
		s->n_gpus = n;
	}
	return differs;
}

bool server_status_from_spec(struct server_object *o, struct arena *a)
{
	struct gpu *gpus;
	size_t n = 0, listed = 0;

	if (o->probe_url)
		return false;
	for (size_t i = 0; i < o->n_declared; i++)
		listed += o->declared[i].count;
	gpus = arena_array(a, listed, sizeof(*gpus));
	for (size_t i = 0; gpus && i < o->n_declared; i++)
		for (uint32_t j = 0; j < o->declared[i].count; j++, n++)
			gpus[n] = (struct gpu){.id = arena_fmt(a, "gpu-%zu", n),
				.model = o->declared[i].model,
				.bytes = o->declared[i].bytes,
				.fit = true,
				.why = ""};
	return !a->failed && server_status_replace_gpus(&o->status, gpus, n, a);
}

bool server_status_prune(struct server_status *s)
{
	size_t kept = 0, n = s->n_gpus;

	for (size_t i = 0; i < n; i++)
		if (!s->gpus[i].gpu.missing || is_claimed(s, s->gpus[i].gpu.id))
			s->gpus[kept++] = s->gpus[i];
	s->n_gpus = kept;
	return kept < n;
}
