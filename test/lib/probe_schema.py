# SPDX-License-Identifier: Apache-2.0
"""Reports of gpuprobe against their schema."""
import json
import os

import jsonschema

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCHEMA = os.path.join(ROOT, "docs/gpuprobe-report.schema.json")


def schema():
    with open(SCHEMA, encoding="utf-8") as f:
        return json.load(f)


def problems(report):
    """Where a report (parsed JSON) breaks the schema: a list of "path: message", empty when it does not."""
    found = jsonschema.Draft202012Validator(schema()).iter_errors(report)
    return sorted("/" + "/".join(map(str, e.absolute_path)) + ": " + e.message[:200] for e in found)


def loads(text):
    """JSON without what Python alone accepts (NaN), and without keys that are there twice."""
    def pairs(items):
        keys = [k for k, _ in items]
        assert len(keys) == len(set(keys)), f"a key twice in {keys}"
        return dict(items)

    def refuse(word):
        raise ValueError(f"{word} is no JSON")

    return json.loads(text, object_pairs_hook=pairs, parse_constant=refuse)
