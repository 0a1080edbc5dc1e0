# SPDX-License-Identifier: Apache-2.0
"""Reviews in which one list or map is multiplied: what a tenant may send to make everybody wait."""
import copy
import itertools
import json

ANNOTATIONS = {"auto-management/bitfusion": "all", "bitfusion-client/os": "ubuntu18", "bitfusion-client/version": "400",
               "bitfusion-client/filter": "zone=lab gpu.model=V100 kind=train"}
PLAN = "poolgate.io/plan"
# What makes elements of these lists different from each other.
NAMES = ("name", "mountPath", "devicePath", "key", "manager")


def container(name, gpus=1):
    return {"name": name, "image": "registry.example.com/train:1", "command": ["python", "train.py"], "args": ["--epochs", "90"],
            "env": [{"name": "RATE", "value": "0.1"}, {"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
                    {"name": "LD_LIBRARY_PATH", "value": "/usr/lib:/lib"}],
            "envFrom": [{"secretRef": {"name": "other"}}],
            "ports": [{"name": "http", "containerPort": 80}],
            "resources": {"limits": {"bitfusion.io/gpu-amount": str(gpus), "bitfusion.io/gpu-percent": "10", "cpu": "4"},
                          "requests": {"cpu": "4"}, "claims": [{"name": "c"}]},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            "volumeDevices": [{"name": "block", "devicePath": "/dev/x"}]}


def pod():
    return {"kind": "Pod", "apiVersion": "v1",
            "metadata": {"name": "train", "namespace": "team", "uid": "0c8b2a52-0000-4000-8000-000000000001", "labels": {"app": "train"},
                         "annotations": dict(ANNOTATIONS), "finalizers": ["example.com/f"],
                         "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:containers": {}}}}]},
            "spec": {"containers": [container("a"), {"name": "side", "image": "x"}],
                     "initContainers": [{"name": "prepare", "image": "x"}],
                     "volumes": [{"name": "data", "emptyDir": {}}, {"name": "block", "secret": {"secretName": "s", "items": [{"key": "k", "path": "p"}]}},
                                 {"name": "all", "projected": {"sources": [{"secret": {"name": "t"}}, {"configMap": {"name": "c"}}]}}],
                     "nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "k", "operator": "Exists"}]}}


def review(kind, operation, new, old=None):
    group, version = {"Pod": ("", "v1"), "Job": ("batch", "v1"), "Deployment": ("apps", "v1")}[kind]
    what = {"group": group, "version": version, "kind": kind}
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "kind": what, "resource": {**what, "resource": kind.lower() + "s"}, "name": "train",
        "namespace": "team", "operation": operation, "userInfo": {"username": "u", "groups": ["g"], "extra": {"k": ["v"]}},
        "object": new, "oldObject": old, "dryRun": False, "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}}}


def workload(kind, copies):
    template = pod()
    meta = {"metadata": {"name": "train", "namespace": "team"}, "kind": kind}
    del template["metadata"]["managedFields"], template["kind"], template["apiVersion"]
    return {**meta, "spec": {"parallelism" if kind == "Job" else "replicas": copies, "template": template}}


def first():
    """The review that is injected; its patch makes the others."""
    return review("Pod", "CREATE", pod())


def crowded(injected):
    """A forged plan that names as much as a plan may, and a pod that has all of it."""
    made = copy.deepcopy(injected)
    plan = json.loads(made["metadata"]["annotations"][PLAN])
    names = [f"n{i:05}" for i in range(64)]
    at = plan["containers"][0]
    at["mounts"], at["env"], plan["volumes"], plan["initContainers"] = (list(names), [{"name": n} for n in names], list(names),
                                                                        list(names))
    plan["filters"] = list(names)
    plan["hash"] = "0123456789abcdef"
    made["metadata"]["annotations"][PLAN] = json.dumps(plan, separators=(",", ":"))
    target = next(c for c in made["spec"]["containers"] if c["name"] == at["name"])
    target["env"] += [{"name": n, "value": ""} for n in names]
    target["volumeMounts"] += [{"name": "data", "mountPath": n} for n in names]
    made["spec"]["volumes"] += [{"name": n} for n in names]
    made["spec"]["initContainers"] += [{"name": n} for n in names]
    return made


def debugged(live, mounts=1, volumes=0):
    """A container is added to a pod that lives, whose mounts and volumes all have one name."""
    now = copy.deepcopy(live)
    one = container("debug")
    del one["resources"]
    now["spec"]["ephemeralContainers"] = [{**one, "volumeMounts": [{"name": "data", "mountPath": "/data"}] * mounts}]
    now["spec"]["volumes"] += [{"name": "data", "emptyDir": {}}] * volumes
    made = review("Pod", "UPDATE", now, live)
    made["request"]["subResource"] = "ephemeralcontainers"
    return made


def tied(live, ties, count):
    """A plan of the tenant's own says that ties were taken out; he applies his manifest again, and has very many on both sides."""
    old, now = copy.deepcopy(live), pod()
    plan = json.loads(old["metadata"]["annotations"][PLAN])
    plan["ties"] = {"nodeSelector": {f"nvidia.com/{n:04}": "x" for n in range(ties)},
                    "tolerations": [{"at": n, "was": {"key": f"nvidia.com/{n:04}", "operator": "Exists"}} for n in range(min(ties, 256))]}
    old["metadata"]["annotations"][PLAN] = json.dumps(plan, separators=(",", ":"))
    for one, first in ((now, 0), (old, count)):
        one["spec"]["nodeSelector"] = {f"nvidia.com/{n:06}": "x" for n in range(first, first + count)}
        one["spec"]["tolerations"] = [{"key": f"nvidia.com/{n:06}", "operator": "Exists"} for n in range(first, first + count)]
    return review("Pod", "UPDATE", now, old)


def bases(injected):
    """name: (hook, review)."""
    many = crowded(injected)
    later = copy.deepcopy(injected)
    later["spec"]["containers"].append(container("b"))
    return {"create": ("mutate", first()), "again": ("mutate", review("Pod", "CREATE", later)),
            "apply": ("mutate", review("Pod", "UPDATE", pod(), injected)),
            "apply-crowded": ("mutate", review("Pod", "UPDATE", pod(), many)),
            "injected": ("validate", review("Pod", "CREATE", injected)), "crowded": ("validate", review("Pod", "CREATE", many)),
            "update": ("validate", review("Pod", "UPDATE", injected, injected)), "debug": ("validate", debugged(injected)),
            "deployment": ("validate", review("Deployment", "UPDATE", workload("Deployment", 100), workload("Deployment", 3)))}


def places(value, at=()):
    """Paths of the lists and maps in a document, in the plan's annotation too ("poolgate.io/plan", then into its JSON)."""
    if isinstance(value, dict):
        yield at
        for key, inner in value.items():
            if key == PLAN:
                yield from places(json.loads(inner), at + (key, "*"))
            else:
                yield from places(inner, at + (key,))
    elif isinstance(value, list):
        yield at
        for i, inner in enumerate(value):
            yield from places(inner, at + (i,))
    elif isinstance(value, str) and at[-1:] == ("bitfusion-client/filter",):
        yield at


def changed(value, at, change):
    """A copy with what stands at that path changed."""
    if not at:
        return change(value)
    if at[0] == "*":
        return json.dumps(changed(json.loads(value), at[1:], change), separators=(",", ":"))
    made = copy.copy(value)
    made[at[0]] = changed(value[at[0]], at[1:], change)
    return made


def distinct(value, n):
    if isinstance(value, str):
        return f"{value}{n}"
    if isinstance(value, dict):
        return {k: f"{v}{n}" if k in NAMES and isinstance(v, str) else v for k, v in value.items()}
    return value


def multiplied(value, grow, same):
    """With elements added until there are about `grow` bytes more: the same ones again, or ones with names of their own."""
    if isinstance(value, str):
        tokens = value.split() or ["a=b"]
        return " ".join(itertools.chain(tokens, (t if same else f"{t}{n}" for n, t in zip(range(grow // 12), itertools.cycle(tokens)))))
    elements = list(value.items()) if isinstance(value, dict) else list(value)
    elements = elements or [("k", "v")] if isinstance(value, dict) else elements or ["v"]
    made = list(elements)
    # names of their own have up to five digits
    size = sum(len(json.dumps(e)) for e in elements) / len(elements) + 4
    for n in range(int(grow / size)):
        element = elements[n % len(elements)]
        if isinstance(value, dict):
            element = (f"{element[0]}{n}", element[1])
        elif not same:
            element = distinct(element, n)
        made.append(element)
        size += len(json.dumps(element)) + 1
    return dict(made) if isinstance(value, dict) else made


def documents(injected, sizes):
    """(hook, name, [review of each size])."""
    for base, (hook, one) in bases(injected).items():
        for at in places(one):
            if base != "create" and not worth(at):
                continue
            names = [False] if isinstance(value_at(one, at), dict) else [False, True]
            for same in names:
                yield (hook, f"{base} {'/'.join(map(str, at))}{' same' if same else ''}",
                       [changed(one, at, lambda v, grow=grow, same=same: multiplied(v, grow, same)) for grow in sizes])


def worth(at):
    """Is what stands there looked at otherwise than in a new pod? Else it is multiplied there alone."""
    return PLAN in at[:-1] or at[-1:] in (("containers",), ("initContainers",), ("volumes",), ("annotations",)) or (
        "containers" in at and at[at.index("containers") + 1] == 0 and at[-1] in (
            "env", "volumeMounts", "volumeDevices", "command", "args", "limits", "requests"))


def value_at(value, at):
    for step in at:
        value = json.loads(value) if step == "*" else value[step]
    return value
