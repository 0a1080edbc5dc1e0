# SPDX-License-Identifier: Apache-2.0
"""Certificates in a cluster whose reviews must not fail meanwhile: renewed by the leader, and by cert-manager. One cluster of its own."""
import base64
import hashlib
import os
import re
import socket
import ssl
import subprocess
import threading
import time

import pytest
import yaml

import host
import kube
import product
from cluster import Cluster
from load import Load
from product import ROOT, SYSTEM, wait_for

ACCOUNT = "system:serviceaccount:poolgate-system:poolgate"
GROUPS = ["system:serviceaccounts", "system:serviceaccounts:poolgate-system", "system:authenticated"]
NAME = "poolgate.poolgate-system.svc"
HOOKS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
# Renewed after 24 s, the CA after 54 s. The CA's next one is used 6 s after it is published; 12 s are left at the end of each life.
SHORT = {"validity": "36s", "caValidity": "81s", "publishWait": "6s", "dropWait": "6s"}
RENEWALS = 3


@pytest.fixture(scope="module", name="c")
def fixture_cluster():
    with Cluster(name="certificates") as c:
        yield c


@pytest.fixture(scope="module", name="image")
def fixture_image(c):
    return c.import_image(os.environ.get("POOLGATE_IMAGE") or os.path.join(ROOT, "build/image/poolgate.oci.tar"))[0]


@pytest.fixture(scope="module", name="ns")
def fixture_ns(c):
    with c.namespace() as ns:
        product.client_secrets(c, ns)
        yield ns


def composed(folder, image, components=(), tls=None):
    """A kustomization as an operator writes one: the image, components, and settings of his own."""
    name, _, tag = image.rpartition(":")
    files = {"resources": [os.path.relpath(os.path.join(ROOT, "manifests/base"), folder)],
             "components": [os.path.relpath(os.path.join(ROOT, "manifests/components", n), folder) for n in components],
             "images": [{"name": "localhost/poolgate", "newName": name, "newTag": tag}],
             "configMapGenerator": [product.own_client(folder)]}
    if tls:
        with open(os.path.join(ROOT, "manifests/base/config/poolgate.yaml"), encoding="utf-8") as f:
            settings = yaml.safe_load(f)
        settings["cluster"]["tls"].update(tls)
        with open(folder / "poolgate.yaml", "w", encoding="utf-8") as f:
            yaml.safe_dump(settings, f)
        files["configMapGenerator"].append({"name": "poolgate-config", "namespace": SYSTEM, "behavior": "merge", "files": ["poolgate.yaml"]})
    with open(folder / "kustomization.yaml", "w", encoding="utf-8") as f:
        yaml.safe_dump(files, f)
    return str(folder)


# ---- certificates ----

def split(pem):
    return re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", pem, re.DOTALL)


def prints(pem):
    """Fingerprints of the certificates in it."""
    return tuple(hashlib.sha256(ssl.PEM_cert_to_DER_cert(one)).hexdigest()[:12] for one in split(pem))


def decoded(text):
    return base64.b64decode(text or "").decode()


def bundles(configuration):
    return [decoded(h["clientConfig"].get("caBundle")) for h in configuration["webhooks"]]


class Handshakes:
    """Connects to every ready replica as an API server without open connections does, again and again: a new handshake, checked against
    the caBundle that the hooks have at this moment. seen: pod's name -> fingerprints of the certificates that it showed, in their order."""

    def __init__(self, cluster):
        self.cluster, self.seen, self.problems, self.count = cluster, {}, [], 0
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _targets(self, client):
        for pod in client.items("pods", SYSTEM):
            conditions = {x["type"]: x["status"] for x in pod["status"].get("conditions", [])}
            if conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]:
                yield pod["metadata"]["name"], pod["status"]["podIP"]

    def _connect(self, bundle, address):
        context = ssl.create_default_context(cadata=bundle)
        with socket.create_connection((address, 8443), timeout=10) as raw, context.wrap_socket(raw, server_hostname=NAME) as tls:
            return hashlib.sha256(tls.getpeercert(binary_form=True)).hexdigest()[:12]

    def _run(self):
        client = self.cluster.client_for("admin")
        while not self.ending.wait(0.2):
            for name, address in list(self._targets(client)):
                for kind in HOOKS:
                    bundle = bundles(client.get(kind, "poolgate"))[0]
                    try:
                        shown = self._connect(bundle, address)
                    except (OSError, ssl.SSLError) as e:
                        self.problems.append(f"{name} with {prints(bundle)} of {kind}: {e!r}")
                        continue
                    self.count += 1
                    seen = self.seen.setdefault(name, [])
                    if shown not in seen:
                        seen.append(shown)

    def check(self):
        assert not self.problems, f"{len(self.problems)} of {self.count} handshakes failed: {self.problems[:5]}"

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.ending.set()
        self.thread.join(60)
        if kind is None:
            self.check()


def made_by(cert, bundle, folder):
    """Does the bundle hold the CA that signed this certificate? Whatever the time is."""
    for name, text in (("cert", cert), ("bundle", bundle)):
        with open(folder / name, "w", encoding="utf-8") as f:
            f.write(text)
    done = subprocess.run(["openssl", "verify", "-no_check_time", "-CAfile", folder / "bundle", folder / "cert"], capture_output=True,
                          check=False)
    return done.returncode == 0


def history(secrets, mutating, validating):
    """(what, object) of all that happened, in the order in which the API server stored it: one counter numbers all its objects."""
    events = [(what, o) for what, seen in (("pair", secrets), ("mutating", mutating), ("validating", validating))
              for _, kind, o in seen.events if kind != "DELETED" and o["metadata"]["name"] in ("poolgate", "poolgate-tls")]
    return sorted(events, key=lambda e: int(e[1]["metadata"]["resourceVersion"]))


def pair_fits_bundles(events, folder):
    """At no moment may a replica show a pair that a hook's bundle does not know; how the bundle of the validating hooks went on."""
    latest, known, way = {}, {}, []
    for what, obj in events:
        latest[what] = obj
        if len(latest) < 3:
            continue
        cert = decoded(latest["pair"]["data"]["tls.crt"])
        for bundle in bundles(latest["mutating"]) + bundles(latest["validating"]):
            key = prints(cert), prints(bundle)
            if key not in known:
                known[key] = made_by(cert, bundle, folder)
            assert known[key], f"the pair {key[0]} is in force while a hook trusts {key[1]} alone"
        now = prints(bundles(latest["validating"])[0])
        if not way or way[-1] != now:
            way.append(now)
    return way


# ---- the leader's own ----

def test_renewed_three_times_under_load(c, ns, image, tmp_path):
    """Short-lived certificates: the leader renews the pair three times and the CA once while pods are created and every replica is
    connected to anew all the time. A pair that is used before its CA is published, a CA that is dropped too early, or a replica that
    does not take up a new pair fails a create or a handshake."""
    c.kubectl("apply", "-k", composed(tmp_path, image, tls=SHORT))
    c.kubectl("-n", SYSTEM, "rollout", "status", "deployment/poolgate", "--timeout=120s", timeout=150)
    wait_for(lambda: all(all(bundles(c.client.get(kind, "poolgate"))) for kind in HOOKS), 30, "a caBundle in every hook")
    by_name = {"fieldSelector": "metadata.name=poolgate"}
    with product.servers(c, {"gpu-a": 1}), kube.Observer(c.client, "secrets", SYSTEM) as secrets, \
            kube.Observer(c.client, HOOKS[0], **by_name) as mutating, kube.Observer(c.client, HOOKS[1], **by_name) as validating:
        began = time.monotonic()
        with Load(c, ns, 12, dry=True) as load, Handshakes(c) as connected:

            def pairs():
                found = []
                for _, _, s in secrets.events:
                    if s["metadata"]["name"] == "poolgate-tls" and (now := prints(decoded(s["data"]["tls.crt"]))[0]) not in found:
                        found.append(now)
                return found

            def renewed():
                load.check()
                connected.check()
                way = [prints(bundles(o)[0]) for _, _, o in validating.events]
                dropped = any(len(b) == 2 for b in way) and way[-1:] and len(way[-1]) == 1 and way[-1] != way[0]
                return len(pairs()) > RENEWALS and dropped and all(set(pairs()[:RENEWALS + 1]) <= set(s) for s in connected.seen.values())

            wait_for(renewed, 240, lambda: f"{RENEWALS} renewals and another CA; pairs {pairs()}, shown {connected.seen}, bundles "
                     f"{[prints(bundles(o)[0]) for _, _, o in validating.events]}")
            load.wait(made=20)
        print(f"certificates: {len(pairs()) - 1} renewals in {time.monotonic() - began:.0f} s, {load.made} creates, {load.per_second:.1f} "
              f"a second, the slowest {load.slowest:.2f} s, {connected.count} handshakes")
        way = pair_fits_bundles(history(secrets, mutating, validating), tmp_path)
        # One CA, both, the other: the new one comes before the old one goes.
        assert len(way) >= 3 and [len(b) for b in way[:3]] == [1, 2, 1], way
        assert way[0][0] in way[1] and way[2][0] in way[1] and way[0] != way[2], way
        assert len(connected.seen) == 2, connected.seen
        assert {p["metadata"]["name"]: sum(s["restartCount"] for s in p["status"]["containerStatuses"])
                for p in c.client.items("pods", SYSTEM)} == dict.fromkeys(connected.seen, 0)


# ---- cert-manager ----

def make_ca(folder):
    host.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3650", "-subj",
             "/CN=poolgate CA", "-keyout", f"{folder}/ca.key", "-out", f"{folder}/ca.crt",
             "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    return (folder / "ca.crt").read_text()


def make_pair(folder):
    """As the Certificate of components/cert-manager asks for it."""
    host.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "90", "-subj", "/",
             "-CA", f"{folder}/ca.crt", "-CAkey", f"{folder}/ca.key", "-keyout", f"{folder}/tls.key", "-out", f"{folder}/tls.crt",
             "-addext", f"subjectAltName=critical,DNS:{NAME},DNS:{NAME}.cluster.local", "-addext", "keyUsage=critical,digitalSignature",
             "-addext", "extendedKeyUsage=serverAuth", "-addext", "basicConstraints=critical,CA:FALSE")
    return (folder / "tls.crt").read_text(), (folder / "tls.key").read_text()


def write_secret(c, ca, cert, key):
    """As cert-manager does: server-side apply, its annotations, its label, ca.crt beside the pair. The pair's fingerprint."""
    c.client.apply({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": "poolgate-tls", "namespace": SYSTEM, "labels": {"controller.cert-manager.io/fao": "true"}, "annotations": {
            "cert-manager.io/certificate-name": "poolgate", "cert-manager.io/common-name": "", "cert-manager.io/uri-sans": "",
            "cert-manager.io/alt-names": f"{NAME},{NAME}.cluster.local", "cert-manager.io/ip-sans": "",
            "cert-manager.io/issuer-group": "", "cert-manager.io/issuer-kind": "Issuer", "cert-manager.io/issuer-name": "poolgate"}},
        "data": {k: base64.b64encode(v.encode()).decode() for k, v in (("ca.crt", ca), ("tls.crt", cert), ("tls.key", key))}},
        manager="cert-manager-certificates-issuing")
    return prints(cert)[0]


def inject_ca(c, ca):
    """As cert-manager's CA injector does where its annotation says so."""
    for kind in HOOKS:
        hooks = c.client.get(kind, "poolgate")
        assert hooks["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] == SYSTEM + "/poolgate"
        for hook in hooks["webhooks"]:
            hook["clientConfig"]["caBundle"] = base64.b64encode(ca.encode()).decode()
        c.client.replace(hooks)


def foreign_kinds(c):
    for kind, plural in (("Certificate", "certificates"), ("Issuer", "issuers")):
        c.client.create({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": plural + ".cert-manager.io"},
            "spec": {"group": "cert-manager.io", "scope": "Namespaced", "names": {"kind": kind, "plural": plural}, "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}})
        c.kubectl("wait", "--for=condition=Established", f"crd/{plural}.cert-manager.io", "--timeout=30s")


def shown_by_all(connected, wanted, number=2):
    connected.check()
    return len([s for s in connected.seen.values() if s[-1] == wanted]) == number


def test_cert_manager(c, ns, image, tmp_path):
    """With components/cert-manager: replicas wait for the Secret, every one serves what cert-manager writes into it and takes up what
    replaces it, while pods are created; and nobody of ours writes it, or may."""
    c.kubectl("-n", SYSTEM, "delete", "deployment", "poolgate", "--cascade=foreground", "--ignore-not-found")
    c.kubectl("-n", SYSTEM, "delete", "secrets", "poolgate-ca", "poolgate-tls", "--ignore-not-found")
    for kind in ("role", "rolebinding", "clusterrole", "clusterrolebinding"):
        c.kubectl("-n", SYSTEM, "delete", kind, "poolgate-certificates", "--ignore-not-found")
    foreign_kinds(c)
    c.kubectl("apply", "-k", composed(tmp_path, image, components=["cert-manager"]))
    wait_for(lambda: [p for p in c.client.items("pods", SYSTEM) if p["status"].get("phase") == "Running"], 60, "replicas that run")
    ca = make_ca(tmp_path)
    inject_ca(c, ca)
    # Nobody else makes one: it is not there, and nobody is ready.
    assert not c.client.find("secrets", "poolgate-tls", SYSTEM)
    assert c.client.get("deployments", "poolgate", SYSTEM)["status"].get("readyReplicas", 0) == 0
    first = write_secret(c, ca, *make_pair(tmp_path))
    c.kubectl("-n", SYSTEM, "rollout", "status", "deployment/poolgate", "--timeout=120s", timeout=150)
    with product.servers(c, {"gpu-b": 1}), Load(c, ns, 12, dry=True) as load, Handshakes(c) as connected:
        wait_for(lambda: shown_by_all(connected, first), 60, "the first pair on both replicas")
        load.wait(made=20)
        for _ in range(2):
            pair = write_secret(c, ca, *make_pair(tmp_path))
            wait_for(lambda p=pair: shown_by_all(connected, p), 60, lambda: f"the new pair on both replicas: {connected.seen}")
            load.wait(made=20)
    assert all(bundle == ca for kind in HOOKS for bundle in bundles(c.client.get(kind, "poolgate")))
    assert not c.client.find("secrets", "poolgate-ca", SYSTEM)
    managers = {m["manager"] for m in c.client.get("secrets", "poolgate-tls", SYSTEM)["metadata"]["managedFields"]}
    assert managers == {"cert-manager-certificates-issuing"}
    for verb in ("create", "update", "patch", "delete"):
        assert not c.client.allowed(verb, "secrets", SYSTEM, ACCOUNT, GROUPS, name="poolgate-tls"), verb
        for kind in HOOKS:
            assert not c.client.allowed(verb, kind, None, ACCOUNT, GROUPS, group="admissionregistration.k8s.io", name="poolgate"), verb
    assert c.client.allowed("watch", "secrets", SYSTEM, ACCOUNT, GROUPS, name="poolgate-tls")
