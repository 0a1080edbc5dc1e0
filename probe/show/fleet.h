/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what `gpuprobe serve` knows of its server's GPUs between checks: the last verdict of each,
 * and what NVML says now. One thread changes it; what others see is the text it makes. */
#ifndef PROBE_SHOW_FLEET_H
#define PROBE_SHOW_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "probe/check/worker_wire.h"
#include "probe/result/report.h"
#include "probe/runtime/host.h"

#define INVENTORY_SCHEMA "gpuprobe.inventory/1"
#define FLEET_REASONS_MAX 512

struct fleet_gpu {
	struct gpu_report
		known; /* identity and sizes; its checks are those of the last verdict, owned */
	bool present;  /* in the last look */
	bool verified; /* there is a verdict */
	int64_t verified_at;             /* seconds since 1970 */
	char verdict[FLEET_REASONS_MAX]; /* why it was not fit, reasons between "; "; "" when it was
					  */
	char now[FLEET_REASONS_MAX];     /* what NVML holds against it now; "" */
	bool told;                       /* NVML told of it at least once: */
	bool told_now;                   /* in the last look */
	struct nvml_state first, last;
};

/* Zeroed by fleet_init. Times are seconds since 1970. */
struct fleet {
	char server[64];
	int expected; /* GPUs; -1: not said */
	int64_t stale_after_s;
	int64_t looked_at;   /* last look at the GPUs that was answered; 0: never */
	int64_t verified_at; /* last verify that was whole; 0: never */
	int driver_cuda;
	char driver_version[32];
	char trouble[FLEET_REASONS_MAX]; /* of the server as a whole, as "NO_DRIVER: …"; "" */
	struct fleet_gpu *gpus;          /* room for REPORT_GPUS_MAX */
	size_t n_gpus;
};

/* False: no memory. */
bool fleet_init(struct fleet *f, const char *server, int expected, int64_t stale_after_s);
void fleet_release(struct fleet *f);

/* Was it in use by somebody else, so that a verify could not measure it? */
bool fleet_was_busy(const struct gpu_report *gpu);

/* Take a verify's verdicts, of the GPUs that it checked; it ended at `now`. An incomplete report
 * changes nothing but what is worse, and a GPU that was busy keeps the verdict that it had unless
 * something was found to be wrong. */
void fleet_verified(struct fleet *f, const struct report *r, int64_t now);

/* Take a list's GPUs: those that are missing from it are gone. */
void fleet_listed(struct fleet *f, const struct report *r, int64_t now);

/* A look of NVML begins, tells of one GPU, ends with so many told (-1: it was not answered, which
 * is no news of any GPU). */
void fleet_look_begin(struct fleet *f);
void fleet_look(struct fleet *f, const struct wire_state *state);
void fleet_look_end(struct fleet *f, int told, int64_t now);

/* Is it idle, as far as NVML tells? */
bool fleet_idle(const struct fleet_gpu *gpu);

/* Fit: verified so, present, and nothing against it now. */
bool fleet_fit(const struct fleet_gpu *gpu);

/* Known and not stale, with at least one fit GPU: ready to be placed on. NULL: ready; else why not.
 */
const char *fleet_unready(const struct fleet *f, int64_t now);

/* /v1/inventory (gpuprobe.inventory/1) and /metrics, as they are at `now`. */
void fleet_inventory(const struct fleet *f, int64_t now, struct buf *out);
void fleet_metrics(const struct fleet *f, int64_t now, struct buf *out);

#endif
