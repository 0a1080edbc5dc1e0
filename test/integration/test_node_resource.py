# SPDX-License-Identifier: Apache-2.0
"""nodeResource: false: a pod's claim stands in its plan alone, and it asks its node for nothing of ours, so that no device plugin is
needed and any autoscaler can make its node."""
import copy
import json

import pytest
from test_inject import INJECTED, drop_nulls, parsed, pods_of, read, run_inject

from lib import cli, reviews
from lib.pods import ask, container, pod

OFF = ("--node-resource", "false")


def ours(pod_):
    """The names of our resources that any container asks its node for."""
    every = pod_["spec"]["containers"] + (pod_["spec"].get("initContainers") or [])
    return {name for c in every for side in ("limits", "requests") for name in (c.get("resources", {}).get(side) or {})
            if name.startswith("bitfusion.io/")}


@pytest.mark.parametrize("name", INJECTED)
def test_manifests(name):
    """Nothing is left that a node would have to offer; twice is once; undone is equal."""
    once = run_inject(read(name), *OFF)
    for document in parsed(once):
        for p in pods_of(document):
            assert not ours(p)
    assert run_inject(once, *OFF) == once
    status, out, err = cli.uninject(once)
    assert status == 0, err
    if "null" in name:
        assert drop_nulls(parsed(out)) == drop_nulls(parsed(read(name)))
    else:
        assert parsed(out) == parsed(read(name))


def test_what_the_api_server_left_out_comes_back():
    """An API server keeps no empty limits: undoing makes them anew."""
    asked = reviews.default_resources(pod(container("c", ["train"], ask("1", percent=50))))
    status, out, err = cli.inject(json.dumps(asked).encode(), *OFF)
    assert status == 0, err
    live = json.loads(out)
    resources = live["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {}, "requests": {}}
    resources.clear()
    status, out, err = cli.uninject(json.dumps(live).encode())
    assert status == 0, err
    assert json.loads(out) == asked


def injected(server, asks):
    got = server.review("/mutate", reviews.review(reviews.default_resources(asks)))
    assert got["allowed"] and got["pod"], got
    return reviews.stored(got["pod"])


def test_reviews(fresh):
    """Admitted and counted as ever; the plan says it, so replicas with another setting refuse what they would not have written."""
    off, on = fresh(args=list(OFF)), fresh()
    asks = pod(container("c", ["train"], ask("1", percent=50)))
    live = injected(off, asks)
    assert not ours(live) and '"nodeResource":false' in live["metadata"]["annotations"]["poolgate.io/plan"]
    assert off.review("/validate", reviews.review(live))["allowed"]
    refused = on.review("/validate", reviews.review(live))
    assert (refused["allowed"], refused["reason"]) == (False, "PlanMismatch") and "nodeResource" in refused["message"]
    other = injected(on, asks)
    assert "nodeResource" not in other["metadata"]["annotations"]["poolgate.io/plan"]
    refused = off.review("/validate", reviews.review(other))
    assert (refused["allowed"], refused["reason"]) == (False, "PlanMismatch") and "nodeResource" in refused["message"]


def test_units_that_nobody_planned_are_refused(fresh):
    """Units written behind our back would make the pod wait for a node that offers them."""
    off = fresh(args=list(OFF))
    live = injected(off, pod(container("c", ["train"])))
    for side in ("limits", "requests"):
        live["spec"]["containers"][0]["resources"].setdefault(side, {})["bitfusion.io/gpu"] = 100
    refused = off.review("/validate", reviews.review(live))
    assert (refused["allowed"], refused["reason"]) == (False, "PlanMismatch") and "must be 0" in refused["message"], refused


def test_update_with_the_manifest(fresh):
    """kubectl apply of the manifest, request and all, changes nothing in the live pod."""
    off = fresh(args=list(OFF))
    asks = reviews.default_resources(pod(container("c", ["train"])))
    live = injected(off, asks)
    again = copy.deepcopy(live)
    again["spec"]["containers"][0]["resources"] = copy.deepcopy(asks["spec"]["containers"][0]["resources"])
    got = off.review("/mutate", reviews.review(again, "UPDATE", old=live))
    assert got["allowed"] and not ours(got["pod"] or again), got
    assert (got["pod"] or again)["spec"] == live["spec"]
