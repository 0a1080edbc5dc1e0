# SPDX-License-Identifier: Apache-2.0
"""gate/connect*, gate/carry, gate/guest*: what goes in comes out, whatever ends first, however slow and however many. GATE_GB: how many GB are carried (1)."""
import hashlib
import os
import random
import resource
import socket
import ssl
import struct
import threading
import time

import pytest
from test_guests import is_in
from test_server import again, assert_cut_or_end
from world import WAIT_S, Process, rss_kb, servers, until

GB = int(os.environ.get("GATE_GB", "1"))
PIECE = 1 << 20
SEED = int(os.environ.get("SEED", "7"))


def send_all(s, total, seed, digest):
    """Random pieces of one random block, each as long as chance has it."""
    block = random.Random(seed).randbytes(PIECE)
    dice = random.Random(seed)
    left = total
    while left > 0:
        n = min(left, dice.choice((1, 100, 5000, 16384, 70000, PIECE)) if total < 1 << 22 else PIECE)
        at = dice.randrange(PIECE - n + 1)
        s.sendall(block[at:at + n])
        digest.update(block[at:at + n])
        left -= n


def read_all(s, digest):
    n = 0
    while piece := s.recv(PIECE):
        digest.update(piece)
        n += len(piece)
    return n


def mirror(pod, total, seed):
    """All that is sent comes back, though this side ends its half while the other still sends."""
    sent, came = hashlib.sha256(), hashlib.sha256()
    with pod.dial("echo", 60 * servers.SLOW) as s:
        def push():
            send_all(s, total, seed, sent)
            s.shutdown(socket.SHUT_WR)
        thread = threading.Thread(target=push)
        thread.start()
        n = read_all(s, came)
        thread.join()
    assert n == total and sent.digest() == came.digest(), (n, total, seed)


def one_way(pod, total, seed):
    """The digest comes back behind the end of what was sent."""
    sent = hashlib.sha256()
    with pod.dial("sum", 60 * servers.SLOW) as s:
        send_all(s, total, seed, sent)
        s.shutdown(socket.SHUT_WR)
        told = s.makefile().read().split()
    assert told == [str(total), sent.hexdigest()], (told, total, seed)


def pour(pod, total, _):
    """The server ends its half first, and reads on."""
    with pod.dial(f"pour {total}", 60 * servers.SLOW) as s:
        n = read_all(s, hashlib.sha256())
        s.sendall(b"still heard")
    assert n == total


def half_closes(world, pod):
    dice = random.Random(SEED)
    sizes = [dice.choice((0, 1, 1000, 16383, 16384, 16385, 100000, 1 << 20)) for _ in range(60)]
    left = GB * 1_000_000_000 // servers.SLOW - sum(sizes)
    sizes += [left // 8] * 8
    for i, size in enumerate(sizes):
        dice.choice((mirror, one_way, pour))(pod, size, SEED + i)
    until(lambda: world.metric('connections{stage="carrying"}') == 0, "end of all connections")
    to_server, to_pod = (world.metric(f'bytes_total{{way="{way}"}}') for way in ("to_server", "to_pod"))
    assert to_server + to_pod >= sum(sizes), (to_server, to_pod, SEED)


def test_random_half_closes(world):
    half_closes(world, world.holder())


def test_reset_is_no_end(world):
    """Whoever breaks off is seen to break off at the other end."""
    pod = world.holder()
    with pod.dial("echo") as s:
        is_in(s)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    until(lambda: world.metric("cut_total") == 1, "cut")
    with pod.dial("echo") as s:
        is_in(s)
        pod.process.kill()
        assert_cut_or_end(s)
    until(lambda: world.metric("cut_total") == 2, "second cut")


def test_slow_reader_holds_nobody_up(world):
    """Who does not read stops its own stream alone, and costs no memory; then it gets all of it."""
    slow, quick = world.holder(), world.holder()
    assert slow.ask("sum").startswith(b"0 ")
    with slow.dial(f"pour {200 << 20}") as s:
        before = [rss_kb(p.process.pid) for p in (world.gate, slow.process)]
        one_way(quick, 1 << 20, 1)
        time.sleep(1)
        after = [rss_kb(p.process.pid) for p in (world.gate, slow.process)]
        assert servers.SANITIZED or all(b - a < 1024 * servers.SLOW for a, b in zip(before, after)), (before, after)
        one_way(quick, 1 << 20, 2)
        assert read_all(s, hashlib.sha256()) == 200 << 20


def test_thousand_connections(make):
    """All carry; each costs less than 64 KB at either end; one more waits its turn or is refused, and nothing stays."""
    world = make(options=("--connections", "4000"))
    pod = world.holder()
    assert pod.ask("sum").startswith(b"0 ")
    before = [rss_kb(p.process.pid) for p in (world.gate, pod.process)]
    all_of_them = []
    for i in range(1000):
        s = pod.dial("echo", 60 * servers.SLOW)
        s.sendall(b"%d\n" % i)
        all_of_them.append(s)
    for i, s in enumerate(all_of_them):
        assert s.recv(16) == b"%d\n" % i
    each = [(rss_kb(p.process.pid) - b) / 1000 for p, b in zip((world.gate, pod.process), before)]
    assert world.metric('connections{stage="carrying"}') == 1000
    print(f"each of 1000 connections: {each[0]:.1f} KB in the gate, {each[1]:.1f} KB in the pod's end")
    if not servers.SANITIZED:
        assert max(each) < 64, each
    for s in all_of_them:
        s.close()
    until(lambda: world.metric('connections{stage="carrying"}') == 0, "end of all")
    assert pod.ask("sum").startswith(b"0 ")


def test_more_than_fit(make):
    """A pod has a quarter of all, at least one, and then is told so; the rest is others'."""
    world = make(options=("--connections", "2"))
    pod, other = world.holder(), world.holder()
    with pod.dial("echo") as a:
        is_in(a)
        pod.refused("this pod has too many connections")
        until(lambda: world.refused("busy") == 1, "refusal")
        until(lambda: world.metric('connections{stage="waiting"}') == 0, "end of it")
        with other.dial("echo") as b:
            is_in(b)
            pod.refused("")
            until(lambda: world.refused("busy") == 2, "refusal")
    until(lambda: world.metric('connections{stage="carrying"}') == 0, "end of both")
    assert pod.env()


def cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        return sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root limits what is not its own")
def test_no_descriptor_left(make):
    """Where there is none for one more, at either end, that is said, tried again after a while, and no reason to turn in circles."""
    world = make(options=("--tries", "0"), wrap=("/usr/bin/prlimit", "--nofile=48:48"))
    pod = world.holder()
    assert pod.env()
    crowd = strangers(world, 60)
    world.gate.until(lambda: "no connection can be taken" in world.gate.log(), "word of it")
    before = cpu_s(world.gate.process.pid)
    time.sleep(2)
    assert cpu_s(world.gate.process.pid) - before < 0.2
    for s in crowd:
        s.close()
    assert until(lambda: again(pod), "way in")
    # The pod's end.
    pid = pod.process.process.pid
    was = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (descriptors(pid), was[1]))
    with pod.dial("echo") as s:
        pod.process.until(lambda: "no connection can be taken" in pod.process.log(), "word of it")
        before = cpu_s(pid)
        time.sleep(2)
        assert cpu_s(pid) - before < 0.2
        resource.prlimit(pid, resource.RLIMIT_NOFILE, was)
        is_in(s)


def descriptors(pid):
    """How many it has, once those of what has just ended are closed."""
    seen = [0] * 5
    while len(set(seen[-5:])) > 1 or not seen[-1]:
        time.sleep(0.1)
        seen.append(len(os.listdir(f"/proc/{pid}/fd")))
    return seen[-1]


def strangers(world, n):
    return [socket.create_connection(("127.0.0.1", world.port)) for _ in range(n)]


def test_silent_peers(make):
    """Who says nothing is cut after ten seconds, has so many places and no more, and keeps nobody out."""
    world = make(options=("--tries", "0"))
    pod = world.holder()
    began = time.monotonic()
    silent = strangers(world, 100)
    all_there = time.monotonic()
    # Their own places are taken; a peer at another address has others.
    until(lambda: world.refused("busy") == 36, "refusals")
    assert world.metric('connections{stage="waiting"}') == 64
    until(lambda: world.metric('connections{stage="waiting"}') == 0, "end of the silent ones")
    ended = time.monotonic()
    assert ended - began > 9.5 and ended - all_there < 10 + 5 * servers.SLOW
    assert world.refused("handshake") == 64 and pod.env()
    for s in silent:
        s.close()


HELLO = b"gpug\1\1"


@pytest.mark.parametrize("shown,reason", [
    (b"GET / HTTP/1.1\r\n\r\n", "protocol"), (b"gpug\2\1\0\0", "protocol"), (b"gpug\1\1\xff\xff", "protocol"), (b"gpug\1\0\0\0", "protocol"),
    (HELLO + b"\0\1x", "token"), (b"", "protocol"), (HELLO + b"\0\x09abc", "protocol")])
def test_first_frames(world, shown, reason):
    """Over TLS but not as ours speak: refused, and counted."""
    context = ssl.create_default_context(cafile=world.ca)
    with socket.create_connection(("127.0.0.1", world.port)) as s, context.wrap_socket(s, server_hostname="localhost") as tls:
        tls.sendall(shown)
        if shown in (b"", HELLO + b"\0\x09abc"):
            tls.close()
        else:
            answer = tls.recv(1000)
            assert answer[:5] == b"gpug\1" and answer[5] == 3 and len(answer) == 8 + int.from_bytes(answer[6:8], "big")
    until(lambda: world.refused(reason) == 1, "refusal")


def test_plain_bytes(world):
    """Nothing is readable on the wire: who speaks no TLS is nobody."""
    with socket.create_connection(("127.0.0.1", world.port)) as s:
        s.sendall(b"env\n" * 100)
        assert_cut_or_end(s)
    until(lambda: world.refused("handshake") == 1, "refusal")


def test_token_byte_by_byte(world):
    """A slow hello is a hello, and what comes with it belongs to the server."""
    token = world.api.token(world.api.claim()).encode()
    frame = HELLO + len(token).to_bytes(2, "big") + token
    context = ssl.create_default_context(cafile=world.ca)
    with socket.create_connection(("127.0.0.1", world.port)) as s, context.wrap_socket(s, server_hostname="localhost") as tls:
        for byte in frame[:40]:
            tls.sendall(bytes([byte]))
        tls.sendall(frame[40:] + b"env")
        assert tls.recv(8) == b"gpug\1\0\0\0"
        tls.sendall(b"\n")
        assert tls.recv(1) == b"{"


def test_two_servers(make):
    """One port a server, in their order."""
    one, two = make(), make()
    uid = one.api.claim()
    two.api.claims[uid] = one.api.claims[uid]
    token = one.api.token(uid)
    two.api.tokens = one.api.tokens
    with two.api.lock:
        two.api.tell()
    with open(one.ca, "a", encoding="ascii") as ours, open(two.ca, encoding="ascii") as theirs:
        ours.write(theirs.read())
    port = servers.free_ports(1)[0]
    both = Process(one.folder, "both", *one.pod(token, port=port + 10).process.process.args[:2], "--servers",
                   f"127.0.0.1:{one.port},localhost:{two.port}", "--port", str(port), "--ca", one.ca, "--token", one.pods[0].token_path)
    both.until(lambda: both.log().count("carrying") == 2, "both ports")
    pids = set()
    for i in range(2):
        with socket.create_connection(("127.0.0.1", port + i), timeout=WAIT_S) as s:
            s.sendall(b"env\n")
            s.shutdown(socket.SHUT_WR)
            pids.add(s.makefile().read())
    assert len(pids) == 2 and all(pids)
    assert both.end()[0] == 0
