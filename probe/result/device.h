/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what the CUDA runtime says of a GPU, by attributes alone (no context), and by its memory
 * (makes a context). */
#ifndef PROBE_RESULT_DEVICE_H
#define PROBE_RESULT_DEVICE_H

#include "base/err.h"
#include "probe/result/report.h"
#include "probe/runtime/rt.h"

/* Driver and runtime version, and how many devices there are, into the report: driver first, since
 * no driver is error 35. Zero devices are CODE_NO_DEVICE. CODE_NONE: usable; else the code, and the
 * error stands in the report. */
enum probe_code device_count(const struct rt *rt, struct report *r);

/* Everything known of device `index` without a context. An attribute that cannot be had stays
 * unknown. CODE_NONE, or why not even the name could be had, and then *cuda_error. Its memory is
 * what its properties call it. */
enum probe_code device_describe(
	const struct rt *rt, int index, struct gpu_report *ret, int *cuda_error);

/* Free and total memory; makes the device's context, so call it in a worker and before any
 * allocation. */
enum probe_code device_memory(const struct rt *rt, struct gpu_report *ret, int *cuda_error);

#endif
