/* SPDX-License-Identifier: Apache-2.0 */
/* core: read a plan back from its annotation. Whoever may write pods may have forged it: nothing is
 * taken on trust. */
#include "base/base64.h"
#include "base/json/json_read.h"
#include "webhook/core/image/image.h"
#include "webhook/core/pod/foreign.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pod/plan_get.h"
#include "webhook/core/pod/plan_ties.h"
#include "webhook/core/pool/filter.h"

#define PLAN_NODES_MAX 20000

/* Does the plan speak of this variable already, by either name? */
static bool env_known(const struct plan_container *c, struct slice name)
{
	for (size_t i = 0; i < c->n_env; i++)
		if (slice_eq(c->env[i].name, name) ||
			(c->env[i].moved.at && slice_eq(c->env[i].moved, name)))
			return true;
	return false;
}

static int read_env(struct plan_reader *r, const struct json_node *obj, struct plan_container *c)
{
	const struct json_node *v;

	if (plan_get_array(r, obj, SLICE("env"), PLAN_ENV_MAX, &v) < 0)
		return r->err->code;
	if (!v)
		return 0;
	c->env = arena_array(r->a, v->count, sizeof(*c->env));
	if (!c->env)
		return err_set(r->err, ERR_NOMEM, "out of memory");
	JSON_EACH(r->j, v, e)
	{
		struct plan_env *env = &c->env[c->n_env];
		const struct json_node *was = json_get(r->j, e, SLICE("was"));

		if (plan_get_str(r, e, SLICE("name"), true, &env->name) < 0 ||
			plan_get_str(r, e, SLICE("moved"), false, &env->moved) < 0)
			return err_in(r->err, "env/%zu", c->n_env);
		if (env_known(c, env->name) || (env->moved.at && env_known(c, env->moved))) {
			err_set(r->err, ERR_INVALID, "the same name stands here twice");
			return err_in(r->err, "env/%zu", c->n_env);
		}
		if (was && !json_is(was, JSON_STRING) && !json_is(was, JSON_NULL))
			return plan_bad(r, was, "env", "a string or null");
		env->had = was != NULL;
		env->was = json_inside(r->j, was);
		c->n_env++;
	}
	return 0;
}

static int read_share(struct plan_reader *r, const struct json_node *obj, struct plan_container *c)
{
	uint64_t amount, percent, argv, slot;

	if (plan_get_uint(r, obj, SLICE("amount"), 1, GPU_AMOUNT_MAX, &amount) < 0 ||
		plan_get_uint(r, obj, SLICE("percent"), 1, 100, &percent) < 0 ||
		plan_get_uint(r, obj, SLICE("memoryMB"), 1, 1000000000, &c->memory_mb) < 0 ||
		plan_get_uint(r, obj, SLICE("units"), 1, INT64_C(1) << 53, &c->units) < 0 ||
		plan_get_uint(r, obj, SLICE("argv"), 0, 10000, &argv) < 0 ||
		plan_get_uint(r, obj, SLICE("slot"), 0, PLAN_CONTAINERS_MAX - 1, &slot) < 0)
		return r->err->code;
	if (amount == 0 || c->units == 0)
		return err_set(r->err, ERR_INVALID, "amount and units are missing");
	if ((percent == 0) == (c->memory_mb == 0))
		return err_set(r->err, ERR_INVALID, "expected one of percent and memoryMB");
	c->amount = (uint32_t)amount;
	c->percent = (uint32_t)percent;
	c->argv = (uint32_t)argv;
	c->slot = (uint32_t)slot;
	return 0;
}

static int read_image(struct plan_reader *r, const struct json_node *obj, struct plan_container *c)
{
	const struct json_node *v = json_get(r->j, obj, SLICE("image"));
	uint64_t words;

	if (!v)
		return 0;
	if (plan_get_str(r, v, SLICE("digest"), true, &c->image) < 0 ||
		plan_get_uint(r, v, SLICE("words"), 1, IMAGE_WORDS_MAX, &words) < 0)
		return err_in(r->err, "image");
	if (!image_is_digest(c->image) || words == 0)
		return plan_bad(r, v, "image", "a digest and a number of words");
	c->image_words = (uint32_t)words;
	return 0;
}

static int read_container(
	struct plan_reader *r, const struct json_node *v, struct plan_container *c)
{
	static const char *const kinds[] = {"app", "init", "restartable"};
	static const char *const modes[] = {"none", "wrapped", "shell", "own"};
	static const char *const made_names[] = {"limits", "requests", "env", "volumeMounts"};
	bool *made[] = {&c->made_limits, &c->made_requests, &c->made_env, &c->made_mounts};
	size_t kind = 0, mode = 0;

	if (plan_get_str(r, v, SLICE("name"), true, &c->name) < 0 ||
		plan_get_word(r, v, SLICE("kind"), kinds, 3, "app, init or restartable", &kind) <
			0 ||
		plan_get_word(r, v, SLICE("command"), modes, 4, "none, wrapped, shell or own",
			&mode) < 0 ||
		read_share(r, v, c) < 0 || read_image(r, v, c) < 0 ||
		plan_get_object(r, v, SLICE("askedLimits"), &c->asked_limits) < 0 ||
		plan_get_object(r, v, SLICE("askedRequests"), &c->asked_requests) < 0 ||
		read_env(r, v, c) < 0 ||
		plan_get_names(r, v, SLICE("mounts"), &c->mounts, &c->n_mounts) < 0 ||
		plan_get_names(r, v, SLICE("kept"), &c->kept, &c->n_kept) < 0 ||
		plan_get_made(r, v, made_names, made, 4) < 0)
		return r->err->code;
	c->foreign = foreign_keys_in(r->j, json_get(r->j, v, SLICE("askedLimits"))) |
		     foreign_keys_in(r->j, json_get(r->j, v, SLICE("askedRequests")));
	c->kind = (enum container_kind)kind;
	c->command = (enum command_mode)mode;
	return 0;
}

static int read_containers(struct plan_reader *r, const struct json_node *root, struct plan *p)
{
	const struct json_node *v = json_get(r->j, root, SLICE("containers"));

	if (!json_is(v, JSON_ARRAY) || v->count == 0 || v->count > PLAN_CONTAINERS_MAX)
		return plan_bad(r, v, "containers", "an array of 1 to 256 containers");
	p->containers = arena_array(r->a, v->count, sizeof(*p->containers));
	if (!p->containers)
		return err_set(r->err, ERR_NOMEM, "out of memory");
	JSON_EACH(r->j, v, e)
	{
		struct plan_container c = {0};

		if (read_container(r, e, &c) < 0)
			return err_in(r->err, "containers/%zu", p->n_containers);
		if (plan_container(p, c.name)) {
			err_set(r->err, ERR_INVALID, "the container is named twice");
			return err_in(r->err, "containers/%zu/name", p->n_containers);
		}
		p->containers[p->n_containers++] = c;
	}
	return 0;
}

static int read_servers(struct plan_reader *r, const struct json_node *root, struct plan *p)
{
	const struct json_node *v;

	if (plan_get_array(r, root, SLICE("servers"), PLAN_SERVERS_MAX, &v) < 0)
		return r->err->code;
	if (!v)
		return 0;
	p->servers = arena_array(r->a, v->count, sizeof(*p->servers));
	p->addresses = arena_array(r->a, v->count, sizeof(*p->addresses));
	if (!p->servers || !p->addresses)
		return err_set(r->err, ERR_NOMEM, "out of memory");
	JSON_EACH(r->j, v, e)
	{
		if (plan_get_str(r, e, SLICE("name"), true, &p->servers[p->n_servers]) < 0 ||
			plan_get_str(r, e, SLICE("address"), true, &p->addresses[p->n_servers]) < 0)
			return err_in(r->err, "servers/%zu", p->n_servers);
		p->n_servers++;
	}
	return 0;
}

static int read_hash(struct plan_reader *r, const struct json_node *root, uint64_t *ret)
{
	const struct json_node *v = json_get(r->j, root, SLICE("hash"));
	struct slice s = json_inside(r->j, v);

	*ret = 0;
	for (size_t i = 0; i < s.len && s.len == 16; i++) {
		char c = s.at[i];

		if (c >= '0' && c <= '9')
			*ret = *ret << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			*ret = *ret << 4 | (uint64_t)(c - 'a' + 10);
		else
			return plan_bad(r, v, "hash", "16 hexadecimal digits");
	}
	return s.len == 16 ? 0 : plan_bad(r, v, "hash", "16 hexadecimal digits");
}

static int read_client(struct plan_reader *r, const struct json_node *root, struct plan *p)
{
	const struct json_node *v = json_get(r->j, root, SLICE("client"));

	if (!v)
		return 0;
	if (plan_get_str(r, v, SLICE("os"), true, &p->os) < 0 ||
		plan_get_str(r, v, SLICE("version"), true, &p->version_of_client) < 0)
		return err_in(r->err, "client");
	return 0;
}

static bool get_bytes(struct plan_reader *r, const struct json_node *obj, const char *key,
	unsigned char ret[PLAN_PROOF_BYTES])
{
	struct slice text = json_inside(r->j, json_get(r->j, obj, slice_of(key)));
	struct buf b;
	bool good;

	buf_init(&b, PLAN_PROOF_BYTES);
	good = text.at && base64_decode(text, &b, NULL) == 0 && b.len == PLAN_PROOF_BYTES;
	if (good)
		memcpy(ret, b.data, PLAN_PROOF_BYTES);
	if (b.failed && !b.full)
		r->a->failed = true;
	buf_release(&b);
	return good;
}

/* What is no proof is none: its pod is judged as one without. */
static void read_proof(struct plan_reader *r, const struct json_node *root, struct plan_proof *ret)
{
	const struct json_node *v = json_get(r->j, root, SLICE("proof"));
	struct slice shape = json_inside(r->j, json_get(r->j, v, SLICE("shape")));
	size_t key = sizeof(PLAN_PROOF_KEY) - 1;

	if (!shape.at || shape.len > PLAN_SHAPE_MAX || v->at < key ||
		memcmp(r->j->text + v->at - key, PLAN_PROOF_KEY, key) != 0 ||
		v->at + v->len + 1 != r->j->len || !get_bytes(r, v, "digest", ret->digest) ||
		!get_bytes(r, v, "mac", ret->mac))
		return;
	ret->shape = shape;
	ret->text = (struct slice){r->j->text, v->at - key};
}

/* Whoever cannot tell a container what it needs must not claim for it: an unknown value is refused.
 */
static int read_late(struct plan_reader *r, const struct json_node *root, struct plan_late *late)
{
	static const char *const granularities[] = {"gpu", "server"};
	const struct json_node *v = json_get(r->j, root, SLICE("late"));
	struct slice *list;
	size_t n, whole;

	if (!v)
		return 0;
	if (!json_is(v, JSON_OBJECT))
		return plan_bad(r, v, "late", "an object");
	if (plan_get_names(r, v, SLICE("values"), &list, &n) < 0 ||
		plan_get_word(
			r, v, SLICE("granularity"), granularities, 2, "gpu or server", &whole) < 0)
		return err_in(r->err, "late");
	late->whole_servers = whole == 1;
	late->one_server = json_is(json_get(r->j, v, SLICE("oneServer")), JSON_TRUE);
	late->no_ipv4 = json_is(json_get(r->j, v, SLICE("noIPv4")), JSON_TRUE);
	late->no_ipv6 = json_is(json_get(r->j, v, SLICE("noIPv6")), JSON_TRUE);
	for (size_t i = 0; i < n; i++) {
		size_t value = 0;

		while (value < LATE_VALUES &&
			!slice_is(list[i], late_value_name((enum late_value)value)))
			value++;
		if (value == LATE_VALUES)
			return plan_bad(r, json_get(r->j, v, SLICE("values")), "late/values",
				"servers, server_host, gpus and gpu_indexes");
		late->values |= 1u << value;
	}
	return n > 0 ? 0 : plan_bad(r, v, "late", "at least one of its values");
}

/* Only who waits can wait for others. */
static int read_gang(struct plan_reader *r, const struct json_node *root, struct plan *p)
{
	uint64_t size;

	if (plan_get_str(r, root, SLICE("gang"), false, &p->gang) < 0 ||
		plan_get_uint(r, root, SLICE("gangSize"), 1, GANG_SIZE_MAX, &size) < 0)
		return r->err->code;
	p->gang_size = (uint32_t)size;
	if (p->gang.at ? p->waits : size == 0)
		return 0;
	return plan_bad(r, json_get(r->j, root, SLICE("gang")), "gang",
		"a name, and gangSize where it is known, of a pod that waits, or neither");
}

/* Values of two containers must not be one. */
static int check_slots(struct plan_reader *r, const struct plan *p)
{
	for (size_t i = 0; p->late.values && i < p->n_containers; i++)
		for (size_t k = 0; k < i; k++)
			if (p->containers[i].slot == p->containers[k].slot) {
				err_set(r->err, ERR_INVALID, "another container has the same slot");
				return err_in(r->err, "containers/%zu/slot", i);
			}
	return 0;
}

static int read_root(struct plan_reader *r, const struct json_node *root, struct plan *p)
{
	static const char *const modes[] = {"injection", "full"};
	static const char *const made_names[] = {"labels", "initContainers", "volumes",
		"schedulingGates", "annotations", "metadata", "imagePullSecrets"};
	bool *made[] = {&p->made_labels, &p->made_inits, &p->made_volumes, &p->made_gates,
		&p->made_annotations, &p->made_metadata, &p->made_pull_secrets};
	uint64_t version, gate = 0;
	size_t mode = 0;

	if (!json_is(root, JSON_OBJECT))
		return plan_bad(r, root, "", "an object");
	if (plan_get_uint(r, root, SLICE("v"), 1, 1000, &version) < 0)
		return r->err->code;
	if (version == 0)
		return plan_bad(r, json_get(r->j, root, SLICE("v")), "v", "the plan's version");
	p->version = (uint32_t)version;
	if (plan_get_str(r, root, SLICE("profile"), true, &p->profile) < 0 ||
		read_hash(r, root, &p->hash) < 0 || read_client(r, root, p) < 0 ||
		plan_get_word(r, root, SLICE("mode"), modes, 2, "full or injection", &mode) < 0 ||
		plan_get_uint(r, root, SLICE("totalMB"), 1, 1000000000, &p->total_mb) < 0 ||
		plan_get_bool(r, root, SLICE("nodeResource"), false, &p->node_resource_off) < 0 ||
		plan_get_list(r, root, SLICE("filters"), FILTERS_MAX, &p->filters, &p->n_filters) <
			0 ||
		read_servers(r, root, p) < 0 || read_late(r, root, &p->late) < 0 ||
		plan_get_uint(r, root, SLICE("gate"), 1, 65535 - PROFILE_GATE_SERVERS, &gate) < 0 ||
		plan_get_str(r, root, SLICE("pullSecret"), false, &p->pull_secret) < 0 ||
		plan_get_bool(r, root, SLICE("waits"), true, &p->waits) < 0 ||
		read_gang(r, root, p) < 0 || read_containers(r, root, p) < 0 ||
		check_slots(r, p) < 0 ||
		plan_get_names(r, root, SLICE("initContainers"), &p->inits, &p->n_inits) < 0 ||
		plan_get_names(r, root, SLICE("volumes"), &p->volumes, &p->n_volumes) < 0 ||
		plan_get_names(r, root, SLICE("keys"), &p->keys, &p->n_keys) < 0 ||
		plan_get_made(r, root, made_names, made, 7) < 0 ||
		plan_ties_read(r->j, root, r->a, &p->ties, r->err) < 0)
		return r->err->code;
	p->gate_port = (uint16_t)gate;
	p->by_address = json_is(json_get(r->j, root, SLICE("byAddress")), JSON_TRUE);
	p->guarded = json_is(json_get(r->j, root, SLICE("guarded")), JSON_TRUE);
	p->full = mode == 1;
	read_proof(r, root, &p->proof);
	return plan_get_str(r, root, SLICE("statusWas"), false, &p->status_was);
}

int plan_read(struct slice text, struct arena *a, struct plan *ret, struct err *err)
{
	struct plan p = {0};
	struct json j = {0};
	struct err own = {0};
	/* Each step goes by what the one before it said. */
	struct plan_reader r = {&j, a, err ? err : &own};
	char *copy;
	int rc;

	if (text.len > PLAN_BYTES_MAX)
		return err_set(err, ERR_TOOBIG,
			"the plan has %zu bytes, more than the %d that any plan needs", text.len,
			PLAN_BYTES_MAX);
	copy = arena_alloc(a, text.len + JSON_PAD);
	if (!copy)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (text.len > 0)
		memcpy(copy, text.at, text.len);
	rc = json_read(&j, copy, text.len, PLAN_NODES_MAX, err);
	if (rc == 0)
		rc = read_root(&r, json_root(&j), &p);
	json_release(&j);
	if (rc == 0 && a->failed)
		rc = err_set(err, ERR_NOMEM, "out of memory");
	if (rc == 0)
		*ret = p;
	return rc;
}
