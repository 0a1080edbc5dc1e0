# SPDX-License-Identifier: Apache-2.0
"""probe/run*: each check of gpuprobe is made to fail, by faults.py: it says so, and so do verdict, JSON and text."""
import concurrent.futures

import pytest

from faults import FAULTS, holes
from world import World


def run(folder, fault):
    w = World(folder, gpus=fault.gpus, local=fault.local)
    if fault.root:
        fault.root(w)
    return w.run(fault.command(), *[a for a in fault.args if a != fault.command()], **fault.scenario)


@pytest.fixture(name="runs", scope="module")
def fixture_runs(request, tmp_path_factory):
    """The runs of those that are asked for, two and two: each has a server of its own."""
    asked = [i.callspec.params["fault"] for i in request.session.items if getattr(i, "callspec", None) and "fault" in i.callspec.params]
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        yield {f: pool.submit(run, tmp_path_factory.mktemp("server"), f) for f in asked}


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_fault(runs, fault):
    done = runs[fault].result()
    result = done.check(fault.check, fault.gpu)
    text = " ".join(done.stderr.split())
    assert (result["status"], result["code"]) == (fault.status, fault.code), result
    assert done.status == fault.exit_status, done.stderr
    assert done.fit()[fault.gpu] is (fault.exit_status == 0)
    assert result["message"] and result["hint"]
    assert result["action"] in ("none", "retry", "configure", "reset", "reboot", "isolate")
    assert fault.code in text and result["message"] in text or fault.code == "NOT_RUN", text
    assert "1 of 1 GPU fit" in text if fault.exit_status == 0 and fault.gpus < 2 else "1 of 1 GPU fit" not in text


def test_every_check_has_a_fault():
    assert holes() == []
