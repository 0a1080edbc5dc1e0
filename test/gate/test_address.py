# SPDX-License-Identifier: Apache-2.0
"""gate/guest*, by address: a pod is who comes from the one address that its claim names, over a plain connection. Peers here have addresses in 127.77.0.0/16."""
import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import socket
import struct
import threading
import time

import pytest
from quick_time import Time
from test_bytes import cpu_s, half_closes, one_way, read_all
from test_guests import assert_cut, is_in
from lib import server as servers
from world import GIB, GPUS, WAIT_S, Peer, rss_kb, until


@pytest.fixture(name="world")
def fixture_world(make):
    """Nobody looks at its GPUs, which takes pipes."""
    return make(spec={"mode": "address"}, options=("--look", "0"))


def peer(world, host):
    return Peer(world.port, f"127.77.0.{host}")


def holder(world, host, **claim):
    """A pod whose claim names its address."""
    one = peer(world, host)
    one.uid = world.api.claim(podIPs=[one.source[0]], **claim)
    return one


def set_send_buffers(pid, host):
    """Of each of the process's connections with this address: was SO_SNDBUF set?"""
    of, found = os.pidfd_open(pid), []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            if not os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:"):
                continue
            # pidfd_getfd(2)
            with socket.socket(fileno=ctypes.CDLL(None).syscall(438, of, int(fd), 0)) as s:
                if s.getpeername()[0] == host:
                    # SO_BUF_LOCK
                    found.append(s.getsockopt(socket.SOL_SOCKET, 72) & 1)
    os.close(of)
    return found


def change(world, uid, **more):
    with world.api.lock:
        world.api.claims[uid]["more"].update(more)
        world.api.tell()


def assert_refused(s):
    """Not a byte comes."""
    with s:
        try:
            assert s.recv(1) == b""
        except ConnectionResetError:
            pass


def test_send_buffers_are_the_kernels(world):
    """One that was set stays as it is when memory is short: then the kernel takes nothing and tells of room, and the gate would turn without end."""
    with holder(world, 1).dial("echo") as s:
        is_in(s)
        for host in "127.77.0.1", "127.91.0.1":
            assert set_send_buffers(world.gate.process.pid, host) == [0]


def test_each_pod_reaches_its_own_server(world):
    one = holder(world, 1, gpus=((GPUS[1], 4 * GIB),))
    two = holder(world, 2, gpus=((GPUS[2], 4 * GIB),))
    told = [p.env() for p in (one, two)]
    assert [t["env"]["CUDA_VISIBLE_DEVICES"] for t in told] == [GPUS[1], GPUS[2]] and told[0]["pid"] != told[1]["pid"]
    assert world.metric('mode{mode="address"}') == 1 and world.metric('mode{mode="token"}') == 0
    assert world.metric('admitted_total{mode="address"}') == 2 and world.api.reviews == 0
    lines = [line for line in world.gate.log().splitlines() if " serving " in line or "a pod is let in" in line]
    assert len(lines) == 3 and all("mode=address" in line for line in lines)
    assert json.loads(world.get("/usage")[1])["mode"] == "address"


def test_mapped_address(make):
    """An IPv4 peer of a listener for both families is the IPv4 address."""
    port = servers.free_ports(1)[0]
    world = make(spec={"mode": "address"}, options=("--listen", f":{port}"))
    world.port = port
    assert holder(world, 1).env()


def test_nobodys_address(make):
    """Ten seconds are waited, since a pod may be quicker than the watch; then it is closed, counted, told, and a try that failed."""
    world = make(spec={"mode": "address"}, options=("--tries", "1"))
    holder(world, 1)
    holder(world, 2)
    world.api.claim(podIPs=["127.77.0.2", "fd00::2"])
    holder(world, 3, lingers="2027-08-01T10:00:00Z")
    holder(world, 4, open=True)
    late, quiet = peer(world, 5), peer(world, 6)
    began = time.monotonic()
    refused = [peer(world, host).dial("env") for host in (2, 3, 4, 7)]
    # Of the two that come late one has said all it has to say.
    with late.dial("env") as s, quiet.dial() as q:
        s.shutdown(socket.SHUT_WR)
        until(lambda: world.metric('connections{stage="waiting"}') == 6, "crowd")
        time.sleep(1)
        world.api.claim(podIPs=[late.source[0]])
        assert json.loads(s.makefile().read())["env"]
        world.api.claim(podIPs=[quiet.source[0]])
        q.sendall(b"env\n")
        assert q.recv(1) == b"{"
    for s in refused:
        assert_refused(s)
    assert 9.5 < time.monotonic() - began < 9.5 + WAIT_S
    until(lambda: world.refused("no_claim") == 4, "count")
    lines = [line for line in world.gate.log().splitlines() if "a pod is refused" in line]
    assert len(lines) == 4 and all("mode=address" in line for line in lines)
    assert [line.count("more than one claim") for line in lines if "peer=127.77.0.2 " in line] == [1]
    assert sum("no pod that holds a GPU" in line for line in lines) == 3
    for host in (2, 7):
        assert_refused(peer(world, host).dial())
    assert world.refused("tries") == 2 and peer(world, 1).env()


@pytest.fixture(name="ipv6")
def fixture_ipv6():
    """ipv6(address, …): these are ours alone, since this test and what it starts have a network of their own."""
    CLONE_NEWNET, SIOCSIFADDR, SIOCSIFFLAGS, IFF_UP = 0x40000000, 0x8916, 0x8914, 1
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    if libc.unshare(CLONE_NEWNET) != 0:
        os.close(before)
        pytest.skip("networks are not ours to make")

    def add(*addresses):
        with socket.socket(socket.AF_INET6) as s:
            for one in addresses:
                fcntl.ioctl(s, SIOCSIFADDR, struct.pack("16sIi", socket.inet_pton(socket.AF_INET6, one), 128, socket.if_nametoindex("lo")))
    # Whatever fails: the tests behind this one are in the machine's network again.
    try:
        with socket.socket() as s:
            fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))
        yield add
    finally:
        back = libc.setns(before, CLONE_NEWNET)
        os.close(before)
        assert back == 0


def test_network_of_addresses(ipv6, make):
    """Who has one address of an IPv6 network spends his own tries and places; who has all of it those of the network; who holds a claim there is a peer by himself."""
    pod, others, elsewhere = "fd00:77::5", [f"fd00:77::{i}" for i in range(6, 12)], "fd00:77:0:1::6"
    ipv6("fd00:77::1", pod, *others, elsewhere)
    world = make(spec={"mode": "address", "session": {"header": "x-lupine-session"}}, options=("--look", "0", "--tries", "3", "--listen", ":0"))
    port = int(world.gate.log().rpartition(" port=")[2].split()[0])

    def dial(source):
        return socket.create_connection(("fd00:77::1", port), WAIT_S, (source, 0))

    def is_let_in(s, uid):
        s.sendall(first_request(uid))
        assert s.recv(1) == b"\r"

    def new_pod_comes_in(source):
        """Its address is in no claim yet when it comes."""
        with dial(source) as s:
            until(lambda: world.metric('connections{stage="waiting"}') > 0, "connection")
            is_let_in(s, world.api.claim(podIPs=[source]))
    for n in range(3):
        reset(dial(others[0]))
        until(lambda n=n: world.refused("no_claim") == n + 1, "count")
    assert_refused(dial(others[0]))
    until(lambda: world.refused("tries") == 1, "refusal for tries")
    new_pod_comes_in(others[1])
    with contextlib.ExitStack() as crowd:
        for _ in range(64):
            crowd.enter_context(dial(others[2]))
        assert_refused(dial(others[2]))
        until(lambda: world.refused("busy") == 1, "refusal for places")
        new_pod_comes_in(others[3])
    until(lambda: world.refused("no_claim") == 67, "count")
    assert_refused(dial(others[4]))
    until(lambda: world.refused("tries") == 2, "refusal for the network's tries")
    reset(dial(elsewhere))
    until(lambda: world.refused("no_claim") == 68, "count")
    uid = world.api.claim(podIPs=[pod])
    until(lambda: world.metric("claims") == 3, "claim")
    with dial(pod) as s:
        is_let_in(s, uid)
    # What he tries himself counts for him.
    for n in range(3):
        with dial(pod) as s:
            s.sendall(first_request("forged"))
            assert_refused(s)
        until(lambda n=n: world.refused("session") == n + 1, "count")
    assert_refused(dial(pod))
    assert world.refused("tries") == 3


def reset(s):
    with s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_who_comes_and_goes(make):
    """Who breaks off before a claim is known has failed, too. Who holds one comes in whatever was tried from there, and may break off."""
    world = make(spec={"mode": "address"}, options=("--look", "0", "--tries", "3"))
    one = peer(world, 1)
    for n in range(3):
        reset(one.dial())
        until(lambda n=n: world.refused("no_claim") == n + 1, "count")
    assert_refused(one.dial())
    until(lambda: world.refused("tries") == 1, "refusal for tries")
    world.api.claim(podIPs=[one.source[0]])
    until(lambda: world.metric("claims") == 1, "claim")
    for _ in range(4):
        reset(one.dial())
    assert one.env() and world.refused("no_claim") == 3 and world.refused("tries") == 1
    assert sum("it has hung up before one was known" in line for line in world.gate.log().splitlines()) == 3


def test_crowd_without_claims(make):
    """All places of those that wait for a claim are taken, by peers that come again and again: who holds one does not need any."""
    world = make(spec={"mode": "address"}, options=("--look", "0", "--tries", "0"))
    pod = holder(world, 1)
    until(lambda: world.metric("claims") == 1, "claim")
    with contextlib.ExitStack() as crowd:
        def comes(host):
            return crowd.enter_context(peer(world, host).dial())
        for i in range(256):
            comes(i // 64 + 2)
        until(lambda: world.metric('connections{stage="waiting"}') == 256, "crowd")
        began = time.monotonic()
        while world.refused("busy") == 0 and time.monotonic() < began + 1:
            comes(9)
        before = world.refused("busy"), world.metric("cut_total")
        assert all(pod.env() for _ in range(8))
        assert (world.refused("busy"), world.metric("cut_total")) == before


@pytest.mark.parametrize("what", ["ends", "moves", "is named twice", "lingers"])
def test_cut_in_the_middle(world, what):
    pod = holder(world, 1)
    with pod.dial(f"pour {1 << 40}") as s:
        assert s.recv(1 << 20)
        began = time.monotonic()
        if what == "ends":
            world.api.release(pod.uid)
        elif what == "moves":
            change(world, pod.uid, podIPs=["127.77.0.2"])
        elif what == "lingers":
            change(world, pod.uid, lingers="2027-08-01T10:00:00Z")
        else:
            holder(world, 1)
        assert_cut(s)
        assert time.monotonic() - began < 2 * servers.SLOW
    line = next(line for line in world.gate.log().splitlines() if "a connection is cut" in line)
    assert "mode=address" in line and ("its claim has ended" in line) == (what in ("ends", "lingers"))
    if what == "moves":
        assert peer(world, 2).env()


def test_api_server_away(make, tmp_path):
    """Who is in stays. By the claims of before pods come in for the operator's time, and that is told; then nobody. A gate that has seen none lets
    nobody in."""
    clock = Time(str(tmp_path / "time"))
    world, blind = (make(spec={"mode": "address"}, options=("--away", "20s"), wrap=clock.wrap()) for _ in range(2))
    pod, other, unseen = holder(world, 1), holder(world, 2), holder(blind, 1)
    assert unseen.env()
    blind.gate.kill()
    blind.api.leave()
    blind.start()
    with pod.dial("echo") as s:
        is_in(s)
        world.api.leave()
        until(lambda: not world.ready(), "unreadiness")
        assert other.env() and world.metric("readmitted_total") == 1
        clock.goes_on(21)
        late = [p.dial("env") for p in (other, unseen)]
        for one in late:
            assert_refused(one)
        until(lambda: world.refused("api_server_away") == blind.refused("api_server_away") == 1, "count")
        is_in(s)
    world.api.away = False
    until(world.ready, "readiness")
    assert other.env()


def test_random_half_closes(world):
    half_closes(world, holder(world, 1))


def test_reset_is_no_end(world):
    """Whoever breaks off is seen to break off at the other end."""
    pod = holder(world, 1)
    with pod.dial("echo") as s:
        is_in(s)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    until(lambda: world.metric("cut_total") == 1, "cut")


def pipes(world):
    pid, found = world.gate.process.pid, 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found += os.readlink(f"/proc/{pid}/fd/{fd}").startswith("pipe:")
        except FileNotFoundError:
            pass
    return found


def test_slow_reader_holds_nobody_up(world):
    """Who does not read stops its own stream alone, and has a pipe of its own for as long; then it gets all of it."""
    slow, quick = holder(world, 1), holder(world, 2)
    for pod in (slow, quick):
        one_way(pod, 1 << 20, 1)
    before = pipes(world)
    with slow.dial(f"pour {200 << 20}") as s:
        # It keeps the one that all shared, and the others get another.
        until(lambda: one_way(quick, 1 << 20, 2) or pipes(world) > before, "pipe of its own")
        assert pipes(world) == before + 2
        assert read_all(s, hashlib.sha256()) == 200 << 20
    until(lambda: pipes(world) == before, "end of the pipe")


def on_its_way(port):
    """Bytes that the kernel has for peers of a local port and that were not taken yet."""
    with open("/proc/net/tcp", encoding="ascii") as f:
        rows = [line.split() for line in f.readlines()[1:]]
    return sum(int(row[4].split(":")[0], 16) for row in rows if int(row[1].split(":")[1], 16) == port and row[3] == "01")


def test_as_much_is_on_its_way_as_a_line_carries(world):
    """What a pod is sent in one round trip goes by the kernel, not by a cap on replies that nobody reads: the farther the pod, the more."""
    with holder(world, 1).dial(f"pour {64 << 20}"):
        until(lambda: on_its_way(world.port) > 512 << 10, "more than a cap")


@pytest.mark.parametrize("mode,places", [("never", 64), ("up", 100)])
def test_place_for_others(make, mode, places):
    """Of one pod no more than 64 wait for its server, and a quarter of all is carried: others find room."""
    world = make(mode, {"mode": "address", "readiness": "60s"}, options=("--look", "0", "--connections", "400"))
    greedy, other = holder(world, 1), holder(world, 2)
    until(lambda: world.metric("claims") == 2, "claims")
    with contextlib.ExitStack() as crowd:
        def comes(pod):
            s = crowd.enter_context(pod.dial("echo"))
            if mode == "up":
                is_in(s)
        for _ in range(places):
            comes(greedy)
        stage = "carrying" if mode == "up" else "waiting"
        until(lambda: world.metric(f'connections{{stage="{stage}"}}') == places, "all of them")
        with greedy.dial() as s:
            assert_refused(s)
        assert world.refused("busy") == 1
        comes(other)
        until(lambda: world.metric(f'connections{{stage="{stage}"}}') == places + 1, "the other")


def test_server_that_takes_nobody(make):
    """A server whose queue is full is dialled for ten seconds."""
    world = make("hung", spec={"mode": "address"}, options=("--look", "0"))
    assert_refused(holder(world, 1).dial())
    until(lambda: world.refused("server") == 1, "count")
    assert "does not take connections in time" in world.gate.log()


def test_thousand_connections(make):
    """All carry, and none has a pipe while its sides take what comes."""
    world = make(spec={"mode": "address"}, options=("--look", "0", "--connections", "4000"))
    pod = holder(world, 1)
    assert pod.ask("sum").startswith(b"0 ")
    before, some = rss_kb(world.gate.process.pid), pipes(world)
    all_of_them = []
    for i in range(1000):
        s = pod.dial("echo", 60 * servers.SLOW)
        s.sendall(b"%d\n" % i)
        all_of_them.append(s)
    for i, s in enumerate(all_of_them):
        assert s.recv(16) == b"%d\n" % i
    each = (rss_kb(world.gate.process.pid) - before) / 1000
    print(f"each of 1000 connections: {each:.1f} KB")
    assert world.metric('connections{stage="carrying"}') == 1000 and pipes(world) <= some + 2
    if not servers.SANITIZED:
        assert each < 64
    for s in all_of_them:
        s.close()
    until(lambda: world.metric('connections{stage="carrying"}') == 0, "end of all")
    assert pod.ask("sum").startswith(b"0 ")


def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def first_request(*sessions):
    """As HTTP/2 begins: SETTINGS, then HEADERS, in two pieces, with these sessions."""
    block = b"\x83\x84\x86" + b"".join(b"\x10\x10x-lupine-session" + bytes([len(s)]) + s.encode() for s in sessions)
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(1, 0, 1, block[:9]) + frame(9, 4, 1, block[9:])


def test_session_in_pieces(make):
    """A session is judged when more of it has come, not whenever somebody else comes; and not for every byte."""
    world = make(spec={"mode": "address", "session": {"header": "x-lupine-session"}}, options=("--look", "0"))
    pod, one = holder(world, 1), holder(world, 2)
    # A head that is not finished.
    block = b"\x83\x84\x86" + b"\x10\x03a-b\x01c" * 2250
    head = first_request(pod.uid)[:33] + frame(1, 0, 1, block)
    with contextlib.ExitStack() as waiting:
        many = [waiting.enter_context(pod.dial()) for _ in range(60)]
        for s in many:
            s.sendall(head)
        until(lambda: world.metric('connections{stage="waiting"}') == 60, "crowd")
        spent = cpu_s(world.gate.process.pid)
        for _ in range(500):
            peer(world, 9).dial().close()
            time.sleep(0.005)
        spent = cpu_s(world.gate.process.pid) - spent
        print(f"{spent:.2f} s of a CPU for 500 others beside 60 sessions that are not finished")
        assert spent < 0.8 * servers.SLOW, spent
    with one.dial() as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s.sendall(first_request(one.uid)[:33])
        with contextlib.suppress(OSError):
            for _ in range(1500):
                s.sendall(frame(4, 0, 0, b""))
                time.sleep(0.001)
        until(lambda: "its session comes in too many pieces" in world.gate.log(), "refusal")


def test_session(make):
    """The first request has to say which pod this is, too; what it says is its server's, to the byte."""
    world = make(spec={"mode": "address", "session": {"header": "x-lupine-session"}}, options=("--look", "0"))
    pod, other = holder(world, 1), holder(world, 2)
    silent = pod.dial()
    silent.sendall(first_request(pod.uid)[:-1])
    said, more = first_request(pod.uid), os.urandom(1 << 20)
    with pod.dial() as s:
        for at in range(0, len(said), 9):
            s.sendall(said[at:at + 9])
        sender = threading.Thread(target=lambda: (s.sendall(more), s.shutdown(socket.SHUT_WR)))
        sender.start()
        came = s.makefile("rb").read()
        sender.join()
    assert b"PRI * HTTP/2.0\r\n" + came == said + more
    for n, text in enumerate((first_request(other.uid), first_request(), first_request(pod.uid, other.uid), b"GET / HTTP/1.1\r\n\r\n", b"env\n")):
        with pod.dial() as s:
            s.sendall(text)
            assert_refused(s)
        until(lambda n=n: world.refused("session") == n + 1, "count")
    with other.dial() as s:
        s.sendall(said)
        assert_refused(s)
    assert_refused(silent)
    until(lambda: world.refused("session") == 7, "count")
    lines = [line.split("error=")[1] for line in world.gate.log().splitlines() if "a pod is refused" in line]
    assert [sum(word in line for line in lines) for word in ("not that of the pod", "has no session", "as HTTP does", "in time")] == [3, 2, 1, 1]
    assert world.metric('admitted_total{mode="address"}') == 1


def test_session_over_http1(make):
    """A client may begin with a request of HTTP/1. One that has no session tries nothing, where a claim is held; a forged one is a try."""
    world = make(spec={"mode": "address", "session": {"header": "x-lupine-session"}}, options=("--look", "0", "--tries", "2"))
    pod = holder(world, 1)
    until(lambda: world.metric("claims") == 1, "claim")

    def refused(text):
        before = world.refused("session")
        with pod.dial() as s:
            s.sendall(text)
            assert_refused(s)
        until(lambda: world.refused("session") == before + 1, "count")
    for text in (b"HEAD / HTTP/1.1\r\n\r\n", b"env\n") * 2:
        refused(text)
    said = f"HEAD / HTTP/1.1\r\nHost: gpu-01\r\nX-Lupine-Session: {pod.uid}\r\n\r\n".encode()
    with pod.dial() as s:
        s.sendall(said)
        s.shutdown(socket.SHUT_WR)
        assert b"HEAD / HTTP/1.1\r\n" + s.makefile("rb").read() == said
    for _ in range(2):
        refused(said.replace(b"Session: ", b"Session: a"))
    assert_refused(pod.dial())
    assert world.refused("tries") == 1
