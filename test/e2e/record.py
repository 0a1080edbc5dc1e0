#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Records what the simulator's model API server is compared with (test/sim/histories): the answers of a real one to test/sim/edges.py, and a
race of three replicas for a small pool, every request of theirs that the model knows. `make sim-record`, as root."""
import base64
import hashlib
import http.client
import json
import os
import re
import sys
import time

sys.path[:0] = [p for p in (os.path.dirname(os.path.abspath(__file__)), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) if p not in sys.path]

import kube  # noqa: E402
from cluster import ROOT, Cluster  # noqa: E402
from product import claims, client_namespace, servers, wait_for  # noqa: E402
from replicas import Replicas  # noqa: E402
from test_races import Crowd, may_create_pods  # noqa: E402

HISTORIES = os.path.join(ROOT, "test/sim/histories")
sys.path[:0] = [p for p in (os.path.dirname(HISTORIES),) if p not in sys.path]

import edges  # noqa: E402
import histories  # noqa: E402
from linear import History  # noqa: E402

# ---- the edges ----


def forget(token):
    """The token of a list of before all that etcd has kept: the API server's own cache goes on with any other one."""
    token = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    return base64.urlsafe_b64encode(json.dumps({**token, "rv": 1}).encode()).decode().rstrip("=")


def compact(cluster):
    """etcd forgets what was before now, as the API server tells it to every five minutes."""
    port = int(next(a for a in cluster.apiserver.argv if a.startswith("--etcd-servers=")).rsplit(":", 1)[1])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)

    def ask(path, body):
        connection.request("POST", path, json.dumps(body))
        return json.loads(connection.getresponse().read())

    revision = ask("/v3/kv/range", {"key": "YQ=="})["header"]["revision"]
    ask("/v3/kv/compaction", {"revision": revision, "physical": True})
    connection.close()


def edges_of(cluster):
    """What this API server answers; it has no GPUServers, nor their definition."""
    def ask(method, path, body, content_type):
        code, _, data = cluster.client.request(method, path, body, content_type)
        return code, data.decode()

    cluster.kubectl("apply", "--server-side", "-f", os.path.join(ROOT, "manifests/base/crd.yaml"))
    cluster.kubectl("wait", "--for=condition=established", "crd/gpuservers.poolgate.io")
    try:
        with cluster.namespace(edges.NAMESPACE):
            compact(cluster)
            return histories.comparable(edges.play(ask, forget))
    finally:
        cluster.kubectl("delete", "crd", "gpuservers.poolgate.io")


# ---- the race ----

POOL = {"gpu-a": 2, "gpu-b": 2}
PODS, CLIENTS, MIDDLE, ENDS, FITS = 20, 10, 4, 3, 8
GONE = "gpu-a"
POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted, Panic]
rules:
  - {level: None, verbs: [watch, deletecollection]}
  - level: RequestResponse
    users: ["system:serviceaccount:poolgate-system:poolgate"]
    resources: [{group: poolgate.io}, {group: "", resources: [pods]}, {group: coordination.k8s.io, resources: [leases]}]
  - level: RequestResponse
    verbs: [create, update, patch, delete]
    resources: [{group: poolgate.io}]
  - level: RequestResponse
    verbs: [create, update, patch, delete]
    namespaces: [race]
    resources: [{group: "", resources: [pods]}]
  - {level: None}
"""
ANSWERS = (200, 201, 404, 409, 410, 422)  # the others come of hooks, or came to nothing
METHODS = {"get": "GET", "list": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}


def digest(value):
    return {"digest": hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]}


class Small:
    """Objects without what the model does not judge: of a spec and a status a digest, and of each GPUServer's status, once, what it holds."""

    def __init__(self):
        self.statuses = {}

    def __call__(self, obj):
        if not obj or obj.get("kind") == "Status":
            return obj and {k: obj[k] for k in ("kind", "reason", "status") if k in obj}
        if "items" in obj:
            return {"kind": obj["kind"], "metadata": {"resourceVersion": obj["metadata"]["resourceVersion"]},
                    "items": [self({"kind": obj["kind"][:-len("List")], **o}) for o in obj["items"]]}
        small = {"kind": obj["kind"]} if "kind" in obj else {}
        small["metadata"] = {k: v for k, v in obj.get("metadata", {}).items()
                             if k in ("name", "uid", "resourceVersion", "generation", "finalizers", "deletionTimestamp", "deletionGracePeriodSeconds")}
        if "spec" in obj:
            small["spec"] = digest(obj["spec"])
        if obj.get("kind") == "Pod":
            small["status"] = {"phase": obj.get("status", {}).get("phase")}
        elif "status" in obj:
            small["status"] = digest(obj["status"])
            self.statuses[small["status"]["digest"]] = {
                "gpus": [{k: g[k] for k in ("id", "memory")} for g in obj["status"].get("gpus", [])],
                "claims": [{k: c[k] for k in ("uid", "name", "gpus", "state")} for c in obj["status"].get("claims", [])]}
        return small


class Order:
    """The place of each request among the versions that it made or met: what a single API server, doing one after the other, would have done."""

    def __init__(self, events):
        self.versions, self.ends = {}, {}
        for _, kind, obj in events:
            self.note(obj["kind"], obj["metadata"])
            if kind == "DELETED":
                self.ends[obj["metadata"]["uid"]] = int(obj["metadata"]["resourceVersion"])

    def note(self, kind, meta):
        if meta.get("resourceVersion"):
            self.versions.setdefault((kind, meta["name"]), set()).add(int(meta["resourceVersion"]))

    def of(self, event, kind, newest):
        """newest: the highest version that was there when this was asked."""
        request, answer = event.get("requestObject") or {}, event.get("responseObject") or {}
        name, code = event["objectRef"].get("name") or request.get("metadata", {}).get("name"), event["responseStatus"]["code"]
        uid = answer.get("metadata", {}).get("uid") or answer.get("details", {}).get("uid")
        there = sorted(self.versions.get((kind, name), []))
        last = event["verb"] == "delete" and (kind == "Pod" or answer.get("kind") == "Status") or \
            event["verb"] == "patch" and not answer.get("metadata", {}).get("finalizers")
        if code < 300 and last and uid in self.ends:
            return self.ends[uid]
        if code < 300:
            return int(answer["metadata"]["resourceVersion"])
        if code == 409:
            return max(newest, min((v for v in there if v > int(request.get("metadata", {}).get("resourceVersion") or 0)), default=newest))
        return newest


def requests_of(audit, events):
    """The events of the audit log in an order that explains them, but for what a hook refused and what came to nothing."""
    kinds = {"gpuservers": "GPUServer", "pods": "Pod", "leases": "Lease"}
    found = [json.loads(line) for line in audit]
    order, made = Order(events), set()
    for e in found:
        if e["responseStatus"]["code"] < 300 and "items" not in (e.get("responseObject") or {}):
            order.note(kinds[e["objectRef"]["resource"]], e["responseObject"].get("metadata") or {})
            made.add(e["responseObject"].get("metadata", {}).get("resourceVersion"))
    for e in found:
        if e["responseStatus"]["code"] >= 500:
            late_success(e, [obj for _, _, obj in events if obj["metadata"]["resourceVersion"] not in made])
    found = [e for e in found if e["responseStatus"]["code"] in ANSWERS and "dryRun" not in e["requestURI"]]
    placed = []
    for e in sorted(found, key=lambda e: e["stageTimestamp"]):
        # What was answered before this was asked has happened before it.
        before = [at for at, _, other in placed if other["stageTimestamp"] <= e["requestReceivedTimestamp"]]
        at = order.of(e, kinds[e["objectRef"]["resource"]], max(before, default=0))
        placed.append((at, e["requestReceivedTimestamp"], e))
    placed.sort(key=lambda p: (p[0], met(p), p[1]))
    return [p[2] for p in placed]


def late_success(event, unexplained):
    """A status that was written although nobody was told: the one who wrote was killed, say."""
    for obj in unexplained:
        if event["verb"] == "update" and obj["metadata"]["name"] == event["objectRef"]["name"] and obj.get("status") == event["requestObject"].get("status"):
            event["responseStatus"], event["responseObject"] = {"code": 200}, obj


def met(place):
    """Whoever made a version comes before those who met it."""
    at, _, e = place
    sent = (e.get("requestObject") or {}).get("metadata", {}).get("resourceVersion")
    return e["responseStatus"]["code"] >= 300 or e["verb"] in ("get", "list") or bool(sent) and int(sent) >= at


def race(cluster, replicas, namespace):
    """A race with everything that the model knows in it: (events of GPUServers and pods, what was created)."""
    def hit():
        replicas.kill(leader)

    told = History()
    leader = replicas.wait_leader()
    with kube.Observer(cluster.client, "gpuservers") as seen, kube.Observer(cluster.client, "pods", namespace) as pods, servers(cluster, POOL):
        with Crowd(cluster.client_for("alice"), namespace, hit, told, PODS, CLIENTS, MIDDLE) as crowd:
            crowd.wait_for_middle(60)
            time.sleep(1)
            replicas.restart(leader)
            pods.wait(lambda latest: len(latest) >= FITS, 90, "all that fits")
            crowd.end_pods(cluster.client, ENDS)
            time.sleep(1)
            pods.wait(lambda latest: len(latest) >= FITS, 90, "all that fits again")
            time.sleep(2)
        uids = {p["metadata"]["uid"] for p in pods.latest.values()}
        wait_for(lambda: claims(cluster) == {(uid, "bound") for uid in uids}, 60, "a bound claim for each pod")
        cluster.client.delete("gpuservers", GONE)
        for (_, name), pod in sorted(pods.latest.items()):
            told.deleted(pod["metadata"]["uid"], time.monotonic())
            cluster.client.delete("pods", name, namespace, grace=0)
        wait_for(lambda: not claims(cluster) and not cluster.client.find("gpuservers", GONE), 90, "the end of all claims and of the server")
    return told, seen.events, pods.events


def race_of(cluster, replicas, namespace, audit):
    told, seen, pods = race(cluster, replicas, namespace)
    time.sleep(1)
    small = Small()
    events = sorted(({"type": kind, "object": {"kind": k, **obj}} for k, those in (("GPUServer", seen), ("Pod", pods)) for _, kind, obj in those),
                    key=lambda e: int(e["object"]["metadata"]["resourceVersion"]))
    with open(audit, encoding="utf-8") as f:
        asked = requests_of(f, [(0, e["type"], e["object"]) for e in events])
    answers, sent = [], []
    for e in asked:
        body = e.get("requestObject") if e["verb"] in ("create", "update", "patch") else None
        if e["verb"] == "create" and e["responseStatus"]["code"] == 201:
            body = {k: v for k, v in e["responseObject"].items() if k in ("kind", "spec")}
            body["metadata"] = {"name": e["responseObject"]["metadata"]["name"]}
        path = re.sub(r"labelSelector=[^&]*&?", "", e["requestURI"]).replace(f"/{namespace}/", "/race/").rstrip("?&")
        sent.append([METHODS[e["verb"]], path, small({"kind": "", **body}) if body else None])
        answers.append((str(len(sent)), e["responseStatus"]["code"], json.dumps(small(e.get("responseObject") or {}))))
    for kind, path in (("GPUServer", edges.SERVERS), ("Pod", "/api/v1/pods")):
        sent.append(["GET", path + "?watch=true&timeoutSeconds=1&resourceVersion=0", None])
        answers.append((str(len(sent)), 200, "".join(json.dumps({**e, "object": small(e["object"])}) + "\n" for e in events if e["object"]["kind"] == kind)))
    began = min(c[1] for c in told.creates)
    lives = {"creates": [[n, round(a - began, 4), round(b - began, 4), u] for n, a, b, u in told.creates],
             "deletes": {u: round(at - began, 4) for u, at in told.deletes.items()},
             "versions": [[round(at - began, 4), obj["metadata"]["name"], small(obj).get("status", {}).get("digest")]
                          for at, kind, obj in seen if kind != "DELETED"]}
    return histories.recorded(sent, answers, lives, small.statuses)


def record(name, lines):
    path = os.path.join(HISTORIES, name)
    histories.write(path, lines)
    print(f"{path}: {len(lines)} lines, {os.path.getsize(path)} bytes")


def main():
    with Cluster.light(name="record") as cluster:
        record("edges.jsonl", edges_of(cluster))
        policy, audit = f"{cluster.dir}/policy.yaml", f"{cluster.dir}/audit.log"
        with open(policy, "w", encoding="utf-8") as f:
            f.write(POLICY)
        cluster.apiserver.restart(extra=[f"--audit-policy-file={policy}", f"--audit-log-path={audit}"])
        with Replicas(cluster, 3) as replicas, client_namespace(cluster, name="race") as namespace:
            may_create_pods(cluster)
            record("race.jsonl", race_of(cluster, replicas, namespace, audit))


if __name__ == "__main__":
    main()
