/* SPDX-License-Identifier: Apache-2.0 */
/* kube: lists of the Kubernetes API, page by page. */
#include <string.h>

#include "base/clock.h"
#include "kube/kube_impl.h"

/* A list that gets too old between two pages is begun anew this often. */
#define RESTARTS 2
#define PATH_MAX_BYTES 16384

/* A list on its way. */
struct listing {
	struct kube *kube;
	const char *path;
	int64_t deadline_ms;
	struct kube_wanted wanted;
	kube_each *each;
	void *ctx;
	struct kube_page page; /* the last one that came */
};

char kube_separator(const char *path)
{
	return strchr(path, '?') ? '&' : '?';
}

static int no_list(const char *path, const char *why, struct err *err)
{
	return err_set(err, ERR_SYNTAX, "GET %s: the answer is no list: %s", path, why);
}

int kube_page_read(struct kube_page *page, const char *path, const struct json *j, kube_each *each,
	void *ctx, struct err *err)
{
	const struct json_node *root = json_root(j), *items = json_get(j, root, SLICE("items"));
	const struct json_node *meta = json_get(j, root, SLICE("metadata"));
	struct slice version = json_inside(j, json_get(j, meta, SLICE("resourceVersion")));

	if (!items || (!json_absent(items) && !json_is(items, JSON_ARRAY)))
		return no_list(path, "it has no items", err);
	if (version.len == 0 || version.len >= sizeof(page->version))
		return no_list(path, "it has no resourceVersion", err);
	memcpy(page->version, version.at, version.len);
	page->version[version.len] = '\0';
	buf_clear(&page->next);
	json_decode(j, json_get(j, meta, SLICE("continue")), &page->next);
	if (page->next.failed)
		return err_set(err, ERR_NOMEM, "GET %s: out of memory", path);
	JSON_EACH(j, items, object)
	{
		if (!each(ctx, j, object))
			return err_set(err, ERR_REFUSED, "GET %s: the list was ended", path);
	}
	return 0;
}

static int get_page(struct listing *l, long *ret_status, struct err *err)
{
	struct kube_call call = {.method = "GET",
		.timeout_ms = l->deadline_ms - clock_ms(),
		.go_on = l->wanted.go_on,
		.go_on_ctx = l->wanted.ctx};
	struct kube_answer answer = {0};
	struct buf path;
	int rc;

	*ret_status = 0;
	if (call.timeout_ms <= 0)
		return err_set(err, ERR_TIMEOUT, "GET %s: not all pages came in time", l->path);
	buf_init(&path, PATH_MAX_BYTES);
	buf_fmt(&path, "%s%climit=%d", l->path, kube_separator(l->path), KUBE_PAGE);
	if (l->page.next.len) {
		buf_str(&path, "&continue=");
		http_client_escape(&path, buf_as_slice(&l->page.next));
	}
	call.path = path.data;
	if (path.failed)
		rc = err_set(err, ERR_NOMEM, "GET %s: no room for the path", l->path);
	else
		rc = kube_do(l->kube, &call, &answer, err);
	*ret_status = answer.status;
	if (rc == 0)
		rc = kube_page_read(&l->page, l->path, &answer.json, l->each, l->ctx, err);
	kube_answer_release(&answer);
	buf_release(&path);
	return rc;
}

int kube_list_while(struct kube *k, const char *path, int64_t timeout_ms, struct kube_wanted wanted,
	void (*begin)(void *ctx), kube_each *each, void *ctx, char ret_version[static 32],
	struct err *err)
{
	struct listing l = {.kube = k,
		.path = path,
		.deadline_ms = clock_ms() + timeout_ms,
		.wanted = wanted,
		.each = each,
		.ctx = ctx};
	int restarts = 0, rc;
	long status;

	buf_init(&l.page.next, PATH_MAX_BYTES / 4);
	if (begin)
		begin(ctx);
	for (;;) {
		rc = get_page(&l, &status, err);
		if (rc == 0 && l.page.next.len == 0)
			break;
		if (rc == 0)
			continue;
		if (status != 410 || restarts++ == RESTARTS)
			break;
		buf_clear(&l.page.next);
		if (begin)
			begin(ctx);
	}
	if (rc == 0)
		memcpy(ret_version, l.page.version, sizeof(l.page.version));
	buf_release(&l.page.next);
	return rc;
}

int kube_list(struct kube *k, const char *path, int64_t timeout_ms, void (*begin)(void *ctx),
	kube_each *each, void *ctx, char ret_version[static 32], struct err *err)
{
	return kube_list_while(
		k, path, timeout_ms, (struct kube_wanted){0}, begin, each, ctx, ret_version, err);
}
