# SPDX-License-Identifier: Apache-2.0
"""What gpuprobe says of servers in every state: exit status, JSON (held to its schema in every run) and text. For each check there is
a scenario that makes it fail; `make probe-coverage` counts them by FAILS, which names the check and its code."""
import json
import os
import re
import signal
import socket
import threading
import time

import pytest

import world
from world import World

HEALTHY_NVML = "gpus=1\n"


@pytest.fixture(name="w")
def fixture_w(tmp_path):
    return World(tmp_path)


# ---- CUDA cannot be used ----

@pytest.mark.parametrize("code, scenario, words", [
    ("NO_DRIVER", {"driver": 0}, "driver"),
    ("DRIVER_TOO_OLD", {"driver": 11040}, "11.4"),
    ("STUB_LIBRARY", {"init": 34}, "stub"),
    ("FABRIC_NOT_READY", {"init": 802}, "fabric"),
    ("DRIVER_MISMATCH", {"init": 803}, "module"),
    ("COMPAT_UNSUPPORTED", {"init": 804}, "compat"),
    ("INIT_FAILED", {"init": 999}, "device"),
    ("NO_DEVICE", {"devices": []}, "no device"),
])
def test_cuda_cannot_be_used(w, code, scenario, words):
    done = w.run("verify", **scenario)
    assert done.status == 3
    assert (None, code) in done.codes()
    assert words in done.stderr.lower(), done.stderr
    assert not any(done.fit())


def test_runtime_without_calls(w):
    """A remote-GPU client's runtime may have two calls only: nothing is taken for a pass."""
    done = w.run("verify", cudart=os.path.join(world.FAKES, "libcudart-old.so"))
    assert done.status in (3, 4)
    assert "RUNTIME_INCOMPLETE" in [c for _, c in done.codes()]


def test_no_such_runtime(w):
    done = w.run("verify", cudart=os.path.join(w.folder, "nothing.so"))
    assert done.status == 3 and "nothing.so" in done.stderr


# ---- healthy ----

def test_eight_healthy(tmp_path):
    w = World(tmp_path, gpus=8)
    done = w.run("verify", "--expect-gpus", "8", "--expect-name", "NVIDIA H*", devices=[{"count": 8}],
                 nvml="gpus=8\n" + "".join(f"{i}.pci=0000:{16 + i:02x}:00.0\n" for i in range(8)))
    assert done.status == 0, done.stderr
    assert done.fit() == [True] * 8
    assert done.report["counts"] == {"expected": 8, "pci": 8, "nvml": 8, "cuda": 8}
    assert done.check("mem.pattern", 7)["errors"] == 0
    assert "8 of 8 GPUs fit" in done.stderr


def test_list_needs_no_context(w):
    done = w.run("list", calls=[{"call": "cudaMemGetInfo", "error": 2}])
    assert done.status == 0 and done.fit() == [True]
    assert done.report["gpus"][0]["name"] == "NVIDIA H200"
    assert w.run("list", "--free").report["gpus"][0]["memory_total_bytes"] == 2048 << 20


def test_text_for_people(w):
    done = w.run("verify", json_asked=False)
    assert done.status == 0
    assert re.search(r"^ +0 +NVIDIA H200 +0000:10:00.0 .* ok$", done.stdout, re.M), done.stdout
    assert re.search(r"^1 of 1 GPUs? fit", done.stdout, re.M)


def test_nagios(w):
    done = w.run("verify", "--nagios", json_asked=False)
    assert done.status == 0 and done.stdout.startswith("GPUPROBE OK")
    done = w.run("verify", "--nagios", json_asked=False, devices=[{"wrong": [{}]}])
    assert done.status == 2 and done.stdout.startswith("GPUPROBE CRITICAL")
    done = w.run("verify", "--nagios", json_asked=False, driver=0)
    assert done.status == 3 and done.stdout.startswith("GPUPROBE UNKNOWN")


def test_remote(tmp_path):
    """A wrapped pod: the GPU's PCI id is none of this machine's."""
    done = World(tmp_path, local=False).run("verify")
    assert done.status == 0, done.stderr
    assert done.report["host"]["location"] == "remote"
    assert done.check("nvml.ecc")["reason"] == "remote"
    assert done.check("remote.rtt")["status"] == "pass"
    assert 20 <= done.check("mem.pattern")["coverage_percent"] <= 26


def test_bench_and_reference(w):
    done = w.run("bench", "--save-reference", "good.json", nvml=HEALTHY_NVML)
    assert done.status == 0, done.stderr
    saved = json.load(open(os.path.join(w.folder, "good.json"), encoding="ascii"))
    assert saved["references"][0]["rates"]["bench.mem_read"] > 1e12
    done = w.run("bench", "--thresholds", "good.json", devices=[{"speed": {"read": 0.8}}], nvml=HEALTHY_NVML)
    assert done.status == 1
    assert done.check("bench.mem_read")["basis"] == "reference"


def test_stress_goes_on(w):
    done = w.run("stress", "--time", "3s", "--memory", "25%")
    assert done.status == 0, done.stderr
    assert done.report["duration_s"] >= 3


def test_mig(w):
    done = w.run("verify", devices=[{"name": "NVIDIA H200 MIG 1g.18gb", "uuid": "MIG-11111111-2222-3333-4444-555555555555"}])
    assert done.report["gpus"][0]["mig"] is True
    assert done.status in (0, 4), done.stderr


# ---- counts, names, sizes ----

def test_seven_of_eight(tmp_path):
    """One has fallen off the bus: PCI shows it, CUDA does not."""
    done = World(tmp_path, gpus=8).run("verify", devices=[{"count": 7}])
    assert done.status == 1
    assert (7, "GPU_MISSING") in done.codes()
    assert done.fit() == [True] * 7 + [False]


# ---- a scenario that fails for each check: (check, code, exit status, arguments, what is wrong) ----

XID = "6,100,200,-;NVRM: Xid (PCI:0000:10:00): 79, pid=1, GPU has fallen off the bus."
FAILS = [
    ("env.driver", "NO_DEVICE", 3, (), {"devices": []}),
    ("env.count", "GPU_MISSING", 1, ("--expect-gpus", "2"), {}),
    ("cuda.kernel_image", "NO_KERNEL_IMAGE", 1, (), {"calls": [{"call": "cudaLibraryLoadData", "error": 209}]}),
    ("env.compute_mode", "COMPUTE_MODE", 1, (), {"devices": [{"compute_mode": 2}]}),
    ("cap.free_memory", "LOW_FREE_MEMORY", 1, ("--require-idle",), {"devices": [{"free_mib": 1500}]}),
    ("compute.exact_fp32", "COMPUTE_ERRORS", 1, (), {"devices": [{"wrong": [{"kernel": "gp_fma32"}]}]}),
    ("compute.exact_fp64", "COMPUTE_ERRORS", 1, (), {"devices": [{"wrong": [{"kernel": "gp_fma64"}]}]}),
    ("compute.exact_tensor", "COMPUTE_ERRORS", 1, (), {"devices": [{"wrong": [{"kernel": "gp_mma16"}]}]}),
    ("mem.shared", "MEMORY_ERRORS", 1, (), {"devices": [{"wrong": [{"kernel": "gp_smem"}]}]}),
    ("mem.pattern", "MEMORY_ERRORS", 1, (), {"devices": [{"flips": [{"offset": 123456, "bit": 3, "kind": "stuck1"}]}]}),
    ("bench.mem_read", "SLOW", 1, (), {"devices": [{"speed": {"read": 0.6}}]}),
    ("bench.mem_copy", "SLOW", 1, (), {"devices": [{"speed": {"copy": 0.5}}]}),
    ("bench.h2d", "SLOW", 1, (), {"devices": [{"speed": {"h2d": 0.2}}]}),
    ("bench.d2h", "SLOW", 1, (), {"devices": [{"speed": {"d2h": 0.2}}]}),
    ("bench.fp32", "SLOW", 1, ("bench",), {"devices": [{"speed": {"fma32": 0.2}}]}),
    ("nvml.ecc", "ECC_UNCORRECTABLE", 1, (), {"nvml": "gpus=1\necc_uncorrected=0,2\n"}),
    ("nvml.remap", "REMAP_PENDING", 1, (), {"nvml": "gpus=1\nremap_pending=1\n"}),
    ("nvml.remap", "REMAP_FAILED", 1, (), {"nvml": "gpus=1\nremap_failed=1\n"}),
    ("nvml.remap", "RETIRE_PENDING", 1, (), {"nvml": "gpus=1\nretire_pending=1\n"}),
    ("nvml.throttle", "THROTTLED", 1, (), {"nvml": "gpus=1\nthrottle=0x44\n"}),
]


@pytest.mark.parametrize("check, code, status, args, wrong", FAILS, ids=lambda v: v if isinstance(v, str) else None)
def test_check_fails(w, check, code, status, args, wrong):
    """The check says so, and so do verdict, JSON and text."""
    kw = dict(wrong)
    command = args[0] if args and not args[0].startswith("-") else "verify"
    if check == "host.xid":
        w.kernel_log(XID)
    done = w.run(command, *[a for a in args if a != command], **kw)
    assert done.status == status, done.stderr
    assert code in [c for _, c in done.codes()], done.codes()
    assert code in done.stderr
    if done.report["gpus"]:
        assert not done.report["gpus"][0]["fit"]
        result = done.check(check)
        assert result["status"] == "fail" and result["code"] == code, result
        assert result["hint"] and result["action"] in ("none", "retry", "configure", "reset", "reboot", "isolate")


def test_every_check_has_a_scenario():
    """Azure's health checks had one that read a column that was not there: it could not fail, and nobody saw it."""
    by_hand = {"env.mig", "env.variables", "env.persistence", "host.pci", "host.xid", "nvml.pcie", "nvml.processes", "remote.rtt",
               "remote.bandwidth", "bench.mem_write", "bench.p2p", "bench.fp64", "bench.tensor"}
    with open(os.path.join(os.path.dirname(world.__file__), "../../probe/check.c"), encoding="ascii") as f:
        checks = set(re.findall(r'= \{"([a-z0-9_.]+)",', f.read()))
    missing = checks - {row[0] for row in FAILS} - by_hand
    assert not missing, missing


# ---- memory ----

@pytest.mark.parametrize("kind", ["once", "transient", "stuck0", "stuck1"])
def test_a_flipped_bit(w, kind):
    done = w.run("verify", devices=[{"flips": [{"offset": 1 << 20, "bit": 77, "kind": kind}]}])
    assert done.status == 1
    result = done.check("mem.pattern")
    assert result["errors"] >= 1
    record = result["memory_errors"][0]
    assert record["offset"] == 1 << 20


def test_a_bit_above_4_gib(w):
    """Index arithmetic past 2^32."""
    done = w.run("verify", devices=[{"memory_mib": 12288, "flips": [{"offset": 9 * 10 ** 9, "bit": 3, "kind": "stuck0"}]}])
    assert done.status == 1
    assert done.check("mem.pattern")["memory_errors"][0]["offset"] == 9 * 10 ** 9 // 16 * 16


def test_ecc_error_in_the_middle(w):
    done = w.run("verify", calls=[{"call": "cudaStreamSynchronize", "kernel": "gp_check", "error": 214, "sticky": True}])
    assert done.status == 1
    assert (0, "ECC_UNCORRECTABLE") in done.codes()


def test_short_memory(w):
    """What is said to be free cannot be had: too little is tested, and that is no pass."""
    done = w.run("verify", devices=[{"allocatable_mib": 700}])
    assert done.status == 4
    assert done.check("mem.pattern")["code"] == "COVERAGE"
    assert done.fit() == [False]


def test_allocation_refused(w):
    done = w.run("verify", calls=[{"call": "cudaMalloc", "worker": True, "error": 2}])
    assert done.status == 4
    assert "OUT_OF_MEMORY" in [c for _, c in done.codes()]


# ---- arithmetic ----

def test_the_wrong_multiprocessor_is_named(w):
    done = w.run("verify", devices=[{"sms": 4, "wrong": [{"sm": 2, "kernel": "gp_fma32"}]}])
    assert done.status == 1
    assert {e["sm"] for e in done.check("compute.exact_fp32")["compute_errors"]} == {2}


def test_a_multiprocessor_that_is_never_reached(w):
    done = w.run("verify", devices=[{"sms": 4, "missing_sm": 1}])
    assert done.status == 4
    assert done.check("compute.exact_fp32")["code"] == "SMS_MISSED"


# ---- speed ----

def test_slow_against_its_peers(tmp_path):
    w = World(tmp_path, gpus=4)
    unknown = {"memory_clock_mhz": 0}
    done = w.run("verify", devices=[{"count": 3, **unknown}, {**unknown, "speed": {"read": 0.5}}])
    assert done.status == 1
    assert (3, "SLOWER_THAN_PEERS") in done.codes()
    assert done.fit() == [True] * 3 + [False]


def test_a_time_that_is_no_number(w):
    done = w.run("verify", devices=[{"nan_time": "gp_read"}])
    assert done.status in (1, 4)
    assert done.check("bench.mem_read")["code"] == "NOT_A_NUMBER"


# ---- hangs and deaths ----

def test_a_hang_costs_its_deadline(tmp_path):
    """One of two GPUs hangs; the other's verdict stands."""
    w = World(tmp_path, gpus=2)
    done = w.run("verify", devices=[{"count": 2}], calls=[{"call": "cudaMemGetInfo", "device": 1, "worker": True, "hang": True}])
    assert done.status == 1
    assert (1, "HANG") in done.codes()
    assert done.fit() == [True, False]
    assert done.seconds < 60


@pytest.mark.parametrize("death", [{"signal": 11}, {"exit": 7}])
def test_a_worker_dies(w, death):
    done = w.run("verify", calls=[{"call": "cudaMalloc", "worker": True, **death}])
    assert done.status in (1, 4)
    assert (0, "WORKER_DIED") in done.codes()
    assert done.fit() == [False]


def test_exclusive_mode_in_use(w):
    done = w.run("verify", calls=[{"call": "cudaMemGetInfo", "worker": True, "error": 46}])
    assert done.status in (1, 4)
    assert (0, "DEVICE_BUSY") in done.codes()


def test_sigint_gives_a_partial_report(w):
    process = w.start("verify", calls=[{"call": "cudaMemGetInfo", "worker": True, "sleep_s": 15}])
    time.sleep(1)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    done = world.Done(process.returncode, out.decode(), err.decode(), time.monotonic() - began, True)
    assert done.status == 4 and done.report["complete"] is False
    assert done.seconds < 10, "it should stop within two seconds, and this machine may be slow"


def test_timeout(w):
    done = w.run("verify", "--timeout", "2s", calls=[{"call": "cudaMemGetInfo", "worker": True, "sleep_s": 15}])
    assert done.status == 4 and done.report["complete"] is False
    assert "TIMED_OUT" in [c for _, c in done.codes()]


# ---- NVML ----

def test_without_nvml(w):
    done = w.run("verify", "--nvml", os.path.join(w.folder, "nothing.so"), nvml="")
    assert done.status == 0, done.stderr
    assert done.check("nvml.ecc")["reason"] == "nvml_unavailable"
    done = w.run("verify", "--require-nvml", "--nvml", os.path.join(w.folder, "nothing.so"), nvml="")
    assert done.status == 4 and done.fit() == [False]


def test_older_nvml(w):
    done = w.run("verify", "--nvml", os.path.join(world.FAKES, "libnvidia-ml-old.so"), nvml=HEALTHY_NVML)
    assert done.status == 0, done.stderr


def test_nvml_of_another_version(w):
    done = w.run("verify", nvml="gpus=1\ninit=18\n")
    assert done.status == 0, done.stderr
    assert done.report["driver"]["nvml"] is False


def test_lost_gpu_in_nvml(tmp_path):
    done = World(tmp_path, gpus=2).run("verify", devices=[{"count": 2}], nvml="gpus=2\n0.pci=0000:10:00.0\n1.pci=0000:11:00.0\n1.lost=1\n")
    assert done.status == 1
    assert (1, "GPU_MISSING") in done.codes()


def test_busy_gpu(w):
    """Somebody computes there: rates are not measured, and without a verdict it is not fit."""
    done = w.run("verify", nvml="gpus=1\nutilization_percent=93\nprocesses=1\n")
    assert done.check("bench.mem_read")["reason"] == "busy"
    assert done.status == 4 and done.fit() == [False]


def test_correctable_errors_warn(w):
    done = w.run("verify", nvml="gpus=1\necc_corrected=0,5\n")
    assert done.status == 0 and done.check("nvml.ecc")["status"] == "warn"
    done = w.run("verify", "--strict", nvml="gpus=1\necc_corrected=0,5\n")
    assert done.status == 1


# ---- the machine ----

def test_fatal_xid(w):
    w.kernel_log(XID)
    done = w.run("verify")
    assert done.status == 1 and (0, "XID") in done.codes()


def test_gpu_that_does_not_answer_on_the_bus(tmp_path):
    w = World(tmp_path, gpus=0)
    w.pci("0000:10:00.0", config=b"\xff" * 64)
    done = w.run("verify")
    assert done.status == 1
    assert done.check("host.pci")["status"] == "fail"


def test_debug_variables_warn(w):
    done = w.run("verify", env={"CUDA_LAUNCH_BLOCKING": "1"})
    assert done.check("env.variables")["status"] == "warn"
    assert done.status == 0


# ---- usage and bad input ----

@pytest.mark.parametrize("args, words", [
    (("--nonsense",), "--nonsense"),
    (("verify", "list"), "one command"),
    (("frobnicate",), "unknown command"),
    (("--expect-gpus", "many"), "whole number"),
    (("--memory", "0%"), "1% to 100%"),
    (("--memory", "lots"), "a size"),
    (("--timeout", "5"), "duration"),
    (("--thresholds", "nothing.json"), "nothing.json"),
    (("--gpu", "9"), "none such"),
    (("--gpu", "GPU-ffffffff"), "none such"),
    (("--time", "5s"), "stress"),
    (("--json=/nonexistent/x.json",), "/nonexistent/x.json"),
    (("--progress", "maybe"), "auto, always or never"),
])
def test_wrong_usage(w, args, words):
    done = w.run(*args, json_asked=False)
    assert done.status == 2, done.stderr
    assert words in done.stderr and done.stderr.startswith("gpuprobe: ")
    assert done.stdout == ""


@pytest.mark.parametrize("text, words", [
    ("{", "thresholds.json"),
    ('{"schema": "gpuprobe.thresholds/2"}', "gpuprobe.thresholds/1"),
    ('{"schema": "gpuprobe.thresholds/1", "check": {}}', "check"),
    ('{"schema": "gpuprobe.thresholds/1", "checks": {"bench.nothing": {}}}', "bench.mem_read"),
    ('{"schema": "gpuprobe.thresholds/1", "checks": {"bench.mem_read": {"warn_below": 1.5}}}', "from 0 to 1"),
    ('{"schema": "gpuprobe.thresholds/1", "checks": {"bench.mem_read": {"warn_below": 0.5, "fail_below": 0.6}}}', "less than"),
])
def test_unreadable_thresholds(w, text, words):
    with open(os.path.join(w.folder, "thresholds.json"), "w", encoding="ascii") as f:
        f.write(text)
    done = w.run("--thresholds", "thresholds.json", json_asked=False)
    assert done.status == 2 and words in done.stderr, done.stderr


def test_full_disk_is_no_pass(w):
    done = w.run("list", "--json=/dev/full", json_asked=False)
    assert done.status == 4 and "No space" in done.stderr


def test_closed_stdout_is_no_pass(w):
    with open("/dev/full", "wb") as full:
        done = w.run("list", json_asked=False, stdout=full)
    assert done.status == 4


def test_report_into_a_file(w):
    done = w.run("list", "--json=report.json", json_asked=False)
    assert done.status == 0
    with open(os.path.join(w.folder, "report.json"), encoding="utf-8") as f:
        assert json.load(f)["schema"] == "gpuprobe.report/1"
    assert not [n for n in os.listdir(w.folder) if n.endswith(".new")]


def test_two_at_once(w):
    results = []
    threads = [threading.Thread(target=lambda: results.append(w.run("verify").status)) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [0, 0]


def test_selection(tmp_path):
    w = World(tmp_path, gpus=3)
    done = w.run("list", "--gpu", "1", "--gpu", "0000:12:00.0", devices=[{"count": 3}])
    assert [g["index"] for g in done.report["gpus"]] == [1, 2]


def test_in_process(w):
    done = w.run("verify", "--in-process")
    assert done.status == 0, done.stderr
