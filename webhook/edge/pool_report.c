/* SPDX-License-Identifier: Apache-2.0 */
/* edge: building the JSON of /v1/pool. */
#include "webhook/edge/pool_report.h"

#include <time.h>

#include "base/json_doc.h"

#define TIME_SIZE 32
/* Of a view: 10 000 servers with 8 GPUs and 100 000 claims take about 40 MiB. */
#define VIEW_MAX (256u << 20)

struct summary {
	int64_t gpus, fit, free;
};

static int64_t number(uint64_t n)
{
	return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

static void set_str(struct json_doc *o, const char *key, const char *value)
{
	json_doc_set_str(o, key, slice_of(value ? value : ""));
}

/* "2027-08-01T10:00:00Z" */
static const char *when(int64_t since_ms, char out[TIME_SIZE])
{
	time_t t = (time_t)(since_ms / 1000);
	struct tm tm;

	if (!gmtime_r(&t, &tm) || strftime(out, TIME_SIZE, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		out[0] = '\0';
	return out;
}

static struct json_doc *gpu_doc(
	const struct pool_view *v, const struct gpu_server *s, size_t i, struct summary *sum)
{
	const struct gpu *g = &s->gpus[i];
	uint64_t claimed = v->usage.claimed[s->first_gpu + i];
	uint64_t free = g->missing || claimed > g->bytes ? 0 : g->bytes - claimed;
	struct json_doc *o = json_doc_object();

	set_str(o, "id", g->id);
	set_str(o, "model", g->model);
	json_doc_set_int(o, "bytes", number(g->bytes));
	json_doc_set_int(o, "freeBytes", number(free));
	json_doc_set_int(o, "claimedBytes", number(claimed));
	json_doc_set_int(o, "pendingBytes", number(v->usage.pending[s->first_gpu + i]));
	json_doc_set_bool(o, "fit", g->fit);
	json_doc_set_bool(o, "fresh", g->fresh);
	json_doc_set_bool(o, "missing", g->missing);
	set_str(o, "why", g->why);
	sum->gpus++;
	if (inventory_usable(s, g)) {
		sum->fit++;
		sum->free += number(free);
	}
	return o;
}

static struct json_doc *server_doc(const struct pool_view *v, size_t i, struct summary *sum)
{
	const struct gpu_server *s = &v->inventory.servers[i];
	struct json_doc *o = json_doc_object(), *labels = json_doc_object();
	struct json_doc *gpus = json_doc_array();

	set_str(o, "name", s->name);
	set_str(o, "address", s->address);
	for (size_t j = 0; j < s->n_labels; j++)
		set_str(labels, s->labels[j].key, s->labels[j].value);
	json_doc_set(o, "labels", labels);
	json_doc_set_bool(o, "drain", s->drain);
	json_doc_set_int(o, "claims", v->usage.n_claims[i]);
	for (size_t j = 0; j < s->n_gpus; j++)
		json_doc_push(gpus, gpu_doc(v, s, j, sum));
	json_doc_set(o, "gpus", gpus);
	return o;
}

static struct json_doc *claim_doc(const struct claim *c)
{
	struct json_doc *o = json_doc_object(), *parts = json_doc_array();
	char since[TIME_SIZE];

	set_str(o, "namespace", c->namespace);
	set_str(o, "name", c->name);
	set_str(o, "uid", c->key);
	set_str(o, "state", claim_state_name(c->state));
	set_str(o, "since", when(c->since_ms, since));
	for (size_t i = 0; i < c->n_parts; i++) {
		struct json_doc *part = json_doc_object();

		set_str(part, "server", c->parts[i].server);
		set_str(part, "gpu", c->parts[i].gpu);
		json_doc_set_int(part, "bytes", number(c->parts[i].bytes));
		json_doc_push(parts, part);
	}
	json_doc_set(o, "parts", parts);
	return o;
}

/* A builder may have run out of memory anywhere: then members are missing. Count what must be there. */
static bool complete(const struct json_doc *root, const struct pool_view *v)
{
	const struct json_doc *servers = json_doc_get(root, "servers");
	const struct json_doc *claims = json_doc_get(root, "claims");
	size_t i = 0;

	if (json_doc_count(root) != 3 || json_doc_count(servers) != v->inventory.n_servers ||
		json_doc_count(claims) != v->n_claims ||
		json_doc_count(json_doc_get(root, "summary")) != 4)
		return false;
	for (const struct json_doc *s = json_doc_first(servers); s; s = json_doc_next(s), i++) {
		const struct json_doc *gpus = json_doc_get(s, "gpus");

		if (json_doc_count(s) != 6 ||
			json_doc_count(json_doc_get(s, "labels")) !=
				v->inventory.servers[i].n_labels ||
			json_doc_count(gpus) != v->inventory.servers[i].n_gpus)
			return false;
		for (const struct json_doc *g = json_doc_first(gpus); g; g = json_doc_next(g))
			if (json_doc_count(g) != 10)
				return false;
	}
	i = 0;
	for (const struct json_doc *c = json_doc_first(claims); c; c = json_doc_next(c), i++) {
		const struct json_doc *parts = json_doc_get(c, "parts");

		if (json_doc_count(c) != 6 || json_doc_count(parts) != v->claims[i].n_parts)
			return false;
		for (const struct json_doc *p = json_doc_first(parts); p; p = json_doc_next(p))
			if (json_doc_count(p) != 3)
				return false;
	}
	return true;
}

static struct json_doc *pool_doc(const struct pool_view *v)
{
	struct json_doc *root = json_doc_object(), *servers = json_doc_array();
	struct json_doc *claims = json_doc_array(), *summary = json_doc_object();
	struct summary sum = {0};

	for (size_t i = 0; i < v->inventory.n_servers; i++)
		json_doc_push(servers, server_doc(v, i, &sum));
	for (size_t i = 0; i < v->n_claims; i++)
		json_doc_push(claims, claim_doc(&v->claims[i]));
	json_doc_set_int(summary, "gpus", sum.gpus);
	json_doc_set_int(summary, "fit", sum.fit);
	json_doc_set_int(summary, "freeBytes", sum.free);
	json_doc_set_int(summary, "claims", number(v->n_claims));
	json_doc_set(root, "servers", servers);
	json_doc_set(root, "claims", claims);
	json_doc_set(root, "summary", summary);
	return root;
}

int pool_report_write(const struct pool_view *v, struct buf *out, struct err *err)
{
	struct json_doc *root = pool_doc(v);
	int rc;

	if (!complete(root, v))
		rc = err_set(err, ERR_NOMEM, "out of memory while writing the pool");
	else
		rc = json_doc_print(root, out, err);
	json_doc_free(root);
	if (rc == 0)
		buf_char(out, '\n');
	if (rc == 0 && out->failed)
		rc = err_set(err, ERR_TOOBIG, "the pool's report is over %zu bytes", out->max);
	return rc;
}

int pool_report(struct ledger *l, struct buf *out, struct err *err)
{
	struct pool_view view;
	struct arena a;
	int rc;

	arena_init(&a, VIEW_MAX);
	rc = l->ops->view(l, true, &a, &view, err);
	if (rc == 0)
		rc = pool_report_write(&view, out, err);
	arena_release(&a);
	return rc;
}
