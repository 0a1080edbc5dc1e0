# SPDX-License-Identifier: Apache-2.0
"""What was used: components/usage on a real API server. The leader is killed while pods hold GPUs, a server is deleted, and nothing of it is lost.
Beside it components/usage-metrics: who may read the same as metrics, and who may not."""
import base64
import json
import os
import re
import subprocess
import time

import yaml

from cluster import ROOT, Cluster
from product import claims, client_namespace, gpu_pod, servers, wait_for
from replicas import Replicas, program

COMPOSED = os.path.join(ROOT, "build/e2e/usage")
HALF = 8 * 10**9
NAME = "poolgate.poolgate-system.svc"


def composed():
    """The base with the component, as an operator writes it."""
    os.makedirs(COMPOSED, exist_ok=True)
    with open(os.path.join(COMPOSED, "kustomization.yaml"), "w", encoding="utf-8") as f:
        yaml.safe_dump({"resources": ["../../../manifests/base"],
                        "components": ["../../../manifests/components/usage", "../../../manifests/components/usage-metrics"]}, f)
    return os.path.relpath(COMPOSED, ROOT)


def report(kubeconfig, *words):
    done = subprocess.run([program(), "report", *words, "-o", "json", "--kubeconfig", kubeconfig], timeout=60, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    rows = {r["name"]: int(r["byteSeconds"]) for r in said["rows"]}
    assert sum(rows.values()) == int(said["capacity"]) + int(said["over"]) - int(said["free"]) - int(said["unfit"])
    return rows


def usage(c, name):
    return c.client.get("gpuservers", name)["status"].get("usage", "")


class Scraper:
    """Asks a replica as Prometheus does: over TLS by the Service's name, with an account's token."""

    def __init__(self, c, r, path):
        self.r = r
        self.ca = path
        hook = c.client.get("validatingwebhookconfigurations", "poolgate")["webhooks"][0]
        with open(self.ca, "wb") as f:
            f.write(base64.b64decode(hook["clientConfig"]["caBundle"]))

    def get(self, i, token=None):
        """(status, body)"""
        words = ["-H", f"Authorization: Bearer {token}"] if token else []
        done = subprocess.run(["curl", "-sS", "-m", "20", "--noproxy", "*", "--cacert", self.ca, "--resolve", f"{NAME}:8444:{self.r.addresses[i]}",
                               "-w", "\n%{http_code}", *words, f"https://{NAME}:8444/usage-metrics"],
                              timeout=60, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        body, _, status = done.stdout.rpartition("\n")
        return int(status), body

    def sums(self, i, token):
        """{(metric, label values …): number}"""
        status, body = self.get(i, token)
        assert status == 200, body
        lines = [line for line in body.splitlines() if not line.startswith("#")]
        return {(re.match(r"\w+", line)[0], *re.findall(r'="([^"]*)"', line)): int(line.rpartition(" ")[2]) for line in lines}


def refused_scrapes(c, s, ns):
    """Who may not read it; the token of the account that may."""
    for account in ("prometheus", "curious"):
        c.client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}}, namespace=ns)
    good, curious = (c.kubectl("-n", ns, "create", "token", account).stdout.strip() for account in ("prometheus", "curious"))
    elsewhere = c.kubectl("-n", ns, "create", "token", "prometheus", "--audience=elsewhere").stdout.strip()
    c.kubectl("create", "clusterrolebinding", "scrape", "--clusterrole=poolgate-usage-metrics-reader", f"--serviceaccount={ns}:prometheus")
    # curious is bound to nothing, as everybody is as shipped
    wait_for(lambda: s.get(0, good)[0] == 200, 30, "a right that is heard of")
    assert [s.get(0, token)[0] for token in (None, curious, elsewhere, good + "x", "x")] == [401, 403, 401, 401, 401]
    return good


def test_usage_is_counted_and_stored():
    with Cluster.light(name="usage") as c, Replicas(c, 2, path=composed()) as r, client_namespace(c, name="billed") as ns:
        c.client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "billing"}}, namespace=ns)
        c.kubectl("create", "clusterrolebinding", "billing", "--clusterrole=poolgate-usage-viewer", f"--serviceaccount={ns}:billing")
        leader = r.wait_leader()
        s = Scraper(c, r, os.path.join(COMPOSED, "ca.pem"))
        token = refused_scrapes(c, s, ns)
        with servers(c, {"gpu-u": 2}):
            wait_for(lambda: usage(c, "gpu-u").startswith("open 20"), 30, "a period that is open")
            created = time.time()
            uid = c.client.create(gpu_pod("half", percent=50), namespace=ns)["metadata"]["uid"]
            wait_for(lambda: claims(c) == {(uid, "bound")}, 20, "a bound claim")
            began = time.time()
            r.kill(leader)
            assert r.wait_leader(other_than=leader) == 1 - leader
            until_now = report(c.kubeconfig())
            assert 0 < until_now[ns] <= HALF * (time.time() - created + 1), until_now
            deleted = time.time()
            c.client.delete("pods", "half", ns, grace=0)
            wait_for(lambda: not claims(c), 30, "the claim's end")
            # both ends are whole seconds of a clock
            used = report(c.kubeconfig())[ns]
            held = ("poolgate_usage_promised_byte_seconds_total", ns, "-", "Tesla V100-PCIE-16GB")
            wait_for(lambda: s.sums(1 - leader, token).get(held, 0) >= used - 2 * HALF, 20, "a counter that has come so far")
            sums = s.sums(1 - leader, token)
            assert sums[held] <= used + 2 * HALF, (sums, used / HALF)
            assert abs(sums[("poolgate_usage_promised_gpu_seconds_total", *held[1:])] - sums[held] // HALF) <= 1, sums
            assert HALF * (deleted - began - 1) <= used <= HALF * (time.time() - created + 1), (used / HALF, deleted - began)
            c.client.delete("gpuservers", "gpu-u")
            wait_for(lambda: not c.client.find("gpuservers", "gpu-u"), 60, "a server that is gone")
        assert [o["metadata"]["name"][:3] for o in c.client.items("gpuusages")] == ["202"]
        assert report(c.kubeconfig())[ns] == used
        assert report(c.kubeconfig(), "--by", "server") == {"gpu-u": used}
        c.kubectl("label", "namespace", ns, "poolgate.io/policy=big")
        assert report(c.kubeconfig(), "--by", "policy") == {"big": used}
        lines = subprocess.run([program(), "report", "--kubeconfig", c.kubeconfig()], timeout=60, capture_output=True, text=True, check=True).stdout
        assert lines.splitlines()[1].split()[0] == ns
        # who is bound to the role sees what a report reads, and no more
        for resource, may in (("gpuusages", "yes"), ("gpuservers", "yes"), ("namespaces", "yes"), ("pods", "no")):
            said = c.kubectl("auth", "can-i", "list", resource, f"--as=system:serviceaccount:{ns}:billing", check=False).stdout.strip()
            assert said == may, resource
