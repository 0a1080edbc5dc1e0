# SPDX-License-Identifier: Apache-2.0
"""What would promise a GPU twice or lose a claim: a pod that is stored long after it was admitted, and a server made anew under
running pods."""
import contextlib
import threading
import time

import pytest

import kube
from hook import Hook
from product import check_sums, claims, gpu_pod, gpu_server, servers, wait_for

FINALIZER = "poolgate.io/claims"
# The API server gives up on a webhook after its timeout, at most 30 s.
LATE_S, TIMEOUT_S = 28, 30


class Create(threading.Thread):
    """A create in the background; result() is the pod."""

    def __init__(self, cluster, pod, namespace):
        super().__init__(daemon=True)
        self.client, self.pod, self.namespace = cluster.client_for("admin"), pod, namespace
        self.made = self.error = None
        self.start()

    def run(self):
        try:
            self.made = self.client.create(self.pod, namespace=self.namespace)
        except (kube.ApiError, kube.Unreachable) as e:
            self.error = e

    def result(self, seconds):
        self.join(seconds)
        assert not self.is_alive(), f"the create has not ended within {seconds} s"
        if self.error:
            raise self.error
        return self.made


def states_of(events, uid):
    """What an observer of GPUServers saw of a claim: its state in each version, None where it is not."""
    found = []
    for _, _, server in events:
        state = next((c["state"] for c in server.get("status", {}).get("claims", []) if c["uid"] == uid), None)
        if not found or found[-1] != state:
            found.append(state)
    return found


def test_claim_outlives_a_slow_hook(installed, ns):
    """We say yes at once, somebody else's hook 28 s later, and the pod is stored then. A ledger that forgets claims whose pod does not
    appear (a time limit, a 404 asked too early) has given the GPU away by then: a second pod that wants it must be refused all the
    time, and the claim may never be away, from the review on until it is bound."""
    with servers(installed, {"late": 1}), kube.Observer(installed.client, "gpuservers") as seen:
        with Hook(installed, ns, delay=LATE_S, timeout=TIMEOUT_S) as hook:
            create = Create(installed, gpu_pod("late"), ns)
            hook.wait_calls(1, 20)
            began = time.monotonic()
            uid = hook.requests[0]["object"]["metadata"]["uid"]
            wait_for(lambda: claims(installed) == {(uid, "pending")}, 5, "the pending claim")
            # Others pass quickly: the hook holds the first back alone.
            hook.delay = 0
            refused = 0
            while create.is_alive():
                with pytest.raises(kube.ApiError) as no:
                    installed.client.create(gpu_pod("thief"), namespace=ns)
                assert no.value.status == 403 and "validate.poolgate.io" in no.value.message
                assert claims(installed) == {(uid, "pending")} or not create.is_alive()
                refused += 1
                create.join(2)
            made = create.result(0)
        assert time.monotonic() - began > LATE_S - 2, "the hook held nothing back"
        assert made["metadata"]["uid"] == uid and refused > 2
        wait_for(lambda: claims(installed) == {(uid, "bound")}, 20, "the bound claim")
        assert states_of(seen.events, uid) == [None, "pending", "bound"]
        for _, _, server in seen.events:
            check_sums(server)
        # Freed once, by the pod's end.
        installed.client.delete("pods", "late", ns, grace=1)
        wait_for(lambda: not claims(installed), 20, "a claim that ends with its pod")


def held(server):
    """GPU id -> bytes that are promised, and GPU id -> bytes that it has."""
    status = server.get("status", {})
    sums = {g["id"]: 0 for g in status.get("gpus", [])}
    for claim in status.get("claims", []):
        for part in claim["gpus"]:
            sums[part["id"]] += part["bytes"]
    return sums, {g["id"]: g["memory"] for g in status.get("gpus", [])}


def on_anew(name, memory):
    """A pod that asks for so much memory of a GPU of the server `anew`: bytes, which weigh more where the GPU is smaller."""
    pod = gpu_pod(name)
    pod["metadata"]["annotations"]["bitfusion-client/filter"] = "server.name=anew"
    pod["spec"]["containers"][0]["resources"]["limits"] = {"bitfusion.io/gpu-amount": "1", "bitfusion.io/gpu-memory": memory}
    return pod


@pytest.fixture(name="no_anew")
def fixture_no_anew(installed):
    """Whatever the test has left of its server goes, so that other tests find their own alone."""
    yield
    if installed.client.find("gpuservers", "anew"):
        installed.client.delete("gpuservers", "anew")
        with contextlib.suppress(kube.ApiError):
            installed.client.patch("gpuservers", "anew", {"metadata": {"finalizers": None}})


def test_server_made_anew_under_running_pods(installed, no_anew, ns):
    """GPUServer deleted: held by the finalizer, and takes nothing new. Finalizer taken away by force and the object made anew, with a
    smaller GPU: the pods that run there are given claims again before anybody else may have any, nothing new is admitted until the
    sum fits, and each pod's end frees its own claim once."""
    assert no_anew is None
    client = installed.client
    first = client.create(gpu_server("anew", 1, "16G"))
    wait_for(lambda: takes_claims(client), 30, "a server that takes claims")
    uids = {name: client.create(on_anew(name, memory), namespace=ns)["metadata"]["uid"]
            for name, memory in (("a", "8G"), ("b", "4G"), ("c", "4G"))}
    for name in uids:
        installed.wait_pod(name, ns, phases=("Running",), seconds=90)
    wait_for(lambda: claims(installed, "anew") == {(u, "bound") for u in uids.values()}, 20, "bound claims")

    # Asked to go: it stays, with its claims, and takes nothing new even where there is room.
    client.delete("gpuservers", "anew")
    client.delete("pods", "c", ns, grace=1)
    wait_for(lambda: (uids["c"], "bound") not in claims(installed), 20, "the claim of a pod that was deleted")
    now = client.get("gpuservers", "anew")
    assert now["metadata"]["uid"] == first["metadata"]["uid"] and now["metadata"]["deletionTimestamp"]
    assert FINALIZER in now["metadata"]["finalizers"]
    with pytest.raises(kube.ApiError) as no:
        client.create(on_anew("new", "1G"), namespace=ns)
    assert no.value.status == 403

    # By force, and anew with half the memory: 8 GB and 4 GB do not fit on it.
    with kube.Observer(client, "gpuservers") as seen:
        client.patch("gpuservers", "anew", {"metadata": {"finalizers": None}})
        wait_for(lambda: not client.find("gpuservers", "anew"), 20, "the server is gone")
        second = client.create(gpu_server("anew", 1, "8G"))
        asked = []
        while claims(installed, "anew") != {(uids["a"], "adopted"), (uids["b"], "adopted")} or not takes_claims(client):
            asked.append(try_create(client, on_anew("early", "1G"), ns))
            assert len(asked) < 600 and asked[-1], f"admitted before the running pods had their claims back: {asked[-3:]}"
            time.sleep(0.1)
        sums, memory = held(client.get("gpuservers", "anew"))
        assert sums == {"gpu-0": 12_000_000_000} and memory == {"gpu-0": 8_000_000_000}
        assert second["metadata"]["uid"] != first["metadata"]["uid"]

        # Over-promised: nothing new until it fits, which it does when the larger one has gone.
        assert try_create(client, on_anew("still", "1G"), ns)
        assert client.get("gpuservers", "anew")["status"]["summary"]["free"] == 0
        client.delete("pods", "a", ns, grace=1)
        wait_for(lambda: claims(installed, "anew") == {(uids["b"], "adopted")}, 20, "an adopted claim that ends with its pod")
        assert held(client.get("gpuservers", "anew"))[0] == {"gpu-0": 4_000_000_000}
        wait_for(lambda: try_create(client, on_anew("fits", "4G"), ns) == "", 20, "room for a new pod")
        assert try_create(client, on_anew("full", "1G"), ns), "8 GB hold 4 GB adopted and 4 GB new, and no more"
        fits = client.get("pods", "fits", ns)["metadata"]["uid"]

        # After the adoption no version may promise more than there is to anybody but the adopted.
        for _, _, server in seen.events:
            sums, memory = held(server)
            new = {c["uid"] for c in server.get("status", {}).get("claims", [])} - set(uids.values())
            assert new <= {fits}
            if new:
                assert sums["gpu-0"] <= memory["gpu-0"], server["status"]

        client.delete("pods", "b", ns, grace=1)
        wait_for(lambda: {u for u, _ in claims(installed)} == {fits}, 20, "the last adopted claim ends with its pod")
        adoption_is_told(installed, ns, uids)
    # Deleted once more: it goes with its last claim.
    client.delete("pods", "fits", ns, grace=1)
    client.delete("gpuservers", "anew")
    wait_for(lambda: not client.find("gpuservers", "anew"), 90, "the server goes with its last claim")
    assert not claims(installed)


def takes_claims(client):
    """The leader has set the finalizer, and so has looked for pods that run there: who fits is admitted from now on."""
    return FINALIZER in client.get("gpuservers", "anew")["metadata"].get("finalizers", [])


def try_create(client, pod, ns):
    """Why it was refused; "" when it was admitted."""
    try:
        client.create(pod, namespace=ns)
    except kube.ApiError as e:
        assert e.status == 403, str(e)
        return e.message
    return ""


def adoption_is_told(cluster, ns, uids):
    """An Event on each pod that was given a claim again."""
    def told():
        return {e["involvedObject"]["uid"] for e in cluster.client.items("events", ns) if e.get("reason") == "ClaimAdopted"}

    wait_for(lambda: told() >= {uids["a"], uids["b"]}, 10, "Events of the adoptions")
