/* SPDX-License-Identifier: Apache-2.0 */
/* sim: the law of usage (P7): what a GPUServer's status says of it goes on by what the store held,
 * which is read and added up here anew; and none of it is forgotten before it is stored. */
#define _GNU_SOURCE 1 /* timegm */
#include "test/sim/sim_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROWS_MAX 64
#define WORD 64

struct row {
	char namespace[WORD], model[WORD];
	uint64_t bytes, gpus, used, known;
};

/* A period; or, without times, what a second adds to one. */
struct sums {
	bool has;
	long long from, at;
	uint64_t capacity, free, unfit, over;
	int n;
	struct row rows[ROWS_MAX];
};

struct record {
	struct sums closed, open;
	char *closed_text; /* its lines */
};

bool usage_on;

/* What is to be judged: the status before. */
static cJSON *old;
static struct record was;

/* ---- reading ---- */

static bool read_time(const char *s, long long *ret)
{
	struct tm t = {0};

	if (sscanf(s, "%d-%d-%dT%d:%d:%dZ", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour,
		    &t.tm_min, &t.tm_sec) != 6)
		return false;
	t.tm_year -= 1900;
	t.tm_mon--;
	*ret = timegm(&t);
	return true;
}

static void read_line(const struct object *o, const char *line, struct record *r, struct sums **at)
{
	char word[8], from[32], until[32];
	struct sums s = {.has = true};
	unsigned long long n[4];
	struct row *row;

	if (line[0] == ' ') {
		if (!*at || (*at)->n == ROWS_MAX)
			sim_fail("usage", "%s has a row too much: %s", o->name, line);
		row = &(*at)->rows[(*at)->n++];
		n[2] = n[3] = 0;
		if (sscanf(line, " %63s %llu/%llu/%llu %llu %63[^\n]", row->namespace, &n[0], &n[2],
			    &n[3], &n[1], row->model) != 6 &&
			sscanf(line, " %63s %llu %llu %63[^\n]", row->namespace, &n[0], &n[1],
				row->model) != 4)
			sim_fail("usage", "%s has no row: %s", o->name, line);
		row->bytes = n[0];
		row->gpus = n[1];
		row->used = n[2];
		row->known = n[3];
		return;
	}
	if (sscanf(line, "%7s %31s %31s %llu %llu %llu %llu", word, from, until, &n[0], &n[1],
		    &n[2], &n[3]) != 7 ||
		!read_time(from, &s.from) || !read_time(until, &s.at))
		sim_fail("usage", "%s has no period: %s", o->name, line);
	s.capacity = n[0];
	s.free = n[1];
	s.unfit = n[2];
	s.over = n[3];
	*at = strcmp(word, "closed") == 0 ? &r->closed : &r->open;
	**at = s;
}

static struct record read_record(const struct object *o, cJSON *doc)
{
	const char *text = cJSON_GetStringValue(store_at(doc, "status", "usage"));
	const char *open = text ? strstr(text, "open ") : NULL;
	struct record r = {0};
	struct sums *at = NULL;
	char *copy, *rest;

	if (!text)
		return r;
	copy = strdup(text);
	for (char *l = strtok_r(copy, "\n", &rest); l; l = strtok_r(NULL, "\n", &rest))
		read_line(o, l, &r, &at);
	free(copy);
	if (r.closed.has)
		r.closed_text = strndup(text, open ? (size_t)(open - text) : strlen(text));
	return r;
}

static uint64_t number(cJSON *o, const char *name)
{
	return (uint64_t)cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(o, name));
}

static const char *text(cJSON *o, const char *name)
{
	const char *t = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));

	return t ? t : "";
}

/* ---- what a second adds ---- */

static struct row *row_of(struct sums *s, const char *namespace, const char *model)
{
	for (int i = 0; i < s->n; i++)
		if (strcmp(s->rows[i].namespace, namespace) == 0 &&
			strcmp(s->rows[i].model, model) == 0)
			return &s->rows[i];
	if (s->n == ROWS_MAX)
		sim_fail("simulator", "more than %d rows of usage", ROWS_MAX);
	(void)snprintf(s->rows[s->n].namespace, WORD, "%s", namespace);
	(void)snprintf(s->rows[s->n].model, WORD, "%s", model);
	return &s->rows[s->n++];
}

/* Of this GPU, what claims of pods that were seen hold. */
static uint64_t held_of(cJSON *status, cJSON *gpu, struct sums *ret)
{
	cJSON *claim, *part;
	uint64_t held = 0;

	cJSON_ArrayForEach(claim, store_at(status, "claims", NULL))
	{
		if (strcmp(text(claim, "state"), "pending") == 0)
			continue;
		cJSON_ArrayForEach(part, store_at(claim, "gpus", NULL))
		{
			struct row *row;

			if (strcmp(text(part, "id"), text(gpu, "id")) != 0)
				continue;
			row = row_of(ret, text(claim, "namespace"), text(gpu, "model"));
			row->bytes += number(part, "bytes");
			row->gpus++;
			held += number(part, "bytes");
		}
	}
	return held;
}

static const char *model_of(cJSON *status, cJSON *part)
{
	cJSON *gpu;

	cJSON_ArrayForEach(gpu,
		store_at(status, "gpus", NULL)) if (strcmp(text(gpu, "id"), text(part, "id")) ==
						    0) return text(gpu, "model");
	return "";
}

/* What is known of a claim for so many seconds: of all its GPUs together, if they are of one model.
 */
static void add_claim_used(cJSON *status, cJSON *claim, uint64_t seconds, struct sums *ret)
{
	cJSON *gpus = store_at(claim, "gpus", NULL), *part;
	const char *model = cJSON_GetArraySize(gpus) ? model_of(status, gpus->child) : "";
	struct row *row;

	cJSON_ArrayForEach(part, gpus) if (strcmp(model, model_of(status, part)) != 0) return;
	if (!*model)
		return;
	row = row_of(ret, text(claim, "namespace"), model);
	cJSON_ArrayForEach(part, gpus) row->known += seconds * number(part, "bytes");
	if (store_at(claim, "used", NULL))
		row->used += seconds * number(claim, "used");
}

/* What gates have told counts from then on, for so many seconds at most. */
static void add_used(cJSON *status, long long from, long long seconds, struct sums *ret)
{
	cJSON *claim;
	long long until;

	cJSON_ArrayForEach(claim,
		store_at(status, "claims", NULL)) if (read_time(text(claim, "usedUntil"), &until) &&
						      until > from &&
						      strcmp(text(claim, "state"), "pending") != 0)
		add_claim_used(status, claim,
			(uint64_t)(until - from < seconds ? until - from : seconds), ret);
}

/* free: of GPUs in any state. */
static struct sums second_of(cJSON *status)
{
	struct sums s = {0};
	cJSON *gpu;

	cJSON_ArrayForEach(gpu, store_at(status, "gpus", NULL))
	{
		uint64_t held = held_of(status, gpu, &s);
		uint64_t bytes =
			cJSON_IsTrue(store_at(gpu, "missing", NULL)) ? 0 : number(gpu, "memory");

		s.capacity += bytes;
		s.free += bytes > held ? bytes - held : 0;
		s.over += held > bytes ? held - bytes : 0;
	}
	return s;
}

/* ---- the law ---- */

/* Beside what was promised: what was used, and of how much of it that is known. */
static void check_used(
	const struct object *o, const char *who, const struct row *is, const struct row *want)
{
	if (is->used != want->used || is->known != want->known)
		sim_fail("usage",
			"%s: of %s namespace %s has used %llu byte-seconds, of %llu that are "
			"known, "
			"instead of %llu of %llu",
			who, o->name, want->namespace, (unsigned long long)is->used,
			(unsigned long long)is->known, (unsigned long long)want->used,
			(unsigned long long)want->known);
	if (is->known > is->bytes)
		sim_fail("usage", "%s knows more of %s than was promised", who, o->name);
}

/* From `from` on so many seconds have been added to it, since `at`. */
static void check_added(const struct object *o, const char *who, const struct sums *from,
	const struct sums *to, const struct sums *second, long long at, long long seconds)
{
	struct sums want = *from;
	uint64_t n = (uint64_t)seconds;

	if (seconds < 0)
		sim_fail(
			"usage", "%s let the time of %s go back by %lld s", who, o->name, -seconds);
	for (int i = 0; n > 0 && i < second->n; i++) {
		struct row *row = row_of(&want, second->rows[i].namespace, second->rows[i].model);

		row->bytes += n * second->rows[i].bytes;
		row->gpus += n * second->rows[i].gpus;
	}
	if (n > 0)
		add_used(store_at(old, "status", NULL), at, seconds, &want);
	if (to->capacity != want.capacity + n * second->capacity ||
		to->free + to->unfit != want.free + want.unfit + n * second->free ||
		to->over != want.over + n * second->over)
		sim_fail(
			"usage", "%s added the wrong sums to %s for %lld s", who, o->name, seconds);
	if (!before_view(o)->takes && to->free != from->free)
		sim_fail("usage", "%s counted as free what %s gave nobody", who, o->name);
	for (int i = 0; i < want.n; i++) {
		const struct row *row = &want.rows[i];
		struct sums copy = *to;
		const struct row *is = row_of(&copy, row->namespace, row->model);

		if (is->bytes != row->bytes || is->gpus != row->gpus)
			sim_fail("usage",
				"%s: of %s namespace %s has %llu byte-seconds and %llu "
				"GPU-seconds instead of %llu and %llu",
				who, o->name, row->namespace, (unsigned long long)is->bytes,
				(unsigned long long)is->gpus, (unsigned long long)row->bytes,
				(unsigned long long)row->gpus);
		check_used(o, who, is, row);
	}
	if (to->n > want.n)
		sim_fail("usage", "%s added a row to %s that nobody used", who, o->name);
}

/* Time is the writer's. It may have passed since he looked, and his clock may have been set. */
static void check_time(const struct object *o, const char *who, long long at, bool ended)
{
	int owner = who[0] == 'r' ? who[1] - '0' : WORLD;
	long long slack = sky == FAIR ? 15 : 7400;
	/* at most a minute ahead of the API server's clock, as the writer last heard it */
	long long most = sim_wall(WORLD) / SECOND + 60, own = sim_wall(owner) / SECOND;
	long long now = own < most ? own : most;
	long long before = was.open.has ? was.open.at : 0;

	if (at > before && at > most + 15)
		sim_fail("usage", "%s counted %s until %lld s ahead of the API server", who,
			o->name, at - most + 60);
	if (at > before && at > now + slack)
		sim_fail("usage", "%s counted %s until %lld s from now", who, o->name, at - now);
	if (!ended && at < now - slack)
		sim_fail("usage", "%s wrote %s, which counts until %lld s ago", who, o->name,
			now - at);
}

/* Does a GPUUsage hold this period? */
static bool is_stored(const struct object *server, const char *closed)
{
	for (struct object *o = store_first(USAGES); o; o = store_next(o)) {
		cJSON *period;

		cJSON_ArrayForEach(period,
			store_at(o->doc, "periods",
				NULL)) if (strcmp(text(period, "uid"), server->uid) == 0 &&
					   strcmp(text(period, "usage"), closed) == 0) return true;
	}
	return false;
}

static void check_closed(const struct object *o, const char *who, const struct record *is)
{
	bool same = is->closed.has && strcmp(is->closed_text, was.closed_text) == 0;

	if (!same && !is_stored(o, was.closed_text))
		sim_fail("usage", "%s forgot a period of %s that is not stored", who, o->name);
}

static void check_record(const struct object *o, const char *who, const struct record *is)
{
	static const struct sums nothing;
	struct sums second = second_of(store_at(old, "status", NULL));
	bool goes_on = is->open.has && was.open.has && is->open.from == was.open.from;

	if (was.closed.has)
		check_closed(o, who, is);
	if (goes_on) {
		check_added(o, who, &was.open, &is->open, &second, was.open.at,
			is->open.at - was.open.at);
	} else if (was.open.has) {
		if (!is->closed.has || is->closed.from != was.open.from)
			sim_fail("usage", "%s lost the period of %s that was open", who, o->name);
		check_added(o, who, &was.open, &is->closed, &second, was.open.at,
			is->closed.at - was.open.at);
		if (is->open.has)
			check_added(o, who, &nothing, &is->open, &second, is->closed.at,
				is->open.at - is->closed.at);
	} else if (is->open.has) {
		check_added(o, who, &nothing, &is->open, &second, is->open.at, 0);
	}
	if (is->open.has || was.open.has)
		check_time(o, who, is->open.has ? is->open.at : is->closed.at, !is->open.has);
}

void usage_before_write(const struct object *o)
{
	cJSON_Delete(old);
	old = o->text ? cJSON_Parse(o->text) : NULL;
	free(was.closed_text);
	was = read_record(o, old);
}

void usage_after_write(const struct object *o, const char *who)
{
	struct record is = read_record(o, o->doc);

	if (who[0] == 'r')
		check_record(o, who, &is);
	free(is.closed_text);
}

void usage_after_removal(const struct object *o)
{
	struct record last = read_record(o, o->doc);

	if ((last.open.has || last.closed.has) && view_of(o)->opened)
		sim_fail("usage", "%s is gone, and what was used of it is not stored", o->name);
	free(last.closed_text);
}

bool usage_owed(const struct object *o)
{
	struct record r = read_record(o, o->doc);
	bool owed = usage_on && !o->deleting && view_of(o)->takes && (!r.open.has || r.closed.has);

	free(r.closed_text);
	return owed;
}
