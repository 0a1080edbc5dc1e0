/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the object that an account stands in, read and written. */
#include "base/clock.h"
#include "webhook/cluster/ledger/policy_accounts_impl.h"

#define BODY_MAX ((size_t)4 << 20)
/* A leader has counted whoever waits by then. */
#define COUNTED_MS 4000

/* Every write brings the number of those who wait, which a leader counted some time before. */
static void read_waiting(struct account_entry *e, uint32_t waiting)
{
	if (waiting == e->waiting && e->read_ms - e->let_ms < COUNTED_MS)
		return;
	e->waiting = waiting;
	e->let_in = 0;
	e->let_ms = e->read_ms;
}

/* Of which object, and which spec of it? One that was deleted and made anew begins with the first
 * generation again. False: it does not say so. */
static bool read_spec(struct account_entry *e, const struct json *j, const struct json_node *root)
{
	struct slice uid = kube_meta(j, root).uid;
	int64_t generation;

	if (uid.len >= sizeof(e->uid) ||
		!json_int(j, json_path(j, root, "metadata", "generation", NULL), &generation))
		return false;
	e->another |= e->generation && (e->generation != generation || !slice_is(uid, e->uid));
	e->generation = generation;
	if (uid.len)
		memcpy(e->uid, uid.at, uid.len);
	e->uid[uid.len] = '\0';
	return true;
}

static int read_object(
	struct account_entry *e, const struct kube_answer *answer, struct arena *a, struct err *err)
{
	const struct json *j = &answer->json;
	const struct json_node *root = json_root(j), *status = json_get(j, root, SLICE("status"));
	struct slice version = kube_meta(j, root).version;
	struct policy p;
	int64_t waiting = 0;
	int rc = policy_read(j, root, a, &p, err);

	e->known = false;
	if (rc != 0)
		return rc == ERR_NOMEM ? rc : (int)(err->code = ERR_INVALID);
	if (version.len == 0 || version.len >= sizeof(e->version) || !read_spec(e, j, root))
		return err_set(err, ERR_INVALID, "found a GPUPolicy without a version");
	memcpy(e->version, version.at, version.len);
	e->version[version.len] = '\0';
	(void)json_int(j, json_get(j, status, SLICE("waiting")), &waiting);
	e->read_ms = clock_ms();
	read_waiting(e, waiting > 0 && waiting < UINT32_MAX ? (uint32_t)waiting : 0);
	buf_clear(&e->text);
	buf_slice(&e->text, json_str(j, json_get(j, status, SLICE("account")), a));
	e->caps = (struct policy){
		.name = e->name, .gpus = p.gpus, .bytes = p.bytes, .waiting = p.waiting};
	e->known = !e->text.failed && !a->failed;
	e->another |= e->known && !ahead_is_named(e);
	return e->known ? 0 : account_no_memory(err);
}

/* GET it, or PATCH its status. */
static int call_api(struct round *r, const char *method, const struct buf *body)
{
	int64_t left = r->deadline_ms - clock_ms();
	const struct kube_call call = {.method = method,
		.at = {"/apis/poolgate.io/v1alpha1", NULL, "gpupolicies", r->e->name,
			body ? "status" : NULL},
		.content_type = KUBE_MERGE_PATCH,
		.text = body,
		.timeout_ms = left > 1 ? left : 1};
	struct kube_answer answer;
	int rc;

	err_clear(&r->err);
	r->e->known = false;
	rc = kube_do(r->x->kube, &call, &answer, &r->err);
	if (rc == 0)
		rc = read_object(r->e, &answer, &r->arena, &r->err);
	r->e->another |= kube_says_gone(rc, &r->err);
	kube_answer_release(&answer);
	return rc;
}

int account_get(struct round *r)
{
	return call_api(r, "GET", NULL);
}

static void add_number(struct buf *b, const char *name, uint64_t n)
{
	buf_fmt(b, "\"%s\":", name);
	buf_u64(b, n < INT64_MAX ? n : INT64_MAX);
	buf_char(b, ',');
}

int account_put(struct round *r, uint32_t waiting)
{
	struct account_sum held = account_held(&r->account);
	struct buf body, text;
	int rc;

	buf_init(&body, BODY_MAX);
	buf_init(&text, r->e->text.max);
	account_write(&r->account, &text);
	buf_fmt(&body, "{\"metadata\":{\"resourceVersion\":\"%s\"},\"status\":{", r->e->version);
	add_number(&body, "gpus", held.gpus);
	add_number(&body, "bytes", held.bytes);
	add_number(&body, "waiting", waiting);
	buf_str(&body, "\"account\":");
	buf_json_str(&body, buf_as_slice(&text));
	buf_str(&body, "}}");
	rc = body.failed || text.failed || r->arena.failed ? account_no_memory(&r->err)
							   : call_api(r, "PATCH", &body);
	buf_release(&text);
	buf_release(&body);
	return rc;
}
