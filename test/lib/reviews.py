# SPDX-License-Identifier: Apache-2.0
"""Builds AdmissionReviews and pods as the API server would send them."""
import copy
import uuid

KINDS = {
    "Pod": ("", "v1", "pods"), "Deployment": ("apps", "v1", "deployments"), "StatefulSet": ("apps", "v1", "statefulsets"),
    "DaemonSet": ("apps", "v1", "daemonsets"), "ReplicaSet": ("apps", "v1", "replicasets"), "Job": ("batch", "v1", "jobs"),
    "CronJob": ("batch", "v1", "cronjobs"), "ReplicationController": ("", "v1", "replicationcontrollers"),
}


def fixed_uid(text):
    """The same uid for the same text: stored files do not change when they are generated again."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "https://poolgate.io/test/" + text))


def new_uid():
    return str(uuid.uuid4())


def default_resources(pod):
    """limits copied to requests, quantities as strings: what the API server's defaulting does."""
    spec = pod["spec"]
    for container in spec.get("containers", []) + spec.get("initContainers", []):
        resources = container.setdefault("resources", {})
        for side in ("limits", "requests"):
            if side in resources:
                resources[side] = {k: v if isinstance(v, str) else str(v) for k, v in resources[side].items()}
        if resources.get("limits"):
            requests = dict(resources["limits"])
            requests.update(resources.get("requests") or {})
            resources["requests"] = dict(sorted(requests.items()))
    return pod


def review(obj, operation="CREATE", old=None, uid=None, dry_run=False, subresource=None, namespace=None, name=None,
           version="v1", options=None):
    kind = (obj or old)["kind"]
    group, ver, resource = KINDS[kind]
    metadata = (obj or old)["metadata"]
    request = {
        "uid": uid or new_uid(),
        "kind": {"group": group, "version": ver, "kind": kind},
        "resource": {"group": group, "version": ver, "resource": resource},
    }
    if subresource:
        request["subResource"] = subresource
    request["requestKind"] = dict(request["kind"])
    request["requestResource"] = dict(request["resource"])
    if subresource:
        request["requestSubResource"] = subresource
    name = name if name is not None else metadata.get("name")
    if name:
        request["name"] = name
    request["namespace"] = namespace if namespace is not None else metadata.get("namespace", "default")
    request["operation"] = operation
    request["userInfo"] = {"username": "user", "groups": ["system:authenticated"]}
    request["object"] = copy.deepcopy(obj)
    request["oldObject"] = copy.deepcopy(old)
    request["dryRun"] = dry_run
    kinds = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
    request["options"] = {"kind": kinds.get(operation, "CreateOptions"), "apiVersion": "meta.k8s.io/v1", **(options or {})}
    return {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}", "request": request}


def stored(pod, uid=None, name=None):
    """The pod as validating hooks see it: named, with a uid."""
    pod = copy.deepcopy(pod)
    meta = pod["metadata"]
    if "name" not in meta:
        meta["name"] = name or meta.get("generateName", "pod-") + "x7k2p"
    elif name:
        meta["name"] = name
    meta["uid"] = uid or new_uid()
    meta["creationTimestamp"] = "2026-01-01T00:00:00Z"
    return pod


def delete_review(pod, grace=0, dry_run=False):
    r = review(None, "DELETE", old=pod, dry_run=dry_run, options={"gracePeriodSeconds": grace})
    return r
