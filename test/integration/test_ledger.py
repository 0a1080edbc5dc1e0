# SPDX-License-Identifier: Apache-2.0
"""Claims in the memory of one process: taken once, refused with numbers, let go by the three ways there are."""
import copy
import json
import os
import socket
import ssl
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lib import reviews
from lib.pods import ask, container, pod
from lib.server import PROGRAM, ROOT, SLOW, wait_until

ONE_V100 = """apiVersion: poolgate.io/v1alpha1
kind: GPUServer
metadata: {name: gpu-01}
spec:
  address: 10.117.32.177:56001
  gpus: [{model: Tesla V100-PCIE-16GB, memory: 16160Mi, count: 1}]
"""


def injected(server, name="job", **kw):
    """A pod as validating hooks see it: mutated by the server itself, named, with a uid."""
    containers = [container(resources=ask(**kw))]
    got = server.review("/mutate", reviews.review(reviews.default_resources(pod(*containers, name=name))))
    return reviews.stored(got["pod"])


def admit(server, p, client=None, **kw):
    return (client or server).review("/validate", reviews.review(p, **kw))


def another(p, name):
    """The same pod under a new name and uid."""
    p = copy.deepcopy(p)
    p["metadata"].update(name=name, uid=reviews.new_uid())
    return p


def claims(server):
    """(namespace/name) of all claims, however deep they stand in the pool's document."""
    text = json.dumps(server.pool())
    return text


def holds(server, name):
    return name in claims(server)


def small(fresh, **kw):
    server = fresh(start=False, **kw)
    with open(server.path("pool.yaml"), "w", encoding="utf-8") as f:
        f.write(ONE_V100)
    server.start()
    return server


def test_full_then_refused_with_numbers(fresh):
    server = small(fresh)
    half = injected(server, "half", percent="50")
    for name in ("vgg-a", "vgg-b"):
        assert admit(server, another(half, name))["allowed"]
    got = admit(server, another(half, "vgg-c"))
    assert not got["allowed"] and got["code"] == 403 and got["reason"] == "NoCapacity"
    assert "50" in got["message"] and any(c.isdigit() for c in got["message"])
    assert holds(server, "vgg-a") and holds(server, "vgg-b") and not holds(server, "vgg-c")


def test_exact_fill(fresh):
    """Percents that sum to 100 always fit; one per cent more does not."""
    server = small(fresh)
    third = injected(server, percent="33")
    for name in "abc":
        assert admit(server, another(third, name))["allowed"]
    one = injected(server, percent="1")
    assert admit(server, another(one, "d"))["allowed"]
    assert not admit(server, another(one, "e"))["allowed"]


def test_same_pod_twice_is_one_claim(fresh):
    server = small(fresh)
    whole = injected(server, "whole")
    for _ in range(3):
        assert admit(server, whole)["allowed"]
    assert not admit(server, another(whole, "second"))["allowed"]
    assert server.review("/validate", reviews.delete_review(whole, 0))["allowed"]
    assert admit(server, another(whole, "second"))["allowed"]


def test_dry_run_takes_nothing(fresh):
    server = small(fresh)
    whole = injected(server, "whole")
    for name in "ab":
        assert admit(server, another(whole, name), dry_run=True)["allowed"]
    assert admit(server, whole)["allowed"]
    assert not admit(server, another(whole, "c"), dry_run=True)["allowed"]
    server.review("/validate", reviews.delete_review(whole, 0, dry_run=True))
    assert not admit(server, another(whole, "d"))["allowed"], "a dry DELETE let a claim go"


def test_graceful_delete_frees_at_its_end(fresh):
    server = small(fresh)
    whole = injected(server, "whole")
    assert admit(server, whole)["allowed"]
    server.review("/validate", reviews.delete_review(whole, 30))
    assert not admit(server, another(whole, "b"))["allowed"], "the first of a graceful delete let a claim go"
    server.review("/validate", reviews.delete_review(whole, 0))
    assert admit(server, another(whole, "b"))["allowed"]


def test_delete_of_another_uid_frees_nothing(fresh):
    server = small(fresh)
    whole = injected(server, "whole")
    assert admit(server, whole)["allowed"]
    server.review("/validate", reviews.delete_review(another(whole, "whole"), 0))
    assert not admit(server, another(whole, "b"))["allowed"]


def test_release_by_the_command(fresh):
    server = small(fresh)
    whole = injected(server, "whole")
    assert admit(server, whole)["allowed"]
    url = f"http://127.0.0.1:{server.admin}"
    table = subprocess.run([PROGRAM, "pool", "--server", url], capture_output=True, text=True, check=True).stdout
    assert "gpu-01" in table and "whole" in table and "Tesla V100-PCIE-16GB" in table
    done = subprocess.run([PROGRAM, "pool", "release", "ml/whole", "--server", url], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    assert admit(server, another(whole, "b"))["allowed"]
    done = subprocess.run([PROGRAM, "pool", "release", "ml/whole", "--server", url], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "ml/whole" in done.stderr


@pytest.mark.parametrize("url", ["ftp://x", "localhost:8081", ""])
@pytest.mark.parametrize("words", [[], ["release", "ml/whole"]])
def test_a_server_that_is_no_url_is_wrong_usage(url, words):
    done = subprocess.run([PROGRAM, "pool", *words, "--server", url], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and f'--server takes http://HOST:PORT or https://HOST:PORT, found "{url}"' in done.stderr


def test_without_uid_the_name_is_the_key(fresh):
    server = small(fresh)
    whole = injected(server, "whole")
    del whole["metadata"]["uid"]
    assert admit(server, whole)["allowed"] and admit(server, whole)["allowed"]
    other = copy.deepcopy(whole)
    other["metadata"]["name"] = "other"
    assert not admit(server, other)["allowed"]


def test_never_twice_by_many_clients(fresh):
    """Forty pods at once on a GPU that holds four: four are admitted, whoever is first."""
    server = small(fresh)
    quarter = injected(server, percent="25")

    def one(i):
        client = server.new_client()
        try:
            return admit(server, another(quarter, f"p-{i}"), client)["allowed"]
        finally:
            client.close()

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(one, range(40))) == 4


def test_claim_ttl(fresh):
    server = small(fresh, args=["--claim-ttl", "1s"])
    whole = injected(server, "whole")
    assert admit(server, whole)["allowed"]
    assert not admit(server, another(whole, "b"))["allowed"]
    assert wait_until(lambda: admit(server, another(whole, "c"))["allowed"], 4)


def test_refusal_of_one_half_takes_nothing(fresh):
    """Two containers, one of which does not fit: nothing is held by the refused pod."""
    server = small(fresh)
    p = pod(container("a", resources=ask(percent="50")), container("b", resources=ask(percent="60")))
    got = server.review("/mutate", reviews.review(reviews.default_resources(p)))
    assert not admit(server, reviews.stored(got["pod"]))["allowed"]
    assert admit(server, injected(server, "whole"))["allowed"]


def test_restart_forgets_in_memory_claims_and_says_so_nowhere_else(fresh):
    server = small(fresh)
    whole = injected(server, "whole")
    assert admit(server, whole)["allowed"]
    assert server.stop() == 0
    began = time.monotonic()
    server.start()
    assert time.monotonic() - began < 2 * SLOW
    assert admit(server, another(whole, "b"))["allowed"]


def test_placed_server_is_taken_by_another(fresh):
    """A launcher that is told its servers: two pods were given the same one, the first to be admitted has it."""
    server = fresh(config=os.path.join(ROOT, "test/golden/configs/launchers"))
    stored = []
    for name in ("a", "b"):
        p = pod(os=None, version=None, name=name, filter="server.name=gpu-01", annotations={"poolgate.io/launcher": "lupine"})
        got = server.review("/mutate", reviews.review(reviews.default_resources(p)))
        stored.append(reviews.stored(got["pod"]))
    assert admit(server, stored[0])["allowed"]
    refusal = admit(server, stored[1])
    assert not refusal["allowed"] and refusal["reason"] == "ServerTaken" and refusal["code"] == 403
    assert "again" in refusal["message"]
    bitfusion = injected(server, "c", percent="1")
    for i in range(3):
        got = admit(server, another(bitfusion, f"c{i}"))
        assert got["allowed"], "the other server has room"
    assert "gpu-01" in claims(server)


def test_clients_that_vanish_before_their_answer(fresh):
    """Every claim stands exactly if its reply was given to the transport: the log's claims less those it took back."""
    server = fresh()
    tenth = injected(server, percent="5")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for i in range(40):
        body = json.dumps(reviews.review(another(tenth, f"v-{i}"))).encode()
        tls = context.wrap_socket(socket.create_connection(("127.0.0.1", server.port), timeout=5))
        tls.sendall(b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
                    + body)
        if i % 3 == 0:
            assert tls.recv(12) == b"HTTP/1.1 200"
        if i % 2:
            tls.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        os.close(tls.detach())

    def accounts():
        log = server.log()
        taken = sum("result=claimed" in line for line in log.splitlines())
        return taken, taken - log.count("claim taken back"), server.pool()["summary"]["claims"]

    def settled():
        before = accounts()
        time.sleep(0.3)
        return before == accounts() and before[0] >= 14 and before[1] == before[2]

    # A connection that was reset early may never have been read: its review was then not decided at all.
    assert wait_until(settled, 5), (accounts(), server.log()[-3000:])
    standing = {c["name"] for c in server.pool()["claims"]}
    assert {f"v-{i}" for i in range(0, 40, 3)} <= standing, "an answer was read, and its claim is gone"


LUPINE_ONLY = """apiVersion: poolgate.io/v1alpha1
kind: GPUServer
metadata: {name: gpu-01}
spec:
  address: 10.117.32.177:14833
  launchers: [lupine]
  gpus: [{model: Tesla V100-PCIE-16GB, memory: 16160Mi, count: 1}]
"""


def test_a_server_is_for_the_launchers_that_it_names(fresh):
    """A Bitfusion pod is refused a LUPINE server, with the reason, and a LUPINE pod is placed there."""
    server = fresh(config=os.path.join(ROOT, "test/golden/configs/launchers"), start=False)
    with open(server.path("pool.yaml"), "w", encoding="utf-8") as f:
        f.write(LUPINE_ONLY)
    server.start()
    got = admit(server, injected(server, "bitfusion"))
    assert not got["allowed"] and got["code"] == 403 and got["reason"] == "NoServer", got
    assert "1 server is not for the launcher bitfusion" in got["message"]
    p = pod(os=None, version=None, name="cricket", annotations={"poolgate.io/launcher": "cricket"})
    got = server.review("/mutate", reviews.review(reviews.default_resources(p)))
    assert not got["allowed"] and "1 server is not for the launcher cricket" in got["message"], got
    p = pod(os=None, version=None, name="lupine", annotations={"poolgate.io/launcher": "lupine"})
    got = server.review("/mutate", reviews.review(reviews.default_resources(p)))
    assert admit(server, reviews.stored(got["pod"]))["allowed"]
    assert holds(server, "lupine") and not holds(server, "bitfusion")
