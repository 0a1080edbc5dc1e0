# SPDX-License-Identifier: Apache-2.0
"""poolgate is upgraded from the version before, whose tree and image lie in the folder $POOLGATE_UPGRADE (test/upgrade/build), on a cluster with a
node: by `kubectl apply -k` and by Helm, as docs/operating.md says it. Pods run and wait meanwhile, and reviews go on."""
import os
import subprocess
import time

import pytest
import yaml

import images
import product
from cluster import Cluster
from load import Load
from product import ROOT, SYSTEM, ClaimLog, claims, client_namespace, gpu_pod, servers, wait_for
from test_install import ready, replicas, rolled
from test_waiting import gated, waiting

OLD = os.environ["POOLGATE_UPGRADE"]
HELM = os.path.join(os.environ["POOLGATE_HELM"], "helm")
IMAGE = "localhost/poolgate-upgrade"


def sidecar(tree):
    """The sidecar config that a version ships, with an image that there is."""
    with open(os.path.join(tree, "manifests/examples/sidecar.yaml"), encoding="utf-8") as f:
        return images.set_client(f.read())


def kustomize(c, tree, tag, folder):
    """The operator's own kustomization: the base with components/waiting, his image and his client."""
    folder = folder / tag
    folder.mkdir()
    (folder / "sidecar.yaml").write_text(sidecar(tree), encoding="utf-8")
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({
        "resources": [os.path.relpath(os.path.join(tree, "manifests/base"), folder)],
        "components": [os.path.relpath(os.path.join(tree, "manifests/components/waiting"), folder)],
        "images": [{"name": "localhost/poolgate", "newName": IMAGE, "newTag": tag}],
        "configMapGenerator": [{"name": "poolgate-client", "namespace": SYSTEM, "behavior": "merge", "files": ["sidecar.yaml"]}]}), encoding="utf-8")
    c.kubectl("apply", "-k", str(folder))


def helm(c, tree, tag, folder):
    """The chart, the CRD before an upgrade of it."""
    values = folder / f"{tag}.yaml"
    values.write_text(yaml.safe_dump({"image": {"repository": IMAGE, "tag": tag}, "waiting": {"enabled": True},
                                      "client": {"sidecar": yaml.safe_load(sidecar(tree))}}), encoding="utf-8")
    chart = os.path.join(tree, "charts/poolgate")
    if c.client.find("crds", "gpuservers.poolgate.io"):
        c.kubectl("apply", "-f", os.path.join(chart, "crds"))
    done = subprocess.run([HELM, "upgrade", "--install", "--create-namespace", "-n", SYSTEM, "-f", values, "poolgate", chart],
                          env={**os.environ, "KUBECONFIG": c.kubeconfig(), "HOME": str(folder)}, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("apply", [kustomize, helm], ids=lambda f: f.__name__)
def test_upgrade(apply, tmp_path):
    with Cluster(name=f"upgrade-{apply.__name__}") as c:
        for tag, tree in (("old", OLD), ("new", ROOT)):
            c.import_image(os.path.join(tree, "build/image/poolgate.oci.tar"), f"{IMAGE}:{tag}")
        apply(c, OLD, "old", tmp_path)
        ready(c)
        # Whoever waits needs both GPUs of gpu-a; the other server has room for the load.
        with servers(c, {"gpu-a": 2, "gpu-b": 1}), client_namespace(c) as ns, ClaimLog(c, ns) as log:
            both = {name: c.client.create(gpu_pod(name, percent=percent, amount=amount), ns)["metadata"]["uid"]
                    for name, percent, amount in (("runs", 100, 2), ("half", 50, 1))}
            for name in both:
                c.wait_pod(name, ns, phases=("Running",), seconds=90)
            wait_for(lambda: claims(c) == {(uid, "bound") for uid in both.values()}, 30, "bound claims")
            held = {uid: dict(log.held[uid]) for uid in both.values()}
            waits = ["first", "second"]
            for name in waits:
                assert gated(c.client.create(waiting(name, amount=2), ns)), name
                time.sleep(1.1)  # ages are told in seconds

            upgrade(c, apply, tmp_path, ns)

            assert claims(c) == {(uid, "bound") for uid in both.values()}
            assert {uid: dict(log.held[uid]) for uid in both.values()} == held, "claims stand where they stood"
            assert all(c.client.get("pods", name, ns)["status"]["phase"] == "Running" for name in both)
            assert all(gated(c.client.get("pods", name, ns)) for name in waits)
            # Who comes now stands behind those who came before the upgrade.
            waits.append("third")
            assert gated(c.client.create(waiting("third", amount=2), ns))
            before = "runs"
            for name in waits:
                uid = c.client.get("pods", before, ns)["metadata"]["uid"]
                c.client.delete("pods", before, ns, grace=1)
                log.check_end(uid)
                wait_for(lambda name=name: not gated(c.client.get("pods", name, ns)), 60, f"{name} is let go")
                c.wait_pod(name, ns, phases=("Running",), seconds=90)
                assert all(gated(c.client.get("pods", other, ns)) for other in waits[waits.index(name) + 1:]), name
                before = name
            c.client.delete("pods", "half", ns, grace=1)
            log.check_end(both["half"])


def upgrade(c, apply, folder, ns):
    """Both replicas are replaced, under load: none of the reviews fails, whichever version answers."""
    old = replicas(c)
    with Load(c, ns, 20, dry=True) as load:
        load.wait(made=20)
        apply(c, ROOT, "new", folder)
        rolled(c, load, old)
    assert {p["spec"]["containers"][0]["image"] for p in replicas(c).values()} == {f"{IMAGE}:new"}
    product.old_replicas_end(c)
    print(f"upgrade: {load.made} creates, {load.per_second:.1f} a second, the slowest {load.slowest:.2f} s")
