# SPDX-License-Identifier: Apache-2.0
"""Which rounds `make bench` takes, repeats and throws away: by the weather alone, alike for all."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rate  # noqa: E402


class Sky:
    """Weather as a number: above 1 a burst is disturbed."""

    @staticmethod
    def excess(seen):
        return seen

    @staticmethod
    def why(seen):
        return "slow" if seen > 1 else ""


def burst(*weathers):
    """A burst that has one weather after the other, and tells by its figure which one it was."""
    left = list(enumerate(weathers))

    def run():
        number, seen = left.pop(0)
        return {"figure": number, "weather": seen}
    run.left = left
    return run


@pytest.fixture(name="rounds")
def fixture_rounds():
    return rate.Rounds(Sky, False)


def figures(found):
    return {name: got["figure"] for name, got in found.items()}


def test_a_disturbed_burst_is_repeated_and_no_other(rounds):
    bursts = {"a": burst(0.5), "b": burst(3, 2, 0.9, 0.1), "c": burst(1)}
    assert figures(rounds.round(bursts, 0, 60)) == {"a": 0, "b": 2, "c": 0}


def test_repeats_go_in_turn(rounds):
    order = []
    runs = {"a": burst(3, 3, 0), "b": burst(3, 3, 0)}
    rounds.round({name: lambda name=name: order.append(name) or runs[name]() for name in runs}, 1, 60)
    assert order == ["b", "a", "b", "a", "b", "a"]


def test_without_time_each_has_one_burst(rounds):
    bursts = {"a": burst(3, 0), "b": burst(0)}
    assert figures(rounds.round(bursts, 0, 0)) == {"a": 0, "b": 0}


def test_a_worse_repeat_does_not_replace_a_better_one(rounds, monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(rate.time, "monotonic", lambda: next(clock))
    assert figures(rounds.round({"a": burst(2, 3, 4, 5, 6)}, 0, 3)) == {"a": 0}


def round_of(weather):
    return {"a": {"weather": 0.1}, "b": {"weather": weather}}


def test_disturbed_rounds_are_thrown_away(rounds):
    good = [round_of(w) for w in (0.3, 0.9, 1)]
    assert rounds.used([round_of(2), *good, round_of(1.1)]) == (good, False)
    assert (rounds.undisturbed, rounds.thrown) == (3, 2)


def test_the_least_disturbed_stand_in_and_are_marked(rounds):
    seven = [round_of(w) for w in (0.5, 9, 2, 3, 8, 4, 0.6)]
    used, disturbed = rounds.used(seven)
    assert [found["b"]["weather"] for found in used] == [0.5, 0.6, 2, 3, 4] and disturbed
    assert rounds.thrown == 2


def test_parts_end_with_enough_rounds_or_without_time(rounds):
    used, disturbed = rounds.until_calm(60, lambda number, seconds: round_of(2 if number == 1 else 0))
    assert len(used) == rate.LEAST_ROUNDS and not disturbed
    used, disturbed = rounds.until_calm(0, lambda number, seconds: round_of(2))
    assert len(used) == 1 and disturbed


def test_all_get_the_least_number_first(rounds):
    table = rate.Rate(None, rounds, 0)
    for key in table.found:
        table.found[key] = [round_of(0)] * 3
    table.found["big", 64] = [round_of(0), round_of(0), round_of(2)]
    assert table.lacking() == {("big", 64): 1}
    table.found["big", 64].append(round_of(0))
    assert set(table.lacking().values()) == {2} and len(table.lacking()) == 8
