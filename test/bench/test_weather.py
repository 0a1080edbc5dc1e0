# SPDX-License-Identifier: Apache-2.0
"""What `make bench` calls a disturbed burst."""
import os
import sys
import time

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import weather  # noqa: E402


@pytest.fixture(name="sky")
def fixture_sky(monkeypatch):
    if not set(weather.CORES) <= os.sched_getaffinity(0):
        pytest.skip("needs the bench's two cores")
    monkeypatch.setattr(weather, "FIRST", 0)
    found = weather.Weather()
    found.pieces = {core: [100] * 1000 for core in weather.CORES}
    return found


def seen(steal=0.0, others=0.0, slowest=100):
    return {"steal": steal, "others": others, "pieces": [{0: 100, 1: 100}, {0: 100, 1: slowest}]}


@pytest.mark.parametrize("found, why", [
    (seen(), ""), (seen(steal=0.0095), ""), (seen(steal=0.018), "steal"), (seen(slowest=119), ""), (seen(slowest=121), "slow"),
    (seen(others=0.14), ""), (seen(others=0.3), "others"), (seen(steal=0.011, others=0.9), "others"), (seen(others=-0.2), "")])
def test_limits(sky, found, why):
    assert sky.why(found) == why


def test_the_best_is_no_outlier_and_may_still_come(sky):
    sky.pieces = {core: [1] * 5 + [150] * 995 for core in weather.CORES}
    assert sky.why(seen(slowest=150)) == ""
    sky.pieces = {core: [1] * 5 + [100] * 20 + [150] * 995 for core in weather.CORES}
    assert sky.why(seen(slowest=150)) == "slow"


def test_other_programs_are_seen(sky):
    """This one counts as another, too."""
    before = weather.taken()
    burst = sky.begin()
    burst.watch(0.1)
    end = time.thread_time() + 0.3
    os.sched_setaffinity(0, {weather.CORES[0]})
    while time.thread_time() < end:
        pass
    os.sched_setaffinity(0, sky.cores)
    assert burst.end("x", 0)["others"] > 0.2
    assert sky.summary()["servers"] == {"x": {"bursts": 1, "disturbed": 1}}
    assert weather.taken()[0][0] > before[0][0]


def test_affinity_is_given_back(sky):
    before = os.sched_getaffinity(0)
    sky.measure()
    assert os.sched_getaffinity(0) == before
