# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the integration tests: the real program on free ports, each with a folder of its own, ended by its pid."""
import os
import sys

sys.path[:0] = [p for p in (os.path.dirname(os.path.dirname(os.path.abspath(__file__))),) if p not in sys.path]

from lib.fixtures import fixture_fresh, fixture_server  # noqa: E402, F401
