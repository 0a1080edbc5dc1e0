/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the table of the server's own metrics. */
#include "webhook/edge/metrics/metrics.h"

#include <string.h>

#include "base/clock.h"

static const char *const hooks[] = {"mutate", "validate", NULL};
static const char *const results[] = {
	"patched", "untouched", "claimed", "waiting", "refused", "unreadable", "failed", NULL};
static const char *const operations[] = {"CREATE", "UPDATE", "DELETE", "CONNECT", "none", NULL};
/* Of refusals; docs/operating.md says what each means. The last one stands for all others. */
static const char *const reasons[] = {"AlreadyExists", "ApiServerAway", "ContainerCollision",
	"EnvCollision", "Forbidden", "GpuWithoutPlan", "ImageNotSet", "ImageUnknown", "Invalid",
	"MountCollision", "NamespaceNotOpen", "NoCapacity", "NoLauncher", "NoPolicy", "NoServer",
	"NotInjected", "PlanChanged", "PlanMismatch", "PlanMissing", "PlanUnreadable",
	"PolicyBound", "PolicyFull", "ProfileChanged", "QuotaExceeded", "RequestChanged",
	"SearchTooLong", "SecretWithoutClaim", "ServerTaken", "TooManyContainers", "TooManyPending",
	"VolumeCollision", "other", NULL};
static const char *const stages[] = {"wait", "read", "decide", "claim", "write", NULL};
static const char *const ends[] = {"finished", "gone", "expired", "released", "unsent", NULL};
static const char *const findings[] = {"over_share", "unused", "strangers", "unknown", NULL};
static const char *const probe_results[] = {"answered", "stale", "failed", NULL};
static const char *const commits[] = {"written", "conflict", "unknown", NULL};
static const char *const places[] = {"filled", "foreign", "closed", "failed", NULL};
static const char *const proofs[] = {"none", "unknown", "other", "holds", NULL};
static const char *const whys[] = {"unschedulable", "image", "other", NULL};
static const char *const evictions[] = {"evicted", "later", "refused", NULL};
static const char *const stores[] = {"stored", "failed", NULL};
static const char *const whats[] = {"config", "pool", "certificate", NULL};

/* microseconds: 50 µs to 10 s */
static const int64_t durations[] = {50, 100, 250, 500, 1000, 2500, 5000, 10000, 50000, 100000,
	500000, 1000000, 5000000, 10000000, 0};

/* microseconds: 10 µs to 5 s; a stage of a small review takes some ten of them */
static const int64_t stage_durations[] = {
	10, 50, 100, 500, 1000, 5000, 10000, 50000, 100000, 500000, 1000000, 5000000, 0};

/* microseconds: 100 ms to a day */
static const int64_t waits[] = {100000, 300000, 1000000, 10000000, 60000000, 600000000, 3600000000,
	21600000000, 86400000000, 0};

const struct metric_desc metric_table[] = {
	[M_REVIEWS] = {.name = "poolgate_reviews_total",
		.help = "Reviews answered, by hook, what became of them, and operation.",
		.type = METRIC_COUNTER,
		.label = {{"hook", hooks}, {"result", results}, {"operation", operations}}},
	[M_REFUSALS] = {.name = "poolgate_refusals_total",
		.help = "Reviews answered with a refusal, by hook and reason.",
		.type = METRIC_COUNTER,
		.label = {{"hook", hooks}, {"reason", reasons}}},
	[M_REVIEW_SECONDS] = {.name = "poolgate_review_duration_seconds",
		.help = "Time from the last byte of a review to its decision.",
		.type = METRIC_HISTOGRAM,
		.scale = 1000000,
		.buckets = durations,
		.label = {{"hook", hooks}}},
	[M_STAGE_SECONDS] = {.name = "poolgate_review_stage_seconds",
		.help = "Time of a review's stages: wait for a thread, read, decide, claim, write.",
		.type = METRIC_HISTOGRAM,
		.scale = 1000000,
		.buckets = stage_durations,
		.label = {{"hook", hooks}, {"stage", stages}}},
	[M_RELOAD_OK] = {.name = "poolgate_reload_ok",
		.help = "1 when the last load succeeded; 0 when an older version is kept because "
			"it failed.",
		.type = METRIC_GAUGE,
		.label = {{"what", whats}}},
	[M_RELOAD_ERRORS] = {.name = "poolgate_reload_errors_total",
		.help = "Loads that failed and changed nothing.",
		.type = METRIC_COUNTER,
		.label = {{"what", whats}}},
	[M_RELOAD_TIME] = {.name = "poolgate_reload_success_timestamp_seconds",
		.help = "Last load that succeeded, seconds since 1970; 0: none.",
		.type = METRIC_GAUGE,
		.label = {{"what", whats}}},
	[M_CERT_NOT_AFTER] = {.name = "poolgate_certificate_not_after_seconds",
		.help = "End of the serving certificate's validity, seconds since 1970.",
		.type = METRIC_GAUGE},
	[M_LEADER] = {.name = "poolgate_leader",
		.help = "1 while this replica leads.",
		.type = METRIC_GAUGE},
	[M_LEADER_CHANGES] = {.name = "poolgate_leader_changes_total",
		.help = "Times this replica began or ended to lead.",
		.type = METRIC_COUNTER},
	[M_CA_NOT_AFTER] = {.name = "poolgate_ca_not_after_seconds",
		.help = "End of the CA's validity, seconds since 1970; 0 on replicas that do not "
			"lead.",
		.type = METRIC_GAUGE},
	[M_PROBE_POLLS] = {.name = "poolgate_probe_polls_total",
		.help = "Questions to GPU servers' probes, by what became of them.",
		.type = METRIC_COUNTER,
		.label = {{"result", probe_results}}},
	[M_GATE_POLLS] = {.name = "poolgate_gate_polls_total",
		.help = "Questions to GPU servers' gates, by what became of them: answered, stale "
			"(it does not know what is used), failed.",
		.type = METRIC_COUNTER,
		.label = {{"result", probe_results}}},
	[M_GATE_FINDINGS] = {.name = "poolgate_gate_findings",
		.help = "What gates tell: pods with more of a GPU than their share, pods that have "
			"used nothing for an hour, processes without a claim, and servers of which "
			"it is unknown; 0 on replicas that do not lead.",
		.type = METRIC_GAUGE,
		.label = {{"what", findings}}},
	[M_COMMITS] = {.name = "poolgate_commits_total",
		.help = "Writes of a GPUServer's status, by outcome: written, conflict (another "
			"replica was first), unknown (no answer in time).",
		.type = METRIC_COUNTER,
		.label = {{"outcome", commits}}},
	[M_PLACES] = {.name = "poolgate_places_total",
		.help = "Pods that were told, once their claims stood, which GPUs they have.",
		.type = METRIC_COUNTER},
	[M_QUEUE_DEPTH] = {.name = "poolgate_queue_depth",
		.help = "Pods that wait for GPUs, on the leader.",
		.type = METRIC_GAUGE},
	[M_QUEUE_HEAD] = {.name = "poolgate_queue_head_seconds",
		.help = "For how long the pod has waited that is the oldest of the highest "
			"priority among those that wait for GPUs, on the leader; 0: none does.",
		.type = METRIC_GAUGE},
	[M_QUEUE_KEPT] = {.name = "poolgate_queue_kept_bytes",
		.help = "Memory of GPUs that is kept, free or not yet, for a pod that has waited "
			"for long, on the leader.",
		.type = METRIC_GAUGE},
	[M_WAIT_SECONDS] = {.name = "poolgate_wait_seconds",
		.help = "Time from a waiting pod's creation to its claim.",
		.type = METRIC_HISTOGRAM,
		.scale = 1000000,
		.buckets = waits},
	[M_ADOPTIONS] = {.name = "poolgate_adoptions_total",
		.help = "Claims that were given to live pods that had none.",
		.type = METRIC_COUNTER},
	[M_CLAIMS_ENDED] = {.name = "poolgate_claims_ended_total",
		.help = "Claims that ended: finished or gone (their pod), expired (the pod never "
			"came, or claimTtl), released, unsent (the answer never left); one on "
			"several servers counts at each.",
		.type = METRIC_COUNTER,
		.label = {{"why", ends}}},
	[M_PHANTOMS] = {.name = "poolgate_phantom_namespaces",
		.help = "Namespaces in which a claim ended within ten minutes whose pod never "
			"came: what they hold pending is bounded.",
		.type = METRIC_GAUGE},
	[M_UNSTARTED] = {.name = "poolgate_unstarted_pods",
		.help = "Pods that hold GPUs for more than five minutes and do not run, by why: "
			"unschedulable (after one minute already), image (it cannot be had), "
			"other; 0 on replicas that do not lead.",
		.type = METRIC_GAUGE,
		.label = {{"why", whys}}},
	[M_EVICTIONS] = {.name = "poolgate_evictions_total",
		.help = "Evictions of pods that hold GPUs and find no node, by what the API server "
			"said: evicted, later (the pod has changed, a budget does not allow it, "
			"no answer), refused.",
		.type = METRIC_COUNTER,
		.label = {{"result", evictions}}},
	[M_PROFILES_LEFT_OUT] = {.name = "poolgate_profiles_left_out",
		.help = "Launcher profiles that are not loaded since the validating hook's "
			"conditions do not know their Secrets.",
		.type = METRIC_GAUGE},
	[M_PLAN_KEYS] = {.name = "poolgate_plan_keys",
		.help = "Keys for the proofs in plans that all replicas share, as this one knows "
			"them; 0: no other replica believes what this one proves.",
		.type = METRIC_GAUGE},
	[M_PLAN_PROOFS] = {.name = "poolgate_plan_proofs_total",
		.help = "Pods that are not as this replica would write them now, by the proof in "
			"their plan: none, unknown (no key in force made it), other (the pod is "
			"not what was proven), holds (another replica wrote it; admitted).",
		.type = METRIC_COUNTER,
		.label = {{"proof", proofs}}},
	[M_POLICY_LOCAL] = {.name = "poolgate_policy_local_total",
		.help = "Pods that their namespace's policy was to have injected, that came to the "
			"validating hook without, and that it let pass (onOutage: local).",
		.type = METRIC_COUNTER},
	[M_HOOKS_READ] = {.name = "poolgate_hooks_read",
		.help = "1 when the validating hook's conditions could be read at the last look; 0 "
			"outside of a cluster, too.",
		.type = METRIC_GAUGE},
	[M_USAGE_STORES] = {.name = "poolgate_usage_stores_total",
		.help = "Times that ended periods of usage were to be stored, by what became of "
			"it: stored, failed (they stay in the GPUServers).",
		.type = METRIC_COUNTER,
		.label = {{"result", stores}}},
	[M_SECRET_NAMESPACES] = {.name = "poolgate_secret_namespaces",
		.help = "Namespaces with a bound claim, by what became of the client's Secrets: "
			"filled, foreign (one is somebody else's), closed (not open to poolgate), "
			"failed; 0 on replicas that do not lead.",
		.type = METRIC_GAUGE,
		.label = {{"state", places}}},
};

const char *metric_result_name(enum metric_result r)
{
	return results[r];
}

const char *metric_operation_name(enum operation op)
{
	return (size_t)op < OPERATION_NONE ? operations[op] : operations[OPERATION_NONE];
}

enum metric_why metric_why(const char *reason)
{
	if (strcmp(reason, "Unschedulable") == 0)
		return WHY_UNSCHEDULABLE;
	return strstr(reason, "Image") ? WHY_IMAGE : WHY_OTHER;
}

size_t metric_reason(const char *reason)
{
	size_t i = 0;

	while (reasons[i + 1] && strcmp(reasons[i], reason) != 0)
		i++;
	return i;
}

void metric_reloaded(struct metrics *m, enum metric_what what, bool ok)
{
	metric_set(m, M_RELOAD_OK, (size_t)what, 0, ok);
	if (!ok) {
		metric_add(m, M_RELOAD_ERRORS, (size_t)what, 0, 1);
		return;
	}
	metric_set(m, M_RELOAD_TIME, (size_t)what, 0, clock_wall_s());
}
