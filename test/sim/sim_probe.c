/* SPDX-License-Identifier: Apache-2.0 */
/* sim: the probes of machines, as leaders ask them (R17), and their gates, which tell what is used
 * (P7). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/http_client.h"
#include "test/sim/sim_world.h"

#define MACHINES_MAX 10
#define GPUS 2
/* Whoever does not answer is asked again so often at first, and then less: at most so many times,
 * and once more in each of these. */
#define ASKED_FIRST 6
#define ASKED_EVERY (40 * SECOND)
/* What was heard counts for so long, and the word that it does not takes some time. */
#define FRESH_US (30 * SECOND)
#define TOLD_US (8 * SECOND)
/* A question that no time limit ends: a name server that is silent, say. */
#define HANG_US (60 * SECOND)

enum mood { ANSWERS, REFUSES, SILENT, HANGS, BROKEN, MOODS };

static struct {
	enum mood mood;
	int64_t good_at, bad_since;
	unsigned asked; /* since it was good */
} probes[MACHINES_MAX];

void probes_change(int machine)
{
	probes[machine].mood = (enum mood)sim_below(MOODS);
	sim_trace(27, "the probe of machine %d is in mood %d", machine, (int)probes[machine].mood);
}

void probes_mend(void)
{
	for (int i = 0; i < MACHINES_MAX; i++)
		probes[i].mood = ANSWERS;
}

void probes_forget(int machine)
{
	probes[machine].bad_since = 0;
	probes[machine].asked = 0;
}

int probe_of(const char *url)
{
	const char *at = strstr(url, "://10.0.0.");

	return at ? *(at + 10) - '0' : -1;
}

/* The law of R17: dead probes are asked less and less often. */
static void note_question(int machine)
{
	int64_t dead = probes[machine].bad_since ? sim_now() - probes[machine].bad_since : 0;

	if (!probes[machine].bad_since)
		probes[machine].bad_since = sim_now();
	if (++probes[machine].asked > ASKED_FIRST + dead / ASKED_EVERY)
		sim_fail("fresh",
			"the probe of machine %d, silent for %.1f s, is asked for the %uth time",
			machine, (double)dead / 1e6, probes[machine].asked);
}

static void report(int machine, struct http_response *ret)
{
	ret->status = 200;
	buf_init(&ret->body, 1 << 16);
	buf_str(&ret->body, "{\"schema\":\"gpuprobe.inventory/1\",\"age_s\":0,\"stale_after_s\":30,"
			    "\"state\":\"ready\",\"gpus\":[");
	for (int i = 0; i < GPUS; i++)
		buf_fmt(&ret->body,
			"%s{\"uuid\":\"GPU-%d-%d\",\"name\":\"Tesla V100\",\"memory_total_bytes\":"
			"16000000000,\"fit\":true,\"reasons\":[]}",
			i ? "," : "", machine, i);
	buf_str(&ret->body, "]}");
	probes[machine].good_at = sim_now();
	probes_forget(machine);
}

int probe_call(int machine, const struct http_ask *req, struct http_response *ret, struct err *err)
{
	int64_t until = sim_now() + req->timeout_ms * 1000;
	enum mood mood = probes[machine].mood;

	note_question(machine);
	sim_trace(28, "the probe of machine %d is asked", machine);
	sim_sleep(100 + (int64_t)sim_below(3000));
	switch (mood) {
	case ANSWERS:
		report(machine, ret);
		return 0;
	case BROKEN:
		ret->status = 500;
		buf_init(&ret->body, 100);
		buf_str(&ret->body, "broken");
		return 0;
	case SILENT:
		while (sim_now() < until && (!req->go_on || req->go_on(req->go_on_ctx)))
			sim_sleep(SECOND / 4);
		return err_set(err, ERR_TIMEOUT, "%s: no answer in time", req->url);
	case HANGS:
		sim_sleep((int64_t)sim_below(HANG_US));
		return err_set(err, ERR_TIMEOUT, "%s: no answer in time", req->url);
	case REFUSES:
	case MOODS:
	default:
		return err_set(err, ERR_IO, "%s: connection refused", req->url);
	}
}

/* ---- gates ---- */

int gate_at(const char *url)
{
	return strstr(url, ":9447") ? probe_of(url) : -1;
}

/* The GPUServer that has its gate there now; NULL: none. */
static struct object *guarded_by(int machine)
{
	for (struct object *o = store_first(SERVERS); o; o = store_next(o)) {
		const char *url = cJSON_GetStringValue(
			store_at(store_at(o->doc, "spec", "gate"), "url", NULL));

		if (url && gate_at(url) == machine)
			return o;
	}
	return NULL;
}

/* Some claims are not known to it yet, and of some it does not know what they use. */
static void tell_claims(const struct object *o, struct buf *out)
{
	const char *before = "";
	cJSON *claim;

	cJSON_ArrayForEach(claim, store_at(o->doc, "status", "claims"))
	{
		if (sim_chance(100000))
			continue;
		buf_fmt(out,
			"%s{\"uid\":\"%s\",\"used\":%u000000000,\"known\":%s,\"processes\":1,"
			"\"overShare\":false}",
			before, cJSON_GetStringValue(store_at(claim, "uid", NULL)),
			(unsigned)sim_below(20), sim_chance(50000) ? "false" : "true");
		before = ",";
	}
}

int gate_told(int machine, const struct http_ask *req, struct http_response *ret, struct err *err)
{
	struct object *o;

	sim_sleep(100 + (int64_t)sim_below(3000));
	o = guarded_by(machine);
	if (!o || sim_chance(100000))
		return err_set(err, ERR_IO, "%s: connection refused", req->url);
	ret->status = 200;
	buf_init(&ret->body, 1 << 16);
	buf_fmt(&ret->body,
		"{\"version\":1,\"server\":\"%s\",\"profile\":\"sim\",\"known\":%s,"
		"\"claims\":[",
		o->name, sim_chance(50000) ? "false" : "true");
	tell_claims(o, &ret->body);
	buf_str(&ret->body, "]}");
	return 0;
}

void laws_fresh(struct object *o, const char *who)
{
	const char *url =
		cJSON_GetStringValue(store_at(store_at(o->doc, "spec", "probe"), "url", NULL));
	int machine = url ? probe_of(url) : -1;

	if (machine >= 0 && sim_now() - probes[machine].good_at > FRESH_US + TOLD_US)
		sim_fail("fresh", "%s put a claim on %s, whose probe was last heard %.1f s ago",
			who, o->name, (double)(sim_now() - probes[machine].good_at) / 1e6);
}
