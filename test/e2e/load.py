# SPDX-License-Identifier: Apache-2.0
"""Creates of GPU pods at a steady rate while a test does something to poolgate.

    with Load(cluster, ns, rate=50) as load:
        ...                                   # load.check() raises what went wrong so far
    load.made, load.per_second, load.slowest  # leaving the block ends it and checks

Each create must be admitted and its pod injected: the mutating hook's failurePolicy is Ignore, so a review that failed there shows as a
pod that lacks our label, or as NotInjected from the validating hook. The pods carry a scheduling gate: they hold claims and never run.
They stay until the test deletes them; dry: none are stored at all.
"""
import threading
import time

import kube
from product import gpu_pod

# Each waits for its answer: on a slow machine there are fewer creates, not longer queues.
THREADS = 4


class Load:
    """rate: creates a second, which a slow machine may not reach: look at per_second. percent: of one GPU, each."""

    def __init__(self, cluster, namespace, rate, dry=False, percent=1, threads=THREADS):
        self.cluster, self.namespace, self.rate, self.dry = cluster, namespace, rate, dry
        self.pod = gpu_pod("load-", percent=percent, schedulingGates=[{"name": "e2e/never"}])
        self.made, self.problems = 0, []
        self.lock, self.ending = threading.Lock(), threading.Event()
        self.due = self.began = None
        self.per_second = self.slowest = 0.0
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]

    def _next(self):
        """When the next create is due. What was missed is not made up for, so that a pause is not followed by a storm."""
        with self.lock:
            self.due = max(self.due + 1 / self.rate, time.monotonic() - 0.1)
            return self.due

    def _run(self):
        client = self.cluster.client_for("admin", user_agent="load")
        while not self.ending.wait(max(0.0, self._next() - time.monotonic())):
            began = time.monotonic()
            problem = self._create(client)
            took = time.monotonic() - began
            with self.lock:
                self.slowest = max(self.slowest, took)
                if problem:
                    self.problems.append(f"after {began - self.began:.1f} s, in {took:.1f} s: {problem}")
                else:
                    self.made += 1
        client.close()

    def _create(self, client):
        try:
            made = client.create(self.pod, self.namespace, dry_run=self.dry)
        except (kube.ApiError, kube.Unreachable) as e:
            return str(e)
        wrapped = "run" in made["spec"]["containers"][0]["command"][:2]
        if made["metadata"].get("labels", {}).get("poolgate.io/injected") != "true" or not wrapped:
            return f"{made['metadata']['name']} was not injected"
        return None

    def check(self):
        with self.lock:
            assert not self.problems, f"{len(self.problems)} of {self.made + len(self.problems)} creates went wrong: {self.problems[:5]}"

    def wait(self, seconds=None, made=None):
        """Let it go on for so long, or until so many more were made; raises at once what goes wrong."""
        end, goal = time.monotonic() + (seconds or 60), self.made + made if made else None
        while time.monotonic() < end and (goal is None or self.made < goal):
            self.check()
            time.sleep(0.1)
        assert goal is None or self.made >= goal, f"only {self.made} creates, not {goal}"

    def __enter__(self):
        self.began = self.due = time.monotonic()
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, kind, *_):
        self.ending.set()
        for t in self.threads:
            t.join(60)
        self.per_second = self.made / (time.monotonic() - self.began)
        if kind is None:
            self.check()
