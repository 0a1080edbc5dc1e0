/* SPDX-License-Identifier: Apache-2.0 */
/* core: read what a container asks by keys of other products. */
#include "webhook/core/pod/foreign.h"

#define PREFIX "nvidia.com/"
#define MIB 1048576
#define MB 1000000

static const char *const sides[] = {"limits", "requests"};

/* Which key it is; FOREIGN_KEYS: none of these. */
static unsigned key_of(const struct json *j, const struct json_node *key)
{
	unsigned k = 0;

	/* cpu, memory and ours at a glance */
	if (!key->escaped && !slice_starts(json_inside(j, key), SLICE(PREFIX)))
		return FOREIGN_KEYS;
	while (k < FOREIGN_KEYS &&
		!json_spells(j, key, slice_of(foreign_key_name((enum foreign_key)k))))
		k++;
	return k;
}

unsigned foreign_keys_in(const struct json *j, const struct json_node *object)
{
	unsigned ret = 0;

	JSON_MEMBERS(j, object, k)
	{
		unsigned key = key_of(j, k);

		if (key < FOREIGN_KEYS)
			ret |= 1U << key;
	}
	return ret;
}

/* Zero, or nothing; what cannot be read is something. */
static bool is_nothing(const struct json *j, const struct json_node *v)
{
	struct slice s = json_is(v, JSON_STRING) ? json_inside(j, v) : json_raw(j, v);
	struct quantity q;

	return json_absent(v) || (quantity_parse(s, &q, NULL) == 0 && q.nano == 0);
}

static void collect(const struct json *j, const struct json_node *container, unsigned accepts,
	struct gpu_resource at[FOREIGN_KEYS])
{
	const struct json_node *res = json_get(j, container, SLICE("resources"));

	for (size_t s = 0; s < 2; s++)
		JSON_MEMBERS(j, json_get(j, res, slice_of(sides[s])), k)
		{
			unsigned key = key_of(j, k);

			if (key == FOREIGN_KEYS || !(accepts & 1U << key) ||
				json_absent(json_value(k)))
				continue;
			if (s == 0)
				at[key].limit = json_value(k);
			else
				at[key].request = json_value(k);
		}
}

static bool is_there(const struct gpu_resource *r)
{
	return r->limit || r->request;
}

static bool asks(const struct json *j, const struct gpu_resource at[FOREIGN_KEYS])
{
	if (is_there(&at[FOREIGN_GPU]))
		return !is_nothing(j, at[FOREIGN_GPU].limit) ||
		       !is_nothing(j, at[FOREIGN_GPU].request);
	for (size_t k = 0; k < FOREIGN_KEYS; k++)
		if (!is_nothing(j, at[k].limit) || !is_nothing(j, at[k].request))
			return true;
	return false;
}

bool foreign_asks(const struct json *j, const struct json_node *container, unsigned accepts)
{
	struct gpu_resource at[FOREIGN_KEYS] = {0};

	if (accepts)
		collect(j, container, accepts, at);
	return asks(j, at);
}

const struct pod_container *foreign_first(const struct pod *p, unsigned accepts)
{
	for (size_t i = 0; i < p->n_containers; i++)
		if (foreign_asks(p->j, p->containers[i].node, accepts))
			return &p->containers[i];
	return NULL;
}

bool foreign_any_asks(const struct pod *p, const struct plan *plan, unsigned accepts)
{
	for (size_t i = 0; i < p->n_containers; i++) {
		const struct pod_container *c = &p->containers[i];
		const struct plan_container *pc = plan ? plan_container(plan, c->name) : NULL;

		if (gpu_request_asks(p->j, c->node) ||
			foreign_asks(p->j, c->node, pc && pc->foreign ? FOREIGN_ALL : accepts))
			return true;
	}
	return false;
}

struct foreign_terms foreign_terms(const struct policy *policy, uint64_t total_mb)
{
	return (struct foreign_terms){.total_mb = total_mb,
		.accepts = policy ? policy->accepts : 0,
		.percent = policy ? policy->percent : 0};
}

/* Who said no share was given the policy's of then. */
struct foreign_terms foreign_terms_again(const struct plan_container *pc, uint64_t total_mb)
{
	return (struct foreign_terms){.total_mb = total_mb,
		.accepts = pc->foreign ? FOREIGN_ALL : 0,
		.percent = (pc->foreign & 1U << FOREIGN_MEM_PERCENT) != 0 ? 0 : pc->percent};
}

/* A whole number in its range; *ret stays where the key is not there. */
static int read_whole(const struct json *j, const struct gpu_resource *at, enum foreign_key key,
	int64_t min, int64_t max, const char *expected, struct arena *a, int64_t *ret,
	struct err *err)
{
	const char *name = foreign_key_name(key);
	struct quantity q;
	struct slice text;

	if (gpu_resource_read(j, &at[key], a, &q, &text, err) < 0)
		return gpu_resource_in(err, &at[key], name);
	if (!text.at)
		return 0;
	if (!quantity_integral(q) || quantity_ceil(q) < min || quantity_ceil(q) > max) {
		err_set(err, ERR_INVALID, "found %.*s, expected a whole number %s",
			text.len > 40 ? 40 : (int)text.len, text.at, expected);
		return gpu_resource_in(err, &at[key], name);
	}
	*ret = quantity_ceil(q);
	return 0;
}

/* MiB become megabytes as those of bitfusion.io/gpu-memory do: what is left over is dropped. */
static int read_memory(const struct json *j, const struct gpu_resource *at, uint64_t total_mb,
	struct arena *a, uint64_t *ret_mb, struct err *err)
{
	int64_t mib = 0;
	uint64_t mb;

	if (read_whole(j, at, FOREIGN_MEM, 0, INT64_MAX / MIB, "of MiB of each GPU", a, &mib, err) <
		0)
		return err->code;
	mb = (uint64_t)mib * MIB / MB;
	if (mib == 0 || (total_mb > 0 && mb <= total_mb)) {
		*ret_mb = mb;
		return 0;
	}
	if (total_mb == 0)
		err_set(err, ERR_INVALID,
			"found %lld, but the operator has not set TOTAL_GPU_MEMORY, which memory "
			"shares are counted by; have totalGpuMemory set",
			(long long)mib);
	else
		err_set(err, ERR_INVALID,
			"found %lld, expected MiB of one GPU, which has %llu MB by "
			"TOTAL_GPU_MEMORY here",
			(long long)mib, (unsigned long long)total_mb);
	return gpu_resource_in(err, &at[FOREIGN_MEM], foreign_key_name(FOREIGN_MEM));
}

/* Which share of each GPU, of what has been said of it. */
static void choose_share(int64_t cores, int64_t percent, uint64_t mb, uint32_t usual,
	struct arena *a, struct warnings *w, struct gpu_request *r)
{
	if (cores == 100 && (mb || percent))
		warn_add(w, a,
			"nvidia.com/gpucores: 100 asks for a GPU of its own: each is taken whole, "
			"whatever is said of its memory");
	else if (cores > 0 && cores < 100)
		warn_add(w, a,
			"nvidia.com/gpucores: %lld is taken out: shares of the pool are of memory, "
			"and cores are not bounded",
			(long long)cores);
	if (cores != 100 && mb && percent)
		warn_add(w, a,
			"nvidia.com/gpumem and nvidia.com/gpumem-percentage are both given; memory "
			"is used");
	r->memory_mb = cores == 100 ? 0 : mb;
	if (r->memory_mb)
		r->percent = 0;
	else if (cores == 100)
		r->percent = 100;
	else
		r->percent = percent ? (uint32_t)percent : usual ? usual : 100;
}

static int refuse_both(const struct json *j, const struct gpu_resource *at, struct err *err)
{
	size_t k = 0;

	while (is_nothing(j, at[k].limit) && is_nothing(j, at[k].request))
		k++;
	err_set(err, ERR_INVALID,
		"the container asks by %s and by a key under bitfusion.io/gpu-, which is the same "
		"twice; write one of the two",
		foreign_key_name((enum foreign_key)k));
	return gpu_resource_in(err, &at[k], foreign_key_name((enum foreign_key)k));
}

int foreign_read(const struct json *j, const struct json_node *container,
	const struct foreign_terms *terms, struct arena *a, struct warnings *w,
	struct gpu_request *ret, struct err *err)
{
	struct gpu_resource at[FOREIGN_KEYS] = {0};
	int64_t amount = 1, percent = 0, cores = 0;
	uint64_t mb = 0;
	struct gpu_request r;

	if (terms->accepts)
		collect(j, container, terms->accepts, at);
	if (!asks(j, at))
		return gpu_request_read(j, container, terms->total_mb, a, w, ret, err);
	if (gpu_request_asks(j, container))
		return refuse_both(j, at, err);
	if (gpu_request_read(j, container, terms->total_mb, a, w, &r, err) < 0 ||
		read_whole(j, at, FOREIGN_GPU, 1, GPU_AMOUNT_MAX, "of GPUs from 1 to 10000", a,
			&amount, err) < 0 ||
		read_whole(j, at, FOREIGN_MEM_PERCENT, 1, 100,
			"of percent of each GPU's memory, from 1 to 100", a, &percent, err) < 0 ||
		read_whole(j, at, FOREIGN_CORES, 0, 100,
			"of percent of each GPU's cores, from 0 to 100", a, &cores, err) < 0 ||
		read_memory(j, at, terms->total_mb, a, &mb, err) < 0)
		return err->code;
	choose_share(cores, percent, mb, terms->percent, a, w, &r);
	r.asks = true;
	r.amount = (uint32_t)amount;
	r.units = gpu_units(r.amount, r.percent, r.memory_mb, terms->total_mb);
	for (size_t k = 0; k < FOREIGN_KEYS; k++) {
		r.foreign_at[k] = at[k];
		r.foreign |= is_there(&at[k]) ? 1U << k : 0;
	}
	*ret = r;
	return 0;
}

static int check_container(const struct pod *p, const struct pod_container *c, unsigned accepts,
	struct arena *a, struct err *err)
{
	const struct json_node *res = json_get(p->j, c->node, SLICE("resources"));

	for (size_t s = 0; s < 2; s++)
		JSON_MEMBERS(p->j, json_get(p->j, res, slice_of(sides[s])), k)
		{
			struct slice name = json_str(p->j, k, a);
			unsigned key = key_of(p->j, k);

			if (!name.at || !slice_starts(name, SLICE(PREFIX)) ||
				(key < FOREIGN_KEYS && accepts & 1U << key) ||
				is_nothing(p->j, json_value(k)))
				continue;
			err_set(err, ERR_INVALID,
				"found %.*s, which the namespace's policy does not accept, in a "
				"pod that asks by keys that it accepts; a pod cannot have GPUs of "
				"the pool and of its node: leave it out, or have it accepted",
				name.len > 60 ? 60 : (int)name.len, name.at);
			err_in(err, "resources/%s", sides[s]);
			return err_in(err, "%s", c->path + 1);
		}
	return 0;
}

int foreign_check_rest(const struct pod *p, unsigned accepts, struct arena *a, struct err *err)
{
	for (size_t i = 0; i < p->n_containers; i++)
		if (check_container(p, &p->containers[i], accepts, a, err) < 0)
			return err->code;
	return a->failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

/* A quota's keys may say of which side they are. */
static unsigned bounded_in(const struct json *j, const struct json_node *object, struct arena *a)
{
	static const char *const before[] = {"requests.", "limits."};
	unsigned ret = 0;

	JSON_MEMBERS(j, object, k)
	{
		struct slice name = json_str(j, k, a);

		for (size_t i = 0; i < 2 && name.at; i++)
			if (slice_starts(name, slice_of(before[i])))
				name = (struct slice){
					name.at + strlen(before[i]), name.len - strlen(before[i])};
		for (unsigned key = 0; key < FOREIGN_KEYS; key++)
			if (slice_is(name, foreign_key_name((enum foreign_key)key)))
				ret |= 1U << key;
	}
	return ret;
}

unsigned foreign_bounded(const struct json *j, const struct json_node *object, struct arena *a)
{
	const struct json_node *spec = json_get(j, object, SLICE("spec"));
	unsigned ret = bounded_in(j, json_get(j, spec, SLICE("hard")), a);

	JSON_EACH(j, json_get(j, spec, SLICE("limits")), limit)
	JSON_MEMBERS(j, limit, k)
	ret |= bounded_in(j, json_value(k), a);
	return ret;
}
