# SPDX-License-Identifier: Apache-2.0
"""Gangs on a real API server with two replicas: all members run or none, wherever the leader dies or stands still between its writes."""
import contextlib
import time

import pytest

import kube
from cluster import Cluster
from product import SYSTEM, check_sums, client_namespace, servers, wait_for
from replicas import LEASE, Replicas
from test_waiting import composed, condition, gated, let_go, waiting

# Of each piece of data between the replicas and the API server: a leader's writes are told apart by it.
DELAY_MS = 120


def member(gang, i, size=4, **annotations):
    pod = waiting(f"{gang}-{i}")
    pod["metadata"]["annotations"].update({"poolgate.io/gang": gang, "poolgate.io/gang-size": str(size), **annotations})
    return pod


def put_gang(c, ns, gang):
    for i in range(4):
        c.client.create(member(gang, i), namespace=ns)


def held(c):
    """All claims of the pool; no GPU is promised twice."""
    found = []
    for s in c.client.items("gpuservers"):
        check_sums(s)
        found += s.get("status", {}).get("claims", [])
    return found


@pytest.fixture(scope="module", name="c")
def fixture_light():
    with Cluster.light(name="gangs") as c, Replicas(c, 2, path=composed(), through_proxy=True) as replicas:
        yield c, replicas


def test_two_gangs_of_four_and_room_for_six(c):
    c, _ = c
    with servers(c, {"gpu-a": 3, "gpu-b": 3}), client_namespace(c, name="first") as first, client_namespace(c, name="second") as second:
        for i in range(4):
            c.client.create(member("ring", i), namespace=first)
            c.client.create(member("tree", i), namespace=second)
        runs = wait_for(lambda: let_go(c, [first, second]), 30, "a gang that runs")
        ns, rest = (first, second) if runs.pop().startswith("ring") else (second, first)
        wait_for(lambda: len(let_go(c, [ns])) == 4, 10, "all of it")
        told = wait_for(lambda: [x for p in c.client.items("pods", rest) if (x := condition(p)) and x["reason"] == "NoCapacity"], 20, "a reason")
        assert "all 4 members of its gang start together" in told[0]["message"]
        assert not let_go(c, [rest]) and len(held(c)) == 4
        c.client.delete_all("pods", ns, grace=0)
        wait_for(lambda: len(let_go(c, [rest])) == 4, 30, "the other gang")
        assert len(held(c)) == 4 and not any(x.get("open") for x in held(c))


def claims_there(n):
    return lambda all_of, free: len(all_of) >= n


# Where the leader is when it ends: behind which of its writes.
KILL_POINTS = {
    "the claim that decides": claims_there(1),
    "the second claim": claims_there(2),
    "the third claim": claims_there(3),
    "the last claim": claims_there(4),
    "the decision": lambda all_of, free: len(all_of) == 4 and not any(x.get("open") for x in all_of),
    "the last that is settled": lambda all_of, free: len(all_of) == 4 and not any(x.get("gang") for x in all_of),
    "the first that is let go": lambda all_of, free: free,
}


def reach(c, ns, point):
    """Until the leader has made this write; what stood then."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        all_of, free = held(c), let_go(c, [ns])
        assert not free or len(all_of) == 4, (all_of, free)
        if KILL_POINTS[point](all_of, free):
            return len(all_of), len(free)
    raise AssertionError(f"the leader never came to {point}")


def next_leader(c, replicas, old):
    """Another one leads soon, not only when the Lease has run out: as if the last one had released it."""
    c.client.patch("leases.coordination.k8s.io", LEASE, {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}, SYSTEM)
    return replicas.wait_leader(other_than=old)


@pytest.mark.parametrize("ends", ["killed", "paused"])
def test_a_leader_ends_between_two_writes(c, ends):
    """Killed, or standing still until its successor has served the gang: then it goes on with what it was about to write."""
    c, replicas = c
    try:
        with servers(c, {"gpu-a": 3, "gpu-b": 3}), client_namespace(c, name=f"torn-{ends}") as ns:
            points = KILL_POINTS if ends == "killed" else ["the claim that decides", "the last claim"]
            for n, point in enumerate(points):
                old = replicas.wait_leader()
                c.proxy.delay(DELAY_MS)
                put_gang(c, ns, f"g{n}")
                stood = reach(c, ns, point)
                (replicas.kill if ends == "killed" else replicas.stop)(old)
                c.proxy.delay(0)
                began = time.monotonic()
                print(f"{ends} behind {point}: {stood[0]} claims, {stood[1]} let go")
                next_leader(c, replicas, old)
                wait_for(lambda: len(let_go(c, [ns])) == 4, 40, lambda: f"a whole gang, {ends} behind {point}")
                print(f"  served whole {time.monotonic() - began:.1f} s later")
                if ends == "killed":
                    replicas.restart(old, wait=False)
                else:
                    replicas.cont(old)
                    time.sleep(2)
                assert len(held(c)) == 4 and not any(x.get("open") for x in held(c)), held(c)
                assert {x["name"] for x in held(c)} == let_go(c, [ns])
                c.client.delete_all("pods", ns, grace=0)
                wait_for(lambda: not held(c), 30, "claims that end")
                replicas.wait_ready()
    finally:
        c.proxy.delay(0)


def bind(c, name, ns):
    """Where nothing schedules: deleted by force it may run on."""
    c.client.call("POST", c.client.path("pods", ns, name, "binding"), {
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": "node-1"}})


def test_who_is_deleted_by_force_keeps_his_seat(c):
    """For as long as his claim lingers; then who comes for him goes before an older pod."""
    c, replicas = c
    replicas.wait_leader()
    with servers(c, {"gpu-a": 2}), client_namespace(c, name="seats") as ns:
        for i in range(2):
            c.client.create(member("ring", i, 2), namespace=ns)
        wait_for(lambda: len(let_go(c, [ns])) == 2, 30, "a gang that runs")
        bind(c, "ring-1", ns)
        c.client.delete("pods", "ring-1", ns, grace=0)
        c.client.create(waiting("old"), namespace=ns)
        time.sleep(1.1)  # ages are told in seconds
        c.client.create(member("ring", 2, 2), namespace=ns)

        def seated():
            told = condition(c.client.get("pods", "ring-2", ns))
            lingers = [x for x in held(c) if x["name"] == "ring-1"]
            assert not (lingers and told and "number 1 of" in told["message"]), (told, lingers)
            return "ring-2" in let_go(c, [ns])

        wait_for(seated, 60, "who has the seat")
        assert let_go(c, [ns]) == {"ring-0", "ring-2"} and len(held(c)) == 2


def test_who_forges_a_size(c):
    """A size can be neither changed nor made up afterwards; another one is told, and moves nobody."""
    c, replicas = c
    replicas.wait_leader()
    with servers(c, {"gpu-a": 2}), client_namespace(c, name="forger") as ns:
        c.client.create(member("ring", 0, 3), namespace=ns)
        made = c.client.create(member("ring", 1, 3), namespace=ns)

        def refused(call, says):
            with pytest.raises(kube.ApiError, match=says):
                call()

        for value in ({"poolgate.io/gang-size": "2"}, {"poolgate.io/gang": "star"}, {"poolgate.io/gang-size": None}):
            refused(lambda v=value: c.client.patch("pods", "ring-1", {"metadata": {"annotations": v}}, ns), "cannot be changed")
            with contextlib.suppress(kube.ApiError):
                c.client.patch("pods", "ring-1", {"metadata": {"annotations": value}}, ns, subresource="status")
            assert c.client.get("pods", "ring-1", ns)["metadata"]["annotations"] == made["metadata"]["annotations"]
        copy = {"apiVersion": "v1", "kind": "Pod", "spec": made["spec"], "metadata": {
            "name": "copy", "labels": made["metadata"]["labels"],
            "annotations": {**made["metadata"]["annotations"], "poolgate.io/gang-size": "2"}}}
        refused(lambda: c.client.create(copy, namespace=ns), "gang")
        refused(lambda: c.client.create(member("ring", 2, "job"), namespace=ns), "no Job made this pod")
        refused(lambda: c.client.create(member("ring", 2, 3, **{"poolgate.io/when-full": "refuse"}), namespace=ns), "write wait")
        c.client.create(member("ring", 3, 2), namespace=ns)
        told = wait_for(lambda: condition(c.client.get("pods", "ring-3", ns)), 30, "a reason")
        assert told["reason"] == "GangUneven", told
        assert not let_go(c, [ns]) and not held(c)
        c.client.delete("pods", "ring-3", ns, grace=0)
