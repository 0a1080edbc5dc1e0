# SPDX-License-Identifier: Apache-2.0
"""Under MPS a claim that has more than its share is ended by the control daemon first, and by signals only after its answer. It and NVML are played."""
import os

import pytest
from quick_time import Time
from test_usage import LOOK, Nvml, usage
from world import GIB, alive, servers, until

CONTROL = os.path.join(servers.ROOT, "test/gate/mps_control.py")


class Mps:
    """The folder of its daemon."""

    def __init__(self, folder):
        self.folder = str(folder)
        os.mkdir(self.folder)
        self.write("clients", "")

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path + ".new", "w", encoding="ascii") as f:
            f.write(text)
        os.rename(path + ".new", path)

    def heard(self):
        try:
            with open(os.path.join(self.folder, "heard"), encoding="ascii") as f:
                return f.read().splitlines()
        except FileNotFoundError:
            return []


@pytest.fixture(name="greedy")
def fixture_greedy(make, tmp_path, monkeypatch):
    """A world with MPS, and two pods, of which the first soon has more than its share; greedy(mode): its world, time, MPS, and both servers' pids."""
    def begin(mode):
        nvml, mps, clock = Nvml(tmp_path / "nvml.txt"), Mps(tmp_path / "mps"), Time(str(tmp_path / "time"))
        monkeypatch.setenv("GPUPROBE_FAKE_NVML", nvml.path)
        mps.write("mode", mode)
        world = make("up", {"usage": {"context": "100Mi", "margin": 0, "overShare": "end"},
                            "mps": {"control": CONTROL, "pipeDirectory": mps.folder}}, options=LOOK,
                     wrap=("env", *(f"{k}={v}" for k, v in clock.env().items())))
        pods = world.holder(), world.holder()
        pids = [pod.env()["pid"] for pod in pods]
        mps.write("clients", "\n".join(str(pid) for pid in pids))
        nvml.says({0: [(pids[0], 9 * GIB), (pids[1], 8 * GIB)]})
        until(lambda: [c["used"] for c in usage(world)["claims"]] == [9 * GIB, 8 * GIB], "look")
        clock.goes_on(15)
        world.uid = pods[0].uid
        return world, clock, mps, pids

    return begin


def claim(world):
    return next(c for c in usage(world)["claims"] if c["uid"] == world.uid)


def test_its_client_is_ended_first(greedy):
    world, _, mps, (pid, innocent) = greedy("well")
    until(lambda: not alive(pid), "end of the server")
    assert mps.heard() == [f"terminate_client 4711 {pid} True"], "once, while it lived"
    assert alive(innocent) and "MPS does not answer" not in world.gate.log()


@pytest.mark.parametrize("mode", ["refuses", "fails", "hangs"])
def test_without_an_answer_nobody_is_ended(greedy, mode):
    """That is said, and tried again."""
    world, clock, mps, (pid, _) = greedy(mode)
    if mode == "hangs":
        until(lambda: claim(world)["overShare"], "word of it")
        clock.goes_on(15)
    until(lambda: claim(world).get("stuck"), "word that it is not ended")
    assert world.metric("claims_stuck") == 1 and world.gate.log().count("MPS does not answer") == 1
    if mode == "refuses":
        until(lambda: len(mps.heard()) > 1, "another try")
    assert alive(pid)
    mps.write("mode", "well")
    clock.goes_on(15)
    until(lambda: not alive(pid), "end of the server")
