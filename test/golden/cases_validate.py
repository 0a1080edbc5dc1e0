# SPDX-License-Identifier: Apache-2.0
"""Golden cases of the validating hook: forged and half-removed injections, updates, capacity, secrets, workload kinds."""
import copy

from cases import case, create, mutate, patched, refused, untouched
from lib import reviews
from lib.pods import ask, container, pod

MAIN = "/spec/containers/0"
UNITS = "bitfusion.io~1gpu"
PLAN = "/metadata/annotations/poolgate.io~1plan"
LABEL = "/metadata/labels/poolgate.io~1injected"
SECRET = {"name": "s", "secret": {"secretName": "bitfusion-client-secret-ca.crt"}}


def replace(path, value):
    return {"op": "replace", "path": path, "value": value}


def forged(name, about, edit, expect, p=None, operation="CREATE"):
    mutate(f"forged-{name}", about, p or pod(), expect=patched(), oracle=True, then=[
        {"about": about, "path": "/validate", "edit": edit, "expect": expect, "operation": operation}])


def forgeries():
    no = refused(code=403)
    forged("argv-fraction", "1 % in the argv's place of 100", [replace(MAIN + "/command/5", "0.010000")], no)
    forged("argv-amount", "eight GPUs are started, one is claimed", [replace(MAIN + "/command/3", "8")], no)
    forged("argv-binary", "another program in the launcher's place", [replace(MAIN + "/command/0", "/bin/echo")], no)
    forged("argv-removed", "the launcher's words are gone", [replace(MAIN + "/command", ["python", "train.py"])], no)
    forged("argv-cut", "half of the launcher's words", [{"op": "remove", "path": MAIN + "/command/6"}], no)
    forged("argv-option-added", "a word more among them", [{"op": "add", "path": MAIN + "/command/6", "value": "-x"}], no)
    forged("command-gone", "no command at all", [{"op": "remove", "path": MAIN + "/command"}], no)
    units = [replace(f"{MAIN}/resources/{side}/{UNITS}", "1") for side in ("limits", "requests")]
    forged("units", "fewer units than the plan says", units, no)
    forged("units-limits-only", "limits and requests differ", units[:1], no)
    forged("units-removed", "the units are gone", [
        {"op": "remove", "path": f"{MAIN}/resources/{side}/{UNITS}"} for side in ("limits", "requests")], no)
    forged("plan-percent", "the plan alone says 1 %", [replace("/plan/containers/0/percent", 1)], no)
    forged("plan-percent-and-units", "plan and units say 1 %, the argv does not", units + [
        replace("/plan/containers/0/percent", 1), replace("/plan/containers/0/units", 1)], no)
    forged("plan-amount", "the plan's amount differs from its units", [replace("/plan/containers/0/amount", 2)], no)
    forged("plan-not-json", "the plan is no JSON", [replace(PLAN, "{")], no)
    forged("plan-empty", "the plan is empty", [replace(PLAN, "")], no)
    forged("plan-array", "the plan is an array", [replace(PLAN, "[]")], no)
    forged("plan-no-containers", "the plan holds no container", [replace("/plan/containers", [])], no)
    forged("plan-other-container", "the plan speaks of another container", [replace("/plan/containers/0/name", "x")], no)
    forged("plan-removed", "status without a plan", [{"op": "remove", "path": PLAN}], no)
    forged("label-removed", "the label is gone", [{"op": "remove", "path": LABEL}], no)
    forged("label-false", "the label says no", [replace(LABEL, "false")], no)
    forged("asks-again", "a container that asks came after us", [
        {"op": "add", "path": "/spec/containers/-", "value": reviews.default_resources(pod(container("late")))
         ["spec"]["containers"][0]}], refused(code=403, reason="NotInjected"))
    forged("init-removed", "our init container is gone", [{"op": "remove", "path": "/spec/initContainers/0"}], no)
    forged("mount-removed", "a mount of ours is gone", [{"op": "remove", "path": MAIN + "/volumeMounts/1"}], no)
    lower = units + [replace("/plan/containers/0/percent", 1), replace("/plan/containers/0/units", 1)]
    forged("plan-of-another-profile-version", "a made-up hash does not open the door: the words still say 100 %", lower + [
        replace("/plan/hash", "0123456789abcdef")], no)
    forged("plan-and-argv-eight", "a made-up hash, 1 % in the plan and eight GPUs in the words", lower + [
        replace("/plan/hash", "0123456789abcdef"), replace(MAIN + "/command/3", "8")], no)
    forged("plan-profile-unknown", "a profile that this replica does not have: nobody chooses whether he is checked", [
        replace("/plan/profile", "newer")], no)
    forged("plan-total", "units counted by a larger GPU cost less quota", [replace("/plan/totalMB", 99000)], no)
    forged("plan-command-none", "the plan says that nothing was wrapped", [
        replace("/plan/containers/0/command", "none"), replace("/plan/containers/0/argv", 0)], no)
    forged("injection-percent", "units of an injection-mode pod", units, no, p=pod(switch="injection"))


def honest():
    words = [{"op": "add", "path": f"{MAIN}/command/{i}", "value": w} for i, w in enumerate(("/sbin/tini", "--"))]
    forged("wrapped-once-more", "another hook may wrap it once more", words, untouched())
    forged("annotation-added", "others may annotate", [
        {"op": "add", "path": "/metadata/annotations/x", "value": "y"}], untouched())
    forged("sidecar-added", "others may add a sidecar", [
        {"op": "add", "path": "/spec/containers/-", "value": container("mesh", ["envoy"], {})}], untouched())
    forged("env-added", "others may add a variable", [
        {"op": "add", "path": MAIN + "/env/-", "value": {"name": "X", "value": "y"}}], untouched())
    forged("switch-removed", "the plan speaks for itself", [
        {"op": "remove", "path": "/metadata/annotations/auto-management~1bitfusion"}], untouched())
    forged("plan-newer-member", "a newer replica may have written more", [
        {"op": "add", "path": "/plan/somethingNew", "value": {"a": 1}}], untouched())
    for p, label in ((pod(container(resources=ask(percent="25"))), "percent"), (pod(container(resources=ask(
            memory="4G"))), "memory"), (pod(container(resources=ask("2")), filter="gpu.model=K80"), "two-k80"),
            (pod(container("a", resources=ask(percent="50")), container("b", resources=ask(percent="50"))), "two-halves"),
            (pod(container(command=["bitfusion", "run", "-n", "1", "--", "x"])), "own-launcher")):
        forged(f"not-{label}", "as it was injected", [], untouched(), p=p)


def updates():
    no = refused(code=403)
    for name, edit in {
            "plan": [replace("/plan/containers/0/percent", 1)], "plan-gone": [{"op": "remove", "path": PLAN}],
            "label": [replace(LABEL, "no")], "label-gone": [{"op": "remove", "path": LABEL}],
            "own-annotation": [{"op": "add", "path": "/metadata/annotations/poolgate.io~1launcher", "value": "juice"}],
    }.items():
        forged(f"update-{name}", "an update must not touch what is ours", edit, no, operation="UPDATE")
    forged("update-label-of-others", "other labels are none of ours", [
        {"op": "add", "path": "/metadata/labels/app", "value": "x"}], untouched(), operation="UPDATE")
    subresources()
    p = pod(container(resources={}), switch=None)
    live = reviews.stored(reviews.default_resources(p), uid=reviews.fixed_uid("plain-live"))
    late = copy.deepcopy(live)
    late["metadata"].setdefault("annotations", {})["poolgate.io/plan"] = "{\"version\":1}"
    changed = refused(code=403, reason="PlanChanged")
    case("update-plan-added-later", "a plan on a pod that never had one", reviews.review(
        late, "UPDATE", old=live, uid=reviews.fixed_uid("late")), path="/validate", expect=changed)
    case("update-plan-added-by-status", "the same through pods/status", reviews.review(
        late, "UPDATE", old=live, subresource="status", uid=reviews.fixed_uid("late-s")), path="/validate", expect=changed)


def subresources():
    cpu = [{"op": "add", "path": f"{MAIN}/resources/{side}/cpu", "value": "2"} for side in ("limits", "requests")]
    debug = [{"op": "add", "path": "/spec/ephemeralContainers", "value": [
        {"name": "debugger", "image": "busybox", "command": ["sh"], "resources": {}}]}]
    phase = [{"op": "add", "path": "/status/phase", "value": "Running"}]
    for name, edit in (("resize", cpu), ("ephemeralcontainers", debug), ("status", phase)):
        mutate(f"update-{name}-of-injected", "subresources of an injected pod pass both hooks", pod(), then=[
            {"about": name, "path": path, "operation": "UPDATE", "subresource": name, "edit": edit, "expect": untouched()}
            for path in ("/mutate", "/validate")])
    read = refused(code=403, reason="SecretWithoutClaim")
    for name, path, more in (
            ("variable", "env/0", {"env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": SECRET["secret"]["secretName"], "key": "k"}}}]}),
            ("variables", "envFrom/0", {"envFrom": [{"secretRef": {"name": SECRET["secret"]["secretName"]}}]}),
            ("mount", "volumeMounts/0", {"volumeMounts": [{"name": "ca", "mountPath": "/s"}]})):
        mutate(f"update-ephemeral-{name}", "an ephemeral container reads no client's Secret, be the pod injected", pod(), then=[
            {"about": "refused", "path": "/validate", "operation": "UPDATE", "subresource": "ephemeralcontainers",
             "edit": [{**debug[0], "value": [{**debug[0]["value"][0], **more}]}],
             "expect": {**read, "message": [f"spec/ephemeralContainers/0/{path}"]}}])
    # A patch may put the new one in front of those that were there, which nobody judges again.
    had, thief = debug[0]["value"][0], {**debug[0]["value"][0], "name": "thief", "envFrom": [{"secretRef": {"name": SECRET["secret"]["secretName"]}}]}
    p = reviews.stored(reviews.default_resources(pod(container(resources={}), switch=None)), uid=reviews.fixed_uid("debugged"))
    for name, was, now, expect in (("in-front", [had], [thief, had], {**read, "message": ["spec/ephemeralContainers/0/envFrom/0"]}),
                                   ("that-was-there", [thief], [thief, had], untouched())):
        pods = [copy.deepcopy(p) for _ in range(2)]
        for one, value in zip(pods, (was, now)):
            one["spec"]["ephemeralContainers"] = value
        case(f"update-ephemeral-{name}", "judged is what the update brings", reviews.review(
            pods[1], "UPDATE", old=pods[0], subresource="ephemeralcontainers", uid=reviews.fixed_uid(name)), path="/validate", expect=expect)
    mutate("update-status-takes-label", "our label is not taken away through pods/status either", pod(), then=[
        {"about": "refused", "path": "/validate", "operation": "UPDATE", "subresource": "status",
         "edit": [{"op": "remove", "path": LABEL}], "expect": refused(code=403)}])
    mutate("update-reapply-other-request", "a second apply that asks for other GPUs", pod(), then=[
        {"about": "said, not silently ignored", "path": "/mutate", "operation": "UPDATE", "edit": [
            {"op": "add", "path": f"{MAIN}/resources/{side}/bitfusion.io~1gpu-amount", "value": "2"}
            for side in ("limits", "requests")], "expect": refused(code=403)}])


def refusals():
    lone = pod(container(resources={}), switch=None, labels={"poolgate.io/injected": "true"})
    case("label-without-plan", "our label on a pod that was never injected", create(reviews.stored(
        lone, uid=reviews.fixed_uid("lone"))), path="/validate", expect=refused(code=403, reason="PlanMissing"))
    units = pod(container(resources={"limits": {"bitfusion.io/gpu": "100"}}), switch=None)
    case("units-without-plan", "units that nobody computed", create(reviews.stored(
        units, uid=reviews.fixed_uid("units"))), path="/validate", expect=refused(code=403, reason="GpuWithoutPlan"))
    p = pod()
    case("not-injected", "the mutating hook did not answer", create(reviews.stored(p, uid=reviews.fixed_uid("ni"))),
         path="/validate", expect=refused(code=403, reason="NotInjected"))
    p = pod(annotations={"auto-management/status": "injected"})
    case("not-injected-status-only", "a status alone proves nothing", create(reviews.stored(
        p, uid=reviews.fixed_uid("nis"))), path="/validate", expect=refused(code=403, reason="NotInjected"))
    case("no-version-allowed", "no client chosen: allowed without a claim", create(reviews.stored(
        pod(version=None), uid=reviews.fixed_uid("nv"))), path="/validate",
        expect=untouched(["not injected: set the annotations"]))
    case("off-but-asks", "allowed, with a warning that the pod will wait", create(reviews.stored(
        pod(switch=None), uid=reviews.fixed_uid("off"))), path="/validate",
        expect={**untouched(), "warnings": ["gpu-amount"]})
    for ns in ("kube-system", "kube-public"):
        case(f"validate-{ns}", "never touched, never refused", create(reviews.stored(
            pod(namespace=ns), uid=reviews.fixed_uid(ns))), path="/validate",
            expect=untouched())
    case("validate-mirror-pod", "a static pod's mirror", create(reviews.stored(
        pod(annotations={"kubernetes.io/config.mirror": "x"}), uid=reviews.fixed_uid("mirror"))), path="/validate",
        expect=untouched())
    for label, volume in (("secret", SECRET), ("projected", {"name": "s", "projected": {"sources": [
            {"secret": {"name": "bitfusion-client-secret-client.yml"}}]}})):
        thief = pod(container("c", ["sh"], {}), switch=None, volumes=[volume])
        case(f"secret-without-claim-{label}", "mounts the client's secret and asks for nothing", create(
            reviews.stored(thief, uid=reviews.fixed_uid(label))), path="/validate",
            expect=refused("secret", code=403, reason="SecretWithoutClaim"))
    other = pod(container("c", ["sh"], {}), switch=None, volumes=[{"name": "s", "secret": {"secretName": "mine"}}])
    case("secret-of-others", "any other secret", create(reviews.stored(other, uid=reviews.fixed_uid("mine"))),
         path="/validate", expect=untouched())


def capacity():
    for name, p, words, reason in (
            ("four-gpus", pod(container(resources=ask("4"))), ["4"], "NoCapacity"),
            ("two-v100", pod(container(resources=ask("2")), filter="gpu.model=V100-PCIE-16GB"), ["2"], "NoCapacity"),
            ("memory-above-k80", pod(container(resources=ask(memory="12G")), filter="gpu.model=K80"), ["12"], "NoCapacity"),
            ("no-such-server", pod(filter="server.name=gpu-99"), ["gpu-99"], "NoServer"),
            ("no-such-model", pod(filter="gpu.model=H100"), ["H100"], "NoServer"),
            ("contradiction", pod(filter="server.name=gpu-01 gpu.model=K80"), [], "NoServer")):
        mutate(f"capacity-{name}", "refused with the numbers", p, expect=None, then=[
            {"about": "403 with what was asked and what is free", "path": "/validate",
             "expect": refused(*words, code=403, reason=reason)},
            {"about": "a dry run says the same", "path": "/validate", "dry_run": True,
             "expect": refused(*words, code=403, reason=reason)}])
    mutate("capacity-dry-run", "a dry run that fits", pod(), then=[
        {"about": "allowed, nothing taken", "path": "/validate", "dry_run": True, "expect": untouched()}])
    init = container("prepare", ["x"], ask("2"))
    mutate("capacity-init-shares", "an init container's GPUs are the pod's own", pod(
        container(resources=ask("3")), inits=[init]), then=[
            {"about": "three GPUs are enough", "path": "/validate", "expect": untouched()}])


def kinds():
    for kind, wrap in (("Deployment", None), ("StatefulSet", None), ("DaemonSet", None), ("ReplicaSet", None), ("Job", None),
                       ("CronJob", "jobTemplate")):
        for label, amount in (("fits", "1"), ("too-big", "9")):
            p = pod(container(resources=ask(amount)))
            spec = {"template": {"metadata": {"annotations": p["metadata"]["annotations"]}, "spec": p["spec"]}}
            spec = {"schedule": "@daily", wrap: {"spec": spec}} if wrap else spec
            obj = {"kind": kind, "apiVersion": "apps/v1" if kind.endswith(("Set", "ment")) else "batch/v1",
                   "metadata": {"name": "w", "namespace": "ml"}, "spec": spec}
            case(f"kind-{kind.lower()}-{label}", "a workload's pods are refused later: warned now", reviews.review(
                obj, uid=reviews.fixed_uid(kind + label)), path="/validate",
                expect={**untouched(), "warnings": "some" if label == "too-big" else []})
    obj = {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "web", "namespace": "ml"}, "spec": {
        "template": {"metadata": {}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}}}
    case("kind-deployment-plain", "a workload without a GPU", reviews.review(obj, uid=reviews.fixed_uid("web")),
         path="/validate", expect=untouched())
    bad = copy.deepcopy(obj)
    bad["spec"]["template"]["metadata"] = {"annotations": pod(version="999")["metadata"]["annotations"]}
    bad["spec"]["template"]["spec"] = pod()["spec"]
    case("kind-deployment-unknown-client", "what the mutating hook would refuse is warned of", reviews.review(
        bad, uid=reviews.fixed_uid("bad")), path="/validate", expect={**untouched(), "warnings": "some"})


def deletions():
    p = reviews.stored(reviews.default_resources(pod()), uid=reviews.fixed_uid("gone"))
    for label, grace in (("graceful", 30), ("final", 0)):
        for path in ("/mutate", "/validate"):
            r = reviews.review(None, "DELETE", old=p, uid=reviews.fixed_uid(label), options={"gracePeriodSeconds": grace})
            case(f"delete-{label}-{path[1:]}", "DELETE is always allowed", r, path=path, expect=untouched())
    r = reviews.review(None, "DELETE", old=p, uid=reviews.fixed_uid("dd"), dry_run=True, options={"gracePeriodSeconds": 0})
    case("delete-dry-run", "a dry DELETE", r, path="/validate", expect=untouched())


def fill():
    forgeries()
    honest()
    updates()
    refusals()
    capacity()
    kinds()
    deletions()
