# SPDX-License-Identifier: Apache-2.0
"""Rule R18 in a rollout: two replicas render pods differently, the API server lets one mutate and another validate. Once a key that both
have signs, nobody is refused."""
import concurrent.futures

import pytest

import kube
from cluster import Cluster
from product import gpu_pod, servers, wait_for
from replicas import Replicas

CLIENTS, PODS = 16, 64
SIGNS_S = 150  # the leader adds a key, both read it within 20 s, and sign 60 s after that
OLD, NEW = "/bitfusion-distro", "/bitfusion-distro-2"
HOLDS = 'poolgate_plan_proofs_total{proof="holds"}'


@pytest.fixture(scope="module", name="c")
def cluster():
    with Cluster.light(name="proofs") as c:
        yield c


def create(c, ns, names):
    """What was said of these pods, "created" or the reason; none stays. As many at a time as make the API server use many connections,
    and so both replicas for either hook."""
    def one(name):
        try:
            c.client.create(gpu_pod(name, percent=1), ns, dry_run=True)
            return "created"
        except kube.ApiError as e:
            return f"{e.reason}: {e.message}"

    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(one, names))


def test_another_replica_rendered_it(c):
    """One has another sidecar, as in the middle of a rollout of settings."""
    with Replicas(c, 2) as r, servers(c, {"gpu-a": 4}), c.namespace() as ns:
        path = f"{c.dir}/poolgate-1/sidecar.yaml"
        with open(path, encoding="utf-8") as f:
            text = f.read()
        assert OLD in text
        with open(path, "w", encoding="utf-8") as f:
            f.write(text.replace(OLD, NEW))
        r.restart(1)
        r.wait_leader()

        def holds():
            return sum(r.metrics(i).get(HOLDS, 0) for i in range(r.n))

        def mixed():
            create(c, ns, [f"early-{i}" for i in range(CLIENTS)])
            return holds()

        wait_for(mixed, SIGNS_S, "a proof that the other replica believes")
        before = holds()
        said = create(c, ns, [f"p{i}" for i in range(PODS)])
        assert set(said) == {"created"}, sorted(set(said))
        assert holds() > before, "no pod was mutated by one and validated by the other"
