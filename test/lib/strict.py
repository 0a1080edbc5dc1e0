# SPDX-License-Identifier: Apache-2.0
"""A strict reader of admission replies: everything that the API server accepts or forgives is checked, and more."""
import base64
import copy
import json
import re

OURS_PREFIX = "poolgate.io/"
ANN_STATUS = "auto-management/status"
ANN_PLAN = "poolgate.io/plan"
LABEL = "poolgate.io/injected"
ASKED = ("bitfusion.io/gpu-amount", "bitfusion.io/gpu-num", "bitfusion.io/gpu-percent", "bitfusion.io/gpu-memory")
UNITS = "bitfusion.io/gpu"
# Keys of others that a policy may accept.
FOREIGN = ("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores")

CONTAINER = r"/spec/(?:containers|initContainers)/\d+"
LEGAL = [re.compile(p + r"\Z") for p in (
    r"/metadata/annotations", r"/metadata/annotations/(?:auto-management~1status|poolgate\.io~1(?:plan|gate-servers|gate-ca))",
    r"/metadata/labels", r"/metadata/labels/poolgate\.io~1injected",
    r"/spec/initContainers", r"/spec/initContainers/(?:\d+|-)",
    r"/spec/volumes", r"/spec/volumes/(?:\d+|-)",
    r"/spec/imagePullSecrets", r"/spec/imagePullSecrets/(?:\d+|-)",
    CONTAINER + r"/command", CONTAINER + r"/command/\d+",
    CONTAINER + r"/resources", CONTAINER + r"/resources/(?:limits|requests)",
    CONTAINER + r"/resources/(?:limits|requests)/bitfusion\.io~1gpu(?:-amount|-num|-percent|-memory)?",
    CONTAINER + r"/resources/(?:limits|requests)/nvidia\.com~1gpu(?:mem|mem-percentage|cores)?",
    CONTAINER + r"/env", CONTAINER + r"/env/(?:\d+|-)", CONTAINER + r"/env/\d+/(?:name|value|valueFrom)",
    CONTAINER + r"/volumeMounts", CONTAINER + r"/volumeMounts/(?:\d+|-)",
)]
# What ties a pod to nodes with GPUs: it is taken out; an update may bring back what was left of it.
DURING = r"/spec/affinity/nodeAffinity/(?:required|preferred)DuringSchedulingIgnoredDuringExecution"
TIES = [re.compile(p + r"\Z") for p in (
    r"/spec/(?:nodeSelector|tolerations|runtimeClassName|overhead|affinity)", r"/spec/nodeSelector/nvidia\.com~1[^/]+", r"/spec/tolerations/\d+",
    r"/spec/affinity/nodeAffinity", DURING, DURING + r"(?:/nodeSelectorTerms)?/\d+", DURING + r"/nodeSelectorTerms/\d+/matchExpressions/\d+",
    DURING + r"/\d+/preference/matchExpressions/\d+")]


class StrictError(AssertionError):
    """The reply breaks a rule of the protocol or of the contract."""


def need(condition, message):
    if not condition:
        raise StrictError(message)


def no_duplicates(pairs):
    keys = [k for k, _ in pairs]
    need(len(keys) == len(set(keys)), f"duplicate keys in the reply: {keys}")
    return dict(pairs)


def tokens(path):
    need(path == "" or path.startswith("/"), f"not a JSON pointer: {path!r}")
    need(not re.search(r"~(?![01])", path), f"bad escape in {path!r}")
    return [t.replace("~1", "/").replace("~0", "~") for t in path.split("/")[1:]]


def index_of(token, length, path):
    need(re.fullmatch(r"0|[1-9]\d*", token), f"{path}: {token!r} is no array index")
    need(int(token) <= length, f"{path}: index {token} beyond {length}")
    return int(token)


def step(node, token, path):
    if isinstance(node, list):
        i = index_of(token, len(node) - 1, path)
        return node[i]
    need(isinstance(node, dict) and token in node, f"{path}: {token!r} does not exist")
    return node[token]


def apply_strict(document, ops, update=False):
    """RFC 6902 to the letter: add needs an existing parent, replace and remove an existing target. Beyond it: only paths
    that are ours, and nothing the user wrote is written again (an update may bring an env entry back)."""
    doc = copy.deepcopy(document)
    created = set()
    for op in ops:
        need(isinstance(op, dict) and op.get("op") in ("add", "replace", "remove"), f"operation not allowed: {op}")
        want = {"op", "path"} if op["op"] == "remove" else {"op", "path", "value"}
        need(set(op) == want, f"members {sorted(op)} instead of {sorted(want)}")
        path = op["path"]
        tie = (op["op"] == "remove" or update) and any(r.match(path) for r in TIES)
        need(tie or any(r.match(path) for r in LEGAL), f"{op['op']} {path} is not ours to change")
        *parents, last = tokens(path)
        node = doc
        for token in parents:
            node = step(node, token, path)
        if isinstance(node, list):
            apply_to_list(node, op, last, update)
        else:
            apply_to_map(node, op, last, tie or path in created)
        created.add(path)
    return doc


def apply_to_list(node, op, last, update):
    path, kind = op["path"], op["op"]
    if kind == "add":
        node.insert(len(node) if last == "-" else index_of(last, len(node), path), copy.deepcopy(op["value"]))
        return
    need(last != "-", f"{kind} {path}: '-' names nothing")
    i = index_of(last, len(node) - 1, path)
    if kind == "replace":
        need(update or not isinstance(node[i], (dict, list)), f"replace {path} writes a sub-tree of the user again")
        node[i] = copy.deepcopy(op["value"])
    else:
        del node[i]


def apply_to_map(node, op, last, ours):
    path, kind = op["path"], op["op"]
    need(isinstance(node, dict), f"{kind} {path}: the parent is neither object nor array")
    if kind == "add":
        need(op["value"] is not None, f"add {path} without a value")
        need(ours or not isinstance(node.get(last), (dict, list)), f"add {path} writes over what the user wrote")
        node[last] = copy.deepcopy(op["value"])
        return
    need(last in node, f"{kind} {path}: there is no such member")
    if kind == "replace":
        need(ours or not isinstance(node[last], (dict, list)), f"replace {path} writes over what the user wrote")
        node[last] = copy.deepcopy(op["value"])
    else:
        need(last in ASKED + FOREIGN or ours or last in ("value", "valueFrom", "env", "volumeMounts", UNITS),
             f"remove {path}: not ours to remove")
        del node[last]


def apply_independently(document, ops):
    """The same by python3-jsonpatch, which goes on to change the values of the operations that it is given."""
    import jsonpatch
    return jsonpatch.JsonPatch(copy.deepcopy(ops)).apply(document)


def check_text(text, what, limit=None):
    need(isinstance(text, str) and text != "", f"{what} is empty or no string")
    need(not any(ord(c) < 0x20 or 0x7f <= ord(c) < 0xa0 for c in text), f"{what} holds control characters: {text!r}")
    if limit:
        need(len(text.encode()) <= limit, f"{what} is longer than {limit} bytes: {text!r}")


def check_reply(review, status, headers, body, validating):
    """Returns {"allowed", "code", "reason", "message", "warnings", "ops", "pod"}; pod is None without a patch."""
    need(status == 200, f"HTTP {status}: {body[:300]!r}")
    need(headers.get("content-type", "").split(";")[0].strip() == "application/json", f"content type {headers}")
    reply = json.loads(body.decode("utf-8"), object_pairs_hook=no_duplicates)
    need(set(reply) == {"apiVersion", "kind", "response"}, f"members of the reply: {sorted(reply)}")
    need(reply["apiVersion"] == review["apiVersion"] and reply["kind"] == "AdmissionReview",
         f"{reply['apiVersion']} {reply['kind']} is not what was asked")
    response = reply["response"]
    extra = set(response) - {"uid", "allowed", "status", "patch", "patchType", "warnings", "auditAnnotations"}
    need(not extra, f"unknown members of the response: {extra}")
    need(response.get("uid") == review["request"]["uid"], "the uid is not echoed")
    need(isinstance(response.get("allowed"), bool), "allowed is no boolean")
    need(("patch" in response) == ("patchType" in response), "patch and patchType must come both or neither")
    warnings = response.get("warnings", [])
    need(isinstance(warnings, list) and ("warnings" not in response or warnings), "warnings is empty or no list")
    for w in warnings:
        check_text(w, "a warning", 120)
    need(len(set(warnings)) == len(warnings), "a warning comes twice")
    got = {"allowed": response["allowed"], "code": None, "reason": None, "message": None, "warnings": warnings,
           "ops": None, "pod": None}
    for key, value in response.get("auditAnnotations", {}).items():
        need(re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", key) and isinstance(value, str),
             f"audit annotation {key!r}")
        check_text(value, f"audit annotation {key}", 1024)
    need(set(response.get("auditAnnotations", {"": ""})), "auditAnnotations is empty")
    if not got["allowed"]:
        check_refusal(response, got)
        return got
    need("status" not in response, "an allowed reply carries a status")
    if "patch" not in response:
        return got
    need(not validating, "a validating reply carries a patch")
    need(response["patchType"] == "JSONPatch", f"patchType {response['patchType']!r}")
    raw = base64.b64decode(response["patch"], validate=True)
    need(base64.b64encode(raw).decode() == response["patch"], "the base64 is not canonical")
    ops = json.loads(raw.decode("utf-8"), object_pairs_hook=no_duplicates)
    need(isinstance(ops, list) and ops, "an empty patch must not be sent")
    got["ops"] = ops
    got["pod"] = apply_strict(review["request"]["object"], ops, review["request"]["operation"] == "UPDATE")
    need(got["pod"] == apply_independently(review["request"]["object"], ops), "two patch engines disagree")
    return got


def check_refusal(response, got):
    need("patch" not in response, "a refusal carries a patch")
    status = response.get("status")
    need(isinstance(status, dict), "a refusal without status")
    extra = set(status) - {"code", "reason", "message", "status", "details", "metadata"}
    need(not extra, f"unknown members of status: {extra}")
    need(status.get("code") in (403, 422), f"code {status.get('code')!r}")
    need(re.fullmatch(r"[A-Z][A-Za-z]+", status.get("reason") or ""), f"reason {status.get('reason')!r}")
    check_text(status.get("message"), "the message")
    need(status.get("status", "Failure") == "Failure", "status.status of a refusal")
    got.update(code=status["code"], reason=status["reason"], message=status["message"])
