# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the registry tests."""
import os
import sys

import pytest

sys.path[:0] = [p for p in (os.path.dirname(os.path.abspath(__file__)), os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
                if p not in sys.path]

from lib.fixtures import fixture_fresh  # noqa: E402, F401
from registry import Registry, build_names  # noqa: E402


@pytest.fixture(scope="session", name="one")
def fixture_one(tmp_path_factory):
    folder = tmp_path_factory.mktemp("registry")
    registry = Registry(folder, build_names(str(folder / "names.so")))
    yield registry
    registry.close()


@pytest.fixture(name="registry")
def fixture_registry(one):
    """A registry without images; whatever a test does to it, nobody may have reached the inner address."""
    one.reset()
    yield one
    assert one.trap.hits == 0, "an inner address was connected to"
