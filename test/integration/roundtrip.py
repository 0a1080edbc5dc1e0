# SPDX-License-Identifier: Apache-2.0
"""`poolgate inject -w` over a folder of manifests, judged by other programs than poolgate: only the lines of the place change, what comes
out is what the JSON patch makes of what went in, a second time changes nothing, and uninject gives the bytes back.

    test/integration/roundtrip.py [COUNT [SEED]]    COUNT generated manifests beside those in test/integration/manifests
"""
import glob
import json
import os
import re
import sys
import tempfile
import time

sys.path[:0] = [p for p in (os.path.dirname(os.path.dirname(os.path.abspath(__file__))),) if p not in sys.path]

import jsonpatch  # noqa: E402
import yaml  # noqa: E402
from lib import cli, documents, manifests  # noqa: E402

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "manifests")
KEYS = {"metadata", "annotations", "labels", "spec", "template", "jobTemplate", "items", "workerGroupSpecs", "containers", "resources", "limits",
        "requests", "command", "args", "env", "value", "volumeMounts", "volumes", "initContainers"}


def by_hand():
    found = []
    for path in sorted(glob.glob(os.path.join(FOLDER, "*"))):
        name = os.path.basename(path)
        if not name.startswith(("refused-", "unreadable-")):
            with open(path, "rb") as f:
                found.append(manifests.Manifest(name, f.read(), name not in documents.SPELLINGS | documents.NULLS,
                                                any(w in name for w in ("alias-", "merge-"))))
    return found


def place_lines(text):
    """Lines (from 0) on which something may change: those with asking resources, and brackets and empty values on the way to the pods."""
    found = set()

    def walk(node, key_line=None):
        start, stop = node.start_mark.line, node.end_mark.line
        if isinstance(node, yaml.ScalarNode):
            if node.value in ("", "~", "null") and key_line is not None:
                found.add(key_line)
            return
        if node.flow_style:
            found.update(range(start, stop + 1))
            return
        for unit in node.value:
            if isinstance(unit, yaml.Node):
                walk(unit)
                continue
            key, value = unit
            if "bitfusion.io/gpu" in str(key.value) or key.value in ("value", "valueFrom", "auto-management/status"):
                found.update(range(key.start_mark.line, value.end_mark.line + 1))
            elif key.value in KEYS or not isinstance(value, yaml.ScalarNode):
                walk(value, key.start_mark.line)

    for root in yaml.compose_all(text, yaml.CSafeLoader):
        if root is not None:
            walk(root)
    return found


def check_lines(m, after):
    """Every line of before that is not the place's is there after, in order, byte for byte."""
    try:
        json.loads(m.data)
        place = {i for i, line in enumerate(m.data.decode().split("\n")) if re.search('bitfusion.io/gpu|"(command|labels|value)"', line)}
        loose = True  # a comma comes behind what was the last member
    except ValueError:
        place, loose = place_lines(m.data.decode("utf-8-sig")), False
    if m.data.count(b"\n") == 0:
        return
    lines = after.decode().split("\n")
    at = 0
    for i, line in enumerate(m.data.decode().split("\n")):
        if i in place:
            continue
        wanted = {line, line + ","} if loose else {line, line + "\r"}
        while at < len(lines) and lines[at] not in wanted:
            at += 1
        assert at < len(lines), f"line {i + 1} is gone: {line!r}"
        at += 1


def check_comments(m, after):
    ids = [c for c in re.findall(rb"# (c\d+c)", m.data) if c.decode() not in m.lost]
    left = [c for c in re.findall(rb"# (c\d+c)", after) if c.decode() not in m.lost]
    assert left == ids, [c for c in ids if c not in left] or "another order"


def bears_pods(doc):
    return isinstance(doc, dict) and bool(documents.pods_of(doc))


def check_meaning(before, after, patches):
    """before: as parsed; patches: of its documents with pods."""
    now = documents.parsed(after)
    wanted = [jsonpatch.apply_patch(doc, patches.pop(0)) if bears_pods(doc) else doc for doc in before]
    assert now == wanted, "the tree is not what the patch makes"


def check_back(m, last):
    if m.exact:
        assert last == m.data, "other bytes after uninject"
    else:
        assert documents.drop_nulls(documents.parsed(last)) == documents.drop_nulls(documents.parsed(m.data))


def poolgate(*args):
    status, out, err = cli.run(*args)
    assert status == 0, err[-2000:]
    return out


def read_all(folder, every):
    return [open(os.path.join(folder, m.name), "rb").read() for m in every]


def run(every):
    """[(name, what is wrong)]"""
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for m in every:
            with open(os.path.join(folder, m.name), "wb") as f:
                f.write(m.data)
        every = sorted(every, key=lambda m: m.name.encode())
        patches = [json.loads(line) for line in poolgate("inject", *cli.profile_args(), "-o", "patch", folder).splitlines()]
        poolgate("inject", *cli.profile_args(), "-w", folder)
        once = read_all(folder, every)
        poolgate("inject", *cli.profile_args(), "-w", folder)
        twice = read_all(folder, every)
        poolgate("uninject", "-w", folder)
        last = read_all(folder, every)
    for m, a, b, c in zip(every, once, twice, last):
        before = documents.parsed(m.data)
        n = sum(map(bears_pods, before))
        mine, patches = patches[:n], patches[n:]
        for check in (lambda: check_meaning(before, a, mine), lambda: check_comments(m, a), lambda: m.shared or check_lines(m, a),
                      lambda: check_back(m, c)):
            try:
                check()
            except AssertionError as e:
                wrong.append((m.name, str(e).split("\n", maxsplit=1)[0]))
        if a != b:
            wrong.append((m.name, "a second inject changes it"))
    return wrong


def main():
    count, seed = (int(v) for v in (sys.argv[1:] + ["300", "1"][len(sys.argv) - 1:])[:2])
    begin = time.monotonic()
    every = by_hand() + manifests.made(seed, count)
    wrong = run(every)
    for name, what in wrong:
        print(f"inject-roundtrip: {name}: {what}")
    print(f"inject-roundtrip: {len(every)} manifests ({sum(m.exact for m in every)} of them byte for byte back), seed {seed}, "
          f"{len(wrong)} wrong, {time.monotonic() - begin:.1f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
