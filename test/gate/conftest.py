# SPDX-License-Identifier: Apache-2.0
"""A world for each test."""
import pytest
from world import World


@pytest.fixture(name="make")
def fixture_make(tmp_path):
    """make(mode, spec, options): worlds that end with the test, and must leave nothing."""
    made = []

    def make(*args, **more):
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(World(folder, *args, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(name="world")
def fixture_world(make):
    return make()
