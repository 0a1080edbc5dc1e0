# SPDX-License-Identifier: Apache-2.0
"""deviceplugin/main, deviceplugin/alone, base/memory: poolgate-device-plugin without a kubelet: its command line, the places it cannot listen at, its status port and whoever comes there, and an
API server that is not who it should be."""
import fcntl
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import time

import pytest
from lib import server as servers
from test_device_plugin_peer import PROGRAM, WAIT_S, Api

OPTIONS = [
    (["--units", "0"], '--units takes a number from 1 to 150000, found "0"'),
    (["--units=150001"], '--units takes a number from 1 to 150000, found "150001"'),
    (["--units", "1k"], '--units takes a number from 1 to 150000, found "1k"'),
    (["--units"], "a value is missing after --units"),
    (["--socket", "x.sock"], 'the socket is an absolute path of at most 107 bytes, found "x.sock"'),
    (["--socket", ""], '--socket takes a path, found ""'),
    (["--socket", "/" + "x" * 107], "the socket is an absolute path of at most 107 bytes"),
    (["--env", "A"], 'an env is NAME=VALUE, found "A"'),
    (["--env", "A=1", "--env", "A=2"], "the env A is there twice"),
    (["--mount", "/a"], "a mount is HOST:CONTAINER or HOST:CONTAINER:ro with absolute paths"),
    (["--mount", "/a:/b:rw"], "a mount is HOST:CONTAINER or HOST:CONTAINER:ro with absolute paths"),
    (["--away", "soon"], "--away takes a duration up to 24h"),
    (["--away", "25h"], "--away takes a duration up to 24h"),
    (["--status", "9447"], "9447"),
    (["--status", "localhost:1"], "--status takes ADDR:PORT with an address"),
    (["--log-format", "xml"], "xml"),
    (["--log-level=loud"], "loud"),
    (["--privileged"], 'unknown word "--privileged"'),
    (["serve"], 'unknown word "serve"'),
    (["--help=x"], 'unknown word "--help=x"'),
    (["--kubeconfig", "/nowhere/config"], "/nowhere/config"),
]


def run(*args, env=None):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=WAIT_S, check=False, env=env)


def kubeconfig(folder, url, ca=None):
    path = os.path.join(folder, "kubeconfig")
    cluster = {"server": url, **({"certificate-authority": ca} if ca else {})}
    with open(path, "w", encoding="ascii") as f:
        json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "a",
                   "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
                   "clusters": [{"name": "a", "cluster": cluster}], "users": [{"name": "a", "user": {"token": "t"}}]}, f)
    return path


class Plugin:
    """The program with a status port; ended by its pid."""

    def __init__(self, folder, url, *args, ca=None):
        self.folder, self.port, self.url = str(folder), servers.free_ports(1)[0], url
        self.socket = os.path.join(self.folder, "p.sock")
        self.log_path = os.path.join(self.folder, "log")
        self.argv = [PROGRAM, "--socket", self.socket, "--kubeconfig", kubeconfig(self.folder, url, ca),
                     "--status", f"127.0.0.1:{self.port}", *args]

    def __enter__(self):
        with open(self.log_path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(self.argv, stdout=log, stderr=log)
        self.wait(self.serves, "answer")
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
        assert self.process.wait(WAIT_S) == 0, self.log()
        assert not os.path.exists(self.socket)

    def log(self):
        with open(self.log_path, encoding="utf-8") as f:
            return f.read()

    def wait(self, check, what, seconds=WAIT_S):
        end = time.monotonic() + seconds
        while not check():
            assert self.process.poll() is None and time.monotonic() < end, f"no {what}: {self.log()}"
            time.sleep(0.02)

    def serves(self):
        try:
            return self.get("/livez")[0] == 200 and os.path.exists(self.socket)
        except OSError:
            return False

    def raw(self, request, seconds=WAIT_S):
        """Everything that comes back for these bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as s:
            s.sendall(request)
            answer = b""
            while True:
                try:
                    piece = s.recv(65536)
                except ConnectionResetError:
                    return answer
                if not piece:
                    return answer
                answer += piece

    def get(self, path):
        head, body = self.raw(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()).split(b"\r\n\r\n", 1)
        return int(head.split()[1]), body.decode()

    def metric(self, name):
        return int(re.search(rf"^poolgate_device_plugin_{name} (\d+)$", self.get("/metrics")[1], re.M).group(1))


@pytest.fixture(name="api")
def fixture_api():
    one = Api(fit=8)
    yield one
    one.close()


def address(api, scheme="http"):
    return f"{scheme}://127.0.0.1:{api.server.server_port}"


@pytest.fixture(name="plugin")
def fixture_plugin(api, tmp_path):
    with Plugin(tmp_path, address(api)) as one:
        one.wait(lambda: one.metric("pool_known") == 1, "pool")
        yield one


# ---- the command line ----

@pytest.mark.parametrize("args,said", OPTIONS, ids=[" ".join(o[0])[:20] or "none" for o in OPTIONS])
def test_wrong_usage(args, said, tmp_path):
    """Status 2, and a sentence that names what was found and what would do."""
    if not any(a.startswith("--kubeconfig") for a in args):
        args = ["--kubeconfig", kubeconfig(str(tmp_path), "http://127.0.0.1:1"), *args]
    done = run(*args)
    assert done.returncode == 2 and said in done.stderr.replace('\\"', '"'), done
    assert done.stdout == ""


def test_outside_of_a_pod():
    done = run(env={})
    assert done.returncode == 2 and "not in a pod" in done.stderr and "name a kubeconfig file" in done.stderr


def test_manual_page_names_every_flag():
    with open(os.path.join(servers.ROOT, "docs/man/poolgate-device-plugin.8"), encoding="utf-8") as f:
        told = set(re.findall(r"\\-([a-z][a-z-]+)", f.read())) - {"gpu"}
    assert told == set(re.findall(r"(?<![\w-])--([a-z][a-z-]+)", run("--help").stdout))


def test_help_and_version():
    done = run("--help")
    assert done.returncode == 0 and done.stdout.startswith("usage: poolgate-device-plugin") and not done.stderr
    done = run("--version")
    assert done.returncode == 0 and re.fullmatch(r"poolgate-device-plugin \d+\.\d+\.\d+\n", done.stdout)


# ---- places ----

def test_places_that_are_none(api, tmp_path):
    """No folder; a folder that is a file; something at the path that is no socket. Each is said, and nothing is removed."""
    config = kubeconfig(str(tmp_path), address(api))
    (tmp_path / "file").write_text("kept")
    for path, said in ((tmp_path / "none/p.sock", "is the kubelet's folder mounted there?"), (tmp_path / "file/p.sock", "Not a directory"),
                       (tmp_path / "file", "no socket stands there")):
        done = run("--socket", str(path), "--kubeconfig", config, "--status", "none")
        assert done.returncode == 1 and said in done.stderr, done
    assert (tmp_path / "file").read_text() == "kept"


def test_second_one(plugin):
    """One in a folder, at whichever socket; the first does not notice."""
    for path in (plugin.socket, plugin.socket + "2"):
        done = run("--socket", path, "--kubeconfig", os.path.join(plugin.folder, "kubeconfig"), "--status", "none")
        assert done.returncode == 1 and "another device plugin offers bitfusion.io/gpu on this node" in done.stderr, done
    assert plugin.get("/livez") == (200, "ok\n")
    plugin.process.kill()
    plugin.process.wait()
    with plugin:  # what is left behind is in nobody's way
        plugin.wait(lambda: plugin.metric("pool_known") == 1, "pool")


LOCK = ".bitfusion.io-gpu.lock"


def empty(folder):
    """As `find FOLDER -delete` does it, with what begins with a dot."""
    for name in (LOCK, "p.sock"):
        os.unlink(os.path.join(folder, name))


def test_emptied_folder(plugin):
    """The lock is gone with all else in the folder: it is held anew before a second one can begin."""
    for _ in range(3):
        before = plugin.log().count("held anew")
        empty(plugin.folder)
        plugin.wait(lambda: os.path.exists(plugin.socket) and plugin.log().count("held anew") > before, "lock")
        done = run("--socket", plugin.socket + "2", "--kubeconfig", os.path.join(plugin.folder, "kubeconfig"), "--status", "none")
        assert done.returncode == 1 and "another device plugin offers" in done.stderr, done
    os.unlink(os.path.join(plugin.folder, LOCK))
    plugin.wait(lambda: plugin.log().count("held anew") == 4, "lock")
    assert plugin.get("/livez") == (200, "ok\n")


def test_emptied_folder_and_another_began(plugin):
    """Who finds the lock in other hands is no longer the plugin: it ends, so that there is one."""
    os.kill(plugin.process.pid, signal.SIGSTOP)
    empty(plugin.folder)
    with open(os.path.join(plugin.folder, LOCK), "w", encoding="ascii") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.kill(plugin.process.pid, signal.SIGCONT)
        assert plugin.process.wait(WAIT_S) == 1
        assert "the lock was taken away: ends" in plugin.log() and "another device plugin offers" in plugin.log()
        assert not os.path.exists(plugin.socket)
    plugin.__enter__()


class Small(Plugin):
    """The program in a folder that has room for so many files, in a mount namespace of its own; `inside` is the folder, seen from here."""

    def __init__(self, folder, url, files):
        super().__init__(folder, url)
        place = os.path.join(self.folder, "place")
        os.mkdir(place)
        self.argv[2] = self.socket = os.path.join(place, "p.sock")
        script = 'mount -t tmpfs -o nr_inodes="$1" none "$2" && shift 2 && exec "$@"'
        self.argv = ["unshare", "-m" if os.geteuid() == 0 else "-Urm", "sh", "-c", script, "-", str(files + 1), place, *self.argv]

    def serves(self):
        try:
            return self.get("/livez")[0] == 200
        except OSError:
            return False

    @property
    def inside(self):
        return f"/proc/{self.process.pid}/root{os.path.dirname(self.socket)}"


def test_full_folder(api, tmp_path):
    """No room at the start: said. Room that goes while it runs: it lives on, says that it is not ready, and listens when there is room."""
    (tmp_path / "a").mkdir()
    for files in (0, 1):
        small = Small(tmp_path / "a", address(api), files)
        done = subprocess.run(small.argv, capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert done.returncode == 1 and "No space left on device; make room there" in done.stderr, done
        os.rmdir(os.path.dirname(small.socket))
    with Small(tmp_path, address(api), 2) as small:
        assert sorted(os.listdir(small.inside)) == [".bitfusion.io-gpu.lock", "p.sock"]
        os.rename(f"{small.inside}/p.sock", f"{small.inside}/filler")
        small.wait(lambda: small.get("/readyz") == (503, "the socket is gone and cannot be made anew\n"), "complaint")
        assert small.get("/livez")[0] == 200
        os.unlink(f"{small.inside}/filler")
        small.wait(lambda: os.path.exists(f"{small.inside}/p.sock"), "socket")
        small.wait(lambda: small.get("/readyz") == (503, "the kubelet does not listen\n"), "place")


def test_nobody_listens(plugin):
    """The kubelet may have passed over the socket: it is made anew after 15 s."""
    before = os.stat(plugin.socket).st_ino, os.stat(plugin.socket).st_ctime_ns
    plugin.wait(lambda: "the socket is made anew" in plugin.log(), "new socket", 15 + WAIT_S)
    plugin.wait(lambda: os.path.exists(plugin.socket), "socket")
    plugin.wait(lambda: (os.stat(plugin.socket).st_ino, os.stat(plugin.socket).st_ctime_ns) != before, "socket")


# ---- the status port ----

def test_status(plugin):
    assert plugin.get("/livez") == (200, "ok\n")
    assert plugin.get("/livez?x=y") == (200, "ok\n")
    assert plugin.get("/readyz") == (503, "the kubelet does not listen\n")
    status, text = plugin.get("/metrics")
    assert status == 200
    names = re.findall(r"^# TYPE (\S+) (?:gauge|counter)$", text, re.M)
    assert len(names) == len(set(names)) == 12 and all(re.search(rf"^{n} \d+$", text, re.M) for n in names)
    assert (plugin.metric("devices"), plugin.metric("pool_units"), plugin.metric("pool_servers")) == (8000, 800, 1)


@pytest.mark.parametrize("listen,hosts", [(":", ["127.0.0.1", "::1"]), ("[::1]:", ["::1"]), ("127.0.0.1:", ["127.0.0.1"])])
def test_status_addresses(api, tmp_path, listen, hosts):
    """All addresses of both families, or one of either; a machine without IPv6 has those that it has."""
    if not has_ipv6():
        hosts = [h for h in hosts if ":" not in h]
    (tmp_path / "one").mkdir()
    with Plugin(tmp_path / "one", address(api)) as plugin:
        port = servers.free_ports(1)[0]
        plugin.argv[2] = str(tmp_path / "other.sock")
        plugin.argv[6] = f"{listen}{port}"
        with subprocess.Popen(plugin.argv, stderr=subprocess.DEVNULL) as other:
            try:
                for host in hosts:
                    plugin.wait(lambda h=host: answers(h, port), f"answer at {host}")
            finally:
                other.terminate()


def has_ipv6():
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def answers(host, port):
    try:
        with socket.create_connection((host, port), timeout=WAIT_S) as s:
            s.sendall(b"GET /livez HTTP/1.1\r\n\r\n")
            return s.recv(100).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


@pytest.mark.parametrize("request_,status", [
    (b"GET /nope HTTP/1.1\r\n\r\n", 404), (b"GET /livezz HTTP/1.1\r\n\r\n", 404), (b"POST /livez HTTP/1.1\r\n\r\n", 405),
    (b"GET /livez\r\n\r\n", 400), (b"GET  HTTP/1.1\r\n\r\n", 400), (b"\r\n\r\n", 400), (b"GET /livez HTTP/1.1\n\n", 200),
    (b"GET /livez HTTP/2\r\n\r\n", 400), (b"GET /li\0vez HTTP/1.1\r\n\r\n", 400), (b"\x16\x03\x01\x02\x00\x01\x00", 400),
    (b"GET /livez HTTP/1.1\r\n" + b"A: b\r\n" * 2000, 431)])
def test_status_bad_requests(plugin, request_, status):
    answer = plugin.raw(request_)
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer
    assert plugin.get("/livez")[0] == 200


def test_status_silent_clients(plugin):
    """More than there are places, who say nothing: they make room for who asks. No pod of a tenant keeps the kubelet's probes out."""
    silent = [socket.create_connection(("127.0.0.1", plugin.port)) for _ in range(20)]
    try:
        began = time.monotonic()
        assert plugin.get("/livez")[0] == 200
        assert time.monotonic() - began < 4, "it waited for their time to be over"
    finally:
        for s in silent:
            s.close()
    assert plugin.get("/livez")[0] == 200


# ---- the API server ----

def tls(api, cert, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    api.server.socket = context.wrap_socket(api.server.socket, server_side=True, do_handshake_on_connect=False)


def test_tls(api, tmp_path):
    """Over TLS by the CA that is named, and told of changes."""
    cert, key = servers.make_pair(str(tmp_path))
    tls(api, cert, key)
    with Plugin(tmp_path, address(api, "https"), ca=cert) as plugin:
        plugin.wait(lambda: plugin.metric("pool_units") == 800, "pool")
        api.tell(3)
        plugin.wait(lambda: plugin.metric("pool_units") == 300, "change")
    assert "not watched" not in plugin.log()


@pytest.mark.parametrize("why,said", [("another CA", "issuer"), ("another name", "name"), ("a client's certificate", "purpose"),
                                      ("no TLS", ""), ("no CA file", "none.crt")])
def test_tls_that_is_not_trusted(api, tmp_path, why, said):
    """Nothing is believed, everything else goes on, and the log says once what is wrong."""
    cert, key = servers.make_pair(str(tmp_path))
    ca = cert
    if why == "a client's certificate":
        servers.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=tenant",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "extendedKeyUsage=clientAuth", "-keyout", key, "-out", cert)
    elif why == "another CA":
        ca = servers.make_pair(str(tmp_path), "other")[0]
    elif why == "another name":
        servers.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=elsewhere",
                        "-addext", "subjectAltName=DNS:elsewhere", "-keyout", key, "-out", cert)
    elif why == "no CA file":
        ca = str(tmp_path / "none.crt")
    if why != "no TLS":
        tls(api, cert, key)
    with Plugin(tmp_path, address(api, "https"), ca=ca) as plugin:
        plugin.wait(lambda: "the pool is not watched" in plugin.log(), "complaint")
        time.sleep(1)
        assert plugin.log().count("the pool is not watched") == 1
        assert said in plugin.log()
        assert plugin.metric("pool_known") == 0 and plugin.metric("healthy") == 0
