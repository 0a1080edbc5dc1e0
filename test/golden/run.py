# SPDX-License-Identifier: Apache-2.0
"""Golden tests: every folder of cases/ against the real server over TLS, each reply read by the strict checker, each
mutated pod compared with the independent model and with the pod on file.

    /usr/bin/python3 -m pytest test/golden/run.py [-k NAME]      GOLDEN_UPDATE=1 rewrites what the checkers accept
"""
import json
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [p for p in (HERE, os.path.dirname(HERE)) if p not in sys.path]

import flow  # noqa: E402
from generate import config_folder, total_mb  # noqa: E402
from lib import reviews, server  # noqa: E402
from oracle import compare, kubelet, model, profile  # noqa: E402

UPDATE = bool(os.environ.get("GOLDEN_UPDATE") or os.environ.get("UPDATE"))
FOLDER = os.path.join(HERE, "cases")
NAMES = sorted(os.listdir(FOLDER))


def load(*path):
    with open(os.path.join(FOLDER, *path), "rb") as f:
        return json.loads(f.read())


def dump(value, *path):
    with open(os.path.join(FOLDER, *path), "w", encoding="utf-8") as f:
        json.dump(value, f, indent=1, ensure_ascii=False)
        f.write("\n")


@pytest.fixture(scope="module", name="servers")
def fixture_servers():
    """One server per configuration, started when it is first needed."""
    running = {}

    def get(config):
        if config not in running:
            running[config] = server.Server(config_folder(config))
        return running[config]

    yield get
    for one in running.values():
        try:
            assert one.stop() == 0, one.log()[-2000:]
        finally:
            one.close()


def expect_reply(got, expect):
    assert got["allowed"] == expect["allowed"], got
    if not expect["allowed"]:
        for word in expect.get("message", []):
            assert word in got["message"], f"{word!r} is not in {got['message']!r}"
        for key in ("code", "reason"):
            if expect.get(key) is not None:
                assert got[key] == expect[key], got
    else:
        assert (got["pod"] is not None) == expect["patched"], got["ops"]
    warnings = expect.get("warnings", [])
    if warnings == "some":
        assert got["warnings"], "no warning"
    elif warnings != "any":
        assert len(got["warnings"]) == len(warnings), got["warnings"]
        for have, want in zip(got["warnings"], warnings):
            assert want in have, got["warnings"]


def check_against_model(review, got, config, expect):
    launcher = profile.load(config_folder(config), total_mb(config))
    want = model.mutate(review, launcher)
    if want.refusal:
        assert not got["allowed"], f"the model refuses: {want.refusal}"
        return
    assert got["allowed"], got["message"]
    assert (got["pod"] is not None) == (want.pod is not None), got["ops"]
    if want.warns and expect.get("warnings") != "any":
        assert got["warnings"], "a warning is due"
    if want.pod is not None:
        assert not compare.differences(got["pod"], review["request"]["object"], want)
        check_launcher(review["request"]["object"], got["pod"], want, launcher.shell)


def check_launcher(user, pod, want, shell):
    """A launcher that strips its own words must start the program that the user wrote."""
    before = {c["name"]: c for k in ("initContainers", "containers") for c in user["spec"].get(k) or []}
    for container in [c for k in ("initContainers", "containers") for c in pod["spec"].get(k) or []]:
        name = container["name"]
        if name not in want.requests or want.argv[name] == kubelet.argv(before[name]):
            continue
        _, program = kubelet.strip_launcher(kubelet.argv(container), kubelet.BITFUSION)
        line = model.shell_line(before[name])
        own = kubelet.argv(before[name])
        assert program == ([shell, "-c", *own] if line is not None else own)


def let_go(one, review):
    """Ends the claim that an allowed review took, as a final DELETE does without a cluster."""
    request = review["request"]
    if request["operation"] == "CREATE" and request["object"]["kind"] == "Pod" and not request["dryRun"]:
        one.review("/validate", reviews.delete_review(request["object"], 0))


def post(one, path, review):
    got = one.review(path, review)
    if path == "/validate" and got["allowed"]:
        let_go(one, review)
    return got


@pytest.mark.parametrize("name", NAMES)
def test_case(name, servers):
    meta, expect = load(name, "case.json"), load(name, "expect.json")
    with open(os.path.join(FOLDER, name, "review.json"), "rb") as f:
        body = f.read()
    review = json.loads(body)
    one = servers(meta.get("config"))
    got = one.review(meta["path"], body)
    if meta["path"] == "/validate" and got["allowed"]:
        let_go(one, review)
    expect_reply(got, expect)
    if meta.get("oracle"):
        check_against_model(review, got, meta.get("config"), expect)
    check_facts(meta.get("has", {}), got)
    run_steps(name, meta, review, got, one)
    on_file(name, got, expect)


def check_facts(facts, got):
    """Members of the container `main`, as case.json wants them; env by what is in force."""
    if not facts:
        return
    container = next(c for c in got["pod"]["spec"]["containers"] if c["name"] == "main")
    for key, want in facts.items():
        have = kubelet.environment(container) if key == "env" else container.get(key)
        assert have == want, f"{key}: {have}"


def run_steps(name, meta, review, got, one):
    state = {"user": review["request"]["object"], "pod": got["pod"] or review["request"]["object"], "live": None}
    for step in meta.get("then", []):
        sent = flow.step_review(step, state, name)
        answer = post(one, step["path"], sent)
        expect_reply(answer, step["expect"])
        if step.get("oracle"):
            check_against_model(sent, answer, meta.get("config"), step["expect"])
        if "check" in step:
            flow.CHECKS[step["check"]](answer, state, sent)
        if answer["pod"] is not None and "review" not in step:
            state["pod"] = answer["pod"]
            if state["live"] is not None:
                state["live"] = answer["pod"]


def on_file(name, got, expect):
    """Compares the pod with the one on file, or writes it."""
    path = os.path.join(FOLDER, name, "pod.json")
    if UPDATE:
        if got["pod"] is not None:
            dump(flow.with_plan(got["pod"]), name, "pod.json")
        elif os.path.exists(path):
            os.unlink(path)
        if not got["allowed"]:
            dump({**expect, "code": got["code"], "reason": got["reason"]}, name, "expect.json")
        return
    if got["pod"] is None:
        assert not os.path.exists(path)
        return
    assert flow.with_plan(got["pod"]) == load(name, "pod.json")
