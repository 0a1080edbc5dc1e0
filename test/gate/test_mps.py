# SPDX-License-Identifier: Apache-2.0
"""Under MPS whoever is to be ended is ended by the control daemon first, and killed only after its answer. It and NVML are played."""
import contextlib
import json
import os
import socket
import subprocess
import time

import pytest
from quick_time import Time
from test_selftest import HAMI, takers, with_world
from test_server import again
from test_usage import LOOK, Nvml, usage
from world import GIB, GPUS, alive, servers, until

CONTROL = os.path.join(servers.ROOT, "test/gate/mps_control.py")
# A process by the name of its server, until its input ends.
SERVER = "import sys; open('/proc/self/comm', 'w').write('nvidia-cuda-mps-server'); print(flush=True); sys.stdin.read()"


class Mps:
    """The folder of its daemon."""

    def __init__(self, folder, server):
        self.folder, self.server = str(folder), server
        os.mkdir(self.folder)
        self.write("server", str(server))
        self.write("clients", "")

    def ends(self, pid):
        """As it is heard of."""
        return f"terminate_client {self.server} {pid} True"

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path + ".new", "w", encoding="ascii") as f:
            f.write(text)
        os.rename(path + ".new", path)

    def read(self, name):
        try:
            with open(os.path.join(self.folder, name), encoding="ascii") as f:
                return f.read().splitlines()
        except FileNotFoundError:
            return []

    def asked(self):
        """How often it was asked from the beginning."""
        return self.read("asked").count("get_server_list")

    def heard(self):
        return self.read("heard")


class Pair:
    """A world with MPS and two pods on one GPU, of which the first is to be ended."""

    def __init__(self, make, folder, nvml, server, answers, stand_in="up", **spec):
        self.nvml, self.mps, self.clock = nvml, Mps(folder / "mps", server), Time(str(folder / "time"))
        self.mps.write("mode", answers)
        self.world = make(stand_in, {"grace": "200ms", "usage": {"context": "100Mi", "margin": 0, "overShare": "end"},
                                     "mps": {"control": CONTROL, "pipeDirectory": self.mps.folder}, **spec}, options=LOOK,
                          wrap=self.clock.wrap())
        self.pods = self.world.holder(), self.world.holder()
        self.pid, self.innocent = (pod.env()["pid"] for pod in self.pods)
        self.mps.write("clients", f"{self.pid}\n{self.innocent}")

    def takes_more(self):
        self.nvml.says({0: [(self.pid, 9 * GIB), (self.innocent, 8 * GIB)]})
        until(lambda: [c["used"] for c in usage(self.world)["claims"]] == [9 * GIB, 8 * GIB], "look")
        self.clock.goes_on(15)
        until(lambda: self.world.metric("over_share_total") == 1, "word of it")

    def claim_ends(self):
        self.world.api.release(self.pods[0].uid)

    def stuck(self):
        return [(c["uid"], c["gpu"]) for c in usage(self.world)["claims"] if c.get("stuck")]


@pytest.fixture(name="server")
def fixture_server():
    with subprocess.Popen(["/usr/bin/python3", "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout.readline() == b"\n"
        yield server.pid


@pytest.fixture(name="pair")
def fixture_pair(server, make, tmp_path, monkeypatch):
    """The server is there until all others have ended."""
    nvml = Nvml(tmp_path / "nvml.txt")
    monkeypatch.setenv("GPUPROBE_FAKE_NVML", nvml.path)
    return lambda *args, **more: Pair(make, tmp_path, nvml, server, *args, **more)


@pytest.mark.parametrize("how", ["end", "kill"])
@pytest.mark.parametrize("answers", ["well", "fails"])
def test_self_test_at_the_gates_end(server, make, tmp_path, answers, how):
    """Its processes may be clients, too: whether the gate ends or is killed, MPS is asked before they are, by this gate's process or the next one's."""
    mps = Mps(tmp_path / "mps", server)
    mps.write("mode", answers)
    spec = {"mps": {"control": CONTROL, "pipeDirectory": mps.folder}, "grace": "200ms"}
    with with_world(make, {**HAMI, "FAKE_CUDA_HANG": "1"}, more=spec) as world:
        (pid,) = until(lambda: takers(world), "self-test")
        mps.write("clients", str(pid))
        getattr(world.gate, how)()
        if answers == "fails" and how == "end":
            until(mps.asked, "question to MPS")
        if answers == "fails" or how == "kill":
            assert alive(pid) and mps.heard() == []
            world.start()
            world.gate.until(lambda: "a server was found" in world.gate.log(), "word of what is left")
            mps.write("mode", "well")
        until(lambda: not alive(pid), "its end")
        assert mps.heard() == [mps.ends(pid)], "once, while it lived"


@pytest.mark.parametrize("how", ["takes_more", "claim_ends"])
def test_its_client_is_ended_first(pair, how):
    """Within two seconds of the write, where a claim ends."""
    two = pair("well")
    getattr(two, how)()
    began = time.monotonic()
    until(lambda: not alive(two.pid), "end of the server")
    assert time.monotonic() - began < 2 * servers.SLOW
    assert two.mps.heard() == [two.mps.ends(two.pid)], "once, while it lived"
    assert alive(two.innocent) and "MPS does not answer" not in two.world.gate.log()


def test_without_a_connection(pair):
    """Who is ended since nobody is connected is no other than who is ended with his claim."""
    two = pair("well", linger="1s")
    until(lambda: not alive(two.pid) and not alive(two.innocent), "end of the servers")
    assert sorted(two.mps.heard()) == sorted(two.mps.ends(pid) for pid in (two.pid, two.innocent))


def test_next_gate_of_a_claim_that_lives(pair):
    """Who is being ended does not pass for one that is up, though it takes connections: else MPS's answer would end it under its pod."""
    two = pair("fails", linger="1s")
    for again in range(2):
        if again:
            two.world.gate.kill()
            two.world.start()
        two.clock.goes_on(3)
        until(lambda: two.world.metric("claims_stuck") == 2, "word that they are not ended")
    assert alive(two.pid) and alive(two.innocent) and "a server is up" not in two.world.gate.log().rpartition(" info serving ")[2]
    two.mps.write("mode", "well")
    two.clock.goes_on(3)
    until(lambda: not alive(two.pid) and not alive(two.innocent), "end of the servers")
    assert two.pods[0].env()["pid"] != two.pid, "a new one"


def test_next_gate_of_another_profile(pair):
    """Has it ended, and leaves in its file what stood there: by which profile it was started, and when its parent began."""
    two = pair("fails")
    path = os.path.join(two.world.state, f"{two.pods[0].uid}.json")

    def left():
        with open(path, encoding="ascii") as f:
            return json.load(f)
    before = left()
    two.world.gate.kill()
    two.world.profile("up", {"env": {"NEW": "1"}})
    two.world.start()
    until(lambda: "ends" in left(), "word that it is to end")
    assert left() == {**before, "ends": True}
    two.mps.write("mode", "well")
    until(lambda: not alive(two.pid) and not alive(two.innocent), "end of the servers")


@pytest.mark.parametrize("answers", ["well", "late"])
def test_gate_that_is_told_to_end(pair, answers):
    """It waits for MPS's answer: with its end may come that of all that it has started, by whoever manages it."""
    two = pair(answers)
    status, _ = two.world.gate.end()
    assert status == 0 and not alive(two.pid) and not alive(two.innocent)
    assert sorted(two.mps.heard()) == sorted(two.mps.ends(pid) for pid in (two.pid, two.innocent))


def test_who_comes_while_it_ends(pair):
    """Is refused at once, at each of its ports, instead of waiting for one who will never look."""
    two = pair("fails")
    gate = two.world.gate
    gate.process.terminate()
    until(two.mps.asked, "question to MPS")
    for port in two.world.port, two.world.status:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 5).close()
    assert gate.process.poll() is None and alive(two.pid) and alive(two.innocent)
    two.mps.write("mode", "well")
    until(lambda: gate.process.poll() is not None, "end of the gate")


def test_who_leaves_by_itself(pair):
    """Who catches TERM is asked to leave first: then MPS has nothing to end, and need not answer."""
    two = pair("fails", "polite")
    two.claim_ends()
    until(lambda: not alive(two.pid), "end of the server")
    assert alive(two.innocent) and two.stuck() == [] and not two.mps.asked()


@pytest.mark.parametrize("word", ["hide", "heir"])
def test_server_that_dies_before_its_family(pair, word):
    """What it has left cannot be ended while MPS does not answer: a connection is refused, though there may be who has the server's socket still, and
    it is said who has the GPU."""
    two = pair("fails", linger="1h")
    pod = two.pods[0]
    hidden = int(pod.ask(word))
    two.mps.write("clients", str(hidden))
    with contextlib.suppress(OSError), pod.dial("die") as s:
        s.recv(1)
    until(lambda: not alive(two.pid) and two.mps.asked(), "question to MPS")
    until(lambda: is_alone(hidden), "word that it has ended")
    pod.refused("it has ended by itself")
    two.clock.goes_on(3)
    until(lambda: two.stuck() == [(pod.uid, GPUS[0])] and two.world.metric("claims_stuck") == 1, "word that it is not ended")
    pod.refused("MPS does not answer")
    assert alive(hidden) and alive(two.innocent) and two.pods[1].env()["pid"] == two.innocent
    two.mps.write("mode", "well")
    until(lambda: not alive(hidden), "end of what it has left")
    assert two.mps.heard() == [two.mps.ends(hidden)]
    assert until(lambda: again(pod), "new server")["pid"] != two.pid


def is_alone(pid):
    """Is its parent one whose server has ended?"""
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        parent = f.read().rsplit(")", 1)[1].split()[1]
    with open(f"/proc/{parent}/comm", encoding="ascii") as f:
        return f.read() == "gpugate: alone\n"


def test_pods_that_wait_for_it(pair):
    """Nobody waits without end: who shall have its GPU next is refused, and so is its own pod, whose claim has become another."""
    two = pair("fails", linger="1h")
    pod = two.pods[0]
    two.world.api.claim(pod.uid, ((GPUS[0], 6 * GIB),))
    until(two.mps.asked, "question to MPS")
    two.clock.goes_on(3)
    until(lambda: two.world.metric("claims_stuck") == 1, "word that it is not ended")
    third = two.world.holder()
    for one, why in ((pod, "MPS does not answer"), (third, "another server has its GPU still: MPS does not answer")):
        one.refused(why)
    assert two.world.refused("server") == 2
    two.mps.write("mode", "well")
    until(lambda: two.world.metric("claims_stuck") == 0, "end of the server")
    assert third.env() and pod.env()


@pytest.mark.parametrize("how,answers", [("takes_more", "refuses terminate_client"), ("claim_ends", "refuses get_client_list"),
                                         ("claim_ends", "refuses get_server_list"), ("claim_ends", "elsewhere"), ("claim_ends", "fails"),
                                         ("claim_ends", "hangs")])
def test_without_an_answer_nobody_is_ended(pair, how, answers):
    """That is said, the leader is told of the GPU, and it is tried again. A next gate does the same."""
    two = pair(answers)
    getattr(two, how)()
    until(two.mps.asked, "question to MPS")
    two.clock.goes_on(3)
    until(lambda: two.stuck() == [(two.pods[0].uid, GPUS[0])], "word that it is not ended")
    assert two.world.metric("claims_stuck") == 1 and two.world.gate.log().count("MPS does not answer") == 1
    if answers != "hangs":
        until(lambda: two.mps.asked() > 1, "another try")
    if answers == "elsewhere":
        assert two.world.gate.log().count("is not among the processes that gpugate sees") == 1 and two.mps.heard() == []
    if answers == "fails":
        two.world.gate.kill()
        two.world.start()
        two.clock.goes_on(3)
        until(lambda: two.stuck() == [(two.pods[0].uid, GPUS[0])], "the next gate's word")
    assert alive(two.pid)
    two.mps.write("mode", "well")
    until(lambda: not alive(two.pid), "end of the server")
    until(lambda: two.stuck() == [] and two.world.metric("claims_stuck") == 0, "word of it")
    assert alive(two.innocent)
