/* SPDX-License-Identifier: Apache-2.0 */
/* core: inject into one container: resources, command and mounts. */
#include "base/quantity.h"
#include "webhook/core/inject/inject.h"
#include "webhook/core/inject/wrap_own.h"

struct launch inject_launch(const struct profile *p, const struct profile_client *client,
	const struct plan *plan, const struct plan_container *c)
{
	return (struct launch){.profile = p,
		.client = client,
		.amount = c->amount,
		.percent = c->percent,
		.memory_mb = c->memory_mb,
		.filters = plan->filters,
		.n_filters = plan->n_filters,
		.servers = plan->addresses,
		.n_servers = plan->n_servers,
		.late = plan->late.values != 0};
}

/* The members that are taken out of one side, in the order of removal. */
static size_t asked_members(const struct gpu_request *r, bool limits, const char **names,
	const struct json_node **values)
{
	const struct {
		const char *name;
		const struct gpu_resource *at;
	} all[] = {
		{RES_AMOUNT, &r->amount_at},
		{RES_NUM, &r->num_at},
		{RES_PERCENT, &r->percent_at},
		{RES_MEMORY, &r->memory_at},
	};
	size_t n = 0;

	for (size_t i = 0; i < 4; i++) {
		const struct json_node *v = limits ? all[i].at->limit : all[i].at->request;

		if (v) {
			names[n] = all[i].name;
			values[n++] = v;
		}
	}
	for (size_t k = 0; k < FOREIGN_KEYS; k++) {
		const struct json_node *v =
			limits ? r->foreign_at[k].limit : r->foreign_at[k].request;

		if (v) {
			names[n] = foreign_key_name((enum foreign_key)k);
			values[n++] = v;
		}
	}
	return n;
}

static char *put(char *at, struct slice s)
{
	if (s.len > 0)
		memcpy(at, s.at, s.len);
	return at + s.len;
}

/* Remember a side's members as a JSON object, so that uninject can bring them back as they were
 * spelled. */
static struct slice remember(
	const struct injection *in, const char **names, const struct json_node **values, size_t n)
{
	size_t size = 2;
	char *text, *at;

	for (size_t i = 0; i < n; i++)
		size += strlen(names[i]) + values[i]->len + 4;
	text = at = arena_alloc(in->a, size);
	if (!text)
		return (struct slice){0};
	for (size_t i = 0; i < n; i++) {
		at = put(at, i > 0 ? SLICE(",\"") : SLICE("{\""));
		at = put(at, slice_of(names[i]));
		at = put(at, SLICE("\":"));
		at = put(at, json_raw(in->pod->j, values[i]));
	}
	at = put(at, SLICE("}"));
	return (struct slice){text, (size_t)(at - text)};
}

/* Take the asking members out of limits or requests and set the units there, or take those out,
 * too, where nodes are asked for nothing. made: the side did not exist. */
static int inject_side(struct injection *in, const struct pod_container *c,
	const struct gpu_request *r, bool limits, uint64_t units, struct slice *ret_asked,
	bool *ret_made, struct err *err)
{
	const char *below = limits ? "/resources/limits" : "/resources/requests";
	const struct json_node *side = limits ? r->limits : r->requests;
	const struct json_node *has = limits ? r->units_at.limit : r->units_at.request;
	const char *path = pod_path(in->a, c->path, below);
	const struct json_node *values[5 + FOREIGN_KEYS];
	const char *names[5 + FOREIGN_KEYS];
	size_t n = asked_members(r, limits, names, values);
	bool off = in->plan->node_resource_off;

	if (!path)
		return err_set(err, ERR_NOMEM, "out of memory");
	*ret_made = !off && !json_is(side, JSON_OBJECT);
	if (*ret_made) {
		patch_open(in->patch, "add", path, (struct slice){0});
		buf_slice(in->patch->out, SLICE("{\"" RES_UNITS "\":"));
		buf_u64(in->patch->out, units);
		buf_char(in->patch->out, '}');
		patch_close(in->patch);
		return 0;
	}
	for (size_t i = 0; i < n; i++)
		patch_remove(in->patch, path, slice_of(names[i]));
	if (off && has) {
		patch_remove(in->patch, path, SLICE(RES_UNITS));
	} else if (!off) {
		patch_open(in->patch, has ? "replace" : "add", path, SLICE(RES_UNITS));
		buf_u64(in->patch->out, units);
		patch_close(in->patch);
	}
	if (has) {
		names[n] = RES_UNITS;
		values[n++] = has;
	}
	if (n > 0) {
		*ret_asked = remember(in, names, values, n);
		if (!ret_asked->at)
			return err_set(err, ERR_NOMEM, "out of memory");
	}
	return 0;
}

/* A pod may bring bitfusion.io/gpu along only if it says what we would write. */
static int check_units(const struct json *j, const struct json_node *v, const char *side,
	uint64_t units, struct err *err)
{
	struct slice s = json_is(v, JSON_STRING) ? json_inside(j, v) : json_raw(j, v);
	struct quantity q;

	if (!v || (quantity_parse(s, &q, NULL) == 0 && q.nano == (__int128_t)units * 1000000000))
		return 0;
	err_set(err, ERR_INVALID,
		"found %.*s, but what the container asks comes to %llu; leave " RES_UNITS
		" out, it is computed",
		(int)(s.len > 40 ? 40 : s.len), s.at, (unsigned long long)units);
	return err_in(err, "resources/%s/bitfusion.io~1gpu", side);
}

/* May its image be asked what it starts? */
static bool looks_at(
	const struct injection *in, const struct pod_container *c, struct slice *ret_image)
{
	*ret_image = json_str(in->pod->j, json_get(in->pod->j, c->node, SLICE("image")), in->a);
	return ret_image->at && in->images->allows(in->images->ctx, *ret_image);
}

/* The container has no command: what its image starts becomes one, behind the launcher's words. */
static int inject_image(struct injection *in, const struct pod_container *c, const struct launch *l,
	struct slice image, struct plan_container *pc, struct err *err)
{
	struct image_ask ask = {.image = image, .namespace = in->namespace, .pod = in->pod};
	struct image_start start = {0};
	struct slice *words;
	struct wrap w;
	size_t n;

	if (in->images->look(in->images->ctx, &ask, in->a, &start, err) < 0)
		return err->code == ERR_REFUSED ? wrap_refuse_image(l->profile, err) : err->code;
	if (wrap_image(in->pod->j, c->node, l, &start, in->a, &w, &words, &n, err) < 0)
		return err->code;
	pc->command = w.mode;
	pc->argv = w.argv;
	pc->image = start.digest;
	pc->image_words = (uint32_t)n;
	proof_words(in->rendered, w.words, w.n_words);
	patch_open(in->patch, "add", pod_path(in->a, c->path, "/command"), (struct slice){0});
	for (size_t i = 0; i < w.n_words + n; i++) {
		buf_char(in->patch->out, i == 0 ? '[' : ',');
		buf_json_str(in->patch->out, i < w.n_words ? w.words[i] : words[i - w.n_words]);
	}
	buf_char(in->patch->out, ']');
	patch_close(in->patch);
	return 0;
}

static int inject_command(struct injection *in, const struct pod_container *c,
	const struct launch *l, struct plan_container *pc, struct err *err)
{
	struct slice image;
	struct wrap w;
	const char *path;

	if (in->profile->kind != PROFILE_WRAP || !in->plan->full)
		proof_command(in->rendered, in->pod->j, c->node, in->a);
	if (in->profile->kind != PROFILE_WRAP)
		return 0;
	if (!in->plan->full)
		return wrap_is_own(in->pod->j, c->node, in->profile, in->a)
			       ? wrap_own_agrees(in->pod->j, c->node, l, in->a, in->warnings, err)
			       : 0;
	if (in->images && !wrap_has_command(in->pod->j, c->node) && looks_at(in, c, &image))
		return inject_image(in, c, l, image, pc, err);
	if (wrap_command(in->pod->j, c->node, l, in->a, in->warnings, &w, err) < 0)
		return err->code;
	pc->command = w.mode;
	pc->argv = w.argv;
	if (w.mode == COMMAND_OWN)
		proof_command(in->rendered, in->pod->j, c->node, in->a);
	else
		proof_words(in->rendered, w.words, w.n_words);
	path = pod_path(in->a, c->path, "/command");
	for (size_t i = 0; i < w.n_words; i++) {
		patch_open_at(in->patch, "add", path, i, (struct slice){0});
		buf_json_str(in->patch->out, w.words[i]);
		patch_close(in->patch);
	}
	return 0;
}

/* "/a/b/" and "/a/b" are one place. */
static bool same_path(struct slice a, struct slice b)
{
	while (a.len > 1 && a.at[a.len - 1] == '/')
		a.len--;
	while (b.len > 1 && b.at[b.len - 1] == '/')
		b.len--;
	return slice_eq(a, b);
}

/* Where the container's own mounts or devices stand. */
struct places {
	const char *array;
	struct slice *path; /* by index; absent where an element says nothing that can be read */
	size_t n;
};

static int read_places(struct injection *in, const struct json_node *list, const char *array,
	struct slice key, struct places *ret, struct err *err)
{
	const struct json *j = in->pod->j;

	*ret = (struct places){.array = array};
	ret->path =
		arena_array(in->a, json_is(list, JSON_ARRAY) ? list->count : 0, sizeof(*ret->path));
	if (!ret->path)
		return err_set(err, ERR_NOMEM, "out of memory");
	JSON_EACH(j, list, e)
	ret->path[ret->n++] = json_str(j, json_get(j, e, key), in->a);
	return 0;
}

/* Refuse where an element of the user's stands at this place. */
static int check_place(
	struct injection *in, const struct places *theirs, struct slice path, struct err *err)
{
	for (size_t i = 0; i < theirs->n; i++) {
		if (!theirs->path[i].at || !same_path(theirs->path[i], path))
			continue;
		err_reason(err, ERR_REFUSED, "MountCollision",
			"the container has something of its own at %.*s, where the "
			"launcher \"%.*s\" has to mount its "
			"files; mount yours elsewhere",
			(int)path.len, path.at, (int)in->profile->name.len, in->profile->name.at);
		return err_in(err, "%s/%zu", theirs->array, i);
	}
	return 0;
}

static int inject_mounts(struct injection *in, const struct pod_container *c,
	struct plan_container *pc, struct err *err)
{
	const struct json *j = in->pod->j;
	const struct json_node *mounts = json_get(j, c->node, SLICE("volumeMounts"));
	const struct json_node *devices = json_get(j, c->node, SLICE("volumeDevices"));
	const char *path = pod_path(in->a, c->path, "/volumeMounts");
	size_t n = in->profile->n_mounts;
	struct places mounted, attached;

	pc->mounts = arena_array(in->a, n, sizeof(*pc->mounts));
	if (!path || !pc->mounts)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (read_places(in, mounts, "volumeMounts", SLICE("mountPath"), &mounted, err) < 0 ||
		read_places(in, devices, "volumeDevices", SLICE("devicePath"), &attached, err) < 0)
		return err->code;
	if (n > 0 && !json_is(mounts, JSON_ARRAY)) {
		pc->made_mounts = true;
		patch_add(in->patch, path, (struct slice){0}, SLICE("[]"));
	}
	for (size_t i = 0; i < n; i++) {
		const struct profile_mount *m = &in->profile->mounts[i];

		if (check_place(in, &mounted, m->path, err) < 0 ||
			check_place(in, &attached, m->path, err) < 0)
			return err->code;
		pc->mounts[pc->n_mounts++] = m->path;
		patch_add(in->patch, path, SLICE("-"), m->json);
	}
	return 0;
}

static int check_both_units(struct injection *in, const struct gpu_request *req,
	const struct plan_container *pc, struct err *err)
{
	const struct json *j = in->pod->j;

	if (check_units(j, req->units_at.limit, "limits", pc->units, err) < 0)
		return err->code;
	return check_units(j, req->units_at.request, "requests", pc->units, err);
}

int inject_container(struct injection *in, const struct pod_container *c,
	const struct gpu_request *req, struct plan_container *pc, struct err *err)
{
	struct launch l = inject_launch(in->profile, in->client, in->plan, pc);

	proof_container(in->rendered, pc->name);
	if (check_both_units(in, req, pc, err) < 0 ||
		inject_side(in, c, req, true, pc->units, &pc->asked_limits, &pc->made_limits, err) <
			0 ||
		inject_side(in, c, req, false, pc->units, &pc->asked_requests, &pc->made_requests,
			err) < 0 ||
		inject_command(in, c, &l, pc, err) < 0 || inject_env(in, c, &l, pc, err) < 0 ||
		inject_mounts(in, c, pc, err) < 0)
		return err_in(err, "%s", c->path + 1);
	return 0;
}

/* Do the members that were taken out of one side say what share was wanted? */
static bool said_share(struct slice asked)
{
	return slice_holds(asked, SLICE("\"" RES_PERCENT "\":")) ||
	       slice_holds(asked, SLICE("\"" RES_MEMORY "\":"));
}

bool inject_asks_same(const struct gpu_request *r, const struct plan_container *pc)
{
	bool left_out = !r->foreign && !gpu_request_says_share(r) &&
			!said_share(pc->asked_limits) && !said_share(pc->asked_requests);

	return r->amount == pc->amount &&
	       (left_out || (r->percent == pc->percent && r->memory_mb == pc->memory_mb));
}

int inject_again(struct injection *in, const struct pod_container *c, const struct gpu_request *req,
	const struct plan_container *pc, struct err *err)
{
	struct slice asked;
	bool made;

	if (!inject_asks_same(req, pc)) {
		err_reason(err, ERR_REFUSED, "RequestChanged",
			"asks for other GPUs than the plan in " ANN_PLAN
			" holds for it; remove that annotation, or the request");
		err_in(err, "resources");
		return err_in(err, "%s", c->path + 1);
	}
	if (check_both_units(in, req, pc, err) < 0 ||
		inject_side(in, c, req, true, pc->units, &asked, &made, err) < 0 ||
		inject_side(in, c, req, false, pc->units, &asked, &made, err) < 0)
		return err_in(err, "%s", c->path + 1);
	return 0;
}
