# SPDX-License-Identifier: Apache-2.0
"""The world around gpugate: an API server with one GPUServer and with tokens, the gate in front of stand-in servers, ends in pods."""
import base64
import contextlib
import hashlib
import http.server
import json
import os
import queue
import re
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import server as servers  # pylint: disable=wrong-import-position

PROGRAM = os.path.join(os.path.dirname(servers.PROGRAM), "gpugate")
STAND_IN = os.path.join(servers.ROOT, "test/gate/stand_in.py")
WAIT_S = 20 * servers.SLOW
NAME = "gpu-01"
GPUS = [f"GPU-0000000{i}-1111-2222-3333-444444444444" for i in range(4)]
GIB = 1 << 30
# An account that owns nothing.
NOBODY = 65534


def until(check, what, seconds=WAIT_S):
    end = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < end, f"no {what}"
        time.sleep(0.01)
    return found


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def own_cgroup():
    """A cgroup for a gate alone, where cgroup v2 can be written, so that two gates of two tests do not meet; else None."""
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        lines = [line.split() for line in f]
    mounts = [w[4] for w in lines if w[w.index("-") + 1] == "cgroup2" and w[3] == "/"]
    with open("/proc/self/cgroup", encoding="utf-8") as f:
        mine = [line.rstrip("\n")[3:] for line in f if line.startswith("0::/")]
    if not mounts or not mine:
        return None
    folder = os.path.join(mounts[0], mine[0].strip("/"), f"poolgate-test-{uuid.uuid4().hex[:8]}")
    try:
        os.mkdir(folder)
    except OSError:
        return None
    if os.access(os.path.join(folder, "cgroup.kill"), os.W_OK):
        return folder
    os.rmdir(folder)
    return None


class Api:
    """Knows one GPUServer and the tokens that it gave out. `away` closes every connection unanswered."""

    def __init__(self, port=0):
        self.lock, self.watches = threading.Lock(), []
        self.version, self.claims, self.tokens, self.gate = 100, {}, {}, {}
        self.away, self.broken, self.reviews, self.there, self.spoiled, self.slow = False, 0, 0, True, False, 0
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self, status, body):
                body = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                if api.away:
                    self.close_connection = True
                    return
                assert f"metadata.name%3D{NAME}" in self.path, self.path
                if "watch=true" in self.path:
                    self.watch()
                    return
                with api.lock:
                    items = [api.object()] if api.there else []
                    version = str(api.version)
                self.answer(200, {"kind": "GPUServerList", "apiVersion": "poolgate.io/v1alpha1", "metadata": {"resourceVersion": version},
                                  "items": items})

            def watch(self):
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                since = int(re.search(r"resourceVersion=(\d+)", self.path)[1])
                mine = queue.Queue()
                with api.lock:
                    if api.version > since and api.there:
                        mine.put({"type": "MODIFIED", "object": api.object()})
                    api.watches.append(mine)
                self.close_connection = True
                try:
                    while event := mine.get():
                        line = json.dumps(event).encode() + b"\n"
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                        self.wfile.flush()
                except OSError:
                    pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                api.reviews += 1
                time.sleep(api.slow)
                if api.away:
                    self.close_connection = True
                    return
                if api.broken:
                    self.answer(api.broken, {"kind": "Status", "code": api.broken})
                    return
                assert self.path == "/apis/authentication.k8s.io/v1/tokenreviews" and self.headers["Authorization"] == "Bearer t"
                body["status"] = api.review(body["spec"])
                self.answer(201, body)

            def log_message(self, format, *args):  # pylint: disable=redefined-builtin
                pass

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 1024
            daemon_threads = True

            def handle_error(self, request, client_address):
                """A client that has gone is no error."""
                if not isinstance(sys.exc_info()[1], OSError):
                    super().handle_error(request, client_address)

        self.server = Server(("127.0.0.1", port), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def object(self):
        claims = [{"uid": uid, "namespace": "team", "name": f"pod-{i}", "state": "bound", "servers": [NAME], "gpus": [
            {"id": g, "bytes": b} for g, b in c["gpus"]], **c["more"]} for i, (uid, c) in enumerate(self.claims.items())]
        gpus = [{"id": g, "model": "Stand-in", "memory": 16 * GIB, "fit": True} for g in GPUS]
        return {"apiVersion": "poolgate.io/v1alpha1", "kind": "GPUServer",
                "metadata": {"name": NAME, "uid": "0aa0", "resourceVersion": str(self.version), "finalizers": ["poolgate.io/claims"]},
                "spec": {"address": "127.0.0.1:9446", "probe": {"url": "https://127.0.0.1:9443"}, **self.gate},
                "status": {"version": 1, "gpus": "none" if self.spoiled else gpus, "claims": claims,
                           "conditions": [{"type": "Fresh", "status": "True"}]}}

    def tell(self, kind="MODIFIED"):
        """With the lock held."""
        self.version += 1
        for one in self.watches:
            one.put({"type": kind, "object": self.object()})

    def gated(self):
        with self.lock:
            self.gate = {"gate": {"profile": "stand-in", "url": "https://127.0.0.1:9447", "tokenSecret": "t"}}
            self.tell()

    def claim(self, uid=None, gpus=((GPUS[0], 8 * GIB),), **more):
        uid = uid or str(uuid.uuid4())
        with self.lock:
            self.claims[uid] = {"gpus": gpus, "more": more}
            self.tell()
        return uid

    def release(self, uid):
        with self.lock:
            del self.claims[uid]
            self.tell()
            return time.monotonic()

    def token(self, uid, audience="gpugate", seconds=600, bound=True, known=True, says=None):
        """As the API server makes them for a pod; says: what it tells of its pod, where that differs."""
        def part(what):
            return base64.urlsafe_b64encode(what).rstrip(b"=").decode()
        payload = {"aud": [audience], "exp": int(time.time()) + seconds, "kubernetes.io": {"namespace": "team"}}
        if bound:
            payload["kubernetes.io"]["pod"] = {"name": "pod", "uid": says or uid}
        text = ".".join((part(b'{"alg":"RS256"}'), part(json.dumps(payload).encode()), part(secrets.token_bytes(256))))
        if known:
            self.tokens[text] = {"uid": uid, "audience": audience, "until": time.time() + seconds}
        return text

    def review(self, spec):
        known = self.tokens.get(spec["token"])
        if not known or known["until"] < time.time():
            return {"authenticated": False, "error": "[invalid bearer token, service account token has been invalidated]"}
        if known["audience"] not in spec["audiences"]:
            return {"authenticated": False, "error": f'token audiences ["{known["audience"]}"] is invalid for the target audiences ["gpugate"]'}
        return {"authenticated": True, "audiences": [known["audience"]], "user": {
            "username": "system:serviceaccount:team:default", "extra": {"authentication.kubernetes.io/pod-uid": [known["uid"]]}}}

    def leave(self):
        """As if its machine were off."""
        self.away = True
        with self.lock:
            for one in self.watches:
                one.put(None)
            self.watches.clear()

    def close(self):
        self.leave()
        self.server.shutdown()
        self.server.server_close()


class Process:
    """A program of ours with its log; ended by its pid."""

    def __init__(self, folder, name, *argv, env=None):
        self.log_path = os.path.join(folder, f"{name}.log")
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)

    def log(self):
        with open(self.log_path, encoding="utf-8") as f:
            return f.read()

    def until(self, check, what, seconds=WAIT_S):
        def look():
            assert self.process.poll() is None, self.log()
            return check()
        try:
            return until(look, what, seconds)
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.log()[-6000:]}") from None

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        """Status and the seconds that it took."""
        began = time.monotonic()
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(WAIT_S), time.monotonic() - began


def rss_kb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))


class World:
    """Api, gate and certificates in a folder; pods as they are asked for."""

    def __init__(self, folder, mode="up", spec=None, options=(), wrap=()):
        self.folder, self.api = str(folder), Api()
        os.chmod(self.folder, 0o755)
        # The server's account has to come to its claim's folder.
        self.state = os.path.join("/run" if os.access("/run", os.W_OK) else self.folder, f"gpugate-test-{uuid.uuid4().hex[:8]}")
        os.mkdir(self.state, 0o711)
        self.port, self.status, self.server_port, self.pod_port = servers.free_ports(4)
        self.ca, self.key = servers.make_pair(self.folder, "gate")
        self.config = os.path.join(self.folder, "kubeconfig")
        with open(self.config, "w", encoding="ascii") as f:
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "a",
                       "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
                       "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{self.api.port}"}}],
                       "users": [{"name": "a", "user": {"token": "t"}}]}, f)
        self.profile(mode, spec or {})
        self.options, self.wrap, self.pods, self.gate = options, list(wrap), [], None
        self.cgroup = own_cgroup()
        if self.cgroup:
            self.wrap[:0] = ["/bin/sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', self.cgroup]
        try:
            self.start()
        except BaseException:
            self.clear()
            raise

    def profile(self, mode, spec):
        # What the account may read, wherever the tree is.
        program = os.path.join(self.state, "stand_in.py")
        shutil.copy(STAND_IN, program)
        user = {"user": str(NOBODY)} if os.geteuid() == 0 else {}
        with open(os.path.join(self.folder, "profile.yaml"), "w", encoding="ascii") as f:
            json.dump({"apiVersion": "poolgate.io/v1alpha1", "kind": "ServerProfile", "metadata": {"name": "stand-in"}, "spec": {
                "argv": ["/usr/bin/python3", "-B", program, "{address}", "{port}", mode], "port": self.server_port, **user,
                "env": {"LIMIT": "{memory_mb}", "LIMITS": "{memory_limits}", "SHARE": "{percent}", "PLACE": "{claim_dir}",
                        "IDS": "{{{gpu_uuids}}}"}, **spec}}, f)

    def start(self):
        log = os.path.join(self.folder, "gate.log")
        before = os.path.getsize(log) if os.path.exists(log) else 0
        self.gate = Process(self.folder, "gate", *self.wrap, PROGRAM, "serve", "--server", NAME, "--listen", f"127.0.0.1:{self.port}", "--cert", self.ca,
                            "--key", self.key, "--profile", os.path.join(self.folder, "profile.yaml"), "--state", self.state, "--kubeconfig",
                            self.config, "--status", f"127.0.0.1:{self.status}", "--log-level", "debug", *self.options)
        self.gate.until(lambda: " info serving " in self.gate.log()[before:], "gate")
        if not self.api.away:
            self.gate.until(self.ready, "readiness")

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.status}{path}", timeout=WAIT_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()
        except OSError:
            return 0, ""

    def ready(self):
        return self.get("/readyz")[0] == 200

    def metric(self, name):
        text = self.get("/metrics")[1]
        found = re.search(rf"^gpugate_{re.escape(name)} (\d+)$", text, re.M)
        assert found, text
        return int(found[1])

    def refused(self, reason):
        return self.metric(f'refused_total{{reason="{reason}"}}')

    def pod(self, token, *options, port=None):
        one = Pod(self, token, *options, port=port or servers.free_ports(1)[0])
        self.pods.append(one)
        return one

    def holder(self, **claim):
        """A pod with a claim and its token."""
        uid = self.api.claim(**claim)
        pod = self.pod(self.api.token(uid))
        pod.uid = uid
        return pod

    def left(self):
        return sorted(n for n in os.listdir(self.state) if n != "stand_in.py")

    def cgroups(self):
        """Of claims, as they are there."""
        return sorted(n for n in os.listdir(self.cgroup) if os.path.isdir(os.path.join(self.cgroup, n))) if self.cgroup else []

    def keepers(self):
        """pids of the servers' parents, as the gate's files tell them."""
        found = []
        for name in self.left():
            if name.endswith(".json"):
                with contextlib.suppress(FileNotFoundError), open(os.path.join(self.state, name), encoding="ascii") as f:
                    found.append(json.load(f)["pid"])
        return found

    def started(self):
        """pids of keepers and stand-ins: who has the program in our folder, which is nobody else's, among his words."""
        found = []
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as f:
                if f"{self.state}/stand_in.py".encode() in f.read().split(b"\0"):
                    found.append(int(pid))
        return found

    def close(self):
        try:
            self.leave_nothing()
        finally:
            self.clear()

    def leave_nothing(self):
        for pod in self.pods:
            pod.close()
        keepers = self.keepers()
        status, seconds = self.gate.end()
        text = self.gate.log()
        for pid in keepers:
            if alive(pid):
                os.kill(pid, 15)
        until(lambda: not any(alive(p) for p in keepers), "end of the servers")
        left = self.left()
        assert "ERROR: " not in text and "runtime error" not in text, text[-6000:]
        assert status == 0 and seconds < 4 * servers.SLOW, (status, seconds, text[-6000:])
        assert left == [] and self.cgroups() == [], (left, self.cgroups())
        until(lambda: not self.started(), "end of all that was started")

    def clear(self):
        """Whatever there still is, as where a test has failed."""
        for one in [self.gate, *(pod.process for pod in self.pods)]:
            if one:
                one.kill()
        for pid in self.started():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        self.api.close()
        shutil.rmtree(self.state)
        if self.cgroup:
            with open(os.path.join(self.cgroup, "cgroup.kill"), "w", encoding="ascii") as f:
                f.write("1")
            until(self.remove_cgroup, "end of the cgroup")

    def remove_cgroup(self):
        with contextlib.suppress(OSError):
            for name in self.cgroups():
                os.rmdir(os.path.join(self.cgroup, name))
            os.rmdir(self.cgroup)
        return not os.path.exists(self.cgroup)


class Peer:
    """Connections to a port, of an address of its own where it is given."""

    def __init__(self, port, address=None):
        self.port, self.source = port, address and (address, 0)

    def dial(self, word=None, seconds=WAIT_S):
        s = socket.create_connection(("127.0.0.1", self.port), seconds, self.source)
        if word:
            s.sendall(word.encode() + b"\n")
        return s

    def ask(self, word, seconds=WAIT_S):
        """Everything that comes back for a word, once this side has ended."""
        with self.dial(word, seconds) as s:
            s.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := s.recv(65536):
                answer += piece
            return answer

    def env(self):
        return json.loads(self.ask("env"))


class Pod(Peer):
    """`gpugate connect`, and connections to its port."""

    def __init__(self, world, token, *options, port):
        super().__init__(port)
        self.world, self.uid = world, None
        self.folder = os.path.join(world.folder, f"pod-{port}")
        os.mkdir(self.folder)
        self.token_path = os.path.join(self.folder, "token")
        self.write(token)
        self.process = Process(self.folder, "connect", PROGRAM, "connect", "--servers", f"127.0.0.1:{world.port}", "--port", str(port), "--ca",
                               world.ca, "--token", self.token_path, *options)
        self.process.until(lambda: subprocess.run([PROGRAM, "check", "--servers", "x:1", "--port", str(port)], stderr=subprocess.DEVNULL,
                                                  check=False).returncode == 0, "end in the pod")

    def write(self, token):
        with open(self.token_path, "w", encoding="ascii") as f:
            f.write(token)

    def refused(self, why, seconds=WAIT_S):
        """A connection ends without a byte, and the log says so."""
        before = len(self.process.log())
        with contextlib.suppress(ConnectionResetError, BrokenPipeError), self.dial("env", seconds) as s:
            assert s.recv(1) == b""
        self.process.until(lambda: why in self.process.log()[before:], f"refusal ({why})")

    def close(self):
        self.process.end()
        text = self.process.log()
        assert self.process.process.returncode in (0, -9) and "runtime error" not in text, text[-4000:]


def digest(data):
    return hashlib.sha256(data).hexdigest()
