# SPDX-License-Identifier: Apache-2.0
"""The page with the pool as docs/operating.md says an operator opens it: through kubectl port-forward, on each replica."""
import contextlib
import http.client
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


def page(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/")
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert answer.status == 200, text
    assert "default-src 'none'" in answer.getheader("Content-Security-Policy")
    return text


def test_page_of_every_replica(pool, ns):
    """One pool on all of them, one that leads, and the decisions of each are on one of them."""
    made = pool.client.create(gpu_pod("on-the-page", percent=50), namespace=ns)
    wait_for(lambda: (made["metadata"]["uid"], "bound") in claims(pool), 30, "a bound claim")
    replicas = [p["metadata"]["name"] for p in pool.client.items("pods", SYSTEM) if p["metadata"]["name"].startswith("poolgate-")
                and p["status"]["phase"] == "Running" and not p["metadata"].get("deletionTimestamp")]
    assert len(replicas) == 2
    pages = []
    for name in replicas:
        with forwarded(pool, f"pod/{name}") as port:
            # A follower's watch may be a moment behind.
            wait_for(lambda p=port: f"<title>{ns}/on-the-page: 8 GB, bound</title>" in page(p), 10, f"the claim on the page of {name}")
            pages.append(page(port))
    for text in pages:
        assert "<h3>gpu-a</h3>" in text and "<h3>gpu-b</h3>" in text
        assert "Reviews are not decided" not in text
    assert sum("this replica leads" in text for text in pages) == 1
    decided = "".join(text[text.index('id="decisions"'):] for text in pages)
    assert re.search(r"validate <span class=\"dim\">CREATE</span></td><td class=\"pod\"><span class=\"dim\">" + ns +
                     r"/</span>on-the-page</td><td class=\"said\"><span class=\"chip yes\">claimed</span>", decided)


def test_page_by_the_deployment(pool):
    """The very command of the docs."""
    with forwarded(pool, "deployment/poolgate") as port:
        assert "<h1>poolgate</h1>" in page(port)
