/* SPDX-License-Identifier: Apache-2.0 */
/* gate: does the profile hold a claim to its share? Tried by processes that run as its servers do,
 * with the driver's own library: one takes 60 % of the share; a second one must not get as much,
 * and must get 30 %, since a GPU that is merely full would refuse that, too. A GPU that is just so
 * full that it refuses the one and not the other is told by gate/selftest.h. */
#ifndef GATE_PROCESS_TRY_H
#define GATE_PROCESS_TRY_H

/* `gpugate try SHARE`, started by the gate with a claim's environment and account: says "ready"
 * when a process has an empty context, reads what NVML counts of that (bytes), and says "held",
 * "exceeded", or "unknown" with a reason, each on a line. SHARE: bytes. */
int try_main(int argc, char **argv);

/* `gpugate take`, started by try: makes a context, says "ready", and for each number of bytes that
 * it reads tries to take these: "taken", "full", or "error" with a reason. What it has goes with
 * it. */
int take_main(int argc, char **argv);

#endif
