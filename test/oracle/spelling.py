# SPDX-License-Identifier: Apache-2.0
"""The pod that the model expects, as poolgate spells it: the words of the command, the entry of the library
path, the plan as a tree. model.py says what a pod means, so that another spelling passes; a golden case pins
the spelling beside it."""
import copy

from . import model
from .quantity import ASKED, UNITS, parse

OWN_PATH = "POOLGATE_OWN_" + model.LIBRARY_PATH


def command(container, words, shell):
    """What the plan calls it, and the command itself."""
    own = container.get("command") or []
    if model.starts_launcher(own):
        return "own", own
    words = [w.replace("$", "$$") for w in words]
    if model.shell_line(container) is not None:
        return "shell", words + [shell, "-c"] + own
    return "wrapped", words + own


def library_path(container, path):
    """(env, its entry in the plan). The last entry of the name is in force: ours stands in its place."""
    env, note = copy.deepcopy(container.get("env") or []), {"name": model.LIBRARY_PATH}
    at = max((i for i, e in enumerate(env) if e["name"] == model.LIBRARY_PATH), default=None)
    if at is None:
        return env + [{"name": model.LIBRARY_PATH, "value": path}], note
    if "valueFrom" in env[at]:
        env[at]["name"] = note["moved"] = OWN_PATH
        env.insert(at + 1, {"name": model.LIBRARY_PATH, "value": f"{path}:$({OWN_PATH})"})
        return env, note
    note["was"] = env[at].get("value")
    env[at]["value"] = ":".join([path] + [p for p in (note["was"] or "").split(":") if p])
    return env, note


def row_of(user, kind, request, profile):
    """A container's row in the plan, without what its command and its variables add."""
    limits, requests = ((user["resources"].get(side) or {}) for side in ("limits", "requests"))
    share = {"memoryMB": request.memory_mb} if request.memory_mb else {"percent": request.percent}
    return {"name": user["name"], "kind": kind, "amount": request.amount, **share, "units": request.units,
            **{key: asked for key, side in (("askedLimits", limits), ("askedRequests", requests))
               if (asked := {k: v for k, v in side.items() if k in ASKED})},
            "mounts": [m["mountPath"] for m in profile.mounts],
            "made": [side for side in ("limits", "requests") if side not in user["resources"]]
            + [key for key in ("env", "volumeMounts") if key not in user]}


def init_resources(resources, containers):
    """The model's quantities in the words of the first container that says so."""
    said = [(name, text) for c in containers for side in ("limits", "requests")
            for name, text in ((c.get("resources") or {}).get(side) or {}).items()]
    return {side: {name: next(t for n, t in said if n == name and parse(t) == value) for name, value in values.items()}
            for side, values in resources.items()}


def kind_of(container, is_init):
    return ("restartable" if container.get("restartPolicy") == "Always" else "init") if is_init else "app"


def without_empty(tree):
    return {k: v for k, v in tree.items() if v != []}


def pod(review, want, profile):
    """want: model.Expect with a pod."""
    user, out = review["request"]["object"], copy.deepcopy(want.pod)
    notes, mode = user["metadata"]["annotations"], model.switch_of(user)
    client = profile.clients[notes[model.OS], notes[model.VERSION]]
    filters = model.filter_words(notes.get(model.FILTER, ""))
    came_in = {c["name"]: c for key in ("initContainers", "containers") for c in user["spec"].get(key) or []}
    rows = []
    for key in ("initContainers", "containers"):
        for container in out["spec"][key]:
            name = container["name"]
            if name not in want.requests:
                if name not in came_in:
                    container["resources"] = init_resources(container["resources"], user["spec"]["containers"])
                    if not container["resources"]:
                        del container["resources"]
                continue
            request, own = want.requests[name], came_in[name]
            row = row_of(own, kind_of(own, key == "initContainers"), request, profile)
            row["command"] = "none"
            if mode == "full":
                words = model.launcher_words(client, request, filters)
                row["command"], container["command"] = command(own, words, profile.shell)
            if row["command"] in ("wrapped", "shell"):
                row["argv"] = len(words)
            container["env"], note = library_path(own, client.library_path)
            row["env"] = [note]
            for side in ("limits", "requests"):
                container["resources"][side][UNITS] = request.units
            rows.append(without_empty(row))
    plan = {"v": 1, "profile": "bitfusion", "client": {"os": notes[model.OS], "version": notes[model.VERSION]}, "mode": mode,
            "filters": filters, "containers": rows, "initContainers": [i["name"] for i in client.inits],
            "volumes": [v["name"] for v in profile.volumes],
            "made": [key for key, place in (("labels", "metadata"), ("initContainers", "spec"), ("volumes", "spec"))
                     if key not in user[place]]}
    if profile.total_mb:
        plan["totalMB"] = profile.total_mb
    if model.STATUS in notes:
        plan["statusWas"] = notes[model.STATUS]
    out["metadata"]["annotations"][model.PLAN] = without_empty(plan)
    return out
