# SPDX-License-Identifier: Apache-2.0
"""Requests at the edges of what an API server does, for the real one and for the simulator's model of it: the same requests, made of the
answers that came before, so that both can be compared word by word (histories.py says what of an answer counts)."""
import json

SERVERS = "/apis/poolgate.io/v1alpha1/gpuservers"
NAMESPACE = "edges"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
FINALIZER = ["poolgate.io/claims"]
MERGE = "application/merge-patch+json"
OLD = "1"  # a version of before everything
LATER = "3000-01-01T00:00:00.000000Z"


def server(name, count=1, **meta):
    return {"apiVersion": "poolgate.io/v1alpha1", "kind": "GPUServer", "metadata": {"name": name, **meta},
            "spec": {"address": f"{name}.lab:56001", "gpus": [{"model": "Tesla V100", "memory": "16G", "count": count}]}}


def status(free):
    return {"version": 1, "summary": {"gpus": 1, "fit": 1, "free": free, "claims": 0}}


def pod(name, node=None, **meta):
    spec = {"containers": [{"name": "c", "image": "i"}], **({"nodeName": node, "tolerations": [{"operator": "Exists"}]} if node else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **meta}, "spec": spec}


def lease(name, holder, **meta):
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, **meta},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 1}}


class Asked:
    """Asks, and keeps what was answered: (what, status, text) of each request in `answers`. api(method, path, body, content_type) is the
    way to whoever answers: (status, text)."""

    def __init__(self, api):
        self.api, self.answers = api, []

    def __call__(self, what, method, path, body=None):
        code, text = self.api(method, path, body, MERGE if method == "PATCH" else "application/json")
        self.answers.append((what, code, text))
        return json.loads(text) if text[:1] == "{" and "watch=" not in path else {}


def of(answer):
    """uid and version of what came back, for the next write."""
    return {k: answer["metadata"][k] for k in ("uid", "resourceVersion")}


def writes_of_status(ask):
    first = ask("made with a status, which does not count", "POST", SERVERS, {**server("a"), "status": status(1)})
    ask("made although it is there", "POST", SERVERS, server("a"))
    ask("read", "GET", f"{SERVERS}/a")
    ask("read what is not there", "GET", f"{SERVERS}/none")
    to = {**server("a", 2, finalizers=FINALIZER, labels={"x": "y"}, **of(first)), "status": status(2)}
    second = ask("a status, with other members that do not count there", "PUT", f"{SERVERS}/a/status", to)
    ask("a status of a version that is old", "PUT", f"{SERVERS}/a/status", {**to, "status": status(3)})
    ask("the same status of a version that is old", "PUT", f"{SERVERS}/a/status", to)
    to["metadata"].update(of(second))
    ask("the same status", "PUT", f"{SERVERS}/a/status", to)
    bare = {k: v for k, v in to.items() if k != "spec"}
    third = ask("a status without a spec", "PUT", f"{SERVERS}/a/status", {**bare, "status": status(4)})
    ask("a status without a version", "PUT", f"{SERVERS}/a/status", {**server("a"), "status": status(5)})
    ask("a status without a version, of another uid", "PUT", f"{SERVERS}/a/status",
        {**server("a", uid="11111111-0000-4000-8000-000000000000"), "status": status(5)})
    ask("a status of another uid", "PUT", f"{SERVERS}/a/status",
        {**server("a", uid="11111111-0000-4000-8000-000000000000", resourceVersion=third["metadata"]["resourceVersion"]), "status": status(6)})
    ask("a status of nothing", "PUT", f"{SERVERS}/none/status", {**server("none", **of(third)), "status": status(7)})
    ask("no status", "PUT", f"{SERVERS}/a/status", {k: v for k, v in server("a", **of(third)).items() if k != "spec"})


def writes_of_the_rest(ask):
    was = ask("read", "GET", f"{SERVERS}/a")
    mine = {"metadata": {**of(was), "finalizers": FINALIZER}}
    now = ask("a finalizer by patch", "PATCH", f"{SERVERS}/a", mine)
    ask("the same patch of a version that is old", "PATCH", f"{SERVERS}/a", mine)
    ask("the same patch", "PATCH", f"{SERVERS}/a", {"metadata": {**of(now), "finalizers": FINALIZER}})
    ask("a patch without a version that changes nothing", "PATCH", f"{SERVERS}/a", {"metadata": {"finalizers": FINALIZER}})
    ask("a patch of another uid", "PATCH", f"{SERVERS}/a", {"metadata": {"uid": "11111111-0000-4000-8000-000000000000", "labels": {"a": "b"}}})
    ask("a patch of another uid and an old version", "PATCH", f"{SERVERS}/a",
        {"metadata": {"uid": "11111111-0000-4000-8000-000000000000", "resourceVersion": of(was)["resourceVersion"], "labels": {"a": "b"}}})
    ask("a patch of a label", "PATCH", f"{SERVERS}/a", {"metadata": {"labels": {"zone": "1"}}})
    now = ask("a patch of the status where it does not count", "PATCH", f"{SERVERS}/a", {"status": status(8)})
    ask("a patch of nothing", "PATCH", f"{SERVERS}/none", mine)
    now = ask("another spec, and a status that does not count", "PUT", f"{SERVERS}/a",
              {**server("a", 3, finalizers=FINALIZER, **of(now)), "status": status(9)})
    ask("the same spec", "PUT", f"{SERVERS}/a", server("a", 3, finalizers=FINALIZER, **of(now)))
    now = ask("a label", "PUT", f"{SERVERS}/a", server("a", 3, finalizers=FINALIZER, labels={"zone": "2"}, **of(now)))
    ask("a spec without a version", "PUT", f"{SERVERS}/a", server("a", 1))
    ask("a spec of an old version", "PUT", f"{SERVERS}/a", server("a", 1, **of(was)))


def ends_of_a_server(ask):
    gone = ask("deleted with a finalizer", "DELETE", f"{SERVERS}/a")
    ask("deleted once more", "DELETE", f"{SERVERS}/a")
    now = ask("read while it is deleted", "GET", f"{SERVERS}/a")
    now = ask("a status while it is deleted", "PUT", f"{SERVERS}/a/status", {**server("a", **of(now)), "status": status(10)})
    ask("made while it is deleted", "POST", SERVERS, server("a"))
    ask("one more finalizer while it is deleted", "PATCH", f"{SERVERS}/a", {"metadata": {"finalizers": [*FINALIZER, "example.com/more"]}})
    ask("the last finalizer goes", "PATCH", f"{SERVERS}/a", {"metadata": {**of(now), "finalizers": []}})
    ask("read what is gone", "GET", f"{SERVERS}/a")
    ask("a status of what is gone", "PUT", f"{SERVERS}/a/status", {**server("a", **of(now)), "status": status(11)})
    ask("a patch of what is gone", "PATCH", f"{SERVERS}/a", {"metadata": {**of(now), "finalizers": FINALIZER}})
    ask("deleted although it is gone", "DELETE", f"{SERVERS}/a")
    anew = ask("made anew", "POST", SERVERS, server("a"))
    old = {"uid": of(gone)["uid"], "resourceVersion": of(anew)["resourceVersion"]}
    ask("a status of the one before", "PUT", f"{SERVERS}/a/status", {**server("a", **of(now)), "status": status(12)})
    ask("a status with the uid of the one before", "PUT", f"{SERVERS}/a/status", {**server("a", **old), "status": status(12)})
    ask("a finalizer with the uid of the one before", "PATCH", f"{SERVERS}/a", {"metadata": {"uid": old["uid"], "finalizers": FINALIZER}})
    ask("a finalizer with the uid and the version of the one before", "PATCH", f"{SERVERS}/a",
        {"metadata": {**of(now), "finalizers": FINALIZER}})
    ask("deleted", "DELETE", f"{SERVERS}/a")
    ask("made with a finalizer", "POST", SERVERS, server("b", finalizers=FINALIZER))
    ask("deleted with it", "DELETE", f"{SERVERS}/b")
    ask("the last finalizer goes by null", "PATCH", f"{SERVERS}/b", {"metadata": {"finalizers": None}})


def leases(ask):
    first = ask("a Lease", "POST", LEASES, lease("l", "one"))
    ask("a Lease although it is there", "POST", LEASES, lease("l", "two"))
    now = ask("taken", "PUT", f"{LEASES}/l", lease("l", "two", **of(first)))
    ask("taken of an old version", "PUT", f"{LEASES}/l", lease("l", "three", **of(first)))
    ask("the same", "PUT", f"{LEASES}/l", lease("l", "two", **of(now)))
    ask("taken without a version", "PUT", f"{LEASES}/l", lease("l", "three"))
    ask("taken with another uid", "PUT", f"{LEASES}/l",
        lease("l", "three", uid="11111111-0000-4000-8000-000000000000", resourceVersion=now["metadata"]["resourceVersion"]))
    ask("deleted", "DELETE", f"{LEASES}/l")
    ask("read what is gone", "GET", f"{LEASES}/l")
    ask("taken after it is gone", "PUT", f"{LEASES}/l", lease("l", "three", **of(now)))
    ask("taken after it is gone, without a uid", "PUT", f"{LEASES}/l",
        lease("l", "three", resourceVersion=now["metadata"]["resourceVersion"]))
    ask("read", "GET", f"{LEASES}/l")


def pods(ask):
    ask("a pod", "POST", PODS, pod("p"))
    ask("a pod although it is there", "POST", PODS, pod("p"))
    ask("read", "GET", f"{PODS}/p")
    ask("read what is not there", "GET", f"{PODS}/none")
    ask("deleted, and no node has it", "DELETE", f"{PODS}/p")
    ask("read what is gone", "GET", f"{PODS}/p")
    ask("deleted although it is gone", "DELETE", f"{PODS}/p")
    ask("a pod on a node", "POST", PODS, pod("q", "none"))
    ask("deleted, and a node has it", "DELETE", f"{PODS}/q")
    ask("deleted once more", "DELETE", f"{PODS}/q")
    ask("made while it is deleted", "POST", PODS, pod("q", "none"))
    ask("deleted by its node", "DELETE", f"{PODS}/q", {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
    ask("read what is gone", "GET", f"{PODS}/q")
    now = ask("a pod with a finalizer", "POST", PODS, pod("r", finalizers=["example.com/job"]))
    ask("deleted with a finalizer", "DELETE", f"{PODS}/r")
    ask("read while it is deleted", "GET", f"{PODS}/r")
    ask("the last finalizer goes", "PATCH", f"{PODS}/r", {"metadata": {"uid": now["metadata"]["uid"], "finalizers": None}})
    ask("read what is gone", "GET", f"{PODS}/r")


def lists(ask, forget):
    for i in range(5):
        ask("made", "POST", SERVERS, server(f"s{i}"))
    page = ask("the first page", "GET", f"{SERVERS}?limit=2")
    token = page["metadata"]["continue"]
    ask("one goes meanwhile", "DELETE", f"{SERVERS}/s3")
    ask("one comes meanwhile", "POST", SERVERS, server("s5"))
    second = ask("the second page, of what was then", "GET", f"{SERVERS}?limit=2&continue={token}")
    ask("the second page once more", "GET", f"{SERVERS}?limit=2&continue={token}")
    ask("the last page", "GET", f"{SERVERS}?limit=2&continue={second['metadata']['continue']}")
    whole = ask("all of now", "GET", f"{SERVERS}?limit=500")
    ask("a GPUServer that changes", "PATCH", f"{SERVERS}/s1", {"metadata": {"labels": {"a": "b"}}})
    ask("one that goes", "DELETE", f"{SERVERS}/s2")
    since = whole["metadata"]["resourceVersion"]
    watch = f"{SERVERS}?watch=true&timeoutSeconds=1&resourceVersion="
    ask("a watch from a list on", "GET", watch + since)
    last = ask("all of now", "GET", f"{SERVERS}?limit=500")
    ask("a watch to which nothing happens", "GET", watch + last["metadata"]["resourceVersion"])
    page = ask("the first page", "GET", f"{SERVERS}?limit=2")
    ask("one changes", "PATCH", f"{SERVERS}/s0", {"metadata": {"labels": {"a": "b"}}})
    ask("the second page of what is forgotten", "GET", f"{SERVERS}?limit=2&continue={forget(page['metadata']['continue'])}")
    ask("a watch from a version that is forgotten", "GET", watch + OLD)
    ask("a token that nobody gave", "GET", f"{SERVERS}?limit=2&continue=nonsense")
    for one in ask("all of now", "GET", f"{SERVERS}?limit=500")["items"]:
        ask("deleted", "DELETE", f"{SERVERS}/{one['metadata']['name']}")
    ask("none", "GET", f"{SERVERS}?limit=500")


def play(api, forget):
    """What was answered to each: (what, status, text). forget(token): a token to go on with a list of which whoever answers knows no more."""
    ask = Asked(api)
    before = ask("none", "GET", f"{SERVERS}?limit=500")
    writes_of_status(ask)
    writes_of_the_rest(ask)
    ends_of_a_server(ask)
    ask("a watch of all that", "GET", f"{SERVERS}?watch=true&timeoutSeconds=1&resourceVersion={before['metadata']['resourceVersion']}")
    leases(ask)
    before = ask("no pods", "GET", f"{PODS}?limit=500")
    pods(ask)
    ask("a watch of the pods", "GET", f"{PODS}?watch=true&timeoutSeconds=1&resourceVersion={before['metadata']['resourceVersion']}")
    lists(ask, forget)
    return ask.answers
