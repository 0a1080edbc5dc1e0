# SPDX-License-Identifier: Apache-2.0
"""The servers that `make bench` compares. Each runs on one core, in a folder of its own, with the same key pair, TLS 1.3 with
AES-128-GCM (what poolgate prefers; any other cipher would make the others slower), no session tickets, no log of requests."""
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time

import harness
from lib import server as test_server

ROOT = harness.ROOT
PROGRAMS = os.path.join(ROOT, os.environ.get("BENCH") or "build/release/test/bench")
SERVER_CORE, CLIENT_CORE = 0, 1
START_S = 20
NGINX = """
daemon off; worker_processes 1; pid {dir}/pid; error_log {dir}/error.log; worker_rlimit_nofile 4096;
events {{ worker_connections 2048; }}
http {{
    access_log off; client_body_buffer_size 64k; client_max_body_size 8m; keepalive_requests 1000000000; keepalive_timeout 120s;
    client_body_temp_path {dir}/t1; proxy_temp_path {dir}/t2; fastcgi_temp_path {dir}/t3; uwsgi_temp_path {dir}/t4;
    scgi_temp_path {dir}/t5;
    server {{
        listen 127.0.0.1:{port} ssl backlog=1024; ssl_certificate {cert}; ssl_certificate_key {key};
        ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256; ssl_session_tickets off; ssl_session_cache off;
        location / {{ default_type application/json; set $part "{part}"; return 200 "{reply}"; }}
    }}
}}
"""


def pinned(core, argv):
    return ["taskset", "-c", str(core), *argv]


def children(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]
    return []


class Peer:
    """A program that serves HTTPS on self.port; argv() says how it is started. path is what is posted to."""
    path = "/mutate"
    environment = None
    documents = None  # what is posted to it

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="poolgate-bench-")
        self.cert, self.key = test_server.make_pair(self.dir)
        self.port = test_server.free_ports(1)[0]
        self.process = None

    def launch(self):
        """Start it, and do not wait for it."""
        with open(os.path.join(self.dir, "log"), "ab") as log:
            self.process = subprocess.Popen(pinned(SERVER_CORE, self.argv()), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=self.environment, cwd=self.dir)

    def first_reply(self, body):
        """Launch it; seconds from then to its first 200 over TLS."""
        began = time.perf_counter()
        self.launch()
        while True:
            try:
                connection = harness.connect(self.port)
                harness.post_raw(connection, self.path, body)
                break
            except ConnectionError:
                if self.process.poll() is not None or time.perf_counter() - began > START_S:
                    raise SystemExit(f"{type(self).__name__} did not come up:\n{self.log()}") from None
                time.sleep(0.0002)
        took = time.perf_counter() - began
        connection.close()
        return took

    def pids(self):
        return [self.process.pid, *children(self.process.pid)]

    def cpu_s(self):
        """CPU seconds of all its processes so far, by their clocks."""
        return sum(time.clock_gettime(~pid << 3 | 2) for pid in self.pids())

    def resident_mb(self):
        total = 0
        for pid in self.pids():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/status", encoding="ascii") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))
        return total * 1024 / 1e6

    def log(self):
        with open(os.path.join(self.dir, "log"), "rb") as file:
            return file.read().decode("utf-8", "replace")[-3000:]

    def close(self):
        try:
            if self.process and self.process.poll() is None:
                self.process.send_signal(signal.SIGTERM)
                try:
                    self.process.wait(10)
                except subprocess.TimeoutExpired:
                    self.process.kill()
                    self.process.wait()
        finally:
            shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Fixed(Peer):
    """Answers with so many bytes, whatever it is asked: poolgate's transport alone."""

    def __init__(self, length):
        super().__init__()
        self.length = length

    def argv(self):
        return [os.path.join(PROGRAMS, "fixed"), f"127.0.0.1:{self.port}", self.cert, self.key, str(self.length)]


class Reader(Fixed):
    """The same once it has read the body as JSON, as poolgate reads it: the least that a review can cost."""

    def argv(self):
        return [*super().argv()[:-1], f"+{self.length}"]


class Nginx(Fixed):
    """The same by nginx, one worker: the unit of all ratios."""

    def argv(self):
        config = os.path.join(self.dir, "nginx.conf")
        parts = self.length // 3500 + 1  # one word of its configuration ends at 4096
        reply = "${part}" * parts + "x" * (self.length % parts)
        with open(config, "w", encoding="ascii") as file:
            file.write(NGINX.format(dir=self.dir, port=self.port, cert=self.cert, key=self.key, reply=reply,
                                    part="x" * (self.length // parts)))
        return ["/usr/sbin/nginx", "-p", self.dir, "-c", config, "-e", os.path.join(self.dir, "error.log")]


class Go(Peer):
    """test/bench/peer."""

    def argv(self):
        return [os.path.join(PROGRAMS, "peer", "peer"), f"127.0.0.1:{self.port}", self.cert, self.key]


class Poolgate(Peer):
    """`poolgate serve`, its pool in a file. It tells of no review, as nginx does without an access log; LOUD: of each, as it comes."""
    level = "warn"

    def __init__(self):
        super().__init__()
        self.server = harness.new_server()
        self.server.cert, self.server.key, self.server.port = self.cert, self.key, self.port
        self.server.args += ["--log-level", self.level]
        self.environment = self.server.environment()

    def argv(self):
        return self.server.argv()

    def close(self):
        super().close()
        self.server.close()


class Validate(Poolgate):
    path = "/validate"


class Loud(Poolgate):
    level = "info"
