#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""From a source to its tests, by name. A test of base/json/json_get.c is called as the file is, or as its first word:
test_json_get, test_json, test_json_read, fuzz_json; one of probe/run.c may be test_probe_run.
test/lint/tests_of.txt names the tests of the few sources for which that does not hold.

    test/lint/tests_of.py                 says which source has no test that can be found, and which exception is stale
    test/lint/tests_of.py webhook/core/inject/undo.c      says what tests it
"""
import fnmatch
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCES = ("base", "net", "certs", "kube", "webhook", "probe", "deviceplugin", "gate")


def tests_in(root):
    """{name without test_ or fuzz_: [file]} of every test that is a file: C, Python or a script."""
    found = {}
    for path in glob.glob(os.path.join(root, "test/*/*")):
        match = re.fullmatch(r"(?:test|fuzz)_(\w+)(\.c|\.py)?", os.path.basename(path))
        if match and os.path.isfile(path) and "/lint/" not in path:
            found.setdefault(match.group(1), []).append(os.path.relpath(path, root))
    return found


def exceptions_in(root):
    """{name of a source, or a pattern of names: [tests]}"""
    rows = {}
    with open(os.path.join(root, "test/lint/tests_of.txt"), encoding="utf-8") as f:
        for line in f:
            words = line.split("#")[0].split()
            if words:
                rows[words[0]] = words[1:]
    return rows


def sources_in(root):
    return sorted(os.path.relpath(path, root) for top in SOURCES
                  for path in glob.glob(os.path.join(root, top, "**/*.c"), recursive=True))


def tests_of(path, tests, exceptions):
    """The files that test this source: of its whole name if there are such, else of its family."""
    folders, name = path.split("/")[:-1], os.path.basename(path)
    for pattern, files in exceptions.items():
        if fnmatch.fnmatchcase(name, pattern):
            return files
    own = name[:-len(".c")]
    for wanted in (own, own.split("_")[0]):
        found = [file for test, files in tests.items() for file in files
                 if re.match(rf"(?:(?:{'|'.join(folders)})_)?{re.escape(wanted)}s?(?:_|\Z)", test)]
        if found:
            return sorted(found)
    return []


def breaches(root):
    tests, exceptions, sources = tests_in(root), exceptions_in(root), sources_in(root)
    out = [f"{path}: no test is called as it or as its first word: name one so, or tell of it in test/lint/tests_of.txt"
           for path in sources if not tests_of(path, tests, exceptions)]
    for name, files in exceptions.items():
        meant = [path for path in sources if fnmatch.fnmatchcase(os.path.basename(path), name)]
        if not meant:
            out.append(f"test/lint/tests_of.txt: there is no source {name}: take its line away")
        elif all(tests_of(path, tests, {}) for path in meant):
            out.append(f"test/lint/tests_of.txt: {name} has tests of its name: take its line away")
        out += [f"test/lint/tests_of.txt: {name}: there is no {file}" for file in files if not os.path.exists(os.path.join(root, file))]
    return out


def main():
    if sys.argv[1:]:
        tests, exceptions = tests_in(ROOT), exceptions_in(ROOT)
        for path in sys.argv[1:]:
            print(f"{path}: {' '.join(tests_of(path, tests, exceptions)) or 'no test'}")
        return 0
    found = breaches(ROOT)
    print("\n".join(found) or "tests: each source has its own")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
