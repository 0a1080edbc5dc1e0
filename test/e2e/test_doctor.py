# SPDX-License-Identifier: Apache-2.0
"""cli/usage/find_cluster: `poolgate doctor` against the real API server: all is well in a sound installation; whatever is broken is told in its own line with a
command, and nothing else is; mended, all is well again. It changes nothing, and says what it may not read. No nodes and no controllers: a
Deployment's and a node's status are written here as they would be. One cluster of its own, `make doctor-test` runs this file alone."""
import base64
import contextlib
import copy
import datetime
import json
import os
import signal
import subprocess
import time

import pytest

import kube
from cluster import Cluster
from product import ROOT, SYSTEM, claims, client_secrets, gpu_pod, gpu_server, wait_for
from replicas import LEASE, Replicas, program

MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
HOOKS = (MUTATING, VALIDATING)
SERVERS = "gpuservers"
LEASES = "leases.coordination.k8s.io"
APPLY = "kubectl apply -k manifests/base"
RESTART = "kubectl -n poolgate-system rollout restart deployment/poolgate"
GROUPS = {"replicas", "versions", "clients", "crd", "rights", "webhooks", "certificates", "leader", "servers", "secrets", "registries",
          "nodes", "pods"}


def now(seconds=0):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def ready_pod(c, name, namespace, pod):
    """Create a pod, or take one that is there, and say that it runs."""
    pod = c.client.find("pods", name, namespace) or c.client.create(pod, namespace)
    image = pod["spec"]["containers"][0]["image"]
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [
        {"name": "poolgate", "image": image, "imageID": "sha256:1", "ready": True, "restartCount": 0, "state": {}}]}
    c.client.patch("pods", name, {"status": status}, namespace, subresource="status")


AUDIT_POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: Metadata, verbs: [create], resources: [{group: "", resources: [pods]}]}
  - {level: None}
"""


@pytest.fixture(scope="module", name="c")
def fixture_cluster(tmp_path_factory):
    """Installed as shipped, with a pool, a node that offers units, and a pod with its claim. The one replica is killed then, so that
    nobody puts right what the tests break; the tests keep its Lease alive."""
    policy = tmp_path_factory.mktemp("audit") / "policy.yaml"
    policy.write_text(AUDIT_POLICY)
    audit = policy.parent / "audit.log"
    with Cluster.light(name="doctor", apiserver_args=[f"--audit-policy-file={policy}", f"--audit-log-path={audit}"]) as c, \
            Replicas(c, 1) as replicas:
        c.audit = audit
        c.client.patch("deployments", "poolgate", {"spec": {"replicas": 1}}, SYSTEM)
        c.client.patch("deployments", "poolgate", {"status": {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1,
                                                              "observedGeneration": 1}}, SYSTEM, subresource="status")
        template = c.client.get("deployments", "poolgate", SYSTEM)["spec"]["template"]
        replica = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "poolgate-0", "labels": template["metadata"]["labels"]},
                   "spec": template["spec"]}
        ready_pod(c, "poolgate-0", SYSTEM, replica)
        c.client.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker"}})
        offer(c, "1k")
        for name in ("gpu-a", "gpu-b"):
            c.client.create(gpu_server(name))
        wait_for(lambda: all(s.get("status", {}).get("summary", {}).get("fit") == 1 for s in c.client.items(SERVERS)), 60, "servers")
        c.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}})
        c.client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, "ml")
        client_secrets(c, "ml")
        pod = c.client.create(gpu_pod("train"), "ml")
        wait_for(lambda: (pod["metadata"]["uid"], "bound") in claims(c), 60, "a bound claim")
        with pytest.raises(kube.ApiError):
            c.client.create(gpu_pod("greedy", amount=9), "ml")
        done = doctor(c, fresh=False)
        assert done.code == 0, done.text
        replicas.kill(0, signal.SIGKILL)
        yield c


def offer(c, units):
    c.client.patch("nodes", "worker", {"status": {"allocatable": {"bitfusion.io/gpu": units}, "capacity": {"bitfusion.io/gpu": units}}},
                   subresource="status")


class Done:
    def __init__(self, done):
        self.code, self.text, self.errors = done.returncode, done.stdout, done.stderr
        self.lines = done.stdout.splitlines()[:-1]

    def of(self, verdict):
        return [x[13:] for x in self.lines if x.startswith(verdict + " ")]


def run(*args, env=None):
    return subprocess.run([program(), "doctor", *args], capture_output=True, text=True, timeout=60, check=False,
                          env={"PATH": os.environ["PATH"], **(env or {})})


def keep_lease(c, **changes):
    c.client.patch(LEASES, LEASE, {"spec": {"renewTime": now(), **changes}}, SYSTEM)


def doctor(c, *args, kubeconfig=None, fresh=True):
    if fresh:
        keep_lease(c)
    return Done(run("--kubeconfig", kubeconfig or c.kubeconfig(), *args))


@contextlib.contextmanager
def changed(c, resource, name, patch, namespace=None, kind="merge", subresource=None):
    """The object is as the patch makes it, inside the block."""
    before = c.client.get(resource, name, namespace)
    c.client.patch(resource, name, patch, namespace, kind, subresource)
    try:
        yield
    finally:
        restore(c, before, subresource)


def restore(c, before, subresource=None):
    """Put the object back as it was, also when it was deleted."""
    before = copy.deepcopy(before)
    resource, name, namespace = before["kind"], before["metadata"]["name"], before["metadata"].get("namespace")
    live = c.client.find(resource, name, namespace)
    if live:
        before["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
        before["metadata"].pop("managedFields", None)
        c.client.replace(before, subresource)
        return
    for key in ("resourceVersion", "uid", "creationTimestamp", "managedFields"):
        before["metadata"].pop(key, None)
    c.client.create(before, namespace)


@contextlib.contextmanager
def deleted(c, resource, name, namespace=None):
    before = c.client.get(resource, name, namespace)
    c.client.delete(resource, name, namespace)
    try:
        yield
    finally:
        restore(c, before)


def check_wrong(done, group, *words, mend):
    """This one line, and no other that says wrong."""
    wrong = done.of("wrong")
    assert len(wrong) == 1 and done.code == 1, done.text
    assert wrong[0].startswith(group + ": "), done.text
    text, _, command = wrong[0].partition("; mend it: ")
    for word in words:
        assert word in text, done.text
    assert command == mend, done.text


# ---- all is well ----

def test_all_is_well(c):
    done = doctor(c)
    assert done.code == 0 and not done.errors, done.text
    assert {x.partition(":")[0] for x in done.of("ok")} == GROUPS
    assert done.of("wrong") == done.of("not checked") == []
    assert done.text.endswith("\nall is well\n")


def test_json(c):
    with changed(c, MUTATING, "poolgate", [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail"}], kind="json"):
        done = doctor(c, "--json")
        text = doctor(c)
    report = json.loads(done.text)
    assert done.code == 1 and report["ok"] is False and report["wrong"] == 1 and report["notChecked"] == 0
    assert {f["group"] for f in report["findings"]} == GROUPS
    wrong = [f for f in report["findings"] if f["verdict"] == "wrong"]
    assert [(f["group"], f["mend"]) for f in wrong] == [("webhooks", APPLY)]
    assert len(report["findings"]) == len(text.lines)


def everything(c):
    """resourceVersion of every object, but for what the cluster itself writes."""
    found = {}
    for r in c.discovery.found:
        if "list" not in r["verbs"] or r["plural"] in ("events", "leases", "componentstatuses"):
            continue
        with contextlib.suppress(kube.ApiError):
            for o in c.client.call("GET", f"{r['prefix']}/{r['plural']}").get("items") or []:
                found[r["plural"], o["metadata"].get("namespace"), o["metadata"]["name"]] = o["metadata"].get("resourceVersion")
    return found


def test_it_changes_nothing(c):
    def once():
        keep_lease(c)
        before, lease = everything(c), c.client.get(LEASES, LEASE, SYSTEM)
        assert len(before) > 50
        assert doctor(c, fresh=False).code == 0
        assert c.client.get(LEASES, LEASE, SYSTEM) == lease
        after = everything(c)
        return {k: (before.get(k), after.get(k)) for k in before.keys() | after.keys() if before.get(k) != after.get(k)}

    # What the API server itself writes now and then is not what changes each time.
    first = once()
    assert not first or not first.keys() & once().keys(), first


def test_audit_log(c):
    """Not the doctor's: what both hooks tell the API server's audit log beside their answers, as it writes it down."""
    events = [json.loads(line) for line in c.audit.read_text(encoding="utf-8").splitlines()]
    told = {e["objectRef"]["name"]: {k: v for k, v in e.get("annotations", {}).items() if "poolgate.io/" in k and "admission.k8s.io" not in k}
            for e in events if e["objectRef"].get("namespace") == "ml"}
    claim = next(x for s in c.client.items(SERVERS) for x in s["status"].get("claims", []))
    server = next(s["metadata"]["name"] for s in c.client.items(SERVERS) if s["status"].get("claims"))
    assert told["train"] == {"mutate.poolgate.io/plan": claim["plan"], "validate.poolgate.io/plan": claim["plan"],
                             "validate.poolgate.io/claim": f"{server}/gpu-0={claim['gpus'][0]['bytes']}"}, told
    greedy = told["greedy"]
    assert set(greedy) == {"mutate.poolgate.io/plan", "validate.poolgate.io/plan", "validate.poolgate.io/reason"}, told
    assert greedy["validate.poolgate.io/reason"] == "NoCapacity"


# ---- each thing broken ----

def hook(path, value, op="replace"):
    return [{"op": op, "path": "/webhooks/0/" + path, **({"value": value} if op != "remove" else {})}]


@pytest.mark.parametrize("resource, patch, words", [
    (MUTATING, hook("failurePolicy", "Fail"), ["mutate.poolgate.io has failurePolicy Fail, expected Ignore"]),
    (VALIDATING, hook("failurePolicy", "Ignore"), ["validate.poolgate.io has failurePolicy Ignore, expected Fail"]),
    (MUTATING, hook("reinvocationPolicy", "Never"), ["mutate.poolgate.io has reinvocationPolicy Never, expected IfNeeded"]),
    (VALIDATING, hook("clientConfig/service/path", "/mutate"), ["calls poolgate-system/poolgate:443/mutate, expected", "/validate"]),
    (VALIDATING, hook("clientConfig/service/name", "other"), ["calls poolgate-system/other:443/validate"]),
    (VALIDATING, hook("rules/0/operations", ["CREATE"]), ["validate.poolgate.io has other rules than this version's"]),
    (VALIDATING, hook("matchConditions/1/expression", "false"), ["has other matchConditions"]),
    (MUTATING, hook("matchConditions", None, "remove"), ["mutate.poolgate.io has other matchConditions"]),
    (VALIDATING, hook("namespaceSelector", {}), ["is called for pods of poolgate-system"]),
    (VALIDATING, [{"op": "remove", "path": "/webhooks/1"}], ["has no hook warn.poolgate.io"]),
], ids=range(10))
def test_webhooks(c, resource, patch, words):
    with changed(c, resource, "poolgate", patch, kind="json"):
        done = doctor(c)
    if "matchConditions" in patch[0]["path"] and patch[0]["op"] == "remove":
        assert done.of("wrong")[0].startswith("webhooks: ") and words[0] in done.text
    else:
        check_wrong(done, "webhooks", *words, mend=APPLY)


@pytest.mark.parametrize("resource, words", [(MUTATING, "there is no MutatingWebhookConfiguration poolgate: no pod is injected"),
                                             (VALIDATING, "there is no ValidatingWebhookConfiguration poolgate: nothing is claimed")])
def test_no_webhook_configuration(c, resource, words):
    with deleted(c, resource, "poolgate"):
        check_wrong(doctor(c), "webhooks", words, mend=APPLY)


def test_other_hooks_are_told(c):
    other = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": "zz-mesh"},
             "webhooks": [{"name": "a.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore",
                           "clientConfig": {"url": "https://127.0.0.1:1/"}, "objectSelector": {"matchLabels": {"never": "there"}},
                           "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]}]}
    c.client.create(other)
    try:
        done = doctor(c)
    finally:
        c.client.delete(MUTATING, "zz-mesh")
    assert done.code == 0 and "1 of them after ours (zz-mesh): ours is called again" in done.text, done.text


def pair(tmp_path, name="poolgate.poolgate-system.svc"):
    """(ca, certificate, key) in PEM: a CA, and a serving pair that it signed."""
    def openssl(*args):
        subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=tmp_path)

    ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *ec, "-days", "30", "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.crt", "-addext",
            "keyUsage=critical,keyCertSign,cRLSign")
    openssl("req", "-x509", *ec, "-CA", "ca.crt", "-CAkey", "ca.key", "-days", "30", "-subj", "/CN=s", "-keyout", "s.key", "-out", "s.crt", "-addext",
            "subjectAltName=DNS:" + name, "-addext", "basicConstraints=critical,CA:FALSE")
    return [(tmp_path / n).read_text() for n in ("ca.crt", "s.crt", "s.key")]


def b64(text):
    return base64.b64encode(text.encode()).decode()


@contextlib.contextmanager
def certificates(c, ca=None, cert=None, key=None):
    """Other certificates: of every hook, of the replicas."""
    with contextlib.ExitStack() as stack:
        if ca is not None:
            for resource in HOOKS:
                hooks = len(c.client.get(resource, "poolgate")["webhooks"])
                stack.enter_context(changed(c, resource, "poolgate", [
                    {"op": "replace", "path": f"/webhooks/{i}/clientConfig/caBundle", "value": b64(ca)} for i in range(hooks)], kind="json"))
        data = {k: b64(v) for k, v in (("tls.crt", cert), ("tls.key", key)) if v}
        if data:
            stack.enter_context(changed(c, "secrets", "poolgate-tls", {"data": data}, SYSTEM))
        yield


DELETE_PAIR = "kubectl -n poolgate-system delete secret poolgate-tls"


def test_certificates(c, tmp_path):
    ca, cert, key = pair(tmp_path)
    with certificates(c, ca, cert, key):
        assert doctor(c).code == 0  # one of somebody else's making is as good
    with certificates(c, cert=cert):
        done = doctor(c)
        assert "key and certificate of Secret poolgate-tls in poolgate-system do not belong together" in done.text, done.text
        assert done.text.count("does not vouch for the serving certificate") == 3
    with certificates(c, ca=ca):
        done = doctor(c)
        assert [x.partition(" does not vouch")[0] for x in done.of("wrong")] == [
            f"certificates: the caBundle of {n}.poolgate.io" for n in ("mutate", "validate", "warn")], done.text
        assert all(x.endswith("; mend it: " + RESTART) for x in done.of("wrong"))
    ca, cert, key = pair(tmp_path, name="poolgate.elsewhere.svc")
    with certificates(c, ca, cert, key):
        check_wrong(doctor(c), "certificates", "is not for poolgate.poolgate-system.svc", mend=DELETE_PAIR)
    with certificates(c, cert="nothing"):
        check_wrong(doctor(c), "certificates", "tls.crt of Secret poolgate-tls in poolgate-system cannot be read", mend=DELETE_PAIR)


def test_no_certificate(c):
    with deleted(c, "secrets", "poolgate-tls", SYSTEM):
        check_wrong(doctor(c), "certificates", "there is no Secret poolgate-tls in poolgate-system", mend=RESTART)
    with changed(c, VALIDATING, "poolgate", hook("clientConfig/caBundle", None, "remove"), kind="json"):
        check_wrong(doctor(c), "certificates", "validate.poolgate.io has no caBundle", mend=RESTART)


def test_rights(c):
    with changed(c, "clusterroles", "poolgate", [{"op": "remove", "path": "/rules/1"}], kind="json"):
        check_wrong(doctor(c), "rights", "the service account poolgate may not update gpuservers/status", mend=APPLY)
    with deleted(c, "rolebindings", "poolgate", SYSTEM):
        done = doctor(c)
    assert "may not create leases in poolgate-system; mend it" in done.text
    assert "may not update leases poolgate-leader in poolgate-system" in done.text
    assert "more rights are missing" in done.text and len(done.of("wrong")) == 6, done.text


def test_crd(c):
    crd = "customresourcedefinitions"
    mend = "kubectl apply -f manifests/base/crd.yaml"
    version = "/spec/versions/0/"
    schema = version + "schema/openAPIV3Schema/properties/spec/properties/"
    with changed(c, crd, "gpuservers.poolgate.io", [{"op": "replace", "path": schema + "drain", "value": {"type": "string"}}], kind="json"):
        check_wrong(doctor(c), "crd", "is another than this version's, at /openAPIV3Schema/properties/spec/properties/drain", mend=mend)
    with changed(c, crd, "gpuservers.poolgate.io", [{"op": "remove", "path": version + "subresources"}], kind="json"):
        check_wrong(doctor(c), "crd", "GPUServer has no status of its own", mend=mend)


def test_leader(c):
    with changed(c, LEASES, LEASE, {"spec": {"renewTime": now(-100)}}, SYSTEM):
        check_wrong(doctor(c, fresh=False), "leader", "nobody leads: poolgate-0_", "has not renewed the Lease for 1", mend=RESTART)
    with changed(c, LEASES, LEASE, {"spec": {"holderIdentity": ""}}, SYSTEM):
        check_wrong(doctor(c), "leader", "nobody leads: claims are taken and none is freed", mend=RESTART)
    with changed(c, LEASES, LEASE, {"spec": {"holderIdentity": "stranger_0a1b2c3d"}}, SYSTEM):
        check_wrong(doctor(c), "leader", "stranger_0a1b2c3d leads, which is no replica here",
                    mend="kubectl get pods -A -l app.kubernetes.io/name=poolgate")
    with changed(c, "pods", "poolgate-0", {"status": {"phase": "Failed"}}, SYSTEM, subresource="status"):
        check_wrong(doctor(c), "leader", "leads, whose pod does not run", mend="kubectl -n poolgate-system describe pod poolgate-0")
    with deleted(c, LEASES, LEASE, SYSTEM):
        check_wrong(doctor(c, fresh=False), "leader", "there is no Lease poolgate-leader", mend=RESTART)


def test_clocks_differ(c):
    """A Lease whose times are long ago, and that changes while the doctor looks, is alive."""
    keep_lease(c, renewTime=now(-3600))
    process = subprocess.Popen([program(), "doctor", "--kubeconfig", c.kubeconfig()], stdout=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.4)
        keep_lease(c, renewTime=now(-3600))
    assert process.communicate(timeout=60)[0].endswith("all is well\n") and process.returncode == 0


def test_replicas(c):
    with changed(c, "deployments", "poolgate", {"spec": {"replicas": 0}}, SYSTEM):
        check_wrong(doctor(c), "replicas", "the Deployment is scaled to 0",
                    mend="kubectl -n poolgate-system scale deployment/poolgate --replicas=2")
    with changed(c, "deployments", "poolgate", {"status": {"readyReplicas": 0}}, SYSTEM, subresource="status"):
        check_wrong(doctor(c), "replicas", "none of 1 replicas is ready",
                    mend="kubectl -n poolgate-system describe pods -l app.kubernetes.io/name=poolgate")
    with deleted(c, "deployments", "poolgate", SYSTEM):
        done = doctor(c)
        assert done.of("wrong")[0].startswith("replicas: there is no Deployment poolgate in poolgate-system"), done.text
    c.client.patch("deployments", "poolgate", {"status": {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "observedGeneration": 1}},
                   SYSTEM, subresource="status")


def test_version_skew(c):
    template = c.client.get("deployments", "poolgate", SYSTEM)["spec"]["template"]
    other = copy.deepcopy(template["spec"])
    other["containers"][0]["image"] = "localhost/poolgate:other"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "poolgate-1", "labels": template["metadata"]["labels"]}, "spec": other}
    ready_pod(c, "poolgate-1", SYSTEM, pod)
    try:
        check_wrong(doctor(c), "versions", "replicas run different images: poolgate-0 has ", "poolgate-1 has localhost/poolgate:other",
                    mend=RESTART)
    finally:
        c.client.delete("pods", "poolgate-1", SYSTEM, grace=0)


def status_of(c, name, **changes):
    return changed(c, SERVERS, name, {"status": changes}, subresource="status")


def conditions(c, name, kind, **changes):
    found = copy.deepcopy(c.client.get(SERVERS, name)["status"]["conditions"])
    next(x for x in found if x["type"] == kind).update(changes)
    return found


def test_servers(c):
    spare = next(s for s in c.client.items(SERVERS) if not s["status"].get("claims"))
    name = spare["metadata"]["name"]
    with status_of(c, name, gpus=2 * spare["status"]["gpus"]):
        check_wrong(doctor(c), "servers", f"{name} cannot be read and takes no claims: /status/gpus/1", "gpu-0",
                    mend=f"kubectl edit gpuserver {name} --subresource=status")
    not_fresh = conditions(c, "gpu-b", "Fresh", status="False", reason="NoAnswer", message="no answer within 5 s")
    next(x for x in not_fresh if x["type"] == "Ready").update(status="False", reason="NotFresh")
    with changed(c, SERVERS, "gpu-b", {"spec": {"gpus": None, "probe": {"url": "https://gpu-b.lab:9443"}}}), \
            status_of(c, "gpu-b", conditions=not_fresh):
        check_wrong(doctor(c), "servers", "gpu-b takes no claims, its probe is stale: no answer within 5 s",
                    mend="ssh gpu-b.lab systemctl restart gpuprobe")
    next(x for x in not_fresh if x["type"] == "Fresh").update(reason="SecretMissing", message="Secret poolgate-system/b-probe is missing")
    with changed(c, SERVERS, "gpu-b", {"spec": {"gpus": None, "probe": {"url": "https://gpu-b.lab:9443", "tokenSecret": "b-probe"}}}), \
            status_of(c, "gpu-b", conditions=not_fresh):
        check_wrong(doctor(c), "servers", "gpu-b takes no claims: Secret poolgate-system/b-probe is missing",
                    mend="kubectl -n poolgate-system create secret generic b-probe --from-file=token --dry-run=client -o yaml | "
                         "kubectl apply -f -")
    with status_of(c, "gpu-b", conditions=conditions(c, "gpu-b", "Ready", status="False", reason="NoneFit", message="none is fit")):
        check_wrong(doctor(c), "servers", "gpu-b takes no claims: none is fit", mend="kubectl edit gpuserver gpu-b")
    with status_of(c, "gpu-b", conditions=[]):
        check_wrong(doctor(c), "servers", "no leader has looked at gpu-b yet", mend=RESTART)
    with changed(c, SERVERS, "gpu-b", {"spec": {"drain": True}}):
        done = doctor(c)
        assert done.code == 0 and "drained: gpu-b" in done.text, done.text


def test_a_gpu_is_promised_twice(c):
    holder = next(s for s in c.client.items(SERVERS) if s["status"].get("claims"))
    claim = copy.deepcopy(holder["status"]["claims"][0])
    claim.update(uid="0e3d1fd8-0000-4000-8000-000000000001", name="other", state="adopted", since=now()[:19] + "Z")
    name = holder["metadata"]["name"]
    with status_of(c, name, claims=holder["status"]["claims"] + [claim]):
        check_wrong(doctor(c), "servers", f"gpu-0 of {name} is promised twice: 32000 MB are held of its 16000 MB, by ml/train 16000 MB since ",
                    ", ml/other 16000 MB since ", "; it takes nothing new until its sum fits: wait until one of them has ended, or have its "
                    "owner delete one", mend="")


def test_no_servers(c):
    kept = [c.client.get(SERVERS, n) for n in ("gpu-a", "gpu-b")]
    for s in kept:
        c.client.patch(SERVERS, s["metadata"]["name"], {"metadata": {"finalizers": None}})
        c.client.delete(SERVERS, s["metadata"]["name"])
    try:
        done = doctor(c)
        assert "servers: there is no GPUServer: every GPU pod is refused; mend it: kubectl apply -f manifests/examples/gpuservers.yaml" \
            in done.text, done.text
        assert "pods: ml/train was injected and lives, and has no claim" in done.text
    finally:
        for s in kept:
            restore(c, s)
            c.client.patch(SERVERS, s["metadata"]["name"], {"status": s["status"]}, subresource="status")


def test_secrets(c):
    """A pod that waits, for a Secret that is not there."""
    born = datetime.datetime.fromisoformat(c.client.get("pods", "train", "ml")["metadata"]["creationTimestamp"].replace("Z", "+00:00"))
    with deleted(c, "secrets", "bitfusion-client-secret-ca.crt", "ml"):
        # The leader would need some seconds to bring one.
        wait_for(lambda: datetime.datetime.now(datetime.timezone.utc) - born > datetime.timedelta(seconds=32), 60, "a pod that waits long")
        check_wrong(doctor(c), "secrets", "pods in ml wait for Secret bitfusion-client-secret-ca.crt",
                    mend="kubectl apply -k manifests/overlays/secrets")


@contextlib.contextmanager
def secrets_sync(c):
    """As the replicas' settings say with the overlay `secrets`; its rights are applied."""
    name = next(s["configMap"]["name"] for v in c.client.get("deployments", "poolgate", SYSTEM)["spec"]["template"]["spec"]["volumes"]
                if v["name"] == "config" for s in v["projected"]["sources"])
    text = c.client.get("configmaps", name, SYSTEM)["data"]["poolgate.yaml"].replace("sync: false", "sync: true")
    objects = c.render(os.path.join(ROOT, "manifests/overlays/secrets"))
    rights = [o for o in objects if "secrets" in o["metadata"]["name"] and o["kind"] in (
        "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ConfigMap") and o["metadata"]["name"].startswith("poolgate-secret")]
    assert len(rights) >= 5
    for o in rights:
        c.client.apply(o)
    try:
        with changed(c, "configmaps", name, {"data": {"poolgate.yaml": text}}, SYSTEM):
            yield
    finally:
        for o in rights:
            c.client.delete(o["kind"], o["metadata"]["name"], o["metadata"].get("namespace"))


def test_secrets_that_are_copied(c):
    source = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bitfusion-secret"}, "stringData": {"ca.crt": "x"}}
    opened = "kubectl -n ml create rolebinding poolgate-secrets --clusterrole=poolgate-secrets --serviceaccount=poolgate-system:poolgate"
    with secrets_sync(c):
        done = doctor(c)
        assert [x.partition(";")[0] for x in done.of("wrong")] == [
            "secrets: there is no Secret bitfusion-secret in kube-system: nothing can be copied into namespaces",
            "secrets: namespace ml has GPU pods and is not open for the client's Secrets"], done.text
        c.client.create(source, "kube-system")
        try:
            check_wrong(doctor(c), "secrets", "namespace ml has GPU pods and is not open", mend=opened)
            c.kubectl(*opened.split()[1:])
            done = doctor(c)
            assert done.code == 0 and "secrets: Secret bitfusion-secret in kube-system is there, 1 namespaces" in done.text, done.text
            c.client.patch("secrets", "bitfusion-secret", {"data": {"ca.crt": None, "other": "eA=="}}, "kube-system")
            check_wrong(doctor(c), "secrets", "has none of the keys ca.crt, client.yaml, servers.conf",
                        mend="kubectl create secret generic bitfusion-secret --from-file=tokens -n kube-system")
        finally:
            c.client.delete("secrets", "bitfusion-secret", "kube-system")
            c.client.delete("rolebindings", "poolgate-secrets", "ml")


def test_nodes(c):
    offer(c, "0")
    check_wrong(doctor(c), "nodes", "1 of 1 nodes know bitfusion.io/gpu, and offer 0 of it", mend="kubectl get gpuservers")
    offer(c, None)
    check_wrong(doctor(c), "nodes", "no node offers bitfusion.io/gpu", "install the device plugin",
                mend="kubectl label nodes NODE poolgate.io/gpu-client= && kubectl apply -k manifests/overlays/device-plugin")
    with changed(c, "nodes", "worker", {"metadata": {"labels": {"poolgate.io/gpu-client": ""}}}):
        check_wrong(doctor(c), "nodes", "though 1 have the label poolgate.io/gpu-client",
                    mend="kubectl apply -k manifests/overlays/device-plugin")
    offer(c, "1k")
    assert doctor(c).code == 0


def test_pods_of_the_origin(c):
    for i in range(7):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"old-{i}", "annotations": {"auto-management/status": "injected"}},
               "spec": {"containers": [{"name": "a", "image": "a"}]}}
        c.client.create(pod, "ml")
    try:
        done = doctor(c)
        assert len(done.of("wrong")) == 6 and "and 2 more pods without a plan" in done.text, done.text
        for i in range(1, 7):
            c.client.delete("pods", f"old-{i}", "ml", grace=0)
        check_wrong(doctor(c), "pods", "ml/old-0 was injected by the origin, not by us: it has no plan, and nothing is claimed for it",
                    mend="kubectl -n ml delete pod old-0")
    finally:
        c.client.delete("pods", "old-0", "ml", grace=0)
    assert doctor(c).code == 0


def test_claims_and_pods(c):
    holder = next(s for s in c.client.items(SERVERS) if s["status"].get("claims"))
    name, held = holder["metadata"]["name"], holder["status"]["claims"]
    with status_of(c, name, claims=[]):
        check_wrong(doctor(c), "pods", "ml/train was injected and lives, and has no claim", mend=RESTART)
    gone = {**held[0], "uid": "0e3d1fd8-0000-4000-8000-000000000002", "name": "gone", "since": now(-600)[:19] + "Z",
            "gpus": [{**g, "bytes": 0} for g in held[0]["gpus"]]}
    with status_of(c, name, claims=held + [gone]):
        check_wrong(doctor(c), "pods", f"{name} still holds a claim of ml/gone, which has ended: no leader frees it", mend=RESTART)
    gone["since"] = now()[:19] + "Z"
    with status_of(c, name, claims=held + [gone]):
        assert doctor(c).code == 0  # the leader is about to end it


# ---- rights, and no answer ----

def account(c, name, rules=None):
    """A service account's kubeconfig, with these rules in the whole cluster."""
    c.client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}, "ml")
    if rules:
        meta = {"name": "test-" + name}
        c.client.create({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": meta, "rules": rules})
        c.client.create({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": meta,
                         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": meta["name"]},
                         "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "ml"}]})
    return c.account_kubeconfig("ml", name)


def test_without_rights_nothing_is_checked(c):
    """Neither right nor wrong: and no wrong thing is believed to be right, though everything is broken."""
    done = doctor(c, kubeconfig=account(c, "nobody"))
    assert done.code == 0 and done.of("wrong") == [], done.text
    assert {x.partition(":")[0] for x in done.of("ok")} <= {"versions"}, done.text
    assert {x.partition(":")[0] for x in done.of("not checked")} >= GROUPS - {"versions"}, done.text
    assert "not checked  certificates: may not read Secret poolgate-tls in poolgate-system" in done.text
    assert "not checked  rights: may not read what others may do (create subjectaccessreviews)" in done.text
    assert done.text.splitlines()[-1].startswith("nothing wrong was found, ")
    assert doctor(c, "--json", kubeconfig=c.kubeconfig("sa-ml-nobody", c.account_token("ml", "nobody"))).code == 0


def test_with_the_rights_of_a_reader(c):
    """get and list alone, no Secrets: everything but what rests on Secrets and on asking for others' rights."""
    rules = [{"apiGroups": ["*"], "verbs": ["get", "list"], "resources": [
        "pods", "nodes", "deployments", "configmaps", "leases", "gpuservers", "customresourcedefinitions", MUTATING, VALIDATING]}]
    reader = account(c, "reader", rules)
    done = doctor(c, kubeconfig=reader)
    assert done.code == 0, done.text
    assert {x.partition(":")[0] for x in done.of("not checked")} == {"rights", "certificates", "secrets"}, done.text
    with changed(c, MUTATING, "poolgate", hook("failurePolicy", "Fail"), kind="json"):
        check_wrong(doctor(c, kubeconfig=reader), "webhooks", "failurePolicy Fail", mend=APPLY)


def test_as_the_replicas_own_account(c):
    """What `kubectl exec` in a replica sees: it asks for its own rights, and reads what it may."""
    done = doctor(c, kubeconfig=c.account_kubeconfig(SYSTEM, "poolgate"))
    assert done.code == 0 and done.of("wrong") == [], done.text
    assert any(x.startswith("rights: the service account poolgate has its ") for x in done.of("ok")), done.text
    assert any(x.startswith("certificates: ") for x in done.of("ok")), done.text
    assert any(x.startswith("pods: ") for x in done.of("ok"))
    assert "not checked  crd: may not read CustomResourceDefinition gpuservers.poolgate.io" in done.text
    with changed(c, "clusterroles", "poolgate", [{"op": "remove", "path": "/rules/1"}], kind="json"):
        assert "may not update gpuservers/status" in doctor(c, kubeconfig=c.account_kubeconfig(SYSTEM, "poolgate")).text


def test_no_answer(c, tmp_path):
    """Exit status 3, or 2 for wrong usage, a sentence, nothing on standard output."""
    def fails(*words, args=(), env=None, status=3):
        done = run(*args, env=env)
        assert done.returncode == status and done.stdout == "", done
        assert all(w in done.stderr for w in words), done.stderr

    fails("no cluster is named", env={"HOME": str(tmp_path)})
    fails("nowhere", args=["--kubeconfig", "nowhere"])
    fails("several files", env={"KUBECONFIG": "a:b"})
    fails("unexpected word", args=["--kubeconfig", c.kubeconfig(), "now"], status=2)
    fails("unknown option --unknown", args=["--unknown"], status=2)
    fails("takes a namespace's name", args=["-n", "../etc", "--kubeconfig", c.kubeconfig()], status=2)
    with open(c.kubeconfig(), encoding="utf-8") as f:
        c_text = f.read()
    config = json.loads(c_text)
    config["users"][0]["user"]["token"] = "wrong"
    (tmp_path / "wrong").write_text(json.dumps(config))
    fails("401", args=["--kubeconfig", str(tmp_path / "wrong")])
    insecure = json.loads(c_text)
    del insecure["clusters"][0]["cluster"]["certificate-authority-data"]
    (tmp_path / "unsigned").write_text(json.dumps(insecure))
    fails("certificate", args=["--kubeconfig", str(tmp_path / "unsigned")])
    insecure["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
    (tmp_path / "insecure").write_text(json.dumps(insecure))
    assert run("--kubeconfig", str(tmp_path / "insecure")).returncode in (0, 1)
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    (tmp_path / "away").write_text(json.dumps(config))
    fails("127.0.0.1:1", args=["--kubeconfig", str(tmp_path / "away")])
    done = run(env={"KUBECONFIG": c.kubeconfig()})
    assert done.returncode in (0, 1) and done.stdout.count("\n") > 10


def test_well_at_the_end(c):
    """Whatever the tests above have broken is as it was."""
    done = doctor(c)
    assert done.code == 0, done.text
