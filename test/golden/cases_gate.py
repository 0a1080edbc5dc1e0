# SPDX-License-Identifier: Apache-2.0
"""Golden cases of a launcher whose pods reach their servers through gates: the sidecar, its annotations and volumes, and what a pod
must not bring along."""
from cases import mutate, patched, refused, untouched
from cases_profiles import has, launcher
from lib.pods import ask, container

CONFIG = "gated"
SIDECAR = "/spec/initContainers/1"
SERVERS = "/metadata/annotations/poolgate.io~1gate-servers"
CA = "/metadata/annotations/poolgate.io~1gate-ca"


def gated(*containers, **kw):
    return launcher("gated", *containers, **kw)


def no(name, about, p, *words, code=422, reason="Invalid"):
    mutate("gated-" + name, about, p, expect=refused(*words, code=code, reason=reason), oracle=False, config=CONFIG)


def held(op, path, value=None):
    """What the validator must see: one thing changed behind the injection."""
    edit = {"op": op, "path": path} if value is None else {"op": op, "path": path, "value": value}
    return {"about": f"{op} {path}", "path": "/validate", "operation": "CREATE", "edit": [edit],
            "expect": refused(code=403, reason="PlanMismatch")}


def pulls(name, own):
    """The sidecar's pull secret among the pod's: added once, restored when the manifest comes again, held."""
    p = launcher("gated-private", **({} if own is None else {"imagePullSecrets": own}))
    # What was the pod's own before is its own to lose.
    ours = own is None or {"name": "registry"} not in own
    lacks = [{"op": "remove", "path": f"/spec/imagePullSecrets/{1 if own else 0}"}]
    mutate(name, "the image pull secret of the sidecar's image", p, expect=patched(), oracle=False, config=CONFIG, then=[
        {"about": "mutating again changes nothing", "path": "/mutate", "expect": untouched()},
        {"about": "it is missing", "path": "/validate", "operation": "CREATE", "edit": lacks,
         "expect": refused("image pull secret", code=403, reason="PlanMismatch") if ours else untouched()},
        {"about": "the plan adds another", "path": "/validate", "operation": "CREATE", "edit": [
            {"op": "add", "path": "/plan/pullSecret", "value": "mine"}], "expect": refused(code=403, reason="PlanMismatch")},
        {"about": "as it is", "path": "/validate", "operation": "CREATE", "expect": untouched()},
        {"about": "the second apply", "path": "/mutate", "reapply": True, "check": "live", "expect": patched()},
        {"about": "and admitted", "path": "/validate", "operation": "UPDATE", "expect": untouched()}])


def fill():
    has("gated", "the client is told the sidecar's end", gated(), config=CONFIG, env={"REMOTE": "127.0.0.1:14840"})
    has("gated-two", "two servers, two ports, in the order of the annotation; not the larger server of another launcher",
        gated(container(resources=ask("3"))), config=CONFIG, env={"REMOTE": "127.0.0.1:14840,127.0.0.1:14841"})
    has("gated-own-init", "in front of the pod's own init containers, which may use the GPU, and behind the client's",
        gated(initContainers=[container("own", ["true"], {})]), config=CONFIG, env={"REMOTE": "127.0.0.1:14840"})
    has("gated-other-ports", "ports beside the end's, and one of UDP", gated(container(ports=[
        {"containerPort": 14839}, {"containerPort": 14856}, {"containerPort": 14840, "protocol": "UDP"}])), config=CONFIG,
        env={"REMOTE": "127.0.0.1:14840"})
    for label, own in {"": None, "-beside-own": [{"name": "mine"}], "-there": [{"name": "mine"}, {"name": "registry"}]}.items():
        pulls("gated-private" + label, own)
    no("four", "more than the servers of this launcher have", gated(container(resources=ask("4"))), "the pool has 3 GPUs",
       "1 server is not for the launcher gated", code=403, reason="NoCapacity")
    no("host-network", "its end would be the node's", gated(hostNetwork=True), "hostNetwork")
    no("port", "a port of the end's", gated(container(ports=[{"containerPort": 80}, {"containerPort": 14841}])), "14841",
       "14840 to 14855")
    no("brings-servers", "an annotation that we write", gated(annotations={"poolgate.io/gate-servers": "evil:1"}),
       "poolgate.io/gate-servers", "written by poolgate")
    no("brings-ca", "the other one", gated(annotations={"poolgate.io/gate-ca": "-----BEGIN"}), "written by poolgate")
    no("own-sidecar", "a container of that name", gated(container("gpugate")), "gpugate", code=403, reason="ContainerCollision")
    no("own-volume", "a volume of that name", gated(volumes=[{"name": "gpugate-ca", "emptyDir": {}}]), "gpugate-ca", code=403,
       reason="VolumeCollision")
    mutate("gated-reapply", "the second apply is injected again from the live pod", gated(), expect=patched(), oracle=False,
           config=CONFIG, then=[
               {"about": "the second apply", "path": "/mutate", "reapply": True, "check": "live", "expect": patched()},
               {"about": "and admitted", "path": "/validate", "operation": "UPDATE", "expect": untouched()}])
    mutate("gated-held", "what was injected is held as it was", gated(), expect=patched(), oracle=False, config=CONFIG, then=[
        held("replace", SERVERS, "10.117.32.178:9446"), held("remove", SERVERS), held("replace", CA, "-----BEGIN other"),
        held("remove", CA), held("replace", SIDECAR + "/image", "evil"), held("remove", SIDECAR),
        held("replace", SIDECAR + "/args/2", "14841"), held("remove", SIDECAR + "/restartPolicy"),
        held("replace", SIDECAR + "/env/0/valueFrom/fieldRef/fieldPath", "metadata.annotations['mine']"),
        held("replace", "/spec/volumes/1/projected/sources/0/serviceAccountToken/audience", "api"),
        held("replace", "/spec/containers/0/env/0/value", "10.117.32.177:9446"),
        held("remove", "/plan/gate"), held("replace", "/plan/gate", 14850), held("add", "/plan/guarded", True),
        {"about": "nor on the node's network", "path": "/validate", "operation": "CREATE", "edit": [
            {"op": "add", "path": "/spec/hostNetwork", "value": True}], "expect": refused("hostNetwork", code=422)},
        {"about": "nor with a port of the end's", "path": "/validate", "operation": "CREATE", "edit": [
            {"op": "add", "path": "/spec/containers/0/ports", "value": [{"containerPort": 14855}]}],
            "expect": refused("14855", code=422)},
        {"about": "as it is", "path": "/validate", "operation": "CREATE", "expect": untouched()},
        {"about": "while it lives nobody changes its gates", "path": "/validate", "operation": "UPDATE", "edit": [
            {"op": "replace", "path": SERVERS, "value": "evil:1"}], "expect": refused(code=403, reason="PlanChanged")}])
