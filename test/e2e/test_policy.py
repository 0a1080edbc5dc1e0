# SPDX-License-Identifier: Apache-2.0
"""Policies of namespaces: components/policies on a real API server: who may pick one, what its pods get, and what is no policy."""
import contextlib
import os
import re
import time

import pytest
import yaml

import kube
from cluster import ROOT, Cluster
from product import claims, client_secrets, gpu_pod, servers, wait_for
from replicas import Replicas

COMPOSED = os.path.join(ROOT, "build/e2e/policy")
POLICY = "poolgate.io/policy"
DEFAULTS = {"os": "ubuntu20", "version": "450", "percent": 25}


def composed(*more):
    """The base with the component, and others, as an operator writes it."""
    where = "-".join((COMPOSED, *more))
    os.makedirs(where, exist_ok=True)
    with open(os.path.join(where, "kustomization.yaml"), "w", encoding="utf-8") as f:
        yaml.safe_dump({"resources": ["../../../manifests/base"], "components": [f"../../../manifests/components/{name}" for name in ("policies", *more)]}, f)
    return os.path.relpath(where, ROOT)


@pytest.fixture(scope="module", name="c")
def fixture_light():
    with Cluster.light(controllers=True, name="policy") as c, Replicas(c, 1, path=composed(), through_proxy=True) as c.replicas:
        yield c


def policy(name, **spec):
    return {"apiVersion": "poolgate.io/v1alpha1", "kind": "GPUPolicy", "metadata": {"name": name}, "spec": spec}


@contextlib.contextmanager
def policies(c, *objects):
    for obj in objects:
        c.client.create(obj)
    yield
    for obj in objects:
        c.client.delete("gpupolicies", obj["metadata"]["name"])


def silent_pod(name, amount=1):
    """One that says nothing but that it asks."""
    pod = gpu_pod(name)
    pod["metadata"].pop("annotations")
    pod["spec"]["containers"][0]["resources"]["limits"] = {"bitfusion.io/gpu-amount": str(amount)}
    return pod


def injected(pod):
    return pod["metadata"].get("annotations", {}).get("auto-management/status") == "injected"


def refused(call, *says):
    with pytest.raises(kube.ApiError) as e:
        call()
    assert e.value.status in (403, 422) and all(s in str(e.value) for s in says), e.value
    return e.value


def test_injected_by_the_policy_of_the_namespace(c):
    """From the first moment that policy and namespace are there; as the label says from then on; what lives stays."""
    with servers(c, {"gpu-p": 4}), policies(c, policy("research", inject=True, defaults=DEFAULTS)), \
            c.namespace(labels={POLICY: "research"}) as ns:
        client_secrets(c, ns)
        pod = c.client.create(silent_pod("first"), namespace=ns)
        assert injected(pod) and pod["spec"]["containers"][0]["resources"]["limits"]["bitfusion.io/gpu"] == "25"
        wait_for(lambda: claims(c) == {(pod["metadata"]["uid"], "bound")}, 30, "its claim")
        # the same manifest again, merged over what lives, as kubectl apply does
        again = c.client.get("pods", "first", ns)
        again["spec"]["containers"][0]["resources"]["limits"]["bitfusion.io/gpu-amount"] = "1"
        assert c.client.replace(again)["spec"] == pod["spec"]
        # its own word
        off = silent_pod("off")
        off["metadata"]["annotations"] = {"auto-management/bitfusion": "off"}
        assert not injected(c.client.create(off, namespace=ns))
        # the policy says otherwise
        c.client.patch("gpupolicies", "research", {"spec": {"share": 0}})
        wait_for(lambda: tried(c, ns) == "left", 20, "a share of none")
        c.client.patch("gpupolicies", "research", {"spec": {"share": 100}})
        wait_for(lambda: tried(c, ns) == "injected", 20, "a share of all")
        # without the label pods are as those of a cluster without poolgate, and what lives is applied again as before
        c.client.patch("namespaces", ns, {"metadata": {"labels": {POLICY: None}}})
        wait_for(lambda: tried(c, ns) == "left", 20, "no policy")
        again = c.client.get("pods", "first", ns)
        again["spec"]["containers"][0]["resources"]["limits"]["bitfusion.io/gpu-amount"] = "1"
        assert c.client.replace(again)["spec"] == pod["spec"]
        # a policy that does not exist
        c.client.patch("namespaces", ns, {"metadata": {"labels": {POLICY: "nowhere"}}})
        wait_for(lambda: 'policy "nowhere"' in tried(c, ns), 20, "a refusal")
        c.client.delete_all("pods", ns, grace=0)
        wait_for(lambda: not claims(c), 60, "the claims' end")


def tried(c, ns):
    """What would become of a pod that says nothing: injected, left, or the refusal."""
    try:
        return "injected" if injected(c.client.create(silent_pod("dry"), ns, dry_run=True)) else "left"
    except kube.ApiError as e:
        return str(e)


def test_what_another_hook_keeps_from_us(c):
    """The mutating hook is away: what the policy would convert is refused, or passes where the policy says so, and is counted."""
    with servers(c, {"gpu-o": 1}), policies(c, policy("strict", inject=True, defaults=DEFAULTS),
                                            policy("lax", inject=True, defaults=DEFAULTS, onOutage="local")), \
            c.namespace(labels={POLICY: "strict"}) as strict, c.namespace(labels={POLICY: "lax"}) as lax:
        assert tried(c, strict) == "injected"
        hooks = c.client.get("mutatingwebhookconfigurations", "poolgate")["webhooks"]
        at = [h["name"] for h in hooks].index("mutate-policy.poolgate.io")
        path = f"/webhooks/{at}/clientConfig/service/path"
        was = hooks[at]["clientConfig"]["service"]["path"]
        c.client.patch("mutatingwebhookconfigurations", "poolgate", [{"op": "replace", "path": path, "value": "/nowhere"}], kind="json")
        try:
            wait_for(lambda: "NotInjected" in tried(c, strict), 20, "a refusal")
            before = c.replicas.metrics(0)["poolgate_policy_local_total"]
            assert not injected(c.client.create(silent_pod("local"), lax))
            assert "onOutage: local" in " ".join(c.client.warnings)
            assert c.replicas.metrics(0)["poolgate_policy_local_total"] == before + 1
        finally:
            c.client.patch("mutatingwebhookconfigurations", "poolgate", [{"op": "replace", "path": path, "value": was}], kind="json")


def reviews(c):
    """How many were answered: by hook and operation."""
    found = {}
    for name, value in c.replicas.metrics(0).items():
        if name.startswith("poolgate_reviews_total{"):
            labels = dict(re.findall(r'(\w+)="(\w+)"', name))
            key = labels["hook"], labels["operation"]
            found[key] = found.get(key, 0) + value
    return found


def answered(call):
    with contextlib.suppress(kube.ApiError):
        call()


def test_each_is_reviewed_once(c):
    """By the hooks of the base or by those of the component, in namespaces with the label and without, and nobody who does not concern us."""
    asks, loud, cpu = silent_pod("p"), silent_pod("p"), silent_pod("p")
    loud["metadata"]["annotations"] = {"auto-management/bitfusion": "all", "bitfusion-client/os": "ubuntu20", "bitfusion-client/version": "450"}
    foreign = silent_pod("p")
    foreign["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "1"}
    cpu["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "1"}
    deployment = workload("Deployment", "d", replicas=0)

    def heard(call):
        before = reviews(c)
        call()
        return {key: n - before.get(key, 0) for key, n in reviews(c).items() if n != before.get(key, 0)}

    warned = {("validate", "CREATE"): 1}
    with servers(c, {"gpu-r": 2}), policies(c, policy("once", inject=True, accepts=["nvidia.com/gpu"], defaults=DEFAULTS)), \
            c.namespace(labels={POLICY: "once"}) as picks, c.namespace() as free:
        client_secrets(c, picks)
        # The mutating hook is called again for what the API server itself adds to the injected pod, where that still says that it asks.
        again = heard(lambda: c.client.create(loud, free, dry_run=True))
        assert again in ({("mutate", "CREATE"): n, **warned} for n in (1, 2)), again
        once = {("mutate", "CREATE"): 1, **warned}
        for ns, want in ((picks, {"loud": again, "asks": once, "foreign": once, "cpu": {}}),
                         (free, {"loud": again, "asks": warned, "foreign": {}, "cpu": {}})):
            for name, pod in (("loud", loud), ("asks", asks), ("foreign", foreign), ("cpu", cpu)):
                assert heard(lambda p=pod, n=ns: c.client.create(p, n, dry_run=True)) == want[name], (name, ns == picks)
            assert heard(lambda n=ns: c.client.create(deployment, n, dry_run=True)) == warned
        # updates of what was injected, with the label and without
        live = c.client.create(foreign, picks)
        assert injected(live)
        for label in ("once", None):
            c.client.patch("namespaces", picks, {"metadata": {"labels": {POLICY: label}}})
            wait_for(lambda n=label: tried(c, picks) == ("injected" if n else "left"), 20, "the label")
            for key in ("nvidia.com/gpu", "bitfusion.io/gpu-amount"):
                again = c.client.get("pods", "p", picks)
                again["spec"]["containers"][0]["resources"]["limits"][key] = "1"
                # what is asked for by another key than it was made with is refused, once
                said = heard(lambda a=again: answered(lambda: c.client.replace(a)))
                assert said == {("mutate", "UPDATE"): 1}, (label, key, said)
            taken = c.client.get("pods", "p", picks)
            taken["metadata"]["annotations"].pop("poolgate.io/plan")
            assert heard(lambda t=taken: refused(lambda: c.client.replace(t), "PlanChanged")) == {("validate", "UPDATE"): 1}, label
        c.client.delete_all("pods", picks, grace=0)
        wait_for(lambda: not claims(c), 60, "the claims' end")


def test_a_replica_that_is_behind(c):
    """Its watch of namespaces is broken, and it may not begin another: a label that the API server has seen counts from the first pod on. It asks,
    and refuses where it cannot."""
    role = c.client.get("clusterroles", "poolgate-policies")
    at = [rule["resources"] for rule in role["rules"]].index(["namespaces"])

    def may_do(*verbs):
        c.client.patch("clusterroles", "poolgate-policies", [{"op": "replace", "path": f"/rules/{at}/verbs", "value": list(verbs)}], kind="json")

    def broken():
        with open(c.log_path("poolgate-0"), encoding="utf-8") as f:
            return any("the watch is broken" in line and "/namespaces" in line for line in f)

    with servers(c, {"gpu-b": 2}), policies(c, policy("behind", inject=True, defaults=DEFAULTS)), c.namespace() as ns:
        wait_for(lambda: tried(c, ns) == "left", 20, "a namespace that is known")
        may_do("get")
        try:
            account = c.client_for(token=c.account_token("poolgate-system", "poolgate"))
            wait_for(lambda: not may(lambda: account.list("namespaces")), 20, "the right's end")
            c.proxy.cut()
            wait_for(broken, 30, "a broken watch")
            c.client.patch("namespaces", ns, {"metadata": {"labels": {POLICY: "behind"}}})
            # the API server's own picture of namespaces takes its moment
            wait_for(lambda: tried(c, ns) != "left", 20, "the label's hooks")
            assert [tried(c, ns) for _ in range(5)] == ["injected"] * 5
            client_secrets(c, ns)
            pod = c.client.create(silent_pod("first"), namespace=ns)
            assert injected(pod)
            may_do("use")
            wait_for(lambda: "ApiServerAway" in tried(c, ns), 20, "a refusal")
            assert "create it again" in tried(c, ns)
        finally:
            may_do("get", "list", "watch")
        wait_for(lambda: tried(c, ns) == "injected", 20, "the label")
        c.client.delete_all("pods", ns, grace=0)
        wait_for(lambda: not claims(c), 60, "the claims' end")


@contextlib.contextmanager
def tenant(c, ns, user, *use):
    """A client of whoever may patch this namespace, and its status, and use these policies."""
    group = "rbac.authorization.k8s.io"

    def grant(kind, name, namespace, **rule):
        ref = {"apiGroup": group, "kind": kind, "name": name}
        for obj in ({"kind": kind, "rules": [rule]}, {"kind": kind + "Binding", "roleRef": ref, "subjects": [{"kind": "User", "name": user}]}):
            c.client.create({"apiVersion": group + "/v1", "metadata": {"name": name}, **obj}, namespace=namespace)

    grant("Role", "owner", ns, apiGroups=[""], resources=["namespaces", "namespaces/status", "namespaces/finalize"], verbs=["get", "patch", "update"])
    grant("ClusterRole", f"use-{ns}", None, apiGroups=["poolgate.io"], resources=["gpupolicies"], resourceNames=list(use), verbs=["use"])
    client = c.client_for(user)
    wait_for(lambda: may(lambda: client.patch("namespaces", ns, {"metadata": {"labels": {"own": "yes"}}})), 20, f"{user}'s rights")
    wait_for(lambda: not may(lambda: client.patch("namespaces", ns, {"metadata": {"labels": {POLICY: "nobody-may"}}}, dry_run=True)), 20, "P1 in force")
    yield client
    for resource in ("clusterroles", "clusterrolebindings"):
        c.client.delete(resource, f"use-{ns}")


def pick(who, ns, name, subresource=None):
    """Put the namespace under that policy; None: under none."""
    return who.patch("namespaces", ns, {"metadata": {"labels": {POLICY: name, "team": str(name)}}}, subresource=subresource)


def test_the_label_is_the_grant(c):
    """A tenant who may patch his namespace, and its status, picks the policy that he may use, leaves it, and no other."""
    with policies(c, policy("small"), policy("big")), c.namespace() as ns, tenant(c, ns, "alice", "small") as alice:
        wait_for(lambda: may(lambda: pick(alice, ns, "small")), 20, "alice's use of small")
        for subresource in (None, "status"):
            refused(lambda s=subresource: pick(alice, ns, "big", s), "may use the GPUPolicy big")
            refused(lambda s=subresource: pick(alice, ns, "", s), "the label poolgate.io/policy is empty")
        pick(alice, ns, None)
        refused(lambda: pick(alice, ns, "big"), "may use the GPUPolicy big")
        refused(lambda: pick(alice, ns, ""), "the label poolgate.io/policy is empty")
        pick(c.client, ns, "big")
        for name in (None, "small"):
            refused(lambda n=name: pick(alice, ns, n), "takes a namespace away")
        alice.patch("namespaces", ns, {"metadata": {"labels": {"own": "still"}}})
        assert c.client.get("namespaces", ns)["metadata"]["labels"][POLICY] == "big"


def workload(kind, name, labels=None, **spec):
    """A Job or Deployment of pods that say nothing."""
    pod = silent_pod("x")
    pod["spec"]["restartPolicy"] = "Never" if kind == "Job" else "Always"
    labels = {"of": name, **(labels or {})}
    selector = {} if kind == "Job" else {"selector": {"matchLabels": {"of": name}}}
    return {"apiVersion": "batch/v1" if kind == "Job" else "apps/v1", "kind": kind, "metadata": {"name": name},
            "spec": {"template": {"metadata": {"labels": labels}, "spec": pod["spec"]}, **selector, **spec}}


def answers(c, ns, label="of"):
    """By group: what has become of each of its pods that are not being deleted."""
    found = {}
    for pod in c.client.items("pods", ns):
        if not pod["metadata"].get("deletionTimestamp"):
            found.setdefault(pod["metadata"]["labels"].get(label), []).append(injected(pod))
    return found


def slowly(check):
    """For checks that list hundreds of pods: asked ten times a second they would keep the machine from making them."""
    def asked():
        time.sleep(1)
        return check()
    return asked


def test_a_share_of_groups(c):
    """Half of 200 Jobs, of the pairs of Jobs of JobSets, and of Deployments: no group is torn, and none flips by a rollout or when its pods are
    made anew."""
    jobs, sets, deployments = 200, 10, 10
    with servers(c, {"gpu-s": 8}), policies(c, policy("half", inject=True, share=50, defaults={**DEFAULTS, "percent": 1})), \
            c.namespace(labels={POLICY: "half"}) as ns:
        client_secrets(c, ns)
        for i in range(sets):
            for part in "ab":
                c.client.create(workload("Job", f"set-{i}-{part}", {"jobset.sigs.k8s.io/jobset-uid": f"uid-{i}"}), ns)
        for i in range(deployments):
            c.client.create(workload("Deployment", f"web-{i}", replicas=2, strategy={"type": "Recreate"}), ns)
        for i in range(jobs):
            c.client.create(workload("Job", f"train-{i}"), ns)
        wait_for(slowly(lambda: sum(map(len, answers(c, ns).values())) == 2 * sets + 2 * deployments + jobs), 90, "all pods")
        first = answers(c, ns)
        in_it = [all(first[f"train-{i}"]) for i in range(jobs)]
        assert 70 <= sum(in_it) <= 130, sum(in_it)
        in_sets = answers(c, ns, "jobset.sigs.k8s.io/jobset-uid")
        assert all(len(in_sets[f"uid-{i}"]) == 2 and len(set(in_sets[f"uid-{i}"])) == 1 for i in range(sets)), in_sets
        webs = {f"web-{i}": first[f"web-{i}"] for i in range(deployments)}
        assert all(len(set(pods)) == 1 for pods in webs.values()), webs
        before = {p["metadata"]["uid"] for p in c.client.items("pods", ns)}
        for name in webs:
            c.client.patch("deployments", name, {"spec": {"template": {"metadata": {"annotations": {"again": "1"}}}}}, ns)

        def anew():
            pods = [p for p in c.client.items("pods", ns) if p["metadata"]["labels"]["of"] in webs and not p["metadata"].get("deletionTimestamp")]
            return len(pods) == 2 * deployments and not before & {p["metadata"]["uid"] for p in pods}

        wait_for(slowly(anew), 60, "pods of the next rollout")
        assert {name: answers(c, ns)[name] for name in webs} == webs
        c.client.delete("namespaces", ns)
        wait_for(slowly(lambda: not claims(c)), 90, "the claims' end")


def may(call):
    try:
        call()
    except kube.ApiError as e:
        assert e.status == 403, e
        return False
    return True


@pytest.mark.parametrize("spec,says", [
    ({"share": 101}, "spec.share"), ({"share": -1}, "spec.share"), ({"defaults": {"percent": 0}}, "spec.defaults.percent"),
    ({"defaults": {"whenFull": "queue"}}, "spec.defaults.whenFull"),
    ({"defaults": {"priority": 1000000001}}, "spec.defaults.priority"), ({"accepts": ["amd.com/gpu"]}, "spec.accepts"),
    ({"accepts": ["nvidia.com/gpu", "nvidia.com/gpu"]}, "spec.accepts"), ({"ties": "drop"}, "spec.ties"), ({"onOutage": True}, "spec.onOutage"),
    ({"allow": {"servers": {}}}, "spec.allow.servers"), ({"allow": {"launchers": []}}, "spec.allow.launchers"),
    ({"allow": {"models": ["x" * 129]}}, "spec.allow.models"), ({"allow": {"gpus": -1}}, "spec.allow.gpus"),
    ({"allow": {"memory": "much"}}, "spec.allow.memory"), ({"allow": {"memory": -1}}, "spec.allow.memory"),
    ({"allow": {"waiting": 1000001}}, "spec.allow.waiting"), ([], "spec"), (None, "spec")])
def test_what_is_no_policy(c, spec, says):
    refused(lambda: c.client.create(policy("bad") if spec is None else {**policy("bad"), "spec": spec}, dry_run=True)
            if spec is not None else c.client.create({k: v for k, v in policy("bad").items() if k != "spec"}, dry_run=True), says)


def test_names_and_fields(c):
    refused(lambda: c.client.create(policy("x" * 64), dry_run=True), "at most 63 characters")
    kept = c.client.create(policy("a" * 63, allow={"memory": "1.5Ti", "gpus": 4, "waiting": 0, "servers": {"a.b/c": ""}}, unheard=1), dry_run=True)
    assert kept["spec"] == {"allow": {"memory": "1.5Ti", "gpus": 4, "waiting": 0, "servers": {"a.b/c": ""}}}
