# SPDX-License-Identifier: Apache-2.0
"""The clusters of the tests work: pods run and are read, faults hit and heal, and nothing is left behind."""
import base64
import glob
import http.server
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time

import cluster as clusters
import host
import images
import kube
import pytest
from host import until

RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True,
              "runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}


def pod(name, command, args=None, resources=None, **spec):
    container = {"name": "main", "image": images.BUSYBOX, "command": command, "args": args or [],
                 "resources": resources or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container], **spec}}


def test_pod_runs_and_is_read(cluster, namespace):
    cluster.client.create(pod("a", ["sh", "-c", "echo out; echo err >&2; exit $0", "0"]), namespace)
    assert cluster.wait_pod("a", namespace)["status"]["phase"] == "Succeeded"
    assert sorted(cluster.pod_log("a", namespace).split()) == ["err", "out"]
    assert "out" in cluster.kubectl("logs", "a", "-n", namespace).stdout
    cluster.client.delete("pods", "a", namespace, grace=0)
    # The kubelet removes it a minute later; whoever looks for it then finds ours.
    kept = glob.glob(f"{cluster.collect_logs()}/pods/{namespace}_a_*/main/0.log")
    assert kept and os.path.getsize(kept[0]) > 0


def test_pod_reaches_the_api_server(cluster, namespace):
    """Plain HTTP on the TLS port: the answer says who is there."""
    script = ("ls /var/run/secrets/kubernetes.io/serviceaccount; "
              "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT")
    cluster.client.create(pod("a", ["sh", "-c", script]), namespace)
    cluster.wait_pod("a", namespace)
    log = cluster.pod_log("a", namespace)
    assert "Client sent an HTTP request to an HTTPS server" in log
    assert set("ca.crt namespace token".split()) <= set(log.split())


def test_restricted_pod_runs_through_the_launcher(cluster):
    """By hand what is injected: an init container fills an emptyDir, the command runs through the launcher in it, and every
    argument arrives as it would without."""
    entry = images.catalogue_clients()[0]
    with cluster.namespace(restricted=True) as namespace:
        cluster.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c"}, "stringData": {"client.yaml": "a: b"}},
                              namespace)
        one = pod("a", [entry["BinaryPath"], "run", "-n", "1", "-p", "0.500000", "--filter", "zone=lab", "--", "printf", "[%s]",
                        "$(X)", "$$HOME", "", "--"], ["a b", "'q'", "\n", "ü"])
        spec = one["spec"]
        spec["containers"][0].update({"securityContext": RESTRICTED, "env": [{"name": "X", "value": "x y"}],
                                      "volumeMounts": [{"name": "distro", "mountPath": "/bitfusion"}]})
        # The init container of manifests/examples/sidecar.yaml.
        spec["initContainers"] = [{
            "name": "populate", "image": images.CLIENT, "securityContext": RESTRICTED,
            "command": ["/bin/bash", "-c", "cp -r /bitfusion/* /bitfusion-distro/ && cp /bitfusion-secret/client.yaml /client/ && "
                        f"cp -r {entry['EnvVariable'].split('/opt/')[0]}/opt/bitfusion/* /opt-out"],
            "volumeMounts": [{"name": "distro", "mountPath": "/bitfusion-distro"}, {"name": "opt", "mountPath": "/opt-out"},
                             {"name": "client", "mountPath": "/client"},
                             {"name": "secret", "mountPath": "/bitfusion-secret", "readOnly": True}]}]
        spec["volumes"] = [{"name": "distro", "emptyDir": {}}, {"name": "opt", "emptyDir": {}}, {"name": "client", "emptyDir": {}},
                           {"name": "secret", "secret": {"secretName": "c"}}]
        cluster.client.create(one, namespace)
        ended = cluster.wait_pod("a", namespace)
        log = cluster.pod_log("a", namespace)
        assert ended["status"]["phase"] == "Succeeded", log
        first, rest = log.split("\n", 1)
        tail = ["x y", "$HOME", "", "--", "a b", "'q'", "\n", "ü"]
        assert json.loads(first) == {"launcher": [entry["BinaryPath"], "run", "-n", "1", "-p", "0.500000", "--filter", "zone=lab", "--",
                                                  "printf", "[%s]", *tail]}
        assert rest == "".join(f"[{a}]" for a in tail)
        with pytest.raises(kube.ApiError) as e:  # and restricted it is
            cluster.client.create(pod("b", ["true"]), namespace)
        assert "violates PodSecurity" in e.value.message


def test_kustomization_is_applied(api, api_namespace, tmp_path):
    """Rendered by kubectl, its image exchanged, CRDs before their objects."""
    (tmp_path / "kustomization.yaml").write_text(f"namespace: {api_namespace}\nresources: [all.yaml]\n", encoding="utf-8")
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
        {"name": "a", "image": "example.org/x/poolgate:1"}, {"name": "b", "image": "example.org/poolgate/other:1"}]}}
    objects = [
        {"apiVersion": "e2e.example.com/v1", "kind": "Thing", "metadata": {"name": "a"}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
         "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}},
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.e2e.example.com"},
         "spec": {"group": "e2e.example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
                  "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}]}}]
    (tmp_path / "all.yaml").write_text("---\n".join(json.dumps(o) + "\n" for o in objects), encoding="utf-8")
    try:
        api.apply_kustomize(str(tmp_path), image="localhost/poolgate:e2e")
        containers = api.client.get("deployments", "a", api_namespace)["spec"]["template"]["spec"]["containers"]
        assert [c["image"] for c in containers] == ["localhost/poolgate:e2e", "example.org/poolgate/other:1"]
        assert api.client.get("things", "a", api_namespace)
    finally:
        api.client.delete("customresourcedefinitions", "things.e2e.example.com")


def test_node_offers_gpu_units(cluster, namespace):
    def ask(units):
        return {"limits": {"bitfusion.io/gpu": units}, "requests": {"bitfusion.io/gpu": units}}

    cluster.client.create(pod("fits", ["true"], resources=ask("1000")), namespace)
    cluster.client.create(pod("too-much", ["true"], resources=ask("1001")), namespace)
    assert cluster.wait_pod("fits", namespace)["status"]["phase"] == "Succeeded"

    def refused():
        conditions = cluster.client.get("pods", "too-much", namespace)["status"].get("conditions", [])
        return any("Insufficient bitfusion.io/gpu" in c.get("message", "") for c in conditions)

    until(refused, 20, "the scheduler's refusal")


def test_api_server_restart_survives(cluster, namespace):
    """Killed in the middle: objects stay, pods go on, controllers and kubelet come back, an observer misses nothing."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"n": "0"}}
    cluster.client.create(pod("long", ["sleep", "3600"]), namespace)
    cluster.wait_pod("long", namespace, ("Running",))
    with kube.Observer(cluster.client, "configmaps", namespace) as seen:
        cluster.client.create(config, namespace)
        cluster.apiserver.kill()
        with pytest.raises(kube.Unreachable):
            cluster.client.get("configmaps", "a", namespace)
        cluster.apiserver.start()
        for n in range(1, 4):
            cluster.client.patch("configmaps", "a", {"data": {"n": str(n)}}, namespace)
        seen.wait(lambda latest: latest.get((namespace, "a"), {}).get("data") == {"n": "3"}, 20, "the last version")
        versions = [o["data"]["n"] for _, _, o in seen.events if o["metadata"]["name"] == "a"]
        assert versions == ["0", "1", "2", "3"]
    assert cluster.client.get("pods", "long", namespace)["status"]["phase"] == "Running"
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": pod("x", ["true"])["spec"]}}}
    cluster.client.create(job, namespace)
    until(lambda: cluster.client.get("jobs", "j", namespace)["status"].get("succeeded") == 1, 60, "a Job after the restart")


def test_kubelet_restart(cluster, namespace):
    cluster.client.create(pod("long", ["sleep", "3600"]), namespace)
    cluster.wait_pod("long", namespace, ("Running",))
    cluster.node.kubelet.kill()
    cluster.node.kubelet.start()
    cluster.node.offer()
    cluster.client.create(pod("a", ["true"]), namespace)
    assert cluster.wait_pod("a", namespace)["status"]["phase"] == "Succeeded"
    status = cluster.client.get("pods", "long", namespace)["status"]
    assert status["phase"] == "Running" and status["containerStatuses"][0]["restartCount"] == 0


def test_etcd_paused(api, api_namespace):
    """The API server holds a write until etcd goes on."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    writer = threading.Thread(target=lambda: api.client.create(config, api_namespace))
    with api.etcd.paused():
        writer.start()
        writer.join(1)
        assert writer.is_alive()
    writer.join(20)
    assert api.client.get("configmaps", "a", api_namespace)


def test_few_requests_in_flight(api):
    """The API server takes other settings at a restart, and drops them again."""
    api.apiserver.restart(extra=["--max-requests-inflight=20", "--max-mutating-requests-inflight=10"])
    try:
        with open(f"/proc/{api.apiserver.pid}/cmdline", encoding="utf-8") as f:
            assert "--max-requests-inflight=20" in f.read()
        assert api.client.items("namespaces")
    finally:
        api.apiserver.restart(extra=[])


def test_proxy(api):
    api.proxy.delay(0)
    config = api.kubeconfig("alice", through_proxy=True)
    with open(config, encoding="utf-8") as f:
        server = json.load(f)["clusters"][0]["cluster"]["server"]
    assert server != api.server
    far = kube.Client(server[8:].rpartition(":")[0], 443, f"{api.dir}/ca.crt", api.tokens["admin"], api.discovery)
    assert far.get("namespaces", "default")
    api.proxy.delay(100)
    began = time.monotonic()
    far.get("namespaces", "default")
    took = time.monotonic() - began
    api.proxy.delay(0)
    assert 0.2 <= took < 1
    with api.proxy.refusing():
        with pytest.raises(kube.Unreachable):
            far.get("namespaces", "default")
        assert api.client.get("namespaces", "default")
    assert far.get("namespaces", "default")


def test_users_have_no_rights_of_their_own(api, api_namespace):
    with pytest.raises(kube.ApiError) as e:
        api.client_for("alice").items("pods", api_namespace)
    assert e.value.status == 403
    assert not api.client.allowed("list", "pods", api_namespace, user="alice", groups=["dev"])
    rbac = "rbac.authorization.k8s.io"
    api.client.create({"apiVersion": rbac + "/v1", "kind": "Role", "metadata": {"name": "a"},
                       "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]}, api_namespace)
    api.client.create({"apiVersion": rbac + "/v1", "kind": "RoleBinding", "metadata": {"name": "a"},
                       "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "a"},
                       "subjects": [{"kind": "Group", "name": "dev", "apiGroup": rbac},
                                    {"kind": "ServiceAccount", "name": "default", "namespace": api_namespace}]}, api_namespace)
    until(lambda: api.client.allowed("list", "pods", api_namespace, user="alice", groups=["dev"]), 10, "alice's new right")
    assert api.client_for("alice").items("pods", api_namespace) == []
    account = api.client_for(token=api.account_token(api_namespace, "default"))
    assert account.items("pods", api_namespace) == []


class Hook(http.server.BaseHTTPRequestHandler):
    """Refuses everything and says how it was called."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = f"{self.headers['Host']} at {self.server.server_address[0]}"
        answer = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                             "response": {"uid": review["request"]["uid"], "allowed": False, "status": {"message": said}}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def test_webhook_on_this_host_by_service(api, api_namespace, tmp_path):
    """The form of the shipped manifests: by Service, with processes of this host as its endpoints."""
    name = f"hook.{api_namespace}.svc"
    host.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
             "-subj", "/CN=hook", "-addext", f"subjectAltName=DNS:{name}", "-keyout", f"{tmp_path}/k", "-out", f"{tmp_path}/c")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{tmp_path}/c", f"{tmp_path}/k")
    servers = []
    for _ in range(2):
        server = http.server.ThreadingHTTPServer((api.add_address(), 0), Hook)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
    api.host_service("hook", api_namespace, [s.server_address for s in servers])
    config = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
              "metadata": {"name": api_namespace}, "webhooks": [{
                  "name": "hook.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
                  "clientConfig": {"service": {"name": "hook", "namespace": api_namespace, "path": "/"},
                                   "caBundle": base64.b64encode((tmp_path / "c").read_bytes()).decode()},
                  "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": api_namespace}},
                  "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]}]}
    api.client.create(config)
    try:
        answers = set()

        def asked():
            try:
                api.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}, api_namespace, dry_run=True)
            except kube.ApiError as e:
                answers.add(e.message.rpartition("request: ")[2])
            return len(answers) == 1

        until(asked, 20, "a call of the hook")
        first = servers[0].server_address
        api.host_service("hook", api_namespace, [first])
        assert all(a.startswith(f"{name}:443 at 10.97.") for a in answers), answers
    finally:
        api.client.delete("validatingwebhookconfigurations", api_namespace)
        for server in servers:
            server.shutdown()
            server.server_close()


def started(process):
    """(folder, kubectl's command line) of a cluster.py that says it is ready."""
    assert "ready after" in process.stdout.readline()
    config = process.stdout.readline().strip().partition("=")[2]
    return os.path.dirname(config), [process.stdout.readline().split()[0], "--kubeconfig", config]


def traces(folder):
    """What the cluster with this folder has on this machine, by kind. Others may run beside it."""
    number = os.path.basename(folder).split("-")[2]

    def mine(pid):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8") as f:
                return folder in f.read()
        except OSError:
            return False

    with open("/proc/self/mounts", encoding="utf-8") as f:
        mounts = [line.split()[1] for line in f if folder in line]
    addresses = host.run("ip", "-o", "-4", "addr", "show")
    found = {
        "processes": [p for p in os.listdir("/proc") if p.isdigit() and mine(p)],
        "mounts": mounts,
        "folder": [folder] if os.path.exists(folder) else [],
        "addresses": [a for a in addresses.split() if a.startswith((f"10.96.{number}.", f"10.97.{number}.", f"10.244.{number}."))],
        "cgroups": [c for c in host.cgroup_folders() if os.path.exists(f"{c}/poolgate-e2e-{number}")],
        "journal": [j for j in os.listdir(host.STATE) if j == number + ".journal"],
    }
    return {kind: list_ for kind, list_ in found.items() if list_}


def shim_files(folder):
    """What lies outside the folder with each pod: the sockets of shims, results of network plugins."""
    paths = glob.glob(f"/var/lib/cni/results/pge2e{os.path.basename(folder).split('-')[2]}-*")
    paths += [f"/var/lib/cni/results/cni-loopback-{p.split('-')[1]}-lo" for p in paths]
    for path in glob.glob(f"{folder}/containerd/state/io.containerd.runtime.v2.task/*/*/address"):
        with open(path, encoding="utf-8") as f:
            paths.append(f.read().strip().removeprefix("unix://"))
    return paths


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left(sig):
    """Ended by SIGTERM a cluster cleans up; killed, the next one or `clean` does it."""
    script = [sys.executable, "-B", os.path.join(clusters.HERE, "cluster.py")]
    with subprocess.Popen([*script, "--light"], stdout=subprocess.PIPE, text=True, start_new_session=True) as one:
        folder, _ = started(one)
        assert set(traces(folder)) == {"processes", "folder", "addresses", "journal"}
        one.send_signal(sig)
        one.wait(30)
    if sig == signal.SIGKILL:  # a run beside this one may have done it already
        host.run(*script, "clean")
    assert not traces(folder)


def test_nothing_is_left_of_running_pods():
    """A full cluster is killed while a pod runs."""
    script = [sys.executable, "-B", os.path.join(clusters.HERE, "cluster.py")]
    with subprocess.Popen(script, stdout=subprocess.PIPE, text=True, start_new_session=True) as one:
        folder, kubectl = started(one)
        host.run(*kubectl, "apply", "-f", "-", data=json.dumps(pod("long", ["sleep", "3600"])))
        host.run(*kubectl, "wait", "--for=jsonpath={.status.phase}=Running", "pod/long", "--timeout=60s")
        assert set(traces(folder)) == {"processes", "mounts", "folder", "addresses", "cgroups", "journal"}
        files = shim_files(folder)
        assert len(files) >= 3 and all(os.path.exists(f) for f in files), files
        one.kill()
        one.wait(30)
    host.run(*script, "clean")
    assert not traces(folder)
    assert not any(os.path.exists(f) for f in files)
