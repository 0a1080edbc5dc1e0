/* SPDX-License-Identifier: Apache-2.0 */
/* edge: writing /metrics. */
#include "webhook/edge/admin/metrics_page.h"

#include <stddef.h>
#include <string.h>

#include "webhook/edge/metrics/process.h"
#include "webhook/edge/pool/pool_states.h"

#define VIEW_ARENA_MAX (256u * 1024 * 1024)

/* ---- the transport ---- */

static void add_one(
	struct buf *out, const char *name, const char *help, enum metric_type type, int64_t value)
{
	metric_head(out, name, help, type);
	metric_sample(out, name, NULL, 0, value, 1);
}

static void add_transport(struct buf *out, const struct http_stats *st)
{
	static const char *const classes[] = {"", "1xx", "2xx", "3xx", "4xx", "5xx"};

	add_one(out, "poolgate_http_connections", "Open TLS connections.", METRIC_GAUGE,
		st->connections);
	add_one(out, "poolgate_http_in_flight", "Requests being answered.", METRIC_GAUGE,
		st->in_flight);
	add_one(out, "poolgate_http_deferred",
		"Of these, what a worker answers or what waits for one.", METRIC_GAUGE,
		st->deferred);
	add_one(out, "poolgate_http_accepted_total", "TLS connections accepted.", METRIC_COUNTER,
		(int64_t)st->accepted);
	metric_head(
		out, "poolgate_http_replies_total", "Replies by class of status.", METRIC_COUNTER);
	for (size_t i = 2; i < sizeof(classes) / sizeof(classes[0]); i++) {
		struct slice labels[] = {SLICE("class"), slice_of(classes[i])};

		metric_sample(
			out, "poolgate_http_replies_total", labels, 2, (int64_t)st->replies[i], 1);
	}
	add_one(out, "poolgate_http_timed_out_total",
		"Connections cut because headers, body or reply took too long.", METRIC_COUNTER,
		(int64_t)st->timed_out);
	add_one(out, "poolgate_http_displaced_total",
		"Idle connections cut to make room for others.", METRIC_COUNTER,
		(int64_t)st->displaced);
	add_one(out, "poolgate_http_deadlines_total",
		"Requests answered 500 because their time was over.", METRIC_COUNTER,
		(int64_t)st->deadlines);
}

/* ---- the pool ---- */

/* Sums over the GPUs of one server, or of all that have no series of their own. */
struct server_sums {
	struct slice name;
	int64_t fit, bytes, claimed, pending, claims;
	struct pool_split split;
};

static void sum_up(const struct pool_view *v, size_t index, struct server_sums *add)
{
	const struct gpu_server *s = &v->inventory.servers[index];

	add->claims += v->usage.n_claims[index];
	for (size_t g = 0; g < s->n_gpus; g++) {
		add->fit += inventory_usable(s, &s->gpus[g]);
		add->bytes += (int64_t)s->gpus[g].bytes;
		add->claimed += (int64_t)v->usage.claimed[s->first_gpu + g];
		add->pending += (int64_t)v->usage.pending[s->first_gpu + g];
	}
	pool_split_server(v, index, &add->split);
}

/* One element for each series, in the arena; NULL without memory. */
static struct server_sums *sum_all(const struct pool_view *v, struct arena *a, size_t *ret_n)
{
	size_t n = v->inventory.n_servers;
	size_t series = n > METRIC_SERVERS_MAX ? METRIC_SERVERS_MAX + 1 : n;
	struct server_sums *sums = arena_array(a, series, sizeof(*sums));

	for (size_t i = 0; sums && i < n; i++) {
		struct server_sums *to = &sums[i < METRIC_SERVERS_MAX ? i : METRIC_SERVERS_MAX];

		to->name = i < METRIC_SERVERS_MAX ? slice_of(v->inventory.servers[i].name)
						  : SLICE(METRIC_SERVERS_REST);
		sum_up(v, i, to);
	}
	*ret_n = series;
	return sums;
}

static void add_sums(struct buf *out, const struct server_sums *sums, size_t n)
{
	static const struct {
		const char *name, *help;
		size_t at;
	} rows[] = {
		{"poolgate_pool_gpus_usable", "GPUs that can take a claim.",
			offsetof(struct server_sums, fit)},
		{"poolgate_pool_memory_bytes", "Memory of all GPUs.",
			offsetof(struct server_sums, bytes)},
		{"poolgate_pool_claimed_bytes",
			"Memory that is promised to pods; more than there is when over-promised.",
			offsetof(struct server_sums, claimed)},
		{"poolgate_pool_pending_bytes",
			"Memory of it that is promised to pods admitted less than 45 s ago.",
			offsetof(struct server_sums, pending)},
		{"poolgate_pool_claims", "Claims.", offsetof(struct server_sums, claims)},
	};

	for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
		metric_head(out, rows[r].name, rows[r].help, METRIC_GAUGE);
		for (size_t i = 0; i < n; i++) {
			struct slice labels[] = {SLICE("server"), sums[i].name};
			int64_t value;

			memcpy(&value, (const char *)&sums[i] + rows[r].at, sizeof(value));
			metric_sample(out, rows[r].name, labels, 2, value, 1);
		}
	}
}

static void add_split(struct buf *out, const struct server_sums *sums, size_t n)
{
	metric_head(out, "poolgate_pool_bytes",
		"Memory of all GPUs by state: bound, pending, and what nobody holds: free, "
		"drained, "
		"stale, unfit, missing. The states add up to the whole.",
		METRIC_GAUGE);
	for (size_t i = 0; i < n; i++)
		for (int s = 0; s < POOL_STATES; s++) {
			struct slice labels[] = {SLICE("server"), sums[i].name, SLICE("state"),
				slice_of(pool_part_name((enum pool_part)s))};

			metric_sample(out, "poolgate_pool_bytes", labels, 4,
				(int64_t)sums[i].split.bytes[s], 1);
		}
}

static void add_claims(struct buf *out, struct ledger *l)
{
	size_t n[CLAIM_STATES];

	if (!l->ops->count)
		return;
	l->ops->count(l, n);
	metric_head(out, "poolgate_claims",
		"Claims by state; one that spans several servers counts at each.", METRIC_GAUGE);
	for (int s = 0; s < CLAIM_STATES; s++) {
		struct slice labels[] = {
			SLICE("state"), slice_of(claim_state_name((enum claim_state)s))};

		metric_sample(out, "poolgate_claims", labels, 2, (int64_t)n[s], 1);
	}
}

static void add_pool(struct buf *out, struct ledger *l)
{
	struct pool_view view;
	struct server_sums *sums;
	struct err err = {0};
	struct arena a;
	size_t n;

	arena_init(&a, VIEW_ARENA_MAX);
	if (l->ops->view(l, false, &a, &view, &err) == 0) {
		sums = sum_all(&view, &a, &n);
		if (sums) {
			add_sums(out, sums, n);
			add_split(out, sums, n);
		}
	}
	arena_release(&a);
	add_claims(out, l);
}

static void add_build(struct buf *out, const char *version)
{
	struct slice labels[] = {
		SLICE("version"), slice_of(version), SLICE("compiler"), SLICE(__VERSION__)};

	metric_head(out, "poolgate_build_info", "1; the labels say what runs.", METRIC_GAUGE);
	metric_sample(out, "poolgate_build_info", labels, 4, 1, 1);
}

void metrics_page(const struct metrics *m, const struct http_stats *st, struct ledger *ledger,
	const char *version, struct buf *out)
{
	metrics_render(m, out);
	if (st)
		add_transport(out, st);
	add_pool(out, ledger);
	add_build(out, version);
	process_metrics(out);
}
