# SPDX-License-Identifier: Apache-2.0
"""What an operator does with poolgate as docs/operating.md says it: install, restart, upgrade, remove, install again. One cluster of
its own, in which the tests follow one another."""
import json
import os
import re
import subprocess

import pytest
import yaml

import kube
import product
from cluster import Cluster
from load import Load
from product import ROOT, SYSTEM, claims, gpu_pod, wait_for
from replicas import program

SHIPPED = os.path.join(ROOT, "manifests/base")
# The operator's own name of the image.
IMAGE = "localhost/poolgate-e2e"
# Room for 1,000 pods of 20 %, and 40 claims a server at most: what many claims on one server cost is not what is looked at here.
POOL = {f"gpu-{i:02}": 8 for i in range(25)}
SHARE = 20
OURS = re.compile(r"poolgate|gpuserver", re.IGNORECASE)


@pytest.fixture(scope="module", name="c")
def fixture_cluster():
    with Cluster(name="install") as c:
        yield c


@pytest.fixture(scope="module", name="folders")
def fixture_folders(c, tmp_path_factory):
    """Kustomizations as an operator writes them: the shipped manifests, an image's name of his own, and the client that he has."""
    c.import_image(os.environ.get("POOLGATE_IMAGE") or os.path.join(ROOT, "build/image/poolgate.oci.tar"), f"{IMAGE}:new")
    folders = {}
    for overlay in ("base", "overlays/secrets"):
        folder = tmp_path_factory.mktemp("own")
        with open(folder / "kustomization.yaml", "w", encoding="utf-8") as f:
            yaml.safe_dump({"resources": [os.path.relpath(os.path.join(ROOT, "manifests", overlay), folder)],
                            "images": [{"name": "localhost/poolgate", "newName": IMAGE, "newTag": "new"}],
                            "configMapGenerator": [product.own_client(folder)]}, f)
        folders[overlay] = str(folder)
    return folders


@pytest.fixture(scope="module", name="ns")
def fixture_ns(c):
    with c.namespace() as ns:
        product.client_secrets(c, ns)
        yield ns


def everything(c):
    """Every object of the cluster but Events: (resource, namespace, name) -> object, without its status: a Node's names our images."""
    c.discovery.load(c.client)
    found = {}
    for r in c.discovery.found:
        if r["plural"] in ("events", "componentstatuses") or "list" not in r["verbs"]:
            continue
        for o in c.client.call("GET", f"{r['prefix']}/{r['plural']}")["items"]:
            found[r["plural"], o["metadata"].get("namespace"), o["metadata"]["name"]] = {k: v for k, v in o.items() if k != "status"}
    return found


def apply(c, folder):
    c.kubectl("apply", "-k", folder)
    ready(c)


def ready(c):
    c.kubectl("-n", SYSTEM, "rollout", "status", "deployment/poolgate", "--timeout=120s", timeout=150)
    product.old_replicas_end(c)
    wait_for(lambda: all(h["clientConfig"].get("caBundle") for kind in ("mutating", "validating")
                         for h in c.client.get(f"{kind}webhookconfigurations", "poolgate")["webhooks"]), 30, "a caBundle")


def replicas(c):
    return {p["metadata"]["uid"]: p for p in c.client.items("pods", SYSTEM)}


def rolled(c, load, old):
    """Until the Deployment is rolled out and the last of the old pods has gone, which is when requests would be lost; under load."""
    def done():
        load.check()
        d = c.client.get("deployments", "poolgate", SYSTEM)
        s = d["status"]
        return s.get("observedGeneration") == d["metadata"]["generation"] and s.get("updatedReplicas") == s.get("availableReplicas") == 2 \
            and not set(old) & set(replicas(c))

    wait_for(done, 180, "new replicas alone")
    load.wait(made=20)


def emptied(c, ns):
    """The pods of a load are deleted, and the leader frees what they held; at once, where it has seen the pods."""
    wait_for(lambda: not [u for u, state in claims(c) if state == "pending"], 60, "bound claims")
    c.client.delete_all("pods", ns, grace=1)
    wait_for(lambda: not claims(c), 90, "freed claims")


def operate(c, text, seconds=180):
    """An operator's commands, word for word, in this tree: each must succeed, and none may hang; what they say. ctr's containerd is the
    node's."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    env.update(PATH=os.path.dirname(c.program("kubectl")) + ":" + env["PATH"], KUBECONFIG=c.kubeconfig(), HOME=c.dir,
               CONTAINERD_ADDRESS=c.node.socket)
    done = subprocess.run(["bash", "-euxo", "pipefail", "-c", text], env=env, cwd=ROOT, text=True, capture_output=True, timeout=seconds,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def doctor(c):
    return subprocess.run([program(), "doctor", "--kubeconfig", c.kubeconfig()], text=True, capture_output=True, timeout=60,
                          check=False).stdout


def test_from_nothing_to_ready(c, ns):
    """The commands of the documentation are all that it takes. The servers of the example are shown. A client whose image nobody has set is
    told of before a pod is refused for it."""
    assert not ours(c, ns)
    said = operate(c, documented("Install"), 300)
    ready(c)
    with open(os.path.join(SHIPPED, "kustomization.yaml"), encoding="utf-8") as f:
        image, = yaml.safe_load(f)["images"]
    assert {p["spec"]["containers"][0]["image"] for p in replicas(c).values()} == {f"{image['newName']}:{image['newTag']}"}
    assert re.search(r"^NAME +GPUS +FIT +FREE +CLAIMS +AGE\ngpu-01 .*\ngpu-02 ", said, re.MULTILINE), said
    found = doctor(c)
    assert "wrong        replicas" not in found and "ok           rights: " in found and "ok           webhooks: " in found, found
    assert "wrong        clients: sidecar.yaml in ConfigMap poolgate-client-" in found and "images.invalid/bitfusion-client:450" in found, found
    with pytest.raises(kube.ApiError) as refused:
        c.client.create(gpu_pod("early"), namespace=ns)
    assert refused.value.reason == "ImageNotSet" and "its operator must set it" in refused.value.message, refused.value.body
    operate(c, documented("Install", "build/mine", block=1).replace("registry.example/", "localhost/"))
    ready(c)
    assert "clients: sidecar.yaml" not in doctor(c)
    c.kubectl("delete", "-f", os.path.join(ROOT, "manifests/examples/gpuservers.yaml"))
    for name, count in POOL.items():
        c.client.create(product.gpu_server(name, count))
    wait_for(lambda: all(s.get("status", {}).get("summary", {}).get("fit") == 8 for s in c.client.items("gpuservers")), 30, "servers")
    lines = [line.split() for line in c.kubectl("get", "gpuservers").stdout.splitlines()]
    assert lines[0] == ["NAME", "GPUS", "FIT", "FREE", "CLAIMS", "AGE"]
    assert [line[:5] for line in lines[1:]] == [[name, "8", "8", "128000", "0"] for name in POOL]
    made = c.client.create(gpu_pod("first", percent=50), namespace=ns)
    wait_for(lambda: claims(c) == {(made["metadata"]["uid"], "bound")}, 20, "a bound claim")
    c.client.delete("pods", "first", ns, grace=1)
    wait_for(lambda: not claims(c), 20, "a freed claim")


def is_told_to_end(c, name):
    try:
        return '"draining"' in c.pod_log(name, SYSTEM)
    except kube.ApiError:  # it has ended
        return True


def scale(c, number):
    c.kubectl("-n", SYSTEM, "scale", "deployment/poolgate", f"--replicas={number}")
    wait_for(lambda: len(replicas(c)) == c.client.get("deployments", "poolgate", SYSTEM)["status"].get("readyReplicas") == number, 90,
             f"{number} replicas")


def test_replica_answers_until_the_endpoints_follow(c, ns):
    """A replica is told to end, and the API server goes on to send it reviews, over new connections too, until whoever keeps the
    endpoints has noticed; here that takes 1.5 s, of the 5 s of drainDelay. It is the one to which all connections were, so that others
    are needed at once: a replica that stops listening early fails creates."""
    scale(c, 1)
    victim = list(replicas(c).values())[0]["metadata"]
    with Load(c, ns, 50, percent=SHARE) as load:
        load.wait(made=20)
        scale(c, 2)
        with c.controller_manager.paused():
            c.client.delete("pods", victim["name"], SYSTEM)
            wait_for(lambda: is_told_to_end(c, victim["name"]), 30, "the kubelet tells the replica")
            load.wait(seconds=1.5)
        rolled(c, load, [victim["uid"]])
    emptied(c, ns)


def test_rolling_restart_under_50_creates_a_second(c, ns):
    """Both replicas are replaced, the leader among them, until the last old one is gone: a replica that stops listening before the API
    servers have moved on, or drops what it was asked, fails a create; one that is ready too early does so too."""
    old = replicas(c)
    with Load(c, ns, 50, percent=SHARE) as load:
        load.wait(made=50)
        c.kubectl("-n", SYSTEM, "rollout", "restart", "deployment/poolgate")
        rolled(c, load, old)
    assert len(old) == 2 and load.made > 150
    print(f"rolling restart: {load.made} creates, {load.per_second:.1f} a second, the slowest {load.slowest:.2f} s")
    emptied(c, ns)


def test_upgrade_under_load(c, ns, folders):
    """`kubectl apply -k` of the new version, under an image's name of the operator's own, while pods are created. The old version is the same
    program, since no version was released before this one: what is shown is that the way from one image to another loses nothing; what
    one version makes of another's status (rule R11) is shown by unit tests."""
    old = replicas(c)
    kept = c.client.create(gpu_pod("kept", percent=50), namespace=ns)["metadata"]["uid"]
    with Load(c, ns, 20, percent=SHARE) as load:
        load.wait(made=20)
        c.kubectl("apply", "-k", folders["base"])
        rolled(c, load, old)
    assert {p["spec"]["containers"][0]["image"] for p in replicas(c).values()} == {IMAGE + ":new"}
    print(f"upgrade: {load.made} creates, {load.per_second:.1f} a second, the slowest {load.slowest:.2f} s")
    assert (kept, "bound") in claims(c)
    emptied(c, ns)


def test_the_doctor_puts_no_other_image_back(c, folders):
    """Its command for what is missing is the operator's own, who has a name of his own for the image."""
    c.client.delete("validatingwebhookconfigurations", "poolgate")
    try:
        wrong, = (line for line in doctor(c).splitlines() if line.startswith("wrong        webhooks: "))
        assert wrong.endswith(f"mend it: kubectl apply -k DIR, your own kustomization, which names the image {IMAGE}:new"), wrong
    finally:
        apply(c, folders["base"])


def documented(section, path="manifests/base", block=0):
    """The commands of a section of docs/operating.md, for the kustomization that was applied."""
    with open(os.path.join(ROOT, "docs/operating.md"), encoding="utf-8") as f:
        text = re.search(rf"^## {section}\n(.*?)^## ", f.read(), re.MULTILINE | re.DOTALL).group(1)
    text = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[block]
    assert "manifests/base" in text
    return text.replace("kubectl apply -k manifests/base", "kubectl apply -k " + path).replace("delete -k manifests/base", "delete -k " + path)


def ours(c, ns):
    """Every object that is poolgate's or speaks of it, but for the pods that it has injected."""
    return [key for key, o in everything(c).items() if OURS.search(json.dumps(o)) and key[:2] != ("pods", ns)]


def nothing_left(c, ns):
    wait_for(lambda: not ours(c, ns), 60, lambda: f"nothing is left but {ours(c, ns)}")


def test_removal_with_claims(c, ns, folders):
    """In the documented order nothing hangs and nothing stays, although pods hold claims; and the pods run on."""
    uids = {c.client.create(gpu_pod(f"runs-{i}", percent=60), namespace=ns)["metadata"]["uid"] for i in range(3)}
    for i in range(3):
        c.wait_pod(f"runs-{i}", ns, phases=("Running",), seconds=90)
    wait_for(lambda: claims(c) == {(u, "bound") for u in uids}, 20, "bound claims")
    operate(c, documented("Remove", folders["base"]))
    nothing_left(c, ns)
    assert {p["metadata"]["uid"] for p in c.client.items("pods", ns) if p["status"]["phase"] == "Running"} == uids
    # Nothing of ours is in the way any more: a pod that would be ours is made, and waits for a resource that nobody offers.
    plain = c.client.create(gpu_pod("plain"), namespace=ns)
    assert "poolgate.io/injected" not in plain["metadata"].get("labels", {})
    c.client.delete("pods", "plain", ns, grace=0)


def test_install_again_and_remove(c, ns, folders):
    """On what was removed it can be installed again, now with the component `secrets`: pods that ran on are given their claims again.
    Removed once more, while no replica answers, no policy, role or copied Secret stays."""
    running = {p["metadata"]["uid"] for p in c.client.items("pods", ns)}
    apply(c, folders["overlays/secrets"])
    assert c.client.find("validatingadmissionpolicies", "poolgate-secrets")
    c.kubectl("-n", ns, "apply", "-f", os.path.join(ROOT, "manifests/examples/open-namespace.yaml"))
    c.client.create(product.gpu_server("gpu-00", 8))
    wait_for(lambda: claims(c) == {(u, "adopted") for u in running}, 60, "claims of the pods that ran on")
    made = wait_for(lambda: created(c, gpu_pod("again", percent=40), ns), 30, "a new pod")
    wait_for(lambda: (made["metadata"]["uid"], "bound") in claims(c), 20, "its claim")
    c.client.apply({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "stringData": {"k": "v"}, "metadata": {
        "name": "bitfusion-client-secret-copy", "namespace": ns, "labels": {"app.kubernetes.io/managed-by": "poolgate"}}})
    c.kubectl("-n", SYSTEM, "scale", "deployment/poolgate", "--replicas=0")
    wait_for(lambda: not replicas(c), 90, "no replica")
    operate(c, documented("Remove", folders["overlays/secrets"]))
    nothing_left(c, ns)


def test_make_deploy(c, ns):
    """Says which context it is, and ends with everything running that is documented, and the device plugin beside it."""
    def deploy(*args, **env):
        env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")} | {
            "PATH": os.path.dirname(c.program("kubectl")) + ":" + os.environ["PATH"], "KUBECONFIG": c.kubeconfig(), "HOME": c.dir,
            "CONTAINERD_ADDRESS": c.node.socket} | env
        return subprocess.run(["make", "deploy", *args], env=env, cwd=ROOT, text=True, capture_output=True, timeout=400, check=False)

    done = deploy(KUBECONFIG="/dev/null")
    assert done.returncode != 0 and "kubectl has no current context" in done.stderr, done.stdout + done.stderr
    done = deploy()
    assert done.returncode != 0 and "context e2e: how do its nodes get the images?" in done.stderr, done.stdout + done.stderr
    assert not ours(c, ns)
    done = deploy("BRING=ctr -n k8s.io images import")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"deploying to context e2e, {c.server}: manifests/overlays/device-plugin, images brought by: ctr "), done.stdout
    assert len([p for p in replicas(c).values() if not p["metadata"].get("deletionTimestamp")]) == 2
    plugin = c.client.get("daemonsets", "device-plugin", "poolgate-device-plugin")["spec"]["template"]["spec"]["containers"][0]["image"]
    assert plugin in c.node.ctr("images", "list", "-q").split()
    ready(c)
    operate(c, documented("Remove", "manifests/overlays/device-plugin"))
    nothing_left(c, ns)


def created(c, pod, ns):
    try:
        return c.client.create(pod, namespace=ns)
    except kube.ApiError as e:
        assert e.status == 403, str(e)
        return None
