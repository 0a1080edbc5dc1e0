# SPDX-License-Identifier: Apache-2.0
"""The page with the pool as docs/operating.md says an operator opens it: through kubectl port-forward, on each replica."""
import contextlib
import http.client
import json
import os
import re
import signal
import subprocess

from product import SYSTEM, claims, gpu_pod, wait_for


@contextlib.contextmanager
def forwarded(cluster, target):
    """The local port that leads to the target's admin listener."""
    process = subprocess.Popen(
        [cluster.program("kubectl"), "--kubeconfig", cluster.kubeconfig("admin"), "-n", SYSTEM, "port-forward", target, ":8081"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env={"PATH": os.environ["PATH"], "HOME": cluster.dir})
    try:
        said = process.stdout.readline()
        port = re.match(r"Forwarding from 127\.0\.0\.1:(\d+) ->", said)
        assert port, said + process.stdout.read()
        yield int(port.group(1))
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(10)
        process.stdout.close()


def get(port, path="/"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert answer.status == 200, text
    if path == "/":
        assert "default-src 'none'" in answer.getheader("Content-Security-Policy")
    return text


def drawn(port):
    """What the page's script draws: the pool and the decisions of this replica."""
    return json.loads(get(port, "/v1/pool?servers=1&claims=1")), json.loads(get(port, "/v1/decisions"))


def test_page_of_every_replica(pool, ns):
    """One pool on all of them, one that leads, and the decisions of each are on one of them."""
    made = pool.client.create(gpu_pod("on-the-page", percent=50), namespace=ns)
    wait_for(lambda: (made["metadata"]["uid"], "bound") in claims(pool), 30, "a bound claim")
    replicas = [p["metadata"]["name"] for p in pool.client.items("pods", SYSTEM) if p["metadata"]["name"].startswith("poolgate-")
                and p["status"]["phase"] == "Running" and not p["metadata"].get("deletionTimestamp")]
    assert len(replicas) == 2
    said = []
    for name in replicas:
        with forwarded(pool, f"pod/{name}") as port:
            assert "<script>" in get(port)
            # A follower's watch may be a moment behind.
            holds = {"namespace": ns, "name": "on-the-page", "state": "bound", "bytes": 8000 * 10 ** 6}
            wait_for(lambda p=port, h=holds: h in [x for s in drawn(p)[0]["servers"] for g in s["gpus"] for x in g["holds"]], 10,
                     f"the claim on the page of {name}")
            said.append(drawn(port))
    for seen, decisions in said:
        assert [s["name"] for s in seen["servers"]] == ["gpu-a", "gpu-b"]
        assert not decisions["trouble"]
    assert sorted(decisions["leads"] for _, decisions in said) == [False, True]
    mine = [d for _, decisions in said for d in decisions["decisions"] if (d["namespace"], d["name"]) == (ns, "on-the-page")]
    assert ("validate", "CREATE", "claimed") in {(d["hook"], d["operation"], d["result"]) for d in mine}


def test_page_by_the_deployment(pool):
    """The very command of the docs."""
    with forwarded(pool, "deployment/poolgate") as port:
        assert "<h1>poolgate</h1>" in get(port)
