# SPDX-License-Identifier: Apache-2.0
"""Where the tests of the metrics find their helpers."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [p for p in (HERE, TESTS, os.path.join(TESTS, "page")) if p not in sys.path]
