/* SPDX-License-Identifier: Apache-2.0 */
/* core: the sums of a pool and their JSON. */
#include "webhook/core/pool/pool_status.h"

#include <stdlib.h>
#include <string.h>

#include "base/json/json_record.h"

#define BYTES_PER_MB 1000000u

#define NUMBERS(tag, of)                                                                           \
	REC_COUNT(tag, of gpus, "gpus"), REC_COUNT(tag, of fit, "fit"),                            \
		REC_COUNT(tag, of idle, "idle"), REC_COUNT(tag, of memory, "memory"),              \
		REC_COUNT(tag, of free, "free"), REC_COUNT(tag, of largest, "largest")

static const struct json_field pool_model_fields[] = {
	REC_STR(pool_model, model, "model"),
	NUMBERS(pool_model, ),
};
JSON_RECORD(pool_model_record, pool_model, pool_model_fields, 0);

static const struct json_field pool_status_fields[] = {
	REC_COUNT(pool_status, servers, "servers"),
	REC_COUNT(pool_status, ready, "ready"),
	NUMBERS(pool_status, all.),
	REC_LIST(pool_status, models, pool_model, "models"),
	REC_STR(pool_status, since, "since", REC_OMIT),
};
JSON_RECORD(pool_status_record, pool_status, pool_status_fields, 0);

/* Bytes here, MB when all is summed up. */
static void count(struct pool_model *m, uint64_t bytes, uint64_t claimed, bool usable)
{
	uint64_t room = bytes > claimed ? bytes - claimed : 0;

	m->gpus++;
	m->memory += bytes;
	if (!usable)
		return;
	m->fit++;
	m->idle += claimed == 0;
	m->free += room;
	m->largest = room > m->largest ? room : m->largest;
}

static void round_down(struct pool_model *m)
{
	m->memory /= BYTES_PER_MB;
	m->free /= BYTES_PER_MB;
	m->largest /= BYTES_PER_MB;
}

/* The entry of that model, a new one where there is room; NULL: there is none. */
static struct pool_model *entry(struct pool_status *s, const char *model)
{
	/* the GPUs of a server are mostly of one model, which is the last that was looked for */
	for (size_t i = s->n_models; i > 0; i--)
		if (strcmp(s->models[i - 1].model, model) == 0)
			return &s->models[i - 1];
	if (s->n_models == POOL_MODELS_MAX)
		return NULL;
	s->models[s->n_models] = (struct pool_model){.model = model};
	return &s->models[s->n_models++];
}

static int by_model(const void *a, const void *b)
{
	const struct pool_model *x = a, *y = b;

	return strcmp(x->model, y->model);
}

int pool_status_of(
	const struct pool_view *v, struct arena *a, struct pool_status *ret, struct err *err)
{
	struct pool_status s = {.servers = v->inventory.n_servers, .all.model = ""};

	s.models = arena_array(a, POOL_MODELS_MAX, sizeof(*s.models));
	if (!s.models)
		return err_set(err, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < v->inventory.n_servers; i++) {
		const struct gpu_server *server = &v->inventory.servers[i];
		uint64_t fit = s.all.fit;

		for (size_t k = 0; k < server->n_gpus; k++) {
			const struct gpu *g = &server->gpus[k];
			uint64_t claimed = v->usage.claimed[server->first_gpu + k];
			bool usable = inventory_usable(server, g);
			struct pool_model *m = entry(&s, g->model);

			count(&s.all, g->bytes, claimed, usable);
			if (m)
				count(m, g->bytes, claimed, usable);
		}
		s.ready += s.all.fit > fit;
	}
	for (size_t i = 0; i < s.n_models; i++)
		round_down(&s.models[i]);
	round_down(&s.all);
	if (s.n_models > 1)
		qsort(s.models, s.n_models, sizeof(*s.models), by_model);
	*ret = s;
	return 0;
}

void pool_status_write(const struct pool_status *s, struct buf *out)
{
	json_record_write(&pool_status_record, s, out);
}
