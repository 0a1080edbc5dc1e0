# SPDX-License-Identifier: Apache-2.0
"""A day on one GPU that gpuprobe verifies, that MPS holds for its clients, and that gpugate guards and tries: none of them takes another for a
stranger, or for somebody who computes. The programs are real, GPU, driver and MPS are played, and time goes on quicker."""
import contextlib
import datetime
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
import uuid

import pytest
from quick_time import Time
from test_usage import usage
from world import GIB, GPUS, servers, until

BUILD = os.path.dirname(servers.PROGRAM)
PROGRAMS = ["gpuprobe-fake", "gpuprobe-serve", "test/faults/clock.so", "test/probe/libcudart-fake.so", "test/probe/libnvidia-ml-fake.so", "test/gate/libcuda.so.1"]
HOUR, STEP = 3600, 60
# Its own account has no name in the profile where tests are not root.
ROOT = os.geteuid() == 0
PROBE_USER, MPS_USER = ("bin", "daemon") if ROOT else (str(os.geteuid()),) * 2

spec = importlib.util.spec_from_file_location("probe_world", os.path.join(servers.ROOT, "test/probe/world.py"))
sys.modules["probe_world"] = probe_world = importlib.util.module_from_spec(spec)
spec.loader.exec_module(probe_world)


class Day:
    """The GPU, and who is there. Time stands still but for what passes by itself, and for step()."""

    def __init__(self, folder):
        self.folder, self.tasks, self.seen = folder, 0, 0
        for path in PROGRAMS:
            shutil.copy(os.path.join(BUILD, path), folder)
        # The kernel keeps 15 letters of a name, of the real one's, too.
        shutil.copy("/bin/sleep", self.at("nvidia-cuda-mps-server"))
        os.mkdir(self.at("present"))
        os.chmod(self.at("present"), 0o1777)
        self.time = Time(self.at("time"), self.at("clock.so"))
        self.mps = subprocess.Popen([*self.account(MPS_USER), self.at("nvidia-cuda-mps-server"), "600"])
        self.computes(None)
        self.probe = self.begin_probe()

    def at(self, name):
        return os.path.join(self.folder, name)

    @staticmethod
    def account(name):
        return ["setpriv", "--reuid", name, "--clear-groups"] if ROOT else []

    def env(self):
        return {**self.time.env(), "GPUPROBE_FAKE_NVML": self.at("nvml"), "FAKE_GPU": self.at("present")}

    def computes(self, client):
        """MPS holds the GPU, for this client or for none."""
        with open(self.at("nvml.new"), "w", encoding="ascii") as f:
            f.write(f"gpus=1\n0.uuid={GPUS[0]}\n0.list={self.mps.pid}:{69 << 20}\n0.folder={self.at('present')}\n"
                    + (f"0.mps={client}:{4 * GIB}\n" if client else ""))
        os.rename(self.at("nvml.new"), self.at("nvml"))

    def begin_probe(self):
        host = probe_world.World(self.folder)
        with open(self.at("scenario"), "w", encoding="ascii") as f:
            json.dump({"devices": [{**probe_world.SMALL, "uuid": GPUS[0]}]}, f)
        with open(self.at("probe.log"), "wb") as log:
            return subprocess.Popen(
                [*self.account(PROBE_USER), self.at("gpuprobe-serve"), "--listen", "127.0.0.1:0", "--server", "gpu-01", "--seed", "7", "--cudart",
                 self.at("libcudart-fake.so"), "--nvml", self.at("libnvidia-ml-fake.so"), "--look-every", "10m", "--list-every", "1h",
                 "--stale-after", "30m"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                env={**host.env, **self.env(), "GPUPROBE": self.at("gpuprobe-fake"), "GPUPROBE_FAKE": self.at("scenario")})

    def probe_log(self):
        with open(self.at("probe.log"), encoding="utf-8") as f:
            return f.read()

    def inventory(self):
        port = re.search(r" serving .* port=(\d+)$", self.probe_log(), re.M)[1]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/inventory", timeout=20) as answer:
            return json.load(answer)

    def probe_rests(self):
        """It sleeps, is not late, and verifies nothing: who works must not find that a minute has passed."""
        with contextlib.suppress(FileNotFoundError):
            folder = f"/proc/{self.probe.pid}/task"
            tasks = os.listdir(folder)
            self.tasks = min(self.tasks or len(tasks), len(tasks))
            with open(f"{folder}/{self.probe.pid}/children", encoding="ascii") as f:
                return len(tasks) == self.tasks and not f.read() and self.time.sleeps_until() > time.monotonic() + self.time.passed
        return False

    def step(self, world):
        """A minute, and what follows from it; in small pieces while gpugate tries whether a share is held."""
        soon(self.probe_rests, "rest of the probe")
        trying, before = tries(world.gate.process.pid), looked(usage(world))
        self.time.goes_on(5 if trying else STEP)
        # As the leader writes into it: a watch of which nothing comes breaks.
        with world.api.lock:
            world.api.tell()
        if trying:
            time.sleep(0.2)
            return
        page = None
        for _ in range(200):
            if looked(page := usage(world)) >= before + STEP:
                break
            time.sleep(0.001)
        else:
            # Who looks had not yet begun to sleep when the minute passed: he sleeps for another one.
            soon(self.probe_rests, "rest of the probe")
            self.time.goes_on(STEP)
            page = soon(lambda: looked(page := usage(world)) >= before + STEP and page, "look")
        assert page["known"] and page["strangers"] == [], page
        assert not any(c["overShare"] for c in page["claims"]), page
        self.seen += 1
        if self.seen % 10 == 0:
            found = self.inventory()
            assert found["state"] == "ready" and found["gpus"][0]["fit"] and found["age_s"] <= found["stale_after_s"], found

    def until(self, world, hour):
        while self.time.passed < hour * HOUR:
            self.step(world)

    def end(self):
        for one in (self.probe, self.mps):
            one.kill()
            one.wait()
        shutil.rmtree(self.folder)


def looked(page):
    """When the gate did, in seconds of its time."""
    return datetime.datetime.fromisoformat(page["looked"]).timestamp() if "looked" in page else 0


def tries(pid):
    """Does this gate try whether a share is held? A child that has its own words is none of ours yet."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        for child in f.read().split():
            with contextlib.suppress(OSError), open(f"/proc/{child}/cmdline", "rb") as words:
                if {b"try", b"serve"} & set(words.read().split(b"\0")):
                    return True
    return False


def soon(check, what):
    """As until(), for what is there within milliseconds, a thousand times."""
    for _ in range(20):
        if found := check():
            return found
        time.sleep(0.001)
    return until(check, what, 60)


@pytest.fixture(name="day")
def fixture_day(tmp_path):
    folder = os.path.join("/run" if os.access("/run", os.W_OK) else str(tmp_path), f"gpugate-day-{uuid.uuid4().hex[:8]}")
    os.mkdir(folder)
    one = Day(folder)
    yield one
    one.end()


@pytest.mark.skipif(servers.SLOW > 1, reason="a day is many looks")
def test_a_day_closes_nothing(make, day):
    until(lambda: " verified " in day.probe_log(), "first verify", 60)
    world = make("up", {"usage": {"context": "500Mi", "margin": 0, "accounts": [PROBE_USER, MPS_USER]}, **({"user": "200000-200009"} if ROOT else {}), "env": {
        "CUDA_DEVICE_MEMORY_LIMIT": "{memory_mb}m", "CUDA_DEVICE_MEMORY_SHARED_CACHE": "{claim_dir}/region", "LD_LIBRARY_PATH": day.folder,
        "FAKE_GPU": day.at("present")}}, options=("--look", f"{STEP}s", "--nvml", day.at("libnvidia-ml-fake.so")),
        wrap=("env", *(f"{k}={v}" for k, v in day.env().items())))
    for gpu in GPUS[1:]:
        world.api.claim(gpus=((gpu, 8 * GIB),))
    world.api.gated()
    for begins, ends in ((2, 5), (10, 13), (20, 22)):
        day.until(world, begins)
        assert usage(world)["shares"] == "held"
        # A watch that has just broken, since a minute was over before its event had come, begins anew.
        while not world.metric("watched"):
            day.step(world)
        uid = world.api.claim(gpus=((GPUS[0], 8 * GIB),))
        until(lambda: world.metric("claims") == len(GPUS), "claim")
        pod = world.pod(world.api.token(uid, seconds=2 * 24 * HOUR))
        day.computes(pod.env()["pid"])
        day.until(world, ends)
        day.computes(None)
        world.api.release(uid)
        pod.close()
        # Another gate tries for itself.
        world.gate.end()
        world.start()
    day.until(world, 24)
    log = world.gate.log()
    assert log.count(" info the profile holds a claim to its share") == 4 and "without a claim" not in log, log
    # At the start, after six and after twelve hours, which had to wait for the client's end, and six hours after that. Where a client came since the
    # last look the verdict is open, and the one of before counts.
    verified = re.findall(r"verified gpus=1 verdict=(\w+)", day.probe_log())
    assert verified.count("pass") >= 3 and set(verified) <= {"pass", "inconclusive"}, day.probe_log()
    assert "put off, every GPU is in use" in day.probe_log(), day.probe_log()
