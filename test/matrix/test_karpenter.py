# SPDX-License-Identifier: Apache-2.0
"""The real Karpenter, with the cloud that its module brings for trials: it makes Node objects, and no machines. Pods that want a node of its
pool get one, by the recipe of docs/operating.md where they ask their node for bitfusion.io/gpu, and without where they do not. The kubelet
of such a node is played: it says that it is ready."""
import os
import re
import sys

import pytest
import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [p for p in (HERE, os.path.join(ROOT, "test/e2e")) if p not in sys.path]

import controllers  # noqa: E402
import kube  # noqa: E402
from product import ClaimLog, gpu_pod, no_node_resource, wait_for  # noqa: E402

pytestmark = pytest.mark.skipif("karpenter" not in controllers.BUILT, reason="karpenter is not built: make matrix builds it")
NODEPOOL = "karpenter.sh/nodepool"
# Keeps pods that are to run away from nodes that run none.
TAINT = {"key": "no-kubelet", "effect": "NoSchedule"}


def boot(cluster, pool):
    """What a kubelet says of a new node; the pool's nodes."""
    nodes = cluster.client.items("nodes", labelSelector=f"{NODEPOOL}={pool}")
    for node in nodes:
        name, taints = node["metadata"]["name"], node["spec"].get("taints") or []
        left = [t for t in taints if t["key"] != "node.kubernetes.io/not-ready"]
        if left != taints:
            try:
                cluster.client.patch("nodes", name, {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
                                                     "spec": {"taints": left}})
                cluster.client.patch("nodes", name, {"status": {"conditions": [
                    {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": node["metadata"]["creationTimestamp"],
                     "lastHeartbeatTime": node["metadata"]["creationTimestamp"]}]}}, subresource="status")
            except kube.ApiError as e:  # somebody else has written it: next time
                assert e.status in (404, 409), e
    return nodes


@pytest.fixture(scope="module", name="world")
def fixture_world(installed):
    controllers.install(installed, "karpenter")
    installed.client.create({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}})
    return installed


@pytest.fixture(name="nodes")
def fixture_nodes(world, ns):
    """The name of a NodePool of the test's own; its nodes are gone afterwards."""
    world.client.create({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": ns}, "spec": {
        "limits": {"cpu": 100}, "template": {"metadata": {"labels": {"poolgate.io/gpu-client": ""}}, "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "taints": [TAINT],
            "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}}}})
    yield ns
    world.client.delete_all("pods", ns, grace=0)
    world.client.delete("nodepools", ns)
    wait_for(lambda: not boot(world, ns), 90, "nodes that go with their pool")


def create(cluster, ns, nodes, name):
    return cluster.client.create(gpu_pod(name, percent=50, nodeSelector={NODEPOOL: nodes}, tolerations=[TAINT]), ns)["metadata"]["uid"]


def placed(cluster, ns, name):
    """The pod's node, once it has one of the pool."""
    def check():
        boot(cluster, ns)
        return cluster.client.get("pods", name, ns)["spec"].get("nodeName")

    return wait_for(check, 120, lambda: f"a node for {name}\n{cluster.describe('pod', name, ns)}"
                    f"\n{cluster.kubectl('get', 'nodes,nodeclaims,nodeoverlays', '-o', 'wide', check=False).stdout}")


def check_end(cluster, log, ns, name, uid):
    log.wait(uid, "bound")
    # What a kubelet says of a program that has ended; a pod that merely vanishes keeps its claim for a while.
    cluster.client.patch("pods", name, {"status": {"phase": "Succeeded"}}, ns, subresource="status")
    log.check_end(uid)


def test_karpenter_overlay(world, pool, ns, nodes):
    """Of bitfusion.io/gpu Karpenter knows nothing, and makes no node; with the documented NodeOverlay it makes one."""
    with open(os.path.join(ROOT, "docs/operating.md"), encoding="utf-8") as f:
        overlay = yaml.safe_load(re.search(r"```yaml\n(apiVersion: karpenter.sh/v1alpha1.*?)```", f.read(), re.S).group(1))
    with ClaimLog(pool, ns) as log:
        uid = create(pool, ns, nodes, "pod")
        wait_for(lambda: [e for e in world.client.items("events", ns) if "no instance type has enough resources" in e.get("message", "")], 60,
                 "Karpenter's word on the pod")
        assert not boot(world, nodes)
        world.client.create(overlay)
        try:
            node = placed(world, ns, "pod")
            assert "bitfusion.io/gpu" in world.client.get("nodes", node)["status"]["allocatable"]
            check_end(world, log, ns, "pod", uid)
        finally:
            world.client.delete("nodeoverlays", overlay["metadata"]["name"])


def test_karpenter_node_resource(world, pool, ns, nodes):
    """nodeResource: false: a node is made, and none of its resources is ours."""
    with no_node_resource(pool), ClaimLog(pool, ns) as log:
        uid = create(pool, ns, nodes, "light")
        node = placed(world, ns, "light")
        assert not [r for r in world.client.get("nodes", node)["status"]["allocatable"] if "gpu" in r]
        check_end(world, log, ns, "light", uid)
