/* SPDX-License-Identifier: Apache-2.0 */
/* edge: what the kernel says of this process, as metrics. */
#ifndef WEBHOOK_EDGE_METRICS_PROCESS_H
#define WEBHOOK_EDGE_METRICS_PROCESS_H

#include "base/buf.h"

/* Append process_cpu_seconds_total, process_resident_memory_bytes, process_virtual_memory_bytes,
 * process_threads, process_start_time_seconds, process_open_fds and process_max_fds. Where /proc is
 * not to be had what comes from there is left out. */
void process_metrics(struct buf *out);

#endif
