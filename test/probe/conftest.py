# SPDX-License-Identifier: Apache-2.0
"""Where the tests of gpuprobe find what they share."""
import os
import sys

sys.path[:0] = [p for p in (os.path.dirname(os.path.dirname(os.path.abspath(__file__))),) if p not in sys.path]
