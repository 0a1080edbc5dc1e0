# SPDX-License-Identifier: Apache-2.0
"""Container images for the pods of the tests, made without a registry: docker-archive files written by Python.

    localhost/pause:e2e      what holds a pod's namespaces
    localhost/busybox:e2e    Debian's static busybox, a link for each applet
    CLIENT                   the remote-GPU client of manifests/examples/sidecar.yaml, under the name that set_client() gives it: for each client that the example workloads
                             name, the test launcher at the path where the catalogue has it; bash and cp for the init container
    workload images          busybox, and programs (python, mpirun, ...) that print their argv: see images/launcher.c
"""
import glob
import hashlib
import io
import json
import os
import subprocess
import tarfile

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
EXAMPLES = os.path.join(ROOT, "manifests/examples")
PAUSE = "localhost/pause:e2e"
BUSYBOX = "localhost/busybox:e2e"
CLIENT = "localhost/bitfusion-client:450"
PROGRAMS = ("python", "python3", "mpirun", "jupyter", "jupyter-lab", "horovodrun")


def set_client(text):
    """A sidecar config or a launcher profile as an operator completes it: with images that there are."""
    return text.replace("images.invalid/", "localhost/")


class Layer:
    """The files of an image, in memory."""

    def __init__(self):
        self.data = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.data, mode="w", format=tarfile.GNU_FORMAT)
        self.folders = set()

    def _add(self, path, kind, mode, content=b"", link=""):
        info = tarfile.TarInfo(path.strip("/"))
        info.type, info.mode, info.size, info.linkname = kind, mode, len(content), link
        self.tar.addfile(info, io.BytesIO(content))

    def folder(self, path, mode=0o755):
        path = path.strip("/")
        if path and path not in self.folders:
            self.folder(os.path.dirname(path))
            self.folders.add(path)
            self._add(path, tarfile.DIRTYPE, mode)

    def file(self, path, content, mode=0o755):
        self.folder(os.path.dirname(path))
        self._add(path, tarfile.REGTYPE, mode, content.encode() if isinstance(content, str) else content)

    def link(self, path, target):
        self.folder(os.path.dirname(path))
        self._add(path, tarfile.SYMTYPE, 0o777, link=target)

    def bytes(self):
        self.tar.close()
        return self.data.getvalue()


def save(path, names, layer, entrypoint=None, env=("PATH=/usr/local/bin:/usr/bin:/bin",), user=""):
    """Write a docker-archive with one image of one layer under these names; user "": root."""
    layer = layer.bytes()
    config = json.dumps({
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine), "os": "linux",
        "created": "2026-01-01T00:00:00Z", "config": {"Entrypoint": entrypoint, "Env": list(env), "User": user, "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}}).encode()
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": list(names), "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(path, "w") as tar:
        for name, content in (("layer.tar", layer), (config_name, config), ("manifest.json", manifest)):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def compile_static(name, folder):
    """images/NAME.c as a static program; its bytes."""
    path = os.path.join(folder, name)
    subprocess.run(["gcc", "-std=gnu17", "-Os", "-s", "-static", "-Wall", "-Wextra", "-Werror", "-o", path,
                    os.path.join(HERE, "images", name + ".c")], check=True)
    with open(path, "rb") as f:
        return f.read()


def add_busybox(layer):
    with open("/bin/busybox", "rb") as f:
        layer.file("/bin/busybox", f.read())
    applets = subprocess.run(["/bin/busybox", "--list"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    for applet in applets:
        if applet != "busybox":
            layer.link("/bin/" + applet, "busybox")
    # busybox does not know itself by this name.
    layer.file("/bin/bash", '#!/bin/sh\nexec /bin/sh "$@"\n')
    layer.file("/etc/passwd", "root:x:0:0:root:/:/bin/sh\nuser:x:1000:1000:user:/tmp:/bin/sh\n", 0o644)
    layer.folder("/tmp", 0o1777)


def catalogue_clients(catalogue=None, pairs=None):
    """Entries of the client catalogue that these (os, version) name; by default those that the example workloads name."""
    if pairs is None:
        pairs = set()
        for path in glob.glob(os.path.join(EXAMPLES, "workload-*.yaml")):
            with open(path, encoding="utf-8") as f:
                text = f.read()
            for document in yaml.safe_load_all(text):
                stack = [document]
                while stack:
                    node = stack.pop()
                    if isinstance(node, dict):
                        if "bitfusion-client/os" in node:
                            pairs.add((node["bitfusion-client/os"], str(node.get("bitfusion-client/version"))))
                        stack += node.values()
                    elif isinstance(node, list):
                        stack += node
    with open(catalogue or os.path.join(EXAMPLES, "catalogue.yaml"), encoding="utf-8") as f:
        entries = yaml.safe_load(f)["BitfusionClients"]
    return [e for e in entries if (e["OSVersion"], str(e["BitfusionVersion"])) in pairs]


def pause(folder):
    layer = Layer()
    layer.file("/pause", compile_static("pause", folder))
    return save(os.path.join(folder, "pause.tar"), [PAUSE], layer, ["/pause"])


def busybox(folder):
    layer = Layer()
    add_busybox(layer)
    return save(os.path.join(folder, "busybox.tar"), [BUSYBOX], layer)


def client(folder, names=(CLIENT,), catalogue=None, pairs=None):
    """The client's image as the init container of the sidecar config wants it."""
    layer = Layer()
    add_busybox(layer)
    launcher = compile_static("launcher", folder)
    for entry in catalogue_clients(catalogue, pairs):
        layer.file(entry["BinaryPath"], launcher)
        layer.file(os.path.join(entry["EnvVariable"], "README"), "where the client has its libraries\n", 0o644)
    return save(os.path.join(folder, "client.tar"), names, layer, user="65532")


def workload(folder, names, programs=PROGRAMS, env=(), scripts=None):
    """An image under the names of a real one, in which each of the programs prints its argv and ends. env: more of the image's
    environment ("A=b"), scripts: more files, path to content."""
    layer = Layer()
    add_busybox(layer)
    layer.file("/usr/local/bin/print-argv", compile_static("launcher", folder))
    for program in programs:
        layer.link(program if program.startswith("/") else "/usr/local/bin/" + program, "/usr/local/bin/print-argv")
    for path, content in (scripts or {}).items():
        layer.file(path, content)
    return save(os.path.join(folder, "workload.tar"), names, layer, env=("PATH=/usr/local/bin:/usr/bin:/bin", *env))
