# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the integration tests: the real program on free ports, each with a folder of its own, ended by its pid."""
import os
import sys

import pytest

sys.path[:0] = [p for p in (os.path.dirname(os.path.dirname(os.path.abspath(__file__))),) if p not in sys.path]

from lib import server as servers  # noqa: E402


@pytest.fixture(scope="module", name="server")
def fixture_server():
    """One server for all tests of a module; each must leave it answering."""
    with servers.Server() as one:
        yield one
        assert one.alive(), one.log()[-3000:]
        assert one.stop() == 0, one.log()[-3000:]


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
