# SPDX-License-Identifier: Apache-2.0
"""`poolgate explain`: why a pod waits, what it holds, what it would be told now; against a server that shows pods and GPUServers."""
import json
import re
import subprocess

import pytest
import yaml

from lib import api, waiting
from lib.server import PROGRAM
from lib.waiting import GATE, MB, SERVERS, listed, pod, server

INSTALLED = api.the_cluster()
INSTALLED[api.MAPS + "poolgate-config"]["data"]["poolgate.yaml"] = INSTALLED[api.MAPS + "poolgate-config"]["data"]["poolgate.yaml"].replace(
    "  waiting:\n", "  waiting:\n    priorityClasses: [urgent]\n")


def explain(tmp_path, pods, servers, *words, forbidden=(), installed=None):
    """Exit status, output, errors."""
    def answer(path):
        if any(path.startswith(f) for f in forbidden):
            return api.FORBIDDEN
        if path in (installed or INSTALLED):
            return (installed or INSTALLED)[path]
        if path.startswith(SERVERS):
            return listed("GPUServerList", servers)
        if path.startswith("/api/v1/pods"):
            return listed("PodList", [p for p in pods if p["metadata"].get("labels")])
        found = [p for p in pods if path == f"/api/v1/namespaces/{p['metadata']['namespace']}/pods/{p['metadata']['name']}"]
        return found[0] if found else None

    with api.served(answer, tmp_path) as kubeconfig:
        done = subprocess.run([PROGRAM, "explain", *words, "--kubeconfig", kubeconfig], timeout=30, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module", name="injected")
def an_injected_pod():
    return waiting.injected()


def test_why_a_pod_waits(tmp_path, injected):
    pods = [pod(injected, "first", 1, GATE), pod(injected, "second", 2, GATE), pod(injected, "holder", 0)]
    servers = [server("gpu-01", 2, [("holder", "gpu-0", 8000)])]
    status, out, err = explain(tmp_path, pods, servers, "ml/second")
    assert (status, err) == (1, "")
    lines = out.splitlines()
    assert lines[0].startswith("ml/second waits: asked 2 GPUs with 100 % each; of 2 GPUs that can be used, 1 has that much free"), out
    assert lines[0].endswith("; it is number 2 of 2 that wait"), out
    assert lines[1:] == ["1 GPU and 8000 MB are missing, least where:", "  gpu-01/gpu-0 lacks 8000 MB:",
                         "    ml/holder holds 8000 MB since 2026-01-01T00:00:30Z", "before it, the first 1:",
                         "  ml/first priority 0, waits since 2026-01-01T00:01:00Z"]
    status, out, _ = explain(tmp_path, pods, servers, "ml/second", "-o", "json")
    said = json.loads(out)
    assert (status, said["state"], said["place"], said["waiting"]) == (1, "waits", 2, 2)
    assert said["before"] == [{"namespace": "ml", "name": "first", "priority": 0}]
    assert [(m["server"], m["gpu"], m["bytes"], m["heldBy"][0]["name"]) for m in said["missing"]] == [("gpu-01", "gpu-0", 8000 * MB, "holder")]


def test_whose_priority_counts(tmp_path, injected):
    pods = [pod(injected, name, minute, GATE) for minute, name in enumerate(("first", "loud", "urgent"))]
    for p, of in ((pods[1], "loud"), (pods[2], "urgent")):
        p["spec"].update({"priorityClassName": of, "priority": 1000})
    servers = [server("gpu-01", 2, [("holder", "gpu-0", 8000)])]
    _, out, _ = explain(tmp_path, pods, servers, "ml/loud")
    assert "it is number 3 of 3 that wait" in out and "  ml/urgent priority 1000" in out
    status, out, err = explain(tmp_path, pods, servers, "ml/urgent", forbidden=[api.DEPLOYMENT])
    assert (status, err) == (1, "") and "it is number 3 of 3 that wait" in out
    assert "so no priority counts here: " in out.splitlines()[-1]


def test_what_is_kept_for_another(tmp_path, injected):
    pods = [pod(injected, "head", 1, GATE), pod(injected, "small", 2, GATE)]
    plan = json.loads(pods[1]["metadata"]["annotations"]["poolgate.io/plan"])
    plan["containers"][0]["amount"] = 1
    pods[1]["metadata"]["annotations"]["poolgate.io/plan"] = json.dumps(plan)
    servers = [server("gpu-01", 2, [("holder", "gpu-0", 8000)])]
    servers[0]["status"]["kept"] = [{"uid": "uid-head", "namespace": "ml", "name": "head", "since": "2026-01-01T00:10:00Z",
                                     "gpus": [{"id": f"gpu-{i}", "bytes": 8000 * MB} for i in range(2)]}]
    assert "what is free is kept for pod head" in explain(tmp_path, pods, servers, "ml/small")[1]


def test_who_waits_for_its_place_alone_is_in_no_queue(tmp_path, injected):
    pods = [pod(injected, "first", 1, GATE), pod(injected, "second", 2, GATE)]
    plan = json.loads(pods[0]["metadata"]["annotations"]["poolgate.io/plan"])
    del plan["waits"]
    pods[0]["metadata"]["annotations"]["poolgate.io/plan"] = json.dumps(plan)
    assert "it is its turn" in explain(tmp_path, pods, [server("gpu-01", 2, [])], "ml/second")[1]


def test_it_is_its_turn(tmp_path, injected):
    status, out, _ = explain(tmp_path, [pod(injected, "p", 1, GATE)], [server("gpu-01", 2, [])], "ml/p")
    assert (status, out) == (1, "ml/p waits: it is its turn: it starts now\n")


def test_a_foreign_gate_and_a_gang(tmp_path, injected):
    gang = {"annotations": {**injected["metadata"]["annotations"], "poolgate.io/gang": "g", "poolgate.io/gang-size": "3"}}
    pods = [pod(injected, "f", 1, GATE, {"name": "x/y"}), pod(injected, "g0", 1, GATE, **gang), pod(injected, "g1", 1, GATE, **gang)]
    servers = [server("gpu-01", 2, [])]
    assert "a scheduling gate of somebody else stands" in explain(tmp_path, pods, servers, "ml/f")[1]
    assert "its gang has 2 of 3 members" in explain(tmp_path, pods, servers, "ml/g0")[1]
    # a member that was let go and holds its claim makes it a gang that runs
    pods.append(pod(injected, "g2", 1, **gang))
    servers = [server("gpu-01", 2, []), server("gpu-02", 1, [("g2", "gpu-0", 8000)])]
    assert "it is its turn" in explain(tmp_path, pods, servers, "ml/g0")[1]


def hash64(text):
    ret = 0xcbf29ce484222325
    for c in text.encode():
        ret = (ret ^ c) * 0x100000001b3 % 2**64
    return ret


def gang_key(namespace, name, size):
    """As claims have it."""
    key = ((hash64(namespace) * 31 + hash64(name)) * 31 + size) % 2**64
    return (key ^ key >> 32) % 2**32


def test_who_is_being_deleted_has_his_seat(tmp_path, injected):
    """For as long as his claim stands: who comes for him goes behind an older pod."""
    gang = {"annotations": {**injected["metadata"]["annotations"], "poolgate.io/gang": "g", "poolgate.io/gang-size": "2"}}
    pods = [pod(injected, "old", 1, GATE), pod(injected, "g0", 2, **gang), pod(injected, "g1", 2, **gang), pod(injected, "g2", 3, GATE, **gang)]
    servers = [server("gpu-01", 2, [("g0", "gpu-0", 8000), ("g1", "gpu-1", 8000)])]
    for claim in servers[0]["status"]["claims"]:
        claim.update(gangKey=gang_key("ml", "g", 2), gangSize=2, gangBytes=32000 * MB)
    pods[1]["metadata"]["deletionTimestamp"] = "2026-01-01T00:10:00Z"
    assert "it is number 2 of 2" in explain(tmp_path, pods, servers, "ml/g2")[1]
    # by force: his claim alone is left
    del pods[1]
    assert "it is number 2 of 2" in explain(tmp_path, pods, servers, "ml/g2")[1]
    del servers[0]["status"]["claims"][0]["gangKey"]
    assert "it is number 1 of 2" in explain(tmp_path, pods, servers, "ml/g2")[1]


def test_a_job_that_has_grown(tmp_path, injected):
    """Who is missing among those who began together goes first, and nobody else of the Job."""
    job = {"kind": "Job", "apiVersion": "batch/v1", "name": "j", "uid": "o1", "controller": True}
    gang = {"annotations": {**injected["metadata"]["annotations"], "poolgate.io/gang": "g", "poolgate.io/gang-size": "job"},
            "ownerReferences": [job]}
    pods = [pod(injected, "old", 1, GATE), *(pod(injected, f"g{i}", 2, *([GATE] if i else []), **gang) for i in range(3))]
    servers = [server("gpu-01", 4, [("g0", "gpu-0", 8000), ("g0", "gpu-1", 8000), ("x", "gpu-2", 8000)])]
    servers[0]["status"]["claims"][0].update(gangSize=2, gangBytes=32000 * MB)
    grown = {**INSTALLED, "/apis/batch/v1/namespaces/ml/jobs/j": {"metadata": {"name": "j", "uid": "o1"}, "spec": {"parallelism": 9}}}
    places = [re.search("it is number . of .", explain(tmp_path, pods, servers, f"ml/{p}", installed=grown)[1]).group()
              for p in ("g1", "old", "g2")]
    assert places == ["it is number 1 of 3", "it is number 2 of 3", "it is number 3 of 3"]


def test_what_a_pod_holds(tmp_path, injected):
    servers = [server("gpu-02", 1, [("p", "gpu-0", 8000), ("q", "gpu-0", 0)]), server("gpu-01", 1, [("p", "gpu-0", 4000)])]
    status, out, _ = explain(tmp_path, [pod(injected, "p", 1)], servers, "ml/p")
    assert (status, out) == (0, "ml/p holds:\n  gpu-01/gpu-0 4000 MB, bound since 2026-01-01T00:00:30Z\n"
                                "  gpu-02/gpu-0 8000 MB, bound since 2026-01-01T00:00:30Z\n")
    said = json.loads(explain(tmp_path, [pod(injected, "p", 1)], servers, "ml/p", "-o", "json")[1])
    assert said["state"] == "holds" and [(h["server"], h["bytes"]) for h in said["holds"]] == [("gpu-01", 4000 * MB), ("gpu-02", 8000 * MB)]


@pytest.mark.parametrize("status, says", [
    ({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are \x1b[2Javailable"}]},
     "claimed, waits for a node: 0/3 nodes are ?[2Javailable"),
    ({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}, "claimed, waits for a node"),
    ({"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}, "it does not run: ImagePullBackOff")])
def test_it_holds_gpus_and_does_not_run(tmp_path, injected, status, says):
    p, servers = pod(injected, "p", 1), [server("gpu-01", 1, [("p", "gpu-0", 4000)])]
    p["status"].update({"phase": "Pending", **status})
    code, out, _ = explain(tmp_path, [p], servers, "ml/p")
    assert (code, out.splitlines()[2:]) == (0, [says]), out
    assert json.loads(explain(tmp_path, [p], servers, "ml/p", "-o", "json")[1])["why"] == says


def test_who_does_not_wait(tmp_path, injected):
    lost, done = pod(injected, "lost", 1), pod(injected, "done", 1)
    done["status"]["phase"] = "Succeeded"
    plain = {"metadata": {"name": "plain", "namespace": "ml", "uid": "uid-plain"}, "spec": {}}
    full, free = [server("gpu-01", 2, [("x", "gpu-0", 8000)])], [server("gpu-01", 2, [])]
    status, out, _ = explain(tmp_path, [lost], full, "ml/lost")
    assert status == 1 and "does not wait: asked 2 GPUs" in out and "gpu-01/gpu-0 lacks 8000 MB" in out, out
    status, out, _ = explain(tmp_path, [lost], free, "ml/lost")
    assert status == 1 and "there is room for it now" in out, out
    assert explain(tmp_path, [done], full, "ml/done")[:2] == (0, "ml/done has finished and holds nothing\n")
    assert explain(tmp_path, [plain], full, "ml/plain")[:2] == (0, "ml/plain is not injected: it asks for nothing of the pool\n")
    assert json.loads(explain(tmp_path, [plain], full, "ml/plain", "-o", "json")[1])["state"] == "not-injected"


def with_policies(answers, **settings):
    """What the cluster has installed, with policies, and more that it answers."""
    config = api.MAPS + "poolgate-config"
    text = yaml.safe_load(INSTALLED[config]["data"]["poolgate.yaml"])
    text["cluster"]["policies"] = {"enabled": True, **settings}
    return {**INSTALLED, config: {"data": {"poolgate.yaml": yaml.safe_dump(text)}}, **answers}


def asking(key="bitfusion.io/gpu-amount", **notes):
    return {"metadata": {"name": "p", "namespace": "ml", "uid": "uid-p", "annotations": notes},
            "spec": {"containers": [{"name": "a", "resources": {"limits": {key: "1"}}}]}}


@pytest.mark.parametrize("spec,says", [
    ({}, 'the policy "research" injects none without'),
    ({"inject": True, "share": 0}, 'the policy "research" injects 0 of 100 groups of pods, and its group is not among them'),
    ({"inject": True}, 'the policy "research" would have it injected now'),
    (None, 'picks the policy "research"'), ("away", "cannot be read: ")])
def test_what_the_policy_says(tmp_path, spec, says):
    found = {"/api/v1/namespaces/ml": {"metadata": {"name": "ml", "labels": {"poolgate.io/policy": "research"}}}}
    policy = "/apis/poolgate.io/v1alpha1/gpupolicies/research"
    if spec == "away":
        found[policy] = api.FORBIDDEN
    elif spec is not None:
        found[policy] = {"apiVersion": "poolgate.io/v1alpha1", "kind": "GPUPolicy", "metadata": {"name": "research"}, "spec": spec}
    status, out, err = explain(tmp_path, [asking("nvidia.com/gpu")], [], "ml/p", "-o", "json", installed=with_policies(found))
    said = json.loads(out)
    assert (status, err) == (0, "") and said["state"] == "not-injected" and says in said["why"], out


def bounded(**allow):
    """The namespace ml picks a policy that allows this."""
    return with_policies({"/api/v1/namespaces/ml": {"metadata": {"name": "ml", "labels": {"poolgate.io/policy": "research"}}},
                          "/apis/poolgate.io/v1alpha1/gpupolicies/research": {
                              "apiVersion": "poolgate.io/v1alpha1", "kind": "GPUPolicy", "metadata": {"name": "research"},
                              "spec": {"defaults": {"priority": 7}, "allow": allow}}})


def test_what_its_policy_bounds(tmp_path, injected):
    waits, lost = pod(injected, "w", 1, GATE), pod(injected, "lost", 2)
    servers = [server("gpu-01", 4, [("holder", "gpu-0", 8000), ("holder", "gpu-1", 8000)])]
    said = "the GPUPolicy research: its namespaces hold 2 of 3 GPUs and 16000 MB (GPUs: ml 2)"
    status, out, err = explain(tmp_path, [waits, lost], servers, "ml/w", installed=bounded(gpus=3, waiting=5))
    assert (status, err) == (1, "") and out.splitlines() == [
        "ml/w waits: the GPUPolicy research allows its namespaces 3 GPUs at once (spec.allow.gpus), of which they hold 2 (ml 2), and the pod takes 2",
        said + "; 1 of 5 pods wait"], out
    _, out, _ = explain(tmp_path, [waits, lost], servers, "ml/lost", installed=bounded(gpus=3))
    assert "although it is injected and does not wait: the GPUPolicy research allows its namespaces 3 GPUs at once" in out and said in out
    # exact, by the bytes of the GPUs that it would have
    _, out, _ = explain(tmp_path, [waits], servers, "ml/w", installed=bounded(memory="31G"))
    assert "allows its namespaces 31000 MB at once (spec.allow.memory), of which they hold 16000" in out
    _, out, _ = explain(tmp_path, [waits], servers, "ml/w", "-o", "json", installed=bounded(memory="32G", models=["T4"]))
    said = json.loads(out)
    assert "it is its turn" in said["why"] and said["policy"]["bytes"] == {"now": 16000 * MB, "allowed": 32000 * MB}
    _, out, _ = explain(tmp_path, [waits], servers, "ml/w", installed=bounded(models=["A100"]))
    assert "of models that the GPUPolicy research does not allow" in out and "; models: A100" in out
    _, out, _ = explain(tmp_path, [waits], servers, "ml/w", installed=bounded(launchers=["other"]))
    assert "allows its namespaces no pods of the launcher bitfusion" in out


def test_a_policy_orders(tmp_path, injected):
    pods = [pod(injected, "first", 1, GATE, namespace="other"), pod(injected, "second", 2, GATE)]
    _, out, _ = explain(tmp_path, pods, [server("gpu-01", 2, [("x", "gpu-0", 8000)])], "other/first", installed=bounded())
    assert "it is number 2 of 2 that wait" in out and "  ml/second priority 7, waits" in out, out


def test_who_picks_no_policy(tmp_path):
    found = {"/api/v1/namespaces/ml": {"metadata": {"name": "ml"}}}
    assert "its namespace picks no policy" in explain(tmp_path, [asking()], [], "ml/p", installed=with_policies(found))[1]
    # a setting
    required = with_policies(found, required=True)
    assert "get no GPUs here" in explain(tmp_path, [asking()], [], "ml/p", installed=required)[1]
    # its own word, and a cluster without policies
    own = asking(**{"auto-management/bitfusion": "off"})
    assert 'auto-management/bitfusion says "off"' in explain(tmp_path, [own], [], "ml/p", installed=with_policies(found))[1]
    assert explain(tmp_path, [asking()], [], "ml/p")[1] == "ml/p is not injected: it has no annotation auto-management/bitfusion\n"


def test_what_cannot_be_read(tmp_path, injected):
    pods, servers = [pod(injected, "p", 1, GATE)], [server("gpu-01", 2, [])]
    status, out, err = explain(tmp_path, pods, servers, "ml/other")
    assert (status, out) == (3, "") and "not found" in err
    for path in (SERVERS, "/api/v1/pods", "/api/v1/namespaces"):
        status, out, err = explain(tmp_path, pods, servers, "ml/p", forbidden=(path,))
        assert (status, out) == (3, "") and "may not" in err, path
    broken = server("gpu-02", 1, [])
    broken["status"]["gpus"][0]["memory"] = "much"
    assert "1 GPUServers cannot be read" in explain(tmp_path, pods, servers + [broken], "ml/p")[1]
