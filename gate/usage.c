/* SPDX-License-Identifier: Apache-2.0 */
/* gate: use and share compared. */
#include "gate/usage.h"

#include <stdlib.h>
#include <string.h>

#include "base/json/json_record.h"

#define ARENA_MAX (16u << 20)
/* Of a look: some thousand processes. */
#define NODES_MAX 65536

/* ---- a look as JSON ---- */

static const struct json_field usage_process_fields[] = {
	REC_INT(usage_process, pid, "pid", REC_NEEDED, .min = 1, .max = INT32_MAX),
	REC_BOOL(usage_process, known, "known", REC_NEEDED),
	REC_COUNT(usage_process, bytes, "bytes", REC_NEEDED),
};
JSON_RECORD(usage_process_record, usage_process, usage_process_fields, 0);

static const struct json_field usage_gpu_fields[] = {
	REC_STR(usage_gpu, id, "id", REC_NEEDED),
	REC_LIST(usage_gpu, processes, usage_process, "processes"),
};
JSON_RECORD(usage_gpu_record, usage_gpu, usage_gpu_fields, 0);

static const struct json_field usage_look_fields[] = {
	REC_LIST(usage_look, gpus, usage_gpu, "gpus"),
	REC_STR(usage_look, error, "error", REC_OMIT),
};
JSON_RECORD(usage_look_record, usage_look, usage_look_fields, 0);

void usage_look_write(const struct usage_look *look, struct buf *out)
{
	json_record_write(&usage_look_record, look, out);
}

int usage_look_read(struct slice line, struct arena *a, struct usage_look *ret, struct err *err)
{
	struct json j = {0};
	struct json_reader r = {.j = &j, .a = a, .err = err};
	char *copy = NULL;
	int rc = json_read_copy(&j, line.at, line.len, NODES_MAX, &copy, err);

	*ret = (struct usage_look){.error = ""};
	if (rc == 0)
		rc = json_record_read(&r, json_root(&j), &usage_look_record, ret);
	json_release(&j);
	free(copy);
	return rc;
}

/* ---- judging ---- */

struct judge {
	struct gate_usage now;
	const struct gate_usage *before;
	const struct picture *p;
	const struct usage_rules *rules;
	int64_t now_ms;
	bool gap; /* nobody knows what was used since the look before */
	size_t max_claims, max_strangers;
};

static struct usage_claim *find(const struct gate_usage *u, const char *uid)
{
	for (size_t i = 0; i < u->n_claims; i++)
		if (strcmp(u->claims[i].uid, uid) == 0)
			return &u->claims[i];
	return NULL;
}

static struct usage_claim *claim_of(struct judge *j, const char *uid)
{
	struct usage_claim *c = find(&j->now, uid);

	if (c || j->now.n_claims == j->max_claims)
		return c;
	c = &j->now.claims[j->now.n_claims++];
	*c = (struct usage_claim){
		.uid = arena_strdup(&j->now.arena, slice_of(uid)), .known = true, .gpu = ""};
	return c->uid ? c : NULL;
}

static void add_stranger(struct judge *j, const char *gpu, const struct usage_process *p)
{
	struct usage_stranger *s = &j->now.strangers[j->now.n_strangers];

	if (j->now.n_strangers == j->max_strangers)
		return;
	*s = (struct usage_stranger){.pid = p->pid,
		.gpu = arena_strdup(&j->now.arena, slice_of(gpu)),
		.known = p->known,
		.bytes = p->bytes};
	if (!s->gpu)
		return;
	for (size_t i = 0; i < j->before->n_strangers; i++)
		s->told |= j->before->strangers[i].pid == p->pid &&
			   strcmp(j->before->strangers[i].gpu, gpu) == 0;
	j->now.n_strangers++;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
	return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

/* What the claim holds of the GPU. */
static uint64_t share_of(const struct picture *p, const char *uid, const char *gpu)
{
	const struct picture_claim *c = picture_claim(p, uid);

	for (size_t i = 0; c && i < c->n_gpus; i++)
		if (strcmp(c->gpu[i].id, gpu) == 0)
			return c->gpu[i].bytes;
	return 0;
}

/* A claim's processes on one GPU, all together. */
struct part {
	struct usage_claim *claim;
	uint64_t bytes;
	uint32_t processes;
};

static void judge_part(struct judge *j, const struct part *part, const char *gpu)
{
	struct usage_claim *c = part->claim;
	uint64_t share = share_of(j->p, c->uid, gpu);
	uint64_t most = sum(share, share / 100 * j->rules->margin_percent);

	most = part->processes > UINT64_MAX / (j->rules->context_bytes + 1)
		       ? UINT64_MAX
		       : sum(most, part->processes * j->rules->context_bytes);
	c->used = sum(c->used, part->bytes);
	c->processes += part->processes;
	if (part->bytes <= most || c->since_ms != 0)
		return;
	c->since_ms = j->now_ms;
	c->gpu = arena_strdup(&j->now.arena, slice_of(gpu));
	c->has = part->bytes;
	c->share = share;
}

/* False: out of memory. */
static bool judge_gpu(struct judge *j, const struct usage_gpu *gpu, const struct usage_who *who)
{
	struct part *parts = arena_array(&j->now.arena, gpu->n_processes, sizeof(*parts));
	size_t n = 0;

	for (size_t i = 0; parts && i < gpu->n_processes; i++) {
		const struct usage_process *p = &gpu->processes[i];
		const char *uid = who->claim(who->ctx, p->pid);
		struct usage_claim *c = uid ? claim_of(j, uid) : NULL;
		size_t at = 0;

		if (!uid && !who->passes(who->ctx, p->pid))
			add_stranger(j, gpu->id, p);
		if (!c)
			continue;
		while (at < n && parts[at].claim != c)
			at++;
		if (at == n)
			parts[n++] = (struct part){.claim = c};
		c->known = c->known && p->known;
		parts[at].bytes = sum(parts[at].bytes, p->known ? p->bytes : 0);
		parts[at].processes++;
	}
	for (size_t i = 0; i < n; i++)
		judge_part(j, &parts[i], gpu->id);
	return !j->now.arena.failed;
}

/* How long it has lasted. */
static void carry_over(struct judge *j, struct usage_claim *c)
{
	const struct usage_claim *old = find(j->before, c->uid);

	if (old && old->since_ms && c->since_ms)
		c->since_ms = old->since_ms;
	c->over = c->since_ms && j->now_ms - c->since_ms >= USAGE_OVER_MS;
	c->told = old && old->over;
	c->used_ms = c->processes || !old || j->gap ? j->now_ms : old->used_ms;
	j->now.n_over += c->over;
	j->now.used = sum(j->now.used, c->used);
}

int usage_judge(struct gate_usage *u, const struct usage_look *look, const struct picture *p,
	const struct usage_rules *rules, const struct usage_who *who, int64_t now_ms,
	struct err *err)
{
	struct judge j = {.before = u,
		.p = p,
		.rules = rules,
		.now_ms = now_ms,
		.gap = now_ms - u->looked_ms > USAGE_GAP_MS};
	bool good;

	for (size_t i = 0; i < look->n_gpus; i++)
		j.max_strangers += look->gpus[i].n_processes;
	j.max_claims = j.max_strangers + p->n_claims;
	arena_init_small(&j.now.arena, ARENA_MAX, 4096);
	j.now.claims = arena_array(&j.now.arena, j.max_claims, sizeof(*j.now.claims));
	j.now.strangers = arena_array(&j.now.arena, j.max_strangers, sizeof(*j.now.strangers));
	good = j.now.claims && j.now.strangers;
	for (size_t i = 0; good && i < look->n_gpus; i++)
		good = judge_gpu(&j, &look->gpus[i], who);
	for (size_t i = 0; good && i < p->n_claims; i++)
		good = claim_of(&j, p->claim[i].uid) != NULL;
	if (!good) {
		arena_release(&j.now.arena);
		return err_set(err, ERR_NOMEM, "out of memory for what is used");
	}
	for (size_t i = 0; i < j.now.n_claims; i++)
		carry_over(&j, &j.now.claims[i]);
	j.now.looked_ms = now_ms;
	usage_release(u);
	*u = j.now;
	return 0;
}

void usage_release(struct gate_usage *u)
{
	if (u->looked_ms)
		arena_release(&u->arena);
	*u = (struct gate_usage){0};
}

/* ---- the page ---- */

/* The first of each GPU, or all others: they are in the order of their GPUs. */
static void tell_strangers(const struct gate_usage *u, bool first, struct gate_page *ret)
{
	for (size_t i = 0; i < u->n_strangers && ret->n_strangers < GATE_PAGE_STRANGERS_MAX; i++) {
		const struct usage_stranger *s = &u->strangers[i];

		if ((i == 0 || strcmp(s->gpu, s[-1].gpu) != 0) == first)
			ret->strangers[ret->n_strangers++] = (struct gate_stranger){
				.pid = s->pid, .gpu = s->gpu, .known = s->known, .used = s->bytes};
	}
}

bool usage_page(const struct gate_usage *u, int64_t now_ms, struct arena *a, struct gate_page *ret)
{
	ret->claims = arena_array(a, u->n_claims, sizeof(*ret->claims));
	ret->strangers = arena_array(a, u->n_strangers, sizeof(*ret->strangers));
	if (!ret->claims || !ret->strangers)
		return false;
	for (; ret->n_claims < u->n_claims; ret->n_claims++) {
		const struct usage_claim *c = &u->claims[ret->n_claims];

		ret->claims[ret->n_claims] = (struct gate_claim){.uid = c->uid,
			.used = c->used,
			.known = c->known,
			.processes = c->processes,
			.over = c->over,
			.gpu = c->gpu,
			.has = c->has,
			.share = c->share,
			.unused_s = c->processes ? 0 : (now_ms - c->used_ms) / 1000};
	}
	/* Each closes its GPU: none is left out because of many on another. */
	tell_strangers(u, true, ret);
	tell_strangers(u, false, ret);
	return true;
}
