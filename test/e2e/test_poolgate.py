# SPDX-License-Identifier: Apache-2.0
"""poolgate as it is shipped: its image and its manifests in a real cluster, pods that really run through a launcher."""
import json
import os
import subprocess
import threading
import time

import pytest

import kube
from cluster import ROOT
from product import SYSTEM, check_sums, claims, gpu_pod, gpu_server, no_node_resource, wait_for
from replicas import program


def test_servers_are_shown(pool):
    text = pool.kubectl("get", "gpuservers").stdout
    lines = [line.split() for line in text.splitlines()]
    assert lines[0] == ["NAME", "GPUS", "FIT", "FREE", "CLAIMS", "AGE"]
    assert lines[1][:5] == ["gpu-a", "2", "2", "32000", "0"]
    assert lines[2][:5] == ["gpu-b", "1", "1", "16000", "0"]


def test_pod_runs_through_the_launcher(pool, ns):
    """The argv reaches the launcher and the program as it was written; the claim is bound, then gone."""
    pod = gpu_pod("runs", percent=50, command=("/bin/sh", "-c", "sleep 3; printf '<%s>' \"$@\"", "sh", "a b", "", "--", "$(NO)", "$$x"))
    made = pool.client.create(pod, namespace=ns)
    uid = made["metadata"]["uid"]
    limits = made["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"bitfusion.io/gpu": "50"}
    assert made["metadata"]["labels"]["poolgate.io/injected"] == "true"
    wait_for(lambda: (uid, "bound") in claims(pool), 20, "a bound claim")
    done = pool.wait_pod("runs", ns)
    assert done["status"]["phase"] == "Succeeded", pool.describe("pod", "runs", ns)
    log = pool.pod_log("runs", ns, container="main")
    words = json.loads(log.splitlines()[0])["launcher"]
    assert words[1:] == ["run", "-n", "1", "-p", "0.500000", "--", *pod["spec"]["containers"][0]["command"][:-1], "$x"]
    assert log.splitlines()[-1] == "<a b><><--><$(NO)><$x>"
    wait_for(lambda: not claims(pool), 10, "a claim that ends with its pod")


def test_refused_when_full_and_freed_by_delete(pool, ns):
    made = [pool.client.create(gpu_pod(f"fill-{i}"), namespace=ns) for i in range(3)]
    with pytest.raises(kube.ApiError) as refused:
        pool.client.create(gpu_pod("too-many"), namespace=ns)
    assert refused.value.status == 403
    assert "NoCapacity" in str(refused.value.body) or "none has that much free" in str(refused.value)
    pool.client.delete("pods", made[0]["metadata"]["name"], ns, grace=1)
    wait_for(lambda: len(claims(pool)) == 2, 30, "a freed claim")
    pool.client.create(gpu_pod("fits-now"), namespace=ns)
    assert len(claims(pool)) == 3


def test_dry_run_takes_nothing(pool, ns):
    pool.client.create(gpu_pod("dry"), namespace=ns, dry_run=True)
    assert not claims(pool)


def test_server_is_held_while_it_has_claims(pool, ns):
    """Rule R9: a delete waits for the last claim."""
    extra = pool.client.create(gpu_server("gpu-c", 1, "99G"))
    wait_for(lambda: pool.client.get("gpuservers", "gpu-c").get("status", {}).get("summary", {}).get("fit") == 1, 30, "gpu-c")
    pod = gpu_pod("holder")
    pod["metadata"]["annotations"]["bitfusion-client/filter"] = "server.name=gpu-c"
    made = pool.client.create(pod, namespace=ns)
    assert (made["metadata"]["uid"], "pending") in claims(pool, "gpu-c") or (made["metadata"]["uid"], "bound") in claims(pool, "gpu-c")
    pool.client.delete("gpuservers", "gpu-c")
    time.sleep(2)
    held = pool.client.get("gpuservers", "gpu-c")
    assert held["metadata"]["deletionTimestamp"] and held["metadata"]["uid"] == extra["metadata"]["uid"]
    pool.client.delete("pods", "holder", ns, grace=1)
    wait_for(lambda: not pool.client.find("gpuservers", "gpu-c"), 30, "gpu-c is gone")


def test_many_at_once_never_promise_a_byte_twice(pool, ns):
    """60 pods of a third of a GPU from 12 clients for a pool that holds 9, while every version of every server is checked."""
    wrong = []

    def check(_, server):
        try:
            check_sums(server)
        except AssertionError as e:
            wrong.append(str(e))

    made, refused = [], []
    with kube.Observer(pool.client, "gpuservers", on_event=check):
        todo = list(range(60))
        lock = threading.Lock()

        def create():
            client = pool.client_for("admin")
            while True:
                with lock:
                    if not todo:
                        return
                    i = todo.pop()
                try:
                    made.append(client.create(gpu_pod(f"many-{i}", percent=33), namespace=ns))
                except kube.ApiError as e:
                    refused.append(str(e))

        threads = [threading.Thread(target=create) for _ in range(12)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not wrong, wrong[:3]
    assert len(made) == 9 and len(refused) == 51, (len(made), refused[:3])
    assert {u for u, _ in claims(pool)} == {m["metadata"]["uid"] for m in made}


def test_other_pods_live_without_us(pool, ns):
    """Every replica down: other pods, finalizers, labels and status of a GPU pod pass; a new GPU pod does not run without a GPU."""
    made = pool.client.create(gpu_pod("before"), namespace=ns)
    pool.kubectl("-n", SYSTEM, "scale", "deployment/poolgate", "--replicas=0")
    wait_for(lambda: not pool.client.items("pods", SYSTEM), 60, "no replica")
    try:
        plain = gpu_pod("plain")
        del plain["metadata"]["annotations"], plain["spec"]["containers"][0]["resources"]
        pool.client.create(plain, namespace=ns)
        pool.client.patch("pods", "before", {"metadata": {"finalizers": ["test.invalid/x"]}}, ns)
        pool.client.patch("pods", "before", {"metadata": {"finalizers": None, "labels": {"a": "b"}}}, ns)
        with pytest.raises(kube.ApiError):
            pool.client.create(gpu_pod("during"), namespace=ns)
    finally:
        pool.kubectl("-n", SYSTEM, "scale", "deployment/poolgate", "--replicas=2")
        pool.kubectl("-n", SYSTEM, "rollout", "status", "deployment/poolgate", "--timeout=60s")
    assert made["metadata"]["uid"] in {u for u, _ in claims(pool)}


def test_bare_pod_applied_twice(pool, ns, tmp_path):
    manifest = tmp_path / "pod.json"
    manifest.write_text(json.dumps(gpu_pod("twice")))
    for server_side in ((), ("--server-side",)):
        for _ in range(2):
            pool.kubectl("-n", ns, "apply", *server_side, *(("--force-conflicts",) if server_side else ()), "-f", str(manifest))
    assert len(claims(pool)) == 1


def test_the_doctor_finds_nothing(pool, ns):
    """A sound cluster with a pod that runs: all is well for the administrator; for a replica's own account, in its pod, nothing is wrong and
    what it may not read is not checked."""
    pool.client.create(gpu_pod("well"), namespace=ns)
    pool.wait_pod("well", ns, phases=("Running",))
    done = subprocess.run([program(), "doctor", "--kubeconfig", pool.kubeconfig()], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stdout.endswith("\nall is well\n"), done.stdout + done.stderr
    inside = pool.kubectl("-n", SYSTEM, "exec", "deployment/poolgate", "--", "/usr/bin/poolgate", "doctor", "--json")
    report = json.loads(inside.stdout)
    assert report["ok"] and report["wrong"] == 0, inside.stdout
    well = {f["group"] for f in report["findings"] if f["verdict"] == "ok"}
    assert well >= {"versions", "rights", "certificates", "leader", "servers", "pods"}, inside.stdout


def test_kubectl_poolgate_shows_what_the_webhook_would_do(pool, ns, tmp_path):
    """The plugin, by kubectl itself: with the cluster's own settings the same words, and the pod is admitted as it was written."""
    os.symlink(program(), tmp_path / "kubectl-poolgate")
    pod = gpu_pod("previewed", percent=50, command=("/bin/true",))
    (tmp_path / "pod.json").write_text(json.dumps(pod))
    done = subprocess.run([pool.program("kubectl"), "poolgate", "inject", "--kubeconfig", pool.kubeconfig("admin"), "-n", ns,
                           str(tmp_path / "pod.json")], env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    previewed = json.loads(done.stdout)
    made = pool.client.create(pod, namespace=ns, dry_run=True)
    # the API server has filled in requests, volumes and the like before it asks
    ours, theirs = (json.loads(p["metadata"]["annotations"]["poolgate.io/plan"]) for p in (previewed, made))
    assert {k: ours[k] for k in ("profile", "hash", "client", "totalMB")} == {k: theirs[k] for k in ("profile", "hash", "client", "totalMB")}
    assert previewed["spec"]["containers"][0]["command"] == made["spec"]["containers"][0]["command"]
    pool.client.create(previewed, namespace=ns)
    assert pool.wait_pod("previewed", ns)["status"]["phase"] == "Succeeded", pool.describe("pod", "previewed", ns)


def test_without_a_nodes_resource(pool, ns):
    """nodeResource: false, and no node offers any unit: the pod is placed, claimed for, run and ended all the same."""
    pool.node.offer(amount=None)
    try:
        with no_node_resource(pool):
            made = pool.client.create(gpu_pod("light", percent=50, command=("/bin/sh", "-c", "sleep 3")), namespace=ns)
            resources = made["spec"]["containers"][0]["resources"]
            assert not resources.get("limits") and not resources.get("requests"), resources
            wait_for(lambda: (made["metadata"]["uid"], "bound") in claims(pool), 20, "a bound claim")
            assert pool.wait_pod("light", ns)["status"]["phase"] == "Succeeded", pool.describe("pod", "light", ns)
            wait_for(lambda: not claims(pool), 10, "a claim that ends with its pod")
    finally:
        pool.node.offer()


def test_a_tenant_sees_the_pool(pool, ns, tmp_path):
    """components/gpupool put into a running installation: an account with `view` in one namespace alone sees what is free, and no claim."""
    (tmp_path / "kustomization.yaml").write_text("components: [%s]\n" % os.path.relpath(
        os.path.join(ROOT, "manifests/components/gpupool"), os.path.realpath(tmp_path)))
    pool.client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tenant"}}, namespace=ns)
    pool.kubectl("-n", ns, "create", "rolebinding", "tenant", "--clusterrole=view", f"--serviceaccount={ns}:tenant")
    tenant = pool.client_for(token=pool.account_token(ns, "tenant"))
    pool.kubectl("apply", "-k", str(tmp_path))
    try:
        # the leader asks again each minute for a kind that is not there, and the next one at once
        leader = pool.client.get("leases", "poolgate-leader", SYSTEM)["spec"]["holderIdentity"].rpartition("_")[0]
        pool.client.delete("pods", leader, SYSTEM)
        wait_for(lambda: pool.client.find("gpupools", "pool"), 90, "the GPUPool")
        wait_for(lambda: tenant.get("gpupools", "pool").get("status", {}).get("free") == 48000, 10, "48,000 MB that are free")
        pool.client.create(gpu_pod("half", percent=50), namespace=ns)
        seen = wait_for(lambda: [s for s in [tenant.get("gpupools", "pool")["status"]] if s["free"] == 40000], 10, "8,000 MB less")[0]
        assert (seen["servers"], seen["ready"], seen["gpus"], seen["fit"], seen["idle"], seen["memory"]) == (2, 2, 3, 3, 2, 48000)
        assert [(m["gpus"], m["largest"]) for m in seen["models"]] == [(3, 16000)]
        with pytest.raises(kube.ApiError) as refused:
            tenant.get("gpuservers", "gpu-a")
        assert refused.value.status == 403
        lines = pool.kubectl("get", "gpupool").stdout.splitlines()
        assert lines[0].split() == ["NAME", "SERVERS", "READY", "GPUS", "FIT", "IDLE", "FREE", "LARGEST", "SINCE"]
        assert lines[1].split()[:-1] == ["pool", "2", "2", "3", "3", "2", "40000", "16000"]
    finally:
        pool.kubectl("delete", "-k", str(tmp_path))
