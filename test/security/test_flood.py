# SPDX-License-Identifier: Apache-2.0
"""Floods of connections and handshakes: clients that mean it are answered beside them, old ones and new ones, and what it costs has an end.
Addresses other than 127.0.0.1 stand for other pods. docs/security.md, "Floods", has the figures that these tests print with -s."""
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
from lib.server import SLOW, Client, Server, wait_until

BODY = json.dumps(reviews.review(reviews.default_resources(pod()))).encode()
HEAD = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY)
HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(32)  # begins a ClientHello of 512 bytes
CROWD, MOST = 300, 128
# Less than the API server has for a handshake. On a machine that does nothing else it is a tenth of a second; when it is busy, the kernel's queue
# of connections overflows, and who is turned away there tries again after one second and then two.
PATIENCE = 8 * SLOW


@pytest.fixture(scope="module", autouse=True)
def fixture_descriptors():
    old = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(old[0], min(old[1], 2 * CROWD + 500)), old[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, old)


@pytest.fixture(name="server")
def fixture_server():
    """One for each flood, so that none begins in the ruins of another."""
    with Server(args=["--max-connections", str(MOST)]) as one:
        yield one
        assert one.alive() and one.stop() == 0, one.log()[-3000:]


def context():
    one = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    one.check_hostname, one.verify_mode = False, ssl.CERT_NONE
    return one


def plain(server, address):
    return socket.create_connection(("127.0.0.1", server.port), timeout=20 * SLOW, source_address=(address, 0))


def half(server, address, _):
    """The handshake is begun and never finished."""
    one = plain(server, address)
    one.sendall(HELLO)
    return one


def silent(server, address, tls):
    """After the handshake nothing comes."""
    return tls.wrap_socket(plain(server, address))


def once(server, address, tls):
    """One request, answered, and nothing more: what an API server's connections look like."""
    one = tls.wrap_socket(plain(server, address))
    one.sendall(b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
    assert one.recv(100).startswith(b"HTTP/1.1 404")
    return one


def part(server, address, tls):
    """A body that stops in its middle."""
    one = tls.wrap_socket(plain(server, address))
    one.sendall(HEAD + BODY[:100])
    return one


def deaf(server, address, tls):
    """Asks on and on and reads no reply: what was answered waits, and is no request that is being answered."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    raw.settimeout(20 * SLOW)
    raw.bind((address, 0))
    raw.connect(("127.0.0.1", server.port))
    one = tls.wrap_socket(raw)
    one.settimeout(0.3)
    try:
        one.sendall((HEAD + BODY) * 120)
    except TimeoutError:
        pass  # both ways are full
    return one


class Crowd:
    """Opens connections of one kind without end and holds the last ones, in threads of its own."""

    def __init__(self, server, kind, address, threads=2):
        self.server, self.kind, self.address, self.tls = server, kind, address, context()
        self.stop, self.held, self.opened = threading.Event(), [], 0
        self.threads = [threading.Thread(target=self.run) for _ in range(threads)]

    def run(self):
        mine = []
        while not self.stop.is_set():
            try:
                mine.append(self.kind(self.server, self.address, self.tls))
                self.opened += 1
            except (OSError, AssertionError):
                time.sleep(0.001)  # cut at once
            while len(mine) > CROWD // len(self.threads):
                mine.pop(0).close()
        self.held += mine

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        for one in self.held:
            one.close()


def timed(function):
    began = time.monotonic()
    function()
    return time.monotonic() - began


def ask(client):
    got = client.review("/mutate", BODY)
    assert got["allowed"] and got["pod"]


def newcomer(server):
    client = Client(server.port, timeout=30 * SLOW)
    try:
        ask(client)
    finally:
        client.close()


def watch(server, kept, seconds):
    """How long old and new clients waited at most, the connections seen, the share of a core."""
    cpu, began = server.cpu_seconds(), time.monotonic()
    old, new, most = 0.0, 0.0, 0
    while time.monotonic() - began < seconds:
        old = max(old, max(timed(lambda c=client: ask(c)) for client in kept))
        new = max(new, timed(lambda: newcomer(server)))
        most = max(most, int(server.metric("poolgate_http_connections")))
        time.sleep(0.05)
    return old, new, most, (server.cpu_seconds() - cpu) / (time.monotonic() - began)


@pytest.mark.parametrize("address", ["127.0.0.9", "127.0.0.1"], ids=["another", "same"])
@pytest.mark.parametrize("kind", [half, silent, once, part, deaf])
def test_held_connections(server, kind, address):
    """More than there are places, from another address and from that of the clients themselves (as behind one NAT): all places are
    taken, and still old clients are served and new ones get in."""
    kept = [server.new_client() for _ in range(4)]
    for client in kept:
        ask(client)
    ports = [client.connection.sock.getsockname()[1] for client in kept]
    before = server.rss_kib()
    with Crowd(server, kind, address) as crowd:
        assert wait_until(lambda: server.metric("poolgate_http_displaced_total") > 20, 30), f"{crowd.opened} opened: too few to matter"
        old, new, most, share = watch(server, kept, 1.5)
    grown = server.rss_kib() - before
    print(f"{kind.__name__} {address}: {crowd.opened} opened, {most} at a time, old {old * 1000:.0f} ms, new {new * 1000:.0f} ms, "
          f"{share:.0%} of a core, {grown} KiB more")
    assert old < PATIENCE and new < PATIENCE
    assert most <= MOST
    if address != "127.0.0.1":  # their own address had fewer: none of them was ever cut
        assert ports == [client.connection.sock.getsockname()[1] for client in kept]
    assert server.grew_less(before, 96 * 1024)
    for client in kept:
        client.close()
    assert wait_until(lambda: server.metric("poolgate_http_connections") < 5, 15), "places stayed taken"
    newcomer(server)


def test_full_handshakes(server):
    """As many whole handshakes as four programs can do: they have one core at most, since one thread does them all, and a client waits for
    those before it, which are at most as many as there are places."""
    kept = [server.new_client() for _ in range(4)]
    accepted = server.metric("poolgate_http_accepted_total")
    floods = [subprocess.Popen(["openssl", "s_time", "-connect", f"127.0.0.1:{server.port}", "-new", "-time", "8"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(4)]
    try:
        time.sleep(0.5)
        old, new, most, share = watch(server, kept, 3)
        assert all(one.poll() is None for one in floods), "the flood ended before it was measured"
    finally:
        for one in floods:
            one.kill()
            one.wait()
    done = server.metric("poolgate_http_accepted_total") - accepted
    print(f"full: {done:.0f} handshakes, {most} at a time, old {old * 1000:.0f} ms, new {new * 1000:.0f} ms, {share:.0%} of a core")
    assert done > 50, "no flood"
    assert old < PATIENCE and new < PATIENCE
    assert share < 1.15
    newcomer(server)


def test_descriptors_come_back(server):
    """After a flood everything is as before it."""
    newcomer(server)
    folder = f"/proc/{server.process.pid}/fd"
    before = len(os.listdir(folder))
    with Crowd(server, half, "127.0.0.9"):
        assert wait_until(lambda: server.metric("poolgate_http_displaced_total") > 20, 30)
    assert wait_until(lambda: len(os.listdir(folder)) <= before, 15)
