/* SPDX-License-Identifier: Apache-2.0 */
/* gate: what `gpugate serve` tells of itself. */
#include "gate/gate_impl.h"
#include "net/tls_identity.h"

static const char *const ways[] = {"to_server", "to_pod", NULL};
static const char *const words[] = {"yes", "no", "away", "broken", NULL};
static const char *const stages[] = {"waiting", "carrying", NULL};
static const char *const states[] = {"running", "ending", NULL};
static const char *const shares[] = {"unknown", "held", "exceeded", NULL};
static const char *const refusals[] = {"busy", "tries", "handshake", "protocol", "no_claim",
	"token", "session", "api_server_away", "server", NULL};

static const struct metric_desc descs[] = {
	[METRIC_MODE] = {.name = "gpugate_mode",
		.help = "By what pods are known: 1 for the mode in force.",
		.type = METRIC_GAUGE,
		.label = {{"mode", gate_modes}}},
	[METRIC_ADMITTED] = {.name = "gpugate_admitted_total",
		.help = "Connections that were let in.",
		.type = METRIC_COUNTER,
		.label = {{"mode", gate_modes}}},
	[METRIC_READMITTED] = {.name = "gpugate_readmitted_total",
		.help = "Of them those by what was known before, while the API server was away.",
		.type = METRIC_COUNTER},
	[METRIC_REFUSED] = {.name = "gpugate_refused_total",
		.help = "Connections that were refused.",
		.type = METRIC_COUNTER,
		.label = {{"reason", refusals}}},
	[METRIC_CUT] = {.name = "gpugate_cut_total",
		.help = "Connections that were cut: their claim ended, or a side broke.",
		.type = METRIC_COUNTER},
	[METRIC_BYTES] = {.name = "gpugate_bytes_total",
		.help = "Bytes of connections that have ended.",
		.type = METRIC_COUNTER,
		.label = {{"way", ways}}},
	[METRIC_REVIEWS] = {.name = "gpugate_token_reviews_total",
		.help = "TokenReviews, by what came of them.",
		.type = METRIC_COUNTER,
		.label = {{"result", words}}},
	[METRIC_CONNECTIONS] = {.name = "gpugate_connections",
		.help = "Connections now.",
		.type = METRIC_GAUGE,
		.label = {{"stage", stages}}},
	[METRIC_CLAIMS] = {.name = "gpugate_claims",
		.help = "Claims on this server whose pods are let in.",
		.type = METRIC_GAUGE},
	[METRIC_SHUT_OUT] = {.name = "gpugate_claims_shut_out",
		.help = "Claims that let nobody in: of pods that are gone, or not written in full.",
		.type = METRIC_GAUGE},
	[METRIC_SERVERS] = {.name = "gpugate_servers",
		.help = "Server processes now.",
		.type = METRIC_GAUGE,
		.label = {{"state", states}}},
	[METRIC_STARTS] = {.name = "gpugate_server_starts_total",
		.help = "Server processes that were started.",
		.type = METRIC_COUNTER},
	[METRIC_FAILURES] = {.name = "gpugate_server_failures_total",
		.help = "Server processes that did not start, or ended by themselves.",
		.type = METRIC_COUNTER},
	[METRIC_WATCHED] = {.name = "gpugate_watched",
		.help = "1 while the GPUServer is watched and can be read.",
		.type = METRIC_GAUGE},
	[METRIC_BREAKS] = {.name = "gpugate_watch_breaks_total",
		.help = "Times that the watch broke.",
		.type = METRIC_COUNTER},
	[METRIC_CERTIFICATE] = {.name = "gpugate_certificate_not_after_seconds",
		.help = "When the certificate ends, in seconds since 1970.",
		.type = METRIC_GAUGE},
	[METRIC_USAGE_KNOWN] = {.name = "gpugate_usage_known",
		.help = "1 while NVML tells what is used of the GPUs; else the next five say "
			"nothing, but for claims that are stuck.",
		.type = METRIC_GAUGE},
	[METRIC_USED] = {.name = "gpugate_used_bytes",
		.help = "Memory of the GPUs that processes of claims have, as far as NVML tells.",
		.type = METRIC_GAUGE},
	[METRIC_OVER] = {.name = "gpugate_claims_over_share",
		.help = "Claims whose processes have had more of a GPU than their share for ten "
			"seconds.",
		.type = METRIC_GAUGE},
	[METRIC_OVERDONE] = {.name = "gpugate_over_share_total",
		.help = "Times that a claim came to have more than its share for ten seconds.",
		.type = METRIC_COUNTER},
	[METRIC_STUCK] = {.name = "gpugate_claims_stuck",
		.help = "Claims whose server is to be ended, and of which MPS does not answer.",
		.type = METRIC_GAUGE},
	[METRIC_STRANGERS] = {.name = "gpugate_strangers",
		.help = "Processes that compute on the GPUs and belong to no claim.",
		.type = METRIC_GAUGE},
	[METRIC_SHARES] = {.name = "gpugate_shares",
		.help = "1 for what is known of whether the profile holds a claim to its share.",
		.type = METRIC_GAUGE,
		.label = {{"state", shares}}},
	[METRIC_CONTEXT] = {.name = "gpugate_context_bytes",
		.help = "What NVML counts of an empty context, as the self-test has found; 0: not "
			"known.",
		.type = METRIC_GAUGE},
};

struct metrics *gate_metrics_new(void)
{
	return metrics_new(descs, sizeof(descs) / sizeof(descs[0]));
}

void gate_metrics(void *ctx, struct buf *out)
{
	const struct gate *g = ctx;
	struct children_facts f = children_facts(g->children);
	struct tls_info tls;

	metric_set(g->metrics, METRIC_MODE, g->profile.mode, 0, 1);
	metric_set(g->metrics, METRIC_CONNECTIONS, 0, 0, (int64_t)g->n_waiting);
	metric_set(g->metrics, METRIC_CONNECTIONS, 1, 0, (int64_t)g->n_carrying);
	metric_set(g->metrics, METRIC_CLAIMS, 0, 0, (int64_t)g->picture.n_claims);
	metric_set(g->metrics, METRIC_SHUT_OUT, 0, 0, (int64_t)g->picture.shut_out);
	metric_set(g->metrics, METRIC_SERVERS, 0, 0, (int64_t)f.running);
	metric_set(g->metrics, METRIC_SERVERS, 1, 0, (int64_t)f.ending);
	metric_set(g->metrics, METRIC_STARTS, 0, 0, (int64_t)f.starts);
	metric_set(g->metrics, METRIC_FAILURES, 0, 0, (int64_t)f.failures);
	metric_set(g->metrics, METRIC_WATCHED, 0, 0, g->connected && g->readable);
	metric_set(g->metrics, METRIC_USAGE_KNOWN, 0, 0, gate_usage_known(g));
	metric_set(g->metrics, METRIC_USED, 0, 0,
		g->usage.used > INT64_MAX ? INT64_MAX : (int64_t)g->usage.used);
	metric_set(g->metrics, METRIC_STRANGERS, 0, 0, (int64_t)g->usage.n_strangers);
	metric_set(g->metrics, METRIC_OVER, 0, 0, (int64_t)g->usage.n_over);
	metric_set(g->metrics, METRIC_STUCK, 0, 0, (int64_t)f.stuck);
	for (unsigned i = 0; i <= GATE_SHARES_EXCEEDED; i++)
		metric_set(g->metrics, METRIC_SHARES, i, 0, g->selftest.shares == i);
	metric_set(g->metrics, METRIC_CONTEXT, 0, 0, (int64_t)g->selftest.context);
	if (tls_identity_info(g->identity, &tls))
		metric_set(g->metrics, METRIC_CERTIFICATE, 0, 0, tls.not_after);
	metrics_render(g->metrics, out);
}

const char *gate_unready(void *ctx)
{
	const struct gate *g = ctx;

	if (!g->readable)
		return g->unreadable[0] ? g->unreadable : "the GPUServer has not been seen yet";
	return g->connected ? NULL : "the API server is away";
}
