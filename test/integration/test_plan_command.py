# SPDX-License-Identifier: Apache-2.0
"""`poolgate plan`: what of manifests would start now, wait, be refused or never fit; on a pool of files, and on what a cluster shows."""
import copy
import json
import os
import subprocess
import time

import pytest
import yaml

from lib import api, cli, waiting
from lib.server import PROGRAM
from lib.waiting import GATE, MB, SERVERS, asks, listed, pod, server

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses/"


def workload(kind, name, count=None, amount=2, **annotations):
    template = asks(amount, **annotations)
    key = {"Job": "parallelism", "CronJob": "parallelism"}.get(kind, "replicas")
    spec = {"template": template, **({key: count} if count is not None else {})}
    if kind == "CronJob":
        spec = {"jobTemplate": {"spec": spec}}
    return {"apiVersion": "v1" if kind == "Pod" else "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "ml"},
            "spec": spec} if kind != "Pod" else {
                "apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], "name": name, "namespace": "ml"}}


def gpus(*counts):
    """GPUServer documents with so many GPUs of 8000 MB."""
    return [{k: v for k, v in server(f"gpu-{i:02}", n, []).items() if k != "status"} for i, n in enumerate(counts, 1)]


def offline(tmp_path, servers, *objects, words=()):
    """Exit status, JSON (or the text), errors."""
    for s in servers:
        s["metadata"] = {"name": s["metadata"]["name"]}
    (tmp_path / "pool.yaml").write_text("\n---\n".join(json.dumps(s) for s in servers))
    (tmp_path / "work.yaml").write_text("\n---\n".join(json.dumps(o) for o in objects))
    status, out, err = cli.run("plan", *cli.profile_args(), "--pool", str(tmp_path / "pool.yaml"), "-f", str(tmp_path / "work.yaml"), *words)
    return status, out.decode(), err


def works(tmp_path, servers, *objects):
    status, out, err = offline(tmp_path, servers, *objects, words=("-o", "json"))
    assert err == "", err
    return status, json.loads(out)["workloads"]


@pytest.mark.parametrize("kind, count, copies", [
    ("Pod", None, 1), ("Deployment", 3, 3), ("StatefulSet", 2, 2), ("ReplicaSet", None, 1), ("Job", 3, 3), ("CronJob", 2, 2), ("DaemonSet", None, 1),
    ("Deployment", 0, 0), ("RayCluster", 7, 1)])
def test_copies_are_counted_by_kind(tmp_path, kind, count, copies):
    status, (w,) = works(tmp_path, gpus(2, 2, 2), workload(kind, "w", count))
    assert (status, w["verdict"], w["copies"], w["start"]) == (0, "starts", copies, copies), w


def test_each_on_what_those_before_it_leave(tmp_path):
    objects = [workload("Job", "a", 2), workload("Pod", "b"), workload("Pod", "c", amount=1), workload("Pod", "d")]
    status, said = works(tmp_path, gpus(2, 2, 1), *objects)
    assert status == 1
    assert [(w["name"], w["verdict"], w["start"]) for w in said] == [("a", "starts", 2), ("b", "refused", 0), ("c", "starts", 1), ("d", "refused", 0)]
    assert [(m["server"], m["gpu"], m["bytes"]) for m in said[1]["missing"]] == [("gpu-01", "gpu-0", 8000 * MB)], said[1]
    status, said = works(tmp_path, gpus(2, 2, 1), *reversed(objects))
    assert [(w["name"], w["start"], w["copies"]) for w in said] == [("d", 1, 1), ("c", 1, 1), ("b", 1, 1), ("a", 0, 2)]


def test_some_copies_start(tmp_path):
    status, out, err = offline(tmp_path, gpus(2, 2), workload("Deployment", "w", 3))
    assert (status, err) == (1, "")
    first, *rest = out.splitlines()
    assert first.startswith(f"{tmp_path}/work.yaml:1: Deployment ml/w: 2 of 3 copies would start now, the others would be refused: asked 2 GPUs with 100 % each"), out
    assert rest == ["  gpu-01/gpu-0 lacks 8000 MB", "  gpu-01/gpu-1 lacks 8000 MB"]


def test_never_fits(tmp_path):
    status, (w,) = works(tmp_path, gpus(2), workload("Job", "w", 2, amount=3))
    assert (status, w["verdict"]) == (1, "never") and "asked 3 GPUs" in w["why"], w


def test_what_the_mutator_refuses_and_what_is_none_of_ours(tmp_path):
    plain = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    status, out, err = offline(tmp_path, gpus(2), plain, {"kind": "ConfigMap", "metadata": {"name": "m"}},
                               workload("Job", "w", 1, **{"poolgate.io/launcher": "none"}))
    assert (status, err) == (1, "")
    lines = out.splitlines()
    assert len(lines) == 2 and "Pod default/plain: not concerned: " in lines[0], out
    assert 'would be refused: /spec/template/metadata/annotations/poolgate.io~1launcher: found "none"' in lines[1], out
    assert offline(tmp_path, gpus(2), plain)[0] == 0
    assert offline(tmp_path, gpus(2), {"kind": "ConfigMap"}) == (0, "there are no pods in these manifests\n", "")


def test_whole_pools_are_planned(tmp_path):
    """More copies than are looked at; and so many that are."""
    status, (w,) = works(tmp_path, gpus(64, 64), workload("Deployment", "w", 1000000, amount=1))
    assert (status, w["looked"], w["start"], w["verdict"]) == (1, 1000, 128, "refused")


def test_a_server_takes_so_many_claims(tmp_path):
    job = workload("Job", "w", 400, amount=1)
    job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["bitfusion.io/gpu-percent"] = 1
    _, (w,) = works(tmp_path, gpus(4), job)
    # the last of 256 is for who takes more than half of the GPU that is free
    assert w["start"] == 255 and "gpu-01 has 255 claims of at most 256" in w["why"], w


def test_a_folder_and_standard_input(tmp_path):
    (tmp_path / "m").mkdir()
    for name in ("b", "a"):
        (tmp_path / "m" / f"{name}.yaml").write_text(json.dumps(workload("Pod", name)))
    status, out, err = offline(tmp_path, gpus(2, 2), workload("Pod", "w"), words=[str(tmp_path / "m")])
    assert status == 1 and [line.split()[2] for line in out.splitlines() if "Pod" in line] == ["ml/w:", "ml/a:", "ml/b:"], out + err
    done = cli.run("plan", *cli.profile_args(), "--pool", str(tmp_path / "pool.yaml"), "-n", "x", data=json.dumps(asks() | {"kind": "Pod"}).encode())
    assert done[0] == 0 and done[1].decode().endswith("Pod x/: would start now\n"), done


def test_what_cannot_be_read_offline(tmp_path):
    status, out, err = offline(tmp_path, gpus(2), workload("Pod", "w"), words=[str(tmp_path / "none.yaml")])
    assert (status, out) == (3, "") and "none.yaml" in err
    status, out, err = cli.run("plan", *cli.profile_args(), data=b"{}")
    assert (status, out) == (3, b"") and "no pool is known here: name GPUServer documents with --pool" in err
    (tmp_path / "bad.yaml").write_text("kind: [")
    status, out, err = offline(tmp_path, gpus(2), workload("Pod", "w"), words=[str(tmp_path / "bad.yaml")])
    assert (status, out) == (3, "") and "bad.yaml:" in err


# ---- on a cluster

def the_cluster(**said):
    """What is installed, with components/waiting and a priority class that counts."""
    objects = copy.deepcopy(api.the_cluster())
    data = objects[api.MAPS + "poolgate-config"]["data"]
    waiting = "    # written by components/waiting\n    enabled: false\n"
    assert waiting in data["poolgate.yaml"]
    data["poolgate.yaml"] = data["poolgate.yaml"].replace(waiting, "    enabled: true\n    priorityClasses: [urgent]\n")
    return {**objects, CLASSES + "urgent": {"metadata": {"name": "urgent"}, "value": 1000}, **said}


def plan(tmp_path, servers, pods, *objects, cluster=None, words=("-o", "json"), forbidden=(), program=PROGRAM):
    """Exit status, output, errors."""
    cluster = cluster or the_cluster()

    def answer(path):
        if any(path.startswith(f) for f in forbidden):
            return api.FORBIDDEN
        if path.startswith(SERVERS):
            return listed("GPUServerList", servers)
        if path.startswith("/api/v1/pods"):
            return listed("PodList", pods)
        return cluster.get(path)

    (tmp_path / "tmp").mkdir(exist_ok=True)
    work = "\n---\n".join(json.dumps(o) for o in objects)
    with api.served(answer, tmp_path) as kubeconfig:
        done = subprocess.run([program, "plan", "-f", "-", "--kubeconfig", kubeconfig, *words], input=work, timeout=30, capture_output=True, text=True,
                              env={**os.environ, "TMPDIR": str(tmp_path / "tmp")}, check=False)
    assert os.listdir(tmp_path / "tmp") == []
    return done.returncode, done.stdout, done.stderr


def planned(tmp_path, servers, pods, *objects, **more):
    status, out, err = plan(tmp_path, servers, pods, *objects, **more)
    assert err == "", err
    return status, json.loads(out)["workloads"]


@pytest.fixture(scope="module", name="injected")
def an_injected_pod():
    return waiting.injected()


def test_who_waits_and_for_what(tmp_path, injected):
    """A Job's pods wait as a controller's do; the bare one behind it is refused."""
    servers = [server("gpu-01", 2, [("holder", "gpu-0", 8000)]), server("gpu-02", 2, [])]
    status, said = planned(tmp_path, servers, [], workload("Job", "train", 3), workload("Pod", "bare"), workload("Pod", "small", amount=1))
    assert status == 1
    assert [(w["verdict"], w["start"]) for w in said] == [("waits", 1), ("refused", 0), ("starts", 1)]
    train = said[0]
    assert (train["place"], train["waiting"]) == (1, 2) and train["why"].startswith("asked 2 GPUs with 100 % each; "), train
    assert train["why"].endswith("; it is number 1 of 2 that wait"), train
    # the last one takes what was free for the first of these to lack one GPU alone
    assert [m["bytes"] for m in train["missing"]] == [8000 * MB, 8000 * MB], train


def test_who_waits_in_the_cluster_goes_first(tmp_path, injected):
    now = {"creationTimestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    pods = [pod(injected, name, 1, GATE, **now) for name in ("first", "second")]
    servers = [server("gpu-01", 2, []), server("gpu-02", 1, [])]
    _, (w,) = planned(tmp_path, servers, pods, workload("Job", "train"))
    assert (w["verdict"], w["start"], w["place"], w["waiting"]) == ("waits", 0, 2, 2), w
    _, (w,) = planned(tmp_path, servers, pods, workload("Pod", "bare"))
    assert (w["verdict"], w["start"]) == ("refused", 0), w
    # what is left behind them is his
    _, (w,) = planned(tmp_path, servers, pods, workload("Job", "train", amount=1))
    assert w["verdict"] == "starts", w


def test_whose_priority_counts(tmp_path, injected):
    pods, servers = [pod(injected, "first", 1, GATE)], [server("gpu-01", 2, [("x", "gpu-0", 8000)])]

    def of(name, **more):
        job = workload("Job", "train")
        job["spec"]["template"]["spec"].update({"priorityClassName": name} if name else {})
        return planned(tmp_path, servers, pods, job, **more)[1][0]["place"]

    assert of("urgent") == 1
    assert of("loud") == 2 and of(None) == 2
    assert of(None, cluster=the_cluster(**{CLASSES + "urgent": {"value": 1000, "globalDefault": True}})) == 1
    job = workload("Job", "train")
    job["spec"]["template"]["spec"]["priorityClassName"] = "urgent"
    status, out, err = plan(tmp_path, servers, pods, job, forbidden=[CLASSES], words=())
    assert status == 1 and "it is number 2 of 2 that wait" in out and "priority classes cannot be read" in out, out + err


def test_what_is_kept_is_not_given_away(tmp_path, injected):
    servers = [server("gpu-01", 2, [("holder", "gpu-0", 8000)])]
    servers[0]["status"]["kept"] = [{"uid": "uid-head", "namespace": "ml", "name": "head", "since": "2026-01-01T00:10:00Z",
                                     "gpus": [{"id": f"gpu-{i}", "bytes": 8000 * MB} for i in range(2)]}]
    small = [workload("Job", "small", amount=1), workload("Pod", "bare", amount=1)]
    _, said = planned(tmp_path, servers, [pod(injected, "head", 1, GATE)], *small)
    assert [(w["verdict"], w["start"]) for w in said] == [("waits", 0), ("refused", 0)], said
    assert "what is free is kept for pod head" in said[0]["why"]


def test_never_waits_for_what_never_comes(tmp_path, injected):
    status, (w,) = planned(tmp_path, [server("gpu-01", 2, [])], [], workload("Job", "w", amount=3))
    assert (status, w["verdict"]) == (1, "never"), w


def test_an_image_that_is_not_set_is_refused(tmp_path):
    cluster = the_cluster()
    sidecar = cluster[api.MAPS + "poolgate-client"]["data"]
    sidecar["sidecar.yaml"] = sidecar["sidecar.yaml"].replace("images.example", "images.invalid")
    status, (w,) = planned(tmp_path, [server("gpu-01", 2, [])], [], workload("Job", "w"), cluster=cluster)
    assert (status, w["verdict"]) == (1, "refused") and "images.invalid" in w["why"], w


def test_servers_that_are_named_late_or_at_once(tmp_path):
    """A profile with `placement: servers` chooses for each copy anew, waiting or not."""
    servers = [server("gpu-01", 1, []), server("gpu-02", 1, [("x", "gpu-0", 8000)]), server("gpu-03", 1, [])]
    job = workload("Job", "w", 3, amount=1)
    for cluster, rest in ((the_cluster(), "waits"), (api.the_cluster(), "refused")):
        profiles = cluster[api.MAPS + "poolgate-launchers"]["data"]
        for file, text in profiles.items():
            profiles[file] = text.replace("images.invalid", "images.example")
        placed = [file for file, text in profiles.items() if "placement: servers" in text]
        job["spec"]["template"]["metadata"]["annotations"]["poolgate.io/launcher"] = placed[0].rpartition(".")[0]
        status, (w,) = planned(tmp_path, servers, [], job, cluster=cluster)
        assert (status, w["verdict"], w["start"]) == (1, rest, 2), w


def test_a_plugin_of_kubectl(tmp_path):
    os.symlink(PROGRAM, tmp_path / "kubectl-poolgate")
    status, out, err = plan(tmp_path, [server("gpu-01", 2, [])], [], workload("Job", "w"), program=str(tmp_path / "kubectl-poolgate"), words=())
    assert (status, out, err) == (0, "standard input:1: Job ml/w: would start now\n", "")


def test_what_cannot_be_read_of_a_cluster(tmp_path, injected):
    servers = [server("gpu-01", 2, [])]
    for path in (SERVERS, "/api/v1/pods", api.DEPLOYMENT, api.MAPS):
        status, out, err = plan(tmp_path, servers, [], workload("Pod", "w"), forbidden=(path,))
        assert (status, out) == (3, "") and "may not" in err and err.count("\n") == 1, (path, err)
    broken = server("gpu-02", 1, [])
    broken["status"]["gpus"][0]["memory"] = "much"
    status, out, _ = plan(tmp_path, servers + [broken], [], workload("Pod", "w"), words=())
    assert status == 0 and "1 GPUServers cannot be read" in out


# ---- pods that a policy converts

POLICY = {"apiVersion": "poolgate.io/v1alpha1", "kind": "GPUPolicy", "metadata": {"name": "research"},
          "spec": {"inject": True, "accepts": ["nvidia.com/gpu"], "defaults": {"os": "ubuntu20", "version": "450", "percent": 50}}}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml", "labels": {"poolgate.io/policy": "research"}}}
BOUNDS = [{"metadata": {"name": "gpus"}, "spec": {"hard": {"requests.nvidia.com/gpu": "4", "cpu": "8"}}}, {"metadata": {"name": "cpus"}, "spec": {
    "hard": {"requests.cpu": "8", "requests.nvidia.com/gpumem": "1"}}}]


def foreign():
    """A Deployment that knows nothing of poolgate."""
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "ml"}, "spec": {"replicas": 2, "template": {
        "spec": {"nodeSelector": {"nvidia.com/gpu.present": "true"}, "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                 "containers": [{"name": "c", "image": "i", "command": ["x"], "resources": {"limits": {"nvidia.com/gpu": 2}}}]}}}}


def test_what_a_policy_would_convert(tmp_path):
    (tmp_path / "policies.yaml").write_text(json.dumps(POLICY) + "\n---\n" + json.dumps(NAMESPACE))
    words = ("--policies", str(tmp_path / "policies.yaml"))
    status, out, err = offline(tmp_path, gpus(2, 2), foreign(), words=words)
    assert (status, err) == (0, ""), out + err
    assert out.splitlines() == [
        f"{tmp_path}/work.yaml:1: Deployment ml/d: all 2 copies would start now",
        "  the policy research reads nvidia.com/gpu of container c as 2 GPUs with 50 % each of the pool; it sees no GPU of its node",
        '  ties to GPU nodes that it loses: nodeSelector {"nvidia.com/gpu.present":"true"}, '
        'toleration {"key":"nvidia.com/gpu","operator":"Exists"}']
    _, out, _ = offline(tmp_path, gpus(2, 2), foreign(), words=(*words, "-o", "json"))
    (w,) = json.loads(out)["workloads"]
    assert w["policy"] == "research" and w["converted"] == [{"container": "c", "keys": ["nvidia.com/gpu"], "amount": 2, "percent": 50}]
    assert w["ties"] == {"nodeSelector": {"nvidia.com/gpu.present": "true"},
                         "tolerations": [{"at": 0, "was": {"key": "nvidia.com/gpu", "operator": "Exists"}}]}
    status, out, _ = offline(tmp_path, gpus(2, 2), foreign())
    assert status == 0 and out.endswith("not concerned: switch off\n")


def with_policies(**said):
    objects = the_cluster(**{"/api/v1/namespaces/ml": NAMESPACE, "/apis/poolgate.io/v1alpha1/gpupolicies/research": POLICY, **said})
    data = objects[api.MAPS + "poolgate-config"]["data"]
    assert "\ncluster:\n" in data["poolgate.yaml"]
    config = yaml.safe_load(data["poolgate.yaml"])
    config["cluster"]["policies"] = {"enabled": True}
    data["poolgate.yaml"] = yaml.safe_dump(config)
    quotas = {"/api/v1/namespaces/ml/resourcequotas?limit=500": listed("ResourceQuotaList", BOUNDS),
              "/api/v1/namespaces/ml/limitranges?limit=500": listed("LimitRangeList", [
                  {"metadata": {"name": "usual"}, "spec": {"limits": [{"type": "Container", "default": {"nvidia.com/gpu": "1"}}]}}])}
    return {**objects, **quotas}


def test_what_the_policies_of_a_cluster_would_convert(tmp_path):
    """And which of its quotas and limits count none of it afterwards."""
    servers = [server("gpu-01", 2, []), server("gpu-02", 2, [])]
    status, out, err = plan(tmp_path, servers, [], foreign(), cluster=with_policies(), words=())
    assert status == 0, out + err
    assert "reads nvidia.com/gpu of container c as 2 GPUs with 50 % each" in out
    assert out.splitlines()[-2:] == [f"{kind} is over nvidia.com/gpu, which the policy research takes out of pods: it counts none of these"
                                     for kind in ("ResourceQuota ml/gpus", "LimitRange ml/usual")]
    status, out, err = plan(tmp_path, servers, [], foreign(), cluster=with_policies())
    said = json.loads(out)
    assert [(b["kind"], b["name"], b["keys"], b["policy"]) for b in said["bounds"]] == [
        ("ResourceQuota", "gpus", ["nvidia.com/gpu"], "research"), ("LimitRange", "usual", ["nvidia.com/gpu"], "research")]
    # who may not see them is told; where nothing is converted they are not asked for
    status, out, err = plan(tmp_path, servers, [], foreign(), cluster=with_policies(), words=(), forbidden=["/api/v1/namespaces/ml/resourcequotas"])
    assert status == 0 and "ResourceQuotas and LimitRanges cannot be read" in out and "may not" in out
    status, out, _ = plan(tmp_path, servers, [], workload("Pod", "w"), cluster=with_policies(), words=())
    assert status == 0 and "LimitRange" not in out


def test_policies_that_cannot_be_told(tmp_path):
    servers = [server("gpu-01", 2, [])]
    status, out, err = plan(tmp_path, servers, [], foreign(), cluster=with_policies(**{"/apis/poolgate.io/v1alpha1/gpupolicies/research": None}),
                            words=())
    assert status == 1 and 'picks the policy "research"' in out and 'which does not exist' in out, out + err
    status, out, err = plan(tmp_path, servers, [], foreign(), cluster=with_policies(), words=(), forbidden=["/api/v1/namespaces/ml"])
    assert status in (1, 3) and "may not" in out + err
    status, out, err = plan(tmp_path, servers, [], foreign(), cluster=with_policies(**{"/api/v1/namespaces/ml": None}), words=())
    assert status == 0 and "not concerned" in out


# ---- what a policy bounds


def allowing(**allow):
    return {**POLICY, "spec": {"defaults": {"os": "ubuntu18", "version": "400"}, "allow": allow}}


def bounded(tmp_path, servers, allow, *objects, words=("-o", "json")):
    """Offline, in the namespace ml."""
    (tmp_path / "policies.yaml").write_text(json.dumps(allowing(**allow)) + "\n---\n" + json.dumps(NAMESPACE))
    return offline(tmp_path, servers, *objects, words=("--policies", str(tmp_path / "policies.yaml"), "-n", "ml", *words))


def test_who_would_be_refused_for_a_cap(tmp_path):
    status, out, err = bounded(tmp_path, gpus(4, 4), {"gpus": 3, "memory": "64G"}, workload("Deployment", "web", 4, amount=1), workload("Pod", "big"),
                               words=())
    assert (status, err) == (1, ""), out + err
    web, big, policy = out.splitlines()
    assert "3 of 4 copies would start now, the others would be refused: the GPUPolicy research allows its namespaces 3 GPUs at once" in web, out
    assert "(spec.allow.gpus), of which they hold 3 (ml 3), and the pod takes 1" in web, out
    assert "would be refused: the GPUPolicy research allows" in big and "takes 2" in big, out
    assert policy == "the GPUPolicy research: its namespaces hold 3 of 3 GPUs and 24000 of 64000 MB (GPUs: ml 3)"
    _, out, _ = bounded(tmp_path, gpus(4, 4), {"memory": "12G"}, workload("Deployment", "web", 2, amount=1))
    (w,) = json.loads(out)["workloads"]
    assert (w["verdict"], w["start"]) == ("refused", 1) and "12000 MB at once (spec.allow.memory)" in w["why"], w
    assert "missing" not in w
    assert json.loads(out)["policies"] == [{"name": "research", "gpus": {"now": 1}, "bytes": {"now": 8000 * MB, "allowed": 12000 * MB},
                                            "waiting": {"now": 0}, "namespaces": [{"namespace": "ml", "gpus": 1, "bytes": 8000 * MB}]}]


@pytest.mark.parametrize("allow, verdict, says", [
    ({"launchers": ["other"]}, "refused", "allows its namespaces no pods of the launcher bitfusion (spec.allow.launchers: other)"),
    ({"models": ["A100"]}, "never", "of models that the GPUPolicy research does not allow (spec.allow.models)"),
    ({"servers": {"team": "red"}}, "never", "1 server is not for the GPUPolicy research (spec.allow.servers)"),
    ({"launchers": ["bitfusion"], "models": ["T4"], "gpus": 2}, "starts", None)])
def test_what_a_policy_does_not_allow(tmp_path, allow, verdict, says):
    _, out, err = bounded(tmp_path, gpus(4), allow, workload("Pod", "p"))
    (w,) = json.loads(out)["workloads"]
    assert w["verdict"] == verdict and (says is None or says in w["why"]), (w, err)


def test_caps_of_a_cluster(tmp_path, injected):
    """Its namespaces hold some of it, and who waits is barred behind it, without taking a place from others."""
    here = {"/apis/poolgate.io/v1alpha1/gpupolicies/research": allowing(gpus=3)}
    servers = [server("gpu-01", 4, [("holder", "gpu-0", 8000), ("holder", "gpu-1", 8000)])]
    status, (train, bare), policies = capped(tmp_path, servers, [], workload("Job", "train", 2, amount=1), workload("Pod", "bare", amount=1),
                                             cluster=with_policies(**here))
    assert status == 1
    assert (train["verdict"], train["start"]) == ("waits", 1) and "of which they hold 3 (ml 3), and the pod takes 1" in train["why"], train
    assert "create the pod again" not in train["why"] and "place" not in train
    assert bare["verdict"] == "refused" and "create the pod again" in bare["why"], bare
    assert policies[0]["gpus"] == {"now": 3, "allowed": 3}
    # one of the cluster's own waits for more than is left: it takes nobody's place
    pods = [pod(injected, "first", 1, GATE)]
    _, (train,), policies = capped(tmp_path, servers, pods, workload("Job", "train", amount=1), cluster=with_policies(**here))
    assert train["verdict"] == "starts" and policies[0]["waiting"] == {"now": 1}, (train, policies)


def capped(*args, **more):
    status, out, err = plan(*args, **more)
    assert err == "", err
    return status, json.loads(out)["workloads"], json.loads(out)["policies"]
