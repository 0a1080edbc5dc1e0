/* SPDX-License-Identifier: Apache-2.0 */
/* core: inject into one container's environment. */
#include "webhook/core/inject/inject.h"
#include "webhook/core/pod/late.h"

/* A variable whose value comes from elsewhere is kept under this name and referred to. */
#define MOVED_PREFIX "POOLGATE_OWN_"

static bool char_is(struct slice s, size_t at, struct slice sep)
{
	return s.len - at >= sep.len && memcmp(s.at + at, sep.at, sep.len) == 0;
}

/* How many bytes of text stand in front of the first separator. */
static size_t element_len(struct slice text, struct slice separator)
{
	const char *at = text.at, *end = text.at + text.len;

	for (; at < end && (at = memchr(at, separator.at[0], (size_t)(end - at))) != NULL; at++)
		if (char_is(text, (size_t)(at - text.at), separator))
			return (size_t)(at - text.at);
	return text.len;
}

/* Append the elements of text to the n bytes of out, empty ones left out. Returns how many bytes
 * there are then. */
static size_t add_elements(char *out, size_t n, struct slice text, struct slice separator)
{
	while (text.len > 0) {
		size_t len = element_len(text, separator);
		size_t taken = len < text.len ? len + separator.len : len;

		if (len > 0 && n > 0) {
			memcpy(out + n, separator.at, separator.len);
			n += separator.len;
		}
		if (len > 0)
			memcpy(out + n, text.at, len);
		n += len;
		text = (struct slice){text.at + taken, text.len - taken};
	}
	return n;
}

struct slice inject_join(
	struct slice front, struct slice separator, struct slice value, struct arena *a)
{
	char *out = arena_space(a, front.len + separator.len + value.len + 1, 1);
	size_t n = 0;

	if (!out)
		return (struct slice){0};
	if (separator.len == 0) {
		if (front.len > 0)
			memcpy(out, front.at, front.len);
		if (value.len > 0)
			memcpy(out + front.len, value.at, value.len);
		return (struct slice){out, front.len + value.len};
	}
	n = add_elements(out, n, front, separator);
	return (struct slice){out, add_elements(out, n, value, separator)};
}

/* The inside of a JSON string that stands for this text. */
static struct slice json_spelled(struct slice s, struct arena *a)
{
	struct buf b;
	struct slice ret = {0};

	if (buf_json_plain(s) == s.len)
		return s;
	buf_init(&b, s.len * 6 + 1);
	buf_json_esc(&b, s);
	if (!b.failed)
		ret = arena_slice(a, buf_as_slice(&b));
	buf_release(&b);
	return ret;
}

/* Write the variable as the value of the operation that was opened. */
static void write_var(struct injection *in, struct slice name, struct slice value)
{
	buf_str(in->patch->out, "{\"name\":");
	buf_json_str(in->patch->out, name);
	buf_str(in->patch->out, ",\"value\":\"");
	buf_slice(in->patch->out, value);
	buf_str(in->patch->out, "\"}");
	patch_close(in->patch);
}

/* The variable gets its value from a field, a Secret or a ConfigMap: keep that under another name,
 * refer to it. */
static int keep_by_reference(struct injection *in, const char *path, size_t index,
	const struct profile_env *env, struct slice ours, struct plan_env *pe,
	struct slice *ret_behind, struct err *err)
{
	const char *moved = arena_fmt(in->a, MOVED_PREFIX "%.*s", (int)env->name.len, env->name.at);
	const char *ref = moved ? arena_fmt(in->a, "$(%s)", moved) : NULL;
	struct slice value;

	if (!moved || !ref)
		return err_set(err, ERR_NOMEM, "out of memory");
	value = inject_join(ours, env->separator, slice_of(ref), in->a);
	if (!value.at)
		return err_set(err, ERR_NOMEM, "out of memory");
	pe->moved = slice_of(moved);
	*ret_behind = slice_of(ref);
	patch_open_at(in->patch, "replace", path, index, SLICE("name"));
	buf_json_str(in->patch->out, pe->moved);
	patch_close(in->patch);
	patch_open_at(in->patch, "add", path, index + 1, (struct slice){0});
	write_var(in, env->name, value);
	return 0;
}

/* The variable is there with a value of its own (perhaps none). *ret_behind: what stands behind
 * ours then, decoded. */
static int put_in_front(struct injection *in, const char *path, size_t index,
	const struct json_node *var, const struct profile_env *env, struct slice ours,
	struct plan_env *pe, struct slice *ret_behind, struct err *err)
{
	const struct json *j = in->pod->j;
	const struct json_node *value = json_get(j, var, SLICE("value"));
	struct slice was = json_is(value, JSON_STRING) ? json_inside(j, value) : SLICE(""), joined;

	if (json_is(json_get(j, var, SLICE("valueFrom")), JSON_OBJECT))
		return keep_by_reference(in, path, index, env, ours, pe, ret_behind, err);
	*ret_behind = json_str(j, value, in->a);
	pe->had = true;
	pe->was = json_is(value, JSON_STRING) ? was : (struct slice){0};
	if (slice_starts(was, ours) &&
		(was.len == ours.len || char_is(was, ours.len, env->separator)))
		return 0;
	joined = inject_join(ours, env->separator, was, in->a);
	if (!joined.at)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (joined.len != ours.len + (was.len ? env->separator.len + was.len : 0))
		warn_add(in->warnings, in->a,
			"empty elements of %.*s, which mean the current directory, are left out",
			(int)(env->name.len > 40 ? 40 : env->name.len), env->name.at);
	patch_open_at(in->patch, value ? "replace" : "add", path, index, SLICE("value"));
	buf_char(in->patch->out, '"');
	buf_slice(in->patch->out, joined);
	buf_char(in->patch->out, '"');
	patch_close(in->patch);
	return 0;
}

bool inject_refers(const struct json *j, const struct json_node *var, const struct profile_env *env)
{
	const struct json_node *ref = json_path(j, var, "valueFrom", "secretKeyRef", NULL);

	if (env->field.at)
		return json_is_str(j, json_path(j, var, "valueFrom", "fieldRef", "fieldPath", NULL),
			env->field);
	return json_is_str(j, json_get(j, ref, SLICE("name")), env->secret) &&
	       json_is_str(j, json_get(j, ref, SLICE("key")), env->secret_key);
}

/* A variable that the profile sets must not be the user's, unless it is the same. */
static int check_set(const struct json *j, const struct json_node *var, size_t index,
	const struct profile_env *env, struct slice ours, struct err *err)
{
	struct slice was = json_inside(j, json_get(j, var, SLICE("value")));

	if (profile_env_refers(env) ? inject_refers(j, var, env) : was.at && slice_eq(was, ours))
		return 0;
	err_reason(err, ERR_REFUSED, "EnvCollision",
		"the container sets %.*s itself, which the launcher has to set; remove it",
		(int)env->name.len, env->name.at);
	return err_in(err, "env/%zu", index);
}

/* One container's environment while it is changed. */
struct site {
	const struct json_node *env;
	const char *path;
	const struct launch *l;
	struct plan_container *pc;
	size_t n_late;    /* variables that we put in front of the container's own */
	size_t *inserted; /* where we put elements between these */
	size_t n_inserted;
	struct buf *kept; /* what the proof says of the variables that are left alone */
};

/* Where a variable stands after our insertions. */
static size_t shifted(size_t index, const struct site *site)
{
	index += site->n_late;
	for (size_t i = 0; i < site->n_inserted; i++)
		index += site->inserted[i] <= index;
	return index;
}

/* A variable that the container does not have: behind all others. */
static void append(
	struct injection *in, struct site *site, const struct profile_env *env, struct slice ours)
{
	struct buf *out = in->patch->out;

	if (!json_is(site->env, JSON_ARRAY) && !site->pc->made_env) {
		site->pc->made_env = true;
		patch_add(in->patch, site->path, (struct slice){0}, SLICE("[]"));
	}
	patch_open(in->patch, "add", site->path, SLICE("-"));
	if (!profile_env_refers(env)) {
		write_var(in, env->name, inject_join(ours, env->separator, SLICE(""), in->a));
		return;
	}
	buf_str(out, "{\"name\":");
	buf_json_str(out, env->name);
	buf_str(out, env->field.at ? ",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":"
				   : ",\"valueFrom\":{\"secretKeyRef\":{\"name\":");
	buf_json_str(out, env->field.at ? env->field : env->secret);
	if (!env->field.at) {
		buf_str(out, ",\"key\":");
		buf_json_str(out, env->secret_key);
	}
	buf_str(out, "}}}");
	patch_close(in->patch);
}

/* Note for the proof what the variable is from now on: ours and what stands behind it, decoded. */
static void note_var(struct injection *in, struct buf *out, const struct profile_env *env,
	struct slice ours, struct slice behind)
{
	if (!out)
		return;
	if (env->field.at) {
		proof_variable_field(out, env->name, env->field);
		return;
	}
	if (env->secret.at) {
		proof_variable_secret(out, env->name, env->secret, env->secret_key);
		return;
	}
	/* as put_in_front leaves it */
	if (!slice_starts(behind, ours) ||
		(behind.len > ours.len && !char_is(behind, ours.len, env->separator)))
		behind = inject_join(ours, env->separator, behind, in->a);
	proof_variable(out, env->name, behind);
}

static int inject_var(struct injection *in, struct site *site, const struct profile_env *env,
	const struct json_hit *hit, struct err *err)
{
	const struct json *j = in->pod->j;
	struct plan_env pe = {.name = env->name};
	struct slice plain = SLICE(""), ours, behind = SLICE("");
	const struct json_node *var = hit->node;
	size_t index = hit->index;

	if (!profile_env_refers(env))
		plain = template_render(env->value, site->l, (struct slice){0}, in->a);
	ours = plain.at ? json_spelled(plain, in->a) : plain;
	if (!ours.at)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (var && !env->prepend) {
		if (check_set(j, var, index, env, ours, err) < 0)
			return err->code;
		site->pc->kept[site->pc->n_kept++] = env->name;
		note_var(in, site->kept, env, plain, plain);
		return 0;
	}
	if (!var)
		append(in, site, env, ours);
	else if (put_in_front(in, site->path, shifted(index, site), var, env, ours, &pe, &behind,
			 err) < 0)
		return err->code;
	note_var(in, in->rendered, env, plain, behind);
	if (pe.moved.at) {
		/* before it counts itself */
		size_t at = shifted(index, site) + 1;

		site->inserted[site->n_inserted++] = at;
	}
	site->pc->env[site->pc->n_env++] = pe;
	return 0;
}

/* A variable that reads one value of the place, in front of all others: only those behind it can
 * refer to it. */
static int inject_late(struct injection *in, struct site *site, enum late_value v, struct err *err)
{
	const struct json *j = in->pod->j;
	const char *name = late_variable(v), *field = late_field(v, site->pc->slot, in->a);
	struct buf *out = in->patch->out;

	if (!field)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (json_find(j, site->env, "name", slice_of(name), false, NULL)) {
		err_reason(err, ERR_REFUSED, "EnvCollision",
			"the container sets %s itself, which poolgate has to set; remove it", name);
		return err_in(err, "env");
	}
	if (!json_is(site->env, JSON_ARRAY) && !site->pc->made_env) {
		site->pc->made_env = true;
		patch_add(in->patch, site->path, (struct slice){0}, SLICE("[]"));
	}
	patch_open_at(in->patch, "add", site->path, site->n_late, (struct slice){0});
	buf_str(out, "{\"name\":");
	buf_json_str(out, slice_of(name));
	buf_str(out, ",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":");
	buf_json_str(out, slice_of(field));
	buf_str(out, "}}}");
	patch_close(in->patch);
	proof_variable_field(in->rendered, slice_of(name), slice_of(field));
	site->n_late++;
	site->pc->env[site->pc->n_env++] = (struct plan_env){.name = slice_of(name)};
	return 0;
}

bool inject_hides(const struct profile *p, const struct plan_container *c)
{
	for (size_t i = 0; c->foreign && i < p->n_env; i++)
		if (slice_is(p->env[i].name, VISIBLE_DEVICES))
			return false;
	return c->foreign != 0;
}

/* The container has a value of its own, or takes one from elsewhere: ours takes its place. */
static void replace_visible(struct injection *in, const struct site *site,
	const struct json_hit *hit, struct plan_env *pe)
{
	const struct json *j = in->pod->j;
	const struct json_node *value = json_get(j, hit->node, SLICE("value"));
	size_t index = shifted(hit->index, site);

	if (json_is(json_get(j, hit->node, SLICE("valueFrom")), JSON_OBJECT)) {
		pe->moved = SLICE(MOVED_PREFIX VISIBLE_DEVICES);
		patch_open_at(in->patch, "replace", site->path, index, SLICE("name"));
		buf_json_str(in->patch->out, pe->moved);
		patch_close(in->patch);
		patch_open_at(in->patch, "add", site->path, index + 1, (struct slice){0});
		write_var(in, pe->name, SLICE(VISIBLE_NONE));
	} else {
		pe->had = true;
		pe->was = json_inside(j, value);
		patch_open_at(
			in->patch, value ? "replace" : "add", site->path, index, SLICE("value"));
		buf_str(in->patch->out, "\"" VISIBLE_NONE "\"");
		patch_close(in->patch);
	}
	warn_add(in->warnings, in->a,
		VISIBLE_DEVICES " of container %.*s becomes " VISIBLE_NONE
				": its GPUs are the pool's, and it sees none of its node's",
		(int)(site->pc->name.len > 63 ? 63 : site->pc->name.len), site->pc->name.at);
}

/* Its GPUs are the pool's: of its node's it sees none, whatever image or pod say. */
static void inject_void(struct injection *in, struct site *site)
{
	const struct profile_env none = {.name = SLICE(VISIBLE_DEVICES)};
	struct slice value = SLICE(VISIBLE_NONE);
	struct plan_env pe = {.name = none.name};
	struct json_hit hit = {0};

	hit.node = json_find(in->pod->j, site->env, "name", none.name, true, &hit.index);
	if (hit.node &&
		json_is_str(in->pod->j, json_get(in->pod->j, hit.node, SLICE("value")), value)) {
		site->pc->kept[site->pc->n_kept++] = none.name;
		note_var(in, site->kept, &none, value, value);
		return;
	}
	if (hit.node)
		replace_visible(in, site, &hit, &pe);
	else
		append(in, site, &none, value);
	note_var(in, in->rendered, &none, value, value);
	site->pc->env[site->pc->n_env++] = pe;
}

static int inject_vars(struct injection *in, struct site *site, struct err *err)
{
	size_t n = in->profile->n_env;
	struct slice *names = arena_array(in->a, n, sizeof(*names));
	struct json_hit *hits = arena_array(in->a, n, sizeof(*hits));

	if (!names || !hits)
		return err_set(err, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		names[i] = in->profile->env[i].name;
	/* of variables with one name, the kubelet takes the last */
	if (json_find_each(in->pod->j, site->env, "name", names, n, true, in->a, hits) != 0)
		return err_set(err, ERR_NOMEM, "out of memory");
	for (size_t v = 0; v < LATE_VALUES; v++)
		if (in->plan->late.values & 1u << v &&
			inject_late(in, site, (enum late_value)v, err) < 0)
			return err->code;
	for (size_t i = 0; i < n; i++)
		if (launch_times(site->l, in->profile->env[i].when) &&
			inject_var(in, site, &in->profile->env[i], &hits[i], err) < 0)
			return err->code;
	if (inject_hides(in->profile, site->pc))
		inject_void(in, site);
	return 0;
}

int inject_env(struct injection *in, const struct pod_container *c, const struct launch *l,
	struct plan_container *pc, struct err *err)
{
	size_t n = in->profile->n_env;
	struct buf kept;
	struct site site = {.env = json_get(in->pod->j, c->node, SLICE("env")),
		.path = pod_path(in->a, c->path, "/env"),
		.l = l,
		.pc = pc,
		.inserted = arena_array(in->a, n, sizeof(size_t)),
		.kept = in->rendered ? &kept : NULL};
	int rc;

	pc->env = arena_array(in->a, n + LATE_VALUES + 1, sizeof(*pc->env));
	pc->kept = arena_array(in->a, n + 1, sizeof(*pc->kept));
	if (!site.path || !pc->env || !pc->kept || !site.inserted)
		return err_set(err, ERR_NOMEM, "out of memory");
	buf_init(&kept, PLAN_RENDERED_MAX);
	rc = inject_vars(in, &site, err);
	if (in->rendered) {
		buf_slice(in->rendered, buf_as_slice(&kept));
		in->rendered->failed |= kept.failed;
	}
	buf_release(&kept);
	return rc;
}
