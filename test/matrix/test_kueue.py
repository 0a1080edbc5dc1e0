# SPDX-License-Identifier: Apache-2.0
"""The real Kueue beside components/waiting, where pods run: quotas are Kueue's, which GPU has the bytes is ours, and a pod waits for one after
the other. Kueue's quota is larger than the pool, so that those whom it lets go wait on for us."""
import json
import os
import re
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [p for p in (HERE, os.path.join(ROOT, "test/e2e")) if p not in sys.path]

import controllers  # noqa: E402
import product  # noqa: E402
from product import ClaimLog, wait_for  # noqa: E402
from test_controllers import SHORT, check_ended, check_wrapped, documented_settings, fixture_queue, gpu_pods, job, needs  # noqa: E402
from test_waiting import GATE, KUEUE_GATE, QUEUE, SINCE, composed, condition, waiting  # noqa: E402

assert fixture_queue
pytestmark = needs("kueue")


def settings_for_keys_of_others(text):
    """What docs/compatibility.md tells Kueue's operator to add, and docs/migrating-nvidia.md beside it."""
    with open(os.path.join(ROOT, "docs/migrating-nvidia.md"), encoding="utf-8") as f:
        more = re.search(r"```yaml\n(  +- input: nvidia.com/gpu\n.*?)```", f.read(), re.S)
    return documented_settings(text) + more.group(1)


@pytest.fixture(scope="module", name="installed")
def fixture_installed(cluster):
    product.install(cluster, composed("policies"))
    return cluster


@pytest.fixture(scope="module", name="world")
def fixture_world(installed):
    controllers.install(installed, "kueue", settings_for_keys_of_others)
    return installed


@pytest.fixture(name="log")
def fixture_log(world, pool, ns):
    with ClaimLog(pool, ns) as log:
        yield log
        world.client.delete_all("jobs.batch", ns)


def gates(pod):
    return [g["name"] for g in pod["spec"].get("schedulingGates", [])]


def seen(world, ns):
    return world.kubectl("get", "jobs,pods,workloads,events", "-n", ns, check=False).stdout


def check_nobody_hurt(world, ns):
    """Nothing was refused, preempted or begun anew."""
    bad = [e for e in world.client.items("events", ns) if e["reason"] in ("FailedCreate", "Preempted", "EvictedDueToPreempted")]
    assert not bad, bad
    for w in world.client.items("workloads.kueue.x-k8s.io", ns):
        told = {c["type"]: c["status"] for c in w["status"]["conditions"]}
        assert told.get("Finished") == "True" and told.get("Evicted") != "True", w["status"]


def test_jobs(world, log, ns, queue):
    """Twelve Jobs for three GPUs, two of them gangs of two: Kueue lets go what its quota of six holds, by the units of docs/compatibility.md; each pod
    is made once, runs once, and every claim ends with it."""
    name = queue(600)
    jobs = [job(f"one-{i}", name) for i in range(8)] + [job("halves", name, percent=50, amount=2), job("two", name, amount=2)]
    for i in range(2):
        pair = job(f"pair-{i}", name)
        pair["spec"].update(parallelism=2, completions=2)
        pair["spec"]["template"]["metadata"]["annotations"].update({"poolgate.io/gang": f"pair-{i}", "poolgate.io/gang-size": "2"})
        jobs.append(pair)
    for one in jobs:
        world.client.create(one, ns)
    wait_for(lambda: any(condition(p) for p in world.client.items("pods", ns)), 120, lambda: f"a pod that waits for us\n{seen(world, ns)}")

    def all_ended():
        pairs = {}
        for p in world.client.items("pods", ns):
            if "poolgate.io/gang" in p["metadata"]["annotations"]:
                pairs.setdefault(p["metadata"]["labels"]["job-name"], []).append(p)
        for pair in pairs.values():
            if not all(gates(p) for p in pair):
                # One that was let go: all have their claims. The watch of claims may be behind this list.
                assert len(pair) == 2
                for p in pair:
                    log.wait(p["metadata"]["uid"], "bound", 10)
        return sum(j.get("status", {}).get("succeeded", 0) == j["spec"]["completions"] for j in world.client.items("jobs.batch", ns)) == len(jobs)

    wait_for(all_ended, 300, lambda: f"Jobs that complete\n{seen(world, ns)}")
    pods = gpu_pods(world, ns, len(jobs) + 2)
    check_ended(log, pods)
    assert all(p["status"]["phase"] == "Succeeded" for p in pods)
    wait_for(lambda: all(any(c["type"] == "Finished" for c in w["status"]["conditions"]) for w in world.client.items("workloads.kueue.x-k8s.io", ns)),
             60, lambda: f"workloads that finish\n{seen(world, ns)}")
    check_nobody_hurt(world, ns)
    counted = {w["metadata"]["ownerReferences"][0]["name"]: w["status"]["admission"]["podSetAssignments"][0]["resourceUsage"]
               for w in world.client.items("workloads.kueue.x-k8s.io", ns)}
    for pod in pods:
        units = int(pod["spec"]["containers"][0]["resources"]["limits"]["bitfusion.io/gpu"])
        owner = pod["metadata"]["labels"]["job-name"]
        assert counted[owner]["bitfusion.io/gpu"] == str(units * (2 if owner.startswith("pair") else 1)), counted


def test_plain_pods(world, log, ns, queue):
    """Eight pods for three GPUs, two of them a group, of which Kueue lets five go at once: who waits for Kueue holds no GPU, who has waited for both
    is as old as his gate's fall, and all of them run, those of the group together."""
    name = queue(500)
    for i in range(8):
        pod = waiting(f"p{i}", command=SHORT)
        pod["metadata"]["labels"] = {QUEUE: name}
        if i in (2, 6):
            pod["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = "pair"
            pod["metadata"]["annotations"].update({"kueue.x-k8s.io/pod-group-total-count": "2", "poolgate.io/gang-size": "group"})
        made = world.client.create(pod, ns)
        assert KUEUE_GATE in gates(made) and gates(made)[-1] == GATE, gates(made)
        plan = json.loads(made["metadata"]["annotations"]["poolgate.io/plan"])
        assert (plan.get("gang"), plan.get("gangSize")) == (("pair", 2) if i in (2, 6) else (None, None)), plan
    since, held = {}, set()

    def all_ended():
        pods = world.client.items("pods", ns)
        pair = [p for p in pods if p["metadata"]["name"] in ("p2", "p6")]
        if not all(gates(p) for p in pair):
            for p in pair:
                log.wait(p["metadata"]["uid"], "bound", 10)
        for p in pods:
            uid = p["metadata"]["uid"]
            if set(gates(p)) - {GATE}:
                held.add(uid)
                # The watch may be ahead of the list, a claim never of Kueue's gates: looked at again.
                assert uid not in log.states or not set(gates(world.client.get("pods", p["metadata"]["name"], ns))) - {GATE}, p
            if SINCE in p["metadata"]["annotations"]:
                assert since.setdefault(uid, p["metadata"]["annotations"][SINCE]) == p["metadata"]["annotations"][SINCE]
        return len(pods) == 8 and all(p["status"]["phase"] == "Succeeded" for p in pods)

    wait_for(all_ended, 240, lambda: f"pods that end\n{seen(world, ns)}")
    assert held and since, (held, since)
    pods = gpu_pods(world, ns, 8)
    for pod in pods:
        check_wrapped(pod, 100)
    check_ended(log, pods)
    assert all(since.get(p["metadata"]["uid"], p["metadata"]["creationTimestamp"]) >= p["metadata"]["creationTimestamp"] for p in pods)
    wait_for(lambda: all(any(c["type"] == "Finished" for c in w["status"]["conditions"]) for w in world.client.items("workloads.kueue.x-k8s.io", ns)),
             60, lambda: f"workloads that finish\n{seen(world, ns)}")
    check_nobody_hurt(world, ns)


def unchanged(obj):
    """It says nothing of us: one GPU, as NVIDIA's device plugin wants it."""
    pod = obj["spec"]["template"] if obj["kind"] == "Job" else obj
    notes = pod["metadata"].pop("annotations")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    pod["spec"]["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    return notes


def test_what_a_policy_converts(world, log, ns, queue):
    """Jobs, which Kueue counts by their templates, and plain pods, which it counts by what they have become: both by units, both run."""
    name = queue(300)
    jobs, pods = [job(f"j{i}", name) for i in range(3)], [waiting(f"p{i}", command=SHORT) for i in range(3)]
    for pod in pods:
        pod["metadata"]["labels"] = {QUEUE: name}
    notes = [unchanged(one) for one in (*jobs, *pods)][0]
    world.client.create({"apiVersion": "poolgate.io/v1alpha1", "kind": "GPUPolicy", "metadata": {"name": ns}, "spec": {
        "inject": True, "accepts": ["nvidia.com/gpu"], "defaults": {
            "os": notes["bitfusion-client/os"], "version": notes["bitfusion-client/version"], "whenFull": "wait"}}})
    try:
        world.client.patch("namespaces", ns, {"metadata": {"labels": {"poolgate.io/policy": ns}}})
        wait_for(lambda: "poolgate.io/plan" in world.client.create(pods[0], ns, dry_run=True)["metadata"].get("annotations", {}), 30, "the policy")
        for one in (*jobs, *pods):
            world.client.create(one, ns)
        wait_for(lambda: len(done := [p for p in world.client.items("pods", ns) if p["status"].get("phase") == "Succeeded"]) == 6 and done, 240,
                 lambda: f"pods that end\n{seen(world, ns)}")
        made = gpu_pods(world, ns, 6)
        for pod in made:
            check_wrapped(pod, 100)
        check_ended(log, made)
        counted = [w["status"]["admission"]["podSetAssignments"][0]["resourceUsage"] for w in world.client.items("workloads.kueue.x-k8s.io", ns)]
        assert len(counted) == 6 and all(c["bitfusion.io/gpu"] == "100" and "nvidia.com/gpu" not in c for c in counted), counted
    finally:
        world.client.delete("gpupolicies", ns)


def test_the_doctor_knows_who_is_taken_back(world):
    """Kueue's own settings, and the same with waitForPodsReady as its manifests have it in a comment."""
    def says():
        done = subprocess.run([os.environ["POOLGATE"], "doctor", "--kubeconfig", world.kubeconfig(), "-o", "json"], check=False,
                              stdout=subprocess.PIPE, text=True)
        return [(f["verdict"], f["text"]) for f in json.loads(done.stdout)["findings"] if f["group"] == "kueue"]

    def put(text):
        world.client.patch("configmaps", "kueue-manager-config", {"data": {key: text}}, "kueue-system")

    (key, shipped), = world.client.get("configmaps", "kueue-manager-config", "kueue-system")["data"].items()
    assert [v for v, _ in says()] == ["ok"], says()
    put(shipped + "\nwaitForPodsReady:\n  timeout: 7m\n")
    (verdict, text), = says()
    put(shipped)
    assert verdict == "wrong" and "not ready within 7m" in text, text
