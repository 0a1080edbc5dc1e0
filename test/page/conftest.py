# SPDX-License-Identifier: Apache-2.0
"""Where the tests of the page find their helpers."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [p for p in (HERE, os.path.dirname(HERE)) if p not in sys.path]
