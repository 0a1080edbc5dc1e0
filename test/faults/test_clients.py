# SPDX-License-Identifier: Apache-2.0
"""Clients fail the program, or mean it harm. docs/design.md, "Limits and faults", says what must happen; each test says what would break.
More of them are in test/integration/test_hostile_tls.py and test_bad_input.py, and in test/unit/test_http_*.c."""
import json
import os
import resource
import socket
import ssl
import subprocess
import threading
import time

import pytest

from lib import reviews
from lib.pods import pod
from lib.server import SANITIZED, SLOW, wait_until

BODY = json.dumps(reviews.review(reviews.default_resources(pod()))).encode()
HEAD = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
CROWD = 10000
GIB = 1 << 30


def tls(server, timeout=20 * SLOW, **versions):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for name, value in versions.items():
        setattr(context, name, value)
    return context.wrap_socket(socket.create_connection(("127.0.0.1", server.port), timeout=timeout))


def works(server):
    got = server.new_client().review("/mutate", BODY)
    assert got["allowed"] and got["pod"]


def rounds(client, n):
    """The longest of n answers, in seconds."""
    longest = 0.0
    for _ in range(n):
        began = time.monotonic()
        assert client.review("/mutate", BODY)["allowed"]
        longest = max(longest, time.monotonic() - began)
    return longest


def share_of_a_core(server, seconds):
    cpu, began = server.cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    return (server.cpu_seconds() - cpu) / (time.monotonic() - began)


# ---- too many ------------------------------------------------------------------------------------------------------

@pytest.fixture(name="many_descriptors")
def fixture_many_descriptors():
    old = resource.getrlimit(resource.RLIMIT_NOFILE)
    need = CROWD + 1000
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (need, max(need, old[1])))
    except ValueError:
        pytest.fail(f"this test opens {need} descriptors: raise `ulimit -Hn` ({old[1]})")
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, old)


def test_ten_thousand_connections(fresh, many_descriptors):  # pylint: disable=unused-argument
    """Who is connected is served as before; the crowd waits outside, in bounded memory, at no cost; when it goes, all is as it was."""
    server = fresh()
    kept = [server.new_client() for _ in range(8)]
    assert max(rounds(one, 5) for one in kept) < 1 * SLOW
    before, descriptors = server.rss_kib(), len(os.listdir(f"/proc/{server.process.pid}/fd"))
    crowd = []
    for _ in range(CROWD):
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(("127.0.0.1", server.port))
        crowd.append(one)
    assert wait_until(lambda: len(os.listdir(f"/proc/{server.process.pid}/fd")) > 500, 10)
    assert max(rounds(one, 20) for one in kept) < 1 * SLOW, "a connected client waits because others come"
    accepted = server.metric("poolgate_http_accepted_total")
    spent = share_of_a_core(server, 2) * 2
    accepted = server.metric("poolgate_http_accepted_total") - accepted
    # It lets them in, and cuts them, 500 at a time: that is what it pays for, and nothing for those who wait.
    assert spent < (0.0004 * accepted + 0.1) * SLOW, f"{spent:.2f} s of a core while it let {accepted:.0f} clients in that say nothing"
    assert server.plain_get("/readyz")[0] == 200
    assert server.grew_less(before, 64 * 1024), f"{server.rss_kib() - before} KiB for {CROWD} silent connections"
    for one in crowd:
        one.close()
    began = time.monotonic()
    works(server)
    took = time.monotonic() - began
    assert took < 15 * SLOW, f"the first review after the crowd took {took:.1f} s"
    assert wait_until(lambda: len(os.listdir(f"/proc/{server.process.pid}/fd")) <= descriptors + 2, 15), "descriptors stayed behind"
    assert max(rounds(one, 5) for one in kept) < 1 * SLOW
    for one in kept:
        one.close()
    assert server.stop() == 0


# ---- too slow, too big ---------------------------------------------------------------------------------------------

def test_replies_that_nobody_reads(fresh):
    """Ten clients ask on and never read: each is cut at the latest 30 s after the reply that does not get through, has cost at most what is
    in the pipe, and delayed nobody."""
    server = fresh()
    works(server)
    before, stop, longest = server.rss_kib(), threading.Event(), []
    deaf = []
    for _ in range(10):
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.settimeout(5)
        raw.connect(("127.0.0.1", server.port))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        deaf.append(context.wrap_socket(raw))

    def beside():
        client = server.new_client()
        while not stop.is_set():
            longest.append(rounds(client, 5))
            time.sleep(0.05)

    helper = threading.Thread(target=beside)
    helper.start()
    began = time.monotonic()
    try:
        for one in deaf:  # until the pipe is full both ways
            one.settimeout(0.5)
            try:
                while True:
                    one.sendall((HEAD % len(BODY) + BODY) * 20)
            except OSError:
                pass
        peak = server.rss_kib() - before
        assert len(connected(server, deaf)) == len(deaf), "they were cut before they were late"
        assert wait_until(lambda: not connected(server, deaf), 45), "never cut"
        took = time.monotonic() - began
    finally:
        stop.set()
        helper.join()
    assert peak < 64 * 1024 * SLOW, f"{peak} KiB for ten clients that do not read"
    # A thread that waited for the deaf would wait for thirty seconds; a machine that is busy stands still for one.
    assert max(longest) < 5 * SLOW, f"others waited {max(longest):.2f} s"
    assert took < 45 * SLOW
    for one in deaf:
        one.close()
    works(server)
    assert server.grew_less(before, 16 * 1024)
    assert server.stop() == 0


def beside(server, n):
    """So many usual reviews, each on a connection of its own; the most memory that was seen meanwhile, in KiB."""
    most = 0
    for _ in range(n):
        works(server)
        most = max(most, server.rss_kib())
        time.sleep(0.05)
    return most


def test_bodies_that_are_held(fresh):
    """Forty clients send all of 8 MiB but the last byte. That would be three times what the pod may have; and whoever asks for a usual pod
    must not be told that there is no room."""
    server = fresh()
    before = server.rss_kib()
    holders = [tls(server) for _ in range(40)]

    def send(one):
        try:
            one.sendall(HEAD % (8 << 20) + b" " * ((8 << 20) - 1))
        except OSError:
            pass

    threads = [threading.Thread(target=send, args=(one,)) for one in holders]
    for thread in threads:
        thread.start()
    peak = beside(server, 60)
    for thread in threads:
        thread.join()
    for one in holders:
        one.close()
    assert SANITIZED or peak - before < 100 * 1024, f"{peak} KiB"
    works(server)
    assert server.stop() == 0


def test_large_replies_that_nobody_reads(fresh):
    """A reply that is as large as its review (the uid stands in both) costs its memory for as long as nobody reads it."""
    server = fresh()
    before, deaf = server.rss_kib(), []
    large = json.dumps(reviews.review(reviews.default_resources(pod()), uid="u" * (7 << 20))).encode()
    peak = 0
    for _ in range(30):
        one = tls(server)
        one.sendall(HEAD % len(large) + large)
        deaf.append(one)
        peak = max(peak, beside(server, 1))
    for one in deaf:
        one.close()
    assert SANITIZED or peak - before < 180 * 1024, f"{peak} KiB"
    works(server)
    assert server.stop() == 0


def connected(server, clients):
    """Those of the clients' ports to which the server still holds an end."""
    ports = {one.getsockname()[1] for one in clients if one.fileno() >= 0}
    inodes = set()
    for name in os.listdir(f"/proc/{server.process.pid}/fd"):
        try:
            target = os.readlink(f"/proc/{server.process.pid}/fd/{name}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = set()
    with open("/proc/net/tcp", encoding="ascii") as f:
        for line in f.readlines()[1:]:
            fields = line.split()
            if fields[9] in inodes and int(fields[2].split(":")[1], 16) in ports:
                found.add(int(fields[2].split(":")[1], 16))
    return found


def test_promises_of_a_gigabyte(fresh):
    """A length is believed only as far as bytes come: 413 at once, or cut, and no memory for what was promised."""
    server = fresh()
    works(server)
    before, held = server.rss_kib(), []
    for promise in (GIB, GIB, 8 << 20, 8 << 20):
        for _ in range(5):
            one = tls(server)
            one.sendall(HEAD % promise + b"{" * 1000)
            held.append((promise, one))
    time.sleep(0.5)
    assert server.grew_less(before, 8192), f"{server.rss_kib() - before} KiB for promises"
    for promise, one in held:
        if promise == GIB:
            try:
                assert one.recv(4096).startswith(b"HTTP/1.1 413")
            except (ConnectionError, ssl.SSLError):
                pass
        one.close()
    works(server)
    assert server.stop() == 0


# ---- bad TLS -------------------------------------------------------------------------------------------------------

class Wire:
    """A TLS client whose records pass through our hands."""

    def __init__(self, server, version):
        self.raw = socket.create_connection(("127.0.0.1", server.port), timeout=15 * SLOW)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = context.maximum_version = version
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing)
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.raw.sendall(self.outgoing.read())
                self.incoming.write(self.raw.recv(65536))
        self.raw.sendall(self.outgoing.read())

    def records(self, data):
        self.tls.write(data)
        return self.outgoing.read()

    def rest(self):
        """Everything that still comes, until the other side closes."""
        data = b""
        try:
            while piece := self.raw.recv(65536):
                data += piece
        except ConnectionError:
            pass
        return data

    def answer(self):
        """What the server said, in the clear."""
        self.incoming.write(self.rest())
        try:
            return self.tls.read(65536)
        except ssl.SSLError:
            return b""


def flipped(wire):
    data = bytearray(wire.records(HEAD % len(BODY) + BODY))
    data[len(data) // 2] ^= 1
    return bytes(data)


def replayed(wire):
    return wire.records(HEAD % len(BODY))[:] * 2


def too_long(wire):
    return b"\x17\x03\x03\xff\xff" + os.urandom(0xffff)


def no_such_type(wire):
    return b"\x63\x03\x03\x00\x10" + os.urandom(16)


def not_encrypted(wire):
    return b"\x17\x03\x03\x00\x20" + b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".ljust(32)


def empty_records(wire):
    return b"\x17\x03\x03\x00\x00" * 20000


def alerts(wire):
    return b"\x15\x03\x03\x00\x02\x01\x00" * 20000


def another_hello(wire):
    return bytes.fromhex("16030300 2d 010000 29 0303".replace(" ", "")) + os.urandom(32) + bytes.fromhex("00000213010100")


def half_then_nothing(wire):
    return wire.records(HEAD % len(BODY) + BODY)[:40]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
@pytest.mark.parametrize("harm", [flipped, replayed, too_long, no_such_type, not_encrypted, empty_records, alerts, another_hello])
def test_bad_records(server, harm, version):
    """The connection ends, without an answer and at once; nobody else notices."""
    works(server)
    before = server.rss_kib()
    wire = Wire(server, version)
    began, cpu = time.monotonic(), server.cpu_seconds()
    try:
        wire.raw.sendall(harm(wire))
    except ConnectionError:
        pass
    said = wire.answer()
    took = time.monotonic() - began
    assert b"200 OK" not in said and b'"allowed"' not in said, said
    assert took < 5 * SLOW, f"it was kept for {took:.1f} s"
    assert server.cpu_seconds() - cpu < 1 * SLOW
    works(server)
    assert server.grew_less(before, 8192)


def test_a_record_that_stops_in_its_middle(server):
    """It has ten seconds like any request, which nobody else feels."""
    wire = Wire(server, ssl.TLSVersion.TLSv1_3)
    began = time.monotonic()
    wire.raw.sendall(half_then_nothing(wire))
    works(server)
    wire.raw.settimeout(1)
    with pytest.raises(TimeoutError):
        wire.raw.recv(65536)  # session tickets or nothing
        wire.raw.recv(65536)
    assert share_of_a_core(server, 1) < 0.05 * SLOW
    wire.raw.close()
    works(server)
    assert time.monotonic() - began < 10 * SLOW


def test_renegotiation(server):
    """TLS 1.2's renegotiation costs the server a handshake for a few bytes: it is not done."""
    before = server.cpu_seconds()
    client = subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-tls1_2", "-legacy_renegotiation"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = []
    reader = threading.Thread(target=lambda: said.extend(client.stdout))
    reader.start()
    try:
        assert wait_until(lambda: any("Verify return code" in line for line in said), 10), said
        for _ in range(3):
            client.stdin.write("R\n")
            client.stdin.flush()
            time.sleep(0.3)
        ended = wait_until(lambda: client.poll() is not None, 15)
    except BrokenPipeError:
        ended = True
    finally:
        client.kill()
        client.wait()
        reader.join()
    text = "".join(said)
    assert "RENEGOTIATING" in text, text[-500:]
    assert "verify return" not in text.split("RENEGOTIATING", 1)[1], "it was done: " + text[-1500:]
    assert ended, "the connection lives on: " + text[-500:]
    assert server.cpu_seconds() - before < 0.5 * SLOW
    works(server)
