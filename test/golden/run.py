# SPDX-License-Identifier: Apache-2.0
"""Golden tests: every case of the tables in cases*.py against the real server over TLS. Each reply is read by
the strict checker, each mutated pod compared with the independent model and, word by word, with the pod that
generate.py expects.

    /usr/bin/python3 -m pytest test/golden/run.py [-k NAME]      GOLDEN_UPDATE=1 rewrites pods.json
"""
import json
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [p for p in (HERE, os.path.dirname(HERE)) if p not in sys.path]

import cases  # noqa: E402
import flow  # noqa: E402
import generate  # noqa: E402
from lib import reviews, server  # noqa: E402
from oracle import compare, kubelet, model  # noqa: E402

UPDATE = bool(os.environ.get("GOLDEN_UPDATE") or os.environ.get("UPDATE"))
TABLE = cases.table()


@pytest.fixture(scope="module", name="servers")
def fixture_servers():
    """One server per configuration, started when it is first needed."""
    running = {}

    def get(config):
        if config not in running:
            running[config] = server.Server(generate.config_folder(config))
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
    else:
        assert len(got["warnings"]) == len(warnings), got["warnings"]
        for have, want in zip(got["warnings"], warnings):
            assert want in have, got["warnings"]


def check_against_model(review, got, config, expect):
    launcher = generate.launcher(config)
    want = model.mutate(review, launcher)
    if want.refusal:
        assert not got["allowed"], f"the model refuses: {want.refusal}"
        return
    assert got["allowed"], got["message"]
    assert (got["pod"] is not None) == (want.pod is not None), got["ops"]
    if want.warns:
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


@pytest.mark.parametrize("name", sorted(TABLE))
def test_case(name, servers):
    row = TABLE[name]
    expect, body, config = generate.expectation(row), generate.body(row).encode(), row["config"]
    review = json.loads(body)
    one = servers(config)
    got = one.review(row["path"], body)
    if row["path"] == "/validate" and got["allowed"]:
        let_go(one, review)
    expect_reply(got, expect)
    if row["oracle"]:
        check_against_model(review, got, config, expect)
    check_facts(row.get("has"), got)
    run_steps(name, row, review, got, one)
    check_pod(name, row, got)


def check_facts(facts, got):
    """Members of the container `main`, as the table wants them; env by what is in force."""
    if not facts:
        return
    container = next(c for c in got["pod"]["spec"]["containers"] if c["name"] == "main")
    for key, want in facts.items():
        have = kubelet.environment(container) if key == "env" else container.get(key)
        assert have == want, f"{key}: {have}"


def run_steps(name, row, review, got, one):
    state = {"user": review["request"]["object"], "pod": got["pod"] or review["request"]["object"], "live": None}
    for step in row["then"]:
        sent = flow.step_review(step, state, name)
        answer = post(one, step["path"], sent)
        expect_reply(answer, step["expect"])
        if step.get("oracle"):
            check_against_model(sent, answer, row["config"], step["expect"])
        if "check" in step:
            flow.CHECKS[step["check"]](answer, state, sent)
        if answer["pod"] is not None and "review" not in step:
            state["pod"] = answer["pod"]
            if state["live"] is not None:
                state["live"] = answer["pod"]


def check_pod(name, row, got):
    """Compares the pod with the one that is expected word by word, or keeps what was patched."""
    have = got["pod"] and flow.with_plan(got["pod"])
    if UPDATE and not row["oracle"]:
        generate.keep(name, got["ops"] and flow.ops_with_plan(got["ops"]))
    assert have == generate.expected_pod(name, row)
