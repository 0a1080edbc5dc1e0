# SPDX-License-Identifier: Apache-2.0
"""Other projects' controllers in a cluster of the tests, as they ship: the manifests of their modules with account, rights, webhooks and
certificates of their own, and the program that test/matrix/build made of the module, in an image. Changed is the image's name, and what
the one small node of the tests cannot give: resources, a second replica."""
import os

import images
from product import wait_for

# What test/matrix/run has built: name -> folder.
BUILT = dict(word.split("=", 1) for word in os.environ.get("POOLGATE_MATRIX_CONTROLLERS", "").split())
# The Deployment of each: namespace and name. Kueue comes last: it looks for the others' kinds when it starts.
DEPLOYMENTS = {"jobset": ("jobset-system", "jobset-controller-manager"), "lws": ("lws-system", "lws-controller-manager"),
               "kuberay": ("default", "kuberay-operator"), "kueue": ("kueue-system", "kueue-controller-manager")}


def image(cluster, name):
    """Give the node a controller's image; its name."""
    tag = f"localhost/{name}-controller:matrix"
    layer = images.Layer()
    with open(os.path.join(BUILT[name], "manager"), "rb") as f:
        layer.file("/manager", f.read())
    layer.folder("/tmp", 0o1777)
    tar = images.save(os.path.join(cluster.dir, name + ".tar"), [tag], layer, ["/manager"], user="65532")
    cluster.import_image(tar)
    os.unlink(tar)
    return tag


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
        if obj["kind"] == "ConfigMap" and settings:
            obj["data"] = {k: settings(v) for k, v in obj["data"].items()}
        # Kueue's view of its queues is served through the API server, which has no certificates of a proxy here.
        return obj["kind"] != "APIService"

    objects = cluster.apply_kustomize(os.path.join(BUILT[name], "config/default"), change=change)
    cluster.kubectl("-n", namespace, "rollout", "status", f"deployment/{deployment}", "--timeout=180s")
    hooks = [(o["kind"], o["metadata"]["name"]) for o in objects if o["kind"].endswith("WebhookConfiguration")]
    wait_for(lambda: all(len(h["clientConfig"].get("caBundle", "")) > 100 for kind, hook in hooks
                         for h in cluster.client.get(kind, hook)["webhooks"]), 60, f"certificates of the webhooks of {name}")
