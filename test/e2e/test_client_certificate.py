# SPDX-License-Identifier: Apache-2.0
"""poolgate with tls.clientCA, and a real API server: without a certificate it is refused and no pod comes in unseen; configured as
docs/operating.md says, it is let in. If this breaks, either nobody can create pods, or everybody can claim GPUs."""
import contextlib
import os
import signal
import sys

import pytest
import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [p for p in (HERE, os.path.dirname(HERE)) if p not in sys.path]

import kube  # noqa: E402
from cluster import Cluster  # noqa: E402
from host import until  # noqa: E402
from lib.server import Authority  # noqa: E402
from product import SYSTEM, claims, client_namespace, gpu_pod, servers  # noqa: E402
from replicas import Replicas  # noqa: E402

NAME = "kube-apiserver-admission"


def documents():
    """The two files of docs/operating.md, as they are there."""
    with open(os.path.join(os.path.dirname(os.path.dirname(HERE)), "docs/operating.md"), encoding="utf-8") as f:
        section = f.read().split("## Client certificates")[1].split("\n## ")[0]
    blocks = [b.split("```")[0] for b in section.split("```yaml\n")[1:]]
    return [yaml.safe_load(b) for b in blocks]


def configure(folder, pair):
    """The API server's flag, with the files of the docs at other places."""
    admission, user = documents()
    user["users"][0]["user"] = {"client-certificate": pair[0], "client-key": pair[1]}
    for plugin in admission["plugins"]:
        plugin["configuration"]["kubeConfigFile"] = f"{folder}/kubeconfig"
    for name, document in (("admission.yaml", admission), ("kubeconfig", user)):
        with open(f"{folder}/{name}", "w", encoding="ascii") as f:
            yaml.safe_dump(document, f)
    return [f"--admission-control-config-file={folder}/admission.yaml"]


def refused(c, namespace, name):
    """What the API server says of a pod that it did not get in."""
    with pytest.raises(kube.ApiError) as e:
        c.client.create(gpu_pod(name), namespace=namespace)
    return e.value.message


def test_the_api_servers_certificate(tmp_path):
    ca = Authority(tmp_path, "admission")
    config = {"tls": {"clientCA": ca.cert, "clientNames": [NAME]}}
    with contextlib.ExitStack() as stack:
        c = stack.enter_context(Cluster.light(name="client-certificate"))
        stack.enter_context(Replicas(c, 1, config=config))
        stack.enter_context(servers(c, {"gpu-a": 1}))
        log = c.log_path("poolgate-0")

        def said():
            with open(log, encoding="utf-8") as f:
                return f.read()

        assert documents()[1]["users"][0]["name"] == f"poolgate.{SYSTEM}.svc"
        with client_namespace(c) as namespace:
            assert "failed calling webhook" in refused(c, namespace, "without")
            until(lambda: "a client certificate is asked for" in said(), 20, "poolgate's word for it")
            # at once: a graceful end waits a minute for watches
            c.apiserver.restart(signal.SIGKILL, extra=configure(tmp_path, ca.client(NAME)))

            def created():
                try:
                    return c.client.create(gpu_pod("right"), namespace=namespace)
                except kube.ApiError as e:
                    # until its watches are there again, the API server may not know the Service's endpoints
                    assert "Forbidden" not in e.message and "403" not in e.message, e.message
                    return None

            pod = until(created, 30, "a pod that is let in")
            assert "poolgate.io/plan" in pod["metadata"]["annotations"]
            assert {uid for uid, _ in claims(c)} == {pod["metadata"]["uid"]}
