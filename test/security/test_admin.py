# SPDX-License-Identifier: Apache-2.0
"""The admin listener names tenants' pods and ends claims: whom it answers. Host headers are tabled in test/unit/test_admin_guard.c."""
import http.client
import json
import os
import subprocess

import pytest
import yaml

from lib.server import PROGRAM, ROOT


def ask(server, method, path, host=None, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.admin, timeout=10)
    try:
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", host or f"127.0.0.1:{server.admin}")
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def test_loopback_alone(server):
    """By default, and in what is shipped, which opens no port for it either."""
    said = subprocess.run([PROGRAM, "serve", "--check", "--tls-cert", server.cert, "--tls-key", server.key, "--client-catalogue",
                           server.path("catalogue.yaml"), "--sidecar-config", server.path("sidecar.yaml")],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False).stdout.decode()
    assert "127.0.0.1:8081" in said, said
    with open(os.path.join(ROOT, "manifests/base/config/poolgate.yaml"), encoding="utf-8") as f:
        assert yaml.safe_load(f).get("listenAdmin", "127.0.0.1:8081") == "127.0.0.1:8081"
    for name in ("deployment", "service", "networkpolicy"):
        with open(os.path.join(ROOT, f"manifests/base/{name}.yaml"), encoding="utf-8") as f:
            assert "8081" not in f.read() and "admin" not in f.read()
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection("127.0.0.2", server.admin, timeout=5).connect()


@pytest.mark.parametrize("path, method", [("/", "GET"), ("/v1/pool", "GET"), ("/v1/release", "POST")])
def test_foreign_names(server, path, method):
    """A name that somebody has pointed at 127.0.0.1 (DNS rebinding) gets nothing on any path, and no cross-site leave."""
    body = json.dumps({"uid": "x"}).encode() if method == "POST" else None
    for host in ("evil.example", f"evil.example:{server.admin}", "localhost.evil.example", "127.0.0.1.evil.example"):
        status, headers, text = ask(server, method, path, host, body, Content_Type="application/json", Origin=f"http://{host}")
        assert status == 421, f"{host}: {status} {text}"
        assert not [h for h in headers if h.startswith("access-control-")]


def test_pages_of_other_sites(server):
    """A browser's page may send forms and texts anywhere without leave: those are not taken; what would need leave gets none."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        status, headers, _ = ask(server, "POST", "/v1/release", None, b'{"uid":"x"}', Content_Type=kind, Origin="http://evil.example")
        assert status == 415 and not [h for h in headers if h.startswith("access-control-")], kind
    status, headers, _ = ask(server, "OPTIONS", "/v1/release", None, None, Origin="http://evil.example",
                             Access_Control_Request_Method="POST", Access_Control_Request_Headers="content-type")
    assert status == 405 and not [h for h in headers if h.startswith("access-control-")]
    status, headers, _ = ask(server, "GET", "/")
    assert status == 200 and "frame-ancestors 'none'" in headers["content-security-policy"]


def test_not_on_the_other_listeners(server):
    for path in ("/", "/v1/pool"):
        assert server.plain_get(path)[0] == 404
        assert server.new_client().request("GET", path)[0] == 404
