/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the checks of what NVML says. Facts are known to be there: check_host() has seen to that.
 */
#ifndef PROBE_CHECK_CHECKS_NVML_H
#define PROBE_CHECK_CHECKS_NVML_H

#include "probe/check/checks_host.h"

void check_nvml_ecc(const struct host_facts *f, struct check_result *r);
void check_nvml_remap(const struct host_facts *f, struct check_result *r);
void check_nvml_pcie(const struct host_facts *f, struct check_result *r);
void check_nvml_processes(const struct host_facts *f, struct check_result *r);
void check_nvml_throttle(const struct host_facts *f, struct check_result *r);

/* GT/s of a PCIe generation, 1 … 6, and back; 0: unknown. */
double pcie_speed(int gen);
int pcie_generation(double gts);

#endif
