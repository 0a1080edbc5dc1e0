# SPDX-License-Identifier: Apache-2.0
"""What docs/design.md says of the house is so: its picture, the files that it names, the rules and who keeps them. And the mutants of the
rules are of this house."""
import glob
import importlib.machinery
import importlib.util
import os
import re
import subprocess

import pytest

import floors

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
loader = importlib.machinery.SourceFileLoader("house", os.path.join(ROOT, "tools/house"))
house = importlib.util.module_from_spec(importlib.util.spec_from_loader("house", loader))
loader.exec_module(house)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def rules_of(text):
    """{5: [files]} of the table of rules; none for what is not kept yet."""
    rules = {}
    for number, kept in re.findall(r"^\| R(\d+) \| [^|]+ \| ([^|]+) \|$", text, re.M):
        folder, rules[int(number)] = "", []
        for path in re.findall(r"`([\w/]+\.[ch])`", kept):
            folder = os.path.dirname(path) or folder
            short = folder if folder in floors.FLOORS else "webhook/" + folder
            rules[int(number)].append(f"{short}/{os.path.basename(path)}")
    return rules


def cited(text):
    """The rules that a text cites: R5, "R5 to R7"."""
    found = {int(n) for n in re.findall(r"\bR(\d{1,2})\b", text)}
    for first, last in re.findall(r"\bR(\d{1,2}) to R(\d{1,2})\b", text):
        found.update(range(int(first), int(last) + 1))
    return found


def test_picture():
    assert read(house.PICTURE) == house.draw(), "make house"


def test_steps_are_on_the_picture():
    text = read(floors.DESIGN)
    assert [label for label, _ in house.steps_of(text, "## One review", r"\d")] == ["1", "2", "3", "4", "5", "6"]
    assert [label for label, _ in house.steps_of(text, "## One claim", "[a-z]")] == ["a", "b", "c", "d", "e"]


def test_rules():
    rules = rules_of(read(floors.DESIGN))
    assert sorted(rules) == list(range(1, 20))
    sources = {path: cited(read(path)) for path in floors.sources_of(ROOT) if path.startswith(("webhook/", "kube/"))}
    for number, kept in rules.items():
        for path in kept:
            assert path in sources, f"{path} keeps R{number}, and is not there"
            both = sources[path] | sources.get(path[:-1] + ("c" if path.endswith("h") else "h"), set())
            assert number in both, f"neither {path} nor its other half cites R{number}"
    unknown = {(path, n) for path, ns in sources.items() for n in ns if not rules.get(n)}
    assert not unknown, f"cited, but docs/design.md does not say who keeps it: {unknown}"


PAGES = ["CONTRIBUTING.md", "README.md", *(f"docs/{name}" for name in sorted(os.listdir(os.path.join(ROOT, "docs"))) if name.endswith(".md"))]
TOPS = {*(room.split("/")[0] for room in floors.FLOORS), "core", "edge", "cluster", "cli", "test", "tools", "mk", "manifests", "charts"}
# What others call as if it were a folder or a target of ours.
OF_OTHERS = {"net/http", "core/pkg/plugin", "build"}


@pytest.mark.parametrize("page", PAGES)
def test_documents_name_what_is_there(page):
    """Files and folders, with or without an ending and `webhook/`, where no X or NAME stands for a name; and what `make` is asked for."""
    text = read(page)
    files = {name for name in re.findall(rf"`((?:{'|'.join(TOPS)})/[\w./*-]+)`", text) if not re.search(r"(?<![a-z])(X|NAME)(?![a-z])", name)}
    gone = {name for name in files if not any(glob.glob(os.path.join(ROOT, above, name + ending)) for above in ("", "webhook") for ending in ("", ".c", ".h"))}
    rules = "".join(read(os.path.relpath(path, ROOT)) for path in [os.path.join(ROOT, "Makefile"), *glob.glob(os.path.join(ROOT, "mk/*.mk"))])
    targets = {target for line in re.findall(r"^([\w-]+(?: [\w-]+)*):", rules, re.M) for target in line.split()}
    assert (gone | set(re.findall(r"(?:`|^)make ([a-z][\w-]+)", text, re.M)) - targets) - OF_OTHERS == set()


def test_documents_name_the_metrics():
    """What a program exports, and what a page says that one does, be it as a sum or a count."""
    name = r"(?:poolgate|gpuprobe|gpugate)_[a-z_]+[a-z]"
    exported = {found for path in floors.sources_of(ROOT) for found in re.findall(rf'"({name})"', read(path))}
    said = {found for page in PAGES for found in re.findall(rf"(?<![\w/])({name})(?![\w.])", read(page))}
    assert exported - said == set()
    assert {found for found in said if re.sub("_(sum|count|bucket)$", "", found) not in exported} == set()


def test_circles():
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": set(), "f": {"f"}}
    assert house.circles(graph) == [["a", "b", "c"]]


def test_no_circle_of_includes():
    graph = house.includes()
    assert not house.circles(graph) and not house.circles(house.by_room(graph))


def test_no_two_things_of_one_name():
    homes = {}
    for path in floors.sources_of(ROOT):
        if path.endswith(".h") and not path.endswith("_impl.h"):
            for name in re.findall(r"^\s*(?:struct|enum) (\w+) \{", read(path), re.M):
                homes.setdefault(name, []).append(path)
    twice = {name: paths for name, paths in homes.items() if len(paths) > 1}
    assert not twice, twice


def test_mutants_apply():
    """A mutant of the simulator that does not would be noticed before a release alone."""
    for path in glob.glob(os.path.join(ROOT, "test/sim/mutants/*.patch")):
        done = subprocess.run(["git", "apply", "--check", path], cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 0, done.stderr
