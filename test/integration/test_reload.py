# SPDX-License-Identifier: Apache-2.0
"""Reload by SIGHUP and by changed files: build, verify, swap. What is broken leaves the old in force, and a metric says so."""
import json
import os
import shutil
import signal
import socket
import ssl

import pytest

from lib import reviews
from lib.pods import pod
from lib.server import make_pair, wait_until

SERVER = """---
apiVersion: poolgate.io/v1alpha1
kind: GPUServer
metadata: {name: gpu-new}
spec:
  address: 10.0.0.1:56001
  gpus: [{model: NVIDIA A100, memory: 40Gi, count: 4}]
"""


@pytest.fixture(name="server")
def fixture_server(fresh):
    return fresh(args=["--reload-interval", "200ms"])


def replace_file(path, text):
    """As careful people do it: whole, by rename."""
    with open(path + ".new", "w" if isinstance(text, str) else "wb") as f:
        f.write(text)
    os.rename(path + ".new", path)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def pool_has(server, name):
    return name in json.dumps(server.pool())


def reload_errors(server):
    return sum(v for k, v in server.metrics().items() if "reload" in k and ("fail" in k or "error" in k))


def fingerprint(server):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as raw, context.wrap_socket(raw) as tls:
        return tls.getpeercert(True)


def works(server):
    got = server.new_client().review("/mutate", reviews.review(reviews.default_resources(pod())))
    assert got["allowed"] and got["pod"]


@pytest.mark.parametrize("how", ["signal", "file"])
def test_pool_grows(server, how):
    assert not pool_has(server, "gpu-new")
    replace_file(server.path("pool.yaml"), read(server.path("pool.yaml")) + SERVER)
    if how == "signal":
        server.signal(signal.SIGHUP)
    assert wait_until(lambda: pool_has(server, "gpu-new"), 10), server.log()[-1500:]
    works(server)


@pytest.mark.parametrize("text", ["kind: [", "kind: GPUServer\n", SERVER.replace("40Gi", "forty"), SERVER.replace("count: 4", "count: -1"),
                                  SERVER + SERVER, SERVER.replace("gpus:", "gpuz:")])
def test_bad_pool_leaves_the_old(server, text):
    before, at = reload_errors(server), len(server.log())
    replace_file(server.path("pool.yaml"), text)
    server.signal(signal.SIGHUP)
    assert wait_until(lambda: reload_errors(server) > before, 10), server.log()[at:]
    assert pool_has(server, "gpu-01") and not pool_has(server, "gpu-new")
    assert "pool.yaml" in server.log()[at:], "the log does not name the file"
    works(server)
    replace_file(server.path("pool.yaml"), SERVER)
    server.signal(signal.SIGHUP)
    assert wait_until(lambda: pool_has(server, "gpu-new"), 10), "a good file after a bad one"


def test_missing_pool_leaves_the_old(server):
    before = reload_errors(server)
    os.unlink(server.path("pool.yaml"))
    server.signal(signal.SIGHUP)
    assert wait_until(lambda: reload_errors(server) > before, 10)
    assert pool_has(server, "gpu-01")
    works(server)


def test_new_client_in_the_catalogue(server):
    review = reviews.review(reviews.default_resources(pod(version="460")))
    assert not server.review("/mutate", review)["allowed"]
    replace_file(server.path("catalogue.yaml"), read(server.path("catalogue.yaml")) + """
  - BitfusionVersion: "460"
    OSVersion: ubuntu20
    BinaryPath: /bitfusion/new/usr/bin/bitfusion
    EnvVariable: /bitfusion/new/opt/bitfusion/lib/
""")
    server.signal(signal.SIGHUP)
    assert wait_until(lambda: server.review("/mutate", review)["allowed"], 10), server.log()[-1500:]
    got = server.review("/mutate", review)
    assert got["pod"]["spec"]["containers"][0]["command"][0] == "/bitfusion/new/usr/bin/bitfusion"


@pytest.mark.parametrize("name", ["catalogue.yaml", "sidecar.yaml"])
def test_bad_profile_files_leave_the_old(server, name):
    before, at = reload_errors(server), len(server.log())
    replace_file(server.path(name), "x: [")
    server.signal(signal.SIGHUP)
    assert wait_until(lambda: reload_errors(server) > before, 10)
    assert name in server.log()[at:]
    works(server)


@pytest.mark.parametrize("how", ["signal", "file"])
def test_new_certificate(server, how):
    old = fingerprint(server)
    kept = server.new_client()
    assert kept.request("POST", "/mutate", b"")[0] == 400
    cert, key = make_pair(server.dir, "next")
    os.rename(key, server.key)
    os.rename(cert, server.cert)
    if how == "signal":
        server.signal(signal.SIGHUP)
    assert wait_until(lambda: fingerprint(server) != old, 10), server.log()[-1500:]
    assert kept.request("POST", "/mutate", b"")[0] == 400, "an open connection was lost"
    works(server)


def torn(server):
    replace_file(server.cert, read(server.cert)[:200])


def empty(server):
    replace_file(server.cert, "")


def other_key(server):
    cert, key = make_pair(server.dir, "other")
    shutil.copy(key, server.key)


def no_key(server):
    os.unlink(server.key)


def garbage(server):
    replace_file(server.key, os.urandom(300))


@pytest.mark.parametrize("breaks", [torn, empty, other_key, no_key, garbage])
def test_bad_certificate_keeps_the_old(server, breaks):
    old, before, at = fingerprint(server), reload_errors(server), len(server.log())
    breaks(server)
    server.signal(signal.SIGHUP)
    assert wait_until(lambda: reload_errors(server) > before, 10), server.log()[at:]
    assert fingerprint(server) == old
    assert "server.crt" in server.log()[at:] or "server.key" in server.log()[at:]
    works(server)


def test_claims_survive_a_reload(server):
    got = server.review("/mutate", reviews.review(reviews.default_resources(pod())))
    stored = reviews.stored(got["pod"], name="survivor")
    assert server.review("/validate", reviews.review(stored))["allowed"]
    replace_file(server.path("pool.yaml"), read(server.path("pool.yaml")) + SERVER)
    server.signal(signal.SIGHUP)
    assert wait_until(lambda: pool_has(server, "gpu-new"), 10)
    assert pool_has(server, "survivor")


def test_many_reloads_cost_no_memory(server):
    for _ in range(20):
        server.signal(signal.SIGHUP)
        works(server)
    before = server.rss_kib()
    for _ in range(60):
        server.signal(signal.SIGHUP)
        works(server)
    assert server.grew_less(before, 4096)


def test_all_settings_that_wait_for_a_restart_are_said(fresh):
    server = fresh(start=False)
    head = "apiVersion: poolgate.io/v1alpha1\nkind: Config\nreloadInterval: 200ms\n"
    replace_file(server.path("config.yaml"), head)
    server.start([*server.argv(), "--config", server.path("config.yaml")])
    replace_file(server.path("config.yaml"), head + "workers: 3\nmaxConnections: 100\nlog: {level: debug}\n")
    server.wait_log("log.level, workers, maxConnections")
    works(server)
