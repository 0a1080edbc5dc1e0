# SPDX-License-Identifier: Apache-2.0
"""Fixtures that several suites share; a conftest.py that imports one has it: the real program on free ports, ended by its pid."""
import pytest

from . import server as servers


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
