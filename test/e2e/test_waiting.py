# SPDX-License-Identifier: Apache-2.0
"""Pods that wait for GPUs: components/waiting on a real API server with two replicas, whose leader is killed in between; and on kubelets, that
each of them runs."""
import contextlib
import os
import time

import pytest
import yaml

import kube
import product
from cluster import ROOT, Cluster
from product import SYSTEM, check_sums, claims, client_namespace, gpu_pod, servers, wait_for
from replicas import Replicas

GATE = "poolgate.io/capacity"
KUEUE_GATE, QUEUE, SINCE = "kueue.x-k8s.io/admission", "kueue.x-k8s.io/queue-name", "poolgate.io/queued-since"
COMPOSED = os.path.join(ROOT, "build/e2e/waiting")


def composed(*more):
    """The base with components/waiting, and others, as an operator writes it."""
    os.makedirs(COMPOSED, exist_ok=True)
    with open(os.path.join(COMPOSED, "kustomization.yaml"), "w", encoding="utf-8") as f:
        yaml.safe_dump({"resources": ["../../../manifests/base"],
                        "components": [f"../../../manifests/components/{name}" for name in ("waiting", *more)]}, f)
    return os.path.relpath(COMPOSED, ROOT)


def waiting(name, percent=100, amount=1, word="wait", **spec):
    pod = gpu_pod(name, percent, amount, **spec)
    pod["metadata"]["annotations"]["poolgate.io/when-full"] = word
    return pod


def gated(pod):
    return any(g["name"] == GATE for g in pod["spec"].get("schedulingGates", []))


def let_go(c, namespaces):
    """Names of pods without the gate."""
    return {p["metadata"]["name"] for ns in namespaces for p in c.client.items("pods", ns) if not gated(p)}


def condition(pod):
    return next((x for x in pod.get("status", {}).get("conditions", []) if x["type"] == "poolgate.io/Admitted"), None)


@pytest.fixture(scope="module", name="c")
def fixture_light():
    with Cluster.light(name="waiting") as c, Replicas(c, 2, path=composed("policies")) as replicas:
        yield c, replicas


def test_ten_in_their_order(c):
    """One namespace holds a GPU for good: the others' pods go before its own, each by age. A leader is killed after every third; each step
    of its successor is seen by what it does."""
    c, replicas = c
    with servers(c, {"gpu-a": 2}), contextlib.ExitStack() as stack:
        spaces = [stack.enter_context(client_namespace(c, name=f"team-{i}")) for i in range(3)]
        c.client.create(waiting("stays"), namespace=spaces[0])
        c.client.create(waiting("turn"), namespace=spaces[1])
        wait_for(lambda: let_go(c, spaces) == {"stays", "turn"}, 20, "two that start at once")
        names = [f"w{i}" for i in range(10)]
        for i, name in enumerate(names):
            c.client.create(waiting(name), namespace=spaces[i % 3])
            time.sleep(1.1)  # ages are told in seconds
        assert let_go(c, spaces) == {"stays", "turn"} and len(claims(c)) == 2
        told = wait_for(lambda: condition(c.client.get("pods", "w0", spaces[0])), 20, "a reason")
        assert told["status"] == "False" and told["reason"] == "NoCapacity" and " that wait" in told["message"], told
        want = [n for i, n in enumerate(names) if i % 3] + [n for i, n in enumerate(names) if not i % 3]
        at, got = ("turn", spaces[1]), []
        for i in range(10):
            if i % 3 == 2:
                leader = replicas.wait_leader()
                replicas.kill(leader)
                replicas.restart(leader)
            c.client.delete("pods", at[0], at[1], grace=0)
            new = wait_for(lambda: let_go(c, spaces) - {"stays", *got}, 90, "the next one")
            assert len(new) == 1, new
            name = new.pop()
            at = (name, spaces[int(name[1:]) % 3])
            got.append(name)
            assert len(claims(c)) == 2
            for s in c.client.items("gpuservers"):
                check_sums(s)
        assert got == want


def test_a_freed_gpu_is_given_within_half_a_second(c):
    c, replicas = c
    replicas.wait_leader()
    took = []
    with servers(c, {"gpu-b": 1}), client_namespace(c, name="swift") as ns:
        c.client.create(waiting("p0"), namespace=ns)
        wait_for(lambda: let_go(c, [ns]) == {"p0"}, 20, "the first")
        for i in range(20):
            c.client.create(waiting(f"p{i + 1}"), namespace=ns)
            time.sleep(0.3)
            began = time.monotonic()
            c.client.delete("pods", f"p{i}", ns, grace=0)
            while gated(c.client.get("pods", f"p{i + 1}", ns)):
                assert time.monotonic() < began + 20
                time.sleep(0.01)
            took.append(time.monotonic() - began)
    print("freed to let go, s:", " ".join(f"{t:.2f}" for t in sorted(took)))
    assert sorted(took)[len(took) // 2] < 0.5


def test_every_replica_shows_who_waits(c):
    """The one that leads in the order of the queue, the other by age; both in the words that the pods are told."""
    c, replicas = c
    leader = replicas.wait_leader()
    with servers(c, {"gpu-s": 1}), client_namespace(c, name="shown") as ns:
        c.client.create(waiting("runs"), namespace=ns)
        wait_for(lambda: let_go(c, [ns]) == {"runs"}, 20, "the first")
        for name in ("w0", "w1"):
            c.client.create(waiting(name), namespace=ns)
            time.sleep(1.1)  # ages are told in seconds

        def shown(i, ordered):
            said = replicas.pool(i)["waiting"] or {"ordered": None, "pods": []}
            whole = said["ordered"] is ordered and [p["name"] for p in said["pods"]] == ["w0", "w1"] and all(p["why"] for p in said["pods"])
            return said["pods"] if whole and said["total"] == 2 and not said["more"] else None

        first, second = wait_for(lambda: shown(leader, True), 30, "two that wait, by the leader")
        assert (first["place"], first["asks"], first["namespace"], first["gang"]) == (1, "1 GPU with 100 %", ns, "")
        assert second["place"] == 2 and second["why"].endswith("it is number 2 of 2 that wait"), second
        by_age = wait_for(lambda: shown(1 - leader, False), 30, "two that wait, by the other replica")
        assert [p["place"] for p in by_age] == [0, 0]
        assert by_age[1]["why"] == condition(c.client.get("pods", "w1", ns))["message"]
        assert by_age[0]["since"] == c.client.get("pods", "w0", ns)["metadata"]["creationTimestamp"]


def test_a_policy_orders(c):
    """The younger goes first where its namespace's policy says so; what counts is the policy that is picked when the turn comes."""
    c, _ = c
    with servers(c, {"gpu-o": 1}), contextlib.ExitStack() as stack:
        for name, priority in (("soon", 10), ("later", -10)):
            c.client.create({"apiVersion": "poolgate.io/v1alpha1", "kind": "GPUPolicy", "metadata": {"name": name},
                             "spec": {"defaults": {"priority": priority}}})
            stack.callback(c.client.delete, "gpupolicies", name)
        spaces = {name: stack.enter_context(client_namespace(c, name=name)) for name in ("first", "old", "young")}
        for name, picks in (("old", "later"), ("young", "soon")):
            c.client.patch("namespaces", spaces[name], {"metadata": {"labels": {"poolgate.io/policy": picks}}})
        c.client.create(waiting("turn"), namespace=spaces["first"])
        wait_for(lambda: let_go(c, spaces.values()) == {"turn"}, 20, "one that starts at once")
        for name in ("old", "young"):
            c.client.create(waiting(name), namespace=spaces[name])
            time.sleep(1.1)  # ages are told in seconds
        wait_for(lambda: "1 " in (condition(c.client.get("pods", "old", spaces["old"])) or {}).get("message", ""), 20, "a reason")
        c.client.delete("pods", "turn", spaces["first"], grace=0)
        wait_for(lambda: let_go(c, spaces.values()) == {"young"}, 30, "the younger")
        # another policy, and the next one in its turn
        c.client.create(waiting("last"), namespace=spaces["young"])
        c.client.patch("namespaces", spaces["young"], {"metadata": {"labels": {"poolgate.io/policy": None}}})
        c.client.patch("namespaces", spaces["old"], {"metadata": {"labels": {"poolgate.io/policy": "soon"}}})
        c.client.delete("pods", "young", spaces["young"], grace=0)
        wait_for(lambda: let_go(c, spaces.values()) == {"old"}, 30, "the elder")


def test_a_foreign_gate(c):
    """Kueue's, played: while it stands the pod takes nobody's place; when it has fallen the pod is as old as that, and nobody else says otherwise."""
    c, _ = c
    with servers(c, {"gpu-d": 1}), client_namespace(c, name="foreign") as ns:
        pod = waiting("queued", schedulingGates=[{"name": KUEUE_GATE}])
        pod["metadata"]["labels"] = {QUEUE: "q"}
        made = c.client.create(pod, namespace=ns)
        assert [g["name"] for g in made["spec"]["schedulingGates"]] == [KUEUE_GATE, GATE]
        told = wait_for(lambda: condition(c.client.get("pods", "queued", ns)), 20, "a reason")
        assert told["reason"] == "OtherGate" and not claims(c), told
        c.client.create(waiting("first"), namespace=ns)
        wait_for(lambda: let_go(c, [ns]) == {"first"}, 20, "one that came later")
        c.client.create(waiting("next"), namespace=ns)
        template = waiting("x")
        del template["metadata"]["name"]
        # Who applies more is told who waits, but for those that somebody else holds.
        c.client.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}, ns, dry_run=True)
        assert any(w.startswith("1 pod waits for GPUs already, 1 of this namespace") for w in c.client.warnings), c.client.warnings
        time.sleep(1.1)  # ages are told in seconds
        c.client.patch("pods", "queued", [{"op": "test", "path": "/spec/schedulingGates/0/name", "value": KUEUE_GATE},
                                          {"op": "remove", "path": "/spec/schedulingGates/0"}], ns, kind="json")
        since = wait_for(lambda: c.client.get("pods", "queued", ns)["metadata"]["annotations"].get(SINCE), 20, "since when it waits")
        assert since > c.client.get("pods", "next", ns)["metadata"]["creationTimestamp"]
        for forged in ("2020-01-01T00:00:00Z", None):
            with pytest.raises(kube.ApiError, match="poolgate"):
                c.client.patch("pods", "queued", {"metadata": {"annotations": {SINCE: forged}}}, ns)
        pod["metadata"].update(name="forged", annotations={**pod["metadata"]["annotations"], SINCE: "2020-01-01T00:00:00Z"})
        with pytest.raises(kube.ApiError, match="poolgate alone writes"):
            c.client.create(pod, namespace=ns)
        for before, after in (("first", "next"), ("next", "queued")):
            c.client.delete("pods", before, ns, grace=0)
            wait_for(lambda want={after}: let_go(c, [ns]) == want, 20, after)
        assert c.client.get("pods", "queued", ns)["metadata"]["annotations"][SINCE] == since


def test_who_wants_to_start_without_a_claim(c):
    """The gate taken away, forged plans, words that are none, a node: nobody starts without GPUs that are his."""
    c, _ = c
    with servers(c, {"gpu-c": 1}), client_namespace(c, name="hostile") as ns:
        c.client.create(waiting("holds"), namespace=ns)
        wait_for(lambda: let_go(c, [ns]) == {"holds"}, 20, "the first")
        made = c.client.create(waiting("waits"), namespace=ns)
        assert gated(made)

        def refused(call, says):
            with pytest.raises(kube.ApiError, match=says):
                call()

        refused(lambda: c.client.patch("pods", "waits", [{"op": "remove", "path": "/spec/schedulingGates"}], ns, kind="json"), "gate")
        refused(lambda: c.client.patch("pods", "waits", {"metadata": {"annotations": {"poolgate.io/when-full": "refuse"}}}, ns), "cannot be changed")
        refused(lambda: c.client.patch("pods", "waits", {"metadata": {"annotations": {"poolgate.io/place": "gpu-c/gpu-0"}}}, ns), "poolgate")
        copy = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "copy", "annotations": made["metadata"]["annotations"],
                                                                  "labels": made["metadata"]["labels"]}, "spec": dict(made["spec"])}
        copy["spec"].pop("schedulingGates")
        with contextlib.suppress(kube.ApiError):
            assert gated(c.client.create(copy, namespace=ns))
        refused(lambda: c.client.create(waiting("typo", word="wiat"), namespace=ns), "expected wait or refuse")
        refused(lambda: c.client.create(waiting("never", amount=2), namespace=ns), "GPU")
        refused(lambda: c.client.create(waiting("bare", word="refuse"), namespace=ns), "GPU")
        refused(lambda: c.client.create(waiting("node", nodeName="n"), namespace=ns), "GPU")
        assert let_go(c, [ns]) == {"holds"} and len(claims(c)) == 1


PLACED = """\
apiVersion: poolgate.io/v1alpha1
kind: LauncherProfile
metadata: {name: placed}
spec:
  kind: wrap
  placement: servers
  can: {fraction: bookkeeping}
  argv: [/bin/env, "WORDS={servers}/{gpus}"]
  env: [{name: SERVER, value: "{servers}"}, {name: GPUS, value: "{gpus}"}]
"""


def composed_placed():
    """The same, with a profile that tells a container in words and in variables which GPUs its claim has."""
    folder = COMPOSED + "-placed"
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "placed.yaml"), "w", encoding="utf-8") as f:
        f.write(PLACED)
    with open(os.path.join(folder, "kustomization.yaml"), "w", encoding="utf-8") as f:
        yaml.safe_dump({"resources": ["../../../manifests/base"], "components": ["../../../manifests/components/waiting"], "configMapGenerator": [
            {"name": "poolgate-launchers", "namespace": SYSTEM, "behavior": "merge", "files": ["placed.yaml"]}]}, f)
    return os.path.relpath(folder, ROOT)
def log_of(c, name, ns):
    return c.kubectl("-n", ns, "logs", name).stdout.split()


def succeeded(c, spaces):
    return [p for ns in spaces for p in c.client.items("pods", ns) if p["status"].get("phase") == "Succeeded"]


def ten_run_in_their_order(c, spaces):
    """One namespace holds a GPU for good: the others' pods go before its own, each by age, and each is told the GPU of its claim."""
    places, order, addresses = {}, [], {s["metadata"]["name"]: s["spec"]["address"] for s in c.client.items("gpuservers")}

    def see(kind, pod):
        name, place = pod["metadata"]["name"], pod["metadata"]["annotations"].get("poolgate.io/place")
        if kind != "DELETED" and not gated(pod) and name not in places:
            places[name] = place
            order.append(name)

    def create(name, ns, command):
        pod = waiting(name, command=("/bin/sh", "-c", command))
        pod["metadata"]["annotations"] = {"auto-management/bitfusion": "all", "poolgate.io/launcher": "placed", "poolgate.io/when-full": "wait"}
        c.client.create(pod, namespace=ns)

    names = [f"w{i}" for i in range(10)]
    with contextlib.ExitStack() as stack:
        for ns in spaces:
            stack.enter_context(kube.Observer(c.client, "pods", ns, on_event=see))
        create("stays", spaces[0], "sleep 600")
        create("turn", spaces[1], "sleep 600")
        wait_for(lambda: len(order) == 2, 20, "a full pool")
        for i, name in enumerate(names):
            create(name, spaces[i % 3], "echo $WORDS $SERVER $GPUS")
            time.sleep(0 if i % 3 == 2 else 1.1)  # ages are told in seconds
        assert len(order) == 2 and len(claims(c)) == 2
        c.client.delete("pods", "turn", spaces[1], grace=0)
        wait_for(lambda: len(succeeded(c, spaces)) == 10, 120, "ten that have run")
    assert sorted(order[2:], key=names.index) == names
    mine = set(names[::3])
    assert [n for n in order[2:] if n not in mine] + [n for n in order[2:] if n in mine] == order[2:], order
    assert [n for n in order[2:] if n in mine] == names[::3], order
    for pod in succeeded(c, spaces):
        name, ns = pod["metadata"]["name"], pod["metadata"]["namespace"]
        server, gpu = places[name].split("/")
        assert log_of(c, name, ns) == [f"{addresses[server]}/{gpu}", addresses[server], gpu], (name, places[name])
        assert places[name] != places["stays"], "two on one GPU"
    return places


def a_job_says_how_large_its_gang_is(c, ns):
    """Three at a time of two GPUs would never start; the Job is told to make two, and both of them run at once, twice."""
    template = waiting("x", command=("/bin/sh", "-c", "sleep 1"))
    template["metadata"].pop("name")
    template["metadata"]["annotations"].update({"poolgate.io/gang": "pair", "poolgate.io/gang-size": "job"})
    c.client.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {
        "parallelism": 3, "completions": 4, "backoffLimit": 0,
        "template": {"metadata": template["metadata"], "spec": template["spec"]}}}, namespace=ns)
    told = wait_for(lambda: [x for p in c.client.items("pods", ns) if (x := condition(p)) and x["reason"] == "NeverFits"], 20, "a reason")
    assert "all 3 members of its gang" in told[0]["message"], told
    assert not let_go(c, [ns]) and not claims(c)
    c.client.patch("jobs", "j", {"spec": {"parallelism": 2}}, ns)
    wait_for(lambda: c.client.get("jobs", "j", ns).get("status", {}).get("succeeded") == 4, 120, "four that have run")


def test_each_of_them_runs(installed):
    """On kubelets: ten pods of three namespaces, each on the GPU that its claim names, and a gang of a Job."""
    product.install(installed, composed_placed())
    try:
        with servers(installed, {"gpu-r": 1, "gpu-s": 1}), contextlib.ExitStack() as stack:
            spaces = [stack.enter_context(client_namespace(installed, name=f"runs-{i}")) for i in range(3)]
            ten_run_in_their_order(installed, spaces)
            installed.client.delete("pods", "stays", spaces[0], grace=0)
            wait_for(lambda: not claims(installed), 60, "claims that end")
            a_job_says_how_large_its_gang_is(installed, stack.enter_context(client_namespace(installed, name="job")))
            wait_for(lambda: not claims(installed), 30, "claims that end")
    finally:
        product.install(installed)
        for kind in ("clusterrolebindings", "clusterroles"):
            installed.client.delete(kind, "poolgate-waiting")
        installed.client.delete("validatingadmissionpolicybindings", "poolgate-waiting")
        installed.client.delete("validatingadmissionpolicies", "poolgate-waiting")
    assert installed.client.get("deployments", "poolgate", SYSTEM)["status"]["readyReplicas"] == 2
