/* SPDX-License-Identifier: Apache-2.0 */
/* kube: the calls about a Lease, and what follows from their answers. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "kube/kube_lease_impl.h"

#define RELEASE_MS 3000

static void time_now(char ret[static LEASE_TIME_SIZE])
{
	lease_time_write(clock_of_us(CLOCK_REALTIME), ret);
}

/* ---- what was seen ---- */

/* Take in a Lease as it is now. */
static int observe(struct kube_lease *l, const struct kube_answer *answer, struct err *err)
{
	struct lease_record next;
	struct arena spare;
	bool changed, other;
	int rc;

	arena_reset(&l->arena[1]);
	rc = lease_record_read(&answer->json, json_root(&answer->json), &l->arena[1], &next, err);
	if (rc != 0)
		return rc;
	changed = !l->seen || !lease_record_same(&l->record, &next);
	other = !l->seen || strcmp(l->record.holder, next.holder) != 0;
	spare = l->arena[0];
	l->arena[0] = l->arena[1];
	l->arena[1] = spare;
	l->record = next;
	l->seen = l->there = true;
	if (changed) {
		(void)pthread_mutex_lock(&l->lock);
		l->changed_ms = clock_ms();
		(void)pthread_mutex_unlock(&l->lock);
	}
	if (other && strcmp(next.holder, l->identity) != 0)
		log_line(l->cfg.log, LOG_LEVEL_INFO, "lease seen", log_str("lease", l->name),
			log_str("holder", next.holder));
	return 0;
}

/* ---- gained and lost ---- */

static void gain(struct kube_lease *l)
{
	l->leads = true;
	log_line(l->cfg.log, LOG_LEVEL_INFO, "lease gained", log_str("lease", l->name),
		log_str("identity", l->identity));
	l->cfg.gained(l->cfg.ctx);
}

void lease_lose(struct kube_lease *l, const char *why)
{
	if (!l->leads)
		return;
	(void)pthread_mutex_lock(&l->lock);
	l->held = false;
	(void)pthread_mutex_unlock(&l->lock);
	l->leads = false;
	log_line(l->cfg.log, LOG_LEVEL_INFO, "lease lost", log_str("lease", l->name),
		log_str("why", why));
	l->cfg.lost(l->cfg.ctx);
}

/* A write that was sent then is confirmed. An answer that came too late to lead by is only a reason
 * to try again. */
static void confirmed(struct kube_lease *l, int64_t sent_ms)
{
	bool in_time = clock_ms() < sent_ms + l->cfg.renew_ms;

	l->unsure = false;
	if (!in_time || atomic_load(&l->stopping))
		return;
	(void)pthread_mutex_lock(&l->lock);
	l->held = true;
	l->renewed_ms = sent_ms;
	(void)pthread_mutex_unlock(&l->lock);
	if (!l->leads)
		gain(l);
}

int64_t lease_time_left(const struct kube_lease *l)
{
	return l->renewed_ms + l->cfg.renew_ms - clock_ms();
}

/* ---- calls ---- */

static bool go_on(void *ctx)
{
	const struct kube_lease *l = ctx;

	return !atomic_load(&l->stopping);
}

/* Half the time for renewing, so that a call that hangs can be tried once more. */
static int64_t call_ms(const struct kube_lease *l)
{
	int64_t ms = l->cfg.renew_ms / 2, left = l->leads ? lease_time_left(l) : ms;

	ms = left < ms ? left : ms;
	return ms > 1 ? ms : 1;
}

int lease_look(struct kube_lease *l, struct err *err)
{
	struct kube_call call = {.method = "GET",
		.path = l->path.data,
		.timeout_ms = call_ms(l),
		.go_on = go_on,
		.go_on_ctx = l};
	struct kube_answer answer;
	int rc = kube_do(l->cfg.kube, &call, &answer, err);

	if (rc == 0)
		rc = observe(l, &answer, err);
	if (rc == 0)
		l->unsure = false;
	if (rc == ERR_NOTFOUND) {
		l->there = false;
		rc = 0;
	}
	kube_answer_release(&answer);
	return rc;
}

/* POST or PUT this record. */
static int send_record(struct kube_lease *l, const struct lease_record *r, struct kube_call call,
	struct kube_answer *answer, struct err *err)
{
	struct buf body;
	int rc;

	*answer = (struct kube_answer){0};
	buf_init(&body, LEASE_BYTES_MAX);
	lease_record_write(r, l->namespace, l->name, &body);
	call.method = r->metadata.at ? "PUT" : "POST";
	call.path = r->metadata.at ? l->path.data : l->collection.data;
	call.text = &body;
	rc = kube_do(l->cfg.kube, &call, answer, err);
	buf_release(&body);
	return rc;
}

int lease_write_step(struct kube_lease *l, enum lease_step step, struct err *err)
{
	struct kube_call call = {.timeout_ms = call_ms(l), .go_on = go_on, .go_on_ctx = l};
	struct lease_record next;
	struct kube_answer answer;
	char time[LEASE_TIME_SIZE];
	int64_t sent = clock_ms();
	int rc;

	time_now(time);
	next = lease_record_next(
		l->seen ? &l->record : NULL, step, l->identity, l->cfg.duration_s, time);
	rc = send_record(l, &next, call, &answer, err);
	if (rc == 0)
		rc = observe(l, &answer, err);
	if (rc == 0)
		confirmed(l, sent);
	else if (rc != ERR_NOTFOUND)
		l->unsure = true; /* a conflict, too: it may be with this very write, sent twice */
	kube_answer_release(&answer);
	return rc;
}

/* Whoever wrote in between is asked what they wrote, once. */
void lease_give_back(struct kube_lease *l)
{
	struct kube_call call = {.timeout_ms = RELEASE_MS};
	struct err err = {0};
	int64_t end = clock_ms() + RELEASE_MS;

	for (int i = 0; i < 2 && call.timeout_ms > 0; i++) {
		struct kube_answer answer = {0};
		struct lease_record next;
		char time[LEASE_TIME_SIZE];
		int rc = 0;

		err_clear(&err);
		if (l->unsure || i > 0) {
			call.method = "GET";
			call.path = l->path.data;
			rc = kube_do(l->cfg.kube, &call, &answer, &err);
			if (rc == 0)
				rc = observe(l, &answer, &err);
			kube_answer_release(&answer);
		}
		if (rc != 0 || !l->there || strcmp(l->record.holder, l->identity) != 0)
			break;
		time_now(time);
		next = lease_record_released(&l->record, time);
		rc = send_record(l, &next, call, &answer, &err);
		kube_answer_release(&answer);
		if (rc != ERR_CONFLICT)
			break;
		call.timeout_ms = end - clock_ms();
	}
	if (err.code && err.code != ERR_NOTFOUND)
		log_line(l->cfg.log, LOG_LEVEL_WARN, "lease not given back",
			log_str("lease", l->name), log_str("why", err.msg));
}
