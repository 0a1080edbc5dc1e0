/* SPDX-License-Identifier: Apache-2.0 */
/* core: the proof in a plan. */
#include "webhook/core/pod/plan_proof.h"

#include <stdlib.h>

#include "webhook/core/pod/part_shape.h"

#define PARTS_MAX (4u << 20)
#define NODES_MAX 100000
/* Changes with the meaning of what is digested. */
#define FORM "poolgate-rendered-1"

static void put(struct buf *out, struct slice s)
{
	buf_u64(out, s.len);
	buf_char(out, ':');
	buf_slice(out, s);
}

/* ---- what is rendered ---- */

void proof_container(struct buf *out, struct slice name)
{
	if (!out)
		return;
	buf_char(out, 'C');
	put(out, name);
}

void proof_words(struct buf *out, const struct slice *words, size_t n)
{
	if (!out)
		return;
	buf_char(out, 'W');
	buf_u64(out, n);
	buf_char(out, ';');
	for (size_t i = 0; i < n; i++)
		put(out, words[i]);
}

void proof_command(
	struct buf *out, const struct json *j, const struct json_node *container, struct arena *a)
{
	static const char *const keys[] = {"command", "args"};

	for (size_t i = 0; out && i < 2; i++) {
		const struct json_node *v = json_get(j, container, slice_of(keys[i]));

		buf_char(out, 'A');
		buf_u64(out, json_is(v, JSON_ARRAY) ? v->count : 0);
		buf_char(out, ';');
		JSON_EACH(j, v, word)
		put(out, json_str(j, word, a));
	}
}

void proof_variable(struct buf *out, struct slice name, struct slice value)
{
	if (!out)
		return;
	buf_char(out, 'V');
	put(out, name);
	put(out, value);
}

void proof_variable_secret(
	struct buf *out, struct slice name, struct slice secret, struct slice key)
{
	if (!out)
		return;
	buf_char(out, 'S');
	put(out, name);
	put(out, secret);
	put(out, key);
}

void proof_variable_field(struct buf *out, struct slice name, struct slice path)
{
	if (!out)
		return;
	buf_char(out, 'F');
	put(out, name);
	put(out, path);
}

void proof_gate(struct buf *out, struct slice ca)
{
	if (!out)
		return;
	buf_char(out, 'G');
	put(out, ca);
}

void proof_pull(struct buf *out, struct slice secret)
{
	if (!out)
		return;
	buf_char(out, 'P');
	put(out, secret);
}

/* ---- the parts that are alike for every pod of a client ---- */

/* One rendered object: its shape, and then its values by it. */
static bool add_object(struct slice object, struct arena *a, struct buf *shape, struct buf *values)
{
	struct json j = {0};
	struct shape_reader r;
	size_t before = shape->len;
	char *copy = NULL;
	int rc = json_read_copy(&j, object.at, object.len, NODES_MAX, &copy, NULL);
	bool good = rc == 0 && shape_write(&j, json_root(&j), shape);

	if (rc == ERR_NOMEM)
		a->failed = true;

	if (good) {
		r = shape_reader((struct slice){shape->data + before, shape->len - before}, a);
		shape_values(&r, &j, json_root(&j), values);
		good = !r.bad;
	}
	json_release(&j);
	free(copy);
	return good;
}

static int prepare_client(const struct profile *p, struct profile_client *c, plan_digest *digest,
	struct arena *a, struct err *err)
{
	struct buf shape, values, parts;
	bool good = true;
	int rc = 0;

	buf_init(&shape, PLAN_SHAPE_MAX);
	buf_init(&values, PARTS_MAX);
	buf_init(&parts, PARTS_MAX);
	for (size_t i = 0; i < p->n_volumes && good; i++)
		good = add_object(p->volumes[i].json, a, &shape, &values);
	for (size_t i = 0; i < c->n_inits && good; i++)
		good = add_object(c->inits[i].json, a, &shape, &values);
	for (size_t i = 0; i < p->n_mounts && good; i++)
		good = add_object(p->mounts[i].json, a, &shape, &values);
	put(&parts, buf_as_slice(&shape));
	buf_slice(&parts, buf_as_slice(&values));
	if ((shape.failed && !shape.full) || (parts.failed && !parts.full) ||
		(values.failed && !values.full))
		a->failed = true;
	if (good && !shape.failed && !values.failed && !parts.failed && !a->failed) {
		rc = digest(buf_as_slice(&parts), c->parts_digest, err);
		c->shape = arena_slice(a, shape.len ? buf_as_slice(&shape) : SLICE(""));
	}
	buf_release(&shape);
	buf_release(&values);
	buf_release(&parts);
	return a->failed ? err_set(err, ERR_NOMEM, "out of memory for the launcher profile") : rc;
}

int profile_prepare_proof(struct profile *p, plan_digest *digest, struct arena *a, struct err *err)
{
	for (size_t i = 0; i < p->n_clients; i++)
		if (prepare_client(p, &p->clients[i], digest, a, err) < 0)
			return err->code;
	return 0;
}

/* ---- making ---- */

static int digest_all(const struct plan_signer *signer, const unsigned char *parts,
	const struct buf *content, unsigned char ret[PLAN_PROOF_BYTES], struct err *err)
{
	struct buf all;
	int rc;

	buf_init(&all, PLAN_RENDERED_MAX);
	buf_reserve(&all, content->len + sizeof(FORM) + PLAN_PROOF_BYTES);
	buf_str(&all, FORM);
	buf_add(&all, parts, PLAN_PROOF_BYTES);
	buf_slice(&all, buf_as_slice(content));
	rc = all.failed || content->failed
		     ? err_set(err, ERR_NOMEM, "out of memory for the plan's proof")
		     : signer->digest(buf_as_slice(&all), ret, err);
	buf_release(&all);
	return rc;
}

/* Of a proof's text, besides the shape. */
#define PROOF_BYTES 160

/* What the MAC is over: the namespace with its length, the plan's text before its proof, the
 * digest. */
struct signed_parts {
	char length[24];
	struct slice part[4];
};

static void sign_what(struct signed_parts *s, struct slice namespace, struct slice text,
	const unsigned char *digest)
{
	size_t n = namespace.len, at = sizeof(s->length);

	s->length[--at] = ':';
	do
		s->length[--at] = (char)('0' + n % 10);
	while ((n /= 10) > 0);
	s->part[0] = (struct slice){s->length + at, sizeof(s->length) - at};
	s->part[1] = namespace;
	s->part[2] = text;
	s->part[3] = (struct slice){(const char *)digest, PLAN_PROOF_BYTES};
}

int plan_prove(const struct plan_signer *signer, struct slice namespace,
	const struct profile_client *client, const struct buf *content, struct buf *text,
	struct err *err)
{
	unsigned char digest[PLAN_PROOF_BYTES], mac[PLAN_PROOF_BYTES];
	struct signed_parts s;

	if (!client->shape.at || text->failed ||
		text->len + client->shape.len + PROOF_BYTES > text->max)
		return 0;
	if (digest_all(signer, client->parts_digest, content, digest, err) < 0)
		return err->code;
	sign_what(&s, namespace, (struct slice){text->data, text->len - 1}, digest);
	if (signer->sign(signer->ctx, s.part, 4, mac, err) < 0)
		return err->code;
	text->len--;
	buf_str(text, PLAN_PROOF_KEY "{\"shape\":\"");
	buf_slice(text, client->shape);
	buf_str(text, "\",\"digest\":\"");
	buf_base64(text, digest, sizeof(digest));
	buf_str(text, "\",\"mac\":\"");
	buf_base64(text, mac, sizeof(mac));
	buf_str(text, "\"}}");
	return 0;
}

/* ---- judging ---- */

/* One pod, and what is found at the plan's places. */
struct finding {
	const struct pod *pod;
	const struct plan *plan;
	struct arena *a;
	struct shape_reader shape;
	struct buf content;
	bool missing;
};

/* The values of the named elements, by the shape. */
static void find_objects(struct finding *f, struct shape_reader *shape,
	const struct json_node *array, const char *key, const struct slice *names, size_t n,
	struct buf *values)
{
	struct json_hit *hits = arena_array(f->a, n, sizeof(*hits));

	if (!hits || json_find_each(f->pod->j, array, key, names, n, false, f->a, hits) != 0) {
		f->a->failed = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		shape_values(shape, f->pod->j, hits[i].node, values);
}

/* The mounts of each container are the same. */
static void find_mounts(struct finding *f, struct buf *values)
{
	struct shape_reader from = f->shape;
	size_t before = values->len, first = 0;

	for (size_t i = 0; i < f->plan->n_containers; i++) {
		const struct plan_container *pc = &f->plan->containers[i];
		const struct pod_container *c = pod_container(f->pod, pc->name);
		size_t at = values->len;

		if (!c) {
			f->missing = true;
			return;
		}
		f->shape = from;
		find_objects(f, &f->shape, json_get(f->pod->j, c->node, SLICE("volumeMounts")),
			"mountPath", pc->mounts, pc->n_mounts, values);
		if (i == 0) {
			first = values->len - before;
			continue;
		}
		if (values->failed || values->len - at != first ||
			memcmp(values->data + at, values->data + before, first) != 0) {
			f->missing = true;
			return;
		}
		values->len = at;
	}
}

static void find_parts(struct finding *f, struct buf *parts)
{
	const struct plan *plan = f->plan;
	const struct pod *pod = f->pod;

	put(parts, plan->proof.shape);
	find_objects(f, &f->shape, pod->volumes, "name", plan->volumes, plan->n_volumes, parts);
	find_objects(f, &f->shape, json_get(pod->j, pod->spec, SLICE("initContainers")), "name",
		plan->inits, plan->n_inits, parts);
	find_mounts(f, parts);
	f->missing |= f->shape.bad || f->shape.left.len > 0;
}

static void find_command(
	struct finding *f, const struct pod_container *c, const struct plan_container *pc)
{
	const struct json *j = f->pod->j;
	const struct json_node *command = json_get(j, c->node, SLICE("command"));
	size_t n = pc->argv + (pc->command == COMMAND_SHELL ? 2U : 0U), i = 0;
	struct slice *words;

	if (pc->command != COMMAND_WRAPPED && pc->command != COMMAND_SHELL) {
		proof_command(&f->content, j, c->node, f->a);
		return;
	}
	if (!json_is(command, JSON_ARRAY) || command->count <= n) {
		f->missing = true;
		return;
	}
	words = arena_array(f->a, n, sizeof(*words));
	JSON_EACH(j, command, word)
	{
		if (!words || i == n)
			break;
		words[i++] = json_str(j, word, f->a);
	}
	proof_words(&f->content, words, i);
}

static void find_variables(
	struct finding *f, const struct pod_container *c, const struct plan_container *pc)
{
	const struct json *j = f->pod->j;
	const struct json_node *env = json_get(j, c->node, SLICE("env"));
	size_t n = pc->n_env + pc->n_kept;
	struct slice *names = arena_array(f->a, n, sizeof(*names));
	struct json_hit *hits = arena_array(f->a, n, sizeof(*hits));

	for (size_t i = 0; names && i < n; i++)
		names[i] = i < pc->n_env ? pc->env[i].name : pc->kept[i - pc->n_env];
	if (!names || !hits || json_find_each(j, env, "name", names, n, true, f->a, hits) != 0) {
		f->a->failed = true;
		return;
	}
	for (size_t i = 0; i < n; i++) {
		const struct json_node *value = json_get(j, hits[i].node, SLICE("value"));
		const struct json_node *from =
			json_path(j, hits[i].node, "valueFrom", "secretKeyRef", NULL);
		const struct json_node *field =
			json_path(j, hits[i].node, "valueFrom", "fieldRef", "fieldPath", NULL);

		if (json_is(value, JSON_STRING))
			proof_variable(&f->content, names[i], json_str(j, value, f->a));
		else if (from)
			proof_variable_secret(&f->content, names[i],
				json_str(j, json_get(j, from, SLICE("name")), f->a),
				json_str(j, json_get(j, from, SLICE("key")), f->a));
		else if (field)
			proof_variable_field(&f->content, names[i], json_str(j, field, f->a));
		else
			f->missing = true;
	}
}

static void find_containers(struct finding *f)
{
	for (size_t i = 0; i < f->plan->n_containers && !f->missing; i++) {
		const struct plan_container *pc = &f->plan->containers[i];
		const struct pod_container *c = pod_container(f->pod, pc->name);

		if (!c || c->kind != pc->kind) {
			f->missing = true;
			return;
		}
		proof_container(&f->content, pc->name);
		find_command(f, c, pc);
		find_variables(f, c, pc);
	}
}

bool plan_is_genuine(const struct plan_signer *signer, struct slice namespace,
	const struct plan *plan, struct arena *a)
{
	struct signed_parts s;
	bool good = false;

	if (!signer || !plan->proof.text.at)
		return false;
	sign_what(&s, namespace, plan->proof.text, plan->proof.digest);
	if (signer->verify(signer->ctx, s.part, 4, plan->proof.mac, &good, NULL) < 0)
		a->failed = true;
	return good;
}

/* Is the pod what the digest was made of? */
static bool as_rendered(struct finding *f, const struct plan_signer *signer)
{
	unsigned char parts_digest[PLAN_PROOF_BYTES], digest[PLAN_PROOF_BYTES];
	struct buf parts;
	bool found;

	buf_init(&parts, PLAN_RENDERED_MAX);
	buf_init(&f->content, PLAN_RENDERED_MAX);
	find_parts(f, &parts);
	find_containers(f);
	if (f->plan->gate_port)
		proof_gate(&f->content, pod_annotation(f->pod, ANN_GATE_CA, f->a));
	if (f->plan->pull_secret.at)
		proof_pull(&f->content, f->plan->pull_secret);
	f->missing |= f->plan->pull_secret.at && !pod_pulls_with(f->pod, f->plan->pull_secret);
	found = !f->missing && !parts.full && !f->content.full;
	if (found && (parts.failed || f->content.failed ||
			     signer->digest(buf_as_slice(&parts), parts_digest, NULL) < 0 ||
			     digest_all(signer, parts_digest, &f->content, digest, NULL) < 0))
		f->a->failed = true;
	found = found && !f->a->failed &&
		memcmp(digest, f->plan->proof.digest, sizeof(digest)) == 0;
	buf_release(&parts);
	buf_release(&f->content);
	return found;
}

enum proof plan_judge(const struct plan_signer *signer, struct slice namespace,
	const struct pod *pod, const struct plan *plan, struct arena *a)
{
	struct finding f = {
		.pod = pod, .plan = plan, .a = a, .shape = shape_reader(plan->proof.shape, a)};

	if (!plan->proof.text.at)
		return PROOF_NONE;
	if (!plan_is_genuine(signer, namespace, plan, a))
		return PROOF_UNKNOWN;
	return as_rendered(&f, signer) ? PROOF_HOLDS : PROOF_OTHER;
}
