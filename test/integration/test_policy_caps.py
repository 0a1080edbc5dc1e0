# SPDX-License-Identifier: Apache-2.0
"""What a policy from a file allows its namespaces of the pool: launchers, servers, models, and how much at once."""
import threading

import pytest
import yaml

from lib import reviews
from lib.pods import ask, container, pod

POLICY = "poolgate.io/policy"


def policy(**allow):
    return {"apiVersion": "poolgate.io/v1alpha1", "kind": "GPUPolicy", "metadata": {"name": "small"}, "spec": {"allow": allow}}


def namespace(name, picks="small"):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {POLICY: picks}}}


@pytest.fixture(name="served")
def fixture_served(fresh, tmp_path):
    """A server with this policy, which two namespaces pick."""
    def make(**allow):
        path = tmp_path / "policies.yaml"
        path.write_text(yaml.safe_dump_all([policy(**allow), namespace("ml"), namespace("lab")]), encoding="utf-8")
        return fresh(args=["--policies", str(path)])

    return make


def create(client, name, where="ml", amount="1", percent="10", **more):
    one = reviews.default_resources(pod(container(resources=ask(amount, percent)), name=name, namespace=where, **more))
    mutated = client.review("/mutate", reviews.review(one))
    assert mutated["allowed"], mutated
    return client.review("/validate", reviews.review(reviews.stored(mutated["pod"])))


def test_a_cap_is_of_all_namespaces_together(served):
    client = served(gpus=3).new_client()
    assert create(client, "a", amount="2")["allowed"]
    refused = create(client, "b", where="lab", amount="2")
    assert not refused["allowed"] and refused["reason"] == "PolicyFull", refused
    assert "the GPUPolicy small allows its namespaces 3 GPUs at once (spec.allow.gpus), of which they hold 2 (ml 2)" in refused["message"]
    assert create(client, "c", where="lab")["allowed"]
    assert not create(client, "d")["allowed"]
    # a namespace that picks no policy is as before
    assert create(client, "e", where="free")["allowed"]


def test_a_cap_holds_at_any_moment(served):
    server = served(gpus=5)
    said = []

    def some(k):
        client = server.new_client()
        said.extend(create(client, f"p{k}-{i}", where=("ml", "lab")[i % 2])["allowed"] for i in range(10))

    threads = [threading.Thread(target=some, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(said) == 60 and sum(said) == 5


def test_launchers_and_models(served):
    client = served(launchers=["lupine"], models=["no such GPU"]).new_client()
    refused = create(client, "a")
    assert refused["reason"] == "PolicyBound" and "spec.allow.launchers: lupine" in refused["message"], refused
    client = served(models=["no such GPU"]).new_client()
    refused = create(client, "a")
    assert refused["reason"] == "NoServer" and "spec.allow.models" in refused["message"], refused
