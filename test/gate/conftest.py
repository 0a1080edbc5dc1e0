# SPDX-License-Identifier: Apache-2.0
"""A world for each test."""
import contextlib

import pytest
from world import World


@pytest.fixture(name="make")
def fixture_make(tmp_path):
    """make(mode, spec, options): worlds that end with the test, and must leave nothing."""
    with contextlib.ExitStack() as made:
        def make(*args, **more):
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            folder.mkdir()
            world = World(folder, *args, **more)
            made.callback(world.close)
            return world

        yield make


@pytest.fixture(name="world")
def fixture_world(make):
    return make()
