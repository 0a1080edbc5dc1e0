# SPDX-License-Identifier: Apache-2.0
"""The client's Secrets, brought by the leader into namespaces that were opened: the shipped overlay `secrets` on the shared cluster, which
gets the base back at the end, in the order that docs/operating.md has for it."""
import base64
import contextlib
import os
import re
import subprocess

import pytest

import kube
import product
from product import CLIENT_SECRETS, ROOT, SYSTEM, claims, gpu_pod, wait_for

SOURCE = "bitfusion-secret"
RECORD = "poolgate-secret-copies"
OPEN = os.path.join(ROOT, "manifests/examples/open-namespace.yaml")
# After the last claim the copies stay for ten seconds.
GONE_S = 60


def write_source(c, word, make=False):
    """The operator's Secret: three files, as the client's token has them, and one more that is nobody's business."""
    data = {key: f"{key} {word}\n" for key in (*CLIENT_SECRETS.values(), "license.txt")}
    obj = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SOURCE, "namespace": "kube-system"}, "stringData": data}
    if make:
        c.client.create(obj)
    else:
        c.client.patch("secrets", SOURCE, {"stringData": data}, "kube-system")


def copies(c, ns):
    """What the client's Secrets of the namespace hold, by name."""
    return {s["metadata"]["name"]: {k: base64.b64decode(v).decode() for k, v in s.get("data", {}).items()}
            for s in c.client.items("secrets", ns) if s["metadata"]["name"].startswith("bitfusion-")}


def whole(word):
    return {f"bitfusion-client-secret-{name}": {key: f"{key} {word}\n"} for name, key in CLIENT_SECRETS.items()}


def recorded(c):
    return set(c.client.get("configmaps", RECORD, SYSTEM).get("data", {}).get("namespaces", "").split())


def create(c, pod, ns):
    """The pod, or None while it is refused because the namespace is not open (as believed for two seconds)."""
    try:
        return c.client.create(pod, namespace=ns)
    except kube.ApiError as e:
        if "is not open" not in e.message:
            raise
        return None


@contextlib.contextmanager
def opened(c):
    """A namespace that its operator has opened."""
    with c.namespace() as ns:
        c.kubectl("-n", ns, "apply", "-f", OPEN)
        yield ns


def documented(heading):
    """The shell block below that heading of docs/operating.md."""
    with open(os.path.join(ROOT, "docs/operating.md"), encoding="utf-8") as f:
        return re.search(rf"^#+ {heading}$.*?^```sh\n(.*?)^```$", f.read(), re.MULTILINE | re.DOTALL).group(1)


@pytest.fixture(scope="module", name="c")
def fixture_synced(installed):
    write_source(installed, "first", make=True)
    product.install(installed, "manifests/overlays/secrets")
    with product.servers(installed, {"gpu-s": 4}):
        yield installed
    product.install(installed)
    installed.client.delete("secrets", SOURCE, "kube-system")


def test_refused_then_opened_then_runs(c):
    """Not open: the refusal names the remedy, and does it. Open: the pod runs with the Secrets, which go after its end."""
    with c.namespace() as ns:
        with pytest.raises(kube.ApiError) as refused:
            c.client.create(gpu_pod("p"), namespace=ns)
        assert refused.value.status == 403 and refused.value.reason == "NamespaceNotOpen", refused.value.body
        assert not claims(c)
        remedy = re.search(r"\((kubectl [^)]*)\)", refused.value.message).group(1)
        c.kubectl(*remedy.split()[1:])
        made = wait_for(lambda: create(c, gpu_pod("p", command=("/bin/sh", "-c", "sleep 2")), ns), 20, "an admitted pod")
        done = c.wait_pod("p", ns, seconds=90)
        assert done["status"]["phase"] == "Succeeded", c.describe("pod", "p", ns)
        assert '"run"' in c.pod_log("p", ns, container="main").splitlines()[0]
        # Still there: they go some seconds after the claim.
        found = [s for s in c.client.items("secrets", ns) if s["metadata"]["name"].startswith("bitfusion-")]
        assert copies(c, ns) == whole("first") and recorded(c) == {ns}
        for s in found:
            assert s["type"] == "Opaque" and s["metadata"]["labels"]["poolgate.io/secret-copy"] == "true"
            assert s["metadata"]["annotations"]["poolgate.io/copied-from"] == f"kube-system/{SOURCE}"
        wait_for(lambda: made["metadata"]["uid"] not in {u for u, _ in claims(c)}, 20, "a claim that ends")
        wait_for(lambda: not copies(c, ns) and not recorded(c), GONE_S, "no copies after the last claim")


def test_foreign_secret_is_left_alone(c):
    """A Secret of the namespace's own under a copy's name stays as it is, with and without claims; an Event on the pod says so."""
    name = "bitfusion-client-secret-ca.crt"
    with opened(c) as ns:
        mine = c.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
                                "stringData": {"ca.crt": "my own"}}, namespace=ns)
        made = wait_for(lambda: create(c, gpu_pod("p"), ns), 20, "an admitted pod")
        wait_for(lambda: len(copies(c, ns)) == 3, 30, "the two others")
        assert {k: v for k, v in copies(c, ns).items() if k != name} == {k: v for k, v in whole("first").items() if k != name}
        event = wait_for(lambda: next((e for e in c.client.items("events", ns) if e["reason"] == "SecretNotOurs"), None), 30, "an Event")
        assert event["involvedObject"]["uid"] == made["metadata"]["uid"] and name in event["message"]
        c.wait_pod("p", ns, phases=("Running",), seconds=90)
        c.client.delete("pods", "p", ns, grace=1)
        wait_for(lambda: set(copies(c, ns)) == {name}, GONE_S, "the foreign one alone")
        assert c.client.get("secrets", name, ns)["metadata"]["resourceVersion"] == mine["metadata"]["resourceVersion"]


def leader(c):
    return c.client.get("leases.coordination.k8s.io", "poolgate-leader", SYSTEM)["spec"].get("holderIdentity", "").split("_")[0]


def test_source_changes_and_leader_dies(c):
    """Copies follow the source within a minute. The next leader finds in the record what the killed one had filled: it removes the
    copies of a claim that ended with it, and keeps the others true."""
    with opened(c) as ending, opened(c) as staying:
        for ns in (ending, staying):
            wait_for(lambda n=ns: create(c, gpu_pod("p", percent=10), n), 20, "an admitted pod")
        for ns in (ending, staying):
            wait_for(lambda n=ns: copies(c, n) == whole("first"), 30, "copies")
            # A kubelet cannot start a container while it renews what the container mounts by subPath.
            c.wait_pod("p", ns, phases=("Running",), seconds=90)
        write_source(c, "second")
        for ns in (ending, staying):
            wait_for(lambda n=ns: copies(c, n) == whole("second"), 60, "copies of the new source")
        assert recorded(c) == {ending, staying}
        old = leader(c)
        c.client.delete("pods", old, SYSTEM, grace=0)
        write_source(c, "third")
        c.client.delete("pods", "p", ending, grace=1)
        wait_for(lambda: copies(c, staying) == whole("third"), GONE_S + 30, "copies kept by the new leader")
        wait_for(lambda: not copies(c, ending), GONE_S + 30, "copies that a new leader removes")
        assert leader(c) != old
        wait_for(lambda: recorded(c) == {staying}, 20, "a record of what is left")
        assert copies(c, staying) == whole("third")


def test_component_taken_out(c, tmp_path):
    """As documented: copies that are still in use are deleted too, nothing of the component stays, and poolgate works on without it."""
    with opened(c) as ns:
        wait_for(lambda: create(c, gpu_pod("p"), ns), 20, "an admitted pod")
        wait_for(lambda: copies(c, ns) == whole("third"), 30, "copies")
        commands = documented("Take the component out")
        first, rest = commands.split("\n", 1)
        assert first.startswith("kubectl apply -k manifests/base"), first  # with the image's name: what install() does
        product.install(c)
        env = {"PATH": os.path.dirname(c.program("kubectl")) + ":" + os.environ["PATH"], "KUBECONFIG": c.kubeconfig(), "HOME": str(tmp_path)}
        done = subprocess.run(["bash", "-euxo", "pipefail", "-c", rest], env=env, text=True, capture_output=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        # `rollout status` alone leaves replicas that end, and answer with the settings of before.
        ends = [p["metadata"]["name"] for p in c.client.items("pods", SYSTEM) if p["metadata"].get("deletionTimestamp")]
        assert not ends, ends
        assert not copies(c, ns)
        for kind in ("roles", "rolebindings", "clusterroles", "clusterrolebindings", "validatingadmissionpolicies",
                     "validatingadmissionpolicybindings", "configmaps"):
            left = [o["metadata"]["name"] for o in c.client.items(kind) if o["metadata"]["name"].startswith("poolgate-secret")]
            assert not left, (kind, left)
        assert c.client.find("secrets", "poolgate-ca", SYSTEM)
        c.client.delete("pods", "p", ns, grace=1)
        wait_for(lambda: not claims(c), 20, "a claim that ends")
        # No longer refused: whoever makes pods brings the Secrets.
        made = c.client.create(gpu_pod("without"), namespace=ns, dry_run=True)
        assert made["metadata"]["labels"]["poolgate.io/injected"] == "true"
