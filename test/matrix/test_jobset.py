# SPDX-License-Identifier: Apache-2.0
"""The real JobSet beside a policy that lets half of the groups through (P5): a set's pods are of several Jobs, which are made anew when the set
restarts, and stay on the side on which its uid put them. Nothing of it runs: no node is called as the pods want, so that they are there and cost nothing."""
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [p for p in (HERE, os.path.join(ROOT, "test/e2e")) if p not in sys.path]

import controllers  # noqa: E402
import product  # noqa: E402
from product import claims, client_secrets, servers, wait_for  # noqa: E402
from test_controllers import needs  # noqa: E402
from test_policy import DEFAULTS, POLICY, composed, injected, policies, policy, silent_pod, slowly  # noqa: E402

pytestmark = needs("jobset")
# That all of them are on one side has a chance of two to a million.
SETS, WORKERS = 20, 3
LABEL = "jobset.sigs.k8s.io/"


@pytest.fixture(scope="module", name="c")
def fixture_c(cluster):
    product.install(cluster, composed())
    controllers.install(cluster, "jobset")
    return cluster


def job_set(name):
    """A driver, whose end restarts the set, and workers, each a Job of its own that asks for a part of a GPU and says nothing else."""
    worker, driver = silent_pod("x")["spec"], silent_pod("x")["spec"]
    del driver["containers"][0]["resources"]
    jobs = []
    for kind, count, spec in (("driver", 1, driver), ("workers", WORKERS, worker)):
        spec["nodeSelector"] = {"kubernetes.io/hostname": "none-is-called-so"}
        jobs.append({"name": kind, "replicas": count, "template": {"spec": {"backoffLimit": 0, "template": {"spec": spec}}}})
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name},
            "spec": {"replicatedJobs": jobs, "failurePolicy": {"maxRestarts": 1}}}


def pods_of(c, ns, attempt):
    """Those of that attempt which nobody deletes: by the set's uid, of each kind."""
    found = {}
    for pod in c.client.items("pods", ns):
        labels = pod["metadata"]["labels"]
        if labels[LABEL + "restart-attempt"] == str(attempt) and not pod["metadata"].get("deletionTimestamp"):
            found.setdefault(labels[LABEL + "jobset-uid"], {}).setdefault(labels[LABEL + "replicatedjob-name"], []).append(pod)
    return found


def sides(c, ns, attempt):
    """{uid of a set: is it on the policy's side}, once all pods of that attempt are there. No set is torn."""
    def all_there():
        found = pods_of(c, ns, attempt)
        return len(found) == SETS and all(len(f.get("workers", [])) == WORKERS and len(f.get("driver", [])) == 1 for f in found.values()) and found

    found = wait_for(slowly(all_there), 90, lambda: f"all pods of attempt {attempt}\n{c.kubectl('get', 'jobsets,jobs,pods', '-n', ns, check=False).stdout}")
    for uid, of in found.items():
        assert len({injected(p) for p in of["workers"]}) == 1, (uid, of)
        assert len({p["metadata"]["labels"]["job-name"] for p in of["workers"]}) == WORKERS and not injected(of["driver"][0]), (uid, of)
    return {uid: injected(of["workers"][0]) for uid, of in found.items()}


def test_a_share_of_sets(c):
    with servers(c, {"gpu-s": 8}), policies(c, policy("half", inject=True, share=50, defaults={**DEFAULTS, "percent": 1})), \
            c.namespace(labels={POLICY: "half"}) as ns:
        client_secrets(c, ns)
        for i in range(SETS):
            c.client.create(job_set(f"set-{i}"), ns)
        first = sides(c, ns, 0)
        assert set(first) == {s["metadata"]["uid"] for s in c.client.items("jobsets", ns)}
        assert set(first.values()) == {True, False}, first
        wait_for(slowly(lambda: len(claims(c)) == WORKERS * sum(first.values())), 60, "the claims of half of the sets")
        # A Job whose pod is deleted has failed, and its set begins anew: other Jobs, other pods.
        for of in pods_of(c, ns, 0).values():
            c.client.delete("pods", of["driver"][0]["metadata"]["name"], ns, grace=0)
        assert sides(c, ns, 1) == first
        c.client.delete_all("jobsets", ns)
        wait_for(slowly(lambda: not claims(c)), 90, "the claims' end")
