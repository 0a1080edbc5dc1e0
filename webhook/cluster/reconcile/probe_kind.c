/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what is asked of probes: which GPUs there are, and whether they are fit. */
#include <stdio.h>

#include "webhook/cluster/reconcile/probe_poll_impl.h"
#include "webhook/core/server/probe_inventory.h"
#include "webhook/core/server/server_keep.h"

static int read(const struct json *j, struct arena *a, void *ret, struct err *err)
{
	return probe_inventory_read(j, a, ret, err);
}

static void judge(struct verdict *v, char message[static VERDICT_MESSAGE])
{
	const struct probe_inventory *inv = v->answer;
	const char *colon = *inv->trouble ? ": " : "";

	v->reason = FRESH_ANSWERED;
	v->result = PROBE_ANSWERED;
	(void)snprintf(message, VERDICT_MESSAGE, "the probe answers%s%s", colon, inv->trouble);
	if (probe_inventory_fresh(inv))
		return;
	v->answer = NULL;
	v->reason = FRESH_STALE;
	v->result = PROBE_STALE;
	if (inv->state == PROBE_UNKNOWN)
		(void)snprintf(message, VERDICT_MESSAGE, "the probe itself knows no verdict%s%s",
			colon, inv->trouble);
	else
		(void)snprintf(message, VERDICT_MESSAGE,
			"the probe's last verdicts are older than its own limit of %lld s%s%s",
			(long long)inv->stale_after_s, colon, inv->trouble);
}

static bool write(struct verdict *v, struct server_object *o, struct arena *a)
{
	bool changed = v->answer && server_status_from_probe(o, v->answer, a);

	return server_keep_fresh(o, v->answer != NULL, v->reason, v->message, v->now, a) || changed;
}

const struct poll_kind poll_probes = {.who = "probe",
	.ask = "probe-poll",
	.age = "probe-age",
	.at_once = 16,
	.path = PROBE_PATH,
	.answer_size = sizeof(struct probe_inventory),
	.read = read,
	.end = server_object_probe,
	.polls = M_PROBE_POLLS,
	.condition = SERVER_FRESH,
	.bad = "False",
	.aged = "the probe has given no good answer lately",
	.lost = "server's GPUs are not known to be fit",
	.back = "probe answers again",
	.judge = judge,
	.write = write};
