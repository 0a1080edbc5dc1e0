# SPDX-License-Identifier: Apache-2.0
"""poolgate in a cluster, as tests see it: objects to create, claims to look at, and the shipped manifests installed.

    def test_x(pool, ns):                     # fixtures of conftest.py: a cluster with poolgate and GPUServers, a namespace
        pod = pool.client.create(gpu_pod("p", percent=50), namespace=ns)
        wait_for(lambda: (pod["metadata"]["uid"], "bound") in claims(pool), 20, "a bound claim")
"""
import contextlib
import os
import time

import images
import kube

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SYSTEM = "poolgate-system"
MB = 10 ** 6
# Secret bitfusion-client-secret-…: the key in it.
CLIENT_SECRETS = {"ca.crt": "ca.crt", "client.yml": "client.yaml", "servers.conf": "servers.conf"}


def wait_for(check, seconds, what):
    """What check() returns as soon as it is true."""
    end = time.monotonic() + seconds
    while True:
        value = check()
        if value:
            return value
        assert time.monotonic() < end, f"not within {seconds} s: {what() if callable(what) else what}; last seen {value!r}"
        time.sleep(0.1)


def gpu_server(name, gpus=1, memory="16G", **labels):
    return {"apiVersion": "poolgate.io/v1alpha1", "kind": "GPUServer", "metadata": {"name": name, "labels": labels},
            "spec": {"address": f"{name}.lab:56001", "gpus": [{"model": "Tesla V100-PCIE-16GB", "memory": memory, "count": gpus}]}}


def gpu_pod(name, percent=100, amount=1, command=("/bin/sh", "-c", "sleep 300"), **spec):
    limits = {"bitfusion.io/gpu-amount": str(amount), "bitfusion.io/gpu-percent": str(percent)}
    meta = {"generateName": name} if name.endswith("-") else {"name": name}
    meta["annotations"] = {"auto-management/bitfusion": "all", "bitfusion-client/os": "ubuntu20", "bitfusion-client/version": "450"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta,
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [
                {"name": "main", "image": "localhost/busybox:e2e", "imagePullPolicy": "Never", "command": list(command),
                 "resources": {"limits": limits}}], **spec}}


def claims(cluster, server=None):
    """(uid, state) of every claim of the pool, or of one server."""
    return {(c["uid"], c["state"]) for s in cluster.client.items("gpuservers") if server in (None, s["metadata"]["name"])
            for c in s.get("status", {}).get("claims", [])}


def check_sums(server):
    """No byte of a GPU is promised twice."""
    status = server.get("status", {})
    held = {}
    for claim in status.get("claims", []):
        for part in claim["gpus"]:
            held[part["id"]] = held.get(part["id"], 0) + part["bytes"]
        assert claim["state"] != "adopted", f"a claim was adopted: {claim}"
    for gpu in status.get("gpus", []):
        assert held.get(gpu["id"], 0) <= gpu["memory"], f"{server['metadata']['name']}/{gpu['id']} is promised twice: {status}"


def install(cluster, path="manifests/base", change=None):
    """The shipped manifests, unchanged but for the image's name, from nothing to Ready; the image's name."""
    image = os.environ.get("POOLGATE_IMAGE") or os.path.join(ROOT, "build/image/poolgate.oci.tar")
    name = cluster.import_image(image)[0]
    cluster.apply_kustomize(os.path.join(ROOT, path), image=name, change=change)
    cluster.kubectl("-n", SYSTEM, "rollout", "status", "deployment/poolgate", "--timeout=60s")
    old_replicas_end(cluster)
    wait_for(lambda: all(h["clientConfig"].get("caBundle") for kind in ("mutating", "validating")
                         for h in cluster.client.get(f"{kind}webhookconfigurations", "poolgate")["webhooks"]), 30, "a caBundle")
    return name


def old_replicas_end(cluster):
    """After a rollout, which is done before: replicas that end answer with the settings of before."""
    wait_for(lambda: not [p for p in cluster.client.items("pods", SYSTEM) if p["metadata"].get("deletionTimestamp")], 90,
             "the old replicas' end")


@contextlib.contextmanager
def no_node_resource(cluster):
    """The installed replicas have the setting nodeResource: false for the block."""
    def roll_out(value):
        cluster.client.patch("deployments", "poolgate", [{"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": value}],
                             SYSTEM, kind="json")
        cluster.kubectl("-n", SYSTEM, "rollout", "status", "deployment/poolgate", "--timeout=60s")
        old_replicas_end(cluster)

    args = cluster.client.get("deployments", "poolgate", SYSTEM)["spec"]["template"]["spec"]["containers"][0]["args"]
    try:
        roll_out([*args, "--node-resource=false"])
        yield
    finally:
        roll_out(args)


def own_client(folder):
    """For a kustomization in this folder, as an operator writes one: the shipped sidecar config with an image that there is; the entry of
    configMapGenerator."""
    with open(os.path.join(images.EXAMPLES, "sidecar.yaml"), encoding="utf-8") as f:
        text = images.set_client(f.read())
    with open(os.path.join(folder, "sidecar.yaml"), "w", encoding="utf-8") as f:
        f.write(text)
    return {"name": "poolgate-client", "namespace": SYSTEM, "behavior": "merge", "files": ["sidecar.yaml"]}


@contextlib.contextmanager
def servers(cluster, gpus, memory="16G"):
    """GPUServers that take claims, by name and number of GPUs; gone after the block."""
    for name, count in gpus.items():
        cluster.client.create(gpu_server(name, count, memory))
    wait_for(lambda: all(s.get("status", {}).get("summary", {}).get("fit") == gpus[s["metadata"]["name"]]
                         for s in cluster.client.items("gpuservers") if s["metadata"]["name"] in gpus), 30, "servers that take claims")
    yield
    for name in gpus:
        with contextlib.suppress(kube.ApiError):
            cluster.client.delete("gpuservers", name)
    wait_for(lambda: not [s for s in cluster.client.items("gpuservers") if s["metadata"]["name"] in gpus], 90, "GPUServers that are gone")


def client_secrets(cluster, namespace):
    """The Secrets that the client's containers mount."""
    for secret, key in CLIENT_SECRETS.items():
        cluster.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"bitfusion-client-secret-{secret}"},
                               "stringData": {key: "for the test"}}, namespace=namespace)


@contextlib.contextmanager
def client_namespace(cluster, **kw):
    """A namespace with the client's Secrets; its pods are gone, and their claims, after the block. kw: as Cluster.namespace()."""
    with cluster.namespace(**kw) as name:
        client_secrets(cluster, name)
        yield name
        cluster.client.delete("namespaces", name)  # first: no controller makes its pods anew
        cluster.client.delete_all("pods", name, grace=1)
        wait_for(lambda: not [c for s in cluster.client.items("gpuservers") for c in s.get("status", {}).get("claims", [])
                              if c["namespace"] == name], 90, "claims that end with their pods")


class ClaimLog:
    """The life of every claim and of every pod (of a namespace), from every version of every GPUServer and pod while the block runs.
    By the pod's uid: `states` a claim was seen in, one after the other; `taken` and `ended`, when it was first seen and when it was no
    more; `finished`, when the pod was Succeeded or Failed, or gone (monotonic seconds); `names`, (namespace, name) that the claim
    says; `on`, the servers that have it now; `held`, all that it has ever had, {(server, GPU): bytes}. Leaving checks what holds for
    any test: no byte promised twice, nothing adopted, and no claim that came back after its end."""

    def __init__(self, cluster, namespace=None):
        self.states, self.taken, self.ended, self.finished, self.wrong = {}, {}, {}, {}, []
        self.on, self.names, self.held = {}, {}, {}
        self.servers = kube.Observer(cluster.client, "gpuservers", on_event=self._server)
        self.pods = kube.Observer(cluster.client, "pods", namespace, on_event=self._pod)

    def _server(self, kind, server):
        now, name, held = time.monotonic(), server["metadata"]["name"], {}
        if kind != "DELETED":
            found = server.get("status", {}).get("claims", [])
            held = {c["uid"]: c["state"] for c in found}
            for c in found:
                self.names[c["uid"]] = (c["namespace"], c["name"])
                self.held.setdefault(c["uid"], {}).update({(name, g["id"]): g["bytes"] for g in c["gpus"]})
            try:
                check_sums(server)
            except AssertionError as e:
                self.wrong.append(str(e))
        for uid, state in held.items():
            if uid in self.ended:
                self.wrong.append(f"the claim of {uid} has ended and is back on {name}")
            self.taken.setdefault(uid, now)
            self.on.setdefault(uid, set()).add(name)
            if self.states.setdefault(uid, [state])[-1] != state:
                self.states[uid].append(state)
        for uid, names in self.on.items():
            if name in names and uid not in held:
                names.discard(name)
                if not names:
                    self.ended[uid] = now

    def _pod(self, kind, pod):
        if kind == "DELETED" or pod["status"].get("phase") in ("Succeeded", "Failed"):
            self.finished.setdefault(pod["metadata"]["uid"], time.monotonic())

    def wait(self, uid, state, seconds=20):
        """Until the claim has been in this state; "ended" is one too."""
        wait_for(lambda: uid in self.ended if state == "ended" else state in self.states.get(uid, []), seconds,
                 lambda: f"the claim of {uid} is {state}: {self.states.get(uid)}, finished {self.finished.get(uid)}")

    def check_end(self, uid, seconds=60, lingers=0):
        """The claim has ended: not before its pod (two watches may differ a little) and the time for which it lingers, and within 5 s of both."""
        wait_for(lambda: uid in self.finished, seconds, f"the end of pod {uid}")
        self.wait(uid, "ended", 15 + lingers)
        late = self.ended[uid] - self.finished[uid] - lingers
        assert -2 < late <= 5, f"the claim of {uid} ended {late:.2f} s after its pod"

    def __enter__(self):
        self.pods.start()
        self.servers.start()
        return self

    def __exit__(self, kind, *_):
        for one in (self.pods, self.servers):
            one.__exit__(kind)
        if kind is None:
            assert not self.wrong, self.wrong[:3]
