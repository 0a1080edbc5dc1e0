# SPDX-License-Identifier: Apache-2.0
"""gate/gpus*, gate/process/account: what NVML tells of who uses the GPUs, beside what claims hold: told, and ended where the operator wants that. NVML is played."""
import contextlib
import json
import os
import re
import socket
import ssl
import subprocess
import urllib.error
import urllib.request

import pytest
from quick_time import Time
from world import GIB, GPUS, PROGRAM, alive, servers, until

FAKE = os.path.join(os.path.dirname(servers.PROGRAM), "test/probe/libnvidia-ml-fake.so")
LOOK = ("--look", "50ms", "--nvml", FAKE)
# Ten seconds of the gate's own clock are ten of ours.
LONG = 40 * servers.SLOW


class Nvml:
    """What the library says: GPU number: [(pid, bytes)]."""

    def __init__(self, path):
        self.path = str(path)
        self.says({})

    def says(self, processes, *more):
        text = "".join(f"{i}.uuid={uuid}\n" for i, uuid in enumerate(GPUS))
        text += "".join(f"{n}.list={','.join(f'{pid}:{has}' for pid, has in of)}\n" for n, of in processes.items())
        with open(self.path + ".new", "w", encoding="ascii") as f:
            f.write(f"gpus={len(GPUS)}\n{text}" + "".join(line + "\n" for line in more))
        os.rename(self.path + ".new", self.path)


@pytest.fixture(name="nvml")
def fixture_nvml(tmp_path, monkeypatch):
    one = Nvml(tmp_path / "nvml.txt")
    monkeypatch.setenv("GPUPROBE_FAKE_NVML", one.path)
    return one


def usage(world):
    status, text = world.get("/usage")
    assert status == 200, text
    return json.loads(text)


def lookers(world):
    """pids of the processes that look for this gate."""
    with open(f"/proc/{world.gate.process.pid}/task/{world.gate.process.pid}/children", encoding="ascii") as f:
        children = f.read().split()
    found = []
    for pid in children:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/cmdline", encoding="ascii") as f:
            if f.read().split("\0")[1:2] == ["gpus"]:
                found.append(int(pid))
    return found


def test_use_is_told_by_claim(make, nvml):
    """A claim's whole family counts, on each GPU; what the page says is in the metrics, too."""
    world = make(options=LOOK)
    pod, other = world.holder(gpus=((GPUS[0], 8 * GIB), (GPUS[1], 8 * GIB))), world.holder()
    pid, far, second = pod.env()["pid"], int(pod.ask("hide")), other.env()["pid"]
    nvml.says({0: [(pid, GIB), (second, 3 * GIB)], 1: [(far, 2 * GIB)]})
    until(lambda: sum(c["processes"] for c in usage(world)["claims"]) == 3, "look")
    assert {usage(world)[k] for k in ("server", "profile", "shares")} == {"gpu-01", "stand-in", "unknown"}
    told = {c["uid"]: c for c in usage(world)["claims"]}
    assert told[pod.uid] == {"uid": pod.uid, "used": 3 * GIB, "known": True, "processes": 2, "overShare": False}
    assert told[other.uid]["used"] == 3 * GIB and usage(world)["strangers"] == []
    assert world.metric("used_bytes") == 6 * GIB and world.metric("usage_known") == 1 and world.metric("strangers") == 0


def test_strangers(make, nvml):
    """Who belongs to no claim is told once, but for accounts that the profile names, and for whom MPS lists as well."""
    world = make("up", {"usage": {"accounts": ["daemon"]}}, options=LOOK)
    with subprocess.Popen(["sleep", "600"]) as stranger, \
            subprocess.Popen(["setpriv", "--reuid", "daemon", "sleep", "600"] if os.geteuid() == 0 else ["sleep", "0"]) as known:
        try:
            until(lambda: os.geteuid() != 0 or os.stat(f"/proc/{known.pid}").st_uid != 0, "its account")
            nvml.says({2: [(stranger.pid, 5 << 20), (known.pid, 1 << 20)]}, f"2.mps={stranger.pid}:{5 << 20}")
            until(lambda: world.metric("strangers") == 1, "stranger")
            until(lambda: usage(world)["strangers"] == [{"pid": stranger.pid, "gpu": GPUS[2], "known": True, "used": 5 << 20}], "page")
            assert world.gate.log().count("computes on a GPU without a claim") == 1
            nvml.says({2: [(stranger.pid, "n/a")]})
            until(lambda: usage(world)["strangers"][0]["known"] is False, "what is not told")
        finally:
            stranger.kill()
            known.kill()
    until(lambda: world.metric("strangers") == 0, "end of the stranger")


def test_no_stranger_in_a_claims_cgroup(make, nvml):
    """Whose parents do not lead to a server is its claim's all the same, by the cgroup that it cannot leave."""
    world = make(options=LOOK)
    if not world.cgroup:
        pytest.skip("cgroup v2 cannot be written here")
    pod = world.holder()
    pid = pod.env()["pid"]
    with subprocess.Popen(["sleep", "600"]) as lost:
        try:
            with open(f"{world.cgroup}/claim-{pod.uid}/cgroup.procs", "w", encoding="ascii") as f:
                f.write(str(lost.pid))
            nvml.says({0: [(pid, GIB), (lost.pid, 2 * GIB)]})
            until(lambda: [c["used"] for c in usage(world)["claims"]] == [3 * GIB], "look")
            assert usage(world)["strangers"] == []
        finally:
            lost.kill()


def again(pod):
    try:
        return pod.env()["pid"]
    except (OSError, ValueError):
        return None


@pytest.mark.parametrize("ends", [False, True])
def test_more_than_its_share(make, nvml, ends):
    """After ten seconds it is told with the pod's name, and its server is ended only if the operator says so; it may come again."""
    world = make("up", {"usage": {"context": "100Mi", "margin": 0, "overShare": "end" if ends else "tell"}}, options=LOOK)
    pod, other = world.holder(), world.holder()
    pid, innocent = pod.env()["pid"], other.env()["pid"]
    nvml.says({0: [(pid, 8 * GIB + (100 << 20) + 1), (innocent, 8 * GIB + (100 << 20))]})
    until(lambda: world.metric("over_share_total") == 1, "word of it", LONG)
    line = next(line for line in world.gate.log().splitlines() if "more of a GPU than its share" in line)
    assert re.search(rf"uid={pod.uid} namespace=team pod=pod-0 gpu={GPUS[0]} ", line) and f"share={8 * GIB}" in line, line
    if ends:
        until(lambda: not alive(pid), "end of the server")
        nvml.says({})
        # It is refused for a moment, as after a failure.
        until(lambda: again(pod) not in (None, pid), "another server")
    else:
        assert next(c for c in usage(world)["claims"] if c["uid"] == pod.uid)["overShare"]
        assert pod.env()["pid"] == pid
    assert alive(innocent) and world.metric("over_share_total") == 1


def test_server_that_forks(make, nvml, tmp_path):
    """Each of its children takes the share, as where a limiter counts processes one by one: together they have more, and all of them end."""
    clock = Time(str(tmp_path / "time"))
    world = make("up", {"env": {"FAKE_GPU": "{claim_dir}"}, "usage": {"context": "500Mi", "margin": 0, "overShare": "end"}}, options=LOOK,
                 wrap=clock.wrap())
    pod, other = world.holder(), world.holder()
    pid, innocent = pod.env()["pid"], other.env()["pid"]
    nvml.says({0: [(innocent, 8 * GIB)]}, f"0.folder={world.state}/{pod.uid}")
    children = [int(pod.ask(f"take {8 * GIB}"))]
    for used in (8 * GIB, 16 * GIB):
        used += len(children) * (500 << 20)
        until(lambda used=used: {c["uid"]: c["used"] for c in usage(world)["claims"]} == {pod.uid: used, other.uid: 8 * GIB}, "look")
        before = usage(world)["looked"]
        clock.goes_on(15)
        if len(children) == 1:
            until(lambda before=before: usage(world)["looked"] > before, "another look")
            assert world.metric("over_share_total") == 0 and alive(pid)
            children.append(int(pod.ask(f"take {8 * GIB}")))
    until(lambda: world.metric("over_share_total") == 1 and not any(alive(p) for p in (pid, *children)), "end of the family")
    assert alive(innocent)


@pytest.mark.skipif(servers.SANITIZED, reason="minutes, which nothing makes quicker there")
def test_failures_of_long_ago(make, nvml, tmp_path):
    """Who has run for a minute waits no longer than after a first failure, also where it is ended for what it takes."""
    clock = Time(str(tmp_path / "time"))
    world = make("up", {"usage": {"context": "100Mi", "margin": 0, "overShare": "end"}}, options=LOOK,
                 wrap=clock.wrap())
    pod = world.holder()
    pid = pod.env()["pid"]
    for n in range(7):
        with contextlib.suppress(OSError), pod.dial("die") as s:
            s.recv(1)
        until(lambda n=n: world.metric("server_failures_total") == n + 1, "failure")
        clock.goes_on(20)
        pid = until(lambda: again(pod), "another server")
    clock.goes_on(61)
    nvml.says({0: [(pid, 9 * GIB)]})
    until(lambda: [c["used"] for c in usage(world)["claims"]] == [9 * GIB], "look")
    clock.goes_on(15)
    until(lambda: world.metric("over_share_total") == 1 and not alive(pid), "end of the server")
    nvml.says({})
    assert until(lambda: again(pod), "another server, at once")


def test_nothing_is_known_is_no_good_news(make, nvml):
    """A library that is not there, that fails, or that dies: unknown, said once, tried again; and nobody is shut out for that."""
    world = make(options=("--look", "50ms", "--nvml", "/nonexistent.so"))
    pod = world.holder()
    assert pod.env() and world.metric("usage_known") == 0 and usage(world)["known"] is False
    assert world.gate.log().count("what is used of the GPUs is not known") == 1
    again = make(options=LOOK)
    until(lambda: again.metric("usage_known") == 1, "look")
    first = lookers(again)
    os.kill(first[0], 9)
    again.gate.until(lambda: "the process that looks has ended" in again.gate.log(), "word of its end")
    seen = usage(again)["looked"]
    until(lambda: (now := lookers(again)) and now != first, "next one", LONG)
    # What it says first after a trouble is no news when it is one, too.
    until(lambda: usage(again)["looked"] != seen, "a look of the next one")
    nvml.says({}, "call.nvmlDeviceGetComputeRunningProcesses_v3=15")
    again.gate.until(lambda: "GPU is lost" in again.gate.log(), "NVML's word")


def ask_over_tls(world, port, path="/usage", token=None):
    """As the leader does it."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(f"https://127.0.0.1:{port}{path}", headers=headers), timeout=20 * servers.SLOW,
                                    context=ssl.create_default_context(cafile=world.ca)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def test_the_leader_is_told_over_tls(make, nvml, tmp_path):
    """The same page to who shows the token, which is read anew; to nobody else more than that we live. Who is silent holds nobody up."""
    token, (port,) = tmp_path / "token", servers.free_ports(1)
    token.write_text("first-secret\n")
    world = make(options=(*LOOK, "--tell", f"127.0.0.1:{port}", "--tell-token", str(token)))
    pod = world.holder()
    nvml.says({0: [(pod.env()["pid"], GIB)]})
    until(lambda: [c["used"] for c in usage(world)["claims"]] == [GIB], "look")
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(7)]
    status, text = ask_over_tls(world, port, token="first-secret")
    assert status == 200 and json.loads(text)["claims"][0] == usage(world)["claims"][0]
    for _ in range(200):
        world.api.claim()
    until(lambda: len(usage(world)["claims"]) == 201, "all claims")
    text = ask_over_tls(world, port, token="first-secret")[1]
    assert len(text) > 16384 and len(json.loads(text)["claims"]) == 201
    for wrong in (None, "second-secret", "first-secre", "first-secrets", "bearer"):
        assert ask_over_tls(world, port, token=wrong)[0] == 401
        assert ask_over_tls(world, port, "/metrics", token=wrong)[0] == 401
    assert ask_over_tls(world, port, "/livez") == (200, "ok\n")
    token.write_text("second-secret")
    assert ask_over_tls(world, port, token="first-secret")[0] == 401 and ask_over_tls(world, port, token="second-secret")[0] == 200
    token.write_text("short")
    assert ask_over_tls(world, port, token="short")[0] == 401
    token.unlink()
    for _ in range(3):
        assert ask_over_tls(world, port, token="second-secret")[0] == 401
    assert world.gate.log().count("nobody is told what is used") == 1
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=20 * servers.SLOW)
    for one in silent:
        one.close()
    token.write_text("third-secret")
    assert ask_over_tls(world, port, token="third-secret")[0] == 200
    # What is no handshake is a try without a token, too: from this address nobody is heard any more.
    for _ in range(40):
        with socket.create_connection(("127.0.0.1", port)) as one:
            one.sendall(b"GET /usage HTTP/1.1\r\n\r\n")
            with contextlib.suppress(OSError):
                one.recv(1)
    with pytest.raises(OSError):
        ask_over_tls(world, port, token="third-secret")


def test_the_leaders_token_is_needed():
    done = subprocess.run([PROGRAM, "serve", "--server", "a", "--cert", "c", "--key", "k", "--profile", "p", "--tell", "127.0.0.1:0"],
                          stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2 and "--tell and --tell-token go together" in done.stderr


def test_looks_can_be_left_out(make):
    world = make(options=("--look", "0"))
    assert usage(world)["known"] is False and "looked" not in usage(world) and lookers(world) == []


def test_gpus_tells_once(nvml):
    nvml.says({1: [(7, 4096)]})
    done = subprocess.run([PROGRAM, "gpus", "--nvml", FAKE], stdout=subprocess.PIPE, check=True)
    told = json.loads(done.stdout)["gpus"]
    assert [g["id"] for g in told] == GPUS and told[1]["processes"] == [{"pid": 7, "known": True, "bytes": 4096}]
    assert subprocess.run([PROGRAM, "gpus", "--every", "x"], stderr=subprocess.DEVNULL, check=False).returncode == 2
