# SPDX-License-Identifier: Apache-2.0
"""SIGTERM under load: readiness goes off, everything that was asked is answered, exit status 0."""
import http.client
import json
import signal
import socket
import ssl
import threading
import time

import pytest

from lib import reviews
from lib.pods import pod
from lib.server import SLOW, wait_until

BODY = json.dumps(reviews.review(reviews.default_resources(pod()))).encode()


def load(server, stop, failures, counts):
    """Post until told to stop or until the server takes no new connection; anything else that goes wrong is a failure."""
    client = server.new_client()
    n = closing = 0
    while not stop.is_set():
        fresh = client.connection.sock is None
        try:
            client.connection.request("POST", "/mutate?timeout=5s", BODY, {"Content-Type": "application/json"})
            response = client.connection.getresponse()
            data = response.read()
        except ConnectionRefusedError:
            break
        except (OSError, http.client.HTTPException, ssl.SSLError) as error:
            if not fresh or stop.draining:
                # A request on a kept connection may meet the end of the drain delay: the API server has moved on by then.
                if time.monotonic() - stop.since > stop.delay:
                    break
            failures.append(repr(error))
            break
        n += 1
        if response.status != 200 or not json.loads(data)["response"]["allowed"]:
            failures.append(f"{response.status} {data[:100]!r}")
        if (response.getheader("Connection") or "").lower() == "close":
            closing += 1
            client.close()
    counts.append((n, closing))
    client.close()


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_no_failed_request(fresh, sig):
    server = fresh(args=["--drain-delay", "1s"])
    stop = threading.Event()
    stop.draining, stop.since, stop.delay = False, 0, 0.9
    failures, counts = [], []
    threads = [threading.Thread(target=load, args=(server, stop, failures, counts)) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    stop.since, stop.draining = time.monotonic(), True
    server.signal(sig)
    time.sleep(0.3)
    assert server.plain_get("/readyz")[0] == 503, "readiness must go off first"
    assert server.plain_get("/livez")[0] == 200
    server.process.wait(15 * SLOW)
    ended = time.monotonic()
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert server.process.returncode == 0, server.log()[-2000:]
    assert ended - stop.since >= 0.9, "the drain delay was cut short"
    assert sum(n for n, _ in counts) > 10 and sum(c for _, c in counts) > 0, counts


def test_second_signal_does_not_wait(fresh):
    server = fresh(args=["--drain-delay", "30s"])
    server.signal(signal.SIGTERM)
    time.sleep(0.3)
    server.signal(signal.SIGTERM)
    server.process.wait(10 * SLOW)
    assert server.process.returncode in (0, 1, -signal.SIGTERM)


def test_idle_connections_do_not_hold_it(fresh):
    server = fresh(args=["--drain-delay", "0s"])
    clients = [server.new_client() for _ in range(5)]
    for client in clients:
        assert client.request("POST", "/mutate", BODY)[0] == 200
    began = time.monotonic()
    server.signal(signal.SIGTERM)
    server.process.wait(10 * SLOW)
    assert server.process.returncode == 0 and time.monotonic() - began < 5 * SLOW


def test_newcomers_are_refused_at_once(fresh):
    """While the last request is waited for, nobody accepts any more. Who comes meanwhile must not hang until the end: it would be the API
    server's whole patience, instead of a try elsewhere."""
    server = fresh(args=["--drain-delay", "0s"])
    slow = server.new_client()
    slow.connection.putrequest("POST", "/mutate?timeout=10s")
    slow.connection.putheader("Content-Type", "application/json")
    slow.connection.putheader("Content-Length", str(len(BODY)))
    slow.connection.endheaders(BODY[:100])
    assert wait_until(lambda: server.metrics()["poolgate_http_in_flight"] == 1)
    server.signal(signal.SIGTERM)
    assert server.wait_log("draining")
    refused = None
    began = time.monotonic()
    while not refused and time.monotonic() - began < 5 * SLOW:
        try:
            socket.create_connection(("127.0.0.1", server.port), timeout=5 * SLOW).close()
        except ConnectionResetError:
            pass  # The kernel had taken the connection when the listener was closed, and says so at once, too.
        except OSError as error:
            refused = error
    assert isinstance(refused, ConnectionRefusedError), repr(refused)
    slow.connection.send(BODY[100:])
    response = slow.connection.getresponse()
    assert response.status == 200 and json.loads(response.read())["response"]["allowed"]
    server.process.wait(10 * SLOW)
    assert server.process.returncode == 0
