# SPDX-License-Identifier: Apache-2.0
"""A registry over TLS that does what a test tells it, hosts beside it, and an inner address at which nobody may knock."""
import base64
import hashlib
import http.server
import json
import os
import socket
import ssl
import subprocess
import threading

from lib import server as servers

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
HOSTS = ("registry.example", "tokens.example", "blobs.example", "registry.example.evil.example", "twice.example", "inner.example", "six.example",
         "mirror.example")
INNER = "127.0.0.2"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def dump(value):
    return json.dumps(value).encode()


class Answer:
    """What is answered: a status, headers, and bytes, or pieces that come one by one."""

    def __init__(self, status=200, body=b"", content_type="application/octet-stream", headers=None, pieces=None, length=None):
        self.status, self.body, self.pieces, self.length = status, body, pieces, length
        self.headers = {"Content-Type": content_type, **(headers or {})}
        self.headers = {k: v for k, v in self.headers.items() if v is not None}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        host = self.headers.get("Host", "").split(":")[0]
        self.server.requests.append((host, self.path, dict(self.headers.items())))
        answer = self.server.answer(host, self.path, self.headers)
        if answer is None:
            answer = Answer(404, dump({"errors": [{"code": "NAME_UNKNOWN"}]}), "application/json")
        try:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.pieces is None:
                self.send_header("Content-Length", str(len(answer.body) if answer.length is None else answer.length))
            else:
                self.send_header("Connection", "close")
                self.close_connection = True
            self.end_headers()
            self.wfile.write(answer.body)
            for piece in answer.pieces or ():
                self.wfile.write(piece)
                self.wfile.flush()
        except OSError:
            self.close_connection = True


class Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address, context):
        super().__init__(address, Handler)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, *_):
        pass


class Trap:
    """Counts who connects to an inner address. keep: and leaves them waiting."""

    def __init__(self, address, keep=False):
        self.socket = socket.create_server(address)
        self.port = self.socket.getsockname()[1]
        self.hits, self.kept = 0, [] if keep else None
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                one = self.socket.accept()[0]
            except OSError:
                return
            self.hits += 1
            if self.kept is None:
                one.close()
            else:
                self.kept.append(one)


    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)  # wakes who accepts
        self.socket.close()
        for one in self.kept or ():
            one.close()


class Registry:
    """The registry is at registry.example, tokens at tokens.example, blobs at blobs.example: one listener on 127.0.0.1, told apart by Host."""

    def __init__(self, folder, names_so):
        self.folder, self.names_so = str(folder), names_so
        self.authority = servers.Authority(self.folder, "registry")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.certificate())
        self.port = servers.free_ports(1)[0]
        self.listener = Listener(("127.0.0.1", self.port), context)
        self.listener.requests, self.listener.answer = [], self.answer
        threading.Thread(target=self.listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self.trap = Trap((INNER, self.port))
        self.host = f"registry.example:{self.port}"
        self.reset()

    def certificate(self):
        cert, key = self.authority.client("registry", usage="serverAuth\nsubjectAltName=" + ",".join("DNS:" + h for h in HOSTS))
        return cert, key

    def reset(self):
        self.paths, self.listener.requests[:] = {}, []
        self.login = None  # "user:password" that is asked for, at the token host
        self.realm = f"https://tokens.example:{self.port}/token"
        self.names = {h: ["127.0.0.1"] for h in HOSTS}
        self.names["inner.example"] = [INNER]
        self.hooks = []  # functions (host, path, headers) that may answer first
        self.trap.hits = 0

    def close(self):
        self.listener.shutdown()
        self.listener.server_close()
        self.trap.close()

    @property
    def requests(self):
        return self.listener.requests

    def answer(self, host, path, headers):
        for hook in self.hooks:
            answer = hook(host, path, headers)
            if answer is not None:
                return answer
        if host == "tokens.example":
            return self.answer_token(headers)
        if self.login and headers.get("Authorization") != "Bearer the-token" and host == "registry.example":
            return Answer(401, b"", headers={"WWW-Authenticate": f'Bearer realm="{self.realm}",service="s",scope="repository:x:push"'})
        return self.paths.get(path)

    def answer_token(self, headers):
        if self.login and headers.get("Authorization") != "Basic " + base64.b64encode(self.login.encode()).decode():
            return Answer(401, dump({}), "application/json")
        return Answer(200, dump({"token": "the-token"}), "application/json")

    # ---- images ----

    def blob(self, data, repository="team/train"):
        self.paths[f"/v2/{repository}/blobs/{digest(data)}"] = Answer(body=data)
        return digest(data)

    def config(self, entrypoint=None, cmd=None, arch="amd64", os_name="linux", **more):
        inner = {k: v for k, v in (("Entrypoint", entrypoint), ("Cmd", cmd)) if v is not None}
        return dump({"architecture": arch, "os": os_name, "config": inner, "rootfs": {"type": "layers", "diff_ids": []}, **more})

    def manifest(self, config, repository="team/train", tag=None, config_type=CONFIG, **more):
        self.blob(config, repository)
        data = dump({"schemaVersion": 2, "mediaType": MANIFEST, "config": {"mediaType": config_type, "digest": digest(config), "size": len(config)},
                     "layers": [], **more})
        return self.put(data, MANIFEST, repository, tag)

    def index(self, parts, repository="team/train", tag="1", **more):
        """parts: (digest, size, os, arch) or whole descriptors."""
        listed = [p if isinstance(p, dict) else {"mediaType": MANIFEST, "digest": p[0], "size": p[1], "platform": {"os": p[2], "architecture": p[3]}}
                  for p in parts]
        return self.put(dump({"schemaVersion": 2, "mediaType": INDEX, "manifests": listed, **more}), INDEX, repository, tag)

    def put(self, data, content_type, repository="team/train", tag=None):
        """(digest, size)"""
        answer = Answer(body=data, content_type=content_type, headers={"Docker-Content-Digest": digest(data)})
        for name in (digest(data), tag):
            if name:
                self.paths[f"/v2/{repository}/manifests/{name}"] = answer
        return digest(data), len(data)

    def image(self, entrypoint=None, cmd=None, tag="1", **more):
        return self.manifest(self.config(entrypoint, cmd, **more), tag=tag)

    # ---- poolgate's side ----

    def settings(self, **more):
        """The entry of this registry in `registries`."""
        return {"host": self.host, "tokens": [f"tokens.example:{self.port}"], "storage": [f"blobs.example:{self.port}"],
                "addresses": ["127.0.0.1"], "ca": self.authority.cert, **more}

    def write_config(self, *registries):
        path = os.path.join(self.folder, "poolgate.yaml")
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"apiVersion": "poolgate.io/v1alpha1", "kind": "Config", "registries": list(registries or [self.settings()])}, f)
        return path

    def write_login(self, login, host=None):
        folder = os.path.join(self.folder, "docker")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
            json.dump({"auths": {host or self.host: {"auth": base64.b64encode(login.encode()).decode()}} if login else {}}, f)
        return folder

    def environment(self, login=None, login_host=None):
        names, log = os.path.join(self.folder, "names"), os.path.join(self.folder, "names.log")
        with open(names, "w", encoding="ascii") as f:
            f.writelines(f"{name} {' '.join(addresses)}\n" for name, addresses in self.names.items())
        if os.path.exists(log):
            os.unlink(log)
        return {"LD_PRELOAD": self.names_so, "NAMES_FILE": names, "NAMES_LOG": log, "DOCKER_CONFIG": self.write_login(login, login_host)}

    def looked_up(self):
        """[(name, address)] of the last run."""
        log = os.path.join(self.folder, "names.log")
        if not os.path.exists(log):
            return []
        with open(log, encoding="ascii") as f:
            return [tuple(line.split()) for line in f]

    def credentials(self):
        """{(host, credential)} that came with requests."""
        return {(host, headers["Authorization"]) for host, _, headers in self.requests if "Authorization" in headers}


def build_names(path):
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "names.c")
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu2x", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", path, source, "-ldl"], check=True)
    return path
