# SPDX-License-Identifier: Apache-2.0
"""The table of golden cases: helpers, and the order of its parts. generate.py makes what is sent and expected of it."""
import glob
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.dirname(HERE))

from lib import reviews  # noqa: E402

CASES = {}


def case(name, about, review, path="/mutate", expect=None, oracle=None, config=None, then=None):
    """expect None: the model decides (oracle). `then`: what follows on the pod that came out."""
    assert name not in CASES, name
    CASES[name] = {"about": about, "path": path, "review": review, "expect": expect,
                   "oracle": expect is None if oracle is None else oracle, "config": config, "then": then or []}


def create(pod, name=None, **kw):
    """A CREATE review of a pod as the API server sends it; a stable uid by the case's name."""
    kw.setdefault("uid", reviews.fixed_uid(name or json.dumps(pod, sort_keys=True)))
    return reviews.review(reviews.default_resources(pod), **kw)


def mutate(name, about, pod, expect=None, oracle=None, config=None, then=None, **kw):
    case(name, about, create(pod, name, **kw), expect=expect, oracle=oracle, config=config, then=then)


def untouched(warnings=()):
    return {"allowed": True, "patched": False, "warnings": list(warnings)}


def patched(warnings=()):
    return {"allowed": True, "patched": True, "warnings": list(warnings)}


def refused(*message, code=None, reason=None):
    return {"allowed": False, "code": code, "reason": reason, "message": list(message), "warnings": []}


def invalid(*message):
    return refused(*message, code=422, reason="Invalid")


def recorded(expectations):
    for path in sorted(glob.glob(os.path.join(HERE, "recorded", "*.json"))):
        name = os.path.basename(path)[:-len(".json")]
        with open(path, encoding="utf-8") as f:
            review = json.load(f)
        hook = "/validate" if name.startswith("validate") else "/mutate"
        case("recorded-" + name, "as a real API server sent it", review, path=hook, expect=expectations[name])


def table():
    """All cases, in order."""
    if not CASES:
        import cases_bugs
        import cases_gate
        import cases_mutate
        import cases_profiles
        import cases_validate
        import cases_values
        for module in (cases_mutate, cases_values, cases_bugs, cases_validate, cases_profiles, cases_gate):
            module.fill()
    return CASES
