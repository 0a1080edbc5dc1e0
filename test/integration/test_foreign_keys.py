# SPDX-License-Identifier: Apache-2.0
"""Pods that ask by keys of NVIDIA's device plugin and of HAMi, in the shape of others' examples: converted where a policy accepts the keys, applied
again, and given back as they were; and by the commands that decide offline."""
import copy
import json
import os

import pytest
import yaml

from lib import cli, documents, reviews
from lib.policies import mutate, namespace, policy, validate, write
from lib.server import Server

ACCEPTS = ["nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"]
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "foreign")
MANIFESTS = sorted(os.listdir(FOLDER))


def pods_of(name):
    """What the controllers of the manifest's objects would create, as the API server completes it."""
    with open(os.path.join(FOLDER, name), encoding="utf-8") as f:
        found = [p for doc in yaml.safe_load_all(f) for p in documents.pods_of(doc)]
    assert found
    for i, p in enumerate(found):
        p = copy.deepcopy(p)
        yield reviews.default_resources({"apiVersion": "v1", "kind": "Pod", "spec": p["spec"], "metadata": {
            **p.get("metadata", {}), "name": f"p{i}", "namespace": "ml"}})


@pytest.fixture(name="served", scope="module")
def fixture_served(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("policies") / "policies.yaml")
    write(path, policy(accepts=ACCEPTS), policy("off"), namespace(), namespace("off", "off"), namespace("free", None))
    with Server(args=["--policies", path]) as one:
        yield one
        assert one.alive(), one.log()[-3000:]


def asks(pod):
    return any(key.startswith("nvidia.com/gpu") and str(n) != "0" for c in pod["spec"]["containers"]
               for key, n in c.get("resources", {}).get("limits", {}).items())


def left_of(pod):
    """Whatever still speaks of GPUs of nodes, but for what keeps the pod away from them."""
    spec = json.dumps({k: v for k, v in pod["spec"].items()})
    return [word for word in ('"nvidia.com/gpu', '"runtimeClassName": "nvidia') if word in spec]


@pytest.mark.parametrize("name", MANIFESTS)
def test_converted_applied_again_and_given_back(served, name):
    for asked in pods_of(name):
        got = mutate(served, asked)
        assert got["allowed"], got["message"]
        if not asks(asked):
            assert got["pod"] is None
            continue
        live = got["pod"]
        assert left_of(live) == []
        for c in live["spec"]["containers"]:
            if "bitfusion.io/gpu" in c["resources"].get("limits", {}):
                assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in c["env"]
        # dry: the pool is not for all of them at once
        admitted = served.new_client().review("/validate", reviews.review(reviews.stored(live), dry_run=True))
        assert admitted["allowed"], admitted["message"]
        assert mutate(served, live)["pod"] is None
        # the manifest again, which kubectl apply merges over the live pod
        again = copy.deepcopy(live)
        for key in ("nodeSelector", "tolerations", "affinity", "runtimeClassName"):
            if key in asked["spec"]:
                again["spec"][key] = copy.deepcopy(asked["spec"][key])
        for c, mine in zip(again["spec"]["containers"], asked["spec"]["containers"]):
            for side in mine["resources"]:
                c["resources"][side].update(mine["resources"][side])
        for ns in ("ml", "free"):
            update = served.new_client().review("/mutate", reviews.review(again, "UPDATE", old=live, namespace=ns))
            assert update["allowed"] and update["pod"] == live
        code, out, err = cli.uninject(json.dumps(live).encode())
        assert code == 0, err
        assert json.loads(out) == asked


@pytest.mark.parametrize("name", MANIFESTS)
@pytest.mark.parametrize("where", ["off", "free"])
def test_where_nothing_is_accepted_it_is_as_without_poolgate(served, name, where):
    for asked in pods_of(name):
        asked["metadata"]["namespace"] = where
        answers = mutate(served, asked), validate(served, asked)
        assert all(a["allowed"] and a["pod"] is None and a["warnings"] == [] for a in answers)


def test_unconverted_is_refused(served):
    asked = next(pods_of("nvidia-pod.yaml"))
    refused = validate(served, asked)
    assert not refused["allowed"] and refused["reason"] == "NotInjected"


def test_warnings_and_refusals(served):
    asked = next(pods_of("hami-pod.yaml"))
    warned = " ".join(mutate(served, asked)["warnings"])
    assert "nvidia.com/gpucores: 30 is taken out" in warned
    limits = asked["spec"]["containers"][0]["resources"]["limits"]
    limits["bitfusion.io/gpu-amount"] = "1"
    refused = mutate(served, asked)
    assert not refused["allowed"] and refused["code"] == 422
    assert "/spec/containers/0/resources/limits/nvidia.com~1gpu: the container asks by nvidia.com/gpu and" in refused["message"]
    del limits["bitfusion.io/gpu-amount"]
    limits["nvidia.com/priority"] = "1"
    assert "found nvidia.com/priority, which the namespace's policy does not accept" in mutate(served, asked)["message"]


def test_manifests_on_disk(tmp_path):
    """inject -w and uninject -w give the same trees."""
    policies = str(tmp_path / "policies.yaml")
    write(policies, policy(accepts=ACCEPTS), namespace("default"))
    (tmp_path / "m").mkdir()
    for name in MANIFESTS:
        with open(os.path.join(FOLDER, name), "rb") as f:
            (tmp_path / "m" / name).write_bytes(f.read())
    code, _, err = cli.run("inject", *cli.profile_args(), "--policies", policies, "-w", str(tmp_path / "m"))
    assert code == 0, err
    for name in MANIFESTS:
        text = (tmp_path / "m" / name).read_text()
        assert "bitfusion.io/gpu" in text and "void" in text
    code, _, err = cli.run("uninject", "-w", str(tmp_path / "m"))
    assert code == 0, err
    for name in MANIFESTS:
        with open(os.path.join(FOLDER, name), "rb") as f:
            assert documents.parsed((tmp_path / "m" / name).read_bytes()) == documents.parsed(f.read()), name
