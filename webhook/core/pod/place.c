/* SPDX-License-Identifier: Apache-2.0 */
/* core: the place of a pod, from its plan and its claim. */
#include "webhook/core/pod/place.h"

#include "webhook/core/pod/gate_end.h"

/* Of one value, and of the whole place; all annotations of an object together may have 256 KiB. */
#define PLACE_BYTES_MAX (96u << 10)

struct placing {
	const struct plan *plan;
	const struct inventory *inv;
	const uint64_t *held;
	struct arena *a;
	const struct gpu_server **server_of; /* per GPU */
	uint32_t *mine;                      /* the GPUs that the claim holds */
	size_t n_mine;
	const struct gpu_server **servers; /* of these, each once */
	size_t n_servers;
};

static const struct gpu *gpu_at(const struct placing *p, uint32_t i)
{
	return &p->server_of[i]->gpus[i - p->server_of[i]->first_gpu];
}

/* The GPUs of the claim that each container is told to use; NULL where they cannot be told apart.
 */
static uint32_t **containers_gpus(const struct placing *p, struct err *err)
{
	size_t n = p->inv->n_gpus;
	struct inventory inv = *p->inv;
	uint64_t *taken = arena_array(p->a, n, sizeof(*taken));
	uint64_t *none = arena_array(p->a, n, sizeof(*none));
	uint32_t *nobody = arena_array(p->a, inv.n_servers, sizeof(*nobody));
	struct usage use = {.claimed = taken, .pending = none, .n_claims = nobody};
	struct demand d;
	uint32_t **ret = NULL;

	inv.servers = arena_copy(p->a, inv.servers, inv.n_servers, sizeof(*inv.servers));
	if (!taken || !none || !nobody || !inv.servers ||
		plan_demand(p->plan, false, p->a, &d, err) < 0)
		return NULL;
	/* What was decided when the claim was taken is not asked again. */
	d.whole_servers = d.no_ipv4 = d.no_ipv6 = d.guarded = false;
	d.gate_by = GATE_BY_ANY;
	d.launcher = (struct slice){0};
	d.n_filters = 0;
	for (size_t s = 0; s < inv.n_servers; s++) {
		struct gpu_server *at = &inv.servers[s];

		at->drain = false;
		at->gpus = arena_copy(p->a, at->gpus, at->n_gpus, sizeof(*at->gpus));
		for (size_t i = 0; at->gpus && i < at->n_gpus; i++) {
			at->gpus[i].fit = at->gpus[i].fresh = true;
			at->gpus[i].missing = false;
			taken[at->first_gpu + i] =
				gpu_left(&at->gpus[i], p->held[at->first_gpu + i]);
		}
	}
	if (p->a->failed || placement_containers(&inv, &use, &d, p->a, &ret) < 0)
		return NULL;
	return ret;
}

static void add(struct buf *b, const char *text)
{
	buf_str(b, b->len ? "," : "");
	buf_str(b, text);
}

static void add_number(struct buf *b, size_t n)
{
	buf_str(b, b->len ? "," : "");
	buf_u64(b, n);
}

/* How many GPUs of the server stand before this one, but for those that are missing. */
static size_t index_of(const struct gpu_server *s, const struct gpu *gpu)
{
	size_t n = 0;

	for (const struct gpu *at = s->gpus; at < gpu; at++)
		n += !at->missing;
	return n;
}

/* Which of the claim's servers it is. */
static size_t server_number(const struct placing *p, const struct gpu_server *s)
{
	size_t i = 0;

	while (p->servers[i] != s)
		i++;
	return i;
}

/* What a container is told that is to use these GPUs, in the order of the inventory. */
static void tell(
	const struct placing *p, const uint32_t *gpus, size_t n, struct buf value[LATE_VALUES])
{
	const struct gpu_server *last = NULL;
	size_t before = 0;

	for (size_t i = 0; i < n; i++) {
		const struct gpu_server *s = p->server_of[gpus[i]];
		struct slice host = launch_host(slice_of(s->address));

		if (last && s != last)
			before += index_of(last, last->gpus + last->n_gpus);
		if (s != last && p->plan->gate_port)
			launch_add_end(
				&value[LATE_SERVERS], p->plan->gate_port, server_number(p, s));
		else if (s != last)
			add(&value[LATE_SERVERS], s->address);
		if (!last)
			buf_slice(&value[LATE_SERVER_HOST], host);
		add(&value[LATE_GPUS], gpu_at(p, gpus[i])->id);
		add_number(&value[LATE_GPU_INDEXES], before + index_of(s, gpu_at(p, gpus[i])));
		last = s;
	}
}

static int fill(const struct placing *p, const uint32_t *gpus, size_t n,
	struct place_container *ret, size_t *io_bytes, struct err *err)
{
	struct buf value[LATE_VALUES];
	bool full = false;

	for (size_t v = 0; v < LATE_VALUES; v++)
		buf_init(&value[v], PLACE_BYTES_MAX);
	tell(p, gpus, n, value);
	for (size_t v = 0; v < LATE_VALUES; v++) {
		full = full || value[v].full;
		if (p->plan->late.values & 1u << v)
			*io_bytes += value[v].len;
		ret->value[v] = (struct slice){0};
		if (!value[v].failed)
			ret->value[v] = arena_slice(
				p->a, value[v].len > 0 ? buf_as_slice(&value[v]) : SLICE(""));
		if (value[v].failed && !value[v].full)
			p->a->failed = true;
		buf_release(&value[v]);
	}
	if (p->a->failed)
		return err_set(err, ERR_NOMEM, "out of memory for a pod's place");
	if (full || *io_bytes > PLACE_BYTES_MAX)
		return err_set(err, ERR_INVALID,
			"its place takes more than the %u bytes that the pod's annotations have "
			"for it; let it "
			"use fewer servers or fewer containers",
			PLACE_BYTES_MAX);
	return 0;
}

static int write_all(
	const struct placing *p, struct gpu_place *ret, size_t *io_bytes, struct err *err)
{
	struct buf b;

	buf_init(&b, PLACE_BYTES_MAX);
	for (size_t i = 0; i < p->n_mine; i++)
		buf_fmt(&b, "%s%s/%s", i ? "," : "", p->server_of[p->mine[i]]->name,
			gpu_at(p, p->mine[i])->id);
	*io_bytes += b.len;
	ret->all = (struct slice){0};
	if (!b.failed)
		ret->all = arena_slice(p->a, buf_as_slice(&b));
	p->a->failed = p->a->failed || (b.failed && !b.full);
	buf_release(&b);
	if (p->a->failed)
		return err_set(err, ERR_NOMEM, "out of memory for a pod's place");
	return ret->all.at ? 0
			   : err_set(err, ERR_INVALID,
				     "its claim names too many GPUs to write them down");
}

/* The servers of the claim as the pod's end dials them. */
static int write_gates(const struct placing *p, struct gpu_place *ret, struct err *err)
{
	struct slice address[PROFILE_GATE_SERVERS];

	ret->gates = (struct slice){0};
	if (!p->plan->gate_port)
		return 0;
	if (p->n_servers > PROFILE_GATE_SERVERS)
		return err_set(err, ERR_INVALID,
			"its claim holds GPUs of %zu servers, and a pod reaches %d through their "
			"gates",
			p->n_servers, PROFILE_GATE_SERVERS);
	for (size_t i = 0; i < p->n_servers; i++)
		address[i] = slice_of(p->servers[i]->address);
	ret->gates = gate_end_servers(address, p->n_servers, p->a);
	return ret->gates.at ? 0 : err_set(err, ERR_NOMEM, "out of memory for a pod's place");
}

static int by_index(const struct placing *p, struct gpu_place *ret, struct err *err)
{
	uint32_t **own = p->plan->late.whole_servers ? NULL : containers_gpus(p, err);
	size_t bytes = 0;

	ret->containers = arena_array(p->a, p->plan->n_containers, sizeof(*ret->containers));
	if (p->a->failed || !ret->containers)
		return err_set(err, ERR_NOMEM, "out of memory for a pod's place");
	if (write_all(p, ret, &bytes, err) < 0 || write_gates(p, ret, err) < 0)
		return err->code;
	for (size_t i = 0; i < p->plan->n_containers; i++)
		if (fill(p, own ? own[i] : p->mine, own ? p->plan->containers[i].amount : p->n_mine,
			    &ret->containers[i], &bytes, err) < 0)
			return err->code;
	return 0;
}

int gpu_place_of(const struct plan *plan, const struct inventory *servers, const uint64_t *held,
	struct arena *a, struct gpu_place *ret, struct err *err)
{
	struct placing p = {.plan = plan, .inv = servers, .held = held, .a = a};

	p.server_of = arena_array(a, servers->n_gpus, sizeof(void *));
	p.mine = arena_array(a, servers->n_gpus, sizeof(*p.mine));
	p.servers = arena_array(a, servers->n_servers, sizeof(void *));
	if (!p.server_of || !p.mine || !p.servers)
		return err_set(err, ERR_NOMEM, "out of memory for a pod's place");
	for (size_t s = 0; s < servers->n_servers; s++)
		for (size_t i = 0; i < servers->servers[s].n_gpus; i++) {
			size_t at = servers->servers[s].first_gpu + i;

			p.server_of[at] = &servers->servers[s];
			if (held[at] == 0)
				continue;
			p.mine[p.n_mine++] = (uint32_t)at;
			if (p.n_servers == 0 || p.servers[p.n_servers - 1] != p.server_of[at])
				p.servers[p.n_servers++] = p.server_of[at];
		}
	if (p.n_mine == 0)
		return err_set(err, ERR_INVALID, "its claim holds no GPU");
	return by_index(&p, ret, err);
}
