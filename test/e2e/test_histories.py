# SPDX-License-Identifier: Apache-2.0
"""The answers by which the simulator's model API server is judged (test/sim/histories) are those of the real one."""
import os

from record import HISTORIES, edges_of, histories


def test_edges(api):
    """Else: `make sim-record`, and see what `make sim-faithful` says of the model."""
    assert edges_of(api) == histories.read(os.path.join(HISTORIES, "edges.jsonl"))
