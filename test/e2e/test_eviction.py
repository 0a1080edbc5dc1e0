# SPDX-License-Identifier: Apache-2.0
"""Pods that hold GPUs and find no node: components/eviction on a real API server, beside components/waiting, whose policy holds our account.
No scheduler runs: what it would say is written by the test."""
import os

import pytest
import yaml

import kube
from cluster import ROOT, Cluster
from product import claims, client_namespace, gpu_pod, servers, wait_for
from replicas import Replicas

COMPOSED = os.path.join(ROOT, "build/e2e/eviction")
NO_NODE = {"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                                      "message": "0/1 nodes are available: 1 Insufficient cpu."}]}}
IGNORES = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}


def composed():
    """The base with both components, as an operator writes it."""
    os.makedirs(COMPOSED, exist_ok=True)
    with open(os.path.join(COMPOSED, "kustomization.yaml"), "w", encoding="utf-8") as f:
        yaml.safe_dump({"resources": ["../../../manifests/base"],
                        "components": [f"../../../manifests/components/{n}" for n in ("waiting", "eviction")]}, f)
    return os.path.relpath(COMPOSED, ROOT)


@pytest.fixture(scope="module", name="c")
def fixture_light():
    with Cluster.light(name="eviction") as c, Replicas(c, 1, {"cluster": {"eviction": {"after": "3s"}}}, path=composed()):
        yield c


def job(c, ns, name, **spec):
    template = gpu_pod("x")
    template["metadata"].pop("name")
    made = c.client.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {
        "template": {"metadata": template["metadata"], "spec": template["spec"]}, **spec}}, namespace=ns)
    return owned("batch/v1", "Job", name, made["metadata"]["uid"])


def owned(version, kind, name, uid):
    return [{"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}]


def is_gone(c, name, ns):
    try:
        c.client.get("pods", name, ns)
    except kube.ApiError as e:
        return e.status == 404
    return False


def test_who_finds_no_node(c):
    """Whom a ReplicaSet replaces, or a Job without counting it, goes and gives its GPU back; all others stay, and are told why."""
    with servers(c, {"gpu-e": 4}), client_namespace(c, name="evicted") as ns:
        owners = {"set": owned("apps/v1", "ReplicaSet", "set", "00000000-0000-0000-0000-00000000000a"), "bare": [],
                  "counts": job(c, ns, "counts"), "ignores": job(c, ns, "ignores", podFailurePolicy=IGNORES)}
        uids = {}
        for name, owner in owners.items():
            pod = gpu_pod(name)
            pod["metadata"]["ownerReferences"] = owner
            uids[name] = c.client.create(pod, namespace=ns)["metadata"]["uid"]
        wait_for(lambda: claims(c) == {(uid, "bound") for uid in uids.values()}, 30, "four claims")
        wait_for(lambda: not any(p["spec"].get("schedulingGates") for p in c.client.items("pods", ns)), 20, "pods that are let go")
        for name in owners:
            c.client.patch("pods", name, NO_NODE, ns, "strategic", "status")
        wait_for(lambda: is_gone(c, "set", ns) and is_gone(c, "ignores", ns), 30, "two evictions")
        wait_for(lambda: claims(c) == {(uids[n], "bound") for n in ("bare", "counts")}, 30, "their claims' ends")

        def told():
            return {(e["involvedObject"]["name"], e["reason"]) for e in c.client.items("events", ns)}

        wait_for(lambda: {("set", "EvictedWithoutNode"), ("ignores", "EvictedWithoutNode"), ("bare", "NotEvicted"), ("counts", "NotEvicted")}
                 <= told(), 20, "Events")
        notes = [e["message"] for e in c.client.items("events", ns) if e["reason"] == "EvictedWithoutNode"]
        assert all("1 Insufficient cpu" in n for n in notes), notes
