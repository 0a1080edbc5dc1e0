/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: reads the ResourceQuotas of a namespace that has been marked by rule R12, before a claim
 * is taken there. */
#include "webhook/cluster/ledger/quota_look.h"

#include "base/clock.h"
#include "kube/kube.h"
#include "webhook/cluster/ledger/servers_picture.h"
#include "webhook/core/pool/quota.h"

#define LIST_MAX_MS 1000
#define SCRATCH_MAX ((size_t)1 << 20)

struct look {
	const struct json *j;
	const struct json_node *pod;
	int rc;
	struct err *err;
};

static bool each(void *ctx, const struct json *j, const struct json_node *quota)
{
	struct look *l = ctx;
	struct arena a;

	arena_init(&a, SCRATCH_MAX);
	l->rc = quota_check(j, quota, l->j, l->pod, &a, l->err);
	arena_release(&a);
	return l->rc == 0;
}

static bool is_marked(struct servers *s, struct slice namespace)
{
	bool yes;

	(void)pthread_mutex_lock(&s->lock);
	yes = servers_phantom(s, namespace);
	(void)pthread_mutex_unlock(&s->lock);
	return yes;
}

/* Without the component `quotas` nobody may read them: asked now and then, said once. */
static void note_forbidden(struct quota_look *q, const struct err *err)
{
	if (atomic_exchange(&q->forbidden_ms, clock_ms()) == 0)
		log_line(q->log, LOG_LEVEL_INFO, "ResourceQuotas are not read",
			log_str("error", err->msg));
}

int quota_look_check(void *ctx, struct slice namespace, const struct json *j,
	const struct json_node *pod, int64_t deadline_ms, struct err *err)
{
	struct quota_look *q = ctx;
	int64_t now = clock_ms(), forbidden = atomic_load(&q->forbidden_ms);
	int64_t left = (deadline_ms - now) / 2;
	struct look l = {.j = j, .pod = pod, .err = err};
	struct err failed = {0};
	char version[32];
	struct arena a;
	struct buf path;
	int rc;

	if (!is_marked(q->servers, namespace) || left <= 0 ||
		(forbidden && now < forbidden + QUOTA_LOOK_AGAIN_MS))
		return 0;
	arena_init(&a, 1024);
	buf_init(&path, 1024);
	kube_path(&path, "/api/v1", arena_strdup(&a, namespace), "resourcequotas", NULL, NULL);
	rc = path.failed || a.failed
		     ? ERR_NOMEM
		     : kube_list(q->kube, path.data, left < LIST_MAX_MS ? left : LIST_MAX_MS, NULL,
			       each, &l, version, &failed);
	buf_release(&path);
	arena_release(&a);
	if (l.rc == 0 && rc == ERR_REFUSED)
		note_forbidden(q, &failed);
	return l.rc;
}
