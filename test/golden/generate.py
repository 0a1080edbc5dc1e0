#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What each golden case sends and expects, made from the tables in cases*.py, from the model, and from pods.json
for the pods that the model does not judge. As a program it writes them to build/golden/cases, a folder a case:
review.json, case.json, expect.json and, where the pod is patched, pod.json."""
import copy
import functools
import json
import os
import shutil
import sys

import jsonpatch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import cases  # noqa: E402
from oracle import model, profile, spelling  # noqa: E402

PODS = os.path.join(HERE, "pods.json")
FOLDER = os.path.join(os.path.dirname(os.path.dirname(HERE)), "build/golden/cases")


def config_folder(name):
    return os.path.join(HERE, "configs", name) if name else os.path.join(HERE, "default-config")


def total_mb(name):
    return {"no-total": 0, "total-16G": 16000}.get(name, 16000)


@functools.cache
def launcher(config):
    return profile.load(config_folder(config), total_mb(config))


def body(row):
    return json.dumps(row["review"], separators=(",", ":"), ensure_ascii=False)


def meta(row):
    return {k: row[k] for k in ("about", "path", "config", "oracle", "has", "then") if row.get(k)}


def expectation(row):
    """What the table says, else what the model says."""
    if row["expect"] is not None:
        return row["expect"]
    want = model.mutate(row["review"], launcher(row["config"]))
    if want.refusal:
        return cases.refused(*want.refusal.words, code=want.refusal.code, reason=want.refusal.reason)
    return {"allowed": True, "patched": want.pod is not None, "warnings": "some" if want.warns else []}


@functools.cache
def patches():
    """Of each case that the model does not judge, the reply's patch, with the plan as a tree and without its hash."""
    with open(PODS, encoding="utf-8") as f:
        return json.load(f)


def expected_pod(name, row):
    """The pod that must come out, its plan as a tree and without the hash; None: the pod is left as it is."""
    if row["oracle"]:
        want = model.mutate(row["review"], launcher(row["config"]))
        return want.pod and spelling.pod(row["review"], want, launcher(row["config"]))
    if not patches().get(name):
        return None
    return jsonpatch.apply_patch(row["review"]["request"]["object"], copy.deepcopy(patches()[name]))


def layout(value, indent=""):
    """JSON in lines of up to 140 characters where its members allow it, so that a change of one can be read."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent + line) <= 140 or not isinstance(value, (dict, list)):
        return line
    inner = indent + " "
    if isinstance(value, dict):
        parts = [f"{json.dumps(k)}: {layout(v, inner)}" for k, v in value.items()]
    else:
        parts = [layout(v, inner) for v in value]
    return line[0] + "\n" + ",\n".join(inner + p for p in parts) + f"\n{indent}{line[-1]}"


def keep(name, ops):
    """Writes pods.json with this patch of a case; None: with none."""
    found = patches()
    found[name] = ops
    with open(PODS, "w", encoding="utf-8") as f:
        f.write(layout({k: v for k, v in sorted(found.items()) if v and k in cases.table()}) + "\n")


def fresh(name):
    """A case's review, for a caller that changes it."""
    return json.loads(body(cases.table()[name]))


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name, row in cases.table().items():
        os.makedirs(os.path.join(FOLDER, name))
        files = {"review": body(row)}
        for part, value in (("case", meta(row)), ("expect", expectation(row)), ("pod", expected_pod(name, row))):
            if value is not None:
                files[part] = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
        for part, text in files.items():
            with open(os.path.join(FOLDER, name, part + ".json"), "w", encoding="utf-8") as f:
                f.write(text)


if __name__ == "__main__":
    main()
