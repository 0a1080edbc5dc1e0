# SPDX-License-Identifier: Apache-2.0
"""The Helm chart: it renders what kustomize renders, each value is used, wrong ones are refused, and it lives on a real API server and in a
registry. HELM names the program, with kubectl and crane found as test/e2e/build and test/helm/build say."""
import base64
import contextlib
import copy
import json
import os
import re
import socket
import subprocess
import sys

import pytest
import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [p for p in (os.path.join(ROOT, "test/e2e"), os.path.join(ROOT, "test")) if p not in sys.path]

from cluster import Cluster  # noqa: E402
from host import until  # noqa: E402

CHART = os.path.join(ROOT, "charts/poolgate")
TOOLS = os.environ["POOLGATE_HELM"]
HELMS = ["helm", "helm3"]
SYSTEM = "poolgate-system"
# Helm 3 as `go install` builds it takes the cluster for one of 1.20.
KUBE = ["--kube-version", "1.36.3"]
# What comes of the chart: the values, and the kustomization that does the same: (resources, components).
WAYS = {
    "base": ({}, ["base"], []),
    "secrets": ({"secrets": {"enabled": True}}, ["overlays/secrets"], []),
    "all-namespaces-secrets": ({"secrets": {"enabled": True, "allNamespaces": True}}, ["overlays/all-namespaces-secrets"], []),
    "device-plugin": ({"devicePlugin": {"enabled": True}}, ["overlays/device-plugin"], []),
    "cert-manager": ({"certManager": {"enabled": True}}, ["base"], ["cert-manager"]),
    "monitoring": ({"monitoring": {"enabled": True}}, ["base"], ["monitoring"]),
    "gpupool": ({"gpupool": {"enabled": True}}, ["base"], ["gpupool"]),
    "quotas": ({"quotas": {"enabled": True}}, ["base"], ["quotas"]),
    "registry": ({"registry": {"enabled": True}}, ["base"], ["registry"]),
    "waiting": ({"waiting": {"enabled": True}}, ["base"], ["waiting"]),
    "eviction": ({"eviction": {"enabled": True}}, ["base"], ["eviction"]),
    "policies": ({"policies": {"enabled": True}}, ["base"], ["policies"]),
    "usage": ({"usage": {"enabled": True}}, ["base"], ["usage"]),
    "usage-metrics": ({"usage": {"enabled": True, "metrics": True}}, ["base"], ["usage", "usage-metrics"]),
    "gpuprobe": ({"gpuprobe": {"enabled": True}}, ["base"], ["gpuprobe"]),
    "gpugate": ({"gpugate": {"enabled": True}}, ["base"], ["gpugate"]),
    "uid-ranges": ({"uidRanges": {"enabled": True}}, ["base"], ["uid-ranges"]),
}


@pytest.fixture(scope="module", name="c")
def fixture_cluster():
    with Cluster.light(name="helm") as c:
        yield c


def run(*argv, env=None, check=True):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **(env or {})})
    done.stderr = "\n".join(line for line in done.stderr.splitlines() if "found symbolic link in path" not in line)
    assert done.returncode == 0 or not check, f"{' '.join(argv)}\n{done.stdout}{done.stderr}"
    return done


def template(values, helm="helm", namespace=SYSTEM, check=True, chart=CHART):
    flags = [f for k, v in values.items() for f in ("--set-json", f"{k}={json.dumps(v)}")]
    done = run(os.path.join(TOOLS, helm), "template", "poolgate", chart, "-n", namespace, "--include-crds", *KUBE, *flags, check=check)
    return [o for o in yaml.safe_load_all(done.stdout) if o] if check else done


def kustomized(c, tmp_path, resources, components):
    kustomization = {"resources": [os.path.relpath(os.path.join(ROOT, "manifests", r), tmp_path) for r in resources],
                     "components": [os.path.relpath(os.path.join(ROOT, "manifests/components", n), tmp_path) for n in components]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return [o for o in yaml.safe_load_all(c.kubectl("kustomize", str(tmp_path)).stdout) if o]


def plain_name(name):
    """Without the hash that kustomize's generators add."""
    return re.sub(r"^(poolgate-(config|client|launchers))-[0-9a-z]{10}$", r"\1", name)


def comparable(objects):
    """(kind, namespace, name) -> the object, without what the two ways write differently on purpose."""
    found = {}
    for o in copy.deepcopy(objects):
        meta = o["metadata"]
        meta["name"] = plain_name(meta["name"])
        if o["kind"] == "Namespace" and meta["name"] == SYSTEM:
            continue  # Helm keeps its releases there: it has to be there before
        if o["kind"] == "CustomResourceDefinition" and meta["name"] == "gpuservers.poolgate.io":
            meta.pop("labels", None)  # Helm installs crds/ as they are
        if o["kind"] == "ConfigMap":
            for key, text in o["data"].items() if "data" in o else []:
                o["data"][key] = list(yaml.safe_load_all(text))
        if o["kind"] == "Deployment":
            o["spec"]["template"]["metadata"]["annotations"].pop("poolgate.io/settings", None)
            for volume in o["spec"]["template"]["spec"]["volumes"]:
                for source in [volume.get("configMap")] + [s.get("configMap") for s in volume.get("projected", {}).get("sources", [])]:
                    if source:
                        source["name"] = plain_name(source["name"])
        key = (o["kind"], meta.get("namespace"), meta["name"])
        assert key not in found
        found[key] = o
    return found


@pytest.mark.parametrize("helm", HELMS)
@pytest.mark.parametrize("way", WAYS)
def test_renders_what_kustomize_renders(c, tmp_path, way, helm):
    values, resources, components = WAYS[way]
    ours, theirs = comparable(template(values, helm)), comparable(kustomized(c, tmp_path, resources, components))
    assert set(ours) == set(theirs)
    for key, obj in ours.items():
        assert obj == theirs[key], key


def test_everything_at_once(c, tmp_path):
    values = {k: v for way in WAYS.values() for k, v in way[0].items()}
    ours = comparable(template(values))
    theirs = comparable(kustomized(c, tmp_path, ["overlays/all-namespaces-secrets"], [
        "cert-manager", "monitoring", "gpupool", "quotas", "registry", "waiting", "eviction", "policies", "usage", "usage-metrics", "uid-ranges",
        "device-plugin", "gpuprobe", "gpugate"]))
    assert set(ours) == set(theirs)
    # in an overlay behind it a component's label reaches the objects of all
    assert {k for k in ours if ours[k].get("spec") != theirs[k].get("spec")} == set()


def leaves(value, path=()):
    if isinstance(value, dict) and value:
        return [leaf for k, v in value.items() for leaf in leaves(v, path + (k,))]
    return [path]


# For each value another one, and what must come of it.
OTHERS = {
    ("image", "repository"): "registry.example/poolgate", ("image", "tag"): "9.9", ("image", "pullPolicy"): "Always",
    ("imagePullSecrets",): [{"name": "pull"}], ("replicas",): 3, ("resources",): {"limits": {"memory": "1Gi"}}, ("nodeSelector",): {"a": "b"},
    ("tolerations",): [{"key": "k", "operator": "Exists"}], ("affinity",): {"podAntiAffinity": {}}, ("settings",): {"totalGpuMemory": "40Gi"},
    ("client", "catalogue"): {"a": 1}, ("client", "sidecar"): {"a": 1}, ("launchers",): {"own.yaml": {"kind": "LauncherProfile"}},
    ("registry", "certificates"): {"own.pem": "-----BEGIN CERTIFICATE-----\n"},
    ("webhooks",): "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: own}\n",
    ("devicePlugin", "image", "repository"): "registry.example/dp", ("devicePlugin", "image", "tag"): "9.9",
    ("gpuprobe", "image", "repository"): "registry.example/probe", ("gpuprobe", "image", "tag"): "9.9",
    ("gpugate", "image", "repository"): "registry.example/gate", ("gpugate", "image", "tag"): "9.9"}


def test_each_value_is_used():
    with open(os.path.join(CHART, "values.yaml"), encoding="utf-8") as f:
        values = yaml.safe_load(f)
    on = {name: {"enabled": True} for name in ("secrets", "usage", "devicePlugin", "gpuprobe", "gpugate")}
    before = template(on)
    for path in leaves(values):
        other = OTHERS.get(path, True)
        changed = copy.deepcopy(on)
        at = changed
        for key in path[:-1]:
            at = at.setdefault(key, {})
        at[path[-1]] = other if path not in [(name, "enabled") for name in on] else False
        assert template(changed) != before, path


def test_settings_reach_the_config_and_roll_the_replicas():
    def of(values):
        objects = {(o["kind"], o["metadata"]["name"]): o for o in template(values)}
        config = yaml.safe_load(objects["ConfigMap", "poolgate-config"]["data"]["poolgate.yaml"])
        return config, objects["Deployment", "poolgate"]["spec"]["template"]["metadata"]["annotations"]["poolgate.io/settings"], objects

    plain, plain_mark, _ = of({})
    config, mark, objects = of({"settings": {"totalGpuMemory": "40Gi", "log": {"level": "debug"}}, "launchers": {"juice.yaml": None},
                                "registry": {"certificates": {"own.pem": "pem"}}})
    assert objects["ConfigMap", "poolgate-config"]["data"]["own.pem"] == "pem"
    assert config["totalGpuMemory"] == "40Gi" and config["log"] == {"format": "json", "level": "debug"}
    assert {k: v for k, v in config.items() if k not in ("totalGpuMemory", "log")} == {
        k: v for k, v in plain.items() if k not in ("totalGpuMemory", "log")}
    assert mark != plain_mark
    assert sorted(objects["ConfigMap", "poolgate-launchers"]["data"]) == ["cricket.yaml", "lupine.yaml"]


@pytest.mark.parametrize("helm", HELMS)
@pytest.mark.parametrize("values, says", [
    ({"replicas": 0}, "replicas"), ({"replicas": "two"}, "replicas"), ({"image": {"tga": "1"}}, "tga"), ({"image": {"tag": "a b"}}, "tag"),
    ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"), ({"imagePullSecrets": ["pull"]}, "imagePullSecrets"),
    ({"gpupools": {"enabled": True}}, "gpupools"), ({"secrets": {"enabled": "yes"}}, "enabled"), ({"launchers": {"../up.yaml": {}}}, "up.yaml"),
    ({"registry": {"certificates": {"poolgate.yaml": "a"}}}, "poolgate.yaml"), ({"registry": {"certificates": {"a.pem": {}}}}, "a.pem"),
    ({"client": {"catalog": {}}}, "catalog"), ({"resources": {"limit": {}}}, "limit"), ({"settings": []}, "settings"),
    ({"secrets": {"allNamespaces": True}}, "secrets.allNamespaces needs secrets.enabled")])
def test_wrong_values_are_refused_with_their_path(helm, values, says):
    done = template(values, helm, check=False)
    assert done.returncode != 0 and says in done.stderr, done.stderr


def test_another_namespace_is_refused():
    assert "expected --namespace poolgate-system" in template({}, namespace="default", check=False).stderr


def test_one_version():
    with open(os.path.join(ROOT, "Makefile"), encoding="utf-8") as f:
        version = re.search(r"^VERSION \??:?= *(\S+)", f.read(), re.M).group(1)
    with open(os.path.join(CHART, "Chart.yaml"), encoding="utf-8") as f:
        chart = yaml.safe_load(f)
    assert chart["version"] == chart["appVersion"] == version


# ---- on a real API server ----

@pytest.mark.parametrize("helm", HELMS)
def test_install_upgrade_rollback_uninstall(c, tmp_path, helm):
    env = {"KUBECONFIG": c.kubeconfig("admin"), "HOME": str(tmp_path)}

    def do(*words):
        return run(os.path.join(TOOLS, helm), *words, "-n", SYSTEM, env=env).stdout

    def replicas():
        return c.client.get("deployments", "poolgate", SYSTEM)["spec"]["replicas"]

    assert "poolgate doctor" in do("install", "poolgate", CHART, "--create-namespace", "--set", "gpupool.enabled=true")
    c.kubectl("wait", "--for=condition=Established", "crd/gpuservers.poolgate.io", "--timeout=30s")
    c.kubectl("apply", "-f", os.path.join(CHART, "crds"))  # how an upgrade begins
    server = {"apiVersion": "poolgate.io/v1alpha1", "kind": "GPUServer", "metadata": {"name": "gpu-a"},
              "spec": {"address": "10.0.0.1:56001", "gpus": [{"model": "V100", "memory": "16G"}]}}
    c.client.apply(server)
    # the leader's work: an upgrade leaves it alone
    pem = run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(tmp_path / "key"),
              "-subj", "/CN=ca").stdout
    bundle = base64.b64encode(pem.encode()).decode()
    c.kubectl("patch", "mutatingwebhookconfiguration/poolgate", "--type=json", "-p",
              json.dumps([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]))
    do("upgrade", "poolgate", CHART, "--set", "replicas=3", "--set", "settings.totalGpuMemory=40Gi", "--set", "gpupool.enabled=false")
    assert replicas() == 3
    assert c.client.get("mutatingwebhookconfigurations", "poolgate")["webhooks"][0]["clientConfig"].get("caBundle") == bundle
    assert not c.client.find("clusterroles", "poolgate-viewer")
    do("rollback", "poolgate", "1")
    assert replicas() == 2 and c.client.find("clusterroles", "poolgate-viewer")
    do("uninstall", "poolgate")
    assert not c.client.find("deployments", "poolgate", SYSTEM) and not c.client.find("validatingwebhookconfigurations", "poolgate")
    assert c.client.find("gpuservers", "gpu-a"), "an uninstall takes no GPUServer away"


# ---- in a registry ----

@contextlib.contextmanager
def registry():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with subprocess.Popen([os.path.join(TOOLS, "crane"), "registry", "serve", "--address", f"127.0.0.1:{port}"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as one:
        try:
            until(lambda: one.poll() is None and not socket.socket().connect_ex(("127.0.0.1", port)), 20, "the registry")
            yield f"127.0.0.1:{port}"
        finally:
            one.terminate()


@pytest.mark.parametrize("helm", HELMS)
def test_pushed_and_pulled_by_digest(tmp_path, helm):
    program, env = os.path.join(TOOLS, helm), {"HOME": str(tmp_path)}
    run(program, "package", CHART, "-d", str(tmp_path), env=env)
    (package,) = [p for p in os.listdir(tmp_path) if p.endswith(".tgz")]
    with registry() as at:
        said = run(program, "push", str(tmp_path / package), f"oci://{at}/charts", "--plain-http", env=env)
        digest = re.search(r"Digest: (sha256:[0-9a-f]{64})", said.stdout + said.stderr).group(1)
        done = run(program, "template", "poolgate", f"oci://{at}/charts/poolgate@{digest}", "--plain-http", "-n", SYSTEM, "--include-crds", *KUBE, env=env)
        wrong = run(program, "pull", f"oci://{at}/charts/poolgate@sha256:{'0' * 64}", "--plain-http", "-d", str(tmp_path), env=env, check=False)
        assert wrong.returncode != 0
    pulled = [o for o in yaml.safe_load_all(done.stdout) if o and "kind" in o]
    assert comparable(pulled) == comparable(template({}, helm))
