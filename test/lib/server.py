# SPDX-License-Identifier: Apache-2.0
"""Starts the real program on free ports in a folder of its own, and talks to it. Ends what it started by its pid."""
import contextlib
import glob
import http.client
import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time

from . import strict

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, os.environ.get("POOLGATE") or "build/release/poolgate")
DEFAULT_CONFIG = os.path.join(ROOT, "test/golden/default-config")
# Sanitizers cost time, and their memory says nothing.
SANITIZED = bool(os.environ.get("POOLGATE_SAN")) or any(s in PROGRAM for s in ("asan", "tsan"))
SLOW = 10 if SANITIZED or "cover" in PROGRAM else 1


def free_ports(n):
    """Below the range that the kernel takes clients' own ports from, where it may give one away before a server has taken it."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        end = int(f.read().split()[0])
    candidates = random.sample(range(10000, end), 200) if end > 12000 else [0] * n
    sockets = []
    for port in candidates:
        s = socket.socket()
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            s.close()
            continue
        sockets.append(s)
        if len(sockets) == n:
            break
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def openssl(*args):
    subprocess.run(["openssl", *args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_pair(folder, name="server", days=30):
    """A self-signed P-256 pair for localhost: (certificate file, key file)."""
    cert, key = (os.path.join(folder, f"{name}.{kind}") for kind in ("crt", "key"))
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", str(days),
            "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert)
    return cert, key


class Authority:
    """A CA, and certificates that it signs for clients."""

    def __init__(self, folder, name):
        self.folder, self.name = str(folder), name
        self.cert, self.key = (os.path.join(self.folder, f"{name}-ca.{kind}") for kind in ("crt", "key"))
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", f"/CN={name} CA",
                "-addext", "keyUsage=keyCertSign", "-keyout", self.key, "-out", self.cert)
        self.made = 0

    def text(self):
        with open(self.cert, encoding="ascii") as f:
            return f.read()

    def client(self, name, days=30, usage="clientAuth"):
        """(certificate file, key file); days below 0: it ended so long ago."""
        self.made += 1
        cert, key, request, rules = (os.path.join(self.folder, f"{self.name}-{self.made}.{kind}") for kind in ("crt", "key", "csr", "cnf"))
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}", "-keyout", key,
                "-out", request)
        with open(rules, "w", encoding="ascii") as f:
            f.write(f"basicConstraints=CA:FALSE\nextendedKeyUsage={usage}\n")
        openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key, "-CAcreateserial", "-days", str(days), "-extfile", rules,
                "-out", cert)
        return cert, key


class Client:
    """One keep-alive connection over TLS."""

    def __init__(self, port, cafile=None, timeout=10 * SLOW):
        if cafile:
            self.context = ssl.create_default_context(cafile=cafile)
        else:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self.context.check_hostname = False
            self.context.verify_mode = ssl.CERT_NONE
        self.connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=timeout, context=self.context)

    def request(self, method, path, body=None, headers=None):
        head = {"Accept": "application/json, */*", "User-Agent": "kube-apiserver-admission"}
        if body is not None:
            head["Content-Type"] = "application/json"
        head.update(headers or {})
        head = {k: v for k, v in head.items() if v is not None}
        for attempt in (0, 1):
            try:
                self.connection.request(method, path, body=body, headers=head)
                response = self.connection.getresponse()
                data = response.read()
                break
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
                self.connection.close()
                if attempt:
                    raise
        return response.status, {k.lower(): v for k, v in response.getheaders()}, data

    def review(self, path, review):
        """Post a review (an object, or bytes) and read the answer strictly."""
        body = review if isinstance(review, bytes) else json.dumps(review, separators=(",", ":")).encode()
        review = json.loads(body)
        status, headers, data = self.request("POST", path + "?timeout=10s", body)
        return strict.check_reply(review, status, headers, data, path == "/validate")

    def close(self):
        self.connection.close()


class Server:
    def __init__(self, config=DEFAULT_CONFIG, args=None, env=None, start=True, origin=False):
        self.dir = tempfile.mkdtemp(prefix="poolgate-test-")
        self.config = os.path.join(self.dir, "config")
        shutil.copytree(config, self.config)
        for path in glob.glob(self.path("launchers", "*.yaml")):  # the shipped ones, as an operator completes them
            with open(path, encoding="utf-8") as f:
                text = f.read()
            with open(path, "w", encoding="utf-8") as f:
                f.write(text.replace("images.invalid/", "docker.io/example/"))
        self.cert, self.key = make_pair(self.dir)
        self.port, self.plain, self.admin = free_ports(3)
        self.log_path = os.path.join(self.dir, "log")
        self.args, self.env, self.origin = list(args or []), dict(env or {}), origin
        self.process = None
        self._client = None
        if start:
            self.start()

    def path(self, *names):
        return os.path.join(self.config, *names)

    def argv(self):
        listen = ["--listen", f"127.0.0.1:{self.port}", "--listen-plain", f"127.0.0.1:{self.plain}",
                  "--listen-admin", f"127.0.0.1:{self.admin}", "--tls-cert", self.cert, "--tls-key", self.key]
        if "--drain-delay" not in self.args:
            listen += ["--drain-delay", "0s"]
        if os.path.isdir(self.path("launchers")):
            listen += ["--launchers", self.path("launchers")]
        if os.path.exists(self.path("shell")):
            with open(self.path("shell"), encoding="utf-8") as f:
                listen += ["--client-shell", f.read().strip()]
        return [PROGRAM, "serve", *listen, "--client-catalogue", self.path("catalogue.yaml"),
                "--sidecar-config", self.path("sidecar.yaml"), "--pool", self.path("pool.yaml"), *self.args]

    def environment(self):
        env = {k: v for k, v in os.environ.items() if k != "TOTAL_GPU_MEMORY"}
        env["TOTAL_GPU_MEMORY"] = "16000"
        extra = self.path("env")
        if os.path.exists(extra):
            with open(extra, encoding="utf-8") as f:
                env.update(line.strip().split("=", 1) for line in f if "=" in line)
        env.update(self.env)
        return {k: v for k, v in env.items() if v is not None and v != "UNSET"}

    def start(self, argv=None, wait=True):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(argv or self.argv(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=self.environment(), cwd=self.dir)
        if wait:
            self.wait_ready()

    def wait_ready(self, seconds=10):
        end = time.monotonic() + seconds * SLOW
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode} at its start:\n{self.log()}")
            try:
                if self.plain_get("/readyz")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.01)
        raise AssertionError(f"not ready after {seconds} s:\n{self.log()}")

    def stop(self, sig=signal.SIGTERM, seconds=30):
        """End it and return its exit status."""
        if self._client:
            self._client.close()
            self._client = None
        if self.process and self.process.poll() is None:
            self.process.send_signal(sig)
            try:
                self.process.wait(seconds * SLOW)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"did not end within {seconds} s after {sig!r}:\n{self.log()[-2000:]}") from None
        return self.process.returncode if self.process else None

    def close(self):
        try:
            if self.process and self.process.poll() is None:
                self.process.kill()
                self.process.wait()
        finally:
            shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def signal(self, sig):
        """Of SIGSTOP: what runs on the other core goes on for a moment, which is waited for."""
        self.process.send_signal(sig)
        while sig == signal.SIGSTOP and not self.is_stopped():
            time.sleep(0.01)

    def is_stopped(self):
        states = []
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            with (contextlib.suppress(FileNotFoundError, ProcessLookupError),
                  open(f"/proc/{self.process.pid}/task/{task}/stat", encoding="utf-8") as f):
                states.append(f.read().rsplit(")", 1)[1].split()[0])
        return set(states) == {"T"}

    def alive(self):
        return self.process.poll() is None

    @property
    def client(self):
        if self._client is None:
            self._client = Client(self.port)
        return self._client

    def new_client(self, **kw):
        return Client(self.port, **kw)

    def review(self, path, review):
        return self.client.review(path, review)

    def plain_get(self, path, port=None, method="GET", body=None):
        connection = http.client.HTTPConnection("127.0.0.1", port or self.plain, timeout=10 * SLOW)
        try:
            connection.request(method, path, body=body)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def pool(self):
        status, text = self.plain_get("/v1/pool", self.admin)
        assert status == 200, text
        return json.loads(text)

    def metrics(self):
        status, text = self.plain_get("/metrics")
        assert status == 200, text
        values = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                values[name] = float(value)
        return values

    def metric(self, prefix):
        """The sum of all series whose name with labels begins so."""
        return sum(v for k, v in self.metrics().items() if k.startswith(prefix))

    def log(self):
        with open(self.log_path, "rb") as f:
            return f.read().decode("utf-8", "replace")

    def wait_log(self, text, seconds=5, since=0):
        end = time.monotonic() + seconds * SLOW
        while time.monotonic() < end:
            if text in self.log()[since:]:
                return True
            time.sleep(0.02)
        return False

    def rss_kib(self, what="VmRSS"):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            for line in f:
                if line.startswith(what + ":"):
                    return int(line.split()[1])
        raise AssertionError(f"no {what}")

    def grew_less(self, since_kib, kib):
        """Has the resident set grown by less than that? Always true under a sanitizer, which keeps what is freed."""
        return SANITIZED or self.rss_kib() - since_kib < kib

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_until(condition, seconds=5):
    end = time.monotonic() + seconds * SLOW
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False
