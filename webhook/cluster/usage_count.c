/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: usage as counters, and the API server asked about those who read them. */
#include "webhook/cluster/usage_count.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "kube/kube_review.h"
#include "webhook/cluster/duty/duty.h"

/* Between two looks: what ends in between and is stored at once is not seen to its end. */
#define EVERY_MS 5000
/* Of the two questions together, however short the client's time: what is broken off costs a
 * connection that reviews of pods share. */
#define ASK_MS 5000
#define REQUEST_MAX (64u * 1024)
#define NAME_ARENA 4096

struct usage_count {
	struct usage_count_config cfg;
	struct usage_page page;
	struct duty *duty;
	pthread_mutex_t lock; /* guards these two */
	struct usage_meter *meter;
	bool told; /* that the API server does not answer us */
	/* The look's: no lock. */
	struct arena name;
};

/* ---- counting ---- */

static const char *policy_named(void *ctx, const char *namespace)
{
	struct usage_count *u = ctx;
	struct slice name = {0};

	arena_reset(&u->name);
	if (u->cfg.policies)
		name = policy_look_named(u->cfg.policies, slice_of(namespace), &u->name);
	return name.len ? name.at : USAGE_NO_POLICY;
}

static bool see(void *ctx, const struct server_object *o)
{
	struct usage_count *u = ctx;

	return usage_meter_see(u->meter, o, kube_wall_ms(u->cfg.kube) / 1000);
}

static int64_t every(const struct usage_count *u)
{
	return u->cfg.every_ms ? u->cfg.every_ms : EVERY_MS;
}

/* The meter looks alone: who shows it waits for the sums, not for the servers. */
static int64_t look(void *ctx, struct duty *d)
{
	struct usage_count *u = ctx;

	(void)d;
	if (!servers_synced(u->cfg.servers))
		return every(u);
	servers_each(u->cfg.servers, see, u);
	(void)pthread_mutex_lock(&u->lock);
	usage_meter_end(u->meter, policy_named, u);
	(void)pthread_mutex_unlock(&u->lock);
	return every(u);
}

static void write_page(void *ctx, struct buf *out)
{
	struct usage_count *u = ctx;

	(void)pthread_mutex_lock(&u->lock);
	usage_totals_write(usage_meter_totals(u->meter), out);
	(void)pthread_mutex_unlock(&u->lock);
}

/* ---- who may ---- */

/* A question, which may hold a secret. */
static int post(struct usage_count *u, const char *path, struct buf *body, int64_t end_ms,
	struct kube_answer *ret, struct err *err)
{
	int64_t left = end_ms - clock_ms();
	const struct kube_call call = {
		.method = "POST", .path = path, .text = body, .timeout_ms = left > 1 ? left : 1};
	int rc = kube_do(u->cfg.kube, &call, ret, err);

	if (body->data)
		explicit_bzero(body->data, body->cap);
	buf_clear(body);
	return rc;
}

/* ERR_REFUSED of the API server's own calls is about us, and not about who asks. */
static enum reader away(struct usage_count *u, const struct err *err)
{
	bool told;

	(void)pthread_mutex_lock(&u->lock);
	told = u->told;
	u->told = true;
	(void)pthread_mutex_unlock(&u->lock);
	if (!told)
		log_line(u->cfg.log, LOG_LEVEL_WARN,
			"nobody is shown usage, since tokens cannot be reviewed: is "
			"components/usage-metrics installed?",
			log_str("error", err->msg));
	return READER_AWAY;
}

static enum reader ask_access(struct usage_count *u, const struct kube_answer *whose,
	const struct json_node *user, struct buf *body, int64_t end_ms)
{
	struct kube_answer may = {0};
	struct err err = {0};
	enum reader word;
	int rc;

	access_review_write(&whose->json, user, USAGE_PAGE_PATH, "get", body);
	rc = post(u, ACCESS_REVIEWS_PATH, body, end_ms, &may, &err);
	if (rc == 0)
		rc = access_review_read(&may.json, &err);
	else if (rc == ERR_REFUSED)
		rc = ERR_IO;
	word = rc == 0 ? READER_YES : rc == ERR_REFUSED ? READER_NO : away(u, &err);
	kube_answer_release(&may);
	return word;
}

static enum reader ask(void *ctx, struct slice token)
{
	struct usage_count *u = ctx;
	int64_t end_ms = clock_ms() + ASK_MS;
	struct kube_answer whose = {0};
	const struct json_node *user = NULL;
	struct err err = {0};
	enum reader word;
	struct buf body;
	int rc;

	buf_init(&body, REQUEST_MAX);
	token_review_write(token, NULL, &body);
	rc = post(u, TOKEN_REVIEWS_PATH, &body, end_ms, &whose, &err);
	if (rc == 0)
		rc = token_review_read(&whose.json, NULL, &user, &err);
	else if (rc == ERR_REFUSED)
		rc = ERR_IO;
	if (rc == 0)
		word = ask_access(u, &whose, user, &body, end_ms);
	else
		word = rc == ERR_REFUSED ? READER_NOBODY : away(u, &err);
	if (word != READER_AWAY) {
		(void)pthread_mutex_lock(&u->lock);
		u->told = false;
		(void)pthread_mutex_unlock(&u->lock);
	}
	/* the token comes back in it */
	if (whose.body.data)
		explicit_bzero(whose.body.data, whose.body.cap);
	kube_answer_release(&whose);
	buf_release(&body);
	return word;
}

/* ---- life ---- */

struct usage_count *usage_count_new(const struct usage_count_config *cfg, struct err *err)
{
	struct usage_count *u = calloc(1, sizeof(*u));

	if (!u) {
		(void)err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	u->cfg = *cfg;
	(void)pthread_mutex_init(&u->lock, NULL);
	arena_init(&u->name, NAME_ARENA);
	u->meter = usage_meter_new();
	u->page = (struct usage_page){.readers = readers_new(),
		.ctx = u,
		.ask = ask,
		.write = write_page,
		.log = cfg->log};
	if (!u->meter || !u->page.readers) {
		(void)err_set(err, ERR_NOMEM, "out of memory");
		usage_count_free(u);
		return NULL;
	}
	return u;
}

int usage_count_start(struct usage_count *u, struct err *err)
{
	u->duty = duty_start("usage-count", look, u, err);
	return u->duty ? 0 : (int)err->code;
}

void usage_count_free(struct usage_count *u)
{
	if (!u)
		return;
	duty_stop(u->duty);
	usage_meter_free(u->meter);
	readers_free(u->page.readers);
	arena_release(&u->name);
	(void)pthread_mutex_destroy(&u->lock);
	free(u);
}

struct usage_page *usage_count_page(struct usage_count *u)
{
	return &u->page;
}
