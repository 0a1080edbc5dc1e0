# SPDX-License-Identifier: Apache-2.0
"""Golden cases of the launchers that are documents: Juice, LUPINE, cricket."""


def fill():
    """Filled below once the documents are known."""
