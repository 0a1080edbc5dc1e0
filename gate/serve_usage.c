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
#include "gate/process/mps_ask.h"

#define PAGE_ARENA_MAX (1u << 20)
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

/* ---- who is ended ---- */

static void on_mps(void *ctx, const char *uid, bool answered)
{
	struct gate *g = ctx;

	if (usage_stuck(&g->usage, uid, !answered) && !answered)
		log_line(&g->log, LOG_LEVEL_ERROR,
			"MPS does not answer: a claim that has more than its share is not ended",
			log_str("uid", uid));
	if (!answered)
		return;
	log_line(&g->log, LOG_LEVEL_INFO, "MPS has ended a claim's clients", log_str("uid", uid));
	children_overdone(g->children, uid);
}

/* With MPS its clients first: one that is killed without its word can take others along. */
static void end_claim(struct gate *g, const char *uid, const struct usage_look *look)
{
	pid_t pids[MPS_CLIENTS_MAX];
	size_t n = 0;

	if (!g->mps.control) {
		children_overdone(g->children, uid);
		return;
	}
	/* one at a time */
	if (g->mps.pid || !children_runs(g->children, uid))
		return;
	for (size_t i = 0; i < look->n_gpus; i++)
		for (size_t k = 0; k < look->gpus[i].n_processes && n < MPS_CLIENTS_MAX; k++) {
			pid_t pid = look->gpus[i].processes[k].pid;
			const char *of = claim_of(g, pid);

			/* one of several GPUs is there several times */
			if (of && strcmp(of, uid) == 0 && !mps_is_among(pid, pids, n))
				pids[n++] = pid;
		}
	mps_end(&g->mps, uid, pids, n);
}

/* MPS is asked about one at a time. Whoever was asked about last is the last now: one whom MPS does
 * not end keeps no other. */
static void end_those_over(struct gate *g, const struct usage_look *look)
{
	size_t n = g->usage.n_claims, first = 0;

	for (size_t i = 0; i < n; i++)
		if (strcmp(g->usage.claims[i].uid, g->mps.uid) == 0)
			first = i + 1;
	for (size_t i = 0; i < n; i++) {
		const struct usage_claim *c = &g->usage.claims[(first + i) % n];

		if (c->over)
			end_claim(g, c->uid, look);
	}
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
	}
	if (g->profile.ends_over)
		end_those_over(g, look);
}

int64_t gate_usage_turn(struct gate *g)
{
	int64_t look = gpus_turn(g->gpus), mps = mps_turn(&g->mps);

	return mps >= 0 && mps < look ? mps : look;
}

void gate_usage_close(struct gate *g)
{
	mps_close(&g->mps);
	gpus_free(g->gpus);
	usage_release(&g->usage);
}

bool gate_usage_known(const struct gate *g)
{
	int64_t most = 3 * g->o->look_ms;

	return g->usage.looked_ms &&
	       clock_ms() - g->usage.looked_ms < (most < GPUS_SILENT_MS ? GPUS_SILENT_MS : most);
}

void gate_usage_page(void *ctx, struct buf *out)
{
	const struct gate *g = ctx;
	struct gate_page page = {.version = GATE_PAGE_VERSION,
		.server = g->o->server,
		.profile = g->profile.name,
		.shares = g->selftest.shares,
		.known = gate_usage_known(g),
		.looked_ms = g->looked_at_ms};
	struct arena a;

	arena_init_small(&a, PAGE_ARENA_MAX, 16384);
	if (usage_page(&g->usage, clock_ms(), &a, &page))
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

	g->mps = (struct mps){.control = g->profile.mps_control,
		.pipe = g->profile.mps_pipe,
		.loop = g->loop,
		.ctx = g,
		.over = on_mps};
	for (size_t i = 0; rc == 0 && i < g->profile.n_accounts; i++)
		rc = account_find(
			g->profile.accounts[i], &g->account[g->n_accounts++], &group, err);
	return rc == 0 ? gpus_new(&cfg, &g->gpus, err) : rc;
}
