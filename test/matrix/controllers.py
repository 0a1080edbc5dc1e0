# SPDX-License-Identifier: Apache-2.0
"""Other projects' controllers in a cluster of the tests, as they ship: the manifests of their modules with account, rights, webhooks and
certificates of their own, and the programs that test/matrix/build made of the module, in images. Changed is the images' names, and what
the one small node of the tests cannot give: resources, a second replica."""
import os
import subprocess

import yaml

import images
from product import wait_for

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What test/matrix/run has built: name -> folder.
BUILT = dict(word.split("=", 1) for word in os.environ.get("POOLGATE_MATRIX_CONTROLLERS", "").split())
# The Deployment of each: namespace and name. JobSet comes before Trainer, which makes sets; Kueue last: it looks for the others' kinds when
# it starts.
DEPLOYMENTS = {"jobset": ("jobset-system", "jobset-controller-manager"), "lws": ("lws-system", "lws-controller-manager"),
               "kuberay": ("default", "kuberay-operator"), "argo": ("argo", "workflow-controller"),
               "trainer": ("kubeflow-system", "kubeflow-trainer-controller-manager"), "karpenter": ("kube-system", "karpenter"),
               "kueue": ("kueue-system", "kueue-controller-manager")}
# What is applied, where that is not config/default. Trainer's own kustomization fetches a JobSet; without that line it is this one.
KUSTOMIZATIONS = {
    "argo": {"namespace": "argo", "resources": ["manifests/cluster-install"]},
    "trainer": {"namespace": "kubeflow-system", "resources": ["manifests/overlays/manager/namespace.yaml", *(
        "manifests/base/" + part for part in ("crds", "manager", "rbac", "webhook"))],
        "secretGenerator": [{"name": "kubeflow-trainer-webhook-cert", "options": {"disableNameSuffixHash": True}}]},
    "karpenter": {"resources": ["kwok/apis/crds/karpenter.kwok.sh_kwoknodeclasses.yaml", "chart.yaml"]},
}


def image(cluster, name, program="manager"):
    """Give the node the image of a controller's program; its name."""
    tag = f"localhost/{name}-{program}:matrix"
    layer = images.Layer()
    with open(os.path.join(BUILT[name], program), "rb") as f:
        layer.file("/" + program, f.read())
    layer.folder("/tmp", 0o1777)
    tar = images.save(os.path.join(cluster.dir, name + ".tar"), [tag], layer, ["/" + program], ("PATH=/",), "65532")
    cluster.import_image(tar)
    os.unlink(tar)
    return tag


def manifests(name):
    """The folder that kubectl applies."""
    if name not in KUSTOMIZATIONS:
        return os.path.join(BUILT[name], "config/default")
    if name == "karpenter":
        helm = subprocess.run([os.path.join(ROOT, "test/helm/build")], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        with open(os.path.join(BUILT[name], "chart.yaml"), "w", encoding="utf-8") as f:
            subprocess.run([helm + "/helm", "template", "karpenter", os.path.join(BUILT[name], "kwok/charts"), "--namespace=kube-system",
                            "--include-crds", "--set=controller.image.repository=localhost/kwok"], check=True, stdout=f)
    with open(os.path.join(BUILT[name], "kustomization.yaml"), "w", encoding="utf-8") as f:
        yaml.safe_dump(KUSTOMIZATIONS[name], f)
    return BUILT[name]


def change_container(cluster, name, container):
    """What is said to a controller beside its own manifests."""
    if name == "argo":
        container["command"] = ["/manager"]
        container["args"] = ["--executor-image", image(cluster, name, "argoexec"), "--executor-image-pull-policy", "Never"]
    if name == "karpenter":
        # NodeOverlay is alpha, and the chart has no value for it.
        for variable in container["env"]:
            if variable["name"] == "FEATURE_GATES":
                variable["value"] = "NodeOverlay=true"


def install(cluster, name, settings=None):
    """A controller, from nothing until it is ready and its webhooks have their certificates. settings(text): its settings file, changed."""
    tag = image(cluster, name)
    namespace, deployment = DEPLOYMENTS[name]

    def change(obj):
        if obj["kind"] == "Deployment":
            obj["spec"]["replicas"] = 1
            for container in obj["spec"]["template"]["spec"]["containers"]:
                container.update({"image": tag, "imagePullPolicy": "Never"})
                container["resources"] = {"requests": {"cpu": "10m", "memory": "32Mi"}}
                change_container(cluster, name, container)
        if obj["kind"] == "ConfigMap" and settings:
            obj["data"] = {k: settings(v) for k, v in obj["data"].items()}
        # Kueue's view of its queues is served through the API server, which has no certificates of a proxy here; Argo's page is not tried.
        return obj["kind"] != "APIService" and obj["metadata"]["name"] != "argo-server"

    if name == "argo":
        cluster.kubectl("create", "namespace", namespace)
    objects = cluster.apply_kustomize(manifests(name), change=change)
    cluster.kubectl("-n", namespace, "rollout", "status", f"deployment/{deployment}", "--timeout=180s")
    hooks = [(o["kind"], o["metadata"]["name"]) for o in objects if o["kind"].endswith("WebhookConfiguration")]
    wait_for(lambda: all(len(h["clientConfig"].get("caBundle", "")) > 100 for kind, hook in hooks
                         for h in cluster.client.get(kind, hook)["webhooks"]), 60, f"certificates of the webhooks of {name}")
