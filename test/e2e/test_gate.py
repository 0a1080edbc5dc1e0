# SPDX-License-Identifier: Apache-2.0
"""A pod on a real kubelet reaches its own server process through the gate, by the sidecar that poolgate injects, in a namespace that enforces
`restricted` and where its place comes late; and what is really used of the GPU becomes conditions and Events. The replica, the gate and the probe are
processes of this host; the probe, the remote-GPU server, its limiter, the driver and NVML are played, and the gate's time goes on quicker where a test says so."""
import contextlib
import datetime
import http.server
import json
import os
import re
import shutil
import struct
import subprocess
import threading
import urllib.request
import uuid

import pytest
import yaml

import images
from cluster import ROOT, Cluster
from component import Component
from host import start_time
from kube import ApiError
from product import SYSTEM, claims, gpu_pod, wait_for
from replicas import Replicas
from test_waiting import composed

BUILD = os.path.join(ROOT, "build/release")
GPUGATE = os.path.join(BUILD, "gpugate")
NVML = os.path.join(BUILD, "test/probe/libnvidia-ml-fake.so")
CUDA = os.path.join(BUILD, "test/gate/libcuda.so.1")
CLOCK = os.path.join(BUILD, "test/faults/clock.so")
LIMITER = {"CUDA_DEVICE_MEMORY_LIMIT": "{memory_mb}m", "CUDA_DEVICE_MEMORY_SHARED_CACHE": "{claim_dir}/region"}
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


def launchers(folder, ca):
    """The profiles' files: clients that show tokens, such as come by their address, and such as know of no gate."""
    with open(ca, encoding="ascii") as f:
        gates = {"gated": {"image": IMAGE, "pullSecret": "registry", "ca": f.read()}, "near": {"mode": "address"}, "plain": None}
    for name, gate in gates.items():
        with open(os.path.join(folder, name + ".yaml"), "w", encoding="utf-8") as f:
            yaml.safe_dump({"apiVersion": "poolgate.io/v1alpha1", "kind": "LauncherProfile", "metadata": {"name": name}, "spec": {
                "kind": "env", "env": [{"name": "SERVER", "value": "{servers}"}], "placement": "servers", "can": {"fraction": "bookkeeping"},
                "gate": gate}}, f)
    return [os.path.join(folder, name + ".yaml") for name in gates]


class Gate:
    """gpugate serve on an address of its own, whose servers are stand_in.py."""

    def __init__(self, cluster, folder, address, files):
        self.state, self.folder, self.address = os.path.join("/run", f"gpugate-test-{uuid.uuid4().hex[:8]}"), folder, address
        self.ca = files[0]
        os.mkdir(self.state, 0o711)
        for path in (os.path.join(ROOT, "test/gate/stand_in.py"), CUDA):
            shutil.copy(path, self.state)
        self.present = os.path.join(self.state, "present")
        os.mkdir(self.present)
        os.chmod(self.present, 0o1777)
        self.nvml, self.time, self.passed = os.path.join(folder, "nvml.txt"), os.path.join(folder, "time"), 0
        with open(os.path.join(folder, "tell-token"), "w", encoding="ascii") as f:
            f.write("token-of-this-gate")
        self.process = Component("gpugate", [
            GPUGATE, "serve", "--server", "gpu-01", "--listen", f"{address}:9446", "--cert", files[0], "--key", files[1],
            "--profile", os.path.join(folder, "profile.yaml"), "--state", self.state, "--kubeconfig", cluster.kubeconfig(),
            "--status", f"{address}:9448", "--tell", f"{address}:9447", "--tell-token", os.path.join(folder, "tell-token"), "--look", "1s",
            "--nvml", NVML], cluster.log_path("gpugate"), cluster.slot.journal, None, {
                "GPUPROBE_FAKE_NVML": self.nvml, "LD_PRELOAD": CLOCK, "FAULT_TIME": self.time})

    def start(self, over_share="tell"):
        """In everybody's time, and with nobody on the GPU."""
        self.passed = 0
        self.computes()
        with open(self.time, "wb") as f:
            f.write(struct.pack("=qq", 0, 0))
        with open(os.path.join(self.folder, "profile.yaml"), "w", encoding="ascii") as f:
            json.dump({"apiVersion": "poolgate.io/v1alpha1", "kind": "ServerProfile", "metadata": {"name": "stand-in"}, "spec": {
                "argv": ["/usr/bin/python3", "-B", os.path.join(self.state, "stand_in.py"), "{address}", "{port}", "up"], "port": 14833,
                "user": "65534", "env": {"SHARE": "{percent}", **LIMITER, "LD_LIBRARY_PATH": self.state, "FAKE_GPU": self.present},
                "usage": {"overShare": over_share}}}, f)
        self.process.start()

    def restart(self, over_share="tell"):
        self.process.stop()
        self.start(over_share)

    def computes(self, *processes):
        """What NVML says of the GPU: (pid, bytes) of each; and who is there by himself, as the gate's self-test."""
        with open(self.nvml + ".new", "w", encoding="ascii") as f:
            f.write(f"gpus=1\n0.uuid={GPU}\n0.list={','.join(f'{pid}:{has}' for pid, has in processes)}\n0.folder={self.present}\n")
        os.rename(self.nvml + ".new", self.nvml)

    def looked(self):
        """When the gate last looked at the GPU, in seconds of its own time; 0: not yet."""
        with contextlib.suppress(OSError, KeyError), urllib.request.urlopen(f"http://{self.address}:9448/usage", timeout=10) as answer:
            return datetime.datetime.fromisoformat(json.load(answer)["looked"]).timestamp()
        return 0

    def later(self, seconds):
        """The gate's time goes on, by no more at once than it may be without a look."""
        for _ in range(-(-seconds // 25)):
            before = self.looked()
            self.passed += 25
            with open(self.time, "r+b") as f:
                f.write(struct.pack("=q", self.passed))
            wait_for(lambda before=before: self.looked() >= before + 25, 30, "a look")

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
            with Replicas(c, 1, {"launchers": launchers(folder, files[0]), "cluster": {"probe": {"interval": "1s"}}}, path=composed()):
                for name, key, path in (("gate-ca", "ca.crt", files[0]), ("gate-token", "token", os.path.join(folder, "tell-token"))):
                    c.kubectl("-n", SYSTEM, "create", "secret", "generic", name, f"--from-file={key}={path}")
                c.kubectl("apply", "-f", "-", input=json.dumps({
                    "apiVersion": "poolgate.io/v1alpha1", "kind": "GPUServer", "metadata": {"name": "gpu-01"}, "spec": {
                        "address": f"{address}:9446", "launchers": ["gated"], "probe": {"url": f"http://{address}:9400"},
                        "gate": {"profile": "stand-in", "url": f"https://{address}:9447", "caSecret": "gate-ca", "tokenSecret": "gate-token"}}}))
                gate.start()
                wait_for(lambda: c.client.get("gpuservers", "gpu-01").get("status", {}).get("summary", {}).get("fit") == 1, 30,
                         lambda: f"a server that takes claims: {c.client.get('gpuservers', 'gpu-01')}")
                c.gate = gate
                yield c
        finally:
            gate.stop()
            probe.shutdown()


ASK = 'echo env | nc "${SERVER%:*}" "${SERVER#*:}"'
STAY = f"while :; do {ASK}; sleep 1; done"


def client(name, percent, command=ASK, launcher="gated", **spec):
    """A program that asks its server for its environment."""
    pod = gpu_pod(name, percent, command=("/bin/sh", "-c", command), **spec,
                  securityContext={"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}})
    pod["metadata"]["annotations"] = {"auto-management/bitfusion": "all", "poolgate.io/launcher": launcher}
    pod["spec"]["containers"][0]["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return pod


def test_a_pod_reaches_its_own_process(c):
    """Of a server whose gate has tried that shares are held."""
    assert "holds him to his share" in wait_condition(c, "Guarded", "True")
    with c.namespace(restricted=True) as ns:
        made = c.client.create(client("p", 25), namespace=ns)
        assert "poolgate.io/gate-servers" not in made["metadata"]["annotations"], "who chooses GPUs writes it"
        # Nobody has made that Secret, and the image is there: a kubelet says so, and starts the pod.
        assert made["spec"]["imagePullSecrets"] == [{"name": "registry"}]
        done = c.wait_pod("p", ns)
        said = f"{c.describe('pod', 'p', ns)}\n{c.pod_log('p', ns, 'gpugate')}"
        assert done["status"]["phase"] == "Succeeded", said
        env = json.loads(c.pod_log("p", ns, "main"))["env"]
        assert (env["CUDA_VISIBLE_DEVICES"], env["SHARE"]) == (GPU, "25"), said
        wait_for(lambda: not claims(c), 30, "a claim that ends")


def stranger(name, gate):
    """A tenant's own pod with all that an injected one has but a claim: the end in the pod, its CA, and a token for gates."""
    mine = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    gpugate = ["/usr/bin/gpugate"]
    words = ["--servers", f"{gate}:9446", "--port", "14840"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "restartPolicy": "Never", "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 1,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
        "initContainers": [{
            "name": "gpugate", "image": IMAGE, "imagePullPolicy": "Never", "restartPolicy": "Always", "securityContext": mine,
            "command": [*gpugate, "connect", *words, "--ca", "/gate/ca.crt", "--token", "/gate/token"],
            "startupProbe": {"exec": {"command": [*gpugate, "check", *words]}, "periodSeconds": 1, "failureThreshold": 60},
            "volumeMounts": [{"name": "gate", "mountPath": "/gate"}]}],
        "containers": [{"name": "main", "image": "localhost/busybox:e2e", "imagePullPolicy": "Never", "securityContext": mine,
                        "command": ["/bin/sh", "-c", "echo env | nc 127.0.0.1 14840; echo over"]}],
        "volumes": [{"name": "gate", "projected": {"sources": [
            {"configMap": {"name": "gate"}}, {"serviceAccountToken": {"audience": "gpugate", "path": "token", "expirationSeconds": 600}}]}}]}}


def carried(c):
    """Connections that are in."""
    with urllib.request.urlopen(f"http://{c.gate.address}:9448/metrics", timeout=10) as answer:
        return int(re.search(r'^gpugate_connections\{stage="carrying"\} (\d+)$', answer.read().decode(), re.M)[1])


def gate_lines(c, uid):
    return [line for line in c.gate.process.log().splitlines() if f"uid={uid}" in line]


def test_second_tenant_and_deletion(c):
    """Who holds nothing there is refused at the socket. Who is in is cut when his pod is deleted, though its containers run on, and his server ends."""
    with c.namespace(restricted=True) as ns, c.namespace(restricted=True) as others:
        made = c.client.create(client("first", 25, f"{ASK}; (echo echo; sleep 600) | {ASK.partition('| ')[2]}"), namespace=ns)
        c.kubectl("-n", others, "create", "configmap", "gate", f"--from-file=ca.crt={c.gate.ca}")
        second = c.client.create(stranger("second", c.gate.address), namespace=others)
        pid = server_of(c, "first", ns)
        done = c.wait_pod("second", others)
        said = c.pod_log("second", others, "gpugate")
        assert done["status"]["phase"] == "Succeeded" and c.pod_log("second", others, "main") == "over\n", said
        assert "this pod holds no GPU of this server" in said
        assert any("a pod is refused" in line for line in gate_lines(c, second["metadata"]["uid"]))
        wait_for(lambda: carried(c) == 1, 30, "a connection that stays")
        assert start_time(pid), c.gate.process.log()[-3000:]
        c.node.kubelet.pause()
        try:
            c.kubectl("-n", ns, "delete", "pod", "first", "--force", "--grace-period=0")
            wait_for(lambda: not start_time(pid) and carried(c) == 0, 30, lambda: f"the end: {c.gate.process.log()[-3000:]}")
            assert any("a connection is cut" in line and "its claim has ended" in line for line in gate_lines(c, made["metadata"]["uid"]))
        finally:
            c.node.kubelet.resume()


def server_of(c, name, ns, not_this=None):
    """pid of the server process that the pod reaches."""
    def last():
        lines = c.kubectl("-n", ns, "logs", name, "-c", "main", check=False).stdout.splitlines()
        with contextlib.suppress(IndexError, ValueError):
            return json.loads(lines[-1])["pid"]
        return None

    return wait_for(lambda: (pid := last()) != not_this and pid, 60, lambda: f"a server: {c.describe('pod', name, ns)}\n{c.gate.process.log()[-3000:]}")


def wait_condition(c, kind, status):
    """As an operator waits for it; its message."""
    c.kubectl("wait", f"--for=condition={kind}={status}", "gpuserver/gpu-01", "--timeout=60s")
    return next(x["message"] for x in c.client.get("gpuservers", "gpu-01")["status"]["conditions"] if x["type"] == kind)


def wait_event(c, ns, name, reason):
    """As an operator sees it; its note."""
    return wait_for(lambda: c.kubectl("-n", ns, "get", "events", f"--field-selector=involvedObject.name={name},reason={reason}",
                                      "-o", "jsonpath={.items[0].message}", check=False).stdout, 30, f"an Event {reason}")


def closed(c):
    return [g["id"] for g in c.client.get("gpuservers", "gpu-01")["status"]["gpus"] if g.get("closed")]


def test_more_than_its_share(c):
    """The pod is told after ten seconds, and its server ends only if the operator's profile says so; then it may come again."""
    with c.namespace(restricted=True) as ns:
        c.client.create(client("greedy", 25, STAY), namespace=ns)
        first = server_of(c, "greedy", ns)
        c.gate.computes((first, 9 * 10 ** 9))
        assert f"{ns}/greedy ({GPU})" in wait_condition(c, "OverShare", "True")
        assert wait_event(c, ns, "greedy", "MoreThanShare") == f"has 9000 MB of {GPU} on gpu-01 for more than ten seconds, and holds 4000"
        assert start_time(first), c.gate.process.log()[-3000:]
        c.gate.restart("end")
        second = server_of(c, "greedy", ns, first)
        c.gate.computes((second, 9 * 10 ** 9))
        c.gate.later(50)
        third = server_of(c, "greedy", ns, second)
        assert not start_time(second) and start_time(third)
        wait_condition(c, "OverShare", "False")
    c.gate.restart()


def test_strangers_and_silence(c):
    """A process of no claim closes its GPU to new claims; while the gate is silent that stays so, and nothing is called fine."""
    with c.namespace(restricted=True) as ns, subprocess.Popen(["sleep", "600"]) as stranger:
        try:
            c.gate.computes((stranger.pid, 5 << 20))
            assert GPU in wait_condition(c, "Strangers", "True")
            assert wait_event(c, "default", "gpu-01", "StrangerComputes") == \
                f"process {stranger.pid}, which belongs to no claim, computes on {GPU}, which takes nothing new until it is gone"
            assert closed(c) == [GPU]
            with pytest.raises(ApiError):
                c.client.create(client("late", 25), namespace=ns)
            c.gate.process.kill()
            for kind in ("Strangers", "OverShare", "Unused", "Guarded"):
                wait_condition(c, kind, "Unknown")
            assert closed(c) == [GPU]
            c.gate.process.start()
            wait_condition(c, "Strangers", "True")
        finally:
            stranger.kill()
        c.gate.computes()
        wait_condition(c, "Strangers", "False")
        assert closed(c) == []
        uid = c.client.create(client("late", 25), namespace=ns)["metadata"]["uid"]
        wait_for(lambda: (uid, "bound") in claims(c), 30, "a bound claim")


def test_an_hour_without_use(c):
    """Of a pod that holds a share, and whose server never has a process on the GPU."""
    with c.namespace(restricted=True) as ns:
        c.client.create(client("idle", 25, STAY), namespace=ns)
        server_of(c, "idle", ns)
        c.gate.later(3600)
        assert f"{ns}/idle" in wait_condition(c, "Unused", "True")
        assert "has used nothing of them for an hour" in wait_event(c, ns, "idle", "HoldsUnused")
    c.gate.restart()


def test_addresses_in_claims(c):
    """Of a server whose gate knows pods by them: as the kubelet tells them, and not of a pod on its node's network, whose address is others', too."""
    def status():
        return c.client.get("gpuservers", "near").get("status", {})

    def addresses(name, ns):
        return [ip["ip"] for ip in c.client.get("pods", name, ns)["status"].get("podIPs", [])]

    c.kubectl("apply", "-f", "-", input=json.dumps({
        "apiVersion": "poolgate.io/v1alpha1", "kind": "GPUServer", "metadata": {"name": "near"}, "spec": {
            "address": f"{c.gate.address}:9546", "launchers": ["near", "plain"], "gpus": [{"model": "Tesla V100", "memory": MEMORY}],
            "gate": {"profile": "stand-in", "url": f"https://{c.gate.address}:9547", "tokenSecret": "gate-token", "mode": "address"}}}))
    try:
        wait_for(lambda: status().get("summary", {}).get("fit") == 1, 30, lambda: f"a server that takes claims: {status()}")
        with c.namespace() as ns:
            with pytest.raises(ApiError, match="hostNetwork"):
                c.client.create(client("refused", 25, "sleep 300", "near", hostNetwork=True), namespace=ns)
            c.client.create(client("host", 25, "sleep 300", "plain", hostNetwork=True), namespace=ns)
            # The leader has been told of these before it is told of the other's.
            assert wait_for(lambda: addresses("host", ns), 60, lambda: c.describe("pod", "host", ns))
            c.client.create(client("own", 25, "sleep 300", "near"), namespace=ns)
            said = wait_for(lambda: [x for x in status()["claims"] if x["name"] == "own" and "podIPs" in x] and status()["claims"],
                            60, lambda: f"an address: {status()} {c.describe('pod', 'own', ns)}")
            assert {x["name"]: x.get("podIPs") for x in said} == {"own": addresses("own", ns), "host": None}
    finally:
        c.kubectl("delete", "gpuserver", "near", "--timeout=60s")
