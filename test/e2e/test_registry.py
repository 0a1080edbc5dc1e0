# SPDX-License-Identifier: Apache-2.0
"""Pods whose images alone know what they start, on the real API server, with a real registry (go-containerregistry's, over TLS with a CA of the tests' own). One
cluster without nodes for this file; its replica is told of the registry while it runs."""
import hashlib
import json
import os
import shutil
import ssl
import subprocess
import sys
import urllib.request

import pytest
import yaml

from cluster import Cluster
from component import Component
from product import ROOT, SYSTEM, claims, client_secrets, gpu_pod, servers, wait_for
from kube import ApiError
from replicas import Replicas

sys.path[:0] = [p for p in (os.path.join(ROOT, "test"),) if p not in sys.path]

from lib.server import Authority  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
PORT = 5443
LOGIN = "robot:s3cret"
SECRET = "registry-login"  # as manifests/examples/open-registry.yaml has it
PLAN = "poolgate.io/plan"
MANIFEST, CONFIG = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.config.v1+json"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Registry:
    def __init__(self, c, folder):
        if not shutil.which("go"):
            pytest.skip("no Go here to build the registry with")
        program = os.path.join(folder, "registry")
        env = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly", "GOWORK": "off", "CGO_ENABLED": "0"}
        subprocess.run(["go", "build", "-p", "2", "-trimpath", "-ldflags", "-s -w", "-o", program, "."], cwd=os.path.join(HERE, "registry"), env=env,
                       check=True)
        address = c.add_address()
        self.host, self.address, self.authority = f"{address}:{PORT}", address, Authority(folder, "registry")
        pair = self.authority.client("registry", usage=f"serverAuth\nsubjectAltName=IP:{address}")
        self.tls = ssl.create_default_context(cafile=self.authority.cert)
        self.component = Component("registry", [program, self.host, *pair, LOGIN], c.log_path("registry"), c.slot.journal, self.ready)
        self.component.start()

    def ready(self):
        try:
            return self.call("GET", "/v2/").status == 200
        except OSError:
            return False

    def call(self, method, path, data=None, content_type="application/octet-stream"):
        password = urllib.request.HTTPPasswordMgrWithPriorAuth()
        password.add_password(None, f"https://{self.host}/", *LOGIN.split(":"), is_authenticated=True)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self.tls),
                                             urllib.request.HTTPBasicAuthHandler(password))
        return opener.open(urllib.request.Request(f"https://{self.host}{path}", data, {"Content-Type": content_type}, method=method), timeout=10)

    def push(self, name, entrypoint, cmd=()):
        """What the tag stands for now, by its digest."""
        repository, tag = name.split(":")
        config = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Entrypoint": entrypoint, "Cmd": list(cmd)},
                             "rootfs": {"type": "layers", "diff_ids": []}}).encode()
        manifest = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "layers": [],
                               "config": {"mediaType": CONFIG, "digest": digest(config), "size": len(config)}}).encode()
        self.call("POST", f"/v2/{repository}/blobs/uploads/?digest={digest(config)}", config)
        self.call("PUT", f"/v2/{repository}/manifests/{tag}", manifest, MANIFEST)
        return digest(manifest)


@pytest.fixture(scope="module", name="c")
def fixture_cluster():
    with Cluster.light(name="registry") as c, Replicas(c, 1) as c.replicas, servers(c, {"gpu-a": 4}):
        yield c


@pytest.fixture(scope="module", name="registry")
def fixture_registry(c, tmp_path_factory):
    registry = Registry(c, str(tmp_path_factory.mktemp("registry")))
    yield registry
    registry.component.stop()


@pytest.fixture(scope="module", name="on")
def fixture_on(c, registry):
    """The replica's settings name it."""
    path = f"{c.dir}/poolgate-0/poolgate.yaml"
    with open(path, encoding="utf-8") as f:
        config = yaml.safe_load(f)
    config["registries"] = [{"host": registry.host, "addresses": [registry.address], "ca": registry.authority.cert}]
    with open(path + ".new", "w", encoding="utf-8") as f:
        yaml.safe_dump(config, f)
    os.rename(path + ".new", path)
    c.replicas.restart(0)
    return registry


@pytest.fixture(name="ns")
def fixture_ns(c):
    with c.namespace() as name:
        client_secrets(c, name)
        yield name


def a_pod(registry, image, name="p", **spec):
    pod = gpu_pod(name, percent=10, **spec)
    pod["spec"]["containers"][0]["image"] = f"{registry.host}/{image}"
    del pod["spec"]["containers"][0]["command"]
    return pod


def refused(c, ns, pod, status=403):
    with pytest.raises(ApiError) as e:
        c.client.create(pod, ns)
    assert e.value.status == status, e.value
    return e.value.message


def program_of(pod):
    command = pod["spec"]["containers"][0]["command"]
    return command[command.index("--") + 1:] if "--" in command else command


OFF = ('admission webhook "mutate.poolgate.io" denied the request: /spec/containers/0/command: the container has no command, so the program that the '
       'launcher "bitfusion" has to start is only known to the image; write the image\'s ENTRYPOINT here as command (and its CMD as args)')


def test_words_while_it_is_off(c, registry, ns):
    registry.push("team/train:1", ["/one"])
    assert refused(c, ns, a_pod(registry, "team/train:1"), 422) == OFF


def test_a_tag_that_moves(c, on, ns):
    """The plan says which image it was, and what runs stays what was looked at."""
    first = on.push("team/train:1", ["/one", "a b", "$(X)"], ["c"])
    pod = c.client.create(a_pod(on, "team/train:1"), ns)
    assert program_of(pod) == ["/one", "a b", "$$(X)", "c"]
    assert json.loads(pod["metadata"]["annotations"][PLAN])["containers"][0]["image"] == {"digest": first, "words": 4}
    wait_for(lambda: (pod["metadata"]["uid"], "bound") in claims(c), 20, "a bound claim")
    second = on.push("team/train:1", ["/two"])
    changed = c.client.patch("pods", "p", {"metadata": {"labels": {"touched": "yes"}}}, ns)
    c.replicas.restart(0)  # it has forgotten what it knew
    again = c.client.patch("pods", "p", {"metadata": {"labels": {"touched": "again"}}}, ns)
    for one in (changed, again):
        assert one["spec"]["containers"][0] == pod["spec"]["containers"][0]
        assert one["metadata"]["annotations"][PLAN] == pod["metadata"]["annotations"][PLAN]
    new = c.client.create(a_pod(on, "team/train:1", "new"), ns)
    assert program_of(new) == ["/two"]
    assert json.loads(new["metadata"]["annotations"][PLAN])["containers"][0]["image"]["digest"] == second


def test_a_private_image(c, on, ns):
    """With the pod's Secret, where the namespace lets it be read; with the account's Secret, which the API server adds; and not without."""
    on.push("private/train:1", ["/secret"])
    said = refused(c, ns, a_pod(on, "private/train:1"))
    assert f"the registry {on.host} cannot be asked: it lets nobody read this image without a credential" in said
    auth = {"auths": {on.host: dict(zip(("username", "password"), LOGIN.split(":")))}}
    c.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "type": "kubernetes.io/dockerconfigjson",
                     "stringData": {".dockerconfigjson": json.dumps(auth)}}, ns)
    mine = a_pod(on, "private/train:1", imagePullSecrets=[{"name": SECRET}])
    assert f"its imagePullSecret {SECRET} is not read: its namespace has not let poolgate (components/registry)" in refused(c, ns, mine)
    c.kubectl("-n", ns, "apply", "-f", os.path.join(ROOT, "manifests/examples/open-registry.yaml"))
    wait_for(lambda: c.client.allowed("get", "secrets", ns, user=f"system:serviceaccount:{SYSTEM}:poolgate", name=SECRET), 20, "the right")
    assert program_of(c.client.create(mine, ns)) == ["/secret"]
    assert "without a credential" in refused(c, ns, a_pod(on, "private/train:1", "other"))
    c.client.patch("serviceaccounts", "default", {"imagePullSecrets": [{"name": SECRET}]}, ns)
    assert wait_for(lambda: "imagePullSecrets" in c.client.create(a_pod(on, "private/train:1", "by-account"), ns, dry_run=True)["spec"], 20,
                    "the account's Secret")
    assert program_of(c.client.create(a_pod(on, "private/train:1", "by-account"), ns)) == ["/secret"]
