#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""From a source to its tests. A test of base/json/json_get.c is called as the file is, or as its first word: test_json_get, test_json,
test_json_read, fuzz_json; one of probe/run.c may be test_probe_run. What else a test is of, it names in its first comment, with a room and without
an ending: "core/pod/late", "gate/child*".

    test/lint/tests_of.py                 says which source has no test that can be found, and which test names a source that is not there
    test/lint/tests_of.py webhook/core/inject/undo.c      says what tests it
"""
import fnmatch
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCES = ("base", "net", "certs", "kube", "webhook", "probe", "deviceplugin", "gate")
WEBHOOK = ("core", "edge", "cluster", "cli")


def tests_in(root):
    """{name without test_ or fuzz_: [file]} of every test that is a file: C, Python or a script."""
    found = {}
    for path in glob.glob(os.path.join(root, "test/*/*")):
        match = re.fullmatch(r"(?:test|fuzz)_(\w+)(\.c|\.py)?", os.path.basename(path))
        if match and os.path.isfile(path) and "/lint/" not in path:
            found.setdefault(match.group(1), []).append(os.path.relpath(path, root))
    return found


def told_in(root):
    """{a source, or a pattern of some, as a first comment has it: [tests]}"""
    told = {}
    for path in sorted(file for files in tests_in(root).values() for file in files):
        with open(os.path.join(root, path), encoding="utf-8") as f:
            head = re.split(r"^(?:#include|import|from)\b", f.read(4000), maxsplit=1, flags=re.M)[0]
        for name in re.findall(rf"(?<![\w/.-])(?:(?:{'|'.join(SOURCES + WEBHOOK)})/)+(?:\w+/)*[\w*]+(?![\w/-])", head):
            told.setdefault(name, []).append(path)
    return told


def sources_in(root):
    return sorted(os.path.relpath(path, root) for top in SOURCES
                  for path in glob.glob(os.path.join(root, top, "**/*.c"), recursive=True))


def meant(path, told):
    """Whether a first comment's word is of this source."""
    folder, name = os.path.split(path[:-len(".c")])
    in_folder, pattern = os.path.split(told)
    return folder in (in_folder, "webhook/" + in_folder) and fnmatch.fnmatchcase(name, pattern)


def tests_of(path, tests, told):
    """The files that test this source: that name it, of its whole name, and of its family where no file has the whole name."""
    folders, own = path.split("/")[:-1], os.path.basename(path)[:-len(".c")]
    found = [file for name, files in told.items() if meant(path, name) for file in files]
    for wanted in (own, own.split("_")[0]):
        called = [file for test, files in tests.items() for file in files
                  if re.match(rf"(?:(?:{'|'.join(folders)})_)?{re.escape(wanted)}s?(?:_|\Z)", test)]
        if called:
            break
    return sorted({*found, *called})


def breaches(root):
    tests, told, sources = tests_in(root), told_in(root), sources_in(root)
    out = [f"{path}: no test is called as it or as its first word, and none names it in its first comment"
           for path in sources if not tests_of(path, tests, told)]
    return out + [f"{file}: its first comment names {name}, which is not there" for name, files in told.items() for file in files
                  if not any(meant(path, name) for path in sources) and not any(
                      glob.glob(os.path.join(root, start, name + end)) for start in ("", "webhook") for end in (".h", ".cu", ""))]


def main():
    if sys.argv[1:]:
        tests, told = tests_in(ROOT), told_in(ROOT)
        for path in sys.argv[1:]:
            print(f"{path}: {' '.join(tests_of(path, tests, told)) or 'no test'}")
        return 0
    found = breaches(ROOT)
    print("\n".join(found) or "tests: each source has its own")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
