# SPDX-License-Identifier: Apache-2.0
"""One line of the log for each decision, over all golden cases: it can be read by a machine, it says what the reply says, and nothing of a
pod but its names: no body, no variable's value, no token. What the audit log gets beside the reply is held to the API server's rules."""
import copy
import json
import os
import re
import uuid

import pytest

from golden import generate
from lib import reviews
from lib.server import DEFAULT_CONFIG, ROOT, Server

CONFIGS = os.path.join(ROOT, "test/golden/configs")
PLANTED = "pl4nted-"
RESULTS = {"patched", "untouched", "claimed", "refused"}
FIELDS = {"time", "level", "msg", "hook", "result", "operation", "kind", "subresource", "namespace", "name", "uid", "dryRun", "reason",
          "message", "note", "plan", "claim", "status", "ms"}


def cases():
    """(name, path, review) by configuration."""
    found = {}
    for name, row in sorted(generate.cases.table().items()):
        found.setdefault(row["config"], []).append((name, row["path"], row["review"]))
    return found


def plant(review, secrets):
    """Something secret wherever a pod or a review keeps what nobody else should read."""
    review = copy.deepcopy(review)
    request = review["request"]

    def secret():
        secrets.append(PLANTED + uuid.uuid4().hex)
        return secrets[-1]

    request["userInfo"] = {"username": "kubernetes-admin", "extra": {"token": [secret()]}}
    for key in ("object", "oldObject"):
        pod = request.get(key)
        if not isinstance(pod, dict) or not isinstance(pod.get("metadata"), dict):
            continue
        pod["metadata"].setdefault("annotations", {})
        if isinstance(pod["metadata"]["annotations"], dict):
            pod["metadata"]["annotations"]["example.com/password"] = secret()
        spec = pod.get("spec") if isinstance(pod.get("spec"), dict) else {}
        for container in [c for k in ("initContainers", "containers") for c in spec.get(k) or [] if isinstance(c, dict)]:
            variables = container.get("env")
            if variables is None:
                variables = container["env"] = []
            if not isinstance(variables, list):
                continue
            for v in variables:
                if isinstance(v, dict) and isinstance(v.get("value"), str):
                    v["value"] += ("/" if v["value"].startswith("/") else "") + secret()
            variables.append({"name": "PASSWORD", "value": secret()})
            container["workingDir"] = "/" + secret()
    return review


@pytest.mark.parametrize("form", ["json", "text"])
def test_each_decision_is_one_line_without_secrets(form):
    secrets, answered = [], {}
    for config, rows in cases().items():
        with Server(os.path.join(CONFIGS, config) if config else DEFAULT_CONFIG, ["--log-format", form, "--log-level", "debug"]) as one:
            began = len(one.log().splitlines())
            for i, (name, path, review) in enumerate(rows):
                review = plant(review, secrets)
                review["request"]["uid"] = f"review-{i}"
                status, _, data = one.client.request("POST", path, json.dumps(review).encode(), {"Authorization": "Bearer " + PLANTED + "x"})
                assert status == 200, (name, data)
                answered[f"review-{i}"] = (name, review, json.loads(data)["response"])
                end_claim(one, review, answered[f"review-{i}"][2])
            assert one.stop() == 0
            log = one.log()
        assert PLANTED not in log, next(x for x in log.splitlines() if PLANTED in x)
        for response in (a[2] for a in answered.values()):
            assert PLANTED not in json.dumps({k: v for k, v in response.items() if k != "patch"})
        check_lines([x for x in log.splitlines()[began:] if is_review(x, form)], answered, form)
        answered.clear()
    assert len(secrets) > 1000


def end_claim(one, review, response):
    request = review["request"]
    if response["allowed"] and request["operation"] == "CREATE" and request["object"].get("kind") == "Pod":
        gone = reviews.delete_review(request["object"], 0)
        gone["request"]["uid"] = "end"
        one.client.request("POST", "/validate", json.dumps(gone).encode())


def is_review(line, form):
    return '"msg":"review"' in line if form == "json" else re.match(r"\S+ \w+ review ", line) is not None


def check_lines(lines, answered, form):
    seen = {}
    for line in lines:
        fields = json.loads(line) if form == "json" else dict(re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)', line))
        assert set(fields) <= FIELDS, line
        if fields["uid"] == "end":
            continue
        assert fields["uid"] not in seen, f"two lines for one review: {line}"
        seen[fields["uid"]] = fields
        name, review, response = answered[fields["uid"]]
        audit = response.get("auditAnnotations", {})
        assert fields["result"] in RESULTS, line
        assert (fields["result"] == "refused") == (not response["allowed"]), (name, line)
        assert (fields["result"] == "patched") == ("patch" in response), (name, line)
        assert fields["operation"] == review["request"]["operation"]
        assert fields.get("reason") == response.get("status", {}).get("reason") == audit.get("reason"), (name, line)
        assert fields.get("plan") == audit.get("plan"), (name, line)
        claim = fields.get("claim")
        assert (claim.strip('"') if claim else None) == audit.get("claim"), (name, line)
        if form == "json" and not response["allowed"]:
            assert fields["message"].rstrip("…") == response["status"]["message"][:len(fields["message"].rstrip("…"))], name
    assert set(seen) == set(answered), set(answered) - set(seen)


def test_audit_annotations():
    """Both hooks' replies: the plan's hash is the one of the ledger, the claim names GPUs, a refusal its reason; nothing for a pod that
    does not concern the pool, nothing held by a dry run."""
    pod = first_patched()
    with Server() as one:
        def post(path, review):
            _, _, data = one.client.request("POST", path, json.dumps(review).encode())
            return json.loads(data)["response"]

        mutated = post("/mutate", pod)
        assert re.fullmatch(r"[0-9a-f]{16}", mutated["auditAnnotations"].pop("plan"))
        assert mutated["auditAnnotations"] == {}
        final = copy.deepcopy(pod)
        final["request"]["object"] = one.review("/mutate", pod)["pod"]
        final["request"]["object"]["metadata"]["uid"] = str(uuid.uuid4())
        dry = copy.deepcopy(final)
        dry["request"]["dryRun"] = True
        assert set(post("/validate", dry)["auditAnnotations"]) == {"plan"}
        got = post("/validate", final)["auditAnnotations"]
        assert set(got) == {"plan", "claim"}
        held = next(c for c in one.pool()["claims"] if c["uid"] == final["request"]["object"]["metadata"]["uid"])
        assert got["claim"] == " ".join(f"{p['server']}/{p['gpu']}={p['bytes']}" for p in held["parts"])
        forged = copy.deepcopy(final)
        del forged["request"]["object"]["metadata"]["labels"]
        refused = post("/validate", forged)
        assert refused["auditAnnotations"]["reason"] == refused["status"]["reason"] == "PlanMismatch"
        plain = copy.deepcopy(pod)
        del plain["request"]["object"]["metadata"]["annotations"]
        assert "auditAnnotations" not in post("/mutate", plain)


def first_patched():
    """The review of a golden case whose pod is patched, fresh."""
    table = generate.cases.table()
    return generate.fresh(next(name for name in sorted(table) if table[name]["path"] == "/mutate" and not table[name]["config"]
                               and generate.expectation(table[name]).get("patched")))


@pytest.mark.parametrize("launcher, command", [
    (None, [f"./train.py --password={PLANTED}x"]),
    (None, ["bitfusion", "run", "-n", "1", f"-password={PLANTED}x"]),
    ("juice", [f"-password={PLANTED}x"]),
], ids=["a line beside args", "an option of the launcher", "a dash"])
def test_no_refusal_shows_the_command(launcher, command):
    """A command may hold a password. Its refusal is read by more people than its author: in the log, on the page, in the pool's JSON, in the
    API server's audit log and, of a controller's pod, in events."""
    review = first_patched()
    pod = review["request"]["object"]
    pod["spec"]["containers"][0].update(command=command, args=["x"])
    if launcher:
        pod["metadata"]["annotations"]["poolgate.io/launcher"] = launcher
    with Server(os.path.join(CONFIGS, "launchers"), ["--log-level", "debug"]) as one:
        status, _, data = one.client.request("POST", "/mutate", json.dumps(review).encode())
        told = json.loads(data)["response"]["status"]
        assert status == 200 and told["reason"] == "Invalid" and "/spec/containers/0/command" in told["message"], data
        assert PLANTED not in data.decode()
        for path in ("/", "/v1/pool"):
            assert PLANTED not in one.plain_get(path, one.admin)[1]
        assert one.stop() == 0
        assert "Invalid" in one.log() and PLANTED not in one.log()


@pytest.mark.parametrize("body", [b"{", b'{"kind":"' + PLANTED.encode() * 40 + b'"}',
                                  b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"token":"' + PLANTED.encode() + b'"}}',
                                  b'{"a":"' + PLANTED.encode() + b'",}', b"\xff" + PLANTED.encode()], ids=range(5))
def test_what_cannot_be_read_is_one_line_without_its_body(body):
    """Of a body that is no review at most 60 bytes are quoted, of its kind or apiVersion."""
    with Server(args=["--log-format", "json", "--log-level", "debug"]) as one:
        began = len(one.log().splitlines())
        assert one.client.request("POST", "/validate", body)[0] == 400
        assert one.stop() == 0
        lines = [json.loads(x) for x in one.log().splitlines()[began:]]
        mine = [x for x in lines if x["msg"] == "unreadable review"]
        assert len(mine) == 1 and mine[0]["level"] == "warn" and mine[0]["status"] == 400
        assert json.dumps(mine).count(PLANTED) <= 60 // len(PLANTED) if b'"kind":"pl' in body else PLANTED not in json.dumps(mine)


def test_levels():
    """warn: decisions are not told, what fails is; error: neither."""
    with Server(args=["--log-level", "warn"]) as one:
        one.review("/mutate", first_patched())
        one.client.request("POST", "/validate", b"{")
        assert one.wait_log("unreadable review")
        assert " review " not in one.log().replace("unreadable review", "")
    with Server(args=["--log-level", "error"]) as one:
        one.client.request("POST", "/validate", b"{")
        assert one.stop() == 0
        assert one.log() == ""
