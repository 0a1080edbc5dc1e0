# SPDX-License-Identifier: Apache-2.0
"""gpuprobe-serve and poolgate together: a GPU goes bad, and nothing new is placed on it. A replica and the probe are processes of this
host; the probe runs over the fakes of test/probe, with TLS, a token and client certificates, on an address of its own. Its GPUs are what a file says."""
import json
import os
import signal
import subprocess
import sys

import pytest

from cluster import ROOT, Cluster
from component import Component
from kube import ApiError
from product import SYSTEM, claims, client_namespace, gpu_pod, wait_for
from replicas import Replicas

sys.path.append(os.path.join(ROOT, "test/probe"))
sys.path.append(os.path.join(ROOT, "test"))
import world  # noqa: E402
from lib.server import Authority  # noqa: E402

GPUS = 2
MEMORY = world.SMALL["memory_mib"] << 20
UUIDS = [f"GPU-11111111-2222-3333-4444-55555555555{i}" for i in range(GPUS)]
HEALTHY = f"gpus={GPUS}\n" + "".join(f"{i}.pci=0000:{0x10 + i:02x}:00.0\n{i}.uuid={UUIDS[i]}\n" for i in range(GPUS))
WAIT_S = 30
SERVE = os.path.join(world.BUILD, "gpuprobe-serve")


def pair(folder, address):
    """A certificate of its own CA: (certificate, key)."""
    os.makedirs(folder)
    files = [os.path.join(folder, name) for name in ("tls.crt", "tls.key")]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=gpuprobe", "-addext", f"subjectAltName=IP:{address}", "-keyout", files[1], "-out", files[0]],
                   check=True, stderr=subprocess.DEVNULL)
    return files


def read(path):
    with open(path, encoding="ascii") as f:
        return f.read()


class Probe:
    """gpuprobe-serve of a server with two small GPUs; nvml() changes what its NVML says."""

    def __init__(self, cluster, folder):
        assert os.path.exists(world.CUDART), f"{world.CUDART} is missing: `make fakes` builds it"
        self.address = cluster.add_address()
        self.host = world.World(folder, gpus=GPUS)
        self.cert, key = pair(os.path.join(folder, "tls"), self.address)
        self.other_cert, _ = pair(os.path.join(folder, "other"), self.address)
        self.clients = Authority(folder, "clients")
        self.state = os.path.join(folder, "nvml.txt")
        self.nvml(HEALTHY)
        token, scenario = os.path.join(folder, "token"), os.path.join(folder, "scenario.json")
        devices = [{**world.SMALL, "uuid": u} for u in UUIDS]
        for path, text in ((token, "a token of this server\n"), (scenario, json.dumps({"devices": devices}))):
            with open(path, "w", encoding="ascii") as f:
                f.write(text)
        argv = [SERVE, "--listen", f"{self.address}:9443", "--tls-cert", self.cert, "--tls-key", key, "--token-file", token,
                "--client-ca", self.clients.cert, "--client-name", "poolgate",
                "--server", "gpu-01", "--expect-gpus", str(GPUS), "--look-every", "300ms", "--list-every", "5s", "--verify-every", "2s",
                "--stale-after", "10s", "--require-nvml", "--cudart", world.CUDART,
                "--nvml", os.path.join(world.FAKES, "libnvidia-ml-fake.so")]
        self.process = Component("gpuprobe-serve", argv, cluster.log_path("gpuprobe-serve"), cluster.slot.journal, None, {
            **self.host.env, "GPUPROBE": world.PROBE, "GPUPROBE_FAKE": scenario, "GPUPROBE_FAKE_NVML": self.state}, folder)
        self.url = f"https://{self.address}:9443"

    def nvml(self, text):
        """In one step: a look may come at any time."""
        with open(self.state + ".new", "w", encoding="ascii") as f:
            f.write(text)
        os.rename(self.state + ".new", self.state)


@pytest.fixture(scope="module", name="c")
def fixture_c():
    with Cluster.light(name="probe") as c, Replicas(c, 1, {"cluster": {"probe": {"interval": "1s"}}}):
        yield c


def secret(name, **data):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": "Opaque", "stringData": data}


def client_secret(name, files):
    return {**secret(name, **{"tls.crt": read(files[0]), "tls.key": read(files[1])}), "type": "kubernetes.io/tls"}


def server(name, probe, ca, token, client="probe-client"):
    return {"apiVersion": "poolgate.io/v1alpha1", "kind": "GPUServer", "metadata": {"name": name},
            "spec": {"address": f"{name}.lab:56001", "probe": {
                "url": probe.url, "caSecret": ca, "tokenSecret": token, **({"clientSecret": client} if client else {})}}}


@pytest.fixture(scope="module", name="probe")
def fixture_probe(c, tmp_path_factory):
    """Running, and polled as gpu-01."""
    probe = Probe(c, str(tmp_path_factory.mktemp("probe")))
    c.client.create(secret("probe-ca", **{"ca.crt": read(probe.cert)}), SYSTEM)
    c.client.create(secret("probe-token", token="a token of this server"), SYSTEM)
    c.client.create(client_secret("probe-client", probe.clients.client("poolgate")), SYSTEM)
    probe.process.start()
    try:
        c.client.create(server("gpu-01", probe, "probe-ca", "probe-token"))
        yield probe
    finally:
        probe.process.stop()


@pytest.fixture(name="ns")
def fixture_ns(c):
    with client_namespace(c) as name:
        yield name


def status(c, name="gpu-01"):
    return c.client.get("gpuservers", name).get("status", {})


def condition(c, kind, name="gpu-01"):
    return next((x for x in status(c, name).get("conditions", []) if x["type"] == kind), {})


def wait_fit(c, n):
    """As an operator sees it: the column FIT."""
    def check():
        rows = [line.split() for line in c.kubectl("get", "gpuserver", "gpu-01").stdout.splitlines()]
        return dict(zip(rows[0], rows[1])).get("FIT") == str(n)

    wait_for(check, WAIT_S, lambda: f"FIT {n}: {status(c)}")


def admitted(c, ns, name):
    """The uid of a pod with a GPU whose claim is bound: one that is only pending outlives its pod for a while."""
    uid = c.client.create(gpu_pod(name), ns)["metadata"]["uid"]
    assert uid in {u for u, _ in claims(c)}
    wait_for(lambda: (uid, "bound") in claims(c), WAIT_S, "a bound claim")
    return uid


def refusal(c, ns, amount=1):
    with pytest.raises(ApiError) as e:
        c.client.create(gpu_pod("refused", amount=amount), ns)
    assert e.value.status == 403
    return e.value.message


def held(c):
    return {g["id"] for x in status(c).get("claims", []) for g in x["gpus"]}


def test_gpus_of_a_probe_are_placed_on(c, probe, ns):
    """Ready once its GPUs are verified; they are the probe's, by UUID, model and memory; a pod is admitted and holds one."""
    wait_for(lambda: condition(c, "Ready").get("status") == "True", WAIT_S, lambda: f"a ready server: {status(c)}\n{probe.process.log()}")
    wait_fit(c, GPUS)
    found = status(c)["gpus"]
    assert [(g["id"], g["model"], g["memory"], g["fit"]) for g in found] == [(u, "NVIDIA H200", MEMORY, True) for u in UUIDS]
    assert condition(c, "Fresh")["reason"] == "ProbeAnswered"
    admitted(c, ns, "trains")
    assert held(c) < set(UUIDS)


def test_bad_gpu_takes_nothing_and_comes_back(c, probe, ns):
    """NVML tells of a failed memory repair: that GPU keeps its claim, gets no other, and refusals say why. Repaired, and verified, it is
    placed on again."""
    wait_fit(c, GPUS)
    first = admitted(c, ns, "first")
    bad = next(iter(held(c)))
    at = UUIDS.index(bad)
    probe.nvml(HEALTHY + f"{at}.remap_failed=1\n")
    wait_fit(c, 1)
    row = status(c)["gpus"][at]
    assert row["id"] == bad and not row["fit"] and "REMAP_FAILED" in row["reason"], row
    assert first in {u for u, _ in claims(c)}
    says = refusal(c, ns, 2)
    assert "the pool has 1 GPU that can be used, beside 1 that cannot: 1 unfit" in says and "REMAP_FAILED" in says, says
    c.client.delete("pods", "first", ns, grace=1)
    wait_for(lambda: not claims(c), WAIT_S, "no claim")
    admitted(c, ns, "second")
    assert held(c) == set(UUIDS) - {bad}
    probe.nvml(HEALTHY + "remap_failed=1\n")
    wait_fit(c, 0)
    assert condition(c, "Ready")["reason"] == "NoneFit"
    says = refusal(c, ns)
    assert "none can be used: 2 unfit (gpu-01/GPU-" in says and "REMAP_FAILED" in says, says
    probe.nvml(HEALTHY)
    wait_fit(c, GPUS)
    assert condition(c, "Ready")["status"] == "True"
    admitted(c, ns, "third")
    assert held(c) == set(UUIDS)


def test_wrong_secrets_are_told(c, probe):
    """A server whose Secrets do not fit its probe is not ready and says why; with the right token it gets ready by itself."""
    c.client.create(secret("token-of-another", token="not that one"), SYSTEM)
    c.client.create(secret("ca-of-another", **{"ca.crt": read(probe.other_cert)}), SYSTEM)
    c.client.create(server("gpu-token", probe, "probe-ca", "token-of-another"))
    c.client.create(client_secret("client-of-another", probe.clients.client("another")), SYSTEM)
    c.client.create(server("gpu-ca", probe, "ca-of-another", "probe-token"))
    c.client.create(server("gpu-none", probe, "probe-ca", "probe-token", None))
    c.client.create(server("gpu-client", probe, "probe-ca", "probe-token", "client-of-another"))
    try:
        for name, says in (("gpu-token", "HTTP 401"), ("gpu-ca", "certificate"), ("gpu-none", "HTTP 403"), ("gpu-client", "HTTP 403")):
            wait_for(lambda n=name: condition(c, "Fresh", n).get("reason") == "NoAnswer", WAIT_S, lambda n=name: f"{status(c, n)}")
            assert says in condition(c, "Fresh", name)["message"]
            assert condition(c, "Ready", name)["status"] == "False" and says in condition(c, "Ready", name)["message"]
            assert not status(c, name).get("gpus")
        c.client.patch("secrets", "token-of-another", {"stringData": {"token": "a token of this server"}}, SYSTEM)
        wait_for(lambda: condition(c, "Fresh", "gpu-token").get("status") == "True", WAIT_S, lambda: f"an answer: {status(c, 'gpu-token')}")
        assert "gpu-01" in c.kubectl("get", "gpuservers").stdout
    finally:
        for name in ("gpu-token", "gpu-ca", "gpu-none", "gpu-client"):
            c.client.delete("gpuservers", name)
            wait_for(lambda n=name: not c.client.find("gpuservers", n), WAIT_S, "servers that are gone")


def test_probe_that_ends_leaves_its_server_stale(c, probe, ns):
    """Last: killed, it answers nobody. What was admitted stays; nothing new is, and the refusal says that it is for want of news."""
    wait_fit(c, GPUS)
    stays = admitted(c, ns, "stays")
    probe.process.stop(signal.SIGKILL)
    wait_for(lambda: condition(c, "Fresh").get("reason") == "NoAnswer", WAIT_S, lambda: f"a stale server: {status(c)}")
    assert condition(c, "Ready")["reason"] == "NotFresh"
    wait_for(lambda: "2 not reported lately" in refusal(c, ns), WAIT_S, lambda: refusal(c, ns))
    assert stays in {u for u, _ in claims(c)}
    probe.process.start()
    wait_for(lambda: condition(c, "Ready").get("status") == "True", WAIT_S, lambda: f"a ready server: {status(c)}")
    admitted(c, ns, "again")
