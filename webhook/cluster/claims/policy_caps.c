/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: see policy_caps.h. */
#include "webhook/cluster/claims/policy_caps.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

/* After a cap was full: then its pods are tried again. */
#define BAR_MS 1000
#define CALL_MS 5000
#define SCRATCH_MAX (1u << 20)

/* A policy whose cap was full a moment ago. */
struct policy_bar {
	struct policy_bar *next;
	struct account_sum wants; /* of whom it refused */
	int64_t until_ms;
	char why[sizeof(((struct err *)0)->msg)];
	char name[];
};

/* The lock held, or while nobody raises anything. */
static struct policy_bar *bar_of(const struct policy_caps *c, const char *policy)
{
	struct policy_bar *b = c->first;

	while (b && strcmp(b->name, policy) != 0)
		b = b->next;
	return b;
}

/* wants: of whom it refused; NULL: nobody knows. */
static void set_bar(
	struct policy_caps *c, const char *policy, const struct account_sum *wants, const char *why)
{
	size_t size = strlen(policy) + 1;
	struct policy_bar *b;

	(void)pthread_mutex_lock(&c->lock);
	b = bar_of(c, policy);
	if (!b && (b = calloc(1, sizeof(*b) + size))) {
		memcpy(b->name, policy, size);
		b->wants = (struct account_sum){UINT64_MAX, UINT64_MAX};
		b->next = c->first;
		c->first = b;
	}
	if (b) {
		b->until_ms = clock_ms() + BAR_MS;
		b->wants = wants ? *wants : b->wants;
		(void)snprintf(b->why, sizeof(b->why), "%s", why);
	}
	(void)pthread_mutex_unlock(&c->lock);
}

/* Was one refused a moment ago who asked no more than this? ERR_REFUSED, as he was. */
static int look_at_bar(
	struct policy_caps *c, const char *policy, struct account_sum wants, struct err *err)
{
	const struct policy_bar *b;
	int rc = 0;

	(void)pthread_mutex_lock(&c->lock);
	b = bar_of(c, policy);
	if (b && clock_ms() < b->until_ms && wants.gpus >= b->wants.gpus &&
		wants.bytes >= b->wants.bytes)
		rc = err_reason(err, ERR_REFUSED, "PolicyFull", "%s", b->why);
	(void)pthread_mutex_unlock(&c->lock);
	return rc;
}

void policy_caps_init(struct policy_caps *c, const struct policy_source *policies,
	struct accounts *accounts, const struct log *log)
{
	*c = (struct policy_caps){.policies = policies, .accounts = accounts, .log = log};
	(void)pthread_mutex_init(&c->lock, NULL);
}

void policy_caps_release(struct policy_caps *c)
{
	struct policy_bar *b;

	while ((b = c->first)) {
		c->first = b->next;
		free(b);
	}
	(void)pthread_mutex_destroy(&c->lock);
}

int64_t policy_caps_bar(struct policy_caps *c, const char *namespace, const char *why)
{
	const struct policy *p = NULL;
	struct err err = {0};
	struct arena a;

	arena_init(&a, SCRATCH_MAX);
	(void)policy_of(c->policies, slice_of(namespace), &a, &p, &err);
	if (p)
		set_bar(c, p->name, NULL, why);
	arena_release(&a);
	return clock_ms() + BAR_MS;
}

const char *policy_caps_barred(const struct policy_caps *c, const char *policy)
{
	const struct policy_bar *bar = bar_of(c, policy);

	return bar && clock_ms() < bar->until_ms ? bar->why : NULL;
}

int policy_caps_raise(
	struct policy_caps *c, const struct account_ask *ask, uint64_t *ret_take, struct err *err)
{
	const struct policy *p = NULL;
	struct arena a;
	int rc;

	*ret_take = 0;
	arena_init(&a, SCRATCH_MAX);
	rc = policy_of(c->policies, slice_of(ask->namespace), &a, &p, err);
	if (rc == 0 && p && !ask->forced)
		rc = look_at_bar(c, p->name, ask->wants, err);
	/* Who runs already is nobody's, where its namespace has no policy to be counted in. */
	if (rc == ERR_REFUSED && ask->forced)
		rc = 0;
	if (rc == 0 && p && policy_is_capped(p)) {
		rc = accounts_raise(c->accounts, p->name, ask, clock_ms() + CALL_MS, err);
		*ret_take = ask->take;
	}
	if (rc == ERR_REFUSED && *ret_take && strcmp(err->reason, "PolicyFull") == 0)
		set_bar(c, p->name, &ask->wants, err->msg);
	arena_release(&a);
	/* Without a claim what it uses would be promised to others: that is worse than a count that
	 * the keeper of the account puts right. */
	if (ask->forced && rc != 0 && rc != ERR_CONFLICT) {
		log_line(c->log, LOG_LEVEL_WARN, "a running pod is in no account yet",
			log_str("uid", ask->uid), log_str("namespace", ask->namespace),
			log_str("error", err->msg));
		err_clear(err);
		*ret_take = 0;
		rc = 0;
	}
	return rc;
}
