# SPDX-License-Identifier: Apache-2.0
"""An error that spoils a GPU's context gets one fresh process, since it may be somebody else's. What fails twice is the verdict; what
fails once is told. If this breaks, a neighbour's fault takes a GPU out of the pool, or a broken GPU gets in without a word."""
import signal

import pytest

from world import World


@pytest.fixture(name="w")
def fixture_w(tmp_path):
    return World(tmp_path)


def fault(call="cudaStreamSynchronize", error=719, **more):
    return {"call": call, "error": error, "sticky": True, "worker": True, **more}


@pytest.mark.parametrize("command, call, check, name", [
    ("verify", fault(kernel="gp_fma64"), "compute.exact_fp64", "KERNEL_FAULT"),
    ("verify", fault("cudaMalloc", 710, use=1), "compute.exact_fp32", "CUDA_ERROR"),
    ("verify", fault("cudaMemGetInfo", 999), "cuda.kernel_image", "INIT_FAILED"),
    ("verify", fault("cudaLibraryLoadData", 700), "cuda.kernel_image", "KERNEL_FAULT"),
    ("bench", fault("cudaMemcpyAsync", 718), "bench.launch", "KERNEL_FAULT"),
])
def test_once(w, command, call, check, name):
    """Fit, with a warning that names the first failure; --strict makes it one."""
    done = w.run(command, calls=[{**call, "process": 1}], nvml="gpus=1\n")
    assert done.status == 0 and done.codes() == [(0, "RETRIED")], done.stderr
    result = done.check(check)
    assert (result["status"], result["code"], result["cuda"]) == ("warn", "RETRIED", call["error"])
    assert name in result["message"] and "RETRIED" in done.stderr and name in done.stderr
    assert done.fit() == [True] and done.report["gpus"][0]["health"] == "warn" and done.report["errors"] == []
    done = w.run(command, "--strict", calls=[{**call, "process": 1}], nvml="gpus=1\n")
    assert done.status == 1 and done.fit() == [False]


@pytest.mark.parametrize("call, code", [
    (fault(kernel="gp_fma64"), "KERNEL_FAULT"),
    (fault("cudaMemGetInfo", 719), "KERNEL_FAULT"),
])
def test_twice(w, call, code):
    done = w.run("verify", calls=[call])
    assert done.status == 1 and (0, code) in done.codes() and done.fit() == [False]
    assert "in two processes one after the other" in " ".join(done.stderr.split())
    assert [e["code"] for e in done.report["errors"]] in ([], [code]), "it is told once"


def test_another_failure_is_the_verdict(w):
    """The second process finds something else: both are told."""
    done = w.run("verify", calls=[fault(kernel="gp_fma64", process=1)], devices=[{"wrong": {"kernel": "gp_mma16"}}])
    assert done.status == 1
    assert {(0, "RETRIED"), (0, "COMPUTE_ERRORS")} <= set(done.codes())


def test_the_second_dies(w):
    """What the first found stands."""
    dies = {"call": "cudaLibraryLoadData", "worker": True, "process": 2, "signal": int(signal.SIGKILL)}
    done = w.run("verify", calls=[fault(kernel="gp_fma64", process=1), dies])
    assert done.status == 1 and {(0, "KERNEL_FAULT"), (0, "WORKER_DIED")} <= set(done.codes())


def test_the_second_hangs(w):
    """It is held to the run's limit, and leaves the first word as it was."""
    hangs = {"call": "cudaLibraryLoadData", "worker": True, "process": 2, "hang": True}
    done = w.run("verify", "--timeout", "2s", calls=[fault(kernel="gp_fma64", process=1), hangs])
    assert done.status == 1 and {(0, "KERNEL_FAULT"), (None, "TIMED_OUT")} <= set(done.codes())


def test_one_of_two(tmp_path):
    """The other GPU waits for nobody, and NVML is looked at until the second process has ended."""
    done = World(tmp_path, gpus=2).run("verify", devices=[{"count": 2}], calls=[fault(kernel="gp_fma64", device=1, process=1)],
                                       nvml="gpus=2\n")
    assert done.status == 0 and done.codes() == [(1, "RETRIED")] and done.check("nvml.throttle", 1)["status"] == "pass"


@pytest.mark.parametrize("call, code", [
    (fault(error=214, kernel="gp_check"), "ECC_UNCORRECTABLE"),
    (fault(error=220, kernel="gp_check"), "NVLINK_ERROR"),
    (fault(error=226, kernel="gp_check"), "CONTAINED_ERROR"),
    (fault(error=702, kernel="gp_check"), "HANG"),
])
def test_evidence_is_never_tried_away(w, call, code):
    """What only the hardware can cause is the verdict at once."""
    done = w.run("verify", calls=[{**call, "process": 1}])
    assert done.status == 1 and (0, code) in done.codes() and (0, "RETRIED") not in done.codes()


def test_wrong_data_are_never_tried_away(w):
    """A first process that found wrong arithmetic and then lost its context gets no second chance."""
    done = w.run("verify", devices=[{"wrong": {"kernel": "gp_fma32", "times": 1}}], calls=[fault(kernel="gp_fma64", process=1)])
    assert done.status == 1 and {(0, "COMPUTE_ERRORS"), (0, "KERNEL_FAULT")} <= set(done.codes())


def test_a_fault_under_load_is_one(w):
    done = w.run("stress", "--time", "1s", "--memory", "10%", calls=[fault(kernel="gp_fma64", process=1)])
    assert done.status == 1 and (0, "KERNEL_FAULT") in done.codes()


def test_one_process_has_no_second(w):
    """With --in-process there is no fresh context to be had."""
    done = w.run("verify", "--in-process", calls=[{**fault(kernel="gp_fma64", process=1), "worker": False}])
    assert done.status == 1 and (0, "KERNEL_FAULT") in done.codes()
