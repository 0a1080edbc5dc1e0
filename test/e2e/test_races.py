# SPDX-License-Identifier: Apache-2.0
"""No byte is promised twice and none stays promised for ever, whatever breaks in the middle: three replicas, 30 clients that create 300 pods
at once for a pool that holds 40, and an observer that checks every version of every GPUServer; at the end, whether all that was said is
linearizable."""
import contextlib
import json
import os
import random
import signal
import sys
import threading
import time

import pytest

import kube
from cluster import ROOT, Cluster
from product import check_sums, claims, client_namespace, gpu_pod, servers, wait_for
from replicas import Replicas

sys.path[:0] = [p for p in (os.path.join(ROOT, "test/sim"),) if p not in sys.path]

from linear import History  # noqa: E402

PODS, CLIENTS = 300, 30
POOL = {"gpu-a": 5, "gpu-b": 5, "gpu-c": 5, "gpu-d": 5}
FITS = 40  # two pods of half a GPU on each
PERCENT = 50
MIDDLE = 10  # admitted when the fault comes
ENDS = 10  # pods that end then
HEAL_S = 90  # from the end of the fault until all that fits is admitted
QUIET_S = 3


class Crowd:
    """The clients. Each creates its pods without a pause, then goes on with those that were not admitted until end(). The one that
    sees the middleth pod admitted calls hit() at once. A pod whose answer was lost may be there: it is tried again, too, and refused.
    history is told of each create."""

    def __init__(self, client, namespace, hit, history, pods=PODS, clients=CLIENTS, middle=MIDDLE):
        self.client, self.namespace, self.hit, self.history, self.middle = client, namespace, hit, history, middle
        self.admitted, self.answers, self.errors = [], {}, []
        self.changed, self.ending = threading.Condition(), threading.Event()
        self.threads = [threading.Thread(target=self._run, args=([f"p{i}" for i in range(k, pods, clients)],)) for k in range(clients)]

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        self.ending.set()
        for t in self.threads:
            t.join()

    def _run(self, mine):
        pause = 0.0
        try:
            while mine:
                for name in list(mine):
                    if self.ending.wait(pause * random.uniform(0.5, 1.5)):
                        return
                    if self._create(name):
                        mine.remove(name)
                pause = min(1.0, max(0.1, 2 * pause))
        except Exception as e:  # pylint: disable=broad-except
            self.errors.append(e)

    def _create(self, name):
        """True: the pod is there."""
        made, answer, uid, sent = False, "created", "", time.monotonic()
        try:
            uid = self.client.create(gpu_pod(name, percent=PERCENT), namespace=self.namespace)["metadata"]["uid"]
            made = True
        except kube.ApiError as e:
            made = e.reason == "AlreadyExists"
            uid = None if e.reason == "NoCapacity" else ""
            answer = f"{e.status} {e.reason}: {e.message}".replace(name, "P")[:300]
        except kube.Unreachable as e:
            answer = str(e)[-80:]
        with self.changed:
            self.history.created(name, sent, time.monotonic(), uid)
            self.answers[answer] = self.answers.get(answer, 0) + 1
            if made:
                self.admitted.append(name)
                if len(self.admitted) == self.middle:
                    self.hit()
                self.changed.notify_all()
        return made

    def end_pods(self, client, n):
        """Delete this many of the pods that are there."""
        with self.changed:
            ending = [(name, uid) for name, _, _, uid in self.history.creates if uid][:n]
        for name, uid in ending:
            self.history.deleted(uid, time.monotonic())
            client.delete("pods", name, self.namespace, grace=0)

    def wait_for_middle(self, seconds):
        with self.changed:
            done = self.changed.wait_for(lambda: len(self.admitted) >= self.middle or self.errors, seconds)
            assert done and not self.errors, f"{self.admitted} after {seconds} s: {self.errors} {self.often()}"

    def often(self):
        """What was answered most, and how often."""
        return sorted(self.answers.items(), key=lambda a: -a[1])[:10]


class Fault:
    """What breaks. prepare() comes before the pods, hit() in the middle and at once, then mend(), and undo() when all is over."""

    versions_may_be_missed = False
    may_be_heard = True  # clients may be told something else than "created" and "full"

    def __init__(self, cluster, replicas):
        self.cluster, self.replicas = cluster, replicas

    def prepare(self):
        pass

    def hit(self):
        pass

    def mend(self, crowd):
        pass

    def undo(self):
        pass


class PodsEnd(Fault):
    """Nothing breaks, and places become free while everybody asks."""

    may_be_heard = False

    def mend(self, crowd):
        crowd.end_pods(self.cluster.client, ENDS)


class ReplicaKilled(Fault):
    def prepare(self):
        self.which = (self.replicas.wait_leader() + 1) % self.replicas.n

    def hit(self):
        self.replicas.kill(self.which)

    def mend(self, crowd):
        time.sleep(1)
        self.replicas.restart(self.which)


class LeaderKilled(ReplicaKilled):
    def prepare(self):
        self.which = self.replicas.wait_leader()


class LeaderStopped(LeaderKilled):
    """It comes back after another has taken its place, and finds old reviews at its door."""

    def hit(self):
        self.replicas.stop(self.which)

    def mend(self, crowd):
        try:
            time.sleep(60)
            assert self.replicas.leader() != self.which
        finally:
            self.replicas.cont(self.which)

    def undo(self):
        wait_for(lambda: self.replicas.metrics(self.which)["poolgate_leader"] == 0, 30, "the former leader knows that it is none")


class ApiServerRestarted(Fault):
    versions_may_be_missed = True

    def hit(self):
        self.cluster.apiserver.kill()

    def mend(self, crowd):
        self.cluster.apiserver.start()


class EtcdPaused(Fault):
    def hit(self):
        self.cluster.etcd.pause()

    def mend(self, crowd):
        time.sleep(5)
        self.cluster.etcd.resume()


class Latency(Fault):
    def hit(self):
        self.cluster.proxy.delay(200)

    def undo(self):
        self.cluster.proxy.delay(0)


class FewRequestsInFlight(Fault):
    """Seats are shared by all levels of priority, and those for writes are added: both are few here."""

    def prepare(self):
        self.cluster.apiserver.restart(signal.SIGKILL, ["--max-requests-inflight=20", "--max-mutating-requests-inflight=10"])

    def mend(self, crowd):
        seats = [line for line in self.cluster.client.call("GET", "/metrics").splitlines() if "nominal_limit_seats{" in line]
        assert any(line.startswith('apiserver_flowcontrol_nominal_limit_seats{priority_level="poolgate"} 3') for line in seats), seats

    def undo(self):
        self.cluster.apiserver.restart(signal.SIGKILL, [])


def check_order(told, seen):
    """What all replicas said can be said by one that does one thing after the other."""
    for at, kind, server in seen.events:
        if kind != "DELETED":
            told.server(at, server)
    began = time.monotonic()
    n = told.check(lambda memory: memory * PERCENT // 100)
    print(f"{n} operations, GPU by GPU, are linearizable: {time.monotonic() - began:.1f} s")


def without_pod(cluster, ns):
    """Claims whose pod is not there, for messages."""
    uids = {p["metadata"]["uid"] for p in cluster.client.items("pods", ns)}
    return [(s["metadata"]["name"], c["name"], c["uid"], c["state"], c["since"]) for s in cluster.client.items("gpuservers")
            for c in s["status"].get("claims", []) if c["uid"] not in uids]


@contextlib.contextmanager
def history(cluster, name, seen, ns):
    """Keeps every version of the GPUServers beside the logs when the block fails."""
    try:
        yield
    except BaseException:
        with open(cluster.log_path(f"gpuservers-{name}"), "w", encoding="utf-8") as f:
            f.writelines(json.dumps([at, kind, obj]) + "\n" for at, kind, obj in seen.events)
        print("claims without a pod:", without_pod(cluster, ns))
        raise


def may_create_pods(cluster):
    """alice may."""
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "races"}}
    cluster.client.create({**rbac, "kind": "ClusterRole", "rules": rules})
    cluster.client.create({**rbac, "kind": "ClusterRoleBinding", "subjects": [{"kind": "User", "name": "alice"}],
                           "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "races"}})


@pytest.fixture(scope="module", name="races")
def fixture_races():
    with Cluster.light(name="races") as cluster, Replicas(cluster, 3, through_proxy=True) as replicas, servers(cluster, POOL):
        may_create_pods(cluster)
        yield cluster, replicas


@pytest.mark.parametrize("kind", [PodsEnd, ReplicaKilled, LeaderKilled, LeaderStopped, ApiServerRestarted, EtcdPaused, Latency,
                                  FewRequestsInFlight])
def test_no_byte_is_promised_twice(races, kind):
    cluster, replicas = races
    fault = kind(cluster, replicas)
    fault.prepare()
    replicas.wait_ready()
    hit_at = []

    def hit():
        fault.hit()
        hit_at.append(time.monotonic())

    try:
        with client_namespace(cluster) as ns:
            with kube.Observer(cluster.client, "gpuservers", on_event=lambda _, server: check_sums(server)) as seen, \
                    kube.Observer(cluster.client, "pods", ns) as pods, history(cluster, kind.__name__, seen, ns), \
                    Crowd(cluster.client_for("alice"), ns, hit, History()) as crowd:
                crowd.wait_for_middle(HEAL_S)
                fault.mend(crowd)
                began = time.monotonic()
                pods.wait(lambda latest: len(latest) >= FITS, HEAL_S, "all that fits")
                print(f"full after {time.monotonic() - began:.1f} s")
                # Nothing more while the others go on asking, and nothing less.
                time.sleep(QUIET_S)
                crowd.end()
                assert not crowd.errors + seen.errors
                others = [a for a in crowd.answers if a != "created" and "NoCapacity" not in a]
                assert fault.may_be_heard or not others, others
                uids = {p["metadata"]["uid"] for p in cluster.client.items("pods", ns)}
                assert len(uids) == FITS
                wait_for(lambda: claims(cluster) == {(uid, "bound") for uid in uids}, 30, "a bound claim for each pod, and no other")
                there = len([e for e in pods.events if e[0] < hit_at[0]])
                print(f"{there} pods were seen when the fault came; answers: {crowd.often()}")
                assert there < FITS, "the fault came too late"
                assert seen.relists == 0 or fault.versions_may_be_missed
                if seen.relists == 0:
                    check_order(crowd.history, seen)
    finally:
        fault.undo()
    assert not any(p[2]["metadata"]["labels"].get("poolgate.io/injected") != "true" for p in pods.events)
    assert not any(replicas.metrics(i)["poolgate_adoptions_total"] for i in range(replicas.n)), "a claim was adopted"
