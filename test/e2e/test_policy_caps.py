# SPDX-License-Identifier: Apache-2.0
"""The caps of a policy on a real API server: never passed, by creates at once through three replicas of which the leader dies."""
import contextlib
import threading

import kube
from cluster import Cluster
from product import client_secrets, gpu_pod, servers, wait_for
from replicas import Replicas
from test_policy import POLICY, composed, policy

CAP = 7
CLIENTS, EACH = 20, 3


class Held:
    """How many GPUs the claims of all pods hold at most, at any moment that a watch of the GPUServers shows."""

    def __init__(self, c):
        self.now, self.most = {}, 0
        self.seen = kube.Observer(c.client, "gpuservers", on_event=self._server).start()

    def _server(self, kind, server):
        gone = kind == "DELETED"
        self.now[server["metadata"]["name"]] = 0 if gone else sum(len(k["gpus"]) for k in server.get("status", {}).get("claims", []))
        self.most = max(self.most, sum(self.now.values()))


def create_some(c, namespaces, k, said):
    for i in range(EACH):
        try:
            c.client.create(gpu_pod(f"p-{k}-{i}", percent=10), namespace=namespaces[(k + i) % 2])
            said.append("")
        except kube.ApiError as e:
            said.append(str(e))


def test_caps_over_two_namespaces():
    with Cluster.light(name="caps") as c, Replicas(c, 3, path=composed()) as replicas, servers(c, {"gpu-a": 8, "gpu-b": 8}):
        leader = replicas.wait_leader()
        c.client.create(policy("small", allow={"gpus": CAP}))
        with c.namespace(labels={POLICY: "small"}) as ml, c.namespace(labels={POLICY: "small"}) as lab:
            for ns in (ml, lab):
                client_secrets(c, ns)
            held, said = Held(c), []
            threads = [threading.Thread(target=create_some, args=(c, (ml, lab), k, said)) for k in range(CLIENTS)]
            for t in threads:
                t.start()
            replicas.kill(leader)
            replicas.serve(*(i for i in range(3) if i != leader))
            for t in threads:
                t.join()
            assert len(said) == CLIENTS * EACH
            assert any("the GPUPolicy small allows its namespaces 7 GPUs at once" in s for s in said), said

            def fill():
                """What the dead replica had announced, or claimed for nobody, is free again by and by."""
                with contextlib.suppress(kube.ApiError):
                    c.client.create(gpu_pod("more-", percent=10), namespace=lab)
                return sum(held.now.values()) == CAP

            wait_for(fill, 100, lambda: f"a full cap: {c.client.get('gpupolicies', 'small')}")
            replicas.wait_leader(other_than=leader)
            wait_for(lambda: c.client.get("gpupolicies", "small")["status"]["gpus"] == CAP, 30, "an account that says what is held")
            held.seen.stop()
            assert held.most == CAP
