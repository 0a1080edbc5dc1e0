# SPDX-License-Identifier: Apache-2.0
"""Argo CD's way of finding drift: what it has applied server-side, it applies again as a dry run, and compares the answer with what lives.
That is `kubectl diff --server-side`. poolgate changes nothing that is compared: neither our own objects, whose bundles the leader has written,
nor an injected pod."""
import os
import sys

import pytest
import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [p for p in (os.path.join(ROOT, "test/e2e"),) if p not in sys.path]

from cluster import Cluster  # noqa: E402
from product import claims, client_namespace, gpu_pod, gpu_server, servers, wait_for  # noqa: E402
from replicas import Replicas  # noqa: E402

ARGO = ("--server-side", "--field-manager=argocd-controller", "--force-conflicts")


@pytest.fixture(scope="module", name="world")
def fixture_world():
    with Cluster.light(name="gitops") as cluster, Replicas(cluster, 1), servers(cluster, {"gpu-a": 2}), client_namespace(cluster) as ns:
        yield cluster, ns


def objects_of(cluster, ns):
    """What a repository would hold: the product, a server, a pod with our annotations, a Deployment and a CronJob of such."""
    template = {"metadata": {"annotations": gpu_pod("x")["metadata"]["annotations"], "labels": {"app": "x"}}, "spec": gpu_pod("x")["spec"]}
    pods = dict(template, spec={k: v for k, v in template["spec"].items() if k != "restartPolicy"})
    meta = {"namespace": ns}
    product = cluster.render(os.path.join(ROOT, "manifests/base"))
    for obj in product:
        if obj["kind"] == "Deployment":
            obj["spec"]["replicas"] = 0
    pod = gpu_pod("pod", percent=50)
    pod["metadata"]["namespace"] = ns
    return [*product, gpu_server("gpu-a", 2), pod,
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {**meta, "name": "deployment"},
             "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": pods}},
            {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {**meta, "name": "cron"},
             "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template}}}}]


def test_no_drift(world):
    cluster, ns = world
    text = yaml.safe_dump_all(objects_of(cluster, ns), sort_keys=False)
    cluster.kubectl("apply", *ARGO, "-f", "-", input=text)
    wait_for(lambda: len([c for c in claims(cluster) if c[1] == "bound"]) == 1, 30, "the pod's claim")
    for _ in range(2):  # and applying it again changes nothing either
        done = cluster.kubectl("diff", *ARGO, "-f", "-", input=text, check=False)
        assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
        cluster.kubectl("apply", *ARGO, "-f", "-", input=text)
    assert len(claims(cluster)) == 1


def test_drift_is_found(world):
    """The comparison sees what somebody else has changed."""
    cluster, ns = world
    found = [o for o in objects_of(cluster, ns) if o["metadata"]["name"] == "cron"]
    cluster.kubectl("apply", *ARGO, "-f", "-", input=yaml.safe_dump_all(found))
    cluster.client.patch("cronjobs", "cron", {"spec": {"schedule": "0 0 2 2 *"}}, ns)
    done = cluster.kubectl("diff", *ARGO, "-f", "-", input=yaml.safe_dump_all(found), check=False)
    assert done.returncode == 1 and "+  schedule: 0 0 1 1 *" in done.stdout, done.stdout + done.stderr
