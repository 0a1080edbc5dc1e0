# SPDX-License-Identifier: Apache-2.0
"""An admission webhook of somebody else beside poolgate's: TLS server of this host, its Service, its webhook configuration.

    with Hook(cluster, ns, delay=28) as hook:                                # validating; holds each create of a pod for 28 s
    with Hook(cluster, ns, refuse=lambda request: "no" if ... else None):    # validating; refuses with that message
    with Hook(cluster, ns, mutate=add_sidecar) as hook:                      # mutating; add_sidecar(pod) changes the pod in place
        hook.wait_calls(1, 10); hook.requests[0]["uid"]; hook.answers[0].at

It concerns one namespace. Entering waits until the API server really calls it; leaving takes everything away again. delay, refuse and
mutate are plain attributes and may be changed while it runs (delay=0 lets only later calls go).
"""
import base64
import collections
import contextlib
import copy
import http.server
import json
import shutil
import ssl
import tempfile
import threading
import time

import host
import kube

PROBE = "hook.e2e/probe"
Answer = collections.namedtuple("Answer", "at uid allowed patched")


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256
    hook = None

    def handle_error(self, request, client_address):
        """Connections that the API server drops are no news."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                             "response": self.server.hook.answer(review["request"])}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


class Hook:
    """delay: seconds (or a function of the request) from the call to the answer. refuse(request): message or None. mutate(pod):
    changes it in place, and may be called again for the same pod (reinvocation); makes this a mutating webhook. after: mutating
    webhooks run in the order of their configurations' names, this one after poolgate's or before. requests: what was asked, answers:
    what was said, each in the order of time, monotonic seconds."""

    def __init__(self, cluster, namespace, delay=0, refuse=None, mutate=None, after=True, reinvocation="IfNeeded",
                 operations=("CREATE",), resources=("pods",), timeout=30, failure_policy="Fail"):
        self.cluster, self.namespace = cluster, namespace
        self.delay, self.refuse, self.mutate = delay, refuse, mutate
        self.name = f"{'zz' if after else 'aa'}-{namespace}-{'mutate' if mutate else 'validate'}"
        self.kind = "Mutating" if mutate else "Validating"
        self.rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": list(operations), "resources": list(resources)}
        self.settings = {"timeoutSeconds": timeout, "failurePolicy": failure_policy}
        if mutate:
            self.settings["reinvocationPolicy"] = reinvocation
        self.requests, self.answers = [], []
        self.changed = threading.Condition()
        self.probed = threading.Event()
        self.undo = contextlib.ExitStack()

    # ---- what it says ----

    def answer(self, request):
        """The response for one request, when its time has come."""
        response = {"uid": request["uid"], "allowed": True}
        pod = request.get("object") or {}
        if PROBE in (pod.get("metadata", {}).get("annotations") or {}):
            self.probed.set()
            return response
        with self.changed:
            self.requests.append(request)
            self.changed.notify_all()
        wait = self.delay(request) if callable(self.delay) else self.delay
        message = self.refuse(request) if self.refuse else None
        if wait:
            time.sleep(wait)
        if message:
            response.update({"allowed": False, "status": {"code": 403, "reason": "Forbidden", "message": message}})
        elif self.mutate:
            changed = copy.deepcopy(pod)
            self.mutate(changed)
            patch = [{"op": "replace", "path": "/" + k, "value": changed[k]} for k in ("metadata", "spec") if changed[k] != pod[k]]
            if patch:
                response.update({"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()})
        with self.changed:
            self.answers.append(Answer(time.monotonic(), request["uid"], response["allowed"], "patch" in response))
            self.changed.notify_all()
        return response

    def wait_calls(self, count, seconds):
        """Until it was called so often (it need not have answered)."""
        end = time.monotonic() + seconds
        with self.changed:
            while len(self.requests) < count:
                left = end - time.monotonic()
                assert left > 0, f"the hook was called {len(self.requests)} times within {seconds} s, not {count}"
                self.changed.wait(left)

    # ---- coming and going ----

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
        client = self.cluster.client
        address = self.cluster.add_address()
        service = self.name[:2] + "-hook-" + address.replace(".", "-")
        folder = tempfile.mkdtemp(prefix="hook-", dir=self.cluster.dir)
        self.undo.callback(shutil.rmtree, folder, ignore_errors=True)
        host.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                 "/CN=hook", "-addext", f"subjectAltName=DNS:{service}.default.svc", "-keyout", f"{folder}/key", "-out", f"{folder}/crt")
        with open(f"{folder}/crt", "rb") as f:
            ca = base64.b64encode(f.read()).decode()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{folder}/crt", f"{folder}/key")
        server = _Server((address, 0), _Handler)
        server.hook = self
        # The handshake is left to each connection's own thread.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        self.undo.callback(server.server_close)
        threading.Thread(target=server.serve_forever, name=service, daemon=True).start()
        self.undo.callback(server.shutdown)
        self.cluster.host_service(service, "default", [server.server_address])
        self.undo.callback(client.delete, "services", service, "default")
        self.undo.callback(client.delete, "endpointslices", service + "-0", "default")
        resource = self.kind.lower() + "webhookconfigurations"
        client.create({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": self.kind + "WebhookConfiguration", "metadata": {"name": self.name},
            "webhooks": [{"name": "hook.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": [self.rule],
                          "clientConfig": {"service": {"name": service, "namespace": "default", "path": "/"}, "caBundle": ca},
                          "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}, **self.settings}]})
        self.undo.callback(client.delete, resource, self.name)
        host.until(self._called, 30, "a call of the hook")

    def _called(self):
        """Ask the API server for a pod that will not be made, until it passes here: a new configuration takes it a moment."""
        restricted = {"runAsNonRoot": True, "runAsUser": 1000, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
                      "seccompProfile": {"type": "RuntimeDefault"}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "probe-", "annotations": {PROBE: "yes"}},
               "spec": {"containers": [{"name": "main", "image": "none", "securityContext": restricted}]}}
        try:
            self.cluster.client.create(pod, self.namespace, dry_run=True)
        except (kube.ApiError, kube.Unreachable):
            pass  # its endpoints may not be known yet
        return self.probed.is_set()
