#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes cluster of this machine, for the tests.

    with Cluster() as c:                      # full: pods run
    with Cluster.light() as c:                # etcd and the API server, in a few seconds
        c.client.create({...}, "ml")          # Python, fast: see kube.py
        c.kubectl("apply", "-f", "-", input=text)
        c.apiserver.restart(extra=["--max-requests-inflight=20"])
        with c.etcd.paused(): time.sleep(5)
        c.proxy.delay(200); c.kubeconfig("admin", through_proxy=True)

Pods and host reach the API server at https://10.96.N.1:443, the Service address of `kubernetes`, which stands on `lo`; there is
no kube-proxy. The API server calls a webhook's Service at its endpoints: pods, or processes of this host (host_service()).
Run as a program it starts a cluster and waits for Ctrl-C: `cluster.py [--light]`; `cluster.py clean` undoes what killed runs left.
"""
import atexit
import base64
import contextlib
import fcntl
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid

sys.path[:0] = [p for p in (os.path.dirname(os.path.abspath(__file__)),) if p not in sys.path]

import yaml  # noqa: E402

import host  # noqa: E402
import images  # noqa: E402
import kube  # noqa: E402
from component import Component  # noqa: E402
from host import until  # noqa: E402
from node import NAME as NODE, Node  # noqa: E402
from proxy import Proxy  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LOGS = os.path.join(ROOT, "build/e2e/logs")

# Who may talk to the API server, by token: name -> (user, groups). alice and bob have no rights until a test gives them some.
USERS = {
    "admin": ("admin", "system:masters"),
    "alice": ("alice", "dev"),
    "bob": ("bob", "dev"),
    "kubelet": ("system:node:" + NODE, "system:nodes"),
    "scheduler": ("system:kube-scheduler", ""),
    "controller-manager": ("system:kube-controller-manager", ""),
}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Cluster:
    """kubelet: pods run (needs controllers and scheduler). units: the node says by itself that it has GPU units (False: a device plugin
    will). client: the admin's; client_for(user) makes others."""

    def __init__(self, kubelet=True, controllers=True, scheduler=True, name="cluster", apiserver_args=(), units=True):
        self.with_kubelet, self.with_controllers, self.with_scheduler = kubelet, controllers, scheduler
        self.with_units = units
        self.name, self.started, self.stopped = name, None, False
        self.slot = self.dir = self.node = self._proxy = self.logs_lock = None
        self.apiserver_args = list(apiserver_args)
        self.components = []
        self.lock = threading.Lock()

    @classmethod
    def light(cls, controllers=False, scheduler=False, **kw):
        """Control plane only; poolgate runs as processes of this host."""
        kw.setdefault("name", "api")
        return cls(kubelet=False, controllers=controllers, scheduler=scheduler, **kw)

    # ---- start and stop ----

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def start(self):
        """Everything up and ready; self.started is how many seconds it took. What fails is cleaned up."""
        began = time.monotonic()
        atexit.register(self.stop)
        try:
            self._prepare()
            preparing = _Thread(self.node.prepare) if self.node else None
            self.etcd.start()
            self.apiserver.start()
            if self.with_controllers:
                self.controller_manager.start(wait=False)
            if self.with_scheduler:
                self.scheduler.start(wait=False)
            if preparing:
                preparing.result()
                self.node.start()
            if self.with_controllers:
                self._wait_account("default")
            for component in self.components:
                component.must_live()
        except BaseException:
            self.stop()
            raise
        self.started = time.monotonic() - began
        return self

    def stop(self):
        """Keep the logs, then undo everything that was made on this machine. May be called twice."""
        if self.stopped or not self.slot:
            return
        self.stopped = True
        if self.node:
            self.node.ended.set()
        try:
            self.collect_logs()
        finally:
            try:
                for component in self.components:  # so that none is left as a zombie when the journal waits for it
                    if component.alive():
                        component.resume()
                self.slot.journal.undo()
            finally:
                if self.logs_lock:
                    self.logs_lock.close()
                self.slot.release()
                atexit.unregister(self.stop)

    def _prepare(self):
        os.makedirs(LOGS, exist_ok=True)
        self.bin = host.run(os.path.join(HERE, "build"), "--where").strip()
        self.slot = host.Slot()
        n = self.slot.number
        self.address, self.host_net = f"10.96.{n}.1", f"10.97.{n}."
        self.logs = os.path.join(LOGS, self.name)
        self.logs_lock = open(self.logs + ".lock", "w", encoding="utf-8")  # held for life: two runs in one tree keep theirs apart
        try:
            fcntl.flock(self.logs_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.logs += f"-{n}"
        shutil.rmtree(self.logs, ignore_errors=True)
        os.makedirs(self.logs)
        self.dir = tempfile.mkdtemp(prefix=f"poolgate-e2e-{n}-")
        self.slot.journal.add("folder", self.dir)
        self.addresses = 1
        self.add_address(self.address)
        self.tokens = {name: uuid.uuid4().hex for name in USERS}
        self._write_credentials()
        self.discovery = kube.Discovery()
        self.client = self.client_for("admin")
        self._make_components()
        self.node = Node(self) if self.with_kubelet else None
        if self.node:
            self.components += [self.node.containerd, self.node.kubelet]

    def _write_credentials(self):
        with open(f"{self.dir}/tokens.csv", "w", encoding="utf-8") as f:
            for name, (user, groups) in USERS.items():
                f.write(f'{self.tokens[name]},{user},{name},"{groups}"\n')
        openssl = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"]
        names = ["DNS:localhost", "DNS:kubernetes", "DNS:kubernetes.default", "DNS:kubernetes.default.svc", "IP:127.0.0.1",
                 f"IP:{self.address}", f"IP:{self.host_net}1"]
        host.run("openssl", "genrsa", "-out", f"{self.dir}/sa.key", "2048")
        host.run(*openssl, "-subj", "/CN=e2e-ca", "-keyout", f"{self.dir}/ca.key", "-out", f"{self.dir}/ca.crt",
                 "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        host.run(*openssl, "-CA", f"{self.dir}/ca.crt", "-CAkey", f"{self.dir}/ca.key", "-subj", "/CN=kube-apiserver",
                 "-addext", "subjectAltName=" + ",".join(names), "-addext", "basicConstraints=critical,CA:FALSE",
                 "-keyout", f"{self.dir}/apiserver.key", "-out", f"{self.dir}/apiserver.crt")

    def _make_components(self):
        d, journal = self.dir, self.slot.journal
        etcd_port, peer_port = free_port(), free_port()
        etcd = f"http://127.0.0.1:{etcd_port}"

        def make(name, argv, ready=None):
            one = Component(name, [self.program(name), *argv], self.log_path(name), journal, ready)
            self.components.append(one)
            return one

        self.etcd = make("etcd", [
            "--data-dir", f"{d}/etcd", "--listen-client-urls", etcd, "--advertise-client-urls", etcd, "--unsafe-no-fsync",
            "--listen-peer-urls", f"http://127.0.0.1:{peer_port}", "--log-level", "warn"], lambda: _http_ok(etcd_port, "/readyz"))
        self.apiserver = make("kube-apiserver", [
            f"--etcd-servers={etcd}", f"--cert-dir={d}/certs", f"--bind-address={self.address}", "--secure-port=443",
            f"--advertise-address={self.address}", f"--service-cluster-ip-range=10.96.{self.slot.number}.0/24",
            f"--tls-cert-file={d}/apiserver.crt", f"--tls-private-key-file={d}/apiserver.key",
            "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={d}/sa.key",
            f"--service-account-signing-key-file={d}/sa.key", f"--token-auth-file={d}/tokens.csv",
            "--authorization-mode=Node,RBAC", "--allow-privileged=true", "--enable-admission-plugins=NodeRestriction",
            "--enable-aggregator-routing=true", "--kubelet-preferred-address-types=InternalIP", "--v=1", *self.apiserver_args],
            self._api_ready)
        self.controller_manager = make("kube-controller-manager", [
            "--kubeconfig", self.kubeconfig("controller-manager"), f"--service-account-private-key-file={d}/sa.key",
            f"--root-ca-file={d}/ca.crt", "--use-service-account-credentials=true", "--leader-elect=false", "--secure-port=0",
            # Nodes of the tests may have no heartbeat; finished pods stay to be looked at, but not without end.
            "--controllers=*,-node-lifecycle-controller", "--terminated-pod-gc-threshold=200",
            "--kube-api-qps=200", "--kube-api-burst=400", "--concurrent-resource-quota-syncs=10"])
        self.scheduler = make("kube-scheduler", [
            "--kubeconfig", self.kubeconfig("scheduler"), "--leader-elect=false", "--secure-port=0",
            "--kube-api-qps=200", "--kube-api-burst=400"])
        if not self.with_controllers:
            self.components.remove(self.controller_manager)
        if not self.with_scheduler:
            self.components.remove(self.scheduler)

    def _api_ready(self):
        try:
            return self.client.call("GET", "/readyz") == "ok"
        except (kube.Unreachable, kube.ApiError):
            return False

    # ---- paths, users, connections ----

    def program(self, name):
        return os.path.join(self.bin, name)

    def log_path(self, name):
        return os.path.join(self.logs, name + ".log")

    def add_address(self, address=None):
        """An IP address of its own on this machine (on `lo`), until the cluster stops."""
        if address is None:
            with self.lock:
                self.addresses += 1
                address = f"{self.host_net}{self.addresses}"
        self.slot.journal.add("address", address + "/32")
        host.run("ip", "addr", "add", address + "/32", "dev", "lo")
        return address

    @property
    def server(self):
        return f"https://{self.address}:443"

    @property
    def proxy(self):
        """A proxy in front of the API server, started when first asked for; only those who use it feel it."""
        if self._proxy is None:
            address = f"{self.host_net}1"
            self.add_address(address)
            self._proxy = Proxy(f"{address}:443", f"{self.address}:443", self.slot.journal, self.log_path("proxy"))
            self.proxy_server = f"https://{address}:443"
        return self._proxy

    def kubeconfig(self, user="admin", token=None, through_proxy=False, namespace="default"):
        """Path of a kubeconfig: of one of USERS, or of whoever has the token (`user` then names the file)."""
        if through_proxy:
            assert self.proxy
        path = f"{self.dir}/{user}{'-proxied' if through_proxy else ''}.kubeconfig"
        with open(f"{self.dir}/ca.crt", "rb") as f:
            ca = base64.b64encode(f.read()).decode()
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "e2e",
                  "clusters": [{"name": "e2e", "cluster": {"server": self.proxy_server if through_proxy else self.server,
                                                           "certificate-authority-data": ca}}],
                  "users": [{"name": user, "user": {"token": token or self.tokens[user]}}],
                  "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": user, "namespace": namespace}}]}
        with open(path + ".new", "w", encoding="utf-8") as f:
            json.dump(config, f)
        os.rename(path + ".new", path)
        return path

    def account_token(self, namespace, account, seconds=7200):
        """A token of a service account, made as the kubelet does."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {},
                   "spec": {"expirationSeconds": seconds}}
        path = self.client.path("serviceaccounts", namespace, account, "token")
        return self.client.call("POST", path, request)["status"]["token"]

    def account_kubeconfig(self, namespace, account, through_proxy=False):
        """For a process of this host that is to have a service account's rights."""
        return self.kubeconfig(f"sa-{namespace}-{account}", self.account_token(namespace, account), through_proxy, namespace)

    def client_for(self, user="admin", token=None, **kw):
        """A Python client of one of USERS, or of whoever has the token."""
        return kube.Client(self.address, 443, f"{self.dir}/ca.crt", token or self.tokens[user], self.discovery, **kw)

    def kubectl(self, *args, input=None, check=True, user="admin", timeout=120):
        """Run kubectl; has returncode, stdout and stderr (text). check: AssertionError with what it said when it fails."""
        argv = [self.program("kubectl"), "--kubeconfig", self.kubeconfig(user), "--cache-dir", f"{self.dir}/kubectl", *args]
        done = subprocess.run(argv, input=input if input is not None else "", capture_output=True, text=True, timeout=timeout, check=False,
                              env={"PATH": os.environ["PATH"], "HOME": self.dir})
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(args)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    # ---- objects ----

    def _wait_account(self, namespace):
        until(lambda: self.client.find("serviceaccounts", "default", namespace), 60, f"service account in {namespace}")

    @contextlib.contextmanager
    def namespace(self, name=None, labels=None, restricted=False):
        """A namespace for the block, with its default service account; its name. restricted: Pod Security enforces that."""
        name = name or "t-" + uuid.uuid4().hex[:8]
        labels = dict(labels or {})
        if restricted:
            labels["pod-security.kubernetes.io/enforce"] = "restricted"
        self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        try:
            if self.with_controllers:
                self._wait_account(name)
            else:
                self.client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, name)
            yield name
        finally:
            with contextlib.suppress(kube.ApiError, kube.Unreachable):
                self.client.delete_all("pods", name, grace=0)
                self.client.delete("namespaces", name)

    def host_service(self, name, namespace, replicas, port=443):
        """A Service whose endpoints are processes of this host: replicas are (address, port) with addresses of add_address().
        Call again when they change. The API server calls it as NAME.NAMESPACE.svc; a server certificate needs that name."""
        meta = {"name": name, "namespace": namespace}
        self.client.apply({"apiVersion": "v1", "kind": "Service", "metadata": meta,
                           "spec": {"ports": [{"name": "https", "port": port, "protocol": "TCP"}]}})
        wanted = {f"{name}-{i}": r for i, r in enumerate(replicas)}
        for old in self.client.items("endpointslices", namespace, labelSelector=f"kubernetes.io/service-name={name}"):
            if old["metadata"]["name"] not in wanted:
                self.client.delete("endpointslices", old["metadata"]["name"], namespace)
        for slice_name, (address, at) in wanted.items():
            self.client.apply({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": {"name": slice_name, "namespace": namespace, "labels": {"kubernetes.io/service-name": name}},
                "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
                "ports": [{"name": "https", "port": at, "protocol": "TCP"}]})
        # API servers before 1.31 look for Endpoints.
        if int(self.client.call("GET", "/version")["minor"].rstrip("+")) < 31:
            self.client.apply({"apiVersion": "v1", "kind": "Endpoints", "metadata": meta, "subsets": [
                {"addresses": [{"ip": address}], "ports": [{"name": "https", "port": at, "protocol": "TCP"}]} for address, at in replicas]})

    def wait_pod(self, name, namespace, phases=("Succeeded", "Failed"), seconds=60):
        """Until the pod is in one of these phases; the pod."""
        def check():
            pod = self.client.find("pods", name, namespace)
            return pod if pod and pod["status"].get("phase") in phases else None

        return until(check, seconds, lambda: f"pod {namespace}/{name} in {phases}\n{self.describe('pod', name, namespace)}", 0.1)

    def pod_log(self, name, namespace, container=None, previous=False):
        """What a container has printed."""
        path = self.client.path("pods", namespace, name, "log")
        return self.client.call("GET", path, accept="*/*", params={"container": container, "previous": "true" if previous else None})

    def describe(self, kind, name, namespace=None):
        """For messages of failed tests."""
        where = ["-n", namespace] if namespace else []
        return self.kubectl("describe", kind, name, *where, check=False).stdout

    def import_image(self, tar, name=None):
        """Give containerd the image of a docker or OCI archive (under `name` too, if given); its names."""
        return self.node.import_image(tar, name)

    def render(self, path, image=None):
        """What `kubectl kustomize PATH` makes, as objects, with clients' images that there are; every container's image whose last part is
        `poolgate` becomes `image`."""
        objects = [o for o in yaml.safe_load_all(self.kubectl("kustomize", path).stdout) if o]
        for obj in objects:
            if obj["kind"] == "ConfigMap":
                obj["data"] = {k: images.set_client(v) for k, v in obj.get("data", {}).items()}
            spec = obj.get("spec", {}).get("template", {}).get("spec", {}) if isinstance(obj.get("spec"), dict) else {}
            for container in spec.get("initContainers", []) + spec.get("containers", []):
                base = container["image"].split("@")[0].rsplit("/", 1)[-1].split(":")[0]
                if image and base == "poolgate":
                    container["image"] = image
        return objects

    def apply_kustomize(self, path, image=None, change=None):
        """Apply a kustomization server-side, as kubectl does, waiting for its CRDs before objects of theirs. change(obj), if given,
        may alter each object first; one of which it says False is left out. Returns the objects as they were sent."""
        objects = [obj for obj in self.render(path, image) if not change or change(obj) is not False]
        crds = [o for o in objects if o["kind"] in ("Namespace", "CustomResourceDefinition")]
        for part in (crds, [o for o in objects if o not in crds]):
            if part:
                self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=yaml.safe_dump_all(part, sort_keys=False))
            for crd in part:
                if crd["kind"] == "CustomResourceDefinition":
                    until(lambda name=crd["metadata"]["name"]: self._established(name), 30, f"{crd['metadata']['name']} is established")
        return objects

    def _established(self, name):
        """A CustomResourceDefinition that was just made has no conditions yet, which `kubectl wait` takes for an error."""
        conditions = self.client.get("customresourcedefinitions", name).get("status", {}).get("conditions") or []
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

    # ---- logs ----

    def collect_logs(self):
        """Copy the pods' logs beside the components', those of deleted pods too; the folder."""
        pods = f"{self.dir}/kept"
        if os.path.isdir(pods):
            shutil.copytree(pods, os.path.join(self.logs, "pods"), dirs_exist_ok=True, ignore_dangling_symlinks=True)
        return self.logs


class _Thread:
    """A function in a thread; result() raises what it raised."""

    def __init__(self, function):
        self.error = None
        self.thread = threading.Thread(target=self._run, args=(function,))
        self.thread.start()

    def _run(self, function):
        try:
            function()
        except BaseException as e:  # pylint: disable=broad-except
            self.error = e

    def result(self):
        self.thread.join()
        if self.error:
            raise self.error


def _http_ok(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def on_sigterm(*_):
    raise KeyboardInterrupt("SIGTERM")


def main():
    if sys.argv[1:] == ["clean"]:
        host.sweep()
        return
    signal.signal(signal.SIGTERM, on_sigterm)
    with Cluster.light(name="by-hand") if "--light" in sys.argv else Cluster(name="by-hand") as c:
        print(f"ready after {c.started:.1f} s; logs in {c.logs}\nexport KUBECONFIG={c.kubeconfig()}\n"
              f"{c.program('kubectl')} get all -A\nCtrl-C ends it", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
