# SPDX-License-Identifier: Apache-2.0
"""The yardstick of `make bench-ledger`: namespaces whose pods meet no webhook, or two that answer a constant, beside poolgate's own.

    with NoOp(cluster, programs, replicas, pod) as noop:    # poolgate's hooks are installed and leave noop's namespaces alone
        noop.namespaces                                     # NAMES -> namespace

The two have the rules and conditions of the shipped configurations: the API server calls them for the same pods. "constant" allows;
"patch" allows with what poolgate would patch into this pod, and so costs the API server the same mutation."""
import base64
import contextlib
import copy
import http.client
import json
import os
import ssl

import host
from component import Component
from lib import reviews

NAMES = ("none", "constant", "patch")
PORT = 8443
RESOURCES = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
OWN = "kubernetes.io/metadata.name"


class NoOp:
    def __init__(self, cluster, programs, replicas, pod):
        self.cluster, self.programs, self.replicas, self.pod = cluster, programs, replicas, pod
        self.namespaces = {name: "bench-" + name for name in NAMES}
        self.undo = contextlib.ExitStack()
        self.component = None

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.undo.close()
            raise
        return self

    def __exit__(self, *_):
        self.undo.close()

    def _start(self):
        for name in self.namespaces.values():
            self.undo.enter_context(self.cluster.namespace(name))
        address, folder = self.cluster.add_address(), self.cluster.dir
        host.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                 "/CN=noop", "-addext", "subjectAltName=IP:" + address, "-keyout", f"{folder}/noop.key", "-out", f"{folder}/noop.crt")
        self._leave_alone()
        host.until(lambda: self._made("none") == self.pod["spec"]["containers"][0]["command"], 30, "hooks that leave these namespaces alone")
        with open(f"{folder}/noop.patch", "wb") as f:
            f.write(base64.b64encode(self._patch()))
        self.component = Component("noop", [os.path.join(self.programs, "fixed"), f"{address}:{PORT}", f"{folder}/noop.crt",
                                            f"{folder}/noop.key", f"@{folder}/noop.patch"],
                                   self.cluster.log_path("noop"), self.cluster.slot.journal)
        self.component.start()
        self.undo.callback(self.component.stop)
        with open(f"{folder}/noop.crt", "rb") as f:
            ca = base64.b64encode(f.read()).decode()
        for resource in RESOURCES:
            self._hooks(resource, f"https://{address}:{PORT}", ca)
        host.until(lambda: self._made("patch") != self._made("none"), 30, "a patch of the constant hook")

    def _leave_alone(self):
        for resource in RESOURCES:
            hooks = self.cluster.client.get(resource, "poolgate")["webhooks"]
            path = "namespaceSelector/matchExpressions/0/values"
            values = hooks[0]["namespaceSelector"]["matchExpressions"][0]["values"] + list(self.namespaces.values())
            self.cluster.client.patch(resource, "poolgate", [{"op": "replace", "path": f"/webhooks/{i}/{path}", "value": values}
                                                             for i in range(len(hooks))], kind="json")

    def _made(self, name):
        """What the pod's command becomes there."""
        return self.cluster.client.create(self.pod, self.namespaces[name], dry_run=True)["spec"]["containers"][0]["command"]

    def _patch(self):
        """poolgate's, under names of nobody's: its leader would adopt pods that carry its marks."""
        pod = self.cluster.client.create(self.pod, self.namespaces["none"], dry_run=True)
        connection = http.client.HTTPSConnection(self.replicas.addresses[0], PORT, timeout=10, context=ssl._create_unverified_context())
        connection.request("POST", "/mutate", json.dumps(reviews.review(pod, dry_run=True)), {"Content-Type": "application/json"})
        response = json.loads(connection.getresponse().read())["response"]
        connection.close()
        return base64.b64decode(response["patch"]).replace(b"poolgate.io", b"poolgate.no")

    def _hooks(self, resource, url, ca):
        """A copy of poolgate's first hook for each namespace that has some."""
        shipped = self.cluster.client.get(resource, "poolgate")["webhooks"][0]
        for name in NAMES[1:]:
            path = "/patch" if name == "patch" and resource == RESOURCES[0] else "/allow"
            hook = {**copy.deepcopy(shipped), "name": name + ".bench.example", "failurePolicy": "Fail",
                    "clientConfig": {"url": url + path, "caBundle": ca}, "namespaceSelector": {"matchLabels": {OWN: self.namespaces[name]}}}
            kind = "MutatingWebhookConfiguration" if resource == RESOURCES[0] else "ValidatingWebhookConfiguration"
            self.cluster.client.create({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                                        "metadata": {"name": "noop-" + name}, "webhooks": [hook]})
            self.undo.callback(self.cluster.client.delete, resource, "noop-" + name)
