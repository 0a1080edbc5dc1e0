# SPDX-License-Identifier: Apache-2.0
"""tests_of.py over small trees: what it finds by name, and each breach that it tells."""
import os
import sys

import pytest

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]

import tests_of  # noqa: E402


def tree(folder, *files, exceptions=""):
    for name in (*files, "test/lint/tests_of.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    (folder / "test/lint/tests_of.txt").write_text(exceptions)
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


def test_exceptions(tmp_path):
    files = "probe/run.c", "probe/run_gpus.c", "test/unit/test_a.c"
    assert tests_of.breaches(tree(tmp_path, *files, exceptions="run*.c test/unit/test_a.c # why\n")) == []
    assert "there is no test/unit/test_b.c" in tests_of.breaches(tree(tmp_path, exceptions="run*.c test/unit/test_b.c\n"))[0]
    assert "no test" in tests_of.breaches(tree(tmp_path, exceptions="run*.c\n"))[0]
    stale = tests_of.breaches(tree(tmp_path, exceptions="run*.c test/unit/test_a.c\nundo.c test/unit/test_a.c\n"))
    assert "no source undo.c" in stale[0]
    tree(tmp_path, "test/unit/test_run.c", exceptions="run*.c test/unit/test_a.c\n")
    assert "has tests of its name" in tests_of.breaches(str(tmp_path))[0]
