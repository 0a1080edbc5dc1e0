# SPDX-License-Identifier: Apache-2.0
"""The protocol as the API server speaks it: replies, keep-alive, routes, TLS versions, listeners, log lines."""
import json
import socket
import ssl

import pytest

from lib import reviews
from lib.pods import ask, container, pod


def body_of(**kw):
    return json.dumps(reviews.review(reviews.default_resources(pod(**kw)))).encode()


def test_mutate_and_validate(server):
    got = server.review("/mutate", reviews.review(reviews.default_resources(pod())))
    assert got["allowed"] and got["pod"]
    stored = reviews.stored(got["pod"])
    assert server.review("/validate", reviews.review(stored))["allowed"]
    assert server.review("/validate", reviews.delete_review(stored, 0))["allowed"]


@pytest.mark.parametrize("query", ["", "?timeout=10s", "?timeout=1s", "?timeout=30s", "?other=1", "?timeout=", "?timeout=x",
                                   "?timeout=-5s", "?timeout=999999999999h"])
def test_query_of_any_kind(server, query):
    status, _, data = server.client.request("POST", "/mutate" + query, body_of())
    assert status in (200, 400), data
    if query in ("", "?timeout=10s", "?timeout=1s", "?timeout=30s", "?other=1"):
        assert status == 200 and json.loads(data)["response"]["allowed"]


def test_keep_alive(server):
    client = server.new_client()
    ports = set()
    for _ in range(5):
        status, headers, _ = client.request("POST", "/mutate", body_of())
        assert status == 200 and headers.get("connection", "").lower() != "close"
        assert int(headers["content-length"]) > 0
        ports.add(client.connection.sock.getsockname()[1])
    client.close()
    assert len(ports) == 1


def test_content_type_with_parameters(server):
    for kind in ("application/json", "application/json; charset=utf-8", "Application/JSON"):
        status, _, data = server.client.request("POST", "/mutate", body_of(), {"Content-Type": kind})
        assert status == 200, data


def test_expect_100_continue(server):
    client = server.new_client()
    status, _, _ = client.request("POST", "/mutate", body_of(), {"Expect": "100-continue"})
    client.close()
    assert status == 200


def test_accept_gzip_is_answered_readably(server):
    status, headers, data = server.client.request("POST", "/mutate", body_of(), {"Accept-Encoding": "gzip"})
    assert status == 200 and headers.get("content-encoding", "identity") == "identity" and json.loads(data)


def test_other_paths_and_methods(server):
    for path in ("/", "/mutate/", "/Mutate", "/metrics", "/v1/pool", "/mutate/x", "/../mutate"):
        assert server.client.request("POST", path, body_of())[0] == 404, path
    for path in ("/mutate", "/validate"):
        for method in ("GET", "PUT", "DELETE", "PATCH", "HEAD"):
            status, headers, _ = server.new_client().request(method, path)
            assert status == 405 and headers["allow"] == "POST", (method, path, status)


def test_plain_listener(server):
    for path in ("/livez", "/readyz"):
        assert server.plain_get(path)[0] == 200
    status, text = server.plain_get("/metrics")
    assert status == 200 and "# TYPE" in text and "# HELP" in text
    assert all(line.startswith(("#", "poolgate_", "process_")) for line in text.splitlines() if line)
    for path in ("/mutate", "/v1/pool", "/"):
        assert server.plain_get(path, method="POST", body=b"{}")[0] in (404, 405)


def test_metrics_count(server):
    before = server.metrics()
    server.review("/mutate", reviews.review(reviews.default_resources(pod())))
    after = server.metrics()
    assert any(after[k] == before.get(k, 0) + 1 for k in after), "no counter moved by one"


def test_admin_listener_is_loopback_only(server):
    assert "servers" in server.pool() or isinstance(server.pool(), list)
    addresses = [a[4][0] for a in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    for address in addresses:
        if not address.startswith("127."):
            with pytest.raises(OSError):
                socket.create_connection((address, server.admin), timeout=2)


@pytest.mark.parametrize("version,alpn", [(ssl.TLSVersion.TLSv1_2, None), (ssl.TLSVersion.TLSv1_3, None),
                                          (ssl.TLSVersion.TLSv1_3, ["http/1.1"]), (ssl.TLSVersion.TLSv1_3, ["h2", "http/1.1"])])
def test_tls_versions(server, version, alpn):
    context = ssl.create_default_context(cafile=server.cert)
    context.minimum_version = context.maximum_version = version
    if alpn:
        context.set_alpn_protocols(alpn)
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as raw:
        with context.wrap_socket(raw, server_hostname="localhost") as tls:
            assert tls.selected_alpn_protocol() in (None, "http/1.1")
            body = body_of()
            tls.sendall(b"POST /mutate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                        b"Content-Length: %d\r\n\r\n" % len(body) + body)
            assert tls.recv(12) == b"HTTP/1.1 200"


def test_big_review(server):
    """Two times 3 MiB, as an UPDATE of the largest object that the API takes."""
    p = reviews.stored(reviews.default_resources(pod(switch=None, annotations={"x": "y" * (3 << 20)})))
    got = server.review("/mutate", reviews.review(p, "UPDATE", old=p))
    assert got["allowed"] and got["pod"] is None


def test_one_line_per_decision(server):
    review = reviews.review(reviews.default_resources(pod(name="logged-pod")))
    at = len(server.log())
    server.review("/mutate", review)
    assert server.wait_log(review["request"]["uid"], since=at)
    lines = [line for line in server.log()[at:].splitlines() if review["request"]["uid"] in line]
    assert len(lines) == 1 and "logged-pod" in lines[0]
    assert "train.py" not in server.log()[at:], "the pod's words have no place in the log"
    review = reviews.review(reviews.default_resources(pod(container(resources=ask("0")), name="refused-pod")))
    at = len(server.log())
    got = server.review("/mutate", review)
    assert not got["allowed"] and server.wait_log(review["request"]["uid"], since=at)
    assert "Invalid" in server.log()[at:]
