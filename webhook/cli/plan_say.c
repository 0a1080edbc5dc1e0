/* SPDX-License-Identifier: Apache-2.0 */
/* cli: what `poolgate plan` says: for people, and as JSON. */
#include "webhook/cli/plan_impl.h"
#include "webhook/core/pool/placement_say.h"

#define NAME_MAX 253

bool plan_starts(const struct plan_work *w)
{
	return w->verdict == PLAN_PLAIN ||
	       (w->verdict == PLAN_PLACED && (int64_t)w->started == w->copies);
}

/* Copies beyond those that were looked at may start, too, where all of these do. */
static bool may_be_more(const struct plan_work *w)
{
	return w->started == w->looked && (int64_t)w->looked < w->copies;
}

/* ---- for people ---- */

static void say_who(const struct plan_work *w, struct buf *out)
{
	say_word(out, slice_of(w->file), NAME_MAX);
	buf_fmt(out, ":%u: ", w->line);
	say_word(out, w->kind, NAME_MAX);
	buf_char(out, ' ');
	say_word(out, w->namespace, NAME_MAX);
	buf_char(out, '/');
	say_word(out, w->name, NAME_MAX);
	buf_str(out, ": ");
}

static void say_rest(const struct plan_work *w, struct buf *out)
{
	const char *fate = w->waits ? "wait for its turn" : "be refused";

	if (w->copies == 1)
		buf_fmt(out, "would %s: ", fate);
	else
		buf_fmt(out,
			"%zu of %lld copies would start now, the others would %s: ", w->started,
			(long long)w->copies, w->waits ? "wait for their turn" : "be refused");
	buf_slice(out, w->why);
}

static void say_placed(const struct plan_work *w, struct buf *out)
{
	if (w->copies == 0)
		buf_str(out, "asks for no copies");
	else if (w->copies == 1 && w->started == 1)
		buf_str(out, "would start now");
	else if (may_be_more(w))
		buf_fmt(out, "at least %zu of %lld copies would start now; no more were looked at",
			w->looked, (long long)w->copies);
	else if (plan_starts(w))
		buf_fmt(out, "all %lld copies would start now", (long long)w->copies);
	else
		say_rest(w, out);
}

static void say_missing(const struct plan_job *job, const struct plan_work *w, struct buf *out)
{
	for (size_t i = 0; i < w->n_missing; i++) {
		const struct gpu_server *s = &job->pool.inv.servers[w->missing[i].server];

		buf_str(out, "  ");
		say_word(out, slice_of(s->name), NAME_MAX);
		buf_char(out, '/');
		say_word(out, slice_of(s->gpus[w->missing[i].gpu].id), NAME_MAX);
		buf_fmt(out, " lacks %llu MB\n",
			(unsigned long long)(w->missing[i].bytes / PLACEMENT_MB));
	}
}

static void say_work(const struct plan_job *job, const struct plan_work *w, struct buf *out)
{
	say_who(w, out);
	switch (w->verdict) {
	case PLAN_PLAIN:
		buf_str(out, "not concerned: ");
		buf_slice(out, w->why);
		break;
	case PLAN_INVALID:
		buf_str(out, "would be refused: ");
		if (w->path)
			buf_fmt(out, "%s: ", w->path);
		buf_slice(out, w->why);
		break;
	case PLAN_NEVER:
		buf_str(out, "never fits: ");
		buf_slice(out, w->why);
		break;
	case PLAN_PLACED:
		say_placed(w, out);
		break;
	}
	buf_char(out, '\n');
	plan_say_change(w, out);
	say_missing(job, w, out);
}

void plan_say(const struct plan_job *job, struct buf *out)
{
	if (job->n_works == 0)
		buf_str(out, "there are no pods in these manifests\n");
	for (size_t i = 0; i < job->n_works; i++)
		say_work(job, &job->works[i], out);
	for (const struct policy_use *u = job->uses.all; u; u = u->next)
		policy_use_say(u, out);
	if (job->uses.unknown.code)
		buf_fmt(out, "what the policies of some namespaces say cannot be read: %s\n",
			job->uses.unknown.msg);
	plan_say_bounds(job, out);
	pool_read_say_unreadable(&job->pool, out);
	if (job->priorities.code) {
		buf_str(out, "priority classes cannot be read, so those of the manifests have no "
			     "priority here: ");
		buf_str(out, job->priorities.msg);
		buf_char(out, '\n');
	}
}

/* ---- as JSON ---- */

static const char *verdict_of(const struct plan_work *w)
{
	static const char *const names[] = {"not-concerned", "refused", "never", "starts", "waits"};

	if (w->verdict != PLAN_PLACED)
		return names[w->verdict];
	return plan_starts(w) ? "starts" : w->waits ? "waits" : "refused";
}

static void member(struct buf *out, const char *key, struct slice value)
{
	buf_fmt(out, ",\"%s\":", key);
	buf_json_str(out, value);
}

static void missing(const struct plan_job *job, const struct plan_work *w, struct buf *out)
{
	buf_str(out, ",\"missing\":[");
	for (size_t i = 0; i < w->n_missing; i++) {
		const struct gpu_server *s = &job->pool.inv.servers[w->missing[i].server];

		buf_fmt(out, "%s{\"bytes\":%llu", i ? "," : "",
			(unsigned long long)w->missing[i].bytes);
		member(out, "server", slice_of(s->name));
		member(out, "gpu", slice_of(s->gpus[w->missing[i].gpu].id));
		buf_char(out, '}');
	}
	buf_char(out, ']');
}

static void work(const struct plan_job *job, const struct plan_work *w, struct buf *out)
{
	buf_fmt(out, "{\"verdict\":\"%s\"", verdict_of(w));
	member(out, "kind", w->kind);
	member(out, "namespace", w->namespace);
	member(out, "name", w->name);
	member(out, "file", slice_of(w->file));
	buf_fmt(out, ",\"line\":%u,\"copies\":%lld", w->line, (long long)w->copies);
	if (w->verdict == PLAN_PLACED)
		buf_fmt(out, ",\"looked\":%zu,\"start\":%zu", w->looked, w->started);
	if (w->path)
		member(out, "path", slice_of(w->path));
	if (w->why.len)
		member(out, "why", w->why);
	if (w->depth)
		buf_fmt(out, ",\"place\":%zu,\"waiting\":%zu", w->place, w->depth);
	if (w->n_missing)
		missing(job, w, out);
	plan_json_change(w, out);
	buf_char(out, '}');
}

void plan_json(const struct plan_job *job, struct buf *out)
{
	buf_str(out, "{\"workloads\":[");
	for (size_t i = 0; i < job->n_works; i++) {
		buf_str(out, i ? ",\n" : "\n");
		work(job, &job->works[i], out);
	}
	buf_str(out, "\n],\"policies\":[");
	for (const struct policy_use *u = job->uses.all; u; u = u->next) {
		buf_str(out, u == job->uses.all ? "" : ",");
		policy_use_json(u, out);
	}
	buf_char(out, ']');
	plan_json_bounds(job, out);
	buf_fmt(out, ",\"unreadableServers\":%zu}\n", job->pool.n_unreadable);
}
