# SPDX-License-Identifier: Apache-2.0
"""Policies of namespaces, from a file: the real server, asked as an API server asks, and the commands that decide offline."""
import json
import os

import pytest
import yaml

from lib import cli, reviews
from lib.pods import ask, container, pod
from lib.policies import DEFAULTS, mutate, namespace, policy, validate, write
from lib.server import wait_until


def plain(**more):
    """A pod that says nothing but that it asks."""
    return reviews.default_resources(pod(switch=None, os=None, version=None, **more))


@pytest.fixture(name="served")
def fixture_served(fresh, tmp_path):
    """A server with these documents, and where they are."""
    path = str(tmp_path / "policies.yaml")

    def make(*documents):
        write(path, *documents)
        return fresh(args=["--policies", path, "--reload-interval", "200ms"]), path

    return make


def test_injected_without_annotation_and_taken_back(served):
    server, _ = served(policy(), namespace())
    asked = plain()
    got = mutate(server, asked)
    assert got["allowed"] and got["pod"]
    notes = got["pod"]["metadata"]["annotations"]
    assert notes["auto-management/status"] == "injected"
    assert got["pod"]["spec"]["containers"][0]["command"][0].endswith("bitfusion")
    assert validate(server, got["pod"])["allowed"]
    code, out, err = cli.uninject(json.dumps(got["pod"]).encode())
    assert code == 0, err
    assert json.loads(out) == asked
    # the user's manifest again, over the live pod, which kubectl apply merges: what was injected stays
    again = json.loads(json.dumps(got["pod"]))
    again["spec"]["containers"][0]["resources"]["limits"]["bitfusion.io/gpu-amount"] = "1"
    again["spec"]["containers"][0]["resources"]["requests"]["bitfusion.io/gpu-amount"] = "1"
    update = server.new_client().review("/mutate", reviews.review(again, "UPDATE", old=got["pod"]))
    assert update["allowed"] and update["pod"] == got["pod"]


@pytest.mark.parametrize("word", ["off", "none", "false"])
def test_own_word_wins(served, word):
    server, _ = served(policy(), namespace())
    one = reviews.default_resources(pod(switch=word, os=None, version=None))
    assert mutate(server, one)["pod"] is None
    assert validate(server, one)["allowed"]


def test_other_namespaces_are_as_before(served):
    server, _ = served(policy(), namespace(), namespace("free", None))
    for where in ("free", "unheard-of"):
        assert mutate(server, plain(namespace=where))["pod"] is None


def test_no_such_policy(served):
    server, path = served(policy(), namespace(picks="missing"))
    for answer in (mutate(server, plain()), validate(server, plain())):
        assert not answer["allowed"]
        assert answer["reason"] == "NoPolicy" and '"missing"' in answer["message"]
    # who asks for no GPU is left alone
    cpu = reviews.default_resources(pod(container(resources={"limits": {"cpu": "1"}}), switch=None, os=None, version=None))
    assert mutate(server, cpu)["allowed"] and validate(server, cpu)["allowed"]
    # it comes, and is read by and by
    write(path, policy("missing"), namespace(picks="missing"))
    assert wait_until(lambda: mutate(server, plain())["allowed"], 10), server.log()[-1500:]


def test_a_file_that_turns_wrong_keeps_the_last(served):
    server, path = served(policy(), namespace())
    write(path, policy(share=1000), namespace())
    assert wait_until(lambda: any("reload_errors" in k and v for k, v in server.metrics().items()), 10)
    assert mutate(server, plain())["pod"]
    assert "/spec/share" in server.log()


@pytest.mark.parametrize("documents,says", [
    ([policy(injekt=True)], '/spec: found "injekt":true'),
    ([policy(defaults={"percent": 0})], "/spec/defaults/percent: found 0"),
    ([policy(), policy()], 'found a second GPUPolicy "research"'),
    ([namespace(), namespace()], 'found a second Namespace "ml"'),
    ([{"apiVersion": "v1", "kind": "Pod"}], "expected GPUPolicy"),
    ([policy("Not_a_name")], "/metadata/name"),
])
def test_wrong_documents(tmp_path, documents, says):
    path = str(tmp_path / "policies.yaml")
    write(path, *documents)
    code, _, err = cli.inject(json.dumps(plain()).encode(), "--policies", path)
    assert code == 3 and says in err and path + ":" in err, err


def test_unconverted(served):
    server, path = served(policy(), namespace())
    refused = validate(server, plain())
    assert not refused["allowed"] and refused["reason"] == "NotInjected"
    write(path, policy(onOutage="local"), namespace())
    assert wait_until(lambda: validate(server, plain())["allowed"], 10), server.log()[-1500:]
    warned = " ".join(validate(server, plain())["warnings"])
    assert "onOutage: local" in warned
    assert server.metrics()["poolgate_policy_local_total"] >= 2


def test_a_share_of_groups(served):
    server, _ = served(policy(share=50), namespace())
    client, injected = server.new_client(), {}
    for job in range(60):
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"train-{job}", "uid": f"u{job}", "controller": True}
        for copy in range(3):
            one = plain(name=f"train-{job}-{copy}")
            one["metadata"]["ownerReferences"] = [owner]
            injected.setdefault(job, set()).add(client.review("/mutate", reviews.review(one))["pod"] is not None)
    assert all(len(answers) == 1 for answers in injected.values())
    assert 15 <= sum(answers == {True} for answers in injected.values()) <= 45


def test_offline(tmp_path):
    path, manifest = str(tmp_path / "p.yaml"), str(tmp_path / "deployment.yaml")
    write(path, {"apiVersion": "v1", "kind": "List", "items": [policy(defaults={**DEFAULTS, "percent": 25}), namespace("default")]})
    one = plain(namespace="default")
    write(manifest, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
                     "spec": {"replicas": 2, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
                         "containers": [container(resources=ask("1"))]}}}})
    code, out, err = cli.inject(manifest, "--policies", path)
    assert code == 0, err
    done = yaml.safe_load(out)["spec"]["template"]
    assert done["spec"]["containers"][0]["resources"]["limits"]["bitfusion.io/gpu"] == 25
    assert done["metadata"]["annotations"]["auto-management/status"] == "injected"
    code, out, err = cli.run("plan", *cli.profile_args(), "--pool", os.path.join(cli.DEFAULT_CONFIG, "pool.yaml"), "--policies", path, manifest)
    assert code in (0, 1), err
    assert "nothing" not in out.decode(), out
    code, out, err = cli.inject(json.dumps(one).encode(), "--policies", path, "-n", "other")
    assert code == 0 and b"injected" in out
