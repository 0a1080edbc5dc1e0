# SPDX-License-Identifier: Apache-2.0
"""gate/selftest, gate/process/try, gate/process/take: does the profile hold a claim to its share? The processes are real, the driver's library and NVML are played."""
import contextlib

import os
import shutil
import subprocess
import time

import pytest
from quick_time import Time
from test_usage import FAKE, Nvml, usage
from world import GIB, GPUS, PROGRAM, alive, servers, until

LIBRARY = os.path.join(os.path.dirname(servers.PROGRAM), "test/gate/libcuda.so.1")
HAMI = {"CUDA_DEVICE_MEMORY_LIMIT": "{memory_mb}m", "CUDA_DEVICE_MEMORY_SHARED_CACHE": "{claim_dir}/region"}
MPS = {"CUDA_DEVICE_MEMORY_LIMIT": "{memory_mb}m"}
CONTEXT = 500 << 20
# Each server has an account of its own.
APART = {"user": "200000-200009"} if os.geteuid() == 0 else {}


@pytest.fixture(name="nvml")
def fixture_nvml(tmp_path, monkeypatch):
    one = Nvml(tmp_path / "nvml.txt")
    monkeypatch.setenv("GPUPROBE_FAKE_NVML", one.path)
    return one


def begin(make, env, *options, usage_spec=None, mode="up", more=None, gated=True, **api):  # pylint: disable=too-many-arguments
    """A gate whose servers would have that environment, on a GPUServer with spec.gate."""
    lib = "/run" if os.access("/run", os.W_OK) else "/tmp"
    lib = os.path.join(lib, f"gpugate-test-lib-{os.getpid()}-{time.monotonic_ns()}")
    os.mkdir(lib, 0o755)
    shutil.copy(LIBRARY, lib)
    try:
        world = make(mode, {"env": {**env, "LD_LIBRARY_PATH": lib}, **({"usage": usage_spec} if usage_spec else {}), **(more or {})},
                     options=options or ("--look", "0"), wrap=api.get("wrap", ()))
        world.library = lib
        for uid, gpu in api.get("claims", {}).items():
            world.api.claim(uid, gpus=((gpu, 8 * GIB),))
        if gated:
            world.api.gated()
        yield world
    finally:
        shutil.rmtree(lib)


def takers(world):
    """pids of the processes that have memory for the self-test of this gate."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as f, open(f"/proc/{pid}/cmdline", "rb") as words:
            if f"LD_LIBRARY_PATH={world.library}".encode() in f.read().split(b"\0") and words.read().split(b"\0")[1:2] == [b"take"]:
                found.append(int(pid))
    return found


with_world = contextlib.contextmanager(begin)


@pytest.mark.parametrize("env, shares, says", [
    (HAMI, "held", "the profile holds a claim to its share"),
    (MPS, "exceeded", "the profile does not hold a claim to its share"),
    ({}, "exceeded", "the profile does not hold a claim to its share"),
    ({**HAMI, "FAKE_CUDA_BYTES": str(5 * GIB)}, "unknown", "a second process does not get 30 % of the share: the GPU may be full"),
    ({**HAMI, "FAKE_CUDA_BYTES": str(GIB)}, "unknown", "a first process does not get 60 % of the share"),
    ({"CUDA_DEVICE_MEMORY_SHARED_CACHE": HAMI["CUDA_DEVICE_MEMORY_SHARED_CACHE"], "FAKE_CUDA_BYTES": str(7 * GIB)}, "unknown",
     "two processes do not get more with all of the GPU as their share: others may have the rest"),
    ({**HAMI, "FAKE_CUDA_INIT": "100"}, "unknown", "there is no context: CUDA says 100")],
    ids=["over-processes", "each-process", "none", "full", "too-full", "half-full", "no-driver"])
def test_what_holds_a_share(make, env, shares, says):
    """A limiter that counts over a claim's processes holds it; one that counts each does not; what proves nothing is unknown."""
    with with_world(make, env, "--look", "0", usage_spec={"context": "500Mi"}) as world:
        world.gate.until(lambda: says in world.gate.log(), "word of it")
        until(lambda: usage(world)["shares"] == shares, "page")
        assert world.metric(f'shares{{state="{shares}"}}') == 1
        until(lambda: world.left() == [], "tidying")
        assert not takers(world)


def test_under_mps(make):
    """Whoever may be a client of MPS ends by himself, and leaves nothing either."""
    with with_world(make, HAMI, "--look", "0", usage_spec={"context": "500Mi"}, more={"mps": {"control": "/bin/false"}}) as world:
        world.gate.until(lambda: "the profile holds a claim to its share" in world.gate.log(), "word of it")
        until(lambda: world.left() == [], "tidying")
        assert not takers(world)


def test_nobody_tries_without_a_word(make):
    """A GPUServer without spec.gate: nothing is started on its GPUs."""
    with with_world(make, HAMI) as world:
        other = make("up", {"env": {**HAMI, "LD_LIBRARY_PATH": world.library}})
        world.gate.until(lambda: "holds a claim to its share" in world.gate.log(), "word of it")
        assert "self-test" not in other.gate.log() and usage(other)["shares"] == "unknown"


def test_the_context_is_measured(make, nvml):
    """What NVML counts of an empty context is what each process is allowed beside its share; the self-test itself is no stranger."""
    with with_world(make, HAMI, "--look", "50ms", "--nvml", FAKE, usage_spec={"margin": 0}) as world:
        (pid,) = until(lambda: takers(world), "self-test")
        nvml.says({0: [(pid, CONTEXT)]})
        world.gate.until(lambda: "the profile holds a claim to its share" in world.gate.log(), "word of it")
        assert world.metric("context_bytes") == CONTEXT and f"context={CONTEXT}" in world.gate.log()
        assert world.metric("strangers") == 0 and "without a claim" not in world.gate.log()
        pod = world.holder()
        server = pod.env()["pid"]
        nvml.says({0: [(server, 8 * GIB + CONTEXT)]})
        until(lambda: [c["used"] for c in usage(world)["claims"]] == [8 * GIB + CONTEXT], "look")
        time.sleep(11 * servers.SLOW)
        assert world.metric("over_share_total") == 0
        nvml.says({0: [(server, 8 * GIB + CONTEXT + 1)]})
        until(lambda: world.metric("over_share_total") == 1, "word of more", 40 * servers.SLOW)


def test_a_free_gpu_is_waited_for(make):
    """Where every GPU has a claim nothing is tried, and that is said; and while one is tried, its first claim's server waits."""
    with with_world(make, HAMI, claims={f"11111111-0000-0000-0000-00000000000{i}": g for i, g in enumerate(GPUS)}) as world:
        world.gate.until(lambda: "no GPU is free of claims" in world.gate.log(), "word of it")
        assert usage(world)["shares"] == "unknown" and not takers(world)


def test_others_on_the_gpu(make, nvml):
    """Whoever else has memory there, and be it one of the accounts that are no strangers, may be who holds it."""
    with with_world(make, HAMI, "--look", "50ms", "--nvml", FAKE, usage_spec={"accounts": [str(os.geteuid())]}) as world:
        (pid,) = until(lambda: takers(world), "self-test")
        nvml.says({0: [(pid, CONTEXT), (os.getpid(), GIB)]})
        world.gate.until(lambda: "somebody else computes on the GPU" in world.gate.log(), "word of it")
        assert usage(world)["shares"] == "unknown" and world.metric("strangers") == 0


def test_a_server_that_ends_is_waited_for(make):
    """Its claim is gone, but what it has of the GPU is not yet given back."""
    claims = {f"11111111-0000-0000-0000-00000000000{i}": g for i, g in enumerate(GPUS) if i}
    with with_world(make, HAMI, mode="deaf", more={"grace": "1s", **APART}, gated=False, claims=claims) as world:
        pod = world.holder()
        assert pod.env()["pid"]
        world.api.release(pod.uid)
        world.gate.until(lambda: "a server is ended" in world.gate.log(), "its end")
        world.api.gated()
        world.gate.until(lambda: "the profile holds a claim to its share" in world.gate.log(), "word of it")
        assert world.gate.log().index("a server has ended") < world.gate.log().index("the self-test begins")


def test_others_of_the_same_account(make, nvml):
    """A tenant's process could say what ours is to say: with one account for all nothing is tried beside a server, and no word believed."""
    with with_world(make, HAMI, gated=False) as world:
        pod = world.holder(gpus=((GPUS[1], 8 * GIB),))
        assert pod.env()["pid"]
        world.api.gated()
        world.gate.until(lambda: "servers run, with the same account" in world.gate.log(), "word of it")
        assert usage(world)["shares"] == "unknown" and not takers(world)
    with with_world(make, HAMI, "--look", "50ms", "--nvml", FAKE) as world:
        (pid,) = until(lambda: takers(world), "self-test")
        pod = world.holder(gpus=((GPUS[1], 8 * GIB),))
        assert pod.env()["pid"]
        nvml.says({0: [(pid, CONTEXT)]})
        world.gate.until(lambda: "servers run, with the same account" in world.gate.log(), "word of it")
        assert usage(world)["shares"] == "unknown"


@pytest.mark.skipif(not APART, reason="only root has accounts to give")
def test_others_of_other_accounts(make):
    """Then a server is in nobody's way."""
    with with_world(make, HAMI, more=APART, gated=False) as world:
        pod = world.holder(gpus=((GPUS[1], 8 * GIB),))
        assert pod.env()["pid"]
        world.api.gated()
        world.gate.until(lambda: "the profile holds a claim to its share" in world.gate.log(), "word of it")


def test_a_driver_that_hangs(make):
    """The claim that comes meanwhile waits for the GPU; the gate's end ends the self-test, too."""
    with with_world(make, {**HAMI, "FAKE_CUDA_HANG": "1"}) as world:
        (pid,) = until(lambda: takers(world), "self-test")
        assert "gpu=" + GPUS[0] in world.gate.log()
        other = world.holder(gpus=((GPUS[1], 8 * GIB),))
        assert other.env()["pid"]
        first = world.holder(gpus=((GPUS[0], 8 * GIB),))
        with first.dial("env") as s:
            s.settimeout(1)
            with pytest.raises(TimeoutError):
                s.recv(1)
            world.gate.end()
        until(lambda: not alive(pid), "its end")


@pytest.mark.skipif(servers.SANITIZED, reason="two minutes, which nothing makes quicker there")
def test_a_driver_that_hangs_and_no_gpuserver(make, tmp_path):
    """Its time runs out all the same."""
    clock = Time(str(tmp_path / "time"))
    with with_world(make, {**HAMI, "FAKE_CUDA_HANG": "1"}, wrap=clock.wrap()) as world:
        (pid,) = until(lambda: takers(world), "self-test")
        with world.api.lock:
            world.api.there = False
            world.api.tell("DELETED")
        until(lambda: "has been deleted" in world.get("/readyz")[1], "word of it")
        clock.goes_on(125)
        world.gate.until(lambda: "it takes too long" in world.gate.log(), "end of its time")
        until(lambda: not alive(pid), "its end")


def test_what_they_are_for():
    """Who starts them by hand is told; a driver that is not there is said."""
    done = subprocess.run([PROGRAM, "try"], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2 and "for gpugate itself" in done.stderr
    done = subprocess.run([PROGRAM, "take"], stdout=subprocess.PIPE, text=True, check=False, env={"LD_LIBRARY_PATH": "/nonexistent"})
    assert done.returncode == 1 and done.stdout in ("error libcuda.so.1 cannot be loaded\n", "error there is no context: CUDA says 100\n")

