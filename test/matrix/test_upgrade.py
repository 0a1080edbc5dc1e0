# SPDX-License-Identifier: Apache-2.0
"""The cluster is upgraded below a poolgate that runs: the API server of one version is stopped, the next one started on the same etcd.
Claims and pods stand as they were, ended pods' claims end, and new pods are admitted. $POOLGATE_MATRIX_UPGRADE names the folders of
the API servers in their order, VERSION=FOLDER."""
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [p for p in (os.path.join(os.path.dirname(HERE), "e2e"),) if p not in sys.path]

import kube  # noqa: E402
from cluster import Cluster  # noqa: E402
from product import ClaimLog, claims, client_namespace, gpu_pod, servers, wait_for  # noqa: E402
from replicas import Replicas  # noqa: E402

VERSIONS = [word.split("=", 1) for word in os.environ.get("POOLGATE_MATRIX_UPGRADE", "").split()]


def upgrade(cluster, folder):
    """Stop the API server and start that of the folder in its place."""
    cluster.apiserver.stop()
    cluster.bin = folder
    cluster.apiserver.argv[0] = cluster.program("kube-apiserver")
    cluster.apiserver.start()


def version(cluster):
    return cluster.client.call("GET", "/version")["gitVersion"]


@pytest.mark.parametrize("before,after", list(zip(VERSIONS, VERSIONS[1:])), ids=lambda v: v[0])
def test_upgrade(before, after, monkeypatch):
    monkeypatch.setenv("POOLGATE_E2E_BIN", before[1])
    with Cluster.light(name=f"upgrade-{after[0]}") as cluster, Replicas(cluster, 2) as replicas, servers(cluster, {"gpu-a": 2}), \
            client_namespace(cluster) as ns, ClaimLog(cluster, ns) as log:
        assert version(cluster) == "v" + before[0]

        def create(name):
            return cluster.client.create(gpu_pod(name, percent=50), ns)["metadata"]["uid"]

        uids = {create(f"before-{i}") for i in range(3)}
        wait_for(lambda: claims(cluster) == {(uid, "bound") for uid in uids}, 30, "a bound claim for each pod")
        upgrade(cluster, after[1])
        assert version(cluster) == "v" + after[0]
        replicas.wait_ready()
        # The fourth half of two GPUs, and no fifth: what was promised before is known.
        uids.add(wait_for(lambda: create("after"), 30, "a pod that is admitted"))
        with pytest.raises(kube.ApiError, match="NoCapacity"):
            create("too-many")
        wait_for(lambda: claims(cluster) == {(uid, "bound") for uid in uids}, 30, "a bound claim for each pod, and no other")
        gone = cluster.client.get("pods", "before-0", ns)["metadata"]["uid"]
        cluster.client.delete("pods", "before-0", ns, grace=0)
        log.check_end(gone)
        wait_for(lambda: create("in-its-place"), 30, "the place is free")
        assert not any(replicas.metrics(i)["poolgate_adoptions_total"] for i in range(2)), "a claim was adopted"
