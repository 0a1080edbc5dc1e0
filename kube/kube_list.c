/* SPDX-License-Identifier: Apache-2.0 */
/* kube: lists of the Kubernetes API, page by page. */
#include "kube/kube.h"

#include <string.h>

#include "base/clock.h"
#include "kube/kube_answer.h"

/* A list that gets too old between two pages is begun anew this often. */
#define RESTARTS 2
#define PATH_MAX_BYTES 16384

/* A list on its way. */
struct listing {
	struct kube *kube;
	const char *path;
	int64_t deadline_ms;
	kube_each *each;
	void *ctx;
	struct kube_page page; /* the last one that came */
};

/* What the page says, object by object. */
static int read_page(struct listing *l, const struct json *j, struct err *err)
{
	const struct json_node *items;
	int rc = kube_page_items(j, l->path, &items, err);

	if (rc == 0)
		rc = kube_page_read(&l->page, l->path, j, err);
	if (rc != 0)
		return rc;
	JSON_EACH(j, items, object)
	{
		if (!l->each(l->ctx, j, object))
			return err_set(err, ERR_REFUSED, "GET %s: the list was ended", l->path);
	}
	return 0;
}

static int get_page(struct listing *l, long *ret_status, struct err *err)
{
	struct kube_call call = {.method = "GET", .timeout_ms = l->deadline_ms - clock_ms()};
	struct kube_answer answer = {0};
	struct buf path;
	int rc;

	*ret_status = 0;
	if (call.timeout_ms <= 0)
		return err_set(err, ERR_TIMEOUT, "GET %s: not all pages came in time", l->path);
	buf_init(&path, PATH_MAX_BYTES);
	kube_page_path(&l->page, l->path, &path);
	call.path = path.data;
	if (path.failed)
		rc = err_set(err, ERR_NOMEM, "GET %s: no room for the path", l->path);
	else
		rc = kube_do(l->kube, &call, &answer, err);
	*ret_status = answer.status;
	if (rc == 0)
		rc = read_page(l, &answer.json, err);
	kube_answer_release(&answer);
	buf_release(&path);
	return rc;
}

int kube_list(struct kube *k, const char *path, int64_t timeout_ms, void (*begin)(void *ctx),
	kube_each *each, void *ctx, char ret_version[static 32], struct err *err)
{
	struct listing l = {.kube = k,
		.path = path,
		.deadline_ms = clock_ms() + timeout_ms,
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
