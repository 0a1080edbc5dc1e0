# SPDX-License-Identifier: Apache-2.0
"""probe/main, probe/run*, probe/show/output: what gpuprobe says of servers in every state: exit status, JSON (held to its schema in every run) and text. test_checks.py has a
scenario for each check that makes it fail."""
import concurrent.futures
import json
import os
import re
import signal
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
    ("NO_DEVICE", {"devices": []}, "shows no gpu"),
])
def test_cuda_cannot_be_used(w, code, scenario, words):
    done = w.run("verify", **scenario)
    assert done.status == 3 and done.report["verdict"] == "no_cuda"
    assert (None, code) in done.codes()
    assert code in done.stderr and words in done.stderr.lower(), done.stderr
    assert "CUDA cannot be used here" in done.stderr
    assert done.fit() == [False], "the GPU that PCI shows"
    assert done.check("env.driver")["code"] == code


def test_runtime_without_calls(w):
    """A remote-GPU client's runtime may have two calls only: nothing is taken for a pass."""
    done = w.run("verify", cudart=os.path.join(world.FAKES, "libcudart-old.so"))
    assert done.status == 3
    assert (None, "RUNTIME_INCOMPLETE") in done.codes()


def test_no_such_runtime(w):
    done = w.run("verify", cudart=os.path.join(w.folder, "nothing.so"))
    assert done.status == 3 and "nothing.so" in done.stderr
    assert [c for g, c in done.codes() if g is None] == ["NO_RUNTIME"], "and no word of a worker that died"


def test_shared_memory_is_counted_once(w):
    done = w.run("verify", devices=[{"memory_mib": 2048, "sms": 3}])
    result = done.check("mem.shared")
    assert (result["sms_visited"], result["bytes_tested"]) == (3, 3 * 32768), "blocks of one multiprocessor share its memory"


@pytest.mark.parametrize("call, error", [("cudaMemGetInfo", 999), ("cudaMalloc", 710), ("cudaStreamCreate", 710)])
def test_the_table_names_the_call_that_failed(w, call, error):
    done = w.run("verify", calls=[{"call": call, "error": error, "sticky": True, "worker": True}])
    assert done.status == 4
    row = done.stderr.splitlines()[1]
    assert row.endswith("CUDA_ERROR " + call + ": " + str(error)) or error == 999, done.stderr
    assert call + ": " + str(error) in " ".join(done.stderr.split())


# ---- healthy ----

def test_eight_healthy(tmp_path):
    w = World(tmp_path, gpus=8)
    done = w.run("verify", "--expect-gpus", "8", "--expect-name", "NVIDIA H*", "--min-memory", "2Gi", devices=[{"count": 8}],
                 nvml="gpus=8\n")
    assert done.status == 0, done.stderr
    assert done.report["verdict"] == "pass" and done.report["errors"] == []
    skipped = {c["id"]: c["reason"] for g in done.report["gpus"] for c in g["checks"] if c["status"] != "pass"}
    assert skipped == {"host.xid": "not_told"}, "on a healthy server everything else is checked"
    assert done.fit() == [True] * 8
    assert done.report["counts"] == {"expected": 8, "pci": 8, "nvml": 8, "cuda": 8}
    assert done.check("mem.pattern", 7)["errors"] == 0
    assert "8 of 8 GPUs fit" in done.stderr


def test_list_needs_no_context(w):
    done = w.run("list", calls=[{"call": "cudaMemGetInfo", "error": 2}])
    assert done.status == 0 and done.fit() == [True]
    assert done.report["gpus"][0]["name"] == "NVIDIA H200"
    assert done.report["gpus"][0]["memory_total_bytes"] == 2048 << 20, "what its properties say"
    assert w.run("list", "--free").report["gpus"][0]["memory_total_bytes"] == 2048 << 20


def test_text_for_people(w):
    done = w.run("verify", json_asked=False)
    assert done.status == 0
    assert re.search(r"^ +0 +NVIDIA H200 +0000:10:00.0 .* ok$", done.stdout, re.M), done.stdout
    assert re.search(r"^1 of 1 GPUs? fit", done.stdout, re.M)


def test_nagios(w):
    done = w.run("verify", "--nagios", json_asked=False)
    assert done.status == 0 and done.stdout.startswith("GPUPROBE OK")
    done = w.run("verify", "--nagios", json_asked=False, devices=[{"free_mib": 1500}])
    assert done.status == 1 and done.stdout.startswith("GPUPROBE WARNING")
    done = w.run("verify", "--nagios", json_asked=False, devices=[{"wrong": {}}])
    assert done.status == 2 and done.stdout.startswith("GPUPROBE CRITICAL")
    done = w.run("verify", "--nagios", json_asked=False, driver=0)
    assert done.status == 2 and done.stdout.startswith("GPUPROBE CRITICAL") and "NO_DRIVER" in done.stdout
    done = w.run("verify", "--nagios", json_asked=False, devices=[{"allocatable_mib": 400}])
    assert done.status == 3 and done.stdout.startswith("GPUPROBE UNKNOWN")
    assert done.stdout.count("\n") == 1


def test_remote(tmp_path):
    """A wrapped pod: the GPU's PCI id is none of this machine's."""
    done = World(tmp_path, local=False).run("verify")
    assert done.status == 0, done.stderr
    assert done.report["host"]["location"] == "remote"
    assert done.check("nvml.ecc") is None, "NVML of this machine says nothing of it"
    assert done.check("bench.mem_read")["status"] == "pass" and done.check("bench.mem_read")["expected"] is None
    assert done.check("remote.rtt")["status"] == "pass"
    assert 20 <= done.check("mem.pattern")["coverage_percent"] <= 26
    assert done.check("remote.bandwidth")["value"] > 1e9


def test_remote_finds_what_local_finds(tmp_path):
    w = World(tmp_path, local=False)
    assert w.run("verify", devices=[{"wrong": {}}]).status == 1
    assert w.run("verify", devices=[{"flips": [{"offset": 1 << 20, "bit": 1, "kind": "stuck0"}]}]).status == 1


def test_bench_and_reference(w):
    """A reference judges more strictly than the clocks: what was reached once is reached again."""
    done = w.run("bench", "--save-reference", "good.json", nvml=HEALTHY_NVML)
    assert done.status == 0, done.stderr
    with open(os.path.join(w.folder, "good.json"), encoding="ascii") as f:
        rates = json.load(f)["references"][0]["rates"]
    assert rates["bench.mem_read"] > 1e12 and rates["bench.h2d"] > 1e9 and "cap.free_memory" not in rates
    done = w.run("bench", "--thresholds", "good.json", nvml=HEALTHY_NVML)
    assert done.status == 0, done.stderr
    done = w.run("bench", "--thresholds", "good.json", devices=[{"speed": {"read": 0.8, "d2h": 0.9}}], nvml=HEALTHY_NVML)
    assert done.status == 1
    for check, status in (("bench.mem_read", "fail"), ("bench.d2h", "warn"), ("bench.h2d", "pass")):
        assert (done.check(check)["basis"], done.check(check)["status"]) == ("reference", status)


def test_no_reference_of_what_is_not_fit(w):
    done = w.run("bench", "--save-reference", "bad.json", devices=[{"speed": {"read": 0.5}}])
    assert done.status == 1 and "bad.json" not in os.listdir(w.folder)


def test_stress_goes_on(w):
    """It tells how far it is at the beginning of each check behind the first round, which takes a second and a half of a machine that is busy."""
    done = w.run("stress", "--time", "4s", "--memory", "25%", "--progress", "always", nvml=HEALTHY_NVML)
    assert done.status == 0, done.stderr
    assert done.report["duration_s"] >= 4
    assert re.search(r"^ *\d+ %", done.stderr, re.M)


def test_stress_finds_what_comes_late(w):
    """The first round is clean; and a later round that cannot run does not hide what was found."""
    late = {"call": "cudaMalloc", "use": 400, "worker": True, "error": 2}
    done = w.run("stress", "--time", "2s", "--memory", "10%", devices=[{"wrong": {"kernel": "gp_fma64", "times": 1}}], calls=[late])
    assert done.status == 1
    assert done.check("compute.exact_fp64")["status"] == "fail"


def test_stress_of_too_little_memory_has_no_verdict(w):
    done = w.run("stress", "--time", "1s", devices=[{"allocatable_mib": 1200}])
    assert done.status == 4 and done.check("mem.pattern")["code"] == "COVERAGE"


def test_mig(w):
    instance = {"name": "NVIDIA H200 MIG 1g.18gb", "uuid": "MIG-11111111-2222-3333-4444-555555555555"}
    done = w.run("verify", devices=[instance])
    assert done.status == 0, done.stderr
    assert done.report["gpus"][0]["mig"] is True
    assert done.check("bench.mem_read")["expected"] is None, "the card's clocks say nothing of a slice"


def test_mig_hides_other_gpus(tmp_path):
    """CUDA shows one instance alone: the server's other GPUs are not missing, and not fit either."""
    instance = {"name": "NVIDIA H200 MIG 1g.18gb", "uuid": "MIG-11111111-2222-3333-4444-555555555555"}
    done = World(tmp_path, gpus=2).run("verify", devices=[instance])
    assert done.status == 4 and done.fit() == [True, False]
    assert (1, "NOT_RUN") in done.codes() and (1, "GPU_MISSING") not in done.codes()


# ---- counts, names, sizes ----

def test_seven_of_eight(tmp_path):
    """One has fallen off the bus: PCI shows it, CUDA does not."""
    done = World(tmp_path, gpus=8).run("verify", devices=[{"count": 7}])
    assert done.status == 1
    assert (7, "GPU_MISSING") in done.codes()
    assert done.fit() == [True] * 7 + [False]
    assert "7 of 8 GPUs fit" in done.stderr and re.search(r"^ +7 +- +0000:17:00.0.*FAIL +GPU_MISSING", done.stderr, re.M)


def test_hidden_on_purpose(tmp_path):
    w = World(tmp_path, gpus=3)
    done = w.run("list", devices=[{"count": 3}], env={"CUDA_VISIBLE_DEVICES": "1"})
    assert done.status == 0 and [g["pci"] for g in done.report["gpus"]] == ["0000:11:00.0"]
    done = w.run("list", devices=[{}], env={"NVIDIA_VISIBLE_DEVICES": "GPU-00000000-0000-0000-0000-000000000001"})
    assert done.status == 0 and len(done.report["gpus"]) == 1, "a container that was given one of three"


def test_nvml_knows_one_more(tmp_path):
    """In a container without sysfs NVML is the one that counts."""
    done = World(tmp_path, gpus=1).run("list", nvml="gpus=2\n")
    assert done.status == 1 and (1, "GPU_MISSING") in done.codes()


@pytest.mark.parametrize("args, code", [
    (("--expect-gpus", "2"), "GPU_MISSING"),
    (("--expect-name", "NVIDIA A*"), "NAME_MISMATCH"),
    (("--min-memory", "3Gi"), "MEMORY_TOO_SMALL"),
])
@pytest.mark.parametrize("command", ["list", "verify"])
def test_not_what_was_expected(w, command, args, code):
    done = w.run(command, *args)
    assert done.status == 1 and code in [c for _, c in done.codes()]
    assert code in done.stderr and done.fit() == [False]


# ---- memory ----

def test_all_of_it_may_be_free(w):
    done = w.run("verify", "--memory", "8Mi", devices=[{"memory_mib": 4096, "free_mib": 4096}])
    assert done.status == 0 and done.check("cap.free_memory")["status"] == "pass"


@pytest.mark.parametrize("kind", ["once", "transient", "stuck0", "stuck1"])
def test_a_flipped_bit(w, kind):
    offset = 800 << 20  # behind what the rates are measured on
    done = w.run("verify", devices=[{"flips": [{"offset": offset, "bit": 77, "kind": kind}]}])
    assert done.status == 1
    result = done.check("mem.pattern")
    # a bit that is stuck is wrong under about half of the backgrounds
    assert len(result["memory_errors"]) == result["errors"] == result["bits_0_to_1"] + result["bits_1_to_0"]
    assert result["errors"] > 3 if kind.startswith("stuck") else result["errors"] == 1
    for record in result["memory_errors"]:
        assert record["offset"] == offset
        again = record["expected"] if kind == "transient" else record["got"]
        assert record["got"] != record["expected"] and record["again"] == again
    assert result["pages"] == 1


def test_a_bit_above_4_gib(w):
    """Index arithmetic past 2^32."""
    done = w.run("verify", devices=[{"memory_mib": 12288, "flips": [{"offset": 9 * 10 ** 9, "bit": 3, "kind": "stuck0"}]}])
    assert done.status == 1
    assert done.check("mem.pattern")["memory_errors"][0]["offset"] == 9 * 10 ** 9 // 16 * 16


def test_ecc_error_in_the_middle(w):
    done = w.run("verify", calls=[{"call": "cudaStreamSynchronize", "kernel": "gp_check", "error": 214, "sticky": True}])
    assert done.status == 1
    assert (0, "ECC_UNCORRECTABLE") in done.codes()


# ---- arithmetic ----

def test_the_wrong_multiprocessor_is_named(w):
    done = w.run("verify", devices=[{"sms": 4, "wrong": {"sm": 2, "kernel": "gp_fma32"}}])
    assert done.status == 1
    result = done.check("compute.exact_fp32")
    assert {e["sm"] for e in result["compute_errors"]} == {2} and result["same_sm"] is True
    assert {e["lane"] % 256 for e in result["compute_errors"]} == {5}
    assert done.check("compute.exact_fp64")["status"] == "pass"


def test_wrong_once(w):
    """A repeat classifies an error, it does not take it back."""
    done = w.run("verify", devices=[{"sms": 2, "wrong": {"sm": 1, "kernel": "gp_mma16", "lane": 1, "times": 1}}])
    assert done.status == 1
    assert {e["repeats"] for e in done.check("compute.exact_tensor")["compute_errors"]} == {1}


def test_wrong_everywhere_agrees_with_itself(w):
    """Each run gives the same wrong result: the CPU says so."""
    done = w.run("verify", devices=[{"sms": 1, "wrong": {"kernel": "gp_fma32", "lane": -1}}])
    assert done.status == 1 and done.check("compute.exact_fp32")["code"] == "COMPUTE_ERRORS"


def test_before_tensor_cores(w):
    done = w.run("verify", devices=[{"cc": "6.1", "name": "Tesla P40"}])
    assert done.status == 0, done.stderr
    assert done.check("compute.exact_tensor")["reason"] == "not_on_this_gpu"


# ---- speed ----

def test_slow_against_its_peers(tmp_path):
    w = World(tmp_path, gpus=4)
    unknown = {"memory_clock_mhz": 0}
    done = w.run("verify", devices=[{"count": 3, **unknown}, {**unknown, "speed": {"read": 0.5}}])
    assert done.status == 1 and done.check("bench.mem_read", 3)["basis"] == "peers"
    assert (3, "SLOWER_THAN_PEERS") in done.codes()
    assert done.fit() == [True] * 3 + [False]


def test_free_memory_is_no_speed(tmp_path):
    """One GPU has less of it than its peers: that is a warning of its own, and no more."""
    done = World(tmp_path, gpus=2).run("verify", devices=[{}, {"free_mib": 1500}])
    assert done.status == 0 and done.check("cap.free_memory", 1)["code"] == "LOW_FREE_MEMORY"


def test_memory_that_is_being_cleared_is_no_slow_gpu(w):
    """The driver clears what a process has freed, after it was freed, and what is measured meanwhile is slow."""
    done = w.run("verify", devices=[{"name": "NVIDIA H100 80GB HBM3", "memory_mib": 81079, "clears_gib": 400}], nvml="gpus=1\n")
    assert done.status == 0 and done.codes() == [], done.stderr
    done = w.run("stress", "--time", "1s", devices=[{"memory_mib": 81079, "clears_gib": 400}], nvml="gpus=1\n")
    assert done.status == 0 and done.codes() == [], done.stderr


def test_one_slow_measurement_is_no_proof(w):
    """Of a rate the best of three counts; of a time that is no number one is enough."""
    done = w.run("verify", devices=[{"nan_time": "gp_copy"}])
    assert done.status == 1 and done.check("bench.mem_copy")["code"] == "NOT_A_NUMBER"
    assert done.check("bench.mem_copy")["value"] is None


# ---- hangs and deaths ----

@pytest.fixture(name="hung", scope="module", autouse=True)
def fixture_hung(tmp_path_factory):
    """Hangs cost their deadlines, which are long: they begin with the first test and are looked at by the last ones."""
    calls = {"gpu": [{"call": "cudaMemGetInfo", "device": 1, "worker": True, "hang": True}],
             "kernel": [{"call": "cudaStreamSynchronize", "kernel": "gp_fill", "worker": True, "hang": True}],
             "count": [{"call": "cudaGetDeviceCount", "hang": True}]}
    servers = {name: World(tmp_path_factory.mktemp("hung"), gpus=2) for name in calls}
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(calls)) as pool:
        runs = {name: pool.submit(w.run, "verify", "--timeout", "90s", devices=[{"count": 2}], calls=calls[name])
                for name, w in servers.items()}
        yield lambda name: runs[name].result()


@pytest.mark.parametrize("death", [{"signal": 9}, {"exit": 7}])
def test_a_worker_dies(w, death):
    done = w.run("verify", calls=[{"call": "cudaMalloc", "worker": True, **death}])
    assert done.status == 4, "somebody may have killed it: that says nothing of the GPU"
    assert (0, "WORKER_DIED") in done.codes()
    assert ("signal 9" if "signal" in death else "status 7") in done.stderr
    assert done.fit() == [False]


def test_exclusive_mode_in_use(w):
    done = w.run("verify", calls=[{"call": "cudaMemGetInfo", "worker": True, "error": 46}])
    assert done.status == 4 and done.fit() == [False]
    assert (0, "DEVICE_BUSY") in done.codes()


def started(process):
    """Wait until its worker for a GPU runs."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as f:
            for pid in f.read().split():
                try:
                    with open(f"/proc/{pid}/cmdline", encoding="utf-8") as line:
                        if '"task":0' in line.read():
                            return
                except OSError:
                    pass
        time.sleep(0.02)
    raise AssertionError("no worker")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_gives_a_partial_report(w, number):
    process = w.start("verify", calls=[{"call": "cudaLaunchKernel", "kernel": "gp_fma64", "worker": True, "sleep_s": 30}])
    started(process)
    began = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    done = world.Done(process.returncode, out.decode(), err.decode(), time.monotonic() - began, True)
    assert done.status == 4 and done.report["complete"] is False and done.report["verdict"] == "inconclusive"
    assert (None, "INTERRUPTED") in done.codes() and done.fit() == [False]
    assert "ended early" in done.stderr
    assert done.seconds < 8, "it should stop within two seconds, and this machine may be slow"


def test_timeout(w):
    done = w.run("verify", "--timeout", "1s", calls=[{"call": "cudaMemGetInfo", "worker": True, "sleep_s": 30}])
    assert done.status == 4 and done.report["complete"] is False
    assert (None, "TIMED_OUT") in done.codes() and "TIMED_OUT" in done.stderr
    assert done.seconds < 8


def test_timeout_is_of_the_whole_run(w):
    """Also where looking around took all of it."""
    done = w.run("verify", "--timeout", "1s", calls=[{"call": "cudaGetDeviceCount", "sleep_s": 30}])
    assert done.status == 4 and (None, "TIMED_OUT") in done.codes()
    assert done.seconds < 8


def test_timeout_in_process(w):
    done = w.run("verify", "--in-process", "--timeout", "1s", calls=[{"call": "cudaLaunchKernel", "worker": False, "sleep_s": 0.4}])
    assert done.status == 4 and (None, "TIMED_OUT") in done.codes()


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
    done = World(tmp_path, gpus=2).run("verify", devices=[{"count": 2}], nvml="gpus=2\n1.lost=1\n")
    assert done.status == 1
    assert (1, "GPU_MISSING") in done.codes()


def test_busy_gpu(w):
    """Somebody computes there: rates are not measured, and without a verdict it is not fit."""
    done = w.run("verify", nvml="gpus=1\nutilization_percent=93\nprocesses=1\n")
    assert done.check("bench.mem_read")["reason"] == "busy"
    assert done.check("mem.pattern")["status"] == "pass"
    assert done.status == 4 and done.fit() == [False]


def test_somebody_comes_meanwhile(w):
    """Two that look at the same time find nobody before, and each other under load: what is slow then is no fault of the GPU."""
    done = w.run("verify", devices=[{"speed": {"read": 0.5, "copy": 0.5, "h2d": 0.5}}], nvml="gpus=1\nprocesses=0,2\n")
    assert done.check("bench.mem_read")["reason"] == done.check("bench.h2d")["reason"] == "busy"
    assert done.status == 4 and done.fit() == [False]
    assert w.run("verify", nvml="gpus=1\nprocesses=0,2\n").status == 0
    done = w.run("verify", devices=[{"speed": {"read": 0.5}}], nvml="gpus=1\nprocesses=0,1\n")
    assert done.status == 1 and done.check("bench.mem_read")["code"] == "SLOW"


def test_what_ran_a_moment_ago(w):
    """Utilization is that of the last second: without a process it is looked at again."""
    assert w.run("verify", nvml="gpus=1\nutilization_percent=93,0\n").status == 0
    done = w.run("verify", nvml="gpus=1\nutilization_percent=93\n")
    assert done.status == 4 and done.check("bench.mem_read")["reason"] == "busy"


def test_strict(w):
    done = w.run("list", "--strict", nvml="gpus=1\npersistence=0\n")
    assert done.status == 1 and done.fit() == [False]


def test_nvml_that_dies_or_lies_costs_nothing_else(w):
    """Its checks have no result; the GPU's own stand."""
    done = w.run("verify", nvml="gpus=1\ncall.nvmlDeviceGetTotalEccErrors=999\ncall.nvmlDeviceGetRemappedRows=999\n")
    assert done.status == 0 and done.check("nvml.ecc")["reason"] == "not_told"
    done = w.run("verify", "--require-nvml", nvml="gpus=1\ncall.nvmlDeviceGetTotalEccErrors=999\n")
    assert done.status == 4 and done.fit() == [False]


def test_in_process_looks_at_nvml_twice(w):
    done = w.run("verify", "--in-process", nvml="gpus=1\n")
    assert done.status == 0 and done.check("nvml.ecc")["status"] == "pass"


# ---- usage and bad input ----

@pytest.mark.parametrize("args, words", [
    (("--nonsense",), "--nonsense"),
    (("verify", "list"), "one command"),
    (("frobnicate",), "unknown command"),
    (("--expect-gpus", "many"), "whole number"),
    (("--expect-gpus", "0"), "whole number"),
    (("--seed", "0"), "whole number"),
    (("--expect-name", ""), "a text"),
    (("-xy",), "-x"),
    (("--strict=1",), "--strict"),
    (("list", "--memory", "25%"), "verify and stress"),
    (("--no-nvml", "--require-nvml"), "exclude"),
    (("--json", "--nagios"), "exclude"),
    (("--memory", "0%"), "1% to 100%"),
    (("--memory", "lots"), "a size"),
    (("--timeout", "5"), "duration"),
    (("--thresholds", "nothing.json"), "nothing.json"),
    (("--thresholds", "/"), "/: Is a directory"),
    (("bench", "--save-reference", "/nonexistent/x"), "/nonexistent/x"),
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
    ('{"schema": "gpuprobe.thresholds/1", "fatal_xids": 79}', "fatal_xids: found 79, expected an array of XIDs"),
    ('{"schema": "gpuprobe.thresholds/1", "fatal_xids": [79, "48"]}', "from 1 to 99999"),
])
def test_unreadable_thresholds(w, text, words):
    with open(os.path.join(w.folder, "thresholds.json"), "w", encoding="ascii") as f:
        f.write(text)
    done = w.run("--thresholds", "thresholds.json", json_asked=False)
    assert done.status == 2 and words in done.stderr, done.stderr


def test_help_and_version(w):
    for word, expected in (("--help", "--expect-gpus"), ("-h", "verify"), ("--version", "kernels: none")):
        done = w.run(word, json_asked=False)
        assert done.status == 0 and expected in done.stdout and done.stderr == ""
        assert max(map(len, done.stdout.splitlines())) <= 100


def test_full_disk_is_no_pass(w):
    done = w.run("list", "--json=/dev/full", json_asked=False)
    assert done.status == 4 and "No space" in done.stderr


def test_closed_stdout_is_no_pass(w):
    with open("/dev/full", "wb") as full:
        done = w.run("list", json_asked=False, stdout=full)
    assert done.status == 4 and "No space" in done.stderr
    done = w.run("list", json_asked=False, shell='"$@" >&-')
    assert done.status == 4 and "standard output" in done.stderr
    done = w.run("list", json_asked=False, shell='"$@" <&- 2>&-')
    assert done.status == 0 and "1 of 1 GPU fit" in done.stdout
    done = w.run("list", json_asked=False, shell='"$@" | true; exit "${PIPESTATUS[0]}"')
    assert done.status in (0, 4), "the reader may be gone, which kills nobody"


def test_report_into_a_file(w):
    done = w.run("list", "--json=report.json", json_asked=False)
    assert done.status == 0 and done.stdout == ""
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
    done = w.run("list", "--gpu", "1", "--gpu", "00000000:12:00.0", devices=[{"count": 3}])
    assert [g["index"] for g in done.report["gpus"]] == [1, 2]
    done = w.run("list", "--gpu", "GPU-00000000-0000-0000-0000-000000000003", devices=[{"count": 3}])
    assert [g["index"] for g in done.report["gpus"]] == [2]
    done = w.run("verify", "--gpu", "0", devices=[{}, {"wrong": {}}])
    assert done.status == 0, "others are not asked about, be they broken or missing"


def test_ends_leave_no_process(w):
    """Killed or done, nobody is left behind."""
    w.run("verify", "--timeout", "1s", calls=[{"call": "cudaMemGetInfo", "worker": True, "sleep_s": 97}])
    end = time.monotonic() + 10
    while left := [p for p in os.listdir("/proc") if p.isdigit() and w.folder in environment(p)]:
        assert time.monotonic() < end, left
        time.sleep(0.05)


def environment(pid):
    try:
        with open(f"/proc/{pid}/environ", encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def test_in_process(w):
    done = w.run("verify", "--in-process")
    assert done.status == 0, done.stderr


# ---- the hangs that began with the first test ----

def test_a_hang_costs_its_deadline(hung):
    """One of two GPUs hangs; the other's verdict stands."""
    done = hung("gpu")
    assert done.status == 1 and done.report["complete"] is True
    assert (1, "HANG") in done.codes() and "HANG" in done.stderr
    assert done.fit() == [True, False]
    assert done.seconds < 80


def test_a_kernel_that_hangs(hung):
    done = hung("kernel")
    assert done.status == 1 and done.fit() == [False, False]
    assert "bench.mem_read" in [e["message"].split()[-1] for e in done.report["errors"]]


def test_a_runtime_that_hangs(hung):
    done = hung("count")
    assert done.status == 1 and (None, "HANG") in done.codes() and not any(done.fit())
