#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the folders of the golden cases from the tables in cases*.py: review.json, case.json, expect.json. An expect.json
that is there keeps what the table leaves open (codes and reasons that were seen and reviewed)."""
import json
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import cases  # noqa: E402
from oracle import model, profile  # noqa: E402

KEEP = {"default-config", "configs", "recorded", "cases", "__pycache__"}


def write(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=1, ensure_ascii=False)
        f.write("\n")


def config_folder(name):
    return os.path.join(HERE, "configs", name) if name else os.path.join(HERE, "default-config")


def total_mb(name):
    return {"no-total": 0, "total-16G": 16000}.get(name, 16000)


def expectation(row):
    """What the table says, else what the model says."""
    if row["expect"] is not None:
        return row["expect"]
    want = model.mutate(row["review"], profile.load(config_folder(row["config"]), total_mb(row["config"])))
    if want.refusal:
        return cases.refused(*want.refusal.words, code=want.refusal.code, reason=want.refusal.reason)
    return {"allowed": True, "patched": want.pod is not None, "warnings": "some" if want.warns else []}


def main():
    table = cases.table()
    folder = os.path.join(HERE, "cases")
    os.makedirs(folder, exist_ok=True)
    for name in set(os.listdir(folder)) - set(table):
        shutil.rmtree(os.path.join(folder, name))
    for name, row in table.items():
        place = os.path.join(folder, name)
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, "review.json"), "w", encoding="utf-8") as f:
            json.dump(row["review"], f, separators=(",", ":"), ensure_ascii=False)
        meta = {k: row[k] for k in ("about", "path", "config", "oracle", "has", "then") if k in row}
        write(os.path.join(place, "case.json"), {k: v for k, v in meta.items() if v})
        expect, path = expectation(row), os.path.join(place, "expect.json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                seen = json.load(f)
            for key in ("code", "reason"):
                if expect.get(key) is None and key in expect and seen.get(key) is not None:
                    expect[key] = seen[key]
        write(path, expect)
    print(f"{len(table)} cases")


if __name__ == "__main__":
    main()
