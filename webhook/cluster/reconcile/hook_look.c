/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the conditions of our validating hook, as they are in the cluster. */
#include "webhook/cluster/reconcile/hook_look.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "webhook/cluster/duty/duty.h"
#include "webhook/core/launcher/hook_cover.h"
#include "webhook/edge/metrics/metrics.h"

#define EVERY_MS 60000
#define CALL_MS 5000
#define CONDITIONS_MAX (4u << 20)
#define CONFIGURATIONS "/apis/admissionregistration.k8s.io/v1"

struct hook_look {
	struct hook_look_config cfg;
	struct duty *duty;
	pthread_mutex_t lock; /* guards these two */
	char *conditions;     /* NULL: not known, so nothing is left out */
	uint64_t version;
	bool told; /* that they cannot be read; the duty's */
};

/* What was read last, malloc'ed, is the look's from now on. */
static void put(struct hook_look *l, char *conditions)
{
	char *old = conditions;

	(void)pthread_mutex_lock(&l->lock);
	if ((conditions != NULL) != (l->conditions != NULL) ||
		(conditions && strcmp(conditions, l->conditions) != 0)) {
		old = l->conditions;
		l->conditions = conditions;
		l->version++;
	}
	(void)pthread_mutex_unlock(&l->lock);
	free(old);
}

static int64_t look(void *ctx, struct duty *d)
{
	struct hook_look *l = ctx;
	struct kube_answer answer = {0};
	const char *text = NULL;
	struct err err = {0};
	struct arena a;
	int rc;

	(void)d;
	arena_init(&a, CONDITIONS_MAX);
	rc = kube_get_at(l->cfg.kube,
		(struct kube_place){CONFIGURATIONS, NULL, "validatingwebhookconfigurations",
			l->cfg.configuration, NULL},
		CALL_MS, &answer, &err);
	if (rc == 0)
		text = hook_conditions(&answer.json, &a);
	/* An API server that is away for a moment has the hooks that it had. */
	if (rc == 0 || rc == ERR_REFUSED || rc == ERR_NOTFOUND)
		put(l, text ? strdup(text) : NULL);
	if (rc != 0 && !l->told)
		log_line(l->cfg.log, LOG_LEVEL_WARN,
			"the webhook configuration cannot be read, so whether its conditions know "
			"the profiles' Secrets is not judged",
			log_str("name", l->cfg.configuration), log_str("error", err.msg));
	l->told = rc != 0;
	metric_set(l->cfg.metrics, M_HOOKS_READ, 0, 0, rc == 0);
	kube_answer_release(&answer);
	arena_release(&a);
	return l->cfg.every_ms ? l->cfg.every_ms : EVERY_MS;
}

uint64_t hook_look_version(struct hook_look *l)
{
	uint64_t is;

	(void)pthread_mutex_lock(&l->lock);
	is = l->version;
	(void)pthread_mutex_unlock(&l->lock);
	return is;
}

bool hook_look_covers(struct hook_look *l, struct slice secret)
{
	bool yes;

	(void)pthread_mutex_lock(&l->lock);
	yes = !l->conditions || hook_covers(l->conditions, secret);
	(void)pthread_mutex_unlock(&l->lock);
	return yes;
}

struct hook_look *hook_look_start(const struct hook_look_config *cfg, struct err *err)
{
	struct hook_look *l = calloc(1, sizeof(*l));

	if (!l) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	l->cfg = *cfg;
	(void)pthread_mutex_init(&l->lock, NULL);
	l->duty = duty_start("hook-look", look, l, err);
	if (!l->duty) {
		hook_look_stop(l);
		return NULL;
	}
	return l;
}

void hook_look_stop(struct hook_look *l)
{
	if (!l)
		return;
	duty_stop(l->duty);
	(void)pthread_mutex_destroy(&l->lock);
	free(l->conditions);
	free(l);
}
