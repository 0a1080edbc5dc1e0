# SPDX-License-Identifier: Apache-2.0
"""For each check of probe/result/check.c what makes it say that something is wrong: one place for test_checks.py, which runs them, and for
coverage, which counts them. Azure's health checks had a check that read a column that was not there: it could not fail, and nobody saw it.

    Fault(check, status, code, exit status, arguments of gpuprobe, gpu=the index whose result it is, local=…, gpus=…, root=…, **scenario)
"""
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

XID = "6,100,200,-;NVRM: Xid (PCI:0000:10:00): 79, pid=1, GPU has fallen off the bus."

STRESS = ["stress", "--time", "1500ms", "--memory", "10%"]


class Fault:
    def __init__(self, check, status, code, exit_status, args=(), gpu=0, local=True, gpus=1, root=None, **scenario):
        self.check, self.status, self.code, self.exit_status, self.args = check, status, code, exit_status, list(args)
        self.gpu, self.local, self.gpus, self.root, self.scenario = gpu, local, gpus, root, scenario

    def __str__(self):
        return f"{self.check}-{self.code}-{self.status}"

    def command(self):
        return self.args[0] if self.args and not self.args[0].startswith("-") else "verify"


def device(**members):
    return {"devices": [members]}


def idle(kernel, **members):
    """A GPU of two multiprocessors that does not do what it calls done."""
    return device(sms=2, idle={"kernel": kernel, **members})


def two(**of_the_second):
    """Two GPUs of one model, whose second one is slower."""
    return {"devices": [{}, of_the_second]}


def nvml(*lines):
    return {"nvml": "\n".join(("gpus=1",) + lines) + "\n"}


def call(name, error, **more):
    return {"calls": [{"call": name, "error": error, **more}]}


def dead_on_the_bus(w):
    w.pci("0000:10:00.0", config=b"\xff" * 64)


def narrow(w):
    w.pci("0000:10:00.0", current_link_width="4\n")


def own_xids(w, fatal, log):
    with open(os.path.join(w.folder, "xids.json"), "w", encoding="ascii") as f:
        f.write('{"schema": "gpuprobe.thresholds/1", "fatal_xids": [%s]}' % fatal)
    w.kernel_log(log)


FAULTS = [
    Fault("env.driver", "fail", "NO_DEVICE", 3, **{"devices": []}),
    Fault("env.driver", "fail", "NO_DRIVER", 3, driver=0),
    Fault("env.count", "fail", "GPU_MISSING", 1, ["--expect-gpus", "2"]),
    Fault("env.count", "fail", "GPU_MISSING", 1, ["list"], **nvml("0.pci=0000:11:00.0")),
    Fault("cuda.kernel_image", "fail", "NO_KERNEL_IMAGE", 1, **call("cudaLibraryLoadData", 209)),
    Fault("env.compute_mode", "fail", "COMPUTE_MODE", 1, **device(compute_mode=2)),
    Fault("env.compute_mode", "warn", "COMPUTE_MODE", 0, **device(compute_mode=3)),
    Fault("env.mig", "warn", "MIG_MODE", 0, ["list"], **nvml("mig=1")),
    Fault("env.variables", "warn", "DEBUG_VARIABLES", 0, ["list"], env={"CUDA_LAUNCH_BLOCKING": "1"}),
    Fault("env.persistence", "warn", "PERSISTENCE_OFF", 0, ["list"], **nvml("persistence=0")),
    Fault("host.pci", "fail", "GPU_MISSING", 1, gpus=0, root=dead_on_the_bus),
    Fault("host.pci", "warn", "PCIE_DEGRADED", 0, gpus=0, root=narrow),
    Fault("host.xid", "fail", "XID", 1, root=lambda w: w.kernel_log(XID)),
    Fault("host.xid", "warn", "XID", 0, root=lambda w: w.kernel_log(XID.replace("79", "32"))),
    # a list of one's own takes the place of the default: an application's error becomes fatal, and 79 is only noted
    Fault("host.xid", "fail", "XID", 1, ["--thresholds", "xids.json"], root=lambda w: own_xids(w, "13, 43", XID.replace("79", "13"))),
    Fault("host.xid", "warn", "XID", 0, ["--thresholds", "xids.json"], root=lambda w: own_xids(w, "13, 43", XID)),
    Fault("host.xid", "warn", "XID", 0, ["--thresholds", "xids.json"], root=lambda w: own_xids(w, "", XID)),
    # a watcher looks twice and more: its first look finds 0
    Fault("nvml.ecc", "fail", "ECC_UNCORRECTABLE", 1, STRESS, **nvml("ecc_uncorrected=0,2")),
    Fault("nvml.ecc", "warn", "ECC_CORRECTABLE", 0, STRESS, **nvml("ecc_corrected=0,5")),
    Fault("nvml.ecc", "error", "NOT_RUN", 0, STRESS, **nvml("ecc_uncorrected=0,n/a")),
    Fault("nvml.remap", "fail", "REMAP_PENDING", 1, ["list"], **nvml("remap_pending=1")),
    Fault("nvml.remap", "fail", "REMAP_FAILED", 1, ["list"], **nvml("remap_failed=1")),
    Fault("nvml.remap", "fail", "RETIRE_PENDING", 1, ["list"], **nvml("retire_pending=1")),
    Fault("nvml.remap", "fail", "RECOVERY_NEEDED", 1, ["list"], **nvml("recovery_action=2")),
    Fault("nvml.pcie", "fail", "PCIE_DEGRADED", 1, **nvml("pcie_width=8")),
    Fault("nvml.pcie", "warn", "PCIE_DEGRADED", 0, STRESS, **nvml("pcie_replays=0,5000")),
    Fault("nvml.processes", "warn", "DEVICE_BUSY", 0, ["list"], **nvml("processes=2")),
    Fault("nvml.processes", "fail", "DEVICE_BUSY", 1, ["--require-idle"], **nvml("processes=2")),
    Fault("nvml.throttle", "fail", "THROTTLED", 1, STRESS, **nvml("throttle=0x44")),
    Fault("cap.free_memory", "warn", "LOW_FREE_MEMORY", 0, **device(free_mib=1500)),
    Fault("cap.free_memory", "fail", "LOW_FREE_MEMORY", 1, ["--require-idle"], **device(free_mib=1500)),
    Fault("remote.rtt", "fail", "KERNEL_FAULT", 1, local=False, **call("cudaLaunchKernel", 719, kernel="gp_nop", sticky=True)),
    Fault("remote.bandwidth", "fail", "NVLINK_ERROR", 1, local=False, **call("cudaMemcpyAsync", 220, sticky=True, use=2)),
    Fault("compute.exact_fp32", "fail", "COMPUTE_ERRORS", 1, **device(sms=2, wrong={"kernel": "gp_fma32", "sm": 1})),
    Fault("compute.exact_fp32", "error", "SMS_MISSED", 4, **device(sms=3, missing_sm=1)),
    Fault("compute.exact_fp64", "fail", "COMPUTE_ERRORS", 1, **device(sms=2, wrong={"kernel": "gp_fma64", "sm": 1})),
    Fault("compute.exact_tensor", "fail", "COMPUTE_ERRORS", 1, **device(sms=2, wrong={"kernel": "gp_mma16", "sm": 1})),
    Fault("compute.exact_fp64", "fail", "ECC_UNCORRECTABLE", 1,
          **call("cudaStreamSynchronize", 214, kernel="gp_fma64", sticky=True)),
    # what was launched, and did not do its work: all of it, or one multiprocessor's part
    Fault("remote.rtt", "fail", "WORK_MISSING", 1, local=False, **idle("gp_nop")),
    Fault("compute.exact_fp32", "fail", "WORK_MISSING", 1, **idle("gp_fma32", sm=1)),
    Fault("compute.exact_fp64", "fail", "WORK_MISSING", 1, **idle("gp_fma64")),
    Fault("compute.exact_tensor", "fail", "WORK_MISSING", 1, **idle("gp_mma16", times=1)),
    Fault("mem.shared", "fail", "WORK_MISSING", 1, **idle("gp_smem")),
    Fault("mem.shared", "error", "SMS_MISSED", 4, **device(sms=3, missing_sm=1)),
    Fault("mem.pattern", "fail", "WORK_MISSING", 1, **idle("gp_fill")),
    Fault("mem.pattern", "fail", "WORK_MISSING", 1, **idle("gp_check", sm=1)),
    Fault("bench.mem_read", "fail", "WORK_MISSING", 1, **idle("gp_read", sm=0)),
    Fault("bench.mem_copy", "fail", "WORK_MISSING", 1, **idle("gp_copy", times=1)),
    Fault("bench.mem_write", "fail", "WORK_MISSING", 1, ["bench"], **idle("gp_fill")),
    Fault("bench.p2p", "fail", "WORK_MISSING", 1, ["bench"], gpus=2,
          devices=[{"peers": True}, {"peers": True, "sms": 2, "idle": {"kernel": "gp_check", "sm": 1}}]),
    Fault("bench.fp32", "fail", "WORK_MISSING", 1, ["bench"], **idle("gp_fma32", sm=1)),
    Fault("bench.fp64", "fail", "WORK_MISSING", 1, ["bench"], **idle("gp_fma64", times=1)),
    Fault("bench.tensor", "fail", "WORK_MISSING", 1, ["bench"], **idle("gp_mma16", times=1)),
    Fault("bench.fp32", "fail", "WORK_MISSING", 1, ["bench"], **device(sms=2, wrong={"kernel": "gp_fma32", "sm": 1})),
    Fault("bench.h2d", "fail", "LINK_ERRORS", 1, **idle("h2d")),
    Fault("bench.d2h", "fail", "LINK_ERRORS", 1, **idle("d2h")),
    # one copy of several
    Fault("bench.h2d", "fail", "LINK_ERRORS", 1, **idle("h2d", times=1)),
    Fault("bench.d2h", "fail", "LINK_ERRORS", 1, **idle("d2h", times=1)),
    Fault("bench.launch", "fail", "WORK_MISSING", 1, ["bench"], **idle("gp_nop", times=1)),
    Fault("bench.launch_wait", "fail", "WORK_MISSING", 1, ["bench"], **idle("gp_nop")),
    Fault("bench.launch_wait", "fail", "KERNEL_FAULT", 1, ["bench"], **call("cudaLaunchKernel", 719, kernel="gp_nop", sticky=True, use=310)),
    *[Fault(f"bench.{way}_{size}", "fail", "LINK_ERRORS", 1, ["bench"], **idle(way, bytes=n, times=1))
      for way in ("h2d", "d2h") for size, n in (("4k", 4096), ("1m", 1 << 20), ("32m", 32 << 20))],
    Fault("mem.shared", "fail", "MEMORY_ERRORS", 1, **device(wrong={"kernel": "gp_smem"})),
    Fault("mem.pattern", "fail", "MEMORY_ERRORS", 1, **device(flips=[{"offset": 123456, "bit": 3, "kind": "stuck1"}])),
    Fault("mem.pattern", "fail", "SHORT_ALLOCATION", 1, **device(memory_mib=4096, allocatable_mib=2600)),
    Fault("mem.pattern", "error", "COVERAGE", 4, **device(allocatable_mib=400)),
    Fault("mem.pattern", "error", "OUT_OF_MEMORY", 4, **call("cudaMalloc", 2, worker=True)),
    Fault("bench.mem_read", "fail", "SLOW", 1, **device(speed={"read": 0.6})),
    Fault("bench.mem_read", "warn", "SLOW", 0, **device(speed={"read": 0.82})),
    # 44.7 TB/s of a GPU of 64 GB/s: what was timed was not done
    Fault("bench.mem_read", "fail", "TOO_FAST", 1, **device(memory_clock_mhz=1000, bus_bits=256, speed={"read": 700})),
    Fault("bench.mem_read", "fail", "TOO_FAST", 1, local=False, **device(speed={"read": 1.5})),
    Fault("bench.mem_write", "fail", "TOO_FAST", 1, ["bench"], **device(speed={"fill": 1.5})),
    Fault("bench.mem_copy", "fail", "TOO_FAST", 1, **device(speed={"copy": 1.5})),
    Fault("bench.fp64", "fail", "TOO_FAST", 1, ["bench"], **device(speed={"fma64": 3})),
    # more than the GPU's memory takes or gives
    Fault("bench.h2d", "fail", "TOO_FAST", 1, **device(memory_clock_mhz=1000, bus_bits=256, speed={"h2d": 4})),
    Fault("bench.d2h", "fail", "TOO_FAST", 1, **device(memory_clock_mhz=1000, bus_bits=256, speed={"d2h": 4})),
    Fault("remote.bandwidth", "fail", "TOO_FAST", 1, local=False, **device(memory_clock_mhz=1000, bus_bits=256, speed={"h2d": 4})),
    Fault("bench.p2p", "fail", "TOO_FAST", 1, ["bench"], gpus=2, devices=[{"peers": True, "speed": {"p2p": 200}}, {"peers": True}]),
    Fault("bench.fp32", "fail", "TOO_FAST", 1, ["bench"], **device(speed={"fma32": 1.5})),
    Fault("bench.tensor", "fail", "TOO_FAST", 1, ["bench"], **device(speed={"mma16": 20})),
    Fault("bench.mem_read", "fail", "NOT_A_NUMBER", 1, **device(nan_time="gp_read")),
    Fault("bench.mem_read", "fail", "SLOWER_THAN_PEERS", 1, gpu=1, gpus=2,
          devices=[{"memory_clock_mhz": 0}, {"memory_clock_mhz": 0, "speed": {"read": 0.5}}]),
    Fault("bench.mem_write", "fail", "SLOWER_THAN_PEERS", 1, ["bench"], gpu=1, gpus=2, **two(speed={"fill": 0.5})),
    Fault("bench.mem_copy", "fail", "SLOW", 1, **device(speed={"copy": 0.5})),
    Fault("bench.h2d", "fail", "SLOW", 1, **device(speed={"h2d": 0.2})),
    Fault("bench.d2h", "fail", "SLOW", 1, **device(speed={"d2h": 0.2})),
    Fault("bench.p2p", "fail", "LINK_ERRORS", 1, ["bench"], gpus=2, devices=[{"peers": True, "peer_wrong": {"offset": 64}}, {"peers": True}]),
    Fault("bench.p2p", "warn", "SLOWER_THAN_PEERS", 0, ["bench"], gpus=2, devices=[{"peers": True, "speed": {"p2p": 0.7}}, {"peers": True}]),
    Fault("bench.p2p", "fail", "NVLINK_ERROR", 1, ["bench"], gpus=2, devices=[{"peers": True}] * 2,
          calls=[{"call": "cudaMemcpyAsync", "use": 1, "error": 220, "sticky": True, "process": 3}]),
    Fault("bench.fp32", "fail", "SLOW", 1, ["bench"], **device(speed={"fma32": 0.2})),
    Fault("bench.fp32", "warn", "POWER_CAP", 0, ["bench"], **device(speed={"fma32": 0.2}), **nvml("throttle=0x4")),
    Fault("bench.fp32", "warn", "POWER_CAP", 0, ["bench"], **device(speed={"fma32": 0.2}),
          **nvml("throttle=n/a", "power_limit_mw=360000", "power_mw=350000")),
    # slow for another reason, at its usual limit
    Fault("bench.fp32", "fail", "SLOW", 1, ["bench"], **device(speed={"fma32": 0.2}), **nvml("power_mw=690000")),
    # no limit makes a result wrong
    Fault("compute.exact_fp32", "fail", "COMPUTE_ERRORS", 1,
          **device(sms=2, wrong={"kernel": "gp_fma32", "sm": 1}, speed={"fma32": 0.2}), **nvml("throttle=0x4")),
    Fault("bench.fp64", "fail", "SLOWER_THAN_PEERS", 1, ["bench"], gpu=1, gpus=2, **two(speed={"fma64": 0.5})),
    Fault("bench.tensor", "warn", "SLOWER_THAN_PEERS", 0, ["bench"], gpu=1, gpus=2, **two(speed={"mma16": 0.9})),
]

# Checks that have no way to fail, and why.
CANNOT_FAIL = {}


def checks():
    """The names of all checks, as the program has them."""
    with open(os.path.join(ROOT, "probe/result/check.c"), encoding="ascii") as f:
        return re.findall(r'\[CHECK_\w+\] = \{"([a-z0-9_.]+)",', f.read())


def holes():
    """Checks that nothing shows to fail or warn, and scenarios of checks that there are none of."""
    named = {f.check for f in FAULTS if f.status in ("fail", "warn")} | set(CANNOT_FAIL)
    return [c for c in checks() if c not in named] + sorted(named - set(checks()))
