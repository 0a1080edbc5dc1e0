# SPDX-License-Identifier: Apache-2.0
"""Short ways to write the pods of the tests."""

SWITCH = "auto-management/bitfusion"
OS = "bitfusion-client/os"
VERSION = "bitfusion-client/version"
FILTER = "bitfusion-client/filter"
SA_MOUNT = {"name": "kube-api-access-q7x2m", "readOnly": True,
            "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
SA_VOLUME = {"name": "kube-api-access-q7x2m", "projected": {"sources": [
    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}], "defaultMode": 420}}


def ask(amount="1", percent=None, memory=None, num=None, **other):
    """resources.limits of a container."""
    limits = {}
    for name, value in (("gpu-amount", amount), ("gpu-num", num), ("gpu-percent", percent), ("gpu-memory", memory)):
        if value is not None:
            limits["bitfusion.io/" + name] = str(value)
    limits.update(other)
    return {"limits": limits}


def container(name="main", command=("python", "train.py"), resources=None, **more):
    c = {"name": name, "image": "local/train:1"}
    if command is not None:
        c["command"] = list(command)
    c.update(more)
    c["resources"] = resources if resources is not None else ask()
    c["volumeMounts"] = more.get("volumeMounts", []) + [dict(SA_MOUNT)]
    c["terminationMessagePath"] = "/dev/termination-log"
    c["imagePullPolicy"] = "IfNotPresent"
    return c


def pod(*containers, switch="all", os="ubuntu20", version="450", filter=None, annotations=None, name="job", inits=None,
        namespace="ml", labels=None, generate=None, **spec):
    notes = {}
    for key, value in ((SWITCH, switch), (OS, os), (VERSION, version), (FILTER, filter)):
        if value is not None:
            notes[key] = value
    notes.update(annotations or {})
    meta = {"generateName": generate} if generate else {"name": name}
    meta["namespace"] = namespace
    if labels:
        meta["labels"] = labels
    if notes:
        meta["annotations"] = notes
    body = {"volumes": spec.pop("volumes", []) + [dict(SA_VOLUME)]}
    if inits:
        body["initContainers"] = list(inits)
    body["containers"] = list(containers) or [container()]
    body.update({"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
                 "serviceAccountName": "default", "securityContext": {}, "schedulerName": "default-scheduler",
                 "enableServiceLinks": True})
    body.update(spec)
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": body, "status": {}}
