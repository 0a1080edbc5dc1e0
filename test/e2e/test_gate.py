# SPDX-License-Identifier: Apache-2.0
"""A pod on a real kubelet reaches its own server process through the gate, by the sidecar that poolgate injects, in a namespace that enforces
`restricted` and where its place comes late. The replica, the gate and the probe are processes of this host; the probe and the remote-GPU server are played."""
import http.server
import json
import os
import shutil
import subprocess
import threading
import uuid

import pytest
import yaml

import images
from cluster import ROOT, Cluster
from component import Component
from product import claims, gpu_pod, wait_for
from replicas import Replicas
from test_waiting import composed

GPUGATE = os.path.join(ROOT, "build/release/gpugate")
IMAGE = "localhost/gpugate:e2e"
GPU = "GPU-11111111-2222-3333-4444-555555555555"
MEMORY = 16 * 10 ** 9


def pair(folder, address):
    """A certificate of its own CA: (certificate, key)."""
    files = [os.path.join(folder, name) for name in ("tls.crt", "tls.key")]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=gate", "-addext", f"subjectAltName=IP:{address}", "-keyout", files[1], "-out", files[0]],
                   check=True, stderr=subprocess.DEVNULL)
    return files


def image(folder):
    """gpugate and the libraries that this machine runs it with, as its own image has them."""
    layer = images.Layer()
    found = subprocess.run(["ldd", GPUGATE], check=True, stdout=subprocess.PIPE, text=True).stdout
    libraries = [w for line in found.splitlines() for w in line.split() if w.startswith("/")]
    for path, at in [(GPUGATE, "/usr/bin/gpugate"), *((p, p) for p in libraries)]:
        with open(path, "rb") as f:
            layer.file(at, f.read())
    return images.save(os.path.join(folder, "gpugate.tar"), [IMAGE], layer, ["/usr/bin/gpugate"], user="65532:65532")


class Probe(http.server.BaseHTTPRequestHandler):
    """One GPU with a UUID, which is fit."""

    def do_GET(self):
        body = json.dumps({"schema": "gpuprobe.inventory/1", "age_s": 0, "stale_after_s": 3600, "state": "ready", "gpus": [
            {"uuid": GPU, "name": "Tesla V100", "memory_total_bytes": MEMORY, "fit": True, "reasons": []}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def launcher(folder, ca):
    """The profile's file."""
    with open(ca, encoding="ascii") as f:
        gate = {"image": IMAGE, "ca": f.read()}
    path = os.path.join(folder, "gated.yaml")
    with open(path, "w", encoding="utf-8") as f:
        yaml.safe_dump({"apiVersion": "poolgate.io/v1alpha1", "kind": "LauncherProfile", "metadata": {"name": "gated"}, "spec": {
            "kind": "env", "env": [{"name": "SERVER", "value": "{servers}"}], "placement": "servers", "can": {"fraction": "bookkeeping"},
            "gate": gate}}, f)
    return path


class Gate:
    """gpugate serve on an address of its own, whose servers are stand_in.py."""

    def __init__(self, cluster, folder, address, files):
        self.state = os.path.join("/run", f"gpugate-test-{uuid.uuid4().hex[:8]}")
        os.mkdir(self.state, 0o711)
        program, profile = os.path.join(self.state, "stand_in.py"), os.path.join(folder, "profile.yaml")
        shutil.copy(os.path.join(ROOT, "test/gate/stand_in.py"), program)
        with open(profile, "w", encoding="ascii") as f:
            json.dump({"apiVersion": "poolgate.io/v1alpha1", "kind": "ServerProfile", "metadata": {"name": "stand-in"}, "spec": {
                "argv": ["/usr/bin/python3", "-B", program, "{address}", "{port}", "up"], "port": 14833, "user": "65534",
                "env": {"SHARE": "{percent}"}}}, f)
        self.process = Component("gpugate", [
            GPUGATE, "serve", "--server", "gpu-01", "--listen", f"{address}:9446", "--cert", files[0], "--key", files[1], "--profile", profile,
            "--state", self.state, "--kubeconfig", cluster.kubeconfig(), "--status", "none"], cluster.log_path("gpugate"), cluster.slot.journal)

    def stop(self):
        self.process.stop()
        shutil.rmtree(self.state)


@pytest.fixture(scope="module", name="c")
def fixture_c(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("gate"))
    with Cluster(name="gate") as c:
        address = c.add_address()
        files = pair(folder, address)
        probe = http.server.ThreadingHTTPServer((address, 9400), Probe)
        threading.Thread(target=probe.serve_forever, daemon=True).start()
        gate = Gate(c, folder, address, files)
        try:
            c.import_image(image(folder))
            with Replicas(c, 1, {"launchers": [launcher(folder, files[0])], "cluster": {"probe": {"interval": "1s"}}}, path=composed()):
                c.client.create({"apiVersion": "poolgate.io/v1alpha1", "kind": "GPUServer", "metadata": {"name": "gpu-01"}, "spec": {
                    "address": f"{address}:9446", "launchers": ["gated"], "probe": {"url": f"http://{address}:9400"}}})
                gate.process.start()
                wait_for(lambda: c.client.get("gpuservers", "gpu-01").get("status", {}).get("summary", {}).get("fit") == 1, 30,
                         lambda: f"a server that takes claims: {c.client.get('gpuservers', 'gpu-01')}")
                yield c
        finally:
            gate.stop()
            probe.shutdown()


def client(name, percent):
    """A program that asks its server for its environment."""
    pod = gpu_pod(name, percent, command=("/bin/sh", "-c", 'echo env | nc "${SERVER%:*}" "${SERVER#*:}"'),
                  securityContext={"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}})
    pod["metadata"]["annotations"] = {"auto-management/bitfusion": "all", "poolgate.io/launcher": "gated"}
    pod["spec"]["containers"][0]["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return pod


def test_a_pod_reaches_its_own_process(c):
    with c.namespace(restricted=True) as ns:
        made = c.client.create(client("p", 25), namespace=ns)
        assert "poolgate.io/gate-servers" not in made["metadata"]["annotations"], "who chooses GPUs writes it"
        done = c.wait_pod("p", ns)
        said = f"{c.describe('pod', 'p', ns)}\n{c.pod_log('p', ns, 'gpugate')}"
        assert done["status"]["phase"] == "Succeeded", said
        env = json.loads(c.pod_log("p", ns, "main"))["env"]
        assert (env["CUDA_VISIBLE_DEVICES"], env["SHARE"]) == (GPU, "25"), said
        wait_for(lambda: not claims(c), 30, "a claim that ends")
