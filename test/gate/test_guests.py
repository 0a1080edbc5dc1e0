# SPDX-License-Identifier: Apache-2.0
"""gate/guest*, gate/reviews, kube/api_ask: only the pod that holds a claim here comes in, and it gets what it holds."""
import contextlib
import socket
import time
import uuid

import pytest
from quick_time import Time
from lib import server as servers
from world import GIB, GPUS, NOBODY, WAIT_S, until


def test_pod_reaches_its_server(world):
    """Its own process, with its GPUs and its share in its environment, and no right that it does not need."""
    pod = world.holder(gpus=((GPUS[1], 4 * GIB), (GPUS[3], 8 * GIB)))
    told = pod.env()
    env = told["env"]
    assert env["CUDA_VISIBLE_DEVICES"] == f"{GPUS[1]},{GPUS[3]}" and env["IDS"] == "{%s,%s}" % (GPUS[1], GPUS[3])
    assert (env["LIMIT"], env["LIMITS"], env["SHARE"]) == ("4096", "0=4096M,1=8192M", "25")
    assert env["PLACE"] == env["HOME"] == f"{world.state}/{pod.uid}" and "KUBECONFIG" not in env
    assert told["uid"] == NOBODY and told["gids"] == [] and told["no_new_privs"] == "1" and told["group"] == told["pid"]
    assert world.metric('admitted_total{mode="token"}') == 1 and world.metric('mode{mode="token"}') == 1
    assert world.metric('token_reviews_total{result="yes"}') == 1


def test_no_claim(world):
    """Ten seconds are waited, since a pod may be quicker than the watch; then no review is spent. One that comes meanwhile lets it in."""
    late = world.pod(world.api.token("11111111-2222"))
    with late.dial("env") as s:
        time.sleep(1)
        world.api.claim("11111111-2222")
        assert s.recv(1) == b"{"
    before = world.api.reviews
    began = time.monotonic()
    world.pod(world.api.token("33333333-4444")).refused("this pod holds no GPU of this server")
    assert 9.5 < time.monotonic() - began < 9.5 + WAIT_S
    assert world.api.reviews == before and world.refused("no_claim") == 1


BAD = [
    ("another pod's", {"says": True}, "the token is another pod's", 1),
    ("expired", {"seconds": -5}, "the token has expired", 0),
    ("another audience", {"audience": "vault"}, "is invalid for the target audiences", 1),
    ("a deleted pod's, or forged", {"known": False}, "has been invalidated", 1),
    ("bound to no pod", {"bound": False}, "the token is bound to no pod", 0),
]


@pytest.mark.parametrize("more,why,reviews", [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_bad_token(world, more, why, reviews):
    """Refused with the reason, counted, and without a process; what the token itself says costs no review."""
    uid = world.api.claim()
    if more.get("says"):
        more = {"says": uid}
        uid = str(uuid.uuid4())
    world.pod(world.api.token(uid, **more)).refused(why)
    assert world.refused("token") == 1 and world.api.reviews == reviews and world.left() == []
    assert "mode=token" in world.gate.log().split("a pod is refused", 1)[1].splitlines()[0]


@pytest.mark.parametrize("text", ["", "x", "a.b.c", "." * 100, "a" * 8192, "e30.e30.e30"])
def test_no_token_at_all(world, text):
    world.pod(text).refused("no token of a service account")
    assert world.api.reviews == 0


def test_claim_of_a_pod_that_is_gone(world):
    """A lingering claim (R13) and one that is not written in full (R19) let nobody in, and end who is in."""
    pod = world.holder()
    with pod.dial("echo") as s:
        is_in(s)
        with world.api.lock:
            world.api.claims[pod.uid]["more"]["lingers"] = "2027-08-01T10:00:00Z"
            world.api.tell()
        assert_cut(s)
    until(lambda: world.metric("claims_shut_out") == 1 and world.metric("claims") == 0, "claim that is shut out")
    with world.api.lock:
        world.api.claims[pod.uid]["more"] = {"open": True}
        world.api.tell()
    until(lambda: world.left() == [], "end of the server")
    with pod.dial("env") as s:
        s.settimeout(0.5)
        with pytest.raises(TimeoutError):
            s.recv(1)
        with world.api.lock:
            world.api.claims[pod.uid]["more"] = {}
            world.api.tell()
        s.settimeout(WAIT_S)
        assert s.recv(1) == b"{"


def is_in(s):
    s.sendall(b"x")
    assert s.recv(1) == b"x"


def assert_cut(s):
    """Broken off: nothing that could be taken for the stream's end."""
    with pytest.raises(ConnectionResetError):
        while s.recv(65536):
            pass
        raise AssertionError("it ended as if it were whole")


def test_tries_are_limited(make):
    """Of a peer that fails again and again the connections are closed before the handshake; it is forgotten with time."""
    world = make(options=("--tries", "3"))
    good = world.holder()
    for _ in range(3):
        world.pod("nonsense").refused("no token of a service account")
    good.refused("")
    until(lambda: world.refused("tries") >= 1, "refusal for tries")
    assert world.api.reviews == 0


def test_crowd_that_says_nothing(make):
    """It pushes nobody out who was reviewed and waits for his server: of itself the oldest goes, and that was a try that failed."""
    world = make("never", {"readiness": "60s"}, options=("--tries", "10"))
    pod = world.holder()
    with pod.dial("env") as s, contextlib.ExitStack() as crowd:
        def comes(i):
            return crowd.enter_context(socket.create_connection(("127.0.0.1", world.port), WAIT_S, (f"127.0.0.{i // 64 + 2}", 0)))
        until(lambda: world.metric('token_reviews_total{result="yes"}') == 1, "review")
        time.sleep(1.1)
        for i in range(256):
            comes(i)
        until(lambda: world.metric('connections{stage="waiting"}') == 257, "crowd")
        time.sleep(1.1)
        for i in range(256, 266):
            comes(i)
        until(lambda: world.metric("cut_total") == 10, "room for more")
        s.settimeout(0.2)
        with pytest.raises(TimeoutError):
            s.recv(1)
        assert world.gate.log().count("it has waited for longest") == 10
        assert not any(pod.uid in line for line in world.gate.log().splitlines() if "a connection is cut" in line)
        # The oldest were of the first peer.
        comes(0)
        until(lambda: world.refused("tries") >= 1, "refusal for tries")


def test_object_that_cannot_be_read(world):
    """Who is in stays in; nobody new comes in, and the reason is told; so it is when there is no such GPUServer."""
    pod = world.holder()
    with pod.dial("echo") as s:
        is_in(s)
        with world.api.lock:
            world.api.spoiled = True
            world.api.tell()
        until(lambda: not world.ready(), "unreadiness")
        assert "status/gpus" in world.get("/readyz")[1]
        world.holder().refused("the GPUServer: ")
        s.sendall(b"y")
        assert s.recv(1) == b"y"
        with world.api.lock:
            world.api.there = False
            world.api.tell("DELETED")
        assert_cut(s)
    assert world.metric("watched") == 0 and "deleted" in world.get("/readyz")[1]


def test_api_server_that_refuses_us(world):
    """403 is an answer: no way in by memory, and the operator is told what is missing."""
    pod = world.holder()
    assert pod.env()
    world.api.broken = 403
    pod.refused("may this account create tokenreviews?")
    assert world.refused("api_server_away") == 1 and world.metric('token_reviews_total{result="broken"}') == 1


def test_api_server_away(make, tmp_path):
    """Who is in stays; again comes who was reviewed, with the very token; nobody else; and after the operator's time nobody at all."""
    clock = Time(str(tmp_path / "time"))
    world = make(options=("--away", "20s"), wrap=clock.wrap())
    known, stranger = world.holder(), world.holder()
    assert known.env()
    with known.dial("echo") as s:
        is_in(s)
        world.api.leave()
        until(lambda: not world.ready(), "unreadiness")
        assert known.env() and world.metric("readmitted_total") == 1
        stranger.refused("")
        known.write(world.api.token(known.uid))
        known.refused("")
        assert world.refused("api_server_away") == 2
        world.pods.remove(known)
        clock.goes_on(21)
        other = world.pod(list(world.api.tokens)[0])
        other.refused("")
        assert world.refused("api_server_away") == 3
        s.sendall(b"y")
        assert s.recv(1) == b"y"
    known.close()
    world.api.away = False
    until(world.ready, "readiness")
    assert other.env()


def test_gate_that_starts_without_api_server(make):
    """Nobody was seen, so nobody comes in."""
    world = make()
    pod = world.holder()
    assert pod.env()
    world.gate.kill()
    world.api.leave()
    world.start()
    pod.refused("the GPUServer has not been seen yet", seconds=WAIT_S)
    assert world.metric("readmitted_total") == 0


def test_another_certificate(world, tmp_path):
    """The pod's end shows its token to nobody but a gate that its CA vouches for."""
    other, _ = servers.make_pair(str(tmp_path), "other")
    pod = world.pod(world.api.token(world.api.claim()), "--ca", other)
    pod.refused("certificate")
    named = world.pod(world.api.token(world.api.claim()), "--name", "elsewhere.example")
    named.refused("certificate")
    assert world.pod(world.api.token(world.api.claim()), "--name", "localhost").env()
    assert world.api.reviews == 1


def test_certificate_is_replaced(world):
    pod = world.holder()
    assert pod.env()
    servers.make_pair(world.folder, "gate")
    world.gate.until(lambda: "the certificate was read again" in world.gate.log(), "new certificate")
    assert pod.env()
    with open(world.ca, "w", encoding="ascii") as f:
        f.write("torn")
    world.gate.until(lambda: "the certificate in force stays" in world.gate.log(), "refusal of a torn one")
