# SPDX-License-Identifier: Apache-2.0
"""A namespace that changes its label while its pods wait, on a real API server: law P1, in the eyes of those that wait."""
from cluster import Cluster
from product import client_namespace, servers, wait_for
from replicas import Replicas
from test_policy import POLICY, composed, pick, policies, policy, refused, tenant
from test_waiting import condition, gated, let_go, waiting


def told(c, ns, name):
    """Reason and message of a pod that waits."""
    pod = c.client.get("pods", name, ns)
    assert gated(pod), name
    found = condition(pod) or {}
    return found.get("reason"), found.get("message", "")


def test_the_label_changes_while_pods_wait():
    """By whoever may not use the policy: refused, and who waits goes on under the old one. By whoever may: who waits and is no longer
    allowed waits with that reason, also where there is room, until a policy allows him again."""
    with Cluster.light(name="moves") as c, Replicas(c, 1, path=composed("waiting")) as replicas, servers(c, {"gpu-a": 1}), \
            policies(c, policy("small"), policy("strict", allow={"launchers": ["another"]}), policy("big", allow={"launchers": ["another"]})), \
            client_namespace(c, labels={POLICY: "small"}) as ns, tenant(c, ns, "alice", "small", "strict") as alice:
        replicas.wait_leader()
        for name, alone in (("holds", True), ("first", False), ("second", False)):
            c.client.create(waiting(name), namespace=ns)
            if alone:
                wait_for(lambda: let_go(c, [ns]) == {"holds"}, 20, "one that starts at once")
            else:
                wait_for(lambda n=name: told(c, ns, n)[0] == "NoCapacity", 20, f"{name}, which waits for room")
        refused(lambda: pick(alice, ns, "big"), "may use the GPUPolicy big")
        assert c.client.get("namespaces", ns)["metadata"]["labels"][POLICY] == "small"
        c.client.delete("pods", "holds", ns, grace=0)
        wait_for(lambda: let_go(c, [ns]) == {"first"}, 20, "the next one's turn, under the old policy")
        pick(alice, ns, "strict")
        wait_for(lambda: "the GPUPolicy strict allows its namespaces no pods of the launcher" in told(c, ns, "second")[1], 20,
                 lambda: f"the new policy's word: {told(c, ns, 'second')}")
        c.client.delete("pods", "first", ns, grace=0)
        wait_for(lambda: not [x for s in c.client.items("gpuservers") for x in s["status"].get("claims", [])], 20, "room for it")
        with client_namespace(c) as other:
            c.client.create(waiting("younger"), namespace=other)
            wait_for(lambda: let_go(c, [ns, other]) == {"younger"}, 20, "another one's turn before it")
        pick(alice, ns, "small")
        wait_for(lambda: let_go(c, [ns]) == {"second"}, 20, "its turn, under a policy that allows it")
