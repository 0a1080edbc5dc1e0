# SPDX-License-Identifier: Apache-2.0
"""Golden cases: recorded reviews, the five workloads, the switch, what is left alone, what is done already."""
import os

import yaml

from cases import ROOT, case, create, invalid, mutate, patched, recorded, refused, untouched
from lib import reviews
from lib.pods import ask, container, pod

NOT_INJECTED = refused(code=403, reason="NotInjected")
RECORDED = {
    "mutate-connect-exec": untouched(), "mutate-create-binding": untouched(), "mutate-create-eviction": untouched(),
    "mutate-create-generatename-deployment": None, "mutate-create-generatename-dryrun": None,
    "mutate-create-generatename-indexed-job": None, "mutate-create-no-gpu": None, "mutate-create-pod-dryrun": None,
    "mutate-create-pod-vgg19": None, "mutate-delete-first-call": untouched(), "mutate-delete-second-call": untouched(),
    "mutate-update-annotate": untouched(), "mutate-update-ephemeralcontainers": untouched(),
    "mutate-update-resize": untouched(), "mutate-update-status": untouched(),
    "validate-create-generatename-deployment": NOT_INJECTED, "validate-create-generatename-indexed-job": NOT_INJECTED,
    "validate-create-no-gpu": untouched(), "validate-create-pod-dryrun": NOT_INJECTED,
    "validate-create-pod-vgg19": NOT_INJECTED, "validate-update-annotate": NOT_INJECTED,
    "validate-update-resize": untouched(),
}
WORKLOADS = ("1-vgg19", "2-mirrored", "3-notebook", "4-mpi", "5-memory-share")


def workload_pod(name):
    """The pod of an example manifest as its controller would create it, after defaulting."""
    with open(os.path.join(ROOT, "manifests/examples", f"workload-{name}.yaml"), encoding="utf-8") as f:
        docs = [d for d in yaml.safe_load_all(f) if d and d["kind"] in ("Pod", "Job", "Deployment")]
    doc = docs[0]
    if doc["kind"] == "Pod":
        return doc
    template = doc["spec"]["template"]
    meta = {"generateName": doc["metadata"]["name"] + "-", "namespace": doc["metadata"]["namespace"], **template["metadata"]}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": template["spec"]}


def workloads():
    for name in WORKLOADS:
        mutate(f"workload-{name}", "an example manifest, mutated and admitted", workload_pod(name), then=[
            {"about": "mutating again changes nothing", "path": "/mutate", "expect": untouched()},
            {"about": "admitted", "path": "/validate", "expect": untouched()}])


def switches():
    for value in ("y", "yes", "true", "on", "all", "YES", "All", "tRuE"):
        label = value if value.islower() else value.lower() + "-other-case"
        mutate(f"switch-{label}", "the switch's value in any case", pod(switch=value, name="s-" + label))
    for value in ("none", "no", "off", "false", "1", "", " all", "al"):
        label = {"": "empty", " all": "blank-all"}.get(value, value)
        mutate(f"switch-{label}", "anything else is off", pod(switch=value), expect=untouched(), oracle=True)
    mutate("switch-absent", "no annotation of ours", pod(switch=None), expect=untouched(), oracle=True)
    p = pod(switch=None, annotations={"Auto-Management/bitfusion": "all"})
    mutate("switch-key-other-case", "annotation keys are exact", p, expect=untouched(), oracle=True)
    for value in ("injection", "Injection"):
        mutate("injection" if value.islower() else "injection-other-case", "all but the command", pod(switch=value), then=[
            {"about": "mutating again changes nothing", "path": "/mutate", "expect": untouched()},
            {"about": "admitted", "path": "/validate", "expect": untouched()}])
    mutate("injection-no-command", "injection needs no command", pod(container(command=None), switch="injection"))
    mutate("injection-one-string-with-args", "injection does not look at the command",
           pod(container(command=["python a.py"], args=["--x"]), switch="injection"))


def left_alone():
    for ns in ("kube-system", "kube-public"):
        mutate(f"namespace-{ns}", "never touched", pod(namespace=ns))
        p = pod()
        del p["metadata"]["namespace"]
        mutate(f"namespace-{ns}-in-request-only", "old API servers leave it out of the object", p, namespace=ns)
    mutate("namespace-kube-system-2", "a namespace that only begins like one", pod(namespace="kube-system-2"))
    mutate("mirror-pod", "a static pod's mirror", pod(annotations={"kubernetes.io/config.mirror": "a1b2"}))
    p = pod(os=None)
    p["spec"]["os"] = {"name": "windows"}
    p["metadata"]["annotations"]["bitfusion-client/os"] = "ubuntu20"
    mutate("windows-os", "a Windows pod that asks is refused", p, expect=invalid("indows"))
    mutate("windows-node-selector", "the same by its nodeSelector", pod(nodeSelector={"kubernetes.io/os": "windows"}),
           expect=invalid("indows"))
    p = pod(container(resources={}))
    p["spec"]["os"] = {"name": "windows"}
    mutate("windows-asks-nothing", "a Windows pod that asks for nothing", p, expect=untouched(["no container asks for"]),
           oracle=True)
    p = pod()
    p["spec"]["os"] = {"name": "linux"}
    mutate("linux-os", "spec.os linux", p)
    mutate("missing-os", "no client chosen: allowed, unmodified, with a warning", pod(os=None))
    mutate("missing-version", "the same without version", pod(version=None))
    mutate("empty-os", "an empty os", pod(os=""))
    mutate("missing-both", "neither", pod(os=None, version=None))
    for name, kw in (("os", {"os": "plan9"}), ("version", {"version": "999"}), ("os-other-case", {"os": "Ubuntu20"})):
        mutate(f"unknown-client-{name}", "a pair that the catalogue does not have", pod(**kw),
               expect=invalid("Could not find Bitfusion client info"), oracle=True)
    mutate("unknown-launcher", "poolgate.io/launcher names no profile", pod(annotations={"poolgate.io/launcher": "nonesuch"}),
           expect=invalid("nonesuch"))
    mutate("launcher-by-name", "poolgate.io/launcher names the default profile",
           pod(annotations={"poolgate.io/launcher": "bitfusion"}))
    p = pod()
    case("operation-connect", "CONNECT of something else", reviews.review(
        p, "CONNECT", subresource="proxy", uid=reviews.fixed_uid("connect")), expect=untouched())
    case("v1beta1", "the older protocol is echoed", reviews.review(
        reviews.default_resources(pod()), version="v1beta1", uid=reviews.fixed_uid("v1beta1")), oracle=True)
    case("dry-run", "a dry run is mutated alike", reviews.review(
        reviews.default_resources(pod()), dry_run=True, uid=reviews.fixed_uid("dry")), oracle=True)


def done():
    for value in ("injected", "INJECTED"):
        p = pod(annotations={"auto-management/status": value})
        mutate(f"status-{'injected' if value.islower() else 'injected-other-case'}", "means done", p,
               expect=untouched(), oracle=True)
    late = container("late", resources={"limits": {"bitfusion.io/gpu-amount": "1"}, "requests": {
        "bitfusion.io/gpu-amount": "1"}})
    mutate("reinvocation", "a container that a later hook added is injected, too, and joins the plan", pod(), then=[
        {"about": "the later container", "path": "/mutate",
         "edit": [{"op": "add", "path": "/spec/containers/-", "value": late}], "check": "reinvocation",
         "expect": patched()},
        {"about": "admitted as a whole", "path": "/validate", "expect": untouched()}])
    mutate("reinvocation-sidecar", "a later container that asks for nothing changes nothing", pod(), then=[
        {"about": "the later container", "path": "/mutate", "expect": untouched(),
         "edit": [{"op": "add", "path": "/spec/containers/-", "value": container("late", resources={})}]}])
    for name, kw in (("full", {}), ("memory", {"resources": ask(memory="4G")}),
                     ("env", {"env": [{"name": "LD_LIBRARY_PATH", "value": "/own/lib"}]}),
                     ("one-string", {"command": ["python a.py --x"]})):
        mutate(f"update-reapply-{name}", "kubectl apply brings the user's manifest back: injected again, identically",
               pod(container(**kw)), then=[
                   {"about": "the second apply", "path": "/mutate", "reapply": True, "check": "live",
                    "expect": patched()},
                   {"about": "and admitted", "path": "/validate", "operation": "UPDATE", "expect": untouched()}])
    mutate("update-finalizer", "an update that does not concern us", pod(), then=[
        {"about": "a finalizer goes", "path": "/mutate", "operation": "UPDATE", "expect": untouched(),
         "edit": [{"op": "add", "path": "/metadata/labels/app", "value": "x"}]}])
    p = reviews.stored(reviews.default_resources(pod()), uid=reviews.fixed_uid("live"))
    changed = reviews.stored(p, uid=reviews.fixed_uid("live"))
    changed["metadata"]["labels"] = {"a": "b"}
    case("update-never-injected", "a live pod without a plan cannot be injected any more", reviews.review(
        changed, "UPDATE", old=p, uid=reviews.fixed_uid("never")), expect=untouched())


def fill():
    recorded(RECORDED)
    workloads()
    switches()
    left_alone()
    done()
