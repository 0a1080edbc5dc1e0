# SPDX-License-Identifier: Apache-2.0
"""The checkers can fail: wrong replies that the strict reader must refuse, and the model's own arithmetic."""
import base64
import json
import os
import sys

import pytest

sys.path[:0] = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]

from lib import reviews, strict  # noqa: E402
from lib.pods import pod  # noqa: E402
from oracle import kubelet, quantity  # noqa: E402

REVIEW = reviews.review(reviews.default_resources(pod(labels={"app": "x"})), uid="u-1")
JSON = {"content-type": "application/json"}


def reply(ops=None, **change):
    response = {"uid": "u-1", "allowed": True}
    if ops is not None:
        response["patch"] = base64.b64encode(json.dumps(ops).encode()).decode()
        response["patchType"] = "JSONPatch"
    response.update(change)
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": {k: v for k, v in response.items() if v is not None}}


def check(body, validating=False, status=200, headers=None):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return strict.check_reply(REVIEW, status, headers or JSON, body, validating)


def op(kind, path, value=None):
    return {"op": kind, "path": path, **({} if value is None else {"value": value})}


LABEL = "/metadata/labels/poolgate.io~1injected"
GOOD = [op("add", LABEL, "true"), op("add", "/spec/initContainers", []), op("add", "/spec/initContainers/0", {"name": "a"}),
        op("add", "/spec/containers/0/command/0", "x"),
        op("remove", "/spec/containers/0/resources/limits/bitfusion.io~1gpu-amount")]


def test_good_replies():
    assert check(reply(GOOD))["pod"]["spec"]["containers"][0]["command"] == ["x", "python", "train.py"]
    assert check(reply(), validating=True)["allowed"]
    denied = reply(allowed=False, status={"code": 403, "reason": "NoCapacity", "message": "full"})
    assert check(denied, validating=True)["reason"] == "NoCapacity"
    assert check(reply(warnings=["careful"]))["warnings"] == ["careful"]


STATUS = {"code": 403, "reason": "NoCapacity", "message": "full"}
BAD = {
    "other-uid": reply(uid="u-2"), "no-uid": reply(uid=None), "allowed-word": reply(allowed="yes"),
    "patch-without-type": reply(GOOD, patchType=None), "type-without-patch": reply(patchType="JSONPatch"),
    "type": reply(GOOD, patchType="MergePatch"), "empty-patch": reply([]), "unknown-member": reply(extra=1),
    "status-when-allowed": reply(status=STATUS), "refusal-without-status": reply(allowed=False),
    "code": reply(allowed=False, status={**STATUS, "code": 429}),
    "no-reason": reply(allowed=False, status={"code": 403, "message": "x"}),
    "no-message": reply(allowed=False, status={**STATUS, "message": ""}),
    "message-control": reply(allowed=False, status={**STATUS, "message": "a\nb"}),
    "refusal-with-patch": reply(GOOD, allowed=False, status=STATUS),
    "long-warning": reply(warnings=["x" * 121]), "empty-warnings": reply(warnings=[]), "twice": reply(warnings=["a", "a"]),
    "version": {**reply(), "apiVersion": "admission.k8s.io/v1beta1"}, "kind": {**reply(), "kind": "Review"},
    "top-member": {**reply(), "x": 1}, "base64": reply(GOOD, patch="W10"), "base64-bits": reply(GOOD, patch="W11="),
}
BAD_OPS = {
    "test-op": op("test", LABEL, "x"), "move": {"op": "move", "from": LABEL, "path": LABEL},
    "not-ours": op("add", "/metadata/name", "x"), "user-label": op("add", "/metadata/labels/app", "y"),
    "all-labels": op("add", "/metadata/labels", {"poolgate.io/injected": "true"}),
    "all-command": op("replace", "/spec/containers/0/command", ["x"]), "image": op("replace", "/spec/containers/0/image", "x"),
    "no-parent": op("add", "/spec/initContainers/0", {"name": "x"}), "no-target": op("replace", LABEL, "x"),
    "remove-nothing": op("remove", "/spec/containers/0/resources/limits/bitfusion.io~1gpu-memory"),
    "beyond": op("add", "/spec/containers/0/command/7", "x"), "leading-zero": op("add", "/spec/containers/0/command/00", "x"),
    "no-value": op("add", LABEL), "other-resource": op("add", "/spec/containers/0/resources/limits/cpu", "1"),
    "no-container": op("add", "/spec/containers/3/command/0", "x"),
}


@pytest.mark.parametrize("name", sorted(BAD))
def test_bad_replies(name):
    with pytest.raises(Exception):
        check(BAD[name])


@pytest.mark.parametrize("name", sorted(BAD_OPS))
def test_bad_operations(name):
    with pytest.raises(strict.StrictError):
        check(reply([BAD_OPS[name]]))


def test_bad_transport():
    for status, headers, body in ((500, JSON, reply()), (200, {"content-type": "text/plain"}, reply()),
                                  (200, JSON, b'{"kind":"a","kind":"b"}'), (200, JSON, b"{")):
        with pytest.raises(Exception):
            check(body, status=status, headers=headers)
    with pytest.raises(strict.StrictError):
        check(reply(GOOD), validating=True)


@pytest.mark.parametrize("text,want", [
    ("$(A)", "1"), ("$$(A)", "$(A)"), ("$$$(A)", "$1"), ("$(B)", "$(B)"), ("$", "$"), ("$A", "$A"), ("$(", "$("), ("$()", "$()"),
    ("a$(A)b$(A)", "a1b1"), ("$$", "$"), ("$$$$", "$$"), ("$(A", "$(A"), ("x$$y", "x$y"), ("$(A)$(B)$$", "1$(B)$")])
def test_expansion(text, want):
    assert kubelet.expand(text, {"A": "1"}) == want


@pytest.mark.parametrize("total,memory,amount,megabytes,units", [
    (16000, "8000M", 1, 8000, 50), (16000, "8Gi", 1, 8589, 54), (16000, "5000M", 3, 5000, 94), (16000, "4000M", 2, 4000, 50),
    (16000, "1M", 1, 1, 1), (16000, "1120M", 1, 1120, 7), (16000, "16000M", 1, 16000, 100)])
def test_memory_arithmetic(total, memory, amount, megabytes, units):
    got = quantity.read_request({"resources": {"limits": {quantity.AMOUNT: amount, quantity.MEMORY: memory}}}, total)
    assert (got.memory_mb, got.units) == (megabytes, units)


def test_stripping_launcher():
    own, program = kubelet.strip_launcher(["b", "run", "-n", "1", "--", "x", "--", "-n"], kubelet.BITFUSION)
    assert own == [("-n", "1")] and program == ["x", "--", "-n"]
    for words in (["b", "x"], ["b", "run", "-z", "--"], ["b", "run", "-n", "1"]):
        with pytest.raises(ValueError):
            kubelet.strip_launcher(words, kubelet.BITFUSION)
