# SPDX-License-Identifier: Apache-2.0
"""docs/gpuprobe-report.schema.json fits what is written (test/probe/reports, which test_probe_report holds to the byte), refuses
what must not be written, and names every check and code that there is."""
import copy
import glob
import os
import re

import jsonschema
import pytest

from lib.probe_schema import ROOT, loads, problems, schema

SAMPLES = sorted(glob.glob(os.path.join(ROOT, "test/probe/reports/*.json")))


def sample(name):
    with open(os.path.join(ROOT, f"test/probe/reports/{name}.json"), encoding="utf-8") as f:
        return loads(f.read())


def test_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("path", SAMPLES, ids=os.path.basename)
def test_samples(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    assert text.endswith("\n") and text.count("\n") == 1
    assert problems(loads(text)) == []


def test_there_are_samples():
    assert len(SAMPLES) >= 7


def change(report, path, value):
    """Set what is at path; a member is removed by value `...`."""
    at = report
    for key in path[:-1]:
        at = at[key]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value


CHECK = ("gpus", 0, "checks", 0)


@pytest.mark.parametrize("name, path, value", [
    ("healthy", ("schema",), "gpuprobe.report/2"),
    ("healthy", ("exit_code",), 1),
    ("healthy", ("verdict",), "fail"),
    ("healthy", ("complete",), False),
    ("healthy", ("gpus",), []),
    ("healthy", ("gpus", 0, "fit"), False),
    ("healthy", ("gpus", 0, "health"), "fail"),
    ("healthy", ("gpus", 0, "checks"), []),
    ("healthy", ("gpus", 0, "memory_total_bytes"), "150051225600"),
    ("healthy", ("gpus", 0, "memory_total_bytes"), -1),
    ("healthy", ("gpus", 0, "uuid"), ""),
    ("healthy", ("gpus", 0, "mig"), ...),
    ("healthy", CHECK + ("status",), "N/A"),
    ("healthy", CHECK + ("status",), "skip"),
    ("healthy", CHECK + ("status",), "fail"),
    ("healthy", CHECK + ("code",), "HANG"),
    ("healthy", CHECK + ("errors",), 1),
    ("healthy", CHECK + ("value",), 1),
    ("healthy", ("errors",), [{"gpu": None}]),
    ("faults", ("gpus", 0, "fit"), True),
    ("lost-gpu", ("errors", 0, "hint"), ...),
    ("no-driver", ("driver", "cuda"), "13.0"),
])
def test_refuses(name, path, value):
    report = sample(name)
    assert problems(report) == []
    broken = copy.deepcopy(report)
    change(broken, path, value)
    assert problems(broken) != []


def names_in(path, pattern):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return set(re.findall(pattern, f.read()))


def test_names_every_check_and_code():
    """What is added in C is added to the schema's words, too."""
    defs = schema()["$defs"]
    checks = names_in("probe/result/check.c", r'\[CHECK_\w+\] = \{\s*"([\w.]+)"')
    codes = names_in("probe/result/codes.c", r'\[CODE_\w+\] = \{\s*"([A-Z_]+)"')
    assert len(checks) > 30 and len(codes) > 40
    assert checks == set(re.findall(r"[a-z0-9]+\.[a-z0-9_]+", defs["check"]["properties"]["id"]["description"]))
    assert codes == set(re.findall(r"[A-Z_]{3,}", defs["code"]["description"]))
