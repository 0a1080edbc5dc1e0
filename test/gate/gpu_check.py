# SPDX-License-Identifier: Apache-2.0
"""The gate on a server with a GPU, before NVIDIA's own MPS: what no test without one can show. `make gate-gpu-check` runs it. API server and pods are
played; driver, NVML and MPS's daemon are NVIDIA's, and so what they count is. Each figure that is seen is printed."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

import pytest
import world as worlds
from test_usage import usage
from world import GIB, alive, servers, until

MIB = 1 << 20
CONTROL = shutil.which("nvidia-cuda-mps-control")
LOOK = ("--look", "500ms")
SHARE = 8 * GIB
# The driver is slow to open a GPU, and the self-test does so often.
LONG = 90
LIMITED = {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "{memory_limits}"}


def see(text):
    print(f"\n    {text}", flush=True)


@pytest.fixture(name="gpu", scope="module", autouse=True)
def fixture_gpu():
    """The first GPU: (UUID, bytes). The world has this one alone."""
    words = ["nvidia-smi", "--id=0", "--query-gpu=uuid,memory.total,name,driver_version", "--format=csv,noheader,nounits"]
    uuid, mib, name, driver = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.strip().split(", ")
    see(f"{name}, {mib} MiB, driver {driver}")
    worlds.GPUS[:] = [uuid]
    worlds.STAND_IN = os.path.join(servers.ROOT, "test/gate/cuda_server.py")
    return uuid, int(mib) * MIB


@pytest.fixture(name="mps")
def fixture_mps():
    """A daemon of ours in a folder of ours that the servers' account can read: what a profile says for it. Asked for before a world, it ends after it."""
    if not CONTROL:
        pytest.skip("nvidia-cuda-mps-control is not here")
    home = tempfile.mkdtemp(prefix="gpugate-test-mps-")
    pipe, log = (os.path.join(home, name) for name in ("pipe", "log"))
    for folder in (pipe, log):
        os.mkdir(folder)
    for folder in (home, pipe, log):
        os.chmod(folder, 0o755)
    env = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": pipe, "CUDA_MPS_LOG_DIRECTORY": log}
    subprocess.run([CONTROL, "-d"], env=env, check=True)

    class Daemon:
        spec = {"env": {"CUDA_MPS_PIPE_DIRECTORY": pipe, **LIMITED}, "grace": "200ms",
                "mps": {"control": CONTROL, "pipeDirectory": pipe}, "usage": {"accounts": ["root", str(worlds.NOBODY)]}}

        @staticmethod
        def ask(command):
            return subprocess.run([CONTROL], env=env, input=command + "\n", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30,
                                  check=False).stdout

        @staticmethod
        def pid():
            with open(os.path.join(pipe, "nvidia-cuda-mps-control.pid"), encoding="ascii") as f:
                return int(f.read())
    try:
        yield Daemon
    finally:
        Daemon.ask("quit -t 5")
        until(lambda: not os.path.exists(os.path.join(pipe, "nvidia-cuda-mps-control.pid")), "end of the daemon")
        shutil.rmtree(home)


def told(pod, word):
    return json.loads(pod.ask(word, LONG))


def goes_on(pod):
    """Does its server compute, without an error?"""
    first = told(pod, "rounds")
    time.sleep(0.5)
    second = told(pod, "rounds")
    return second["error"] == 0 and second["rounds"] > first["rounds"]


def used(world):
    return {c["uid"]: c["used"] for c in usage(world)["claims"]}


def shares(world):
    world.gate.until(lambda: usage(world)["shares"] != "unknown", "word of the self-test", LONG)
    return usage(world)["shares"]


def test_self_test_without_a_limiter(make):
    """Nothing holds a share, and what an empty context takes is measured."""
    world = make("up", {"env": {}, "usage": {}}, options=LOOK)
    began = time.monotonic()
    world.api.gated()
    assert shares(world) == "exceeded"
    context = world.metric("context_bytes")
    see(f"self-test without a limiter: exceeded, after {time.monotonic() - began:.1f} s; an empty context: {context / 1e6:.0f} MB")
    assert 100 * MIB < context < 1500 * MIB
    until(lambda: world.left() == [], "tidying")


def test_use_is_told(make, gpu):
    """What a claim's server has taken, and a stranger."""
    world = make("up", {"env": {}, "usage": {}}, options=LOOK)
    pod = world.holder(gpus=((gpu[0], SHARE),))
    assert told(pod, "env")["pid"]
    before = until(lambda: used(world).get(pod.uid), "look", LONG)
    assert told(pod, f"take {GIB}") == {"says": 0}
    until(lambda: used(world)[pod.uid] >= before + GIB, "look at more", LONG)
    see(f"a server with 64 MiB: {before / 1e6:.0f} MB; with 1 GiB more: {(used(world)[pod.uid] - before) / MIB:.1f} MiB more")
    assert used(world)[pod.uid] == before + GIB and goes_on(pod)
    port = servers.free_ports(1)[0]
    with subprocess.Popen(["/usr/bin/python3", worlds.STAND_IN, "127.0.0.1", str(port)]) as stranger:
        try:
            until(lambda: [s["pid"] for s in usage(world)["strangers"]] == [stranger.pid], "stranger", LONG)
        finally:
            stranger.kill()
    until(lambda: usage(world)["strangers"] == [], "end of the stranger", LONG)
    world.api.release(pod.uid)
    until(lambda: usage(world)["claims"] == [], "end of the claim", LONG)


def pair(make, gpu, mps):
    """A world under MPS, and two pods that compute on the GPU."""
    world = make("up", mps.spec, options=LOOK)
    pods = [world.holder(gpus=((gpu[0], SHARE),)) for _ in range(2)]
    pids = [told(pod, "env")["pid"] for pod in pods]
    for pod in pods:
        assert goes_on(pod), told(pod, "rounds")
    return world, pods, pids


def test_claim_ends_under_mps(mps, make, gpu):
    """MPS ends its client first: it is gone within two seconds, and its neighbour computes on."""
    world, pods, pids = pair(make, gpu, mps)
    servers_said = mps.ask("get_server_list")
    server = servers_said.split()[-1]
    clients_said = mps.ask(f"get_client_list {server}")
    with open(f"/proc/{server}/status", encoding="ascii") as f:
        account = next(line.split()[1] for line in f if line.startswith("Uid:"))
    see(f"get_server_list: {servers_said!r}, of account {account}; get_client_list: {clients_said!r}, the servers are {pids}")
    until(lambda: len(used(world)) == 2 and all(used(world).values()), "look", LONG)
    see(f"two clients: {[round(n / 1e6) for n in used(world).values()]} MB; strangers: {usage(world)['strangers']}")
    assert usage(world)["strangers"] == [], "the MPS server's account is named"
    assert told(pods[0], f"take {SHARE}")["says"] == 2, "the limit holds one process"
    began = world.api.release(pods[0].uid)
    until(lambda: not alive(pids[0]), "end of its server", LONG)
    seconds = time.monotonic() - began
    for _ in range(4):
        assert goes_on(pods[1]), told(pods[1], "rounds")
    until(lambda: list(used(world)) == [pods[1].uid], "look", LONG)
    see(f"claim's end: its server was gone after {seconds:.2f} s, its neighbour computes on; now {mps.ask(f'get_client_list {server}')!r}")
    assert seconds < 2 and "MPS does not answer" not in world.gate.log()


def test_mps_does_not_answer(mps, make, gpu):
    """Nobody is killed until it does, and the GPU is told of."""
    world, pods, pids = pair(make, gpu, mps)
    daemon = mps.pid()
    os.kill(daemon, signal.SIGSTOP)
    try:
        world.api.release(pods[0].uid)
        until(lambda: world.metric("claims_stuck") == 1, "word that it is not ended", LONG)
        assert alive(pids[0]) and alive(pids[1]) and goes_on(pods[1])
    finally:
        os.kill(daemon, signal.SIGCONT)
    began = time.monotonic()
    until(lambda: not alive(pids[0]), "its end", LONG)
    see(f"MPS's daemon stood still: nobody was killed; {time.monotonic() - began:.1f} s after it went on the server was gone")
    assert goes_on(pods[1]) and "MPS does not answer" in world.gate.log()


def test_self_test_under_mps(mps, make):
    """Its limit is one for each process."""
    world = make("up", {**mps.spec, "usage": {"accounts": ["root", str(worlds.NOBODY)]}}, options=LOOK)
    world.api.gated()
    assert shares(world) == "exceeded"
    see(f"self-test under MPS: exceeded; an empty context: {world.metric('context_bytes') / 1e6:.0f} MB")


def test_killed_without_mps(mps, make, gpu):
    """What the gate keeps from happening: nobody asks MPS. Told, not judged: it differs from driver to driver."""
    _, pods, pids = pair(make, gpu, mps)
    os.kill(pids[0], signal.SIGKILL)
    until(lambda: not alive(pids[0]), "its end", LONG)
    time.sleep(1)
    see(f"a client that is killed while it computes: its neighbour says {told(pods[1], 'rounds')}, and it computes on: {goes_on(pods[1])}")
