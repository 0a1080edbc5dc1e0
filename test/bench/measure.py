# SPDX-License-Identifier: Apache-2.0
"""One measurement: wrk on one core posts documents in rotation to a server on the other. CPU is what the clocks of the server's
processes say, so time that other programs take from it is not counted."""
import base64
import json
import os
import subprocess
import time

import harness
import payload
import peers

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "post.lua")


class Documents:
    """The files that wrk posts, and the reviews that they hold."""

    def __init__(self, folder, reviews):
        self.folder, self.reviews = folder, reviews
        self.bodies = [payload.go_json(review) for review in reviews]
        os.makedirs(folder)
        for number, body in enumerate(self.bodies):
            with open(os.path.join(folder, str(number)), "wb") as file:
                file.write(body)

    def __len__(self):
        return len(self.bodies)

    def bytes(self):
        return sum(map(len, self.bodies)) // len(self.bodies)


def wrk(peer, connections, seconds, close=False, documents=None, watch=time.sleep):
    """What one run of wrk costs and takes. Errors are counted, not raised. watch(s) lets time go by while it runs."""
    documents = documents or peer.documents
    argv = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "--timeout", "10s", "-s", SCRIPT,
            f"https://127.0.0.1:{peer.port}{peer.path}", "--", documents.folder, str(len(documents)), *(["close"] if close else [])]
    before = peer.cpu_s()
    run = subprocess.Popen(peers.pinned(peers.CLIENT_CORE, argv), stdout=subprocess.PIPE, text=True)
    watch(seconds - 0.2)
    # While the connections are open, and have been used for most of the time.
    resident = peer.resident_mb()
    out = run.communicate()[0]
    cpu = peer.cpu_s() - before
    if run.returncode != 0:
        raise SystemExit(f"wrk ended with {run.returncode}: {out[-500:]}")
    said = json.loads(out.strip().splitlines()[-1])
    requests = max(said["requests"], 1)
    return {"cpu_s": cpu, "cpu_us": cpu * 1e6 / requests, "used": cpu / (said["us"] / 1e6), "rps": requests / (said["us"] / 1e6),
            "p50_us": said["p50"], "p99_us": said["p99"], "rss_mb": resident,
            "errors": said["errors"] + said["timeouts"] + (said["requests"] == 0)}


def check_fixed(peer, documents):
    """The same length for every document."""
    connection = harness.connect(peer.port)
    for body in documents.bodies[:4]:
        got = harness.post_raw(connection, peer.path, body)
        if len(got) != peer.length:
            raise SystemExit(f"{type(peer).__name__} answered with {len(got)} bytes, not {peer.length}")
    connection.close()


def check_review(review, response):
    """The pod after the response's patch."""
    import jsonpatch  # Debian's python3-jsonpatch
    if response["uid"] != review["request"]["uid"] or response["allowed"] is not True:
        raise SystemExit(f"a wrong answer: {json.dumps(response)[:300]}")
    pod = review["request"]["object"]
    if "patch" not in response:
        return pod
    if response["patchType"] != "JSONPatch":
        raise SystemExit(f"a patch of type {response['patchType']}")
    return jsonpatch.JsonPatch(json.loads(base64.b64decode(response["patch"], validate=True))).apply(pod)


def check_mutated(peer, documents):
    """Every document comes back with a patch that applies, after which its containers run under the launcher."""
    connection = harness.connect(peer.port)
    for review, body in zip(documents.reviews, documents.bodies):
        pod = check_review(review, harness.post(connection, peer.path, body))
        for container in pod["spec"]["containers"]:
            if not container["command"][0].endswith("/bitfusion") or "bitfusion.io/gpu" not in container["resources"]["limits"]:
                raise SystemExit(f"{type(peer).__name__} did not wrap {container['name']} of {pod['metadata']['name']}")
    connection.close()


def check_allowed(peer, documents):
    """Every document is allowed, without a patch."""
    connection = harness.connect(peer.port)
    for review, body in zip(documents.reviews, documents.bodies):
        response = harness.post(connection, peer.path, body)
        if "patch" in response:
            raise SystemExit("a validating answer with a patch")
        check_review(review, response)
    connection.close()


def check(peer, documents):
    """A server's replies are right, before they are timed."""
    if isinstance(peer, peers.Fixed):
        check_fixed(peer, documents)
    elif peer.path == "/validate":
        check_allowed(peer, documents)
    else:
        check_mutated(peer, documents)


def line(points):
    """Least squares through (x, y): (intercept, slope, r squared, the largest relative distance of a point from it)."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    xx = sum((x - mean_x) ** 2 for x, _ in points)
    xy = sum((x - mean_x) * (y - mean_y) for x, y in points)
    yy = sum((y - mean_y) ** 2 for _, y in points)
    slope = xy / xx
    at = mean_y - slope * mean_x
    return at, slope, xy * xy / (xx * yy) if yy else 1.0, max(abs(at + slope * x - y) / y for x, y in points)
