/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the checks of what NVML says. */
#include "probe/check/checks_nvml.h"

#include <stdio.h>
#include <string.h>

#include "probe/result/thresholds.h"

/* One sample is no proof, and it takes some to see the link awake. */
#define FAULTS_MIN 2
#define SAMPLES_FOR_LINK 5
/* Packets that a link may send anew in one run. */
#define REPLAYS_MAX 10
/* A limit that was nearly reached holds back. */
#define LIMIT_REACHED 0.9
/* The lowest limit that a board takes leaves it a quarter of its clocks or more: what is under this
 * has another cause. */
#define LIMIT_LEAVES 0.1

void nvml_watch_add(struct nvml_watch *w, const struct nvml_state *s)
{
	if (s->throttle_known) {
		w->samples++;
		w->reasons |= s->throttle;
		/* reasons come together: each is looked for by itself */
		w->faults += (s->throttle & NVML_THROTTLE_FAULTS) != 0;
		w->power += (s->throttle & NVML_THROTTLE_POWER_CAP) != 0;
	}
	if (s->temperature_c > w->temperature_c)
		w->temperature_c = s->temperature_c;
	if (s->power_mw > w->power_mw)
		w->power_mw = s->power_mw;
	if (s->pcie_gen > w->pcie_gen)
		w->pcie_gen = s->pcie_gen;
	if (s->pcie_width > w->pcie_width)
		w->pcie_width = s->pcie_width;
	if (s->processes > w->processes)
		w->processes = s->processes;
}

/* What was added in the run; counters that went back began anew. */
static long long grown(int64_t before, int64_t after)
{
	return after >= before && before >= 0 ? after - before : after;
}

void check_nvml_ecc(const struct host_facts *f, struct check_result *r)
{
	const struct nvml_state *a = f->before, *b = f->after;
	long long uncorrected, corrected;

	if (a->ecc_uncorrected < 0 && b->ecc_uncorrected < 0) {
		check_skip(r, "not_told"); /* ECC is off, or the card has none */
		return;
	}
	if (b->ecc_uncorrected < 0) {
		check_error(r, CODE_NOT_RUN, "NVML stopped telling ECC counters in the run");
		return;
	}
	uncorrected = grown(a->ecc_uncorrected, b->ecc_uncorrected);
	corrected = b->ecc_corrected < 0 ? 0 : grown(a->ecc_corrected, b->ecc_corrected);
	/* Older ones were dealt with: whether a repair is due is nvml.remap's to say. */
	if (uncorrected > 0)
		check_fail(r, CODE_ECC_UNCORRECTABLE, "uncorrectable errors in this run: %lld",
			uncorrected);
	else if (corrected > 0)
		check_warn(
			r, CODE_ECC_CORRECTABLE, "corrected errors in this run: %lld", corrected);
	else
		check_pass(r);
}

void check_nvml_remap(const struct host_facts *f, struct check_result *r)
{
	static const char *const asked[] = {
		"nothing", "a reset", "a reboot of the server", "to be drained", "drain and reset"};
	const struct nvml_state *s = f->after;

	if (s->remap_failed > 0)
		check_fail(r, CODE_REMAP_FAILED,
			"rows remapped for uncorrectable errors: %d; one more could not be",
			s->remap_uncorrectable);
	else if (s->remap_pending > 0)
		check_fail(r, CODE_REMAP_PENDING, "a row waits to be remapped");
	else if (s->retire_pending > 0)
		check_fail(r, CODE_RETIRE_PENDING, "a page waits to be retired");
	else if (s->recovery_action > 0)
		check_fail(r, CODE_RECOVERY_NEEDED, "it asks for %s (%d)",
			s->recovery_action < 5 ? asked[s->recovery_action] : "something new",
			s->recovery_action);
	else if (s->remap_failed < 0 && s->retire_pending < 0)
		check_skip(r, "not_told");
	else
		check_pass(r);
}

double pcie_speed(int gen)
{
	static const double gts[] = {0, 2.5, 5, 8, 16, 32, 64};

	return gen > 0 && gen < 7 ? gts[gen] : 0;
}

int pcie_generation(double gts)
{
	for (int gen = 6; gen > 0; gen--)
		if (gts > pcie_speed(gen) - 0.1)
			return gen;
	return 0;
}

/* The smaller of two, where 0 and less is unknown. */
static int smaller(int a, int b)
{
	return b > 0 && (b < a || a <= 0) ? b : a;
}

void check_nvml_pcie(const struct host_facts *f, struct check_result *r)
{
	const struct nvml_watch *w = f->watch;
	int gen = f->before->pcie_gen_max, width = f->before->pcie_width_max;
	long long replays = grown(f->before->pcie_replays, f->after->pcie_replays);
	char found[128];

	/* The slot may be smaller than the card, and an idle link sleeps. A virtual machine's slots
	 * say nothing. */
	if (f->host && !f->vm) {
		gen = smaller(gen, pcie_generation(f->host->upstream_gts));
		width = smaller(width, f->host->upstream_width);
	}
	if (!w || w->pcie_gen <= 0 || w->pcie_width <= 0 || gen <= 0 || width <= 0) {
		check_skip(r, "not_told");
		return;
	}
	(void)snprintf(found, sizeof(found),
		"under load the link was gen %d x%d; card and slot allow gen %d x%d", w->pcie_gen,
		w->pcie_width, gen, width);
	if (w->pcie_width < width || w->pcie_gen < gen) {
		if (!f->vm && (w->pcie_width < width || w->samples >= SAMPLES_FOR_LINK))
			check_fail(r, CODE_PCIE_DEGRADED, "%s", found);
		else
			check_warn(r, CODE_PCIE_DEGRADED, "%s", found);
	} else if (f->before->pcie_replays >= 0 && replays > REPLAYS_MAX) {
		check_warn(r, CODE_PCIE_DEGRADED,
			"packets sent again in this run: %lld; up to %d are normal", replays,
			REPLAYS_MAX);
	} else {
		check_pass(r);
	}
}

void check_nvml_processes(const struct host_facts *f, struct check_result *r)
{
	if (f->before->processes < 0)
		check_skip(r, "not_told");
	else if (f->before->processes > 0)
		check_warn(r, CODE_DEVICE_BUSY, "processes that computed on it before this run: %d",
			f->before->processes);
	else
		check_pass(r);
}

/* "thermal by hardware, power brake" */
static void name_reasons(uint64_t reasons, char *to, size_t size)
{
	static const struct {
		uint64_t bit;
		const char *name;
	} names[] = {{0x08, "hardware slowdown"}, {0x20, "thermal, by software"},
		{0x40, "thermal, by hardware"}, {0x80, "power brake"}};
	size_t at = 0;

	to[0] = '\0';
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if ((reasons & names[i].bit) && at < size)
			at += (size_t)snprintf(
				to + at, size - at, "%s%s", at > 0 ? "; " : "", names[i].name);
}

void check_nvml_throttle(const struct host_facts *f, struct check_result *r)
{
	const struct nvml_watch *w = f->watch;
	char names[128], found[256];

	if (!w || w->samples == 0) {
		check_skip(r, "not_told");
		return;
	}
	name_reasons(w->reasons, names, sizeof(names));
	(void)snprintf(found, sizeof(found), "in %u of %u looks under load (%s), at up to %d C",
		w->faults, w->samples, names, w->temperature_c);
	if (w->faults < FAULTS_MIN || w->faults * 100ull < w->samples)
		check_pass(r);
	else if (w->faults * 10ull >= w->samples)
		check_fail(r, CODE_THROTTLED, "%s; 10 %% is a failure", found);
	else
		check_warn(r, CODE_THROTTLED, "%s; healthy is less than 1 %%", found);
}

/* "350 W (lowered from 700 W)" */
static void name_limit(const struct nvml_state *s, char *to, size_t size)
{
	if (s->power_limit_mw <= 0)
		(void)snprintf(to, size, "one that NVML does not name");
	else if (s->power_limit_mw < s->power_default_mw)
		(void)snprintf(to, size, "%d W, lowered from %d W", s->power_limit_mw / 1000,
			s->power_default_mw / 1000);
	else
		(void)snprintf(to, size, "%d W", s->power_limit_mw / 1000);
}

void check_shared(const struct host_facts *f, struct check_result *r)
{
	bool fine = r->status == STATUS_PASS && r->basis != BASIS_NONE;

	if (!thresholds_is_rate(r->id) || fine || !f->watch || f->watch->processes <= 1 ||
		(r->status != STATUS_PASS && r->code != CODE_SLOW))
		return;
	check_skip(r, "busy");
}

void check_power_cap(const struct host_facts *f, struct check_result *r)
{
	const struct nvml_state *s = f->before;
	const struct nvml_watch *w = f->watch;
	char limit[96], rate[sizeof(r->message)];
	bool named, lowered, reached;

	if (r->id != CHECK_FP32_RATE || r->status != STATUS_FAIL || r->code != CODE_SLOW ||
		r->basis != BASIS_CLOCK || !(r->value > r->expected * LIMIT_LEAVES) || !s)
		return;
	named = w && w->power > 0;
	lowered = s->power_limit_mw > 0 && s->power_limit_mw < s->power_default_mw;
	reached = w && w->power_mw >= s->power_limit_mw * LIMIT_REACHED;
	if (!named && !(lowered && reached))
		return;
	name_limit(s, limit, sizeof(limit));
	(void)snprintf(rate, sizeof(rate), "%s", r->message);
	if (named)
		check_warn(r, CODE_POWER_CAP,
			"%.160s; its power limit (%s) held it back in %u of %u looks", rate, limit,
			w->power, w->samples);
	else
		check_warn(r, CODE_POWER_CAP, "%.160s; its power limit is %s, and it drew %d W",
			rate, limit, w->power_mw / 1000);
}
