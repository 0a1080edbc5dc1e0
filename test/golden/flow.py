# SPDX-License-Identifier: Apache-2.0
"""The steps of a golden case behind the first reply: edits of the pod that came out, and the reviews they are sent in."""
import copy
import json

import jsonpatch

from lib import reviews
from oracle import kubelet

PLAN, UNITS = "poolgate.io/plan", "bitfusion.io/gpu"
NOTES = "/metadata/annotations"
PLAN_PATH = NOTES + "/poolgate.io~1plan"


def edited(pod, ops):
    """JSON patch on the pod; paths below /plan reach into the plan's text."""
    pod = copy.deepcopy(pod)
    inside = [{**op, "path": op["path"][len("/plan"):]} for op in ops if op["path"].startswith("/plan/")]
    if inside:
        notes = pod["metadata"]["annotations"]
        notes[PLAN] = json.dumps(jsonpatch.apply_patch(json.loads(notes[PLAN]), inside), separators=(",", ":"))
    return jsonpatch.apply_patch(pod, [op for op in ops if not op["path"].startswith("/plan/")])


def reapplied(live, user):
    """What the API server makes of a second `kubectl apply` of the user's manifest: his fields are back, ours stay beside."""
    pod = copy.deepcopy(live)
    for key in ("containers", "initContainers"):
        mine = {c["name"]: c for c in user["spec"].get(key) or []}
        for container in pod["spec"].get(key) or []:
            own = mine.get(container["name"])
            if own is None:
                continue
            for member in ("command", "args"):
                if member in own:
                    container[member] = copy.deepcopy(own[member])
            for side in ("limits", "requests"):
                container["resources"].setdefault(side, {}).update(own["resources"].get(side) or {})
            for entry in own.get("env") or []:
                for there in container["env"]:
                    if there["name"] == entry["name"]:
                        there.update(entry)
    return pod


def step_review(step, state, name):
    """The review of a step. state: user (as sent first), pod (as it is now), live (as it was stored)."""
    uid = reviews.fixed_uid(name + json.dumps(step, sort_keys=True))
    if "review" in step:
        return reviews.review(reviews.default_resources(copy.deepcopy(step["review"])), uid=uid)
    operation = step.get("operation", "UPDATE" if step.get("reapply") else "CREATE")
    if step["path"] == "/mutate" and operation == "CREATE":
        return reviews.review(edited(state["pod"], step.get("edit", [])), uid=uid)
    if state.get("live") is None:
        state["live"] = reviews.stored(state["pod"], uid=reviews.fixed_uid(name + "/stored"))
    live = state["live"]
    if operation == "CREATE":
        state["live"] = live = {**copy.deepcopy(live), "spec": state["pod"]["spec"],
                                "metadata": {**live["metadata"], **state["pod"]["metadata"]}}
        return reviews.review(edited(live, step.get("edit", [])), uid=uid, dry_run=step.get("dry_run", False))
    now = reapplied(live, state["user"]) if step.get("reapply") else edited(live, step.get("edit", []))
    return reviews.review(now, "UPDATE", old=live, uid=uid, subresource=step.get("subresource"))


def plan_tree(text):
    """The plan as a tree, without the profile's hash, which is nobody's contract, and without the proof, whose key is another at each start."""
    plan = json.loads(text)
    assert plan.pop("hash", None), "the plan holds no profile hash"
    if "proof" in plan:
        assert list(plan)[-1] == "proof" and list(plan.pop("proof")) == ["shape", "digest", "mac"]
    return plan


def with_plan(pod):
    """The pod with its plan as plan_tree has it."""
    pod = copy.deepcopy(pod)
    notes = pod["metadata"].get("annotations") or {}
    if PLAN in notes:
        notes[PLAN] = plan_tree(notes[PLAN])
    return pod


def ops_with_plan(ops):
    """The patch with the same change: what with_plan makes of the pod, this makes of the operation that writes the plan."""
    out = copy.deepcopy(ops)
    for op in out:
        notes = op["value"] if op["path"] == NOTES else {PLAN: op.get("value")} if op["path"] == PLAN_PATH else {}
        if PLAN in notes:
            notes[PLAN] = plan_tree(notes[PLAN])
            op["value"] = notes if op["path"] == NOTES else notes[PLAN]
    return out


def check_live(got, state, _review):
    """The second apply must give back the pod that is there, since nothing in it may change."""
    now, live = with_plan(got["pod"]), with_plan(state["live"])
    assert now["spec"] == live["spec"]
    assert now["metadata"] == live["metadata"]


def check_reinvocation(got, state, _review):
    """The container that came later is injected, all others stay as they were, and the plan knows both."""
    before, after = state["pod"], got["pod"]
    late = after["spec"]["containers"][-1]
    assert after["spec"]["containers"][:-1] == before["spec"]["containers"]
    assert after["spec"]["initContainers"] == before["spec"]["initContainers"]
    assert after["spec"]["volumes"] == before["spec"]["volumes"]
    assert {side: {k: str(v) for k, v in r.items()} for side, r in late["resources"].items()} == {
        "limits": {UNITS: "100"}, "requests": {UNITS: "100"}}
    _, program = kubelet.strip_launcher(kubelet.argv(late), kubelet.BITFUSION)
    assert program == ["python", "train.py"]
    assert len(late["volumeMounts"]) == len(after["spec"]["containers"][0]["volumeMounts"])
    names = [c["name"] for c in json.loads(after["metadata"]["annotations"][PLAN])["containers"]]
    assert names == ["main", "late"]


CHECKS = {"live": check_live, "reinvocation": check_reinvocation}
