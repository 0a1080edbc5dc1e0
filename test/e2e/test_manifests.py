# SPDX-License-Identifier: Apache-2.0
"""The shipped manifests on a real API server: what they accept, show, let through while no replica is there, and permit."""
import base64
import copy
import json
import os
import re
import sys
import uuid

import pytest
import yaml

sys.path[:0] = [p for p in (os.path.dirname(os.path.abspath(__file__)),) if p not in sys.path]

import images  # noqa: E402
from cluster import Cluster, ROOT  # noqa: E402
from host import until  # noqa: E402
from kube import ApiError  # noqa: E402

BASE = os.path.join(ROOT, "manifests/base")
OVERLAYS = {name: os.path.join(ROOT, "manifests/overlays", name) for name in ("secrets", "all-namespaces-secrets")}
COMPONENTS = ("cert-manager", "secrets", "monitoring", "gpupool", "quotas", "registry", "waiting", "eviction", "policies", "usage", "usage-metrics")
EXAMPLES = os.path.join(ROOT, "manifests/examples")
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden/roles.txt")
ACCOUNT = "system:serviceaccount:poolgate-system:poolgate"
GROUPS = ["system:serviceaccounts", "system:serviceaccounts:poolgate-system", "system:authenticated"]
# Other projects' kinds that components use: (group, version, kind, plural).
FOREIGN = [("cert-manager.io", "v1", "Certificate", "certificates"), ("cert-manager.io", "v1", "Issuer", "issuers"),
           ("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors"),
           ("monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules")]


@pytest.fixture(scope="module", name="c")
def fixture_cluster():
    with Cluster.light(name="manifests") as c:
        for group, version, kind, plural in FOREIGN:
            c.client.create({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.{group}"},
                "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural}, "versions": [
                    {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}})
        yield c


@pytest.fixture(scope="module", name="base")
def fixture_base(c):
    """manifests/base as an operator applies it, in one go; what kubectl said."""
    said = c.kubectl("apply", "-k", BASE).stdout
    c.kubectl("wait", "--for=condition=Established", "crd/gpuservers.poolgate.io", "--timeout=30s")
    return said


def composed(tmp_path_factory, *components):
    """A kustomization that takes components of ours into the base, as an operator writes one."""
    folder = tmp_path_factory.mktemp("composed")
    with open(folder / "kustomization.yaml", "w", encoding="utf-8") as f:
        yaml.safe_dump({"resources": [os.path.relpath(BASE, folder)],
                        "components": [os.path.relpath(os.path.join(ROOT, "manifests/components", n), folder) for n in components]}, f)
    return str(folder)


@pytest.fixture(scope="module", name="renders")
def fixture_renders(c, tmp_path_factory):
    """Objects of every way to install: name -> (folder, objects)."""
    folders = {"base": BASE, **OVERLAYS, **{n: composed(tmp_path_factory, n) for n in COMPONENTS if n != "secrets"},
               "all components": composed(tmp_path_factory, *COMPONENTS)}
    return {name: (folder, c.render(folder)) for name, folder in folders.items()}


def only(objects, kind, name):
    found = [o for o in objects if o["kind"] == kind and o["metadata"]["name"] == name]
    assert len(found) == 1, f"{len(found)} of {kind} {name}"
    return found[0]


def settings(objects):
    """The config file in a render."""
    found = [o for o in objects if o["kind"] == "ConfigMap" and o["metadata"]["name"].startswith("poolgate-config-")]
    assert len(found) == 1
    return yaml.safe_load(found[0]["data"]["poolgate.yaml"])


# ---- build and apply ----

def test_every_way_to_install_applies(c, base, renders):
    assert "created" in base
    for name, (folder, objects) in renders.items():
        done = c.kubectl("apply", "-k", folder, "--dry-run=server")
        assert len(done.stdout.splitlines()) == len(objects), name
        assert not done.stderr, f"{name}: {done.stderr}"


def versions(c, objects):
    return {(o["kind"], o["metadata"]["name"]): c.client.call("GET", c.client.path_of(o, None, o["metadata"]["name"]))["metadata"][
        "resourceVersion"] for o in objects}


# kubectl always sends a selector that is replaced whole, and says "configured"; the API server changes nothing.
SENT_ALWAYS = ("poddisruptionbudget.policy/poolgate",)


def test_applied_twice_changes_nothing(c, base, renders):
    assert base
    before = versions(c, renders["base"][1])
    said = c.kubectl("apply", "-k", BASE).stdout
    assert [line for line in said.splitlines() if not line.endswith("unchanged") and not line.startswith(SENT_ALWAYS)] == []
    assert versions(c, renders["base"][1]) == before


def test_every_object_says_whose_it_is(renders):
    for name, (_, objects) in renders.items():
        for obj in objects:
            labels = obj["metadata"].get("labels", {})
            assert labels.get("app.kubernetes.io/name") == "poolgate", f"{name}: {obj['kind']} {obj['metadata']['name']}"
            assert labels.get("app.kubernetes.io/part-of") == "poolgate"
            assert "poolgate-component-" not in obj["metadata"]["name"], "a helper of kustomize is applied"
            if obj["kind"] in ("ConfigMap", "Deployment", "Service", "Secret", "ServiceAccount"):
                assert obj["metadata"]["namespace"] == "poolgate-system"


def test_kinds_come_in_the_order_they_need(renders):
    for name, (_, objects) in renders.items():
        kinds = [o["kind"] for o in objects]
        assert kinds[:2] == ["Namespace", "CustomResourceDefinition"], name
        # The hooks last: nothing of ours may wait for us.
        assert kinds[-2:] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"], name


def test_config_file_names_what_is_there(renders):
    for name, (_, objects) in renders.items():
        s = settings(objects)
        assert only(objects, "Namespace", s["cluster"]["namespace"])
        service = only(objects, "Service", s["cluster"]["service"])
        hooks = only(objects, "MutatingWebhookConfiguration", s["cluster"]["webhooks"])["webhooks"] + only(
            objects, "ValidatingWebhookConfiguration", s["cluster"]["webhooks"])["webhooks"]
        for hook in hooks:
            at = hook["clientConfig"]["service"]
            assert (at["name"], at["namespace"]) == (service["metadata"]["name"], s["cluster"]["namespace"])
            assert at["port"] == service["spec"]["ports"][0]["port"]
            assert "caBundle" not in hook["clientConfig"]
        pod = only(objects, "Deployment", "poolgate")["spec"]["template"]["spec"]
        mounts = {m["name"]: m["mountPath"] for m in pod["containers"][0]["volumeMounts"]}
        assert pod["containers"][0]["args"] == ["serve", "--config", mounts["config"] + "/poolgate.yaml"]
        assert [os.path.normpath(os.path.join(mounts["config"], path)) for path in s["launchers"]] == [mounts["launchers"]]
        files = set()
        for source in next(v for v in pod["volumes"] if v["name"] == "config")["projected"]["sources"]:
            files |= set(only(objects, "ConfigMap", source["configMap"]["name"])["data"])
        assert {s["clientCatalogue"], s["sidecarConfig"], "poolgate.yaml"} == files
        seconds = int(s["drainDelay"].rstrip("s"))
        assert pod["terminationGracePeriodSeconds"] > seconds + 30
        assert s["cluster"]["secrets"]["sync"] is (name in ("secrets", "all-namespaces-secrets", "all components"))
        assert s["cluster"]["waiting"]["enabled"] is (name in ("waiting", "all components"))
        assert s["cluster"]["eviction"]["enabled"] is (name in ("eviction", "all components"))
        assert s["cluster"]["policies"]["enabled"] is (name in ("policies", "all components"))
        assert s["cluster"]["usage"]["enabled"] is (name in ("usage", "all components"))
        assert s["cluster"]["usage"]["listen"] == (":8444" if name in ("usage-metrics", "all components") else "off")
        assert s["cluster"]["tls"]["manage"] is (name not in ("cert-manager", "all components"))


def test_shipped_client_is_the_example(renders):
    objects = renders["base"][1]
    for prefix, folder in (("poolgate-client-", ""), ("poolgate-launchers-", "launchers")):
        data = [o for o in objects if o["kind"] == "ConfigMap" and o["metadata"]["name"].startswith(prefix)][0]["data"]
        for name, text in data.items():
            with open(os.path.join(EXAMPLES, folder, name), encoding="utf-8") as f:
                assert text == images.set_client(f.read()), name
    with_yaml = {n for n in os.listdir(os.path.join(EXAMPLES, "launchers")) if n.endswith(".yaml")}
    assert set(data) == with_yaml


def test_alerts_use_metrics_that_exist(renders):
    sources = ""
    for folder, _, names in os.walk(os.path.join(ROOT, "webhook")):
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                sources += f.read()
    rules = only(renders["monitoring"][1], "PrometheusRule", "poolgate")["spec"]["groups"][0]["rules"]
    used = {re.sub("_bucket$", "", m) for rule in rules for m in re.findall(r"poolgate_\w+", rule["expr"])}
    assert len(used) >= 8
    assert sorted(m for m in used if m not in sources) == []


def test_image_is_replaced_in_one_line(c, tmp_path_factory):
    folder = composed(tmp_path_factory)
    with open(os.path.join(folder, "kustomization.yaml"), "a", encoding="utf-8") as f:
        f.write("images: [{name: localhost/poolgate, newName: registry.example/poolgate, newTag: 9.9.9}]\n")
    pod = only(c.render(folder), "Deployment", "poolgate")["spec"]["template"]["spec"]
    assert [x["image"] for x in pod["containers"]] == ["registry.example/poolgate:9.9.9"]


def test_own_settings_roll_the_deployment(c, renders, tmp_path_factory):
    folder = composed(tmp_path_factory)
    with open(os.path.join(folder, "poolgate.yaml"), "w", encoding="utf-8") as f:
        yaml.safe_dump({**settings(renders["base"][1]), "totalGpuMemory": 24000}, f)
    with open(os.path.join(folder, "kustomization.yaml"), "a", encoding="utf-8") as f:
        f.write("configMapGenerator:\n"
                "  - {name: poolgate-config, namespace: poolgate-system, behavior: merge, files: [poolgate.yaml]}\n")
    objects = c.render(folder)
    assert settings(objects)["totalGpuMemory"] == 24000

    def template(of):
        return only(of, "Deployment", "poolgate")["spec"]["template"]

    assert template(objects) != template(renders["base"][1])


# ---- gpuprobe on GPU nodes ----

@pytest.fixture(scope="module", name="gpuprobe")
def fixture_gpuprobe(c, base, tmp_path_factory):
    """The component beside the base, applied twice; its objects, and what kubectl said the second time."""
    assert base
    folder = composed(tmp_path_factory, "gpuprobe")
    c.kubectl("apply", "-k", folder)
    return c.render(folder), c.kubectl("apply", "-k", folder).stdout


def test_probe_component_applies(c, renders, gpuprobe):
    """It adds a DaemonSet and its namespace, and neither rights nor a change of anything else."""
    objects, said = gpuprobe
    own = [o for o in objects if o not in renders["base"][1]]
    assert sorted((o["kind"], o["metadata"]["name"]) for o in own) == [("DaemonSet", "gpuprobe"), ("Namespace", "gpuprobe")]
    assert all(o["metadata"]["labels"]["app.kubernetes.io/part-of"] == "poolgate" for o in own)
    assert "daemonset.apps/gpuprobe unchanged" in said
    template = c.client.get("daemonsets", "gpuprobe", "gpuprobe")["spec"]["template"]
    assert "poolgate.io/injected" not in template["metadata"]["labels"]
    spec = template["spec"]
    container = spec["containers"][0]
    assert not spec["automountServiceAccountToken"] and spec["nodeSelector"] == {"poolgate.io/gpu-server": ""}
    paths = {m["mountPath"] for m in container["volumeMounts"]}
    files = [w for w in container["args"] if w.startswith("/")]
    assert len(files) == 3 and {os.path.dirname(f) for f in files} == paths
    port = container["ports"][0]["containerPort"]
    assert container["args"][:2] == ["--listen", f":{port}"]


def test_probe_pod_is_admitted(c, gpuprobe):
    """With Pod Security in force: a port of the node is all that `restricted` would not have."""
    template = only(gpuprobe[0], "DaemonSet", "gpuprobe")["spec"]["template"]
    one = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": template["metadata"]["labels"]}, "spec": template["spec"]}
    c.client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, "gpuprobe")
    assert 'RuntimeClass "nvidia" not found' in (refused(c, one, "gpuprobe") or ""), "the class is the cluster's to have"
    c.client.create({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"})
    try:
        until(lambda: refused(c, one, "gpuprobe") is None, 30, lambda: refused(c, one, "gpuprobe"))
        with c.namespace(restricted=True) as strict:
            says = refused(c, one, strict)
            assert says and "hostPort" in says
            del one["spec"]["containers"][0]["ports"][0]["hostPort"]
            assert refused(c, one, strict) is None
    finally:
        c.client.delete("runtimeclasses", "nvidia")


# ---- the device plugin on worker nodes ----

@pytest.fixture(scope="module", name="device_plugin")
def fixture_device_plugin(c, base, tmp_path_factory):
    """The component beside the base, applied twice; its objects, and what kubectl said the second time."""
    assert base
    folder = composed(tmp_path_factory, "device-plugin")
    c.kubectl("apply", "-k", folder)
    return c.render(folder), c.kubectl("apply", "-k", folder).stdout


def test_device_plugin_applies(c, renders, device_plugin):
    """The overlay is the component; it changes nothing of the base; its DaemonSet has no more than it needs."""
    objects, said = device_plugin
    own = [o for o in objects if o not in renders["base"][1]]
    assert {(o["kind"], o["metadata"]["name"]) for o in own} == {
        ("Namespace", "poolgate-device-plugin"), ("ResourceQuota", "node-critical"), ("ServiceAccount", "device-plugin"),
        ("ClusterRole", "poolgate-device-plugin"), ("ClusterRoleBinding", "poolgate-device-plugin"), ("DaemonSet", "device-plugin")}
    assert all(o["metadata"]["labels"]["app.kubernetes.io/part-of"] == "poolgate" for o in own)
    assert c.render(os.path.join(ROOT, "manifests/overlays/device-plugin")) == objects
    assert "daemonset.apps/device-plugin unchanged" in said
    daemons = c.client.get("daemonsets", "device-plugin", "poolgate-device-plugin")["spec"]
    assert daemons["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == 1
    spec = daemons["template"]["spec"]
    container, = spec["containers"]
    assert spec["nodeSelector"] == {"poolgate.io/gpu-client": ""} and spec["priorityClassName"] == "system-node-critical"
    assert not any(spec.get(k) for k in ("hostNetwork", "hostPID", "hostIPC"))
    secure = container["securityContext"]
    assert secure["readOnlyRootFilesystem"] and not secure["privileged"] and not secure["allowPrivilegeEscalation"]
    assert secure["capabilities"] == {"drop": ["ALL"]} and spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    volume, = spec["volumes"]
    mount, = container["volumeMounts"]
    socket = container["args"][container["args"].index("--socket") + 1]
    assert volume["hostPath"]["path"] == mount["mountPath"] == os.path.dirname(socket) == "/var/lib/kubelet/plugins_registry"
    assert container["args"][-1].endswith(f":{container['ports'][0]['containerPort']}")


def test_device_plugin_may_read_the_pool_alone(c, device_plugin):
    """Whatever its account asks for but the list of GPUServers is refused."""
    assert device_plugin
    account = "system:serviceaccount:poolgate-device-plugin:device-plugin"

    def may(verb, group, resource, namespace="", subresource=""):
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
            "user": account, "groups": ["system:serviceaccounts", "system:authenticated"], "resourceAttributes": {
                "verb": verb, "group": group, "resource": resource, "namespace": namespace, "subresource": subresource}}}
        return c.client.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"]

    assert [v for v in ("get", "list", "watch") if may(v, "poolgate.io", "gpuservers")] == ["list", "watch"]
    assert not [v for v in ("create", "update", "patch", "delete") if may(v, "poolgate.io", "gpuservers")]
    assert not may("update", "poolgate.io", "gpuservers", subresource="status")
    assert not [r for r in ("pods", "nodes", "secrets", "configmaps", "events") for v in ("get", "list", "create", "patch")
                if may(v, "", r, "poolgate-device-plugin")]


def test_device_plugin_pod_is_admitted(c, device_plugin):
    """With Pod Security in force: a folder of the node and root are all that `restricted` would not have."""
    space = "poolgate-device-plugin"
    template = only(device_plugin[0], "DaemonSet", "device-plugin")["spec"]["template"]
    one = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": template["metadata"]["labels"]}, "spec": template["spec"]}
    # No controller counts here.
    c.client.patch("resourcequotas", "node-critical", {"status": {"hard": {"pods": "10000"}, "used": {"pods": "0"}}}, space,
                   subresource="status")
    until(lambda: refused(c, one, space) is None, 30, lambda: refused(c, one, space))
    with c.namespace(restricted=True) as strict:
        one["spec"]["serviceAccountName"] = "default"
        says = refused(c, one, strict)
        assert says and "hostPath" in says and "runAsNonRoot" in says and "runAsUser=0" in says
        assert not [w for w in ("capabilities", "seccomp", "privileged", "allowPrivilegeEscalation", "hostPort") if w in says], says


# ---- gpugate on GPU nodes ----

@pytest.fixture(scope="module", name="gpugate")
def fixture_gpugate(c, base, tmp_path_factory):
    """The component beside the base, applied twice; its objects, and what kubectl said the second time."""
    assert base
    folder = composed(tmp_path_factory, "gpugate")
    c.kubectl("apply", "-k", folder)
    return c.render(folder), c.kubectl("apply", "-k", folder).stdout


def test_gate_component_applies(c, renders, gpugate):
    """It changes nothing of the base; what the DaemonSet names is what it mounts and opens."""
    objects, said = gpugate
    own = [o for o in objects if o not in renders["base"][1]]
    assert {(o["kind"], o["metadata"]["name"]) for o in own} == {(k, "gpugate") for k in (
        "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "DaemonSet")}
    assert all(o["metadata"]["labels"]["app.kubernetes.io/part-of"] == "poolgate" for o in own)
    assert "daemonset.apps/gpugate unchanged" in said
    spec = c.client.get("daemonsets", "gpugate", "gpugate")["spec"]["template"]["spec"]
    container, = spec["containers"]
    assert not any(spec.get(k) for k in ("hostNetwork", "hostPID", "hostIPC")) and spec["nodeSelector"] == {"poolgate.io/gpu-server": ""}
    words = dict(zip(container["args"][1::2], container["args"][2::2], strict=True))
    paths = {m["mountPath"] for m in container["volumeMounts"]}
    assert {os.path.dirname(words[w]) for w in ("--cert", "--key", "--profile")} | {words["--state"]} == paths
    ports = {p["name"]: p["containerPort"] for p in container["ports"]}
    assert (words["--listen"], words["--status"]) == (f":{ports['gate']}", f":{ports['status']}")
    assert [p["name"] for p in container["ports"] if "hostPort" in p] == ["gate"]


def test_gate_may_read_the_pool_and_review_tokens_alone(c, gpugate):
    assert gpugate
    account = "system:serviceaccount:gpugate:gpugate"

    def may(verb, group, resource, namespace="", subresource=""):
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
            "user": account, "groups": ["system:serviceaccounts", "system:authenticated"], "resourceAttributes": {
                "verb": verb, "group": group, "resource": resource, "namespace": namespace, "subresource": subresource}}}
        return c.client.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"]

    assert [v for v in ("get", "list", "watch") if may(v, "poolgate.io", "gpuservers")] == ["list", "watch"]
    assert may("create", "authentication.k8s.io", "tokenreviews")
    assert not [v for v in ("create", "update", "patch", "delete") if may(v, "poolgate.io", "gpuservers")]
    assert not may("update", "poolgate.io", "gpuservers", subresource="status")
    assert not may("create", "", "serviceaccounts", "gpugate", subresource="token")
    assert not [r for r in ("pods", "nodes", "secrets", "configmaps", "events") for v in ("get", "list", "create", "patch") if may(v, "", r, "gpugate")]


def test_gate_pod_is_admitted(c, gpugate):
    """With Pod Security in force: root, four capabilities, a port and a folder of the node are all that `restricted` would not have."""
    template = only(gpugate[0], "DaemonSet", "gpugate")["spec"]["template"]
    one = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": template["metadata"]["labels"]}, "spec": template["spec"]}
    c.client.create({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"})
    try:
        until(lambda: refused(c, one, "gpugate") is None, 30, lambda: refused(c, one, "gpugate"))
        with c.namespace(restricted=True) as strict:
            one["spec"]["serviceAccountName"] = "default"
            says = refused(c, one, strict)
            assert says and all(w in says for w in ("hostPath", "runAsNonRoot", "runAsUser=0", "hostPort", "unrestricted capabilities")), says
            assert not [w for w in ("seccomp", "privileged", "allowPrivilegeEscalation", "hostNetwork") if w in says], says
    finally:
        c.client.delete("runtimeclasses", "nvidia")


# ---- GPUServer ----

V100 = {"model": "Tesla V100-PCIE-16GB", "memory": "16160Mi", "count": 1}
SERVER = {"apiVersion": "poolgate.io/v1alpha1", "kind": "GPUServer", "metadata": {"name": "gpu-01"},
          "spec": {"address": "10.117.32.177:56001", "gpus": [V100]}}


def server(name="gpu-01", drop=(), **spec):
    obj = copy.deepcopy(SERVER)
    obj["metadata"]["name"] = name
    obj["spec"].update(spec)
    for key in drop:
        del obj["spec"][key]
    return obj


def gpu(**members):
    return {"gpus": [{**V100, **members}]}


PROBE = {"url": "https://10.117.32.177:9443"}
GATE = {"profile": "lupine", "url": "https://gpu-01.lab:9447", "tokenSecret": "t"}


@pytest.mark.parametrize("spec", [
    {}, gpu(count=64), gpu(memory=16000000000), gpu(memory="16G"), gpu(memory="1M"), gpu(memory="1Pi"), gpu(memory="1.5Ti"), gpu(memory="16e9"), gpu(model="x" * 128),
    {"gpus": [V100] * 256}, {"gpus": [{"model": "a", "memory": "1Gi"}]}, {"drain": True}, {"address": "gpu-01.lab:1"},
    {"address": "[fd00::1]:65535"}, {"gpus": None, "probe": PROBE}, {"gpus": None, "probe": {"url": "http://gpu-01:9443/v1"}},
    {"gpus": None, "probe": {**PROBE, "caSecret": "a.b", "tokenSecret": "t", "clientSecret": "c"}}, {"gate": GATE},
    {"gate": {**GATE, "caSecret": "a.b", "strangers": "tell"}}, {"gate": {**GATE, "mode": "address"}}])
def test_good_servers(c, base, spec):
    assert base
    obj = server(**{k: v for k, v in spec.items() if v is not None}, drop=[k for k, v in spec.items() if v is None])
    c.client.create(obj, dry_run=True)


@pytest.mark.parametrize("spec, says", [
    ({"gpus": None}, "no GPUs: list them, as in gpus: [{model: Tesla V100-PCIE-16GB, memory: 16160Mi, count: 1}]"),
    ({"probe": PROBE}, "gpus and probe exclude each other"),
    ({"gpus": []}, "spec.gpus in body should have at least 1 items"),
    ({"address": None}, "spec.address: Required value"),
    ({"address": "10.117.32.177"}, "expected HOST:PORT"), ({"address": "a b:1"}, "expected HOST:PORT"),
    ({"address": "host:0"}, "expected HOST:PORT"), ({"address": "host:65536"}, "expected HOST:PORT"),
    ({"address": "host:99999999999999999999"}, "expected HOST:PORT"),
    (gpu(memory=16160), "spec.gpus[0].memory in body should be greater than or equal to 1000000"),
    (gpu(memory=2 * 10**15), "should be less than or equal to 1125899906842624"),
    *((gpu(memory=text), "spec.gpus[0].memory in body should match") for text in ("16160", "lots", "2Pi", "-1Gi", "1000000500m", "16 Gi")),
    (gpu(count=0), "should be greater than or equal to 1"), (gpu(count=65), "should be less than or equal to 64"),
    (gpu(model=""), "at least 1 chars long"), (gpu(model="x" * 129), "Too long: may not be "),
    ({"gpus": [{**V100, "count": 64}] * 5}, "more than 256 GPUs on one server"),
    ({"gpus": None, "probe": {"url": "gpu-01:9443"}}, "expected an http or https URL"),
    ({"gpus": None, "probe": {"url": "https://"}}, "expected an http or https URL"),
    ({"gpus": None, "probe": {"url": "https://a b"}}, "expected an http or https URL"),
    ({"gpus": None, "probe": {"url": "http://a", "tokenSecret": "t"}}, "in the clear"),
    ({"gpus": None, "probe": {**PROBE, "caSecret": "A_b"}}, "spec.probe.caSecret in body should match"),
    ({"gpus": None, "probe": {**PROBE, "clientSecret": "-c"}}, "spec.probe.clientSecret in body should match"),
    ({"gpus": None, "probe": {}}, "spec.probe.url: Required value"),
    *(({"gate": {k: v for k, v in GATE.items() if k != member}}, f"spec.gate.{member}: Required value") for member in GATE),
    ({"gate": {**GATE, "profile": "A"}}, "spec.gate.profile in body should match"),
    *(({"gate": {**GATE, "url": url}}, "expected an https URL") for url in ("gpu-01:9447", "http://gpu-01:9447", "https://")),
    ({"gate": {**GATE, "strangers": "maybe"}}, "spec.gate.strangers"), ({"gate": {**GATE, "mode": "session"}}, "spec.gate.mode")])
def test_bad_servers(c, base, spec, says):
    assert base
    obj = server(**{k: v for k, v in spec.items() if v is not None}, drop=[k for k, v in spec.items() if v is None])
    with pytest.raises(ApiError) as e:
        c.client.create(obj, dry_run=True)
    assert e.value.status == 422
    assert says in e.value.message


def test_misspelt_member_is_named(c, base):
    assert base
    done = c.kubectl("apply", "--dry-run=server", "-f", "-", input=json.dumps(server(drian=True)), check=False)
    assert done.returncode and 'unknown field "spec.drian"' in done.stderr


STATUS = {
    "version": 1, "observedGeneration": 1,
    "gpus": [{"id": "gpu-0", "model": "Tesla V100-PCIE-16GB", "memory": 16944988160, "fit": True, "missing": False, "reason": ""}],
    "claims": [{"uid": "0e7e1c1a", "namespace": "bwki", "name": "newtrain", "state": "bound", "plan": "00112233445566aa",
                "since": "2026-11-21T09:30:00Z", "take": "ffeeddccbbaa9988", "servers": ["gpu-01"],
                "gpus": [{"id": "gpu-0", "bytes": 8472494080}]}],
    "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1, "lastTransitionTime": "2026-11-21T09:30:00Z",
                    "reason": "Ready", "message": ""}],
    "summary": {"gpus": 1, "fit": 1, "free": 8472, "claims": 1}}


def decorated(value):
    """The same with a member in every object that this version does not know."""
    if isinstance(value, dict):
        return {**{k: decorated(v) for k, v in value.items()}, "later": {"a": [1, "b"]}}
    return [decorated(v) for v in value] if isinstance(value, list) else value


@pytest.fixture(name="gpu_01")
def fixture_gpu_01(c, base):
    assert base
    yield c.client.create(server())
    c.client.delete("gpuservers", "gpu-01")


@pytest.mark.parametrize("status", [STATUS, decorated(STATUS)], ids=["as documented", "with members of a later version"])
def test_status_survives_whole(c, gpu_01, status):
    meta = {k: gpu_01["metadata"][k] for k in ("name", "uid", "resourceVersion")}
    c.client.replace({"apiVersion": gpu_01["apiVersion"], "kind": gpu_01["kind"], "metadata": meta, "status": status}, "status")
    now = c.client.get("gpuservers", "gpu-01")
    assert now["status"] == status
    assert now["spec"] == gpu_01["spec"], "a status write without a spec changed the spec"
    c.client.patch("gpuservers", "gpu-01", {"status": {"summary": {"free": 0}}, "metadata": {"finalizers": ["poolgate.io/claims"]}})
    now = c.client.get("gpuservers", "gpu-01")
    assert now["status"] == status, "status is written past its subresource"
    assert now["metadata"]["finalizers"] == ["poolgate.io/claims"]
    c.client.patch("gpuservers", "gpu-01", {"metadata": {"finalizers": None}})


def test_columns(c, gpu_01):
    short = c.kubectl("get", "gpuservers").stdout.splitlines()
    assert short[0].split() == ["NAME", "GPUS", "FIT", "FREE", "CLAIMS", "AGE"]
    gpu_01["status"] = STATUS
    c.client.replace(gpu_01, "status")
    for name in ("gpuservers", "gpuserver", "gpusrv"):
        assert c.kubectl("get", name).stdout.splitlines()[1].split()[:5] == ["gpu-01", "1", "1", "8472", "1"]
    wide = c.kubectl("get", "gpuservers", "-o", "wide").stdout.splitlines()
    assert wide[0].split() == ["NAME", "GPUS", "FIT", "FREE", "CLAIMS", "READY", "ADDRESS", "AGE"]
    assert wide[1].split()[:7] == ["gpu-01", "1", "1", "8472", "1", "True", "10.117.32.177:56001"]


def test_explain(c, base):
    assert base
    # The API server tells of a new kind a moment after it serves it.
    until(lambda: c.kubectl("explain", "gpuservers.spec", check=False).returncode == 0, 20, "kubectl explain")
    text = c.kubectl("explain", "gpuservers.spec").stdout
    for field in ("address\t<string> -required-", "drain\t<boolean>", "gpus\t<[]Object>", "probe\t<Object>"):
        assert field in text
    assert "<no description>" not in c.kubectl("explain", "gpuservers", "--recursive=false").stdout.replace("metadata", "")

    def described(schema, path):
        assert schema.get("description"), path
        for key, inner in schema.get("properties", {}).items():
            if path + "." + key != "gpuserver.metadata":
                described(inner, path + "." + key)
        inner = schema.get("items")
        for key, value in (inner or {}).get("properties", {}).items():
            described(value, f"{path}[].{key}")

    crd = c.client.get("customresourcedefinitions", "gpuservers.poolgate.io")
    described(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "gpuserver")


def test_example_servers_apply(c, base):
    assert base
    c.kubectl("apply", "--dry-run=server", "-f", os.path.join(EXAMPLES, "gpuservers.yaml"))
    c.kubectl("apply", "--dry-run=server", "-f", os.path.join(EXAMPLES, "pool.yaml"))
    c.kubectl("-n", "default", "apply", "--dry-run=server", "-f", os.path.join(EXAMPLES, "open-namespace.yaml"))
    c.kubectl("-n", "default", "apply", "--dry-run=server", "-f", os.path.join(EXAMPLES, "open-registry.yaml"))


# ---- hooks, while no replica is there ----

DOWN = "failed calling webhook \"validate.poolgate.io\""
SWITCH = {"auto-management/bitfusion": "all"}


def pod(name=None, annotations=None, labels=None, limits=None, volumes=None, container=None, init=None, **spec):
    one = {"name": "main", "image": "example.invalid/x", "resources": {"limits": limits or {}}, **(container or {})}
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": annotations or {}, "labels": labels or {}},
           "spec": {"automountServiceAccountToken": False, "containers": [one], "volumes": volumes or [], **spec}}
    if init:
        obj["spec"]["initContainers"] = [{"name": "init", "image": "example.invalid/x", **init}]
    obj["metadata"]["name"] = name or "p-" + uuid.uuid4().hex[:8]
    return obj


def refused(c, obj, namespace):
    """None, or why."""
    try:
        c.client.create(obj, namespace, dry_run=True)
    except ApiError as e:
        return e.message
    return None


def wait_hook(c, namespace):
    """Until the API server knows the hooks, and that nobody answers."""
    until(lambda: DOWN in (refused(c, pod(annotations=SWITCH), namespace) or ""), 30, "the validating hook is in force")


@pytest.fixture(scope="module", name="ns")
def fixture_ns(c, base):
    assert base
    with c.namespace() as ns:
        wait_hook(c, ns)
        yield ns


SECRET = "bitfusion-client-secret-ca.crt"
ADMITTED = {
    "plain": {},
    "annotations and labels of others": {"annotations": {"a/b": "c"}, "labels": {"d": "e"}},
    "switch empty": {"annotations": {"auto-management/bitfusion": ""}},
    "mirror pod": {"annotations": {"kubernetes.io/config.mirror": "x", **SWITCH}, "nodeName": "n1"},
    "other extended resource": {"limits": {"nvidia.com/gpu": "1"}},
    "other secrets": {"volumes": [{"name": "v", "secret": {"secretName": "mine"}}],
                      "container": {"envFrom": [{"secretRef": {"name": "mine"}}],
                                    "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "mine", "key": "k"}}}]}}}
TO_US = {
    "switch": {"annotations": SWITCH},
    "amount without switch": {"limits": {"bitfusion.io/gpu-amount": "1"}},
    "units": {"limits": {"bitfusion.io/gpu": "100"}},
    "amount in an init container": {"init": {"resources": {"limits": {"bitfusion.io/gpu-amount": "1"}}}},
    "forged plan": {"annotations": {"poolgate.io/plan": "{}"}},
    "forged gate": {"schedulingGates": [{"name": "poolgate.io/capacity"}]},
    "forged place": {"annotations": {"poolgate.io/place": "gpu-01/gpu-0"}},
    "forged label": {"labels": {"poolgate.io/injected": "true"}},
    "secret volume": {"volumes": [{"name": "v", "secret": {"secretName": SECRET}}]},
    "secret in a projected volume": {"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": SECRET}}]}}]},
    "secret in a variable": {"container": {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": SECRET, "key": "k"}}}]}},
    "secret in all variables": {"container": {"envFrom": [{"configMapRef": {"name": "a"}}, {"secretRef": {"name": SECRET}}]}},
    "secret in a variable of an init container": {"init": {"envFrom": [{"secretRef": {"name": SECRET}}]}}}


@pytest.mark.parametrize("what", ADMITTED)
def test_admitted_without_us(c, ns, what):
    if what == "mirror pod":
        # The condition alone: the kubelet's owner reference to a Node is not what this is about.
        assert DOWN not in (refused(c, pod(**ADMITTED[what]), ns) or "")
    else:
        assert refused(c, pod(**ADMITTED[what]), ns) is None


@pytest.mark.parametrize("what", TO_US)
def test_refused_without_us(c, ns, what):
    assert DOWN in (refused(c, pod(**TO_US[what]), ns) or "admitted")


@pytest.mark.parametrize("where", ["kube-system", "kube-public", "poolgate-system"])
def test_namespaces_that_do_not_need_us(c, ns, where):
    assert ns
    c.client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, where)
    assert DOWN not in (refused(c, pod(annotations=SWITCH), where) or "")


@pytest.fixture(scope="module", name="injected")
def fixture_injected(c, ns):
    """A pod that looks injected, made while the hooks were not there."""
    c.client.delete("validatingwebhookconfigurations", "poolgate")
    obj = pod("injected", {**SWITCH, "poolgate.io/plan": "{}", "auto-management/status": "injected"},
              {"poolgate.io/injected": "true"}, {"bitfusion.io/gpu": "100"})
    obj["metadata"]["finalizers"] = ["example.com/x"]
    obj["spec"]["volumes"] = [{"name": "ours", "secret": {"secretName": SECRET}}, {"name": "mine", "secret": {"secretName": "mine"}}]
    until(lambda: refused(c, obj, ns) is None, 30, "the hooks are gone")
    c.client.create(obj, ns)
    c.client.create(pod("bare"), ns)
    c.kubectl("apply", "-k", BASE)
    wait_hook(c, ns)
    yield "injected"
    for name in ("injected", "bare"):
        c.client.patch("pods", name, {"metadata": {"finalizers": None}}, ns)


def added(**more):
    """A container that is added to a pod that lives."""
    return {"spec": {"ephemeralContainers": [{"name": "more", "image": "x", "targetContainerName": "main", **more}]}}


META_OK = [
    ("injected", "ephemeralcontainers", added()),
    ("injected", "ephemeralcontainers", added(volumeMounts=[{"name": "mine", "mountPath": "/m"}], envFrom=[{"secretRef": {"name": "mine"}}])),
    ("injected", "", {"metadata": {"labels": {"mine": "x"}, "annotations": {"my/a": "b"}}}),
    ("injected", "", {"metadata": {"finalizers": None}}),
    ("injected", "", {"metadata": {"annotations": {"auto-management/status": "?"}}}),
    ("injected", "status", {"status": {"phase": "Running"}}),
    ("injected", "status", {"status": {"phase": "Succeeded"}}),
    ("bare", "status", {"status": {"phase": "Failed"}}),
    ("bare", "", {"metadata": {"annotations": {"auto-management/bitfusion": "all"}}})]
META_TO_US = [
    ("injected", "ephemeralcontainers", added(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": SECRET, "key": "k"}}}])),
    ("bare", "ephemeralcontainers", added(envFrom=[{"secretRef": {"name": "juice-token"}}])),
    ("injected", "ephemeralcontainers", added(volumeMounts=[{"name": "ours", "mountPath": "/m"}])),
    ("injected", "", {"metadata": {"labels": {"poolgate.io/injected": None}}}),
    ("injected", "", {"metadata": {"labels": {"poolgate.io/injected": "no"}}}),
    ("injected", "", {"metadata": {"annotations": {"poolgate.io/plan": "{\"x\":1}"}}}),
    ("injected", "", {"metadata": {"annotations": {"poolgate.io/plan": None}}}),
    ("injected", "status", {"metadata": {"annotations": {"poolgate.io/plan": "{\"x\":1}"}}}),
    ("injected", "status", {"metadata": {"labels": {"poolgate.io/injected": None}}}),
    ("bare", "", {"metadata": {"annotations": {"poolgate.io/plan": "{}"}}}),
    ("bare", "status", {"metadata": {"labels": {"poolgate.io/injected": "true"}}})]


@pytest.mark.parametrize("name, sub, change", META_OK)
def test_updates_admitted_without_us(c, ns, injected, name, sub, change):
    assert injected
    c.client.patch("pods", name, change, ns, subresource=sub or None, dry_run=True)


@pytest.mark.parametrize("name, sub, change", META_TO_US)
def test_updates_refused_without_us(c, ns, injected, name, sub, change):
    assert injected
    with pytest.raises(ApiError, match="validate.poolgate.io"):
        c.client.patch("pods", name, change, ns, subresource=sub or None, dry_run=True)


def test_pods_can_be_deleted_without_us(c, ns, injected):
    c.client.call("DELETE", c.client.path("pods", ns, injected), params={"dryRun": "All"})


def test_workloads_are_applied_without_us(c, ns):
    template = pod(annotations=SWITCH, labels={"app": "x"}, limits={"bitfusion.io/gpu-amount": "1"})
    template["metadata"].pop("name")
    meta = {"name": "w"}
    batch = {**copy.deepcopy(template), "spec": {**template["spec"], "restartPolicy": "Never"}}
    selected = {"selector": {"matchLabels": {"app": "x"}}, "template": template}
    kinds = [("apps/v1", "Deployment", selected), ("apps/v1", "StatefulSet", {**selected, "serviceName": "w"}),
             ("apps/v1", "DaemonSet", selected), ("apps/v1", "ReplicaSet", selected), ("batch/v1", "Job", {"template": batch}),
             ("batch/v1", "CronJob", {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": batch}}}),
             ("v1", "ReplicationController", {"selector": {"app": "x"}, "template": template})]
    before = fail_open(c)
    for api, kind, spec in kinds:
        c.client.create({"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec}, ns, dry_run=True)
    # Each was sent to us and let through since we did not answer; a workload that mentions nothing of ours is not sent.
    assert fail_open(c) - before == len(kinds)
    template["metadata"]["annotations"] = {}
    resources = template["spec"]["containers"][0].pop("resources")
    c.client.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": selected}, ns, dry_run=True)
    template["spec"]["containers"][0]["resources"] = resources
    owned = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {"selector": selected["selector"], "template": {
        **template, "metadata": {**template["metadata"], "annotations": SWITCH}}}, "metadata": {**meta, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "1", "controller": True}]}}
    c.client.create(owned, ns, dry_run=True)
    assert fail_open(c) - before == len(kinds)


def test_mutating_hook_is_asked_for_gpu_pods_alone(c, ns, injected):
    assert injected
    name = "mutate.poolgate.io"
    before = fail_open(c, name)
    for what in ("plain", "switch empty", "other extended resource"):
        assert refused(c, pod(**ADMITTED[what]), ns) is None
    for sub, change in (("", {"metadata": {"labels": {"mine": "x"}}}), ("status", {"status": {"phase": "Running"}})):
        c.client.patch("pods", "injected", change, ns, subresource=sub or None, dry_run=True)
    assert fail_open(c, name) == before
    refused(c, pod(**TO_US["switch"]), ns)
    assert fail_open(c, name) == before + 1
    # The user's own manifest once more: without us the API server says that a pod's resources stay as they are.
    again = pod("injected", SWITCH, limits={"bitfusion.io/gpu-amount": "1"})
    with pytest.raises(ApiError):
        c.client.patch("pods", "injected", {"spec": again["spec"]}, ns, kind="strategic", dry_run=True)
    assert fail_open(c, name) == before + 2


def fail_open(c, name="warn.poolgate.io"):
    """How often the API server has gone on without that hook."""
    total = 0
    for line in c.client.call("GET", "/metrics", accept="*/*").splitlines():
        if line.startswith("apiserver_admission_webhook_fail_open_count{") and f'name="{name}"' in line:
            total += int(float(line.rsplit(" ", 1)[1]))
    return total


def huge():
    """Plain pods as large as an API server takes them, each kind of list at its longest."""
    many = pod()
    many["spec"]["containers"] = [{"name": f"c{i}", "image": "x", "env": [{"name": "A", "value": "b"}] * 3, "resources": {
        "limits": {"cpu": "1", "memory": "1Gi"}}} for i in range(1000)]
    many["metadata"]["annotations"] = {f"a{i}": "b" for i in range(2000)}
    env = pod(container={"env": [{"name": f"a{i}", "value": "b"} for i in range(20000)]})
    env_from = pod(container={"envFrom": [{"configMapRef": {"name": f"a{i}"}} for i in range(20000)]})
    volumes = pod(volumes=[{"name": f"v{i}", "emptyDir": {}} for i in range(5000)])
    projected = pod(volumes=[{"name": "v", "projected": {"sources": [{"configMap": {"name": f"a{i}"}} for i in range(8000)]}}])
    return {"1,000 containers, 2,000 annotations": many, "20,000 variables": env, "20,000 sources of variables": env_from,
            "5,000 volumes": volumes, "8,000 projected sources": projected}


@pytest.mark.parametrize("what", huge())
def test_huge_pods_stay_within_the_budget(c, ns, what):
    assert refused(c, huge()[what], ns) is None


# ---- what the leader writes stays ----

def test_applying_again_keeps_the_ca_bundle(c, base):
    assert base
    kinds = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    token = c.account_token("poolgate-system", "poolgate")
    leader = c.client_for(token=token)
    with open(os.path.join(c.dir, "ca.crt"), "rb") as f:
        pem = base64.b64encode(f.read()).decode()
    for kind in kinds:
        names = [w["name"] for w in leader.get(kind, "poolgate")["webhooks"]]
        leader.patch(kind, "poolgate", {"webhooks": [{"name": n, "clientConfig": {"caBundle": pem}} for n in names]}, kind="strategic")

    def bundles():
        return [w["clientConfig"].get("caBundle") for k in kinds for w in c.client.get(k, "poolgate")["webhooks"]]

    assert bundles() == [pem] * 3
    c.kubectl("apply", "-k", BASE)
    assert bundles() == [pem] * 3
    c.kubectl("apply", "--server-side", "--force-conflicts", "-k", BASE)
    assert bundles() == [pem] * 3
    c.kubectl("apply", "--server-side", "-k", BASE)
    assert bundles() == [pem] * 3


def test_requests_have_a_priority_level_of_their_own(c, base):
    assert base
    client = c.client_for(token=c.account_token("poolgate-system", "poolgate"))
    schema = c.client.get("flowschemas", "poolgate")["metadata"]["uid"]
    for path in ("/apis/poolgate.io/v1alpha1/gpuservers", "/api/v1/pods", "/api/v1/namespaces", "/api/v1/namespaces/default",
                 "/apis/poolgate.io/v1alpha1/gpupolicies/any",
                 "/apis/coordination.k8s.io/v1/namespaces/poolgate-system/leases/poolgate-leader",
                 "/api/v1/namespaces/poolgate-system/secrets/poolgate-tls"):
        until(lambda p=path: client.request("GET", p)[1].get("X-Kubernetes-PF-FlowSchema-UID") == schema, 20, path)


# ---- the Deployment ----

def test_our_namespace_takes_our_pods(c, base, renders):
    """Its Pod Security is `restricted`, also against our account, and the Deployment's pods pass it."""
    assert base
    labels = c.client.get("namespaces", "poolgate-system")["metadata"]["labels"]
    assert {labels[f"pod-security.kubernetes.io/{m}"] for m in ("enforce", "audit", "warn")} == {"restricted"}
    template = only(renders["base"][1], "Deployment", "poolgate")["spec"]["template"]
    ours = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ours", "labels": template["metadata"]["labels"]},
            "spec": template["spec"]}
    made = c.client.create(ours, "poolgate-system", dry_run=True)
    assert made["spec"]["priority"] == 2000000000
    assert not c.client.warnings
    with pytest.raises(ApiError, match='violates PodSecurity "restricted:latest"'):
        c.client.create(pod(serviceAccountName="poolgate"), "poolgate-system", dry_run=True)
    one = template["spec"]["containers"][0]
    assert one["securityContext"]["readOnlyRootFilesystem"] and one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {"requests", "limits"} <= set(one["resources"]) and {"startupProbe", "livenessProbe", "readinessProbe"} <= set(one)


# ---- rights ----

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "bind", "escalate", "impersonate", "use")
SUBRESOURCES = ("pods/exec", "pods/log", "pods/status", "pods/binding", "pods/eviction", "pods/ephemeralcontainers", "pods/resize",
                "pods/proxy", "pods/portforward", "nodes/proxy", "nodes/status", "services/proxy", "serviceaccounts/token",
                "namespaces/finalize", "gpuservers.poolgate.io/status", "deployments.apps/scale")
EVERYWHERE = {("pods", v) for v in ("get", "list", "watch")} | {("events", "create")} | {
    ("gpuservers.poolgate.io", v) for v in ("get", "list", "watch", "patch")} | {("gpuservers.poolgate.io/status", "update")} | {
    # of every account: what it may do itself, and who it is
    ("selfsubjectaccessreviews.authorization.k8s.io", "create"), ("selfsubjectrulesreviews.authorization.k8s.io", "create"),
    ("selfsubjectreviews.authentication.k8s.io", "create")}
AT_HOME = {("leases.coordination.k8s.io", "create"), ("secrets", "get"), ("secrets", "create")}


def rights(c, namespace, name=None, resources=None):
    """What our account may do there: {(resource.group/subresource, verb)}."""
    c.client.items("gpuservers")
    found = resources or sorted({r["plural"] + ("." + r["group"] if r["group"] else "") for r in c.discovery.found} | set(SUBRESOURCES))
    allowed = set()
    for what in found:
        plain, _, sub = what.partition("/")
        resource, _, group = plain.partition(".")
        allowed |= {(what, v) for v in VERBS if c.client.allowed(v, resource, namespace, ACCOUNT, GROUPS, group, sub, name)}
    return allowed


@pytest.mark.parametrize("namespace", ["default", "kube-system", "poolgate-system"])
def test_rights_are_these_and_no_others(c, base, namespace):
    assert base
    # 1.36 lets every account see what a ClusterTrustBundle holds.
    got = {r for r in rights(c, namespace) if not r[0].startswith("clustertrustbundles")}
    assert got == EVERYWHERE | (AT_HOME if namespace == "poolgate-system" else set())


# What discovery does not show: (verb, resource, group).
NEVER = [("impersonate", "users", ""), ("impersonate", "groups", ""), ("impersonate", "uids", "authentication.k8s.io"),
         ("impersonate", "userextras", "authentication.k8s.io"), ("approve", "signers", "certificates.k8s.io"),
         ("sign", "signers", "certificates.k8s.io"), ("attest", "signers", "certificates.k8s.io"), ("*", "*", "*")]
PATHS = ("/metrics", "/logs/", "/debug/pprof/", "/configz", "/flagz", "/statusz", "/anything")


def test_no_rights_beyond_resources(c, base):
    """Nobody else's name, no certificate's approval, and of the API server's own pages those alone that every account may read."""
    assert base
    assert [n for n in NEVER if c.client.allowed(n[0], n[1], None, ACCOUNT, GROUPS, n[2])] == []

    def may_read(path, user, groups):
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
                  "spec": {"user": user, "groups": groups, "nonResourceAttributes": {"path": path, "verb": "get"}}}
        return c.client.create(review)["status"]["allowed"]

    assert [p for p in PATHS if may_read(p, ACCOUNT, GROUPS)] == []
    assert may_read("/healthz", ACCOUNT, GROUPS) and may_read("/metrics", "admin", ["system:masters"])


@pytest.mark.parametrize("what, name, verbs", [
    ("leases.coordination.k8s.io", "poolgate-leader", {"get", "update"}), ("leases.coordination.k8s.io", "other", set()),
    ("secrets", "poolgate-ca", {"get", "list", "watch", "update"}), ("secrets", "poolgate-tls", {"get", "list", "watch", "update"}),
    ("secrets", "poolgate-plan-keys", {"get", "update"}), ("secrets", "other", {"get"}),
    ("mutatingwebhookconfigurations.admissionregistration.k8s.io", "poolgate", {"get", "patch"}),
    ("validatingwebhookconfigurations.admissionregistration.k8s.io", "poolgate", {"get", "patch"}),
    ("validatingwebhookconfigurations.admissionregistration.k8s.io", "other", set())])
def test_rights_by_name(c, base, what, name, verbs):
    assert base
    create = {"create"} if what == "secrets" or what.startswith("leases") else set()
    assert rights(c, "poolgate-system", name, [what]) == {(what, v) for v in verbs | create}


def test_rights_in_an_opened_namespace(c, ns):
    """With the overlay `secrets`: in a namespace that a RoleBinding opens, and nowhere else."""
    c.kubectl("apply", "-k", OVERLAYS["secrets"])
    assert rights(c, ns, SECRET, ["secrets"]) == set()
    c.kubectl("-n", ns, "apply", "-f", os.path.join(EXAMPLES, "open-namespace.yaml"))
    create = {("secrets", "create")}
    until(lambda: rights(c, ns, SECRET, ["secrets"]) == {("secrets", v) for v in ("get", "update", "delete")} | create, 20, "rights")
    assert rights(c, ns, "other", ["secrets"]) == rights(c, ns, None, ["secrets"]) == create
    assert rights(c, "default", SECRET, ["secrets"]) == set()
    for name in (SECRET, "bitfusion-secret"):
        assert rights(c, "kube-system", name, ["secrets"]) == {("secrets", v) for v in ("get", "list", "watch")}
    assert rights(c, "kube-system", "other", ["secrets"]) == rights(c, "kube-system", None, ["secrets"]) == set()
    c.kubectl("-n", ns, "delete", "-f", os.path.join(EXAMPLES, "open-namespace.yaml"))


def roles_text(renders):
    lines = []
    for name in ("base", "secrets", "all-namespaces-secrets", "cert-manager", "gpupool", "quotas", "registry", "waiting", "eviction", "policies", "usage",
                 "usage-metrics"):
        lines.append(f"== {name}")
        objects = renders[name][1]
        for obj in objects:
            meta = obj["metadata"]
            where = f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else meta["name"]
            if obj["kind"] in ("Role", "ClusterRole"):
                for rule in obj["rules"]:
                    if "nonResourceURLs" in rule:
                        lines.append(f"{obj['kind']} {where}: {' '.join(rule['verbs'])} {' '.join(rule['nonResourceURLs'])}")
                    for group in rule.get("apiGroups", []):
                        for resource in rule["resources"]:
                            names = " [" + " ".join(rule["resourceNames"]) + "]" if "resourceNames" in rule else ""
                            full = resource + ("." + group if group else "")
                            lines.append(f"{obj['kind']} {where}: {' '.join(rule['verbs'])} {full}{names}")
            elif obj["kind"] in ("RoleBinding", "ClusterRoleBinding"):
                who = " ".join(s["kind"] + " " + (f"{s['namespace']}/" if "namespace" in s else "") + s["name"] for s in obj["subjects"])
                lines.append(f"{obj['kind']} {where}: {obj['roleRef']['kind']} {obj['roleRef']['name']} to {who}")
    return "\n".join(lines) + "\n"


def test_roles_are_as_reviewed(renders):
    """golden/roles.txt is what somebody has read and agreed to; POOLGATE_UPDATE=1 writes it anew."""
    text = roles_text(renders)
    if os.environ.get("POOLGATE_UPDATE"):
        with open(GOLDEN, "w", encoding="utf-8") as f:
            f.write(text)
    with open(GOLDEN, encoding="utf-8") as f:
        assert text == f.read()
    assert not re.search(r"\*|deletecollection|escalate|impersonate|\bbind\b", text)


# ---- the policy over Secrets ----

OURS = {"app.kubernetes.io/managed-by": "poolgate"}


def secret(name, kind="Opaque", labels=None, annotations=None, data=None):
    return {"apiVersion": "v1", "kind": "Secret", "type": kind, "data": data or {},
            "metadata": {"name": name, "labels": OURS if labels is None else labels, "annotations": annotations or {}}}


@pytest.fixture(scope="module", name="abuser")
def fixture_abuser(c, ns):
    """Our account's token in wrong hands, with rights on every Secret: the policy alone is in the way."""
    c.kubectl("apply", "-k", OVERLAYS["all-namespaces-secrets"])
    c.client.create({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "abuse"},
                     "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}]})
    c.client.create({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "abuse"},
                     "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "abuse"},
                     "subjects": [{"kind": "ServiceAccount", "name": "poolgate", "namespace": "poolgate-system"}]})
    account = c.client_for(token=c.account_token("poolgate-system", "poolgate"))

    def in_force():
        try:
            account.create(secret("x"), ns, dry_run=True)
        except ApiError as e:
            return "poolgate writes only" in e.message
        return False

    until(in_force, 60, "the policy is in force")
    yield account
    c.client.delete("clusterrolebindings", "abuse")
    c.client.delete("clusterroles", "abuse")


TOKEN = {"kubernetes.io/service-account.name": "default"}


@pytest.mark.parametrize("where, obj, says", [
    ("ns", secret("token", "kubernetes.io/service-account-token", annotations=TOKEN), "only"),
    ("ns", secret(SECRET, "kubernetes.io/service-account-token", annotations=TOKEN), "type Opaque"),
    ("ns", secret(SECRET, "kubernetes.io/dockerconfigjson", data={".dockerconfigjson": "e30="}), "type Opaque"),
    ("ns", secret("bitfusion-client-secret-other"), "only the client's Secrets"), ("ns", secret("anything"), "only the client's"),
    ("ns", secret(SECRET, labels={}), "its label"), ("ns", secret(SECRET, labels={"app.kubernetes.io/managed-by": "me"}), "its label"),
    ("ns", secret("poolgate-tls"), "only the client's"), ("kube-system", secret(SECRET), "cluster's own namespaces"),
    ("kube-system", secret("bitfusion-secret"), "cluster's own namespaces"),
    ("kube-public", secret(SECRET), "cluster's own namespaces"),
    ("poolgate-system", secret("t", "kubernetes.io/service-account-token", annotations={"kubernetes.io/service-account.name": "poolgate"}),
     "only the Secrets poolgate-ca"),
    ("poolgate-system", secret("poolgate-ca", "kubernetes.io/service-account-token",
                               annotations={"kubernetes.io/service-account.name": "poolgate"}), "only Secrets of the types"),
    ("poolgate-system", secret(SECRET), "only the Secrets poolgate-ca")])
def test_policy_refuses_to_create(c, abuser, ns, where, obj, says):
    c.client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, ns)
    with pytest.raises(ApiError) as e:
        abuser.create(obj, ns if where == "ns" else where)
    assert e.value.status == 403 and says in e.value.message, e.value.message


def test_policy_refuses_generated_names(abuser, ns):
    obj = secret("x")
    obj["metadata"] = {"generateName": SECRET, "labels": OURS}
    with pytest.raises(ApiError, match="only the client's Secrets"):
        abuser.create(obj, ns)


def test_policy_lets_the_copies_live(abuser, ns):
    for name in (SECRET, "bitfusion-client-secret-client.yml", "bitfusion-client-secret-servers.conf"):
        made = abuser.create(secret(name), ns)
        made["data"] = {"k": "AAAA"}
        made = abuser.replace(made)
        del made["metadata"]["labels"]
        with pytest.raises(ApiError, match="its label"):
            abuser.replace(made)
        abuser.delete("secrets", name, ns, missing_ok=False)


def test_policy_keeps_secrets_of_others(c, abuser, ns):
    for name, labels in ((SECRET, {}), ("mine", OURS), ("mine-too", {})):
        made = c.client.create(secret(name, labels=labels), ns)
        made["metadata"]["labels"] = OURS
        with pytest.raises(ApiError, match="somebody else's|only the client's"):
            abuser.replace(made)
        with pytest.raises(ApiError, match="somebody else's|only the client's|its label"):
            abuser.patch("secrets", name, {"data": {"k": "AAAA"}}, ns)
        with pytest.raises(ApiError, match="somebody else's|only the client's"):
            abuser.delete("secrets", name, ns)
    abuser_all = c.client.path("secrets", ns)
    with pytest.raises(ApiError, match="somebody else's|only the client's"):
        abuser.call("DELETE", abuser_all)
    assert {s["metadata"]["name"] for s in c.client.items("secrets", ns)} >= {SECRET, "mine", "mine-too"}
    c.client.delete_all("secrets", ns)


def test_policy_in_our_namespace(c, abuser):
    for name, kind, data in (("poolgate-ca", "Opaque", {}), ("poolgate-tls", "kubernetes.io/tls", {"tls.crt": "", "tls.key": ""})):
        made = abuser.create(secret(name, kind, data=data, labels={}), "poolgate-system")
        made["metadata"]["annotations"] = {"a": "b"}
        abuser.replace(made)
        with pytest.raises(ApiError, match="deletes no Secret"):
            abuser.delete("secrets", name, "poolgate-system")
        c.client.delete("secrets", name, "poolgate-system")
    # this one is shipped
    with pytest.raises(ApiError, match="only the Secrets poolgate-ca"):
        abuser.create(secret("poolgate-plan-keys", labels={}), "poolgate-system")
    made = c.client.apply(secret("poolgate-plan-keys", labels={}), "poolgate-system")
    made["data"] = {"1": "AAAA"}
    abuser.replace(made)
    with pytest.raises(ApiError, match="only the Secrets poolgate-ca"):
        abuser.delete("secrets", "poolgate-plan-keys", "poolgate-system")


def test_policy_is_for_our_account_alone(c, abuser, ns):
    assert abuser
    c.client.create(secret("anything", labels={}), ns, dry_run=True)


# ---- the policy over pods ----

QUEUE, SINCE = "kueue.x-k8s.io/queue-name", "poolgate.io/queued-since"
GATE, FOREIGN_GATE = {"name": "poolgate.io/capacity"}, {"name": "kueue.x-k8s.io/admission"}
HELD, QUEUED = "held", "queued"


def escape(key):
    return key.replace("/", "~1")


def place_patch(**more):
    """What the leader sends, and what stands beside it in wrong hands."""
    add = {"poolgate.io/place": "gpu-01/gpu-0", "poolgate.io/place-0.servers": "10.0.0.1:56001",
           "poolgate.io/gate-servers": "10.0.0.1:9446", **more.pop("annotations", {})}
    return [{"op": "test", "path": "/spec/schedulingGates/1/name", "value": GATE["name"]},
            *[{"op": "add", "path": "/metadata/annotations/" + escape(k), "value": v} for k, v in add.items()],
            {"op": "remove", "path": "/spec/schedulingGates/1"}, *more.pop("behind", [])]


@pytest.fixture(scope="module", name="placer")
def fixture_placer(c, ns, tmp_path_factory):
    """Our account's token in wrong hands, with every right on pods: the policy alone is in the way. Pod `held` waits behind two gates, `queued` behind
    ours, Kueue having let it go, `free` behind none; the validating hook hears of them once they are there, and nobody answers it."""
    folder = composed(tmp_path_factory, "waiting")
    c.client.delete("validatingwebhookconfigurations", "poolgate")
    held = pod(HELD, {"poolgate.io/plan": "{}", "a": "b"}, {"poolgate.io/injected": "true"}, schedulingGates=[FOREIGN_GATE, GATE])
    until(lambda: refused(c, held, ns) is None, 30, "the hooks are gone")
    c.client.create(held, ns)
    for name, labels, annotations in ((QUEUED, {QUEUE: "q"}, {}), ("unqueued", {}, {}), ("since", {QUEUE: "q"}, {SINCE: "2026-01-01T00:00:00Z"})):
        c.client.create(pod(name, {"poolgate.io/plan": "{}", **annotations}, {"poolgate.io/injected": "true", **labels}, schedulingGates=[GATE]), ns)
    c.client.create(pod("free", {"poolgate.io/plan": "{}"}, {"poolgate.io/injected": "true"}, schedulingGates=[FOREIGN_GATE]), ns)
    c.client.create(pod("stranger", {"a": "b"}, schedulingGates=[FOREIGN_GATE, GATE]), ns)
    c.kubectl("apply", "-k", folder)
    wait_hook(c, ns)
    c.client.create({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "placer"},
                     "rules": [{"apiGroups": [""], "resources": ["pods", "pods/status", "pods/ephemeralcontainers", "pods/eviction", "pods/exec"],
                                "verbs": ["*"]}]})
    c.client.create({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "placer"},
                     "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "placer"},
                     "subjects": [{"kind": "ServiceAccount", "name": "poolgate", "namespace": "poolgate-system"}]})
    account = c.client_for(token=c.account_token("poolgate-system", "poolgate"))
    until(lambda: "poolgate changes" in (why_not(account, ns, "free", {"metadata": {"annotations": {"a": "c"}}}) or ""), 60, "the policy is in force")
    yield account
    for kind in ("clusterrolebindings", "clusterroles"):
        c.client.delete(kind, "placer")
        c.client.delete(kind, "poolgate-waiting")
    c.client.delete("validatingadmissionpolicybindings", "poolgate-waiting")
    c.client.delete("validatingadmissionpolicies", "poolgate-waiting")


def why_not(account, ns, name, change, sub=None):
    """None, or why the API server does not take this change of the pod."""
    try:
        kind = "json" if isinstance(change, list) else "strategic" if sub == "status" else "merge"
        account.patch("pods", name, change, ns, kind, sub, dry_run=True)
    except ApiError as e:
        return e.message
    return None


def test_waiting_policy_lets_the_place_pass(placer, ns):
    """And the hook does not hear of it: nobody is there to answer."""
    assert why_not(placer, ns, HELD, place_patch()) is None


@pytest.mark.parametrize("change, says", [
    (place_patch(behind=[{"op": "replace", "path": "/spec/containers/0/image", "value": "evil"}]), "only its own gate"),
    (place_patch(behind=[{"op": "add", "path": "/spec/nodeSelector", "value": {"a": "b"}}]), "only its own gate"),
    (place_patch(behind=[{"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 1}]), "only its own gate"),
    (place_patch(behind=[{"op": "add", "path": "/metadata/labels/x", "value": "y"}]), "no label"),
    (place_patch(behind=[{"op": "add", "path": "/metadata/finalizers", "value": ["x.io/y"]}]), "no label, finalizer"),
    (place_patch(behind=[{"op": "remove", "path": "/spec/schedulingGates/0"}]), "takes away no other"),
    (place_patch(annotations={"a": "c"}), "of a pod's annotations"), (place_patch(annotations={"new": "c"}), "of a pod's annotations"),
    (place_patch(annotations={"poolgate.io/plan": "{\"x\":1}"}), "of a pod's annotations"),
    (place_patch(annotations={"poolgate.io/placed": "x"}), "of a pod's annotations"),
    (place_patch(annotations={"poolgate.io/gate-ca": "x"}), "of a pod's annotations"),
    (place_patch(behind=[{"op": "remove", "path": "/metadata/annotations/a"}]), "of a pod's annotations"),
    ([{"op": "add", "path": "/metadata/annotations/poolgate.io~1place", "value": "x"}], "takes its gate")])
def test_waiting_policy_refuses_all_else(placer, ns, change, says):
    assert says in (why_not(placer, ns, HELD, change) or "admitted")


def since_patch(annotations=None, **more):
    return {"metadata": {"annotations": {SINCE: "2026-01-01T00:00:00Z", **(annotations or {})}}, **more}


def test_waiting_policy_lets_since_when_pass(placer, ns):
    assert why_not(placer, ns, QUEUED, since_patch()) is None


@pytest.mark.parametrize("name, change, says", [
    (HELD, since_patch(), "takes its gate"), ("unqueued", since_patch(), "takes its gate"), ("free", since_patch(), "stand behind its gate"),
    ("since", {"metadata": {"annotations": {SINCE: "2020-01-01T00:00:00Z"}}}, "takes its gate"),
    ("since", {"metadata": {"annotations": {SINCE: None}}}, "takes its gate"),
    (QUEUED, since_patch(spec={"schedulingGates": None}), "of a pod's annotations"), (QUEUED, since_patch({"a": "b"}), "of a pod's annotations"),
    (QUEUED, since_patch({"poolgate.io/place": "gpu-01/gpu-0"}), "of a pod's annotations"),
    (QUEUED, since_patch(spec={"nodeSelector": {"a": "b"}}), "only its own gate"),
    (QUEUED, {"metadata": {"annotations": {SINCE: "x"}, "labels": {QUEUE: None}}}, "no label")])
def test_waiting_policy_refuses_another_since(placer, ns, name, change, says):
    assert says in (why_not(placer, ns, name, change) or "admitted")


def told(*conditions, **status):
    return {"status": {"conditions": [{"type": kind, "status": "False", "reason": "NoCapacity", "message": "m"} for kind in conditions],
                       **status}}


def test_waiting_policy_lets_the_reason_pass(placer, ns):
    assert why_not(placer, ns, HELD, told("poolgate.io/Admitted"), "status") is None


@pytest.mark.parametrize("change, says", [
    (told("Ready"), "of a pod's conditions"), (told("poolgate.io/Admitted", "x.io/y"), "of a pod's conditions"),
    (told("poolgate.io/Admitted", phase="Failed"), "of a pod's status"),
    (told("poolgate.io/Admitted", podIP="10.6.6.6", podIPs=[{"ip": "10.6.6.6"}]), "of a pod's status"),
    (told("poolgate.io/Admitted", nominatedNodeName="n"), "of a pod's status"),
    ({"metadata": {"annotations": {"poolgate.io/plan": "x"}}, **told("poolgate.io/Admitted")}, "with a pod's status"),
    ({"metadata": {"labels": {"poolgate.io/injected": "false"}}, **told("poolgate.io/Admitted")}, "with a pod's status")])
def test_waiting_policy_refuses_all_else_of_the_status(placer, ns, change, says):
    assert says in (why_not(placer, ns, HELD, change, "status") or "admitted")


def test_waiting_policy_keeps_other_pods(c, placer, ns):
    assert "stand behind its gate" in (why_not(placer, ns, "free", {"metadata": {"annotations": {"poolgate.io/place": "x"}}}) or "admitted")
    assert "that it has injected" in (why_not(placer, ns, "stranger", place_patch()) or "admitted")
    assert "no subresource" in (why_not(placer, ns, HELD, {"spec": {}}, "ephemeralcontainers") or "admitted")
    for call in (lambda: placer.create(pod(), ns, dry_run=True), lambda: placer.delete("pods", HELD, ns),
                 lambda: placer.call("POST", placer.path("pods", ns, HELD, "eviction"), {
                     "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": HELD}})):
        with pytest.raises(ApiError, match="poolgate creates, deletes and enters no pod"):
            call()
    read = c.client.get("pods", HELD, ns)
    assert read["spec"]["schedulingGates"] == [FOREIGN_GATE, GATE]
    # what components/eviction is for: a pod as it was read
    conditions = {k: read["metadata"][k] for k in ("uid", "resourceVersion")}
    placer.call("POST", placer.path("pods", ns, HELD, "eviction"), {
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": HELD}, "deleteOptions": {"dryRun": ["All"], "preconditions": conditions}})


@pytest.mark.parametrize("change", [
    place_patch(), [{"op": "remove", "path": "/spec/schedulingGates/1"}], {"metadata": {"annotations": {"poolgate.io/place": "x"}}},
    {"metadata": {"annotations": {"poolgate.io/place-0.servers": "10.6.6.6:1"}}}, since_patch()])
def test_gate_and_place_are_nobody_elses(c, placer, ns, change):
    """The hook hears of whoever takes the gate away or writes the place, and refuses it where nobody answers."""
    assert placer
    assert DOWN in (why_not(c.client, ns, HELD, change) or "admitted")


def test_a_foreign_gate_is_not_our_concern(c, placer, ns):
    assert placer
    assert why_not(c.client, ns, HELD, [{"op": "remove", "path": "/spec/schedulingGates/0"}]) is None
