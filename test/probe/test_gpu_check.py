# SPDX-License-Identifier: Apache-2.0
"""gpu_check, the script for servers with a GPU, over the fakes: it says ok of what is, and FAIL of what is not. If this breaks, the first
person with a GPU finds out that the script is wrong."""
import json
import os
import re
import subprocess

import world

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu_check")
REPORTS = os.path.join(os.path.dirname(SCRIPT), "reports")
DEVICE = {"name": "NVIDIA Fake", "sms": 1, "memory_mib": 16384}


def check(folder, **scenario):
    """(status, {step: (word, text)}, standard error)"""
    path = os.path.join(folder, "scenario.json")
    with open(path, "w", encoding="ascii") as f:
        json.dump(scenario, f)
    before = sorted(os.listdir(REPORTS))
    done = subprocess.run([SCRIPT, "--build", world.BUILD, "--stress", "1", "--fake", path], capture_output=True, text=True, check=False,
                          timeout=600, stdin=subprocess.DEVNULL)
    assert sorted(os.listdir(REPORTS)) == before, "nothing of the fake is kept"
    assert all(line.startswith("FAKE, no figure of a GPU: ") for line in done.stdout.splitlines())
    steps = re.findall(r"GPU: (ok|FAIL|skip) +(.{14}) +[\d.]+ s  (.*)$", done.stdout, re.M)
    return done.returncode, {name.strip(): (word, text) for word, name, text in steps}, done.stderr


def test_all_is_well(tmp_path):
    status, steps, _ = check(tmp_path, devices=[DEVICE])
    assert status == 0, steps
    assert {n for n, (word, _) in steps.items() if word == "skip"} == {"both builds", "PTX alone", "memory in use", "sanitizer"}
    assert len(steps) == 15 and "found" in steps["planted bit"][1] and "SM 0" in steps["planted lane"][1]


def test_what_is_wrong(tmp_path):
    """Still fit, and slower than it is to be."""
    status, steps, _ = check(tmp_path, devices=[{**DEVICE, "speed": {"read": 0.92}}])
    assert status == 1 and [n for n, (word, _) in steps.items() if word == "FAIL"] == ["bench"], steps
    assert "bench.mem_read below 88 %" in steps["bench"][1]


def test_no_gpu(tmp_path):
    status, steps, err = check(tmp_path, devices=[DEVICE], driver=0)
    assert status == 3 and not steps and err.count("\n") == 1 and "NO_DRIVER" in err
