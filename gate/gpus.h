/* SPDX-License-Identifier: Apache-2.0 */
/* gate: a process of its own that looks at the GPUs by NVML, again and again, since a call of NVML
 * may take minutes on a GPU that is ill, and since its library has nothing to do beside our key. */
#ifndef GATE_GPUS_H
#define GATE_GPUS_H

#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "gate/usage.h"

/* Nobody has looked for so long, and for three looks: then nothing is known. */
#define GPUS_SILENT_MS 30000

struct gpus;

struct gpus_config {
	const char *nvml; /* the library; NULL: the driver's */
	int64_t every_ms;
	const struct log *log;
	int loop;
	void *ctx;
	/* Somebody has looked. */
	void (*looked)(void *ctx, const struct usage_look *look);
};

/* config is copied, what it points to borrowed. ERR_NOMEM. The process is started by the first
 * turn. */
int gpus_new(const struct gpus_config *config, struct gpus **ret, struct err *err);
/* NULL-safe. Ends the process. */
void gpus_free(struct gpus *g);
/* Do what is due; milliseconds until more is. */
int64_t gpus_turn(struct gpus *g);

/* `gpugate gpus [--nvml FILE] [--every DURATION]`: a look as a line of JSON, for as long as
 * somebody reads. */
int gpus_main(int argc, char **argv);

#endif
