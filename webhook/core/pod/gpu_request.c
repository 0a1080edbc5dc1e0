/* SPDX-License-Identifier: Apache-2.0 */
/* core: read what a container asks of the pool, in exact integers. */
#include "webhook/core/pod/gpu_request.h"

/* The members of limits and requests that are ours; all but the units ask. */
enum member { AMOUNT, NUM, PERCENT, MEMORY, UNITS, OTHER };

static enum member member_of(const struct json *j, const struct json_node *key)
{
	/* All of ours begin alike; cpu, memory and the like do not. */
	if (!key->escaped && !slice_starts(json_inside(j, key), SLICE(RES_UNITS)))
		return OTHER;
	if (json_is_str(j, key, SLICE(RES_AMOUNT)))
		return AMOUNT;
	if (json_is_str(j, key, SLICE(RES_NUM)))
		return NUM;
	if (json_is_str(j, key, SLICE(RES_PERCENT)))
		return PERCENT;
	if (json_is_str(j, key, SLICE(RES_MEMORY)))
		return MEMORY;
	return json_is_str(j, key, SLICE(RES_UNITS)) ? UNITS : OTHER;
}

/* at: by enum member */
static void collect(const struct json *j, const struct json_node *side, bool limits,
	struct gpu_resource *const *at)
{
	JSON_MEMBERS(j, side, k)
	{
		enum member m = member_of(j, k);

		if (m == OTHER)
			continue;
		if (limits)
			at[m]->limit = json_value(k);
		else
			at[m]->request = json_value(k);
	}
}

static bool is_asking(const struct json *j, const struct json_node *key)
{
	return member_of(j, key) < UNITS;
}

static bool is_positive(const struct json *j, const struct json_node *v)
{
	struct slice s = json_is(v, JSON_STRING) ? json_inside(j, v) : json_raw(j, v);
	struct quantity q;

	return quantity_parse(s, &q, NULL) == 0 && q.nano > 0;
}

bool gpu_request_asks(const struct json *j, const struct json_node *container)
{
	const struct json_node *res = json_get(j, container, SLICE("resources"));
	const struct json_node *sides[] = {
		json_get(j, res, SLICE("limits")), json_get(j, res, SLICE("requests"))};

	for (size_t s = 0; s < 2; s++)
		JSON_MEMBERS(j, sides[s], k)
	if (is_asking(j, k))
		return true;
	return false;
}

bool gpu_request_holds_up(const struct json *j, const struct json_node *container)
{
	const struct json_node *res = json_get(j, container, SLICE("resources"));
	const struct json_node *sides[] = {
		json_get(j, res, SLICE("limits")), json_get(j, res, SLICE("requests"))};

	for (size_t s = 0; s < 2; s++)
		JSON_MEMBERS(j, sides[s], k)
	if (is_asking(j, k) && is_positive(j, json_value(k)))
		return true;
	return false;
}

int gpu_resource_in(struct err *err, const struct gpu_resource *r, const char *name)
{
	int group = (int)strcspn(name, "/");

	return err_in(err, "resources/%s/%.*s~1%s", r->limit ? "limits" : "requests", group, name,
		name + group + 1);
}

static int value_text(const struct json *j, const struct json_node *v, struct arena *a,
	struct slice *ret, struct err *err)
{
	if (json_is(v, JSON_NUMBER))
		*ret = json_raw(j, v);
	else if (json_is(v, JSON_STRING))
		*ret = json_str(j, v, a);
	else
		return err_set(err, ERR_INVALID,
			"found %s, expected a quantity such as 1 or \"500M\"", json_type_name(v));
	return ret->at ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

/* How much of a value a message quotes. */
static int shown(struct slice s)
{
	return s.len > 40 ? 40 : (int)s.len;
}

int gpu_resource_read(const struct json *j, const struct gpu_resource *r, struct arena *a,
	struct quantity *ret, struct slice *ret_text, struct err *err)
{
	struct quantity other;
	struct slice text = {0};

	*ret_text = (struct slice){0};
	if (!r->limit && !r->request)
		return 0;
	if (value_text(j, r->limit ? r->limit : r->request, a, ret_text, err) < 0 ||
		quantity_parse(*ret_text, ret, err) < 0)
		return err->code;
	if (!r->limit || !r->request)
		return 0;
	if (value_text(j, r->request, a, &text, err) < 0 || quantity_parse(text, &other, err) < 0)
		return err->code;
	if (quantity_cmp(*ret, other) != 0)
		return err_set(err, ERR_INVALID,
			"limits say %.*s and requests %.*s; write it once, under limits",
			shown(*ret_text), ret_text->at, shown(text), text.at);
	return 0;
}

static int read_count(const struct json *j, const struct gpu_resource *r, const char *name,
	struct arena *a, uint32_t *ret, struct err *err)
{
	struct quantity q;
	struct slice text;

	if (gpu_resource_read(j, r, a, &q, &text, err) < 0)
		return gpu_resource_in(err, r, name);
	if (!text.at)
		return 0;
	if (!quantity_integral(q) || quantity_ceil(q) < 1 || quantity_ceil(q) > GPU_AMOUNT_MAX) {
		err_set(err, ERR_INVALID,
			"found %.*s, expected a whole number of GPUs from 1 to %d", shown(text),
			text.at, GPU_AMOUNT_MAX);
		return gpu_resource_in(err, r, name);
	}
	*ret = (uint32_t)quantity_ceil(q);
	return 0;
}

static int read_amount(
	const struct json *j, struct arena *a, struct gpu_request *r, struct err *err)
{
	uint32_t num = 0;

	if (read_count(j, &r->amount_at, RES_AMOUNT, a, &r->amount, err) < 0 ||
		read_count(j, &r->num_at, RES_NUM, a, &num, err) < 0)
		return err->code;
	if (r->amount && num && r->amount != num) {
		err_set(err, ERR_INVALID,
			"%s says %u and %s says %u; they are two names for the same, so write only "
			"gpu-amount",
			RES_AMOUNT, r->amount, RES_NUM, num);
		return gpu_resource_in(err, &r->num_at, RES_NUM);
	}
	if (!r->amount)
		r->amount = num;
	if (r->amount)
		return 0;
	err_set(err, ERR_INVALID, "asks for a share of a GPU without saying of how many; add %s: 1",
		RES_AMOUNT);
	return err_in(err, "resources");
}

static int read_percent(
	const struct json *j, struct arena *a, struct gpu_request *r, struct err *err)
{
	struct quantity q;
	struct slice text;

	r->percent = 100;
	if (gpu_resource_read(j, &r->percent_at, a, &q, &text, err) < 0)
		return gpu_resource_in(err, &r->percent_at, RES_PERCENT);
	if (!text.at)
		return 0;
	if (q.nano <= 0 || quantity_ceil(q) > 100) {
		err_set(err, ERR_INVALID,
			"found %.*s, expected a percentage of each GPU from 1 to 100", shown(text),
			text.at);
		return gpu_resource_in(err, &r->percent_at, RES_PERCENT);
	}
	r->percent = (uint32_t)quantity_ceil(q);
	return 0;
}

static int refuse_memory(
	struct gpu_request *r, struct slice text, uint64_t total_mb, struct err *err)
{
	if (total_mb == 0)
		err_set(err, ERR_INVALID,
			"found %.*s, but the operator has not set TOTAL_GPU_MEMORY, which memory "
			"shares are counted "
			"by; ask for %s instead, or have totalGpuMemory set",
			shown(text), text.at, RES_PERCENT);
	else
		err_set(err, ERR_INVALID,
			"found %.*s, expected memory of one GPU from 1M to %lluM, which is "
			"TOTAL_GPU_MEMORY here",
			shown(text), text.at, (unsigned long long)total_mb);
	return gpu_resource_in(err, &r->memory_at, RES_MEMORY);
}

static int read_memory(const struct json *j, uint64_t total_mb, struct arena *a, struct warnings *w,
	struct gpu_request *r, struct err *err)
{
	struct quantity q;
	struct slice text;
	int64_t bytes;

	if (gpu_resource_read(j, &r->memory_at, a, &q, &text, err) < 0)
		return gpu_resource_in(err, &r->memory_at, RES_MEMORY);
	if (!text.at)
		return 0;
	bytes = q.nano > 0 ? quantity_ceil(q) : 0;
	if (bytes / 1000000 < 1 || (uint64_t)(bytes / 1000000) > total_mb)
		return refuse_memory(r, text, total_mb, err);
	if (r->percent_at.limit || r->percent_at.request)
		warn_add(w, a, "%s and %s are both given; memory is used", RES_MEMORY, RES_PERCENT);
	r->memory_mb = (uint64_t)(bytes / 1000000);
	r->percent = 0;
	return 0;
}

int gpu_request_read(const struct json *j, const struct json_node *container, uint64_t total_mb,
	struct arena *a, struct warnings *w, struct gpu_request *ret, struct err *err)
{
	struct gpu_request r = {0};
	struct gpu_resource *const at[] = {[AMOUNT] = &r.amount_at,
		[NUM] = &r.num_at,
		[PERCENT] = &r.percent_at,
		[MEMORY] = &r.memory_at,
		[UNITS] = &r.units_at};
	const struct json_node *res = json_get(j, container, SLICE("resources"));

	r.limits = json_get(j, res, SLICE("limits"));
	r.requests = json_get(j, res, SLICE("requests"));
	collect(j, r.limits, true, at);
	collect(j, r.requests, false, at);
	for (size_t i = 0; i < UNITS; i++)
		r.asks = r.asks || at[i]->limit || at[i]->request;
	if (r.asks) {
		if (read_amount(j, a, &r, err) < 0 || read_percent(j, a, &r, err) < 0 ||
			read_memory(j, total_mb, a, w, &r, err) < 0)
			return err->code;
		r.units = gpu_units(r.amount, r.percent, r.memory_mb, total_mb);
	}
	*ret = r;
	return 0;
}

bool gpu_request_says_share(const struct gpu_request *r)
{
	return r->percent_at.limit || r->percent_at.request || r->memory_at.limit ||
	       r->memory_at.request;
}

uint64_t gpu_units(uint32_t amount, uint32_t percent, uint64_t memory_mb, uint64_t total_mb)
{
	if (percent)
		return (uint64_t)percent * amount;
	if (total_mb == 0)
		return 0;
	/* amount <= 10^4 and memory_mb <= total_mb <= 10^9: far from 64 bits */
	return (memory_mb * amount * 100 + total_mb - 1) / total_mb;
}
