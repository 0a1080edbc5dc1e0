# SPDX-License-Identifier: Apache-2.0
"""poolgate beside the controllers that people run GPUs with, each the real one, with its own webhooks, in one cluster where pods run.
Each makes its pods from an object whose pod template has our annotations; the pods are wrapped, admitted, run, and their claims end."""
import json
import os
import re
import sys

import pytest
import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [p for p in (HERE, os.path.join(ROOT, "test/e2e")) if p not in sys.path]

import controllers  # noqa: E402
import images  # noqa: E402
import kube  # noqa: E402
from product import ClaimLog, claims, gpu_pod, wait_for  # noqa: E402

RAY = "localhost/ray:matrix"
# Stands in for Ray, whose image is not at hand: says what it was asked, and answers probes.
RAY_SCRIPT = """#!/bin/sh
print-argv "$@"
[ "$1" = start ] || exit 0
exec httpd -f -p 52365 -h /www
"""
# KubeRay's own ask by a program of the image, which this one has not.
PROBES = {kind: {"httpGet": {"path": "/api/local_raylet_healthz", "port": 52365}} for kind in ("livenessProbe", "readinessProbe")}
SHORT = ("/bin/sh", "-c", "sleep 2")


def needs(name):
    return pytest.mark.skipif(name not in controllers.BUILT, reason=f"{name} is not built: make matrix builds it")


def documented_settings(text):
    """Kueue's settings with what docs/compatibility.md tells its operator to add."""
    with open(os.path.join(ROOT, "docs/compatibility.md"), encoding="utf-8") as f:
        return text + "\n" + re.search(r"```yaml\n(resources:\n.*?)```", f.read(), re.S).group(1)


@pytest.fixture(scope="module", name="world")
def fixture_world(installed, tmp_path_factory):
    scripts = {"/usr/local/bin/ray": RAY_SCRIPT, "/www/api/local_raylet_healthz": "success\n"}
    installed.import_image(images.workload(str(tmp_path_factory.mktemp("ray")), [RAY], (), scripts=scripts))
    for name in controllers.DEPLOYMENTS:
        if name in controllers.BUILT and name != "karpenter":
            controllers.install(installed, name, documented_settings if name == "kueue" else None)
    return installed


@pytest.fixture(name="log")
def fixture_log(world, pool, ns):
    with ClaimLog(pool, ns) as log:
        yield log
        # What owns pods goes before the namespace's other objects: no controller makes them anew.
        for kind in ("trainjobs", "jobsets", "leaderworkersets", "rayclusters", "workflows", "jobs.batch"):
            try:
                world.client.delete_all(kind, ns)
            except KeyError:
                pass


def template(percent=100, amount=1, command=("/bin/sh", "-c", "sleep 300"), **container):
    """A pod template with our annotations."""
    pod = gpu_pod("x", percent, amount, command)
    pod["spec"]["containers"][0].update(container)
    return {"metadata": {"annotations": pod["metadata"]["annotations"]}, "spec": pod["spec"]}


def job(name, queue=None, **kw):
    return {"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": queue} if queue else {}},
            "spec": {"backoffLimit": 0, "template": template(command=SHORT, **kw)}}


def gpu_pods(cluster, ns, count):
    """The pods of the namespace that hold GPUs, once there are so many."""
    return wait_for(lambda: (lambda p: len(p) == count and p)(
        [p for p in cluster.client.items("pods", ns) if p["metadata"].get("labels", {}).get("poolgate.io/injected")]), 90,
        lambda: f"{count} pods with GPUs in {ns}\n{cluster.kubectl('get', 'pods,events', '-n', ns, check=False).stdout}")


def check_wrapped(pod, units):
    assert json.loads(pod["metadata"]["annotations"]["poolgate.io/plan"])["mode"] == "full"
    main, = (c for c in pod["spec"]["containers"] if "bitfusion.io/gpu" in c["resources"].get("limits", {}))
    assert main["command"][0].endswith("/bitfusion") and "--" in main["command"], main["command"]
    assert {k: v for k, v in main["resources"]["limits"].items() if "gpu" in k} == {"bitfusion.io/gpu": str(units)}


def check_ended(log, pods):
    """Each claim was bound, and ended with its pod."""
    for pod in pods:
        log.check_end(pod["metadata"]["uid"], 120)
        assert log.states[pod["metadata"]["uid"]][-1] == "bound"


@needs("jobset")
def test_jobset(world, log, ns):
    """Two replicated jobs, one with GPUs and one without; the set completes, the claims end with its pods."""
    plain = template(command=SHORT)
    plain["metadata"] = {}
    del plain["spec"]["containers"][0]["resources"]

    def replicated(name, count, pods):
        return {"name": name, "replicas": count, "template": {"spec": {"backoffLimit": 0, "parallelism": 1, "completions": 1,
                                                                       "template": pods}}}

    world.client.create({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "train"}, "spec": {
        "replicatedJobs": [replicated("driver", 1, plain), replicated("workers", 2, template(50, command=SHORT))]}}, ns)
    pods = gpu_pods(world, ns, 2)
    for pod in pods:
        check_wrapped(pod, 50)
        # What JobSet's own webhook writes stands.
        assert pod["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"] == "workers"
    check_ended(log, pods)
    wait_for(lambda: world.client.get("jobsets", "train", ns).get("status", {}).get("terminalState") == "Completed", 60, "the set's end")


@needs("lws")
def test_leader_worker_set(world, log, ns):
    """A leader and a worker, each with a share of a GPU; the variables that its webhook adds reach the program behind the launcher."""
    pods = template(25, command=("/bin/sh", "-c", "echo index $LWS_WORKER_INDEX; sleep 300"))
    del pods["spec"]["restartPolicy"]
    world.client.create({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "serve"},
                         "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": pods}}}, ns)
    pods = gpu_pods(world, ns, 2)
    for pod in pods:
        check_wrapped(pod, 25)
        name = pod["metadata"]["name"]
        world.wait_pod(name, ns, ("Running",), 90)
        log.wait(pod["metadata"]["uid"], "bound")
        index = pod["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/worker-index"]
        wait_for(lambda: f"index {index}\n" in world.pod_log(name, ns), 30, f"the program of {name}")
    world.client.delete("leaderworkersets", "serve", ns)
    check_ended(log, pods)


@needs("kuberay")
def test_ray_cluster(world, log, ns):
    """Workers with GPUs, scaled down to one and deleted. Ray's own program is played; the pods are KubeRay's."""
    # KubeRay counts resources that end in "gpu": ours it does not, so Ray is told.
    def group(pods, **params):
        return {"rayStartParams": params, "template": pods}

    head = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [
        {"name": "ray", "image": RAY, "imagePullPolicy": "Never", **PROBES}]}}
    worker = template(50, image=RAY, **PROBES)
    del worker["spec"]["containers"][0]["command"], worker["spec"]["restartPolicy"]
    workers = {"groupName": "gpu", "replicas": 2, "minReplicas": 0, "maxReplicas": 4, **group(worker, **{"num-gpus": "1"})}
    world.client.create({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "ray"}, "spec": {
        "headGroupSpec": group(head, **{"dashboard-host": "0.0.0.0"}), "workerGroupSpecs": [workers]}}, ns)
    pods = gpu_pods(world, ns, 2)
    for pod in pods:
        check_wrapped(pod, 50)
        name = pod["metadata"]["name"]
        world.wait_pod(name, ns, ("Running",), 90)
        log.wait(pod["metadata"]["uid"], "bound")
        wait_for(lambda: '"--num-gpus=1"' in world.pod_log(name, ns), 30, lambda: f"ray start of {name}: {world.pod_log(name, ns)}")
    wait_for(lambda: world.client.get("rayclusters", "ray", ns).get("status", {}).get("state") == "ready", 90,
             lambda: f"a ready cluster: {world.client.get('rayclusters', 'ray', ns).get('status')}")
    world.client.patch("rayclusters", "ray", [{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 1}], ns, kind="json")
    wait_for(lambda: len(claims(world)) == 1, 60, "one claim less")
    world.client.delete("rayclusters", "ray", ns)
    check_ended(log, pods)


@needs("argo")
def test_argo_workflow(world, log, ns):
    """Two steps with half a GPU each and one without, at once. Argo's emissary stands behind the launcher, and brings home what the program
    has written and how it ended."""
    # What Argo's manual has pods of workflows be given.
    world.client.create({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "executor"}, "rules": [
        {"apiGroups": ["argoproj.io"], "resources": ["workflowtaskresults"], "verbs": ["create", "patch"]}]}, ns)
    world.kubectl("-n", ns, "create", "rolebinding", "executor", "--role=executor", f"--serviceaccount={ns}:default")

    def step(name, pod):
        made = {"name": name, "metadata": pod["metadata"], "container": dict(pod["spec"]["containers"][0], name=""),
                "outputs": {"parameters": [{"name": "said", "valueFrom": {"path": "/tmp/said"}}]}}
        del made["container"]["name"]
        return made

    train = step("train", template(50, command=("/bin/sh", "-c", "sleep 2; echo -n seven >/tmp/said")))
    plain = step("plain", template(command=("/bin/sh", "-c", "echo -n plain >/tmp/said")))
    del plain["container"]["resources"], plain["metadata"]
    steps = [{"name": name, "template": kind} for name, kind in (("a", "train"), ("b", "train"), ("c", "plain"))]
    world.client.create({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "flow"}, "spec": {
        "entrypoint": "all", "templates": [{"name": "all", "steps": [steps]}, train, plain]}}, ns)
    pods = gpu_pods(world, ns, 2)
    for pod in pods:
        check_wrapped(pod, 50)
        main, = (c for c in pod["spec"]["containers"] if c["name"] == "main")
        assert main["command"][main["command"].index("--") + 1:][:2] == ["/var/run/argo/argoexec", "emissary"], main["command"]
    check_ended(log, pods)
    status = wait_for(lambda: (lambda s: s.get("phase") in ("Succeeded", "Failed", "Error") and s)(
        world.client.get("workflows", "flow", ns).get("status", {})), 60, "the workflow's end")
    assert status["phase"] == "Succeeded", status
    said = sorted(n["outputs"]["parameters"][0]["value"] for n in status["nodes"].values() if n["type"] == "Pod")
    assert said == ["plain", "seven", "seven"]


@needs("trainer")
def test_trainer(world, log, ns):
    """A TrainJob of two nodes by the PyTorch runtime that Trainer ships, with our annotations on its pods and another image; the program
    behind the launcher has torchrun's variables. Kueue's webhook for TrainJobs takes no word ("auto") for the number of processes."""
    with open(os.path.join(controllers.BUILT["trainer"], "manifests/base/runtimes/torch_distributed.yaml"), encoding="utf-8") as f:
        runtime = yaml.safe_load(f)
    runtime.update(kind="TrainingRuntime")
    pods = runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    pods["metadata"] = template()["metadata"]
    world.client.create(runtime, ns)
    world.client.create({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "train"}, "spec": {
        "runtimeRef": {"kind": "TrainingRuntime", "name": runtime["metadata"]["name"]},
        "trainer": {"image": images.BUSYBOX, "command": ["/bin/sh", "-c", "echo rank $PET_NODE_RANK of $PET_NNODES; sleep 2"], "numNodes": 2,
                    "numProcPerNode": 1, "resourcesPerNode": {"limits": {"bitfusion.io/gpu-amount": 1, "bitfusion.io/gpu-percent": 50}}}}},
        ns)
    pods = gpu_pods(world, ns, 2)
    for pod in pods:
        check_wrapped(pod, 50)
        name, rank = pod["metadata"]["name"], pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]
        world.wait_pod(name, ns, ("Running", "Succeeded"), 90)
        wait_for(lambda: f"rank {rank} of 2\n" in world.pod_log(name, ns), 30, f"the program of {name}")
    check_ended(log, pods)
    wait_for(lambda: "Complete" in [c["type"] for c in world.client.get("trainjobs", "train", ns).get("status", {}).get("conditions", [])
                                    if c["status"] == "True"], 60, "the end of the TrainJob")


@pytest.fixture(name="queue")
def fixture_queue(world, ns):
    """queue(units): a LocalQueue that admits so many units of GPUs at once; its name."""
    made = []

    def make(units):
        def kueue(kind, name, spec, namespace=None):
            world.client.create({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}, namespace)
            made.append((kind, name, namespace))

        quotas = {"bitfusion.io/gpu": units, "cpu": "100", "memory": "100Gi"}
        kueue("ResourceFlavor", ns, {})
        kueue("ClusterQueue", ns, {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}}, "resourceGroups": [{
            "coveredResources": list(quotas), "flavors": [{"name": ns, "resources": [
                {"name": k, "nominalQuota": v} for k, v in quotas.items()]}]}]})
        kueue("LocalQueue", "gpus", {"clusterQueue": ns}, ns)
        return "gpus"

    yield make
    world.client.delete_all("jobs.batch", ns)
    world.client.delete_all("pods", ns, grace=0)
    for kind, name, namespace in reversed(made):
        world.client.delete(kind, name, namespace)


@needs("kueue")
def test_kueue_jobs(world, log, ns, queue):
    """More Jobs than GPUs, with the transformation of docs/compatibility.md: Kueue counts the units that poolgate will, holds back what
    does not fit, and no pod is refused."""
    name = queue(300)
    jobs = [job(f"one-{i}", name) for i in range(4)] + [job("two-halves", name, percent=50, amount=2), job("three", name, amount=3)]
    for one in jobs:
        world.client.create(one, ns)
    wait_for(lambda: sum(bool(j.get("status", {}).get("succeeded")) for j in world.client.items("jobs.batch", ns)) == len(jobs), 240,
             lambda: f"Jobs that complete\n{world.kubectl('get', 'jobs,pods,workloads,events', '-n', ns, check=False).stdout}")
    pods = gpu_pods(world, ns, len(jobs))
    check_ended(log, pods)
    counted = {w["metadata"]["ownerReferences"][0]["name"]: w["status"]["admission"]["podSetAssignments"][0]["resourceUsage"]
               for w in world.client.items("workloads.kueue.x-k8s.io", ns)}
    for pod in pods:
        limits = pod["spec"]["containers"][0]["resources"]["limits"]
        assert counted[pod["metadata"]["labels"]["job-name"]]["bitfusion.io/gpu"] == limits["bitfusion.io/gpu"], counted
    refused = [e for e in world.client.items("events", ns) if e["reason"] == "FailedCreate"]
    assert not refused, refused


@needs("kueue")
def test_kueue_pods(world, log, ns, queue):
    """Plain pods in a queue of one GPU: they run one after the other. Their claims stand from their creation, before Kueue lets them go, so
    a pod too many for the pool is refused at once."""
    name = queue(100)

    def create(pod):
        made = gpu_pod(pod, command=SHORT)
        made["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": name}
        return world.client.create(made, ns)

    pods = [create(f"p{i}") for i in range(3)]
    assert all({"name": "kueue.x-k8s.io/admission"} in p["spec"]["schedulingGates"] for p in pods)
    with pytest.raises(kube.ApiError, match="NoCapacity"):
        create("p3")
    for pod in pods:
        check_wrapped(pod, 100)
        assert world.wait_pod(pod["metadata"]["name"], ns, seconds=120)["status"]["phase"] == "Succeeded"
    check_ended(log, pods)
    running = [world.client.get("pods", p["metadata"]["name"], ns)["status"] for p in pods]
    spans = sorted((s["startTime"], s["containerStatuses"][0]["state"]["terminated"]["finishedAt"]) for s in running)
    assert all(before[1] <= after[0] for before, after in zip(spans, spans[1:])), spans
