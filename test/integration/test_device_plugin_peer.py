# SPDX-License-Identifier: Apache-2.0
"""poolgate-device-plugin and a peer that is the kubelet's own gRPC: grpc-go and the messages of Kubernetes 1.36, pinned in test/e2e/go.
Needs Go to build the peer; the API server is one that knows a single GPUServer."""
import http.server
import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import pytest
from lib import server as servers

MODULES = os.path.join(servers.ROOT, "test/e2e/go")
PROGRAM = os.path.join(os.path.dirname(servers.PROGRAM), "poolgate-device-plugin")
UNITS = 20000
WAIT_S = 20 * servers.SLOW


@pytest.fixture(scope="module", name="peer_program")
def fixture_peer_program():
    if not shutil.which("go"):
        pytest.skip("no Go here to build the peer with")
    env = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly", "GOWORK": "off", "CGO_ENABLED": "0"}
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "peer")
        done = subprocess.run(["go", "build", "-p", "2", "-trimpath", "-ldflags", "-s -w", "-o", file, "./peer"], cwd=MODULES, env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert done.returncode == 0, done.stdout
        yield file


def table(fit):
    """A GPUServer as a line, as the API server prints it for kubectl."""
    return {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": str(time.monotonic_ns())},
            "columnDefinitions": [{"name": "Name", "type": "string"}, {"name": "Fit", "type": "integer"}],
            "rows": [{"cells": ["gpu-a", fit]}]}


class Api:
    """Lists one server, and tells every watch when its number of fit GPUs changes."""

    def __init__(self, fit):
        self.fit, self.watches, self.lock = fit, [], threading.Lock()
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                if "watch=true" in self.path:
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    self.watch()
                    return
                body = json.dumps(table(api.fit)).encode()
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def watch(self):
                mine = queue.Queue()
                with api.lock:
                    mine.put(api.fit)
                    api.watches.append(mine)
                try:
                    while (fit := mine.get()) is not None:
                        line = json.dumps({"type": "MODIFIED", "object": table(fit)}).encode() + b"\n"
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                        self.wfile.flush()
                except OSError:
                    pass

            def log_message(self, format, *args):  # pylint: disable=redefined-builtin
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def tell(self, fit):
        with self.lock:
            self.fit = fit
            for one in self.watches:
                one.put(fit)

    def close(self):
        self.tell(None)
        self.server.shutdown()
        self.server.server_close()


class Plugin:
    """The program, with a folder for its socket."""

    def __init__(self, api, *args):
        self.folder = tempfile.mkdtemp()
        self.socket = os.path.join(self.folder, "bitfusion.sock")
        config = os.path.join(self.folder, "kubeconfig")
        with open(config, "w", encoding="ascii") as f:
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "a",
                       "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
                       "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{api.server.server_port}"}}],
                       "users": [{"name": "a", "user": {"token": "t"}}]}, f)
        self.log = open(os.path.join(self.folder, "log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen([PROGRAM, "--socket", self.socket, "--kubeconfig", config, "--status", "none", *args],
                                        stdout=self.log, stderr=subprocess.STDOUT)
        until = time.monotonic() + WAIT_S
        while not os.path.exists(self.socket):
            assert self.process.poll() is None and time.monotonic() < until, self.text()
            time.sleep(0.01)

    def text(self):
        with open(self.log.name, encoding="utf-8") as f:
            return f.read()

    def rss_kb(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))

    def cpu_ticks(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as f:
            return sum(int(n) for n in f.read().rsplit(")", 1)[1].split()[11:13])

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder)


class Peer:
    """The lines that it prints, as they come."""

    def __init__(self, program, socket):
        self.process = subprocess.Popen([program, socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        self.seen = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def until(self, what, wanted=None):
        """The next value of a kind; with wanted, the next that is so."""
        end = time.monotonic() + WAIT_S
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                line = None
            assert line is not None, f"no {what} {wanted or ''} after {self.seen[-5:]}"
            self.seen.append(line)
            if what in line and wanted in (None, line[what]):
                return line[what]

    def first(self, what):
        return next(line[what] for line in self.seen if what in line)

    def close(self):
        self.process.stdin.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(name="api")
def fixture_api():
    one = Api(fit=8)
    yield one
    one.close()


@pytest.fixture(name="plugin")
def fixture_plugin(api):
    one = Plugin(api, "--units", str(UNITS))
    yield one
    one.close()


@pytest.fixture(name="peer")
def fixture_peer(peer_program, plugin):
    one = Peer(peer_program, plugin.socket)
    yield one
    one.close()


def test_what_a_kubelet_asks_and_what_it_never_would(peer, plugin):
    """If grpc-go does not take one of our answers for what it is, a kubelet would not either."""
    peer.until("done")
    assert peer.first("info") == {"type": "DevicePlugin", "name": "bitfusion.io/gpu", "endpoint": plugin.socket, "versions": ["v1beta1"]}
    assert peer.first("notified") == "OK"
    assert peer.first("options")["told"] == "OK"
    assert peer.first("list")["devices"] == UNITS
    assert peer.first("allocate") == {"told": "OK", "containers": 1}
    assert peer.first("preferred").startswith("Unimplemented: ")
    assert peer.first("prestart") == "OK"
    assert peer.first("many") == "OK"
    assert peer.first("unknown") == "Unimplemented: there is no such method"
    assert peer.first("compressed").startswith("Unimplemented: ")
    assert peer.first("oversize") == "ResourceExhausted: the message is longer than 4 MiB"
    # These reach the plugin: what it thinks of them is its own, but an answer it is.
    for told in (peer.first("long"), peer.first("odd")):
        assert told.split(":")[0] in ("OK", "InvalidArgument"), told
    assert peer.first("second") == "OK"
    assert peer.first("after") == "OK"
    assert plugin.process.poll() is None


def test_the_pool_comes_and_goes(peer, plugin, api):
    peer.until("done")
    if {"list": {"devices": UNITS, "healthy": UNITS}} not in peer.seen:
        peer.until("list", {"devices": UNITS, "healthy": UNITS})
    api.tell(0)
    peer.until("list", {"devices": UNITS, "healthy": 0})
    api.tell(4)
    peer.until("list", {"devices": UNITS, "healthy": UNITS})
    plugin.process.send_signal(signal.SIGTERM)
    peer.until("list", {"devices": UNITS, "healthy": 0})
    assert peer.until("ended").startswith("Unavailable")
    assert plugin.process.wait(WAIT_S) == 0, plugin.text()
    assert not os.path.exists(plugin.socket)


def test_what_it_costs(peer, plugin):
    """20 000 devices, a kubelet that listens, a pool that rests: 6 MB and no time at all."""
    peer.until("done")
    if servers.SLOW > 1:  # an instrumented program's say nothing
        return
    time.sleep(1)
    before = plugin.cpu_ticks()
    time.sleep(3)
    assert plugin.cpu_ticks() == before
    assert plugin.rss_kb() <= 6144
