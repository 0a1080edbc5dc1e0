# SPDX-License-Identifier: Apache-2.0
"""The law: a review costs at most so many instructions per byte and a constant, whatever the document says. Each list and map of each
kind of review is multiplied (review_documents.py), and what the decision executes is counted by callgrind where it takes most time."""
import base64
import glob
import json
import os
import re
import subprocess

import jsonpatch
import pytest
import review_documents as documents
from lib.server import ROOT

PROGRAM = os.path.join(os.path.dirname(os.environ["POOLGATE"]), "test/bench/review")
PER_BYTE, CONSTANT = 40, 60_000_000
# A pod of 256 containers takes a few million more than one of a few, which is within the constant and steeper than the law.
STEEP = 100
SIZES = (20_000, 100_000)
COUNTED = 16


def answers(folder, reviews, hooks=("mutate", "validate"), servers=20, counted=True):
    """For each review by hook: (bytes, instructions or else milliseconds, the response)."""
    names = []
    for n, review in enumerate(reviews):
        names.append(f"{folder}/{n:05}")
        with open(names[-1], "w", encoding="utf-8") as file:
            json.dump(review, file, separators=(",", ":"))
    tool = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "-q", f"--callgrind-out-file={folder}/counts"] if counted else []
    done = subprocess.run([*tool, PROGRAM, str(servers), *hooks], input="".join(n + "\n" for n in names), cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line.split() for line in done.stdout.splitlines()]
    counts = {}
    for path in glob.glob(f"{folder}/counts.*"):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        counts[re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.M).group(1)] = int(
            re.search(r"^(?:totals|summary): (\d+)", text, re.M).group(1))
        os.unlink(path)
    found = {}
    for hook, name, size, _, took in lines:
        with open(f"{name}.{hook}", encoding="utf-8") as file:
            reply = json.load(file)
        os.unlink(f"{name}.{hook}")
        found.setdefault(name, {})[hook] = (int(size), counts[f"{hook} {name}"] if counted else float(took), reply["response"])
    for name in names:
        os.unlink(name)
    return [found[name] for name in names]


def injected(folder):
    patch = answers(folder, [documents.first()], counted=False)[0]["mutate"][2]["patch"]
    return jsonpatch.JsonPatch(json.loads(base64.b64decode(patch))).apply(documents.pod())


def steepest(folder, cases, hook):
    """Of the lists the few whose bytes take most time: these are worth a count of instructions."""
    rounds = [answers(folder, [review for *_, reviews in cases for review in reviews], (hook,), counted=False) for _ in range(3)]
    least = [min(one[n][hook][1] for one in rounds) for n in range(2 * len(cases))]
    return sorted(cases, key=lambda case: least[2 * cases.index(case)] - least[2 * cases.index(case) + 1])[:COUNTED]


def test_linear_or_refused(tmp_path):
    """However long a list is, each further byte costs the same small sum."""
    cases = list(documents.documents(injected(tmp_path), SIZES))
    worse, most, dearest = [], 0, 0
    for hook in ("mutate", "validate"):
        mine = steepest(tmp_path, [case for case in cases if case[0] == hook], hook)
        got = [answer[hook] for answer in answers(tmp_path, [review for *_, reviews in mine for review in reviews], (hook,))]
        for (_, name, _), (few, low, _), (many, high, _) in zip(mine, got[::2], got[1::2]):
            slope = (high - low) / max(many - few, 1)
            most, dearest = max(most, slope), max(dearest, high - PER_BYTE * many)
            if slope > STEEP or high > PER_BYTE * many + CONSTANT:
                worse.append(f"{hook} {name}: {few} bytes {low}, {many} bytes {high}: {slope:.0f} a byte")
    print(f"of {len(cases)} lists: at most {most:.1f} instructions a byte, and {dearest / 1e6:.1f} million beside {PER_BYTE} a byte")
    assert not worse, "\n".join(worse)


def test_one_name_in_two_lists(tmp_path):
    """Each of these mounts is looked for among the volumes, and all have one name."""
    size, count, what = answers(tmp_path, [documents.debugged(injected(tmp_path), 10_000, 10_000)], ("validate",))[0]["validate"]
    print(f"{count / 1e6:.1f} million instructions for {size} bytes")
    assert count <= PER_BYTE * size + CONSTANT and what["allowed"], what


@pytest.mark.parametrize("ties,count", [(1, 3000), (1000, 3000), (1000, 60)])
def test_ties_on_both_sides(tmp_path, ties, count):
    """What was taken out of a pod is looked for in the manifest that is applied again, and in the pod that lives."""
    size, found, what = answers(tmp_path, [documents.tied(injected(tmp_path), ties, count)], ("mutate",))[0]["mutate"]
    print(f"{found / 1e6:.1f} million instructions for {size} bytes")
    assert found <= PER_BYTE * size + CONSTANT and what["allowed"], what


def test_search_has_a_budget(tmp_path):
    """A Job of 100 pods of 100 containers of 100 GPUs, and pods like that, against 1,000 servers."""
    job = documents.workload("Job", 100)
    pods = job["spec"]["template"]["spec"]
    pods["containers"] = [documents.container(f"c{n}", 100) for n in range(100)]
    for one in pods["containers"]:
        one["resources"]["limits"]["bitfusion.io/gpu-percent"] = "1"
    one = documents.pod()
    one["spec"]["containers"] = pods["containers"]
    for size, count, what in answers(tmp_path, [documents.review("Job", "CREATE", job), documents.review("Pod", "CREATE", one)],
                                     ("validate",), 1000)[0].values():
        print(f"{count / 1e6:.1f} million instructions for {size} bytes")
        assert count <= PER_BYTE * size + CONSTANT, f"{size} bytes {count}: {what}"
        assert "budget" in " ".join(what["warnings"]), what
