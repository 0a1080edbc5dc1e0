# SPDX-License-Identifier: Apache-2.0
"""Pods that wait and GPUServers as a cluster shows them, for subcommands that read both."""
import copy
import json

from lib import cli

SERVERS = "/apis/poolgate.io/v1alpha1/gpuservers"
GATE = {"name": "poolgate.io/capacity"}
MB = 1000000


def asks(amount=2, **annotations):
    """A pod as its owner writes it: so many whole GPUs."""
    return {"metadata": {"annotations": {
        "auto-management/bitfusion": "all", "bitfusion-client/os": "ubuntu18", "bitfusion-client/version": "400", **annotations}},
        "spec": {"containers": [{"name": "c", "image": "i", "command": ["x"], "resources": {"limits": {"bitfusion.io/gpu-amount": amount}}}]}}


def injected():
    """As the engine writes it, asking for two whole GPUs."""
    p = {"apiVersion": "v1", "kind": "Pod", **asks()}
    p["metadata"]["name"] = "p"
    status, out, err = cli.inject(json.dumps(p).encode(), "-o", "json")
    assert status == 0, err
    return json.loads(out)


def pod(made, name, minute, *gates, **metadata):
    """Of that made by injected(), as the API server has it."""
    p = copy.deepcopy(made)
    p["metadata"].update({"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "namespace": "ml",
                          "creationTimestamp": f"2026-01-01T00:{minute:02}:00Z", **metadata})
    p["spec"]["schedulingGates"] = list(gates)
    if gates:
        plan = json.loads(p["metadata"]["annotations"]["poolgate.io/plan"])
        p["metadata"]["annotations"]["poolgate.io/plan"] = json.dumps({**plan, "waits": True}, separators=(",", ":"))
    p["status"] = {"phase": "Pending"}
    return p


def server(name, gpus, claims):
    """claims: (pod's name, its GPU, MB)"""
    return {"apiVersion": "poolgate.io/v1alpha1", "kind": "GPUServer", "metadata": {
        "name": name, "uid": f"uid-{name}", "resourceVersion": "1", "finalizers": ["poolgate.io/claims"]}, "spec": {
        "address": f"{name}:56001", "gpus": [{"model": "T4", "memory": "8000M", "count": gpus}]}, "status": {
        "version": 1, "gpus": [{"id": f"gpu-{i}", "model": "T4", "memory": 8000 * MB, "fit": True} for i in range(gpus)],
        "claims": [{"uid": f"uid-{who}", "namespace": "ml", "name": who, "state": "bound", "plan": "00000000000000aa", "since": "2026-01-01T00:00:30Z",
                    "take": "00000000000000bb", "servers": [name], "gpus": [{"id": gpu, "bytes": mb * MB}]} for who, gpu, mb in claims]}}


def listed(kind, items):
    return {"kind": kind, "metadata": {"resourceVersion": "9"}, "items": items}
