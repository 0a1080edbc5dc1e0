# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the faults: the real program on free ports, each with a folder of its own, ended by its pid."""
import os
import sys

import pytest

sys.path[:0] = [p for p in (os.path.dirname(os.path.dirname(os.path.abspath(__file__))),) if p not in sys.path]

from lib import server as servers  # noqa: E402


@pytest.fixture(name="fresh")
def fixture_fresh():
    """Makes servers of one's own: fresh(config=…, args=…, env=…)."""
    made = []

    def make(**kw):
        one = servers.Server(**kw)
        made.append(one)
        return one

    yield make
    for one in made:
        one.close()
