# SPDX-License-Identifier: Apache-2.0
"""Pods that ask by nvidia.com/gpu, on a real API server: kubectl applies what others' examples say, again and again."""
import contextlib
import copy
import os

import pytest
import yaml

from cluster import ROOT, Cluster
from product import claims, client_secrets, servers, wait_for
from replicas import Replicas
from test_policy import DEFAULTS, POLICY, composed, policies, policy, refused

EXAMPLES = os.path.join(ROOT, "test/integration/foreign")
GPU, UNITS = "nvidia.com/gpu", "bitfusion.io/gpu"
VOID = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}


@pytest.fixture(scope="module", name="c")
def fixture_light():
    """With the controllers, which make a Deployment's pods; nobody schedules them."""
    with Cluster.light(controllers=True, name="foreign") as c, Replicas(c, 1, path=composed()) as c.replicas:
        c.client.create({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia",
                         "overhead": {"podFixed": {"cpu": "10m"}}, "scheduling": {"nodeSelector": {"nvidia.com/gpu.deploy": "true"}}})
        yield c


def example(name):
    with open(os.path.join(EXAMPLES, name), encoding="utf-8") as f:
        return yaml.safe_load(f)


def limits(pod):
    return pod["spec"]["containers"][0]["resources"]["limits"]


def check_converted(pod, units):
    spec = pod["spec"]
    assert limits(pod).get(UNITS) == units and GPU not in limits(pod), spec
    assert VOID in spec["containers"][0]["env"]
    assert not any(key.startswith("nvidia.com/") for key in spec.get("nodeSelector", {})), spec
    assert not any(t.get("key", "").startswith("nvidia.com/") for t in spec["tolerations"]), spec
    assert "runtimeClassName" not in spec and "overhead" not in spec and "nvidia.com" not in str(spec.get("affinity")), spec


def apply(c, ns, *objects):
    return c.kubectl("apply", "-n", ns, "-f", "-", input=yaml.safe_dump_all(objects))


@contextlib.contextmanager
def accepting(c):
    """A namespace whose policy accepts the key, beside four GPUs."""
    with servers(c, {"gpu-k": 4}), policies(c, policy("keys", inject=True, accepts=[GPU], defaults=DEFAULTS)), \
            c.namespace(labels={POLICY: "keys"}) as ns:
        yield ns


def ended(c, ns):
    """No pod of the namespace is left, and no claim."""
    def gone():
        c.client.delete_all("pods", ns, grace=0)
        return not claims(c)

    wait_for(gone, 60, "the claims' end")


def test_a_pod_is_applied_again(c):
    """By kubectl, client-side and server-side; the label is taken off and put on again; what comes out is what was made first."""
    pod = example("nvidia-pod.yaml")
    pod["spec"].update({"runtimeClassName": "nvidia", "nodeSelector": {"nvidia.com/gpu.present": "true", "disk": "ssd"}, "affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["A100"]}, {"key": "zone", "operator": "Exists"}]}]}}}})
    other = copy.deepcopy(pod)
    other["metadata"]["name"] = "other"
    with accepting(c) as ns:
        client_secrets(c, ns)
        apply(c, ns, pod)
        made = c.client.get("pods", "cuda-sample", ns)
        check_converted(made, "25")
        assert made["spec"]["nodeSelector"] == {"disk": "ssd"}
        wait_for(lambda: claims(c) == {(made["metadata"]["uid"], "bound")}, 30, "its claim")
        assert "unchanged" in apply(c, ns, pod).stdout or c.client.get("pods", "cuda-sample", ns)["spec"] == made["spec"]
        c.client.patch("namespaces", ns, {"metadata": {"labels": {POLICY: None}}})
        wait_for(lambda: limits(c.client.create(without_class(other), ns, dry_run=True)).get(GPU) == "1", 20, "no policy")
        # nothing is forgotten, and nothing new is converted
        apply(c, ns, pod)
        assert c.client.get("pods", "cuda-sample", ns)["spec"] == made["spec"]
        c.kubectl("apply", "-n", ns, "--server-side", "--force-conflicts", "-f", "-", input=yaml.safe_dump(pod))
        assert c.client.get("pods", "cuda-sample", ns)["spec"] == made["spec"]
        c.client.patch("namespaces", ns, {"metadata": {"labels": {POLICY: "keys"}}})
        apply(c, ns, pod)
        assert c.client.get("pods", "cuda-sample", ns)["spec"] == made["spec"]
        more = copy.deepcopy(pod)
        more["spec"]["containers"][0]["resources"]["limits"][GPU] = 2
        said = c.kubectl("apply", "-n", ns, "-f", "-", input=yaml.safe_dump(more), check=False)
        assert said.returncode and "asks for other GPUs than the pod was admitted with" in said.stderr, said.stderr
        ended(c, ns)


def without_class(pod):
    """Of a cluster whose nodes have no such runtime."""
    pod = copy.deepcopy(pod)
    pod["spec"].pop("runtimeClassName")
    return pod


def test_a_deployment_that_knows_nothing_of_us(c):
    with accepting(c) as ns:
        client_secrets(c, ns)
        deployment = example("nvidia-deployment.yaml")
        apply(c, ns, deployment)
        wait_for(lambda: len(claims(c)) == 2, 60, "both claims")
        pods = c.client.list("pods", ns)["items"]
        assert len(pods) == 2
        for pod in pods:
            check_converted(pod, "50")
        assert "configured" not in apply(c, ns, deployment).stdout
        # the template is as it was written: who counts by name counts right
        template = c.client.get("deployments", "inference", ns)["spec"]["template"]["spec"]
        assert template["containers"][0]["resources"]["limits"][GPU] == "2" and template["runtimeClassName"] == "nvidia"
        c.client.delete("deployments", "inference", ns)
        ended(c, ns)


def test_a_policy_that_keeps_ties_is_told(c):
    """In its condition, until it takes them out."""
    def told():
        return [(x["type"], x["status"], x["reason"]) for x in c.client.get("gpupolicies", "tied").get("status", {}).get("conditions", [])]

    with policies(c, policy("tied", inject=True, accepts=[GPU], ties="keep", defaults=DEFAULTS)):
        wait_for(lambda: told() == [("TiesKept", "True", "PolicyKeepsTies")], 30, "the condition")
        c.client.patch("gpupolicies", "tied", {"spec": {"ties": None}})
        wait_for(lambda: told() == [], 30, "the condition's end")


def test_asked_twice_and_half_accepted(c):
    with accepting(c) as ns:
        pod = example("nvidia-pod.yaml")
        limits(pod)["bitfusion.io/gpu-amount"] = "1"
        refused(lambda: c.client.create(pod, ns, dry_run=True), "the container asks by nvidia.com/gpu and")
        half = example("hami-pod.yaml")
        refused(lambda: c.client.create(half, ns, dry_run=True), "which the namespace's policy does not accept")
