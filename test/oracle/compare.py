# SPDX-License-Identifier: Apache-2.0
"""Compares what came out with what the model expects, by meaning. Each difference is one sentence."""
import json

from . import kubelet
from .model import LIBRARY_PATH, PLAN
from .quantity import parse

MOVED = "POOLGATE_"


def same_quantities(a, b):
    return set(a) == set(b) and all(parse(a[k]) == parse(b[k]) for k in a)


def same_resources(a, b):
    a, b = a or {}, b or {}
    for side in ("limits", "requests"):
        if not same_quantities(a.get(side) or {}, b.get(side) or {}):
            return False
    rest = [{k: v for k, v in r.items() if k not in ("limits", "requests")} for r in (a, b)]
    return rest[0] == rest[1]


def rest_of(container, *without):
    return {k: v for k, v in container.items() if k not in without}


def differences(got, user, want):
    """got: the pod that came out; user: the pod that went in; want: model.Expect with a pod."""
    out = []
    if got is None:
        return ["the pod was left as it is"]
    meta_got, meta_want = dict(got["metadata"]), dict(want.pod["metadata"])
    notes = dict(meta_got.pop("annotations", {}))
    plan_text = notes.pop(PLAN, None)
    if notes != (meta_want.pop("annotations", None) or {}):
        out.append(f"annotations {notes}")
    if meta_got != meta_want:
        out.append(f"metadata {meta_got} instead of {meta_want}")
    out += plan_differences(plan_text, want)
    if rest_of(got, "metadata", "spec") != rest_of(want.pod, "metadata", "spec"):
        out.append("members beside metadata and spec differ")
    if rest_of(got["spec"], "containers", "initContainers") != rest_of(want.pod["spec"], "containers", "initContainers"):
        out.append(f"spec: {rest_of(got['spec'], 'containers', 'initContainers')} instead of "
                   f"{rest_of(want.pod['spec'], 'containers', 'initContainers')}")
    for key in ("initContainers", "containers"):
        names = [[c["name"] for c in p["spec"].get(key) or []] for p in (got, want.pod)]
        if names[0] != names[1]:
            out.append(f"{key} {names[0]} instead of {names[1]}")
            continue
        for a, b in zip(got["spec"].get(key) or [], want.pod["spec"].get(key) or []):
            out += container_differences(a, b, user, want)
    return out


def container_differences(got, wanted, user, want):
    name, out = got["name"], []
    if not same_resources(got.get("resources"), wanted.get("resources")):
        out.append(f"{name}: resources {got.get('resources')} instead of {wanted.get('resources')}")
    if name not in want.requests:
        if rest_of(got, "resources") != rest_of(wanted, "resources"):
            out.append(f"{name}: {rest_of(got, 'resources')} instead of {rest_of(wanted, 'resources')}")
        return out
    touched = ("resources", "command", "env")
    if rest_of(got, *touched) != rest_of(wanted, *touched):
        out.append(f"{name}: {rest_of(got, *touched)} instead of {rest_of(wanted, *touched)}")
    if kubelet.argv(got) != want.argv[name]:
        out.append(f"{name}: starts {kubelet.argv(got)} instead of {want.argv[name]}")
    env_got, env_user = kubelet.environment(got), kubelet.environment(wanted)
    if env_got.pop(LIBRARY_PATH, None) != want.library_path[name]:
        out.append(f"{name}: {LIBRARY_PATH} is {kubelet.environment(got).get(LIBRARY_PATH)!r} instead of "
                   f"{want.library_path[name]!r}")
    env_user.pop(LIBRARY_PATH, None)
    extra = {k for k in env_got if k not in env_user and k.startswith(MOVED)}
    if {k: v for k, v in env_got.items() if k not in extra} != env_user:
        out.append(f"{name}: variables {env_got} instead of {env_user}")
    return out


def plan_differences(text, want):
    if text is None:
        return ["no annotation " + PLAN]
    try:
        plan = json.loads(text)
    except ValueError as error:
        return [f"the plan is no JSON: {error}"]
    rows = {c["name"]: c for c in plan.get("containers", [])}
    out = []
    if set(rows) != set(want.requests):
        out.append(f"the plan holds {sorted(rows)} instead of {sorted(want.requests)}")
    for name, request in want.requests.items():
        row = rows.get(name, {})
        if row.get("units") != request.units or row.get("amount") != request.amount:
            out.append(f"the plan says {row} of {name}, not {request}")
    return out
