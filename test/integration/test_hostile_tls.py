# SPDX-License-Identifier: Apache-2.0
"""Clients that mean harm, or that are broken: none of them may cost a core, a slot for ever, or the server."""
import json
import os
import socket
import ssl
import threading
import time

import pytest

from lib import reviews
from lib.pods import pod
from lib.server import SLOW

BODY = json.dumps(reviews.review(reviews.default_resources(pod()))).encode()
HEAD = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY)


def tls(server, timeout=20):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(socket.create_connection(("127.0.0.1", server.port), timeout=timeout))


def answers(server):
    got = server.new_client().review("/mutate", BODY)
    assert got["allowed"] and got["pod"]


def drip(connection, data, pause, seconds):
    """Send byte by byte; the seconds until the other side closed, or None."""
    began = time.monotonic()
    connection.settimeout(pause)
    for i in range(len(data)):
        if time.monotonic() - began > seconds:
            return None
        try:
            connection.sendall(data[i:i + 1])
            if not connection.recv(4096):
                return time.monotonic() - began
        except (ssl.SSLWantReadError, TimeoutError, socket.timeout):
            continue
        except OSError:
            return time.monotonic() - began
    return None


def test_slow_clients_and_half_open_handshakes(server):
    """Headers, then a body, at one byte in 0.4 s, beside 300 silent connections and 50 that stop in the handshake."""
    closed = {}

    def loris(name, head, data):
        connection = tls(server)
        connection.sendall(head)
        closed[name] = drip(connection, data, 0.4, 25 * SLOW)
        connection.close()

    threads = [threading.Thread(target=loris, args=("headers", b"POST /mutate HTTP/1.1\r\n", b"X-A: b\r\n" * 100)),
               threading.Thread(target=loris, args=("body", HEAD, BODY))]
    for thread in threads:
        thread.start()
    silent = [socket.create_connection(("127.0.0.1", server.port), timeout=5) for _ in range(250)]
    hello = bytes.fromhex("1603010200010001fc0303") + os.urandom(32)
    for _ in range(50):
        half = socket.create_connection(("127.0.0.1", server.port), timeout=5)
        half.sendall(hello)
        silent.append(half)
    time.sleep(0.5)
    before, began = server.cpu_seconds(), time.monotonic()
    time.sleep(2)
    share = (server.cpu_seconds() - before) / (time.monotonic() - began)
    answers(server)
    for thread in threads:
        thread.join()
    for connection in silent:
        connection.close()
    assert share < 0.05 * SLOW, f"{share:.1%} of a core for 300 half-open handshakes"
    assert closed["headers"] is not None and closed["body"] is not None, f"never cut: {closed}"
    answers(server)


def test_idle_connection_outlives_the_api_servers_limit_in_the_settings(server):
    """A connection that has answered is kept: it is still good after some seconds (the limit is above 90 s)."""
    client = server.new_client()
    assert client.request("POST", "/mutate", BODY)[0] == 200
    port = client.connection.sock.getsockname()[1]
    time.sleep(1)
    assert client.request("POST", "/mutate", BODY)[0] == 200 and client.connection.sock.getsockname()[1] == port


def test_plain_http_on_the_tls_port(server):
    for data in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00" * 64, os.urandom(512), b"\x16\x03\x01\xff\xff" + b"a" * 70000):
        with socket.create_connection(("127.0.0.1", server.port), timeout=15 * SLOW) as raw:
            reply = b""
            try:
                raw.sendall(data)
                raw.shutdown(socket.SHUT_WR)
                while piece := raw.recv(4096):
                    reply += piece
            except OSError:
                pass
            assert not reply.startswith(b"HTTP/1.1 200")
    answers(server)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_old_tls_is_refused(server, version):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        with pytest.raises((ssl.SSLError, ConnectionError)) as caught:
            context.wrap_socket(raw)
    assert "NO_PROTOCOLS" not in str(caught.value), "the client itself would not send it"
    answers(server)


def test_clients_that_vanish(server):
    before = server.rss_kib()
    for i in range(60):
        connection = tls(server)
        connection.sendall((HEAD + BODY)[:len(HEAD) + i * 20])
        if i % 2:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        os.close(connection.detach())
    answers(server)
    assert server.grew_less(before, 20000)


def test_many_at_once(server):
    """More connections than cores, all answered."""
    results = []

    def one():
        client = server.new_client()
        results.append(all(client.request("POST", "/mutate", BODY)[0] == 200 for _ in range(5)))
        client.close()

    threads = [threading.Thread(target=one) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 40


def test_pipelined_requests(server):
    connection = tls(server)
    connection.sendall((HEAD + BODY) * 3)
    data = b""
    while data.count(b"HTTP/1.1 200") < 3:
        piece = connection.recv(65536)
        assert piece, data[-300:]
        data += piece
    connection.close()
