# SPDX-License-Identifier: Apache-2.0
"""What was used: components/usage on a real API server. The leader is killed while pods hold GPUs, a server is deleted, and nothing of it is lost.
The server has a gate, which is played: what that tells stands beside what was promised. Beside it components/usage-metrics: who may read the
same as metrics, and who may not."""
import base64
import contextlib
import csv
import http.server
import io
import json
import os
import re
import ssl
import subprocess
import threading
import time

import yaml

from cluster import ROOT, Cluster
from product import SYSTEM, claims, client_namespace, gpu_pod, servers, wait_for
from replicas import Replicas, program
from test_probe import pair, read, secret

COMPOSED = os.path.join(ROOT, "build/e2e/usage")
HALF = 8 * 10**9
# What programs use of that, as the gate tells.
USED = 3 * 10**9
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
    for r in said["rows"]:
        known = int(r["knownByteSeconds"])
        assert 0 <= known <= int(r["byteSeconds"]) and (r["usedByteSeconds"] is None) == (known == 0), r
        # What is known, all in whole seconds, is of claims of one size, which used the same all the time.
        assert known % HALF == 0 and int(r["usedByteSeconds"] or 0) * HALF == USED * known, r
    assert sum(rows.values()) == int(said["capacity"]) + int(said["over"]) - int(said["free"]) - int(said["unfit"])
    return rows


def known(kubeconfig, name):
    """Of how many seconds of a claim it is known what was used."""
    done = subprocess.run([program(), "report", "-o", "csv", "--kubeconfig", kubeconfig], timeout=60, capture_output=True, text=True, check=True)
    return sum(int(row["knownByteSeconds"]) for row in csv.DictReader(io.StringIO(done.stdout)) if row["namespace"] == name) // HALF


@contextlib.contextmanager
def gate(c, folder):
    """Plays the gate of gpu-u, over TLS with a token: every claim uses as much. Yields what the server's spec says of it."""
    address = c.add_address()
    files = pair(folder, address)

    class Page(http.server.BaseHTTPRequestHandler):
        timeout = 20

        def do_GET(self):
            server = c.client.find("gpuservers", "gpu-u") or {}
            found = [{"uid": claim["uid"], "used": USED, "known": True, "processes": 1, "overShare": False}
                     for claim in server.get("status", {}).get("claims", [])]
            good = self.headers.get("Authorization") == "Bearer the-token-of-gpu-u" and self.path == "/usage"
            body = json.dumps({"version": 1, "server": "gpu-u", "profile": "played", "shares": "held", "known": True, "claims": found}).encode()
            self.send_response(200 if good else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*files)
    server = http.server.ThreadingHTTPServer((address, 9447), Page)
    server.daemon_threads = True
    # Shaken hands by the connection's own thread: whoever is silent holds up nobody.
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    c.client.create(secret("gate-ca", **{"ca.crt": read(files[0])}), SYSTEM)
    c.client.create(secret("gate-token", token="the-token-of-gpu-u"), SYSTEM)
    try:
        yield {"profile": "played", "url": f"https://{address}:9447", "caSecret": "gate-ca", "tokenSecret": "gate-token"}
    finally:
        server.shutdown()
        server.server_close()


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


def test_usage_is_counted_and_stored(tmp_path):
    with Cluster.light(name="usage") as c, Replicas(c, 2, path=composed()) as r, client_namespace(c, name="billed") as ns, \
            gate(c, str(tmp_path / "gate")) as spec:
        c.client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "billing"}}, namespace=ns)
        c.kubectl("create", "clusterrolebinding", "billing", "--clusterrole=poolgate-usage-viewer", f"--serviceaccount={ns}:billing")
        leader = r.wait_leader()
        s = Scraper(c, r, os.path.join(COMPOSED, "ca.pem"))
        token = refused_scrapes(c, s, ns)
        with servers(c, {"gpu-u": 2}):
            c.client.patch("gpuservers", "gpu-u", {"spec": {"gate": spec}})
            wait_for(lambda: usage(c, "gpu-u").startswith("open 20"), 30, "a period that is open")
            created = time.time()
            uid = c.client.create(gpu_pod("half", percent=50), namespace=ns)["metadata"]["uid"]
            wait_for(lambda: claims(c) == {(uid, "bound")}, 20, "a bound claim")
            began = time.time()
            wait_for(lambda: known(c.kubeconfig(), ns) > 0, 30, "what the gate tells")
            r.kill(leader)
            assert r.wait_leader(other_than=leader) == 1 - leader
            until_now = report(c.kubeconfig())
            assert 0 < until_now[ns] <= HALF * (time.time() - created + 1), until_now
            first = known(c.kubeconfig(), ns)
            wait_for(lambda: known(c.kubeconfig(), ns) > first, 30, "more of it")
            deleted = time.time()
            c.client.delete("pods", "half", ns, grace=0)
            wait_for(lambda: not claims(c), 30, "the claim's end")
            # both ends are whole seconds of a clock
            used = report(c.kubeconfig())[ns]
            held = ("poolgate_usage_promised_byte_seconds_total", ns, "-", "Tesla V100-PCIE-16GB")
            wait_for(lambda: s.sums(1 - leader, token).get(held, 0) >= used - 2 * HALF, 20, "a counter that has come so far")
            sums = s.sums(1 - leader, token)
            assert sums[held] <= used + 2 * HALF, (sums, used / HALF)
            told = [sums[(f"poolgate_usage_{what}_byte_seconds_total", *held[1:])] for what in ("used", "known")]
            assert 0 < told[1] <= sums[held] and told[0] * HALF == USED * told[1], sums
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
