# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the security tests: the real program on free ports, ended by its pid."""
import os
import sys

import pytest

sys.path[:0] = [p for p in (os.path.dirname(os.path.dirname(os.path.abspath(__file__))),) if p not in sys.path]

from lib import server as servers  # noqa: E402
from lib.fixtures import fixture_server  # noqa: E402, F401


@pytest.fixture(scope="module", name="rsa_server")
def fixture_rsa_server():
    """The same with an RSA key, which would allow key exchanges that are not allowed."""
    with servers.Server(start=False) as one:
        servers.openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=rsa", "-addext",
                        "subjectAltName=DNS:localhost", "-keyout", one.key, "-out", one.cert)
        one.start()
        yield one
        assert one.alive() and one.stop() == 0, one.log()[-3000:]
