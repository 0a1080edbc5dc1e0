# SPDX-License-Identifier: Apache-2.0
"""Releases: the version stands in one place, the Makefile; what copies it is what tools/version writes, and nothing else is touched by it; docs/release.md
tells of each stage of .ci/release."""
import os
import re
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLACES = ["Makefile", "Containerfile*", "mk", "manifests", "charts", "packaging", "share", "docs/*.md", "docs/man", "README.md", "tools/version"]
NEW = "98.76.54"


def git(tree, *words):
    return subprocess.run(["git", "-C", tree, *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture(name="tree")
def fixture_tree(tmp_path):
    """What may name the version, in a repository of its own."""
    files = [f for f in git(ROOT, "ls-files", "--", *PLACES).split("\n") if f and os.path.exists(os.path.join(ROOT, f))]
    subprocess.run(["cp", "-P", "--parents", *files, tmp_path], cwd=ROOT, check=True)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    return tmp_path


def version(tree, *words):
    return subprocess.run([tree / "tools/version", *words], capture_output=True, text=True, check=False)


def test_every_copy_is_the_makefiles(tree):
    old = version(tree).stdout.strip()
    assert version(tree, old).returncode == 0
    assert git(tree, "diff", "--stat") == "", "run tools/version with the Makefile's version"


def test_a_new_version_stands_everywhere_and_changes_nothing_else(tree):
    old = version(tree).stdout.strip()
    assert version(tree, NEW).returncode == 0 and version(tree).stdout.strip() == NEW
    changed = [line for line in git(tree, "diff", "-U0").split("\n") if re.match(r"[-+](?![-+])", line)]
    before, after = ([line[1:] for line in changed if line[0] == sign] for sign in "-+")
    assert before and [line.replace(old, NEW) for line in before] == after
    left = subprocess.run(["git", "-C", tree, "grep", "-nF", old], capture_output=True, text=True, check=False).stdout
    assert left == "", "a copy of the version that tools/version does not know"


@pytest.mark.parametrize("word", ["", "1.2", "1.2.3.4", "v1.2.3", "01.2.3", "1.2.3-rc.1", "1.2.3\n4", "1.2.x;"])
def test_what_is_no_version_is_refused(tree, word):
    done = version(tree, word)
    assert done.returncode == 2 and "is no version; expected three numbers, as 1.2.3" in done.stderr
    assert git(tree, "diff", "--stat") == ""


def test_every_stage_of_a_release_has_its_last_result_on_record():
    with open(os.path.join(ROOT, ".ci/release"), encoding="utf-8") as f:
        stages = re.findall(r"^stage ([a-z0-9-]+) ", f.read(), re.M)
    with open(os.path.join(ROOT, "docs/release.md"), encoding="utf-8") as f:
        rows = re.findall(r"^\| `([a-z0-9-]+)` \| [^|]+ \| ([^|]+) \| [^|]*\|$", f.read(), re.M)
    assert [name for name, _ in rows] == stages
