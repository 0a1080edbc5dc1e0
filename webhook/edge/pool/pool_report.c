/* SPDX-License-Identifier: Apache-2.0 */
/* edge: writing the JSON of /v1/pool, whole or a page of it. */
#include "webhook/edge/pool/pool_report.h"

#include <stdlib.h>

#include "base/clock.h"
#include "webhook/edge/pool/pool_states.h"

/* Of a view: 10 000 servers with 8 GPUs and 100 000 claims take about 40 MiB. */
#define VIEW_MAX (256u << 20)

/* One claim's part on one GPU. */
struct page_hold {
	size_t gpu; /* among all GPUs of the inventory */
	const struct claim *claim;
	uint64_t bytes;
};

struct writer {
	const struct pool_view *v;
	struct slice waiting;
	struct buf *out;
	bool paged;
	/* Of a page only: */
	struct page_hold *holds; /* sorted by GPU */
	size_t n_holds;
};

struct summary {
	uint64_t gpus, fit, free;
};

/* ---- members ---- */

/* key comes with what stands before and behind it: `,"name":`. */
static void add_str(struct buf *out, const char *key, const char *value)
{
	buf_str(out, key);
	buf_json_str(out, slice_of(value ? value : ""));
}

static void add_u64(struct buf *out, const char *key, uint64_t n)
{
	buf_str(out, key);
	buf_u64(out, n > INT64_MAX ? INT64_MAX : n);
}

static void add_bool(struct buf *out, const char *key, bool value)
{
	buf_str(out, key);
	buf_str(out, value ? "true" : "false");
}

/* ---- servers ---- */

/* The first hold on that GPU or behind it. */
static size_t first_hold(const struct writer *w, size_t gpu)
{
	size_t low = 0, high = w->n_holds;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (w->holds[mid].gpu < gpu)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void add_holds(const struct writer *w, size_t gpu)
{
	size_t first = first_hold(w, gpu), end = first;

	buf_str(w->out, ",\"holds\":[");
	for (; end < w->n_holds && w->holds[end].gpu == gpu; end++) {
		const struct page_hold *h = &w->holds[end];

		if (end - first >= POOL_PAGE_HOLDS)
			continue;
		add_str(w->out,
			end > first ? ",{\"namespace\":" : "{\"namespace\":", h->claim->namespace);
		add_str(w->out, ",\"name\":", h->claim->name);
		add_str(w->out, ",\"state\":", claim_state_name(h->claim->state));
		add_u64(w->out, ",\"bytes\":", h->bytes);
		buf_char(w->out, '}');
	}
	end -= first;
	add_u64(w->out, "],\"moreHolds\":", end > POOL_PAGE_HOLDS ? end - POOL_PAGE_HOLDS : 0);
}

static void add_gpu(const struct writer *w, const struct gpu_server *s, size_t i)
{
	const struct gpu *g = &s->gpus[i];
	uint64_t claimed = w->v->usage.claimed[s->first_gpu + i];

	add_str(w->out, i ? ",{\"id\":" : "{\"id\":", g->id);
	add_str(w->out, ",\"model\":", g->model);
	add_u64(w->out, ",\"bytes\":", g->bytes);
	add_u64(w->out, ",\"freeBytes\":", g->missing ? 0 : gpu_left(g, claimed));
	add_u64(w->out, ",\"claimedBytes\":", claimed);
	add_u64(w->out, ",\"pendingBytes\":", w->v->usage.pending[s->first_gpu + i]);
	add_bool(w->out, ",\"fit\":", g->fit);
	add_bool(w->out, ",\"fresh\":", g->fresh);
	add_bool(w->out, ",\"missing\":", g->missing);
	add_str(w->out, ",\"why\":", g->why);
	if (w->paged) {
		add_str(w->out, ",\"state\":", pool_part_name(pool_part_of(s, g)));
		add_holds(w, s->first_gpu + i);
	}
	buf_char(w->out, '}');
}

static void add_server(const struct writer *w, size_t i)
{
	const struct gpu_server *s = &w->v->inventory.servers[i];

	add_str(w->out, "{\"name\":", s->name);
	add_str(w->out, ",\"address\":", s->address);
	buf_str(w->out, ",\"labels\":{");
	for (size_t j = 0; j < s->n_labels; j++) {
		add_str(w->out, j ? "," : "", s->labels[j].key);
		add_str(w->out, ":", s->labels[j].value);
	}
	add_bool(w->out, "},\"drain\":", s->drain);
	add_u64(w->out, ",\"claims\":", w->v->usage.n_claims[i]);
	if (w->paged)
		add_bool(w->out, ",\"probed\":", s->probe_url != NULL);
	buf_str(w->out, ",\"gpus\":[");
	for (size_t j = 0; j < s->n_gpus; j++)
		add_gpu(w, s, j);
	buf_str(w->out, "]}");
}

static void add_servers(const struct writer *w, size_t first, size_t end)
{
	buf_str(w->out, "{\"servers\":[");
	for (size_t i = first; i < end; i++) {
		if (i > first)
			buf_char(w->out, ',');
		add_server(w, i);
	}
}

/* ---- claims ---- */

static void add_claims(const struct writer *w, size_t first, size_t end)
{
	char since[CLOCK_TEXT_SIZE];

	buf_str(w->out, "],\"claims\":[");
	for (size_t i = first; i < end; i++) {
		const struct claim *c = &w->v->claims[i];

		add_str(w->out, i > first ? ",{\"namespace\":" : "{\"namespace\":", c->namespace);
		add_str(w->out, ",\"name\":", c->name);
		add_str(w->out, ",\"uid\":", c->key);
		add_str(w->out, ",\"state\":", claim_state_name(c->state));
		add_str(w->out, ",\"since\":", clock_text(c->since_ms / 1000, since));
		buf_str(w->out, ",\"parts\":[");
		for (size_t k = 0; k < c->n_parts; k++) {
			add_str(w->out, k ? ",{\"server\":" : "{\"server\":", c->parts[k].server);
			add_str(w->out, ",\"gpu\":", c->parts[k].gpu);
			add_u64(w->out, ",\"bytes\":", c->parts[k].bytes);
			buf_char(w->out, '}');
		}
		buf_str(w->out, "]}");
	}
}

/* ---- sums ---- */

static void add_states(const struct writer *w)
{
	const struct pool_view *v = w->v;
	struct pool_split split = {0};
	uint64_t bytes = 0, pending = 0;

	for (size_t i = 0; i < v->inventory.n_servers; i++)
		pool_split_server(v, i, &split);
	for (size_t i = 0; i < v->n_claims; i++)
		pending += v->claims[i].state == CLAIM_PENDING;
	for (int s = 0; s < POOL_STATES; s++) {
		buf_str(w->out, s ? ",\"" : ",\"states\":{\"");
		buf_str(w->out, pool_part_name((enum pool_part)s));
		add_u64(w->out, "\":", split.bytes[s]);
		bytes += split.bytes[s];
	}
	add_u64(w->out, "},\"bytes\":", bytes);
	add_u64(w->out, ",\"overBytes\":", split.over);
	add_u64(w->out, ",\"pending\":", pending);
}

static void add_summary(const struct writer *w)
{
	const struct pool_view *v = w->v;
	struct summary sum = {0};

	for (size_t i = 0; i < v->inventory.n_servers; i++) {
		const struct gpu_server *s = &v->inventory.servers[i];

		for (size_t j = 0; j < s->n_gpus; j++) {
			sum.gpus++;
			if (!inventory_usable(s, &s->gpus[j]))
				continue;
			sum.fit++;
			sum.free += gpu_left(&s->gpus[j], v->usage.claimed[s->first_gpu + j]);
		}
	}
	add_u64(w->out, "],\"summary\":{\"gpus\":", sum.gpus);
	add_u64(w->out, ",\"fit\":", sum.fit);
	add_u64(w->out, ",\"freeBytes\":", sum.free);
	add_u64(w->out, ",\"claims\":", v->n_claims);
	if (w->paged)
		add_states(w);
	buf_char(w->out, '}');
	if (!w->waiting.at)
		return;
	buf_str(w->out, ",\"waiting\":");
	buf_slice(w->out, w->waiting);
}

static int finish(struct buf *out, struct err *err)
{
	buf_str(out, "}\n");
	if (!out->failed)
		return 0;
	return out->full ? err_set(err, ERR_TOOBIG, "the pool's report is over %zu bytes", out->max)
			 : err_set(err, ERR_NOMEM, "out of memory while writing the pool");
}

int pool_report_write(
	const struct pool_view *v, struct slice waiting, struct buf *out, struct err *err)
{
	struct writer w = {.v = v, .waiting = waiting, .out = out};

	add_servers(&w, 0, v->inventory.n_servers);
	add_claims(&w, 0, v->n_claims);
	add_summary(&w);
	return finish(out, err);
}

/* ---- a page ---- */

static int by_gpu(const void *a, const void *b)
{
	const struct page_hold *x = a, *y = b;

	if (x->gpu != y->gpu)
		return x->gpu < y->gpu ? -1 : 1;
	if ((x->claim->state == CLAIM_PENDING) != (y->claim->state == CLAIM_PENDING))
		return y->claim->state == CLAIM_PENDING ? -1 : 1;
	/* What has been held for longest stands first: bars keep their order while claims come and
	 * go. */
	if (x->claim->since_ms != y->claim->since_ms)
		return x->claim->since_ms < y->claim->since_ms ? -1 : 1;
	return x->claim < y->claim ? -1 : x->claim > y->claim;
}

static int index_holds(struct writer *w, struct arena *a, struct err *err)
{
	const struct pool_view *v = w->v;
	size_t n = 0;

	for (size_t i = 0; i < v->n_claims; i++)
		n += v->claims[i].n_parts;
	w->holds = arena_array(a, n, sizeof(*w->holds));
	if (!w->holds)
		return err_set(err, ERR_NOMEM, "out of memory while writing the pool");
	for (size_t i = 0; i < v->n_claims; i++)
		for (size_t k = 0; k < v->claims[i].n_parts; k++) {
			const struct claim_part *part = &v->claims[i].parts[k];
			const struct gpu_server *s =
				inventory_server(&v->inventory, slice_of(part->server));
			const struct gpu *g = s ? inventory_gpu(s, slice_of(part->gpu)) : NULL;

			if (g)
				w->holds[w->n_holds++] = (struct page_hold){
					.gpu = s->first_gpu + (size_t)(g - s->gpus),
					.claim = &v->claims[i],
					.bytes = part->bytes};
		}
	if (w->n_holds > 1)
		qsort(w->holds, w->n_holds, sizeof(*w->holds), by_gpu);
	return 0;
}

/* One word for a whole server: what keeps it from taking claims, or how full it is. */
static const char *map_word(const struct pool_view *v, size_t i)
{
	const struct gpu_server *s = &v->inventory.servers[i];
	struct pool_split split = {0};
	bool usable = false;

	if (s->n_gpus == 0)
		return pool_part_name(POOL_STALE);
	for (size_t g = 0; g < s->n_gpus; g++)
		usable = usable || inventory_usable(s, &s->gpus[g]);
	pool_split_server(v, i, &split);
	if (split.over)
		return "over";
	if (!usable)
		return pool_part_name(pool_part_of(s, &s->gpus[0]));
	if (split.bytes[POOL_BOUND] + split.bytes[POOL_PENDING] == 0)
		return pool_part_name(POOL_FREE);
	return split.bytes[POOL_FREE] ? "part" : pool_part_name(POOL_BOUND);
}

static void add_map(const struct writer *w)
{
	size_t n = w->v->inventory.n_servers;

	buf_str(w->out, ",\"map\":[");
	for (size_t i = 0; n > POOL_PAGE_SERVERS && i < n && i < POOL_PAGE_MAP; i++) {
		add_str(w->out, i ? ",[" : "[", w->v->inventory.servers[i].name);
		add_str(w->out, ",", map_word(w->v, i));
		buf_char(w->out, ']');
	}
	buf_char(w->out, ']');
}

/* A list's page as a range of it. */
struct range {
	size_t page, first, end;
};

static struct range range_of(uint64_t page, size_t each, size_t total)
{
	size_t last = total ? (total + each - 1) / each : 1;
	struct range r = {.page = page < 1 ? 1 : page > last ? last : (size_t)page};

	r.first = (r.page - 1) * each;
	r.end = total - r.first > each ? r.first + each : total;
	return r;
}

static void add_range(struct buf *out, const char *key, size_t page, size_t each, size_t total)
{
	add_u64(out, key, page);
	add_u64(out, ",\"each\":", each);
	add_u64(out, ",\"total\":", total);
	buf_char(out, '}');
}

int pool_report_page(const struct pool_view *v, struct slice waiting, const struct pool_page *page,
	struct arena *a, struct buf *out, struct err *err)
{
	size_t n_servers = v->inventory.n_servers;
	struct range servers = range_of(page->servers, POOL_PAGE_SERVERS, n_servers);
	struct range claims = range_of(page->claims, POOL_PAGE_CLAIMS, v->n_claims);
	struct writer w = {.v = v, .waiting = waiting, .out = out, .paged = true};
	int rc = index_holds(&w, a, err);

	if (rc != 0)
		return rc;
	add_servers(&w, servers.first, servers.end);
	add_claims(&w, claims.first, claims.end);
	add_summary(&w);
	add_range(out, ",\"pages\":{\"servers\":{\"page\":", servers.page, POOL_PAGE_SERVERS,
		n_servers);
	add_range(out, ",\"claims\":{\"page\":", claims.page, POOL_PAGE_CLAIMS, v->n_claims);
	buf_char(out, '}');
	add_map(&w);
	return finish(out, err);
}

int pool_report(struct ledger *l, struct buf *out, struct err *err)
{
	const struct slice nobody = {0};
	struct pool_view view;
	struct arena a;
	int rc;

	arena_init(&a, VIEW_MAX);
	rc = l->ops->view(l, true, &a, &view, err);
	if (rc == 0)
		rc = pool_report_write(&view, nobody, out, err);
	arena_release(&a);
	return rc;
}
