# SPDX-License-Identifier: Apache-2.0
"""tests_of.py over small trees: what it finds by name, and each breach that it tells."""
import os
import sys

import pytest

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]

import tests_of  # noqa: E402


def tree(folder, *files, **heads):
    """heads: of a unit test, by what its file is called."""
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    for name, head in heads.items():
        (folder / "test/unit").mkdir(parents=True, exist_ok=True)
        (folder / f"test/unit/{name}.c").write_text(f"/* {head} */\n#include \"base/text.h\"\n")
    return str(folder)


@pytest.mark.parametrize("source, test", [
    ("base/buf.c", "test/unit/test_buf.c"), ("base/json/json_get.c", "test/unit/test_json_read.c"), ("base/json/json_get.c", "test/fuzz/fuzz_json.c"),
    ("webhook/core/metrics.c", "test/metrics/test_metrics_page.py"), ("probe/check/worker.c", "test/unit/test_probe_workers.c"),
    ("webhook/cli/pool.c", "test/e2e/test_pool")])
def test_found(tmp_path, source, test):
    assert tests_of.breaches(tree(tmp_path, source, test)) == []


@pytest.mark.parametrize("source, test", [
    ("base/buf.c", "test/unit/test_buffer.c"), ("base/json/json_get.c", "test/unit/test_get.c"), ("base/run.c", "test/lint/test_run.py"),
    ("webhook/core/worker.c", "test/unit/test_probe_worker.c"), ("webhook/core/inject/undo.c", "test/unit/test_core.c")])
def test_not_found(tmp_path, source, test):
    assert tests_of.breaches(tree(tmp_path, source, test))[0].startswith(source + ": no test")


def test_the_whole_name_comes_before_the_family(tmp_path):
    root = tree(tmp_path, "base/json/json_get.c", "test/unit/test_json.c", "test/unit/test_json_get.c")
    assert tests_of.tests_of("base/json/json_get.c", tests_of.tests_in(root), {}) == ["test/unit/test_json_get.c"]


@pytest.mark.parametrize("head", ["core/inject/undo: taken back.", "What undoes: base/buf, webhook/core/inject/undo", "core/inject/un*: all of it"])
def test_told(tmp_path, head):
    root = tree(tmp_path, "webhook/core/inject/undo.c", "base/buf.c", test_a=head, test_buf="")
    assert tests_of.breaches(root) == []
    assert tests_of.tests_of("webhook/core/inject/undo.c", tests_of.tests_in(root), tests_of.told_in(root)) == ["test/unit/test_a.c"]


def test_told_of_one_folder_only(tmp_path):
    root = tree(tmp_path, "probe/run.c", "probe/runtime/host.c", test_a="probe/run*: all of it")
    assert [breach.split(":")[0] for breach in tests_of.breaches(root)] == ["probe/runtime/host.c"]


def test_told_beside_those_of_the_name(tmp_path):
    root = tree(tmp_path, "base/json/json_get.c", "base/json/json_set.c", "test/unit/test_json.c", "test/unit/test_json_get.c",
                test_a="base/json/json_get, base/json/json_set")
    for source, named in (("get", "test_json_get"), ("set", "test_json")):
        found = tests_of.tests_of(f"base/json/json_{source}.c", tests_of.tests_in(root), tests_of.told_in(root))
        assert set(found) >= {"test/unit/test_a.c", f"test/unit/{named}.c"} and ("test/unit/test_json.c" in found) == (source == "set")


@pytest.mark.parametrize("head", ["undo: a word without a room", "test/unit/core/inject/undo is a place of tests"])
def test_not_told(tmp_path, head):
    assert "no test" in tests_of.breaches(tree(tmp_path, "webhook/core/inject/undo.c", test_a=head))[0]


def test_told_of_what_is_gone(tmp_path):
    root = tree(tmp_path, "base/buf.c", test_buf="base/buf, core/undo: and base/text, which is below")
    assert [breach.split(", which")[0] for breach in tests_of.breaches(root)] == [
        f"test/unit/test_buf.c: its first comment names {gone}" for gone in ("core/undo", "base/text")]
