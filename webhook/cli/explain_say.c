/* SPDX-License-Identifier: Apache-2.0 */
/* cli: what `poolgate explain` says: for people, and as JSON. */
#include <stdlib.h>

#include "base/rfc3339.h"
#include "webhook/cli/explain_impl.h"
#include "webhook/cli/pool_missing.h"
#include "webhook/core/pool/placement_say.h"

#define NAME_MAX 253
/* Of what the scheduler says. */
#define SAYS_MAX 1024

static unsigned long long mb_of(uint64_t bytes)
{
	return bytes / PLACEMENT_MB;
}

static struct pool_missing *find_missing(const struct explain *e, size_t *ret_n)
{
	return pool_missing_find(&e->pool.inv, &e->pool.usage, &e->demand, ret_n);
}

/* ---- for people ---- */

static void say_since(struct buf *out, int64_t since_ms)
{
	char text[RFC3339_SIZE];

	rfc3339_write(since_ms, text);
	buf_fmt(out, " since %s", text);
}

static void say_pod(struct buf *out, struct slice namespace, struct slice name)
{
	say_word(out, namespace, NAME_MAX);
	buf_char(out, '/');
	say_word(out, name, NAME_MAX);
}

static void say_gpu(const struct explain *e, struct buf *out, size_t server, const char *gpu)
{
	buf_str(out, "  ");
	say_word(out, slice_of(e->pool.inv.servers[server].name), NAME_MAX);
	buf_char(out, '/');
	say_word(out, slice_of(gpu), NAME_MAX);
}

/* Calls fn with each part that a claim has of this GPU; all: of every GPU of the server. */
typedef void part_fn(const struct explain *e, struct buf *out, size_t server, const struct claim *c,
	const struct claim_part *p);

static void each_part(
	const struct explain *e, struct buf *out, size_t server, const char *gpu, part_fn *fn)
{
	const struct server_status *s = &e->pool.servers[server].status;

	for (size_t c = 0; c < s->n_claims; c++)
		for (size_t p = 0; p < s->claims[c].claim.n_parts; p++) {
			const struct claim_part *part = &s->claims[c].claim.parts[p];

			if (!gpu || strcmp(part->gpu, gpu) == 0)
				fn(e, out, server, &s->claims[c].claim, part);
		}
}

static void say_own(const struct explain *e, struct buf *out, size_t server, const struct claim *c,
	const struct claim_part *p)
{
	if (!slice_is(e->pool.self, c->key))
		return;
	say_gpu(e, out, server, p->gpu);
	buf_fmt(out, " %llu MB, %s", mb_of(p->bytes), claim_state_name(c->state));
	say_since(out, c->since_ms);
	buf_char(out, '\n');
}

static void say_holder(const struct explain *e, struct buf *out, size_t server,
	const struct claim *c, const struct claim_part *p)
{
	(void)e;
	(void)server;
	buf_str(out, "    ");
	say_pod(out, slice_of(c->namespace), slice_of(c->name));
	buf_fmt(out, " holds %llu MB", mb_of(p->bytes));
	say_since(out, c->since_ms);
	buf_char(out, '\n');
}

static void say_missing(const struct explain *e, struct buf *out)
{
	size_t n;
	struct pool_missing *all = find_missing(e, &n);
	uint64_t bytes = 0;

	for (size_t i = 0; i < n; i++)
		bytes += all[i].bytes;
	if (n)
		buf_fmt(out, "%zu GPU%s and %llu MB are missing, least where:\n", n,
			n == 1 ? "" : "s", mb_of(bytes));
	for (size_t i = 0; i < n; i++) {
		const char *gpu = e->pool.inv.servers[all[i].server].gpus[all[i].gpu].id;

		say_gpu(e, out, all[i].server, gpu);
		buf_fmt(out, " lacks %llu MB:\n", mb_of(all[i].bytes));
		each_part(e, out, all[i].server, gpu, say_holder);
	}
	free(all);
}

/* Why it does not run, though it has what it asked for. */
static void say_unstarted(const struct explain *e, struct buf *out)
{
	buf_str(out, e->unplaced ? "claimed, waits for a node" : "it does not run");
	if (!e->unplaced || e->node_says.len)
		buf_str(out, ": ");
	say_word(out, e->unplaced ? e->node_says : slice_of(e->why), SAYS_MAX);
}

/* The pod that stands at that place among those who wait, or NULL. */
static const struct queue_pod *at_place(const struct explain *e, size_t place)
{
	for (size_t i = 0; i < e->pool.n_pods; i++)
		if (e->round.entries[i].place == place &&
			e->round.entries[i].verdict != QUEUE_START)
			return &e->pool.pods[i];
	return NULL;
}

static size_t n_before(const struct explain *e)
{
	size_t place = e->round.entries[e->self].place;

	if (place == 0 || e->round.entries[e->self].verdict == QUEUE_START)
		return 0;
	return place - 1 < EXPLAIN_NAMED_MAX ? place - 1 : EXPLAIN_NAMED_MAX;
}

static void say_before(const struct explain *e, struct buf *out)
{
	size_t n = n_before(e);

	if (n)
		buf_fmt(out, "before it, the first %zu:\n", n);
	for (size_t place = 1; place <= n; place++) {
		const struct queue_pod *p = at_place(e, place);

		if (!p)
			continue;
		buf_str(out, "  ");
		say_pod(out, p->namespace, p->name);
		buf_fmt(out, " priority %lld, waits", (long long)p->priority);
		say_since(out, p->since_ms);
		buf_char(out, '\n');
	}
}

void explain_say(const struct explain *e, struct buf *out)
{
	say_pod(out, slice_of(e->namespace), slice_of(e->name));
	switch (e->state) {
	case EXPLAIN_HOLDS:
		buf_str(out, " holds:\n");
		for (size_t s = 0; s < e->pool.n_servers; s++)
			each_part(e, out, s, NULL, say_own);
		if (*e->why) {
			say_unstarted(e, out);
			buf_char(out, '\n');
		}
		break;
	case EXPLAIN_WAITS:
		buf_str(out, " waits: ");
		queue_say(&e->world, e->pool.pods, e->pool.n_pods, &e->round, e->self, out);
		buf_char(out, '\n');
		say_missing(e, out);
		say_before(e, out);
		break;
	case EXPLAIN_FINISHED:
		buf_str(out, " has finished and holds nothing\n");
		break;
	case EXPLAIN_LOST:
		buf_str(out, " holds nothing, although it is injected and does not wait: ");
		buf_str(out, e->refusal.code
				     ? e->refusal.msg
				     : "there is room for it now, and the leader gives it that");
		buf_char(out, '\n');
		if (e->refusal.code)
			say_missing(e, out);
		break;
	case EXPLAIN_NOT_OURS:
		buf_str(out, " is not injected: ");
		buf_str(out, e->not_ours ? e->not_ours : "it asks for nothing of the pool");
		buf_char(out, '\n');
		break;
	}
	if (e->use)
		policy_use_say(e->use, out);
	if (e->uses.unknown.code)
		buf_fmt(out, "what the policies of some namespaces say cannot be read: %s\n",
			e->uses.unknown.msg);
	pool_read_say_unreadable(&e->pool, out);
	if (e->state == EXPLAIN_WAITS && e->settings.code) {
		buf_str(out,
			"the settings of poolgate cannot be read, so no priority counts here: ");
		buf_str(out, e->settings.msg);
		buf_char(out, '\n');
	}
}

/* ---- as JSON ---- */

static void json_text(struct buf *out, const char *key, struct slice value)
{
	buf_fmt(out, "\"%s\":", key);
	buf_json_str(out, value);
}

static void json_part(const struct explain *e, struct buf *out, size_t server,
	const struct claim *c, const struct claim_part *p)
{
	char since[RFC3339_SIZE];

	rfc3339_write(c->since_ms, since);
	buf_str(out, out->data[out->len - 1] == '[' ? "{" : ",{");
	json_text(out, "namespace", slice_of(c->namespace));
	buf_char(out, ',');
	json_text(out, "name", slice_of(c->name));
	buf_char(out, ',');
	json_text(out, "server", slice_of(e->pool.inv.servers[server].name));
	buf_char(out, ',');
	json_text(out, "gpu", slice_of(p->gpu));
	buf_fmt(out, ",\"bytes\":%llu,\"state\":\"%s\",\"since\":\"%s\"}",
		(unsigned long long)p->bytes, claim_state_name(c->state), since);
}

static void json_own(const struct explain *e, struct buf *out, size_t server, const struct claim *c,
	const struct claim_part *p)
{
	if (slice_is(e->pool.self, c->key))
		json_part(e, out, server, c, p);
}

static void json_unstarted(const struct explain *e, struct buf *out)
{
	struct buf why;

	if (!*e->why)
		return;
	buf_init(&why, SAYS_MAX * 2);
	say_unstarted(e, &why);
	out->failed = out->failed || why.failed;
	buf_char(out, ',');
	json_text(out, "why", buf_as_slice(&why));
	buf_release(&why);
}

static void json_missing(const struct explain *e, struct buf *out)
{
	size_t n;
	struct pool_missing *all = find_missing(e, &n);

	buf_str(out, ",\"missing\":[");
	for (size_t i = 0; i < n; i++) {
		const struct gpu_server *s = &e->pool.inv.servers[all[i].server];

		buf_str(out, i ? ",{" : "{");
		json_text(out, "server", slice_of(s->name));
		buf_char(out, ',');
		json_text(out, "gpu", slice_of(s->gpus[all[i].gpu].id));
		buf_fmt(out, ",\"bytes\":%llu,\"heldBy\":[", (unsigned long long)all[i].bytes);
		each_part(e, out, all[i].server, s->gpus[all[i].gpu].id, json_part);
		buf_str(out, "]}");
	}
	buf_char(out, ']');
	free(all);
}

static void json_waits(const struct explain *e, struct buf *out)
{
	struct buf why;
	size_t n = n_before(e);

	buf_init(&why, 1u << 16);
	queue_say(&e->world, e->pool.pods, e->pool.n_pods, &e->round, e->self, &why);
	out->failed = out->failed || why.failed;
	buf_char(out, ',');
	json_text(out, "why", buf_as_slice(&why));
	buf_release(&why);
	buf_fmt(out, ",\"place\":%zu,\"waiting\":%zu,\"before\":[", e->round.entries[e->self].place,
		e->round.depth);
	for (size_t place = 1; place <= n; place++) {
		const struct queue_pod *p = at_place(e, place);

		if (!p)
			continue;
		buf_str(out, out->data[out->len - 1] == '[' ? "{" : ",{");
		json_text(out, "namespace", p->namespace);
		buf_char(out, ',');
		json_text(out, "name", p->name);
		buf_fmt(out, ",\"priority\":%lld}", (long long)p->priority);
	}
	buf_char(out, ']');
	json_missing(e, out);
}

void explain_json(const struct explain *e, struct buf *out)
{
	static const char *const states[] = {"holds", "waits", "finished", "lost", "not-injected"};

	buf_char(out, '{');
	json_text(out, "namespace", slice_of(e->namespace));
	buf_char(out, ',');
	json_text(out, "name", slice_of(e->name));
	buf_char(out, ',');
	json_text(out, "state", slice_of(states[e->state]));
	if (e->state == EXPLAIN_HOLDS) {
		buf_str(out, ",\"holds\":[");
		for (size_t s = 0; s < e->pool.n_servers; s++)
			each_part(e, out, s, NULL, json_own);
		buf_char(out, ']');
		json_unstarted(e, out);
	} else if (e->state == EXPLAIN_WAITS) {
		json_waits(e, out);
	} else if (e->state == EXPLAIN_LOST && e->refusal.code) {
		buf_char(out, ',');
		json_text(out, "why", slice_of(e->refusal.msg));
		json_missing(e, out);
	} else if (e->state == EXPLAIN_NOT_OURS && e->not_ours) {
		buf_char(out, ',');
		json_text(out, "why", slice_of(e->not_ours));
	}
	if (e->use) {
		buf_str(out, ",\"policy\":");
		policy_use_json(e->use, out);
	}
	buf_fmt(out, ",\"unreadableServers\":%zu}\n", e->pool.n_unreadable);
}
