# SPDX-License-Identifier: Apache-2.0
"""poolgate serve --client-ca: reviews are answered to the API server's certificate alone. The TLS library lets everybody through its
handshake; if this breaks, whoever reaches the port can claim the pool's GPUs."""
import json
import os
import signal
import subprocess
import time

import pytest

from lib import pods, reviews
from lib.server import SLOW, Authority, Client, Server


def review():
    return json.dumps(reviews.review(pods.pod(pods.container(resources=pods.ask()))))


def client(server, pair=None):
    c = Client(server.port, cafile=server.cert)
    if pair:
        c.context.load_cert_chain(*pair)
    return c


def ask(server, pair, path="/mutate"):
    """(status, body) of a review."""
    c = client(server, pair)
    try:
        status, _, data = c.request("POST", path, review())
        return status, data.decode()
    finally:
        c.close()


@pytest.fixture(name="authority")
def fixture_authority(tmp_path):
    return Authority(tmp_path, "cluster")


@pytest.fixture(name="start")
def fixture_start(tmp_path, authority):
    started = []
    path = str(tmp_path / "client-ca.crt")

    def start(*args):
        with open(path, "w", encoding="ascii") as f:
            f.write(authority.text())
        s = Server(args=["--client-ca", path, "--reload-interval", "100ms", *args])
        started.append(s)
        return s, path

    yield start
    for s in started:
        s.stop()
        s.close()


def until(what, seconds=20):
    end = time.monotonic() + seconds * SLOW
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_who_may_ask(start, authority, tmp_path):
    right, other = authority.client("kube-apiserver"), Authority(tmp_path, "other")
    s, _ = start()
    assert ask(s, right)[0] == 200 and ask(s, right, "/validate")[0] == 200
    for pair, words in ((None, "is asked for"), (authority.client("kube-apiserver", days=-1), "expired"),
                        (other.client("kube-apiserver"), "no CA"), (authority.client("x", usage="serverAuth"), "extended key usage")):
        for path in ("/mutate", "/validate", "/nothing"):
            status, body = ask(s, pair, path)
            assert status == 403 and words in body, (status, body)
    assert "is asked for" in s.log()
    # probes and scrapers come to another listener
    assert s.plain_get("/livez")[0] == 200 and s.plain_get("/readyz")[0] == 200


def test_names(start, authority):
    s, _ = start("--client-name", "kube-apiserver", "--client-name", "kube-apiserver-2")
    assert ask(s, authority.client("kube-apiserver-2"))[0] == 200
    status, body = ask(s, authority.client("kubelet"))
    assert status == 403 and "common name" in body
    assert "(kubelet): " in s.log()


def test_other_cas_are_read(start, authority, tmp_path):
    """Both for the time of a rotation, then the new one alone; also for connections that are open. A file that is none changes nothing."""
    new, old = Authority(tmp_path, "new"), authority
    s, path = start()
    pair = old.client("kube-apiserver")
    kept = client(s, pair)
    body = review()
    assert kept.request("POST", "/mutate", body)[0] == 200

    def put(text):
        with open(path + ".new", "w", encoding="ascii") as f:
            f.write(text)
        os.rename(path + ".new", path)

    put(old.text() + new.text())
    until(lambda: ask(s, new.client("kube-apiserver"))[0] == 200)
    assert kept.request("POST", "/mutate", body)[0] == 200
    put(new.text())
    until(lambda: ask(s, pair)[0] == 403)
    assert kept.request("POST", "/mutate", body)[0] == 403
    put("nothing\n")
    s.process.send_signal(signal.SIGHUP)
    until(lambda: "holds no PEM certificates" in s.log())
    assert ask(s, new.client("kube-apiserver"))[0] == 200 and ask(s, pair)[0] == 403
    # a serving pair that is torn at the same moment keeps no CA in force
    with open(s.key, "w", encoding="ascii") as f:
        f.write("torn\n")
    put(old.text())
    until(lambda: ask(s, pair)[0] == 200)
    assert ask(s, new.client("kube-apiserver"))[0] == 403
    kept.close()


@pytest.mark.parametrize("args, words", [
    (["--client-name", "x"], "a name is worth what its CA is"),
    (["--client-ca", "/nonexistent/ca.crt"], "flag --client-ca: cannot open /nonexistent/ca.crt"),
])
def test_wrong_settings(args, words):
    s = Server(start=False, args=args)
    done = subprocess.run(s.argv(), env=s.environment(), capture_output=True, text=True, timeout=30 * SLOW, check=False)
    assert done.returncode == 3 and words in done.stderr, done.stderr
    s.close()


def test_check(authority):
    s = Server(start=False, args=["--client-ca", authority.cert, "--client-name", "kube-apiserver", "--check"])
    done = subprocess.run(s.argv(), env=s.environment(), capture_output=True, text=True, timeout=30 * SLOW, check=False)
    assert done.returncode == 0, done.stderr
    assert f"clientCA            {authority.cert}: 1 certificate, the first ends " in done.stdout
    assert "; lets in kube-apiserver\n" in done.stdout
    s.close()
