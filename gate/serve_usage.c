/* SPDX-License-Identifier: Apache-2.0 */
/* gate: what follows from a look at the GPUs: what the operator is told, and who is ended. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/text.h"
#include "gate/gate_impl.h"
#include "gate/process/account.h"

#define PAGE_ARENA_MAX (1u << 20)
/* GPUs of servers that MPS keeps: of so many it is told. */
#define STUCK_MAX 256
/* Of the token that the leader shows. */
#define TOKEN_MIN 8
#define TOKEN_MAX 65536

static const char *claim_of(void *ctx, pid_t pid)
{
	const struct gate *g = ctx;

	const char *uid = children_of(g->children, pid);

	return uid && strcmp(uid, CHILDREN_TRY) != 0 ? uid : NULL;
}

static bool passes(void *ctx, pid_t pid)
{
	const struct gate *g = ctx;
	char path[32];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (stat(path, &st) != 0 || children_of(g->children, pid))
		return true;
	for (size_t i = 0; i < g->n_accounts; i++)
		if (g->account[i] == st.st_uid)
			return true;
	return false;
}

static void tell_over(struct gate *g, const struct usage_claim *c)
{
	const struct picture_claim *p = picture_claim(&g->picture, c->uid);

	metric_add(g->metrics, METRIC_OVERDONE, 0, 0, 1);
	log_line(&g->log, LOG_LEVEL_WARN, "a claim has more of a GPU than its share",
		log_str("uid", c->uid), log_str("namespace", p ? p->namespace : NULL),
		log_str("pod", p ? p->name : NULL), log_str("gpu", c->gpu),
		log_int("bytes", (int64_t)c->has), log_int("share", (int64_t)c->share),
		log_int("processes", c->processes), log_bool("ends", g->profile.ends_over));
}

static void on_looked(void *ctx, const struct usage_look *look)
{
	struct gate *g = ctx;
	struct usage_who who = {g, claim_of, passes};
	struct usage_rules rules = g->profile.usage;
	struct err err = {0};

	selftest_looked(&g->selftest, look);
	/* What was seen of an empty context, where the profile does not say. */
	if (!g->profile.says_context && g->selftest.context)
		rules.context_bytes = g->selftest.context;
	if (usage_judge(&g->usage, look, &g->picture, &rules, &who, clock_ms(), &err) != 0) {
		log_line(&g->log, LOG_LEVEL_ERROR, "a look at the GPUs is lost",
			log_str("error", err.msg));
		return;
	}
	g->looked_at_ms = clock_wall_ms();
	for (size_t i = 0; i < g->usage.n_strangers; i++) {
		const struct usage_stranger *s = &g->usage.strangers[i];

		if (!s->told)
			log_line(&g->log, LOG_LEVEL_WARN,
				"a process computes on a GPU without a claim",
				log_int("pid", s->pid), log_str("gpu", s->gpu),
				log_int("bytes", s->known ? (int64_t)s->bytes : -1));
	}
	for (size_t i = 0; i < g->usage.n_claims; i++) {
		const struct usage_claim *c = &g->usage.claims[i];

		if (c->over && !c->told)
			tell_over(g, c);
		if (c->over && g->profile.ends_over)
			children_overdone(g->children, c->uid);
	}
}

int64_t gate_usage_turn(struct gate *g)
{
	return gpus_turn(g->gpus);
}

void gate_usage_close(struct gate *g)
{
	gpus_free(g->gpus);
	usage_release(&g->usage);
}

bool gate_usage_known(const struct gate *g)
{
	int64_t most = 3 * g->o->look_ms;

	return g->usage.looked_ms &&
	       clock_ms() - g->usage.looked_ms < (most < GPUS_SILENT_MS ? GPUS_SILENT_MS : most);
}

/* Behind all others, of which the first of a uid counts. False: no memory. */
static bool add_stuck(const struct gate *g, struct arena *a, struct gate_page *page)
{
	struct children_stuck gpu[STUCK_MAX];
	size_t n = children_stuck(g->children, gpu, STUCK_MAX), had = page->n_claims;
	struct gate_claim *claims = arena_array(a, had + n, sizeof(*claims));

	if (!claims)
		return false;
	if (had)
		memcpy(claims, page->claims, had * sizeof(*claims));
	for (size_t i = 0; i < n; i++)
		claims[had + i] = (struct gate_claim){
			.uid = gpu[i].uid, .gpu = arena_strdup(a, gpu[i].gpu), .stuck = true};
	page->claims = claims;
	page->n_claims = had + n;
	return !a->failed;
}

void gate_usage_page(void *ctx, struct buf *out)
{
	const struct gate *g = ctx;
	struct gate_page page = {.version = GATE_PAGE_VERSION,
		.server = g->o->server,
		.profile = g->profile.name,
		.mode = g->profile.mode,
		.shares = g->selftest.shares,
		.known = gate_usage_known(g),
		.looked_ms = g->looked_at_ms};
	struct arena a;

	arena_init_small(&a, PAGE_ARENA_MAX, 16384);
	if (usage_page(&g->usage, clock_ms(), &a, &page) && add_stuck(g, &a, &page))
		gate_page_write(&page, out);
	else
		out->failed = true;
	arena_release(&a);
}

bool gate_usage_may(void *ctx, struct slice token)
{
	struct gate *g = ctx;
	unsigned char ours[MAC_BYTES], theirs[MAC_BYTES];
	struct slice line, word;
	struct err err = {0};
	struct buf text;
	bool may = false, read;

	buf_init(&text, TOKEN_MAX);
	read = files_read(g->o->tell_token, &text, &err) == 0;
	if (!read && !g->told_no_token)
		log_line(&g->log, LOG_LEVEL_WARN, "nobody is told what is used",
			log_str("error", err.msg));
	g->told_no_token = !read;
	line = buf_as_slice(&text);
	if (token.at && text_word(&line, &word) && word.len >= TOKEN_MIN)
		may = mac_digest(word, ours, NULL) == 0 && mac_digest(token, theirs, NULL) == 0 &&
		      mac_equal(ours, theirs);
	if (text.data)
		mac_wipe(text.data, text.cap);
	buf_release(&text);
	return may;
}

int gate_usage_open(struct gate *g, struct err *err)
{
	const struct gpus_config cfg = {.nvml = g->o->nvml,
		.every_ms = g->o->look_ms,
		.log = &g->log,
		.loop = g->loop,
		.ctx = g,
		.looked = on_looked};
	gid_t group;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < g->profile.n_accounts; i++)
		rc = account_find(
			g->profile.accounts[i], &g->account[g->n_accounts++], &group, err);
	return rc == 0 ? gpus_new(&cfg, &g->gpus, err) : rc;
}
