/* SPDX-License-Identifier: Apache-2.0 */
/* core: a GPUServer's status is read. What we do not know is kept as it is spelled (ledger rule R11). */
#include "webhook/core/server_object_impl.h"

static const char *const status_members[] = {
	"version", "observedGeneration", "gpus", "claims", "conditions", "summary", NULL};
static const char *const gpu_members[] = {
	"id", "model", "memory", "fit", "missing", "reason", NULL};
static const char *const claim_members[] = {
	"uid", "namespace", "name", "state", "plan", "since", "take", "servers", "gpus", NULL};
static const char *const part_members[] = {"id", "bytes", NULL};
static const char *const condition_members[] = {
	"type", "status", "observedGeneration", "lastTransitionTime", "reason", "message", NULL};
static const char *const summary_members[] = {"gpus", "fit", "free", "claims", NULL};

static bool knows(const struct json *j, const struct json_node *key, const char *const *known)
{
	for (; *known; known++)
		if (json_is_str(j, key, slice_of(*known)))
			return true;
	return false;
}

/* The members of obj that are not known, as a slice in the arena; absent when there are none. */
static int read_rest(struct server_reader *r, const struct json_node *obj, const char *const *known,
	struct slice *ret)
{
	size_t len = 0;
	char *at;

	JSON_MEMBERS(r->j, obj, k)
	{
		if (!knows(r->j, k, known))
			len += (len > 0) + k->len + 1 + json_value(k)->len;
	}
	if (len == 0)
		return 0;
	at = server_room(r, len, 1);
	if (!at)
		return ERR_NOMEM;
	*ret = (struct slice){at, len};
	JSON_MEMBERS(r->j, obj, k)
	{
		struct slice key = json_raw(r->j, k), value = json_raw(r->j, json_value(k));

		if (knows(r->j, k, known))
			continue;
		if (at > ret->at)
			*at++ = ',';
		memcpy(at, key.at, key.len);
		at += key.len;
		*at++ = ':';
		memcpy(at, value.at, value.len);
		at += value.len;
	}
	return 0;
}

/* 16 hex digits; absent: 0. */
static int read_hex(
	struct server_reader *r, const struct json_node *obj, const char *key, uint64_t *ret)
{
	const struct json_node *v = json_get(r->j, obj, slice_of(key));
	struct slice s = json_inside(r->j, v);
	uint64_t n = 0;
	bool good = s.len == 16;

	if (json_absent(v))
		return 0;
	for (size_t i = 0; good && i < s.len; i++) {
		char c = s.at[i];

		good = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
		n = n << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	if (!good)
		return server_bad(r, v, key, "16 hex digits");
	*ret = n;
	return 0;
}

static int read_gpu(struct server_reader *r, const struct json_node *v, struct gpu_status *ret)
{
	int rc;

	*ret = (struct gpu_status){.gpu = {.model = "", .why = ""}};
	if (!json_is(v, JSON_OBJECT))
		return server_bad(r, v, "", "an object");
	rc = server_get_str(r, v, "id", true, &ret->gpu.id);
	if (rc == 0)
		rc = server_get_str(r, v, "model", false, &ret->gpu.model);
	if (rc == 0)
		rc = server_get_uint(r, v, "memory", true, &ret->gpu.bytes);
	if (rc == 0)
		rc = server_get_bool(r, v, "fit", &ret->gpu.fit);
	if (rc == 0)
		rc = server_get_bool(r, v, "missing", &ret->gpu.missing);
	if (rc == 0)
		rc = server_get_str(r, v, "reason", false, &ret->gpu.why);
	return rc == 0 ? read_rest(r, v, gpu_members, &ret->rest) : rc;
}

static int read_gpus(
	struct server_reader *r, const struct json_node *status, struct server_status *s)
{
	const struct json_node *list;
	size_t n;
	int rc = server_get_list(r, status, "gpus", &list, &n);

	if (rc != 0)
		return rc;
	if (n > SERVER_STATUS_GPUS_MAX)
		return server_bad(r, list, "gpus", "at most 1024 GPUs");
	s->gpus = server_room(r, n, sizeof(*s->gpus));
	if (!s->gpus)
		return ERR_NOMEM;
	JSON_EACH(r->j, list, v)
	{
		struct gpu_status *g = &s->gpus[s->n_gpus];

		rc = read_gpu(r, v, g);
		if (rc == 0 && server_status_gpu(s, slice_of(g->gpu.id)) >= 0)
			rc = server_bad(r, json_get(r->j, v, SLICE("id")), "id",
				"an id that no other GPU of the server has");
		if (rc != 0)
			return rc == ERR_INVALID ? err_in(r->err, "gpus/%zu", s->n_gpus) : rc;
		s->n_gpus++;
	}
	return 0;
}

/* What a claim holds of each GPU. */
static int read_parts(struct server_reader *r, const struct json_node *v, const char *server,
	struct claim_record *c)
{
	const struct json_node *list;
	size_t n;
	int rc = server_get_list(r, v, "gpus", &list, &n);

	if (rc == 0 && !list)
		rc = server_bad(r, NULL, "gpus", "a list");
	if (rc != 0)
		return rc;
	c->claim.parts = server_room(r, n, sizeof(*c->claim.parts));
	if (!c->claim.parts)
		return ERR_NOMEM;
	JSON_EACH(r->j, list, e)
	{
		struct claim_part *part = &c->claim.parts[c->claim.n_parts];
		struct slice rest = {0};

		part->server = server;
		if (!json_is(e, JSON_OBJECT))
			rc = server_bad(r, e, "", "an object {id, bytes}");
		if (rc == 0)
			rc = server_get_str(r, e, "id", true, &part->gpu);
		if (rc == 0)
			rc = server_get_uint(r, e, "bytes", true, &part->bytes);
		if (rc == 0)
			rc = read_rest(r, e, part_members, &rest);
		if (rc != 0)
			return rc == ERR_INVALID ? err_in(r->err, "gpus/%zu", c->claim.n_parts)
						 : rc;
		if (rest.at && !c->part_rests)
			c->part_rests = server_room(r, n, sizeof(*c->part_rests));
		if (rest.at && !c->part_rests)
			return ERR_NOMEM;
		if (rest.at)
			c->part_rests[c->n_part_rests++] = (struct part_rest){part->gpu, rest};
		c->claim.n_parts++;
	}
	return rc;
}

static int read_servers(struct server_reader *r, const struct json_node *v, const char *server,
	struct claim_record *c)
{
	const struct json_node *list;
	size_t n;
	int rc = server_get_list(r, v, "servers", &list, &n);

	if (rc != 0)
		return rc;
	c->servers = server_room(r, n > 0 ? n : 1, sizeof(*c->servers));
	if (!c->servers)
		return ERR_NOMEM;
	JSON_EACH(r->j, list, e)
	{
		if (!json_is(e, JSON_STRING))
			return server_bad(r, e, "servers", "strings");
		c->servers[c->n_servers] = arena_strdup(r->a, json_str(r->j, e, r->a));
		if (r->a->failed)
			return err_set(r->err, ERR_NOMEM, "out of memory while reading a claim");
		c->n_servers++;
	}
	if (n == 0)
		c->servers[c->n_servers++] = server;
	return 0;
}

static int read_state(struct server_reader *r, const struct json_node *v, enum claim_state *ret)
{
	static const enum claim_state states[] = {CLAIM_PENDING, CLAIM_BOUND, CLAIM_ADOPTED};
	const struct json_node *state = json_get(r->j, v, SLICE("state"));

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		if (!json_is_str(r->j, state, slice_of(claim_state_name(states[i]))))
			continue;
		*ret = states[i];
		return 0;
	}
	return server_bad(r, state, "state", "\"pending\", \"bound\" or \"adopted\"");
}

static int read_since(struct server_reader *r, const struct json_node *v, int64_t *ret)
{
	const struct json_node *since = json_get(r->j, v, SLICE("since"));

	if (json_absent(since) || server_time_read(json_inside(r->j, since), ret))
		return 0;
	return server_bad(r, since, "since", "a time such as \"2026-11-21T09:30:00Z\"");
}

static int read_claim(struct server_reader *r, const struct json_node *v, const char *server,
	struct claim_record *ret)
{
	int rc;

	*ret = (struct claim_record){.claim = {.namespace = "", .name = ""}};
	if (!json_is(v, JSON_OBJECT))
		return server_bad(r, v, "", "an object");
	rc = server_get_str(r, v, "uid", true, &ret->claim.key);
	if (rc == 0)
		rc = server_get_str(r, v, "namespace", false, &ret->claim.namespace);
	if (rc == 0)
		rc = server_get_str(r, v, "name", false, &ret->claim.name);
	if (rc == 0)
		rc = read_state(r, v, &ret->claim.state);
	if (rc == 0)
		rc = read_hex(r, v, "plan", &ret->claim.plan_hash);
	if (rc == 0)
		rc = read_hex(r, v, "take", &ret->take);
	if (rc == 0)
		rc = read_since(r, v, &ret->claim.since_ms);
	if (rc == 0)
		rc = read_servers(r, v, server, ret);
	if (rc == 0)
		rc = read_parts(r, v, server, ret);
	return rc == 0 ? read_rest(r, v, claim_members, &ret->rest) : rc;
}

static int read_claims(struct server_reader *r, const struct json_node *status, const char *server,
	struct server_status *s)
{
	const struct json_node *list;
	size_t n;
	int rc = server_get_list(r, status, "claims", &list, &n);

	if (rc != 0)
		return rc;
	s->claims = server_room(r, n, sizeof(*s->claims));
	if (!s->claims)
		return ERR_NOMEM;
	JSON_EACH(r->j, list, v)
	{
		rc = read_claim(r, v, server, &s->claims[s->n_claims]);
		if (rc != 0)
			return rc == ERR_INVALID ? err_in(r->err, "claims/%zu", s->n_claims) : rc;
		s->n_claims++;
	}
	return rc;
}

static int read_condition(struct server_reader *r, const struct json_node *v, struct condition *ret)
{
	int rc;

	*ret = (struct condition){.reason = "", .message = "", .since = ""};
	if (!json_is(v, JSON_OBJECT))
		return server_bad(r, v, "", "an object");
	rc = server_get_str(r, v, "type", true, &ret->type);
	if (rc == 0)
		rc = server_get_str(r, v, "status", true, &ret->status);
	if (rc == 0)
		rc = server_get_str(r, v, "reason", false, &ret->reason);
	if (rc == 0)
		rc = server_get_str(r, v, "message", false, &ret->message);
	if (rc == 0)
		rc = server_get_str(r, v, "lastTransitionTime", false, &ret->since);
	if (rc == 0)
		rc = server_get_int(r, v, "observedGeneration", &ret->observed_generation);
	return rc == 0 ? read_rest(r, v, condition_members, &ret->rest) : rc;
}

static int read_conditions(
	struct server_reader *r, const struct json_node *status, struct server_status *s)
{
	const struct json_node *list;
	size_t n;
	int rc = server_get_list(r, status, "conditions", &list, &n);

	if (rc != 0)
		return rc;
	s->conditions = server_room(r, n, sizeof(*s->conditions));
	if (!s->conditions)
		return ERR_NOMEM;
	JSON_EACH(r->j, list, v)
	{
		rc = read_condition(r, v, &s->conditions[s->n_conditions]);
		if (rc != 0)
			return rc == ERR_INVALID ? err_in(r->err, "conditions/%zu", s->n_conditions)
						 : rc;
		s->n_conditions++;
	}
	return rc;
}

int server_status_read(struct server_reader *r, const struct json_node *status, const char *name,
	struct server_status *ret)
{
	const struct json_node *summary = json_get(r->j, status, SLICE("summary"));
	int rc;

	*ret = (struct server_status){0};
	if (json_absent(status))
		return 0;
	if (!json_is(status, JSON_OBJECT))
		return server_bad(r, status, "", "an object");
	if (!json_absent(summary) && !json_is(summary, JSON_OBJECT))
		return server_bad(r, summary, "summary", "an object");
	rc = server_get_int(r, status, "version", &ret->version);
	if (rc == 0)
		rc = server_get_int(r, status, "observedGeneration", &ret->observed_generation);
	if (rc == 0)
		rc = read_gpus(r, status, ret);
	if (rc == 0)
		rc = read_claims(r, status, name, ret);
	if (rc == 0)
		rc = read_conditions(r, status, ret);
	if (rc == 0)
		rc = read_rest(r, summary, summary_members, &ret->summary_rest);
	return rc == 0 ? read_rest(r, status, status_members, &ret->rest) : rc;
}
