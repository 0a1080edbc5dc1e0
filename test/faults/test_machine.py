# SPDX-License-Identifier: Apache-2.0
"""The machine fails the program: no space on the disk, few descriptors, clocks that jump, a process that is stopped. docs/design.md,
"Limits and faults", says what must happen; each test says what would break."""
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

import pytest

from lib import reviews
from lib.pods import pod
from lib.server import PROGRAM, SLOW, make_pair, openssl, wait_until

REVIEW = reviews.review(reviews.default_resources(pod()))
BODY = json.dumps(REVIEW).encode()
CLOCK = os.environ.get("FAULT_CLOCK_LIB") or os.path.join(os.path.dirname(PROGRAM), "test/faults/clock.so")
HOUR = 3600


def works(server):
    got = server.new_client().review("/mutate", BODY)
    assert got["allowed"] and got["pod"]


def claim(server, name):
    """Admit a pod; the stored pod."""
    got = server.new_client().review("/mutate", reviews.review(reviews.default_resources(pod(name=name))))
    stored = reviews.stored(got["pod"])
    assert server.new_client().review("/validate", reviews.review(stored))["allowed"]
    return stored


def claims(server):
    return sum(s["claims"] for s in server.pool()["servers"])


# ---- disk full ----------------------------------------------------------------------------------------------------

@pytest.fixture(name="small_disk")
def fixture_small_disk():
    """A folder on a file system of 64 KiB that only this test sees: mounted in a namespace of a process that waits, and reached
    through /proc. Needs no root where users may have namespaces."""
    place = tempfile.mkdtemp(prefix="poolgate-disk-")
    own = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    script = 'mount -t tmpfs -o size=64k none "$0" && echo ready && exec cat'
    holder = subprocess.Popen(["unshare", "--mount", *own, "sh", "-c", script, place], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "ready\n", "no namespace with a file system of its own can be had here"
        yield f"/proc/{holder.pid}/root{place}"
    finally:
        holder.stdin.close()
        holder.wait()
        os.rmdir(place)


def fill(folder):
    """Take every byte that is free there."""
    path = os.path.join(folder, "filler")
    with open(path, "ab", buffering=0) as f:
        for size in (65536, 4096, 512, 64, 1):
            try:
                while True:
                    f.write(b"x" * size)
            except OSError as error:
                assert error.errno == 28, error
    return path


def test_log_on_a_full_disk(fresh, small_disk):
    """Lines that cannot be written are lost; reviews are answered as ever, and lines come again as soon as there is room."""
    server = fresh(start=False)
    server.log_path = os.path.join(small_disk, "log")
    server.start()
    filler = fill(small_disk)
    before, uid = server.rss_kib(), reviews.new_uid()
    client = server.new_client()
    for _ in range(500):
        assert client.review("/mutate", BODY)["allowed"]
    assert client.review("/mutate", {**REVIEW, "request": {**REVIEW["request"], "uid": uid}})["allowed"]
    assert uid not in server.log(), "the disk was not full"
    server.signal(signal.SIGHUP)
    works(server)
    assert server.grew_less(before, 8192)
    os.unlink(filler)
    uid = reviews.new_uid()
    assert client.review("/mutate", {**REVIEW, "request": {**REVIEW["request"], "uid": uid}})["allowed"]
    assert server.wait_log(uid), "no line although there is room"
    assert server.stop() == 0


def test_log_to_a_device_that_takes_nothing(fresh):
    """From the first line on."""
    server = fresh(start=False)
    with open("/dev/full", "wb") as full:
        server.process = subprocess.Popen(server.argv(), stdin=subprocess.DEVNULL, stdout=full, stderr=full, env=server.environment(),
                                          cwd=server.dir)
    open(server.log_path, "ab").close()
    server.wait_ready()
    works(server)
    claim(server, "quiet")
    server.signal(signal.SIGHUP)
    works(server)
    assert server.stop() == 0


def started_with_pipe(server):
    """Start it with a pipe as its log; the end to read from."""
    end, log = os.pipe()
    server.process = subprocess.Popen(server.argv(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=server.environment(),
                                      cwd=server.dir)
    os.close(log)
    open(server.log_path, "ab").close()
    server.wait_ready()
    return end


def test_log_to_a_pipe_that_nobody_reads(fresh):
    """A container's log is a pipe, and who reads it may stand still. Else one full pipe would hold all reviews up, with /livez still well,
    and SIGTERM would not end it. Later it is said how many lines were lost."""
    server = fresh(start=False)
    end = started_with_pipe(server)
    client = server.new_client()
    for _ in range(1000):
        assert client.review("/mutate", BODY)["allowed"]
    server.signal(signal.SIGHUP)
    works(server)
    os.set_blocking(end, False)
    while True:
        try:
            os.read(end, 65536)
        except BlockingIOError:
            break
    works(server)
    assert b"lines of the log were lost: nobody read them" in os.read(end, 65536)
    for _ in range(1000):
        assert client.review("/mutate", BODY)["allowed"]
    assert server.stop() == 0
    os.close(end)


def test_log_to_a_pipe_whose_reader_is_gone(fresh):
    server = fresh(start=False)
    os.close(started_with_pipe(server))
    works(server)
    claim(server, "quiet")
    assert server.stop() == 0


def test_without_standard_files(fresh):
    """Closed descriptors 0, 1 and 2 would be the next sockets, and lines of the log would go to whoever is at their other end."""
    server = fresh(start=False)
    open(server.log_path, "ab").close()
    server.process = subprocess.Popen(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *server.argv()], env=server.environment(), cwd=server.dir)
    server.wait_ready()
    for fd in range(3):
        assert os.readlink(f"/proc/{server.process.pid}/fd/{fd}") == "/dev/null"
    works(server)
    assert server.stop() == 0


def certs(*args):
    done = subprocess.run([PROGRAM, "certs", *args], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


def contents(folder):
    found = {}
    for name in sorted(os.listdir(folder)):
        if name != "filler":
            with open(os.path.join(folder, name), "rb") as f:
                found[name] = f.read()
    return found


def test_certificates_on_a_full_disk(small_disk):
    """init leaves nothing behind, renew leaves the old pair whole; both say why and end with a status that is not 0."""
    folder = os.path.join(small_disk, "certs")
    filler = fill(small_disk)
    status, said = certs("init", "--dir", folder, "--dev")
    assert status == 3 and "No space left" in said, (status, said)
    assert not os.path.exists(folder) or contents(folder) == {}, contents(folder)
    os.unlink(filler)
    assert certs("init", "--dir", folder, "--dev")[0] == 0
    fill(small_disk)
    before = contents(folder)
    status, said = certs("renew", "--dir", folder, "--force")
    assert status == 3 and "No space left" in said, (status, said)
    assert contents(folder) == before
    status, said = certs("init", "--dir", folder, "--dev", "--force")
    assert status == 3 and "No space left" in said, (status, said)
    assert contents(folder) == before, "a CA that everybody trusts was lost"


# ---- descriptors ---------------------------------------------------------------------------------------------------

def test_sixty_four_descriptors(fresh):
    """What is beyond the limit waits outside and costs nothing; what is inside is served; a reload that cannot open its files changes
    nothing; when places are free, all is as before."""
    server = fresh(start=False)
    server.start(["prlimit", "--nofile=64:64", *server.argv()])
    kept = server.new_client()
    assert kept.review("/mutate", BODY)["allowed"]
    crowd = [socket.create_connection(("127.0.0.1", server.port), timeout=5) for _ in range(200)]
    assert wait_until(lambda: "suspending accept" in server.log(), 5), server.log()[-1000:]
    cpu, began = server.cpu_seconds(), time.monotonic()
    time.sleep(2)
    share = (server.cpu_seconds() - cpu) / (time.monotonic() - began)
    assert share < 0.05 * SLOW, f"{share:.1%} of a core for clients that cannot be let in"
    server.signal(signal.SIGHUP)
    for _ in range(20):
        assert kept.review("/mutate", BODY)["allowed"]
    assert kept.review("/validate", reviews.review(reviews.stored(kept.review("/mutate", BODY)["pod"])))["allowed"]
    for one in crowd:
        one.close()
    works(server)
    at = len(server.log())
    server.signal(signal.SIGHUP)
    assert server.wait_log("SIGHUP", since=at) and wait_until(lambda: server.metric("poolgate_reload_ok") == 3, 5), server.log()[at:]
    assert wait_until(lambda: len(os.listdir(f"/proc/{server.process.pid}/fd")) < 20, 5), "descriptors stayed behind"
    assert server.stop() == 0


# ---- clocks --------------------------------------------------------------------------------------------------------

class Clock:
    """The time of day of the servers that are started with it."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "clock")
        self.set(0)

    def set(self, seconds):
        with open(self.path, "r+b" if os.path.exists(self.path) else "wb") as f:
            f.write(struct.pack("=q", seconds))

    def environment(self):
        return {"LD_PRELOAD": CLOCK, "FAULT_CLOCK": self.path}


@pytest.fixture(name="clock")
def fixture_clock(tmp_path):
    assert os.path.exists(CLOCK), f"{CLOCK} is not built"
    return Clock(str(tmp_path))


def last_time(server):
    """The time of day that the server writes into its log now."""
    at = len(server.log())
    server.new_client().review("/mutate", BODY)
    assert server.wait_log("review", since=at)
    line = server.log()[at:].split(" ", 1)[0]
    return time.mktime(time.strptime(line[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone


class Jumped:
    """A server whose clock is set while a client is kept, a claim is held and another client stands still in its handshake."""

    def __init__(self, server, clock, jump):
        self.server, self.kept = server, server.new_client()
        assert self.kept.review("/mutate", BODY)["allowed"]
        port = self.kept.connection.sock.getsockname()[1]
        claim(server, "held")
        self.slow = socket.create_connection(("127.0.0.1", server.port), timeout=30 * SLOW)
        self.began = time.monotonic()
        self.slow.sendall(b"\x16\x03\x01")
        clock.set(jump)
        assert abs(last_time(server) - time.time() - jump) < 60, "the clock did not jump for the server"
        for _ in range(3):
            assert self.kept.review("/mutate", BODY)["allowed"]
        assert self.kept.connection.sock.getsockname()[1] == port, "the kept connection was cut"
        assert claims(server) == 1, "a claim ended with the clock"
        works(server)

    def stalled_s(self):
        """When the half handshake was ended."""
        try:
            self.slow.recv(100)
        except TimeoutError:
            return float("inf")
        except OSError:
            pass
        return time.monotonic() - self.began


def test_clock_jumps(fresh, tmp_path):
    """Deadlines, kept connections, a stalled client's ten seconds and a claim's life are counted by time that has passed, whether the
    time of day goes an hour forth or back. Log lines follow the clock."""
    jumped = []
    for jump in (HOUR, -HOUR):
        clock = Clock(str(tmp_path))
        jumped.append(Jumped(fresh(args=["--claim-ttl", "1m"], env=clock.environment()), clock, jump))
        tmp_path = tmp_path / "next"
        tmp_path.mkdir()
    for one in jumped:
        took = one.stalled_s()
        assert 8 < took < 16 * SLOW, f"a stalled handshake ended after {took:.1f} s"
        works(one.server)
        assert claims(one.server) == 1
        assert one.server.stop() == 0


def test_certificates_under_a_jump(fresh, clock):
    """A pair in force stays in force, whatever its dates say now; one that is loaded must be good by the clock as it is."""
    server = fresh(start=False, args=["--reload-interval", "0s"], env=clock.environment())
    server.start()
    failed = 'poolgate_reload_errors_total{what="certificate"}'
    for jump in (40 * 24 * HOUR, -HOUR):  # behind the end of its 30 days, and before their begin
        errors = server.metrics()[failed]
        cert, key = make_pair(server.dir, f"other{jump}")
        shutil.copy(key, server.key)
        shutil.copy(cert, server.cert)
        clock.set(jump)
        works(server)
        server.signal(signal.SIGHUP)
        assert wait_until(lambda before=errors: server.metrics()[failed] > before, 10), server.log()[-1500:]
        works(server)
        clock.set(0)
        server.signal(signal.SIGHUP)
        assert wait_until(lambda: server.metrics()['poolgate_reload_ok{what="certificate"}'] == 1, 10), server.log()[-1500:]
        works(server)
    assert server.stop() == 0


# ---- stopped -------------------------------------------------------------------------------------------------------

def test_stopped_for_twenty_seconds(fresh):
    """Nothing that came meanwhile is lost: who waits is answered, who has gone costs nothing, what stalled is cut, and the files are
    looked at again."""
    server = fresh(args=["--reload-interval", "200ms"])
    kept = server.new_client(timeout=60 * SLOW)
    assert kept.review("/mutate", BODY)["allowed"]
    stored = claim(server, "before")
    gone = server.new_client(timeout=2)
    assert gone.review("/mutate", BODY)["allowed"]
    stalled = server.new_client(timeout=60)
    stalled.connection.connect()
    stalled.connection.sock.sendall(b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
    before = server.rss_kib()
    server.signal(signal.SIGSTOP)
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(kept.review("/mutate", BODY)["allowed"]))
    fresh_client = threading.Thread(target=lambda: answers.append(server.new_client(timeout=60 * SLOW).review("/mutate", BODY)["allowed"]))
    try:
        waiting.start()
        fresh_client.start()
        with pytest.raises(OSError):
            gone.connection.request("POST", "/mutate?timeout=1s", BODY, {"Content-Type": "application/json"})
            gone.connection.getresponse()
        gone.close()
        new_cert, new_key = make_pair(server.dir, "next")
        os.rename(new_key, server.key)
        os.rename(new_cert, server.cert)
        time.sleep(20)
    finally:
        server.signal(signal.SIGCONT)
    waiting.join(30 * SLOW)
    fresh_client.join(30 * SLOW)
    assert answers == [True, True]
    works(server)
    assert claims(server) == 1 and server.new_client().review("/validate", reviews.review(stored))["allowed"]
    assert wait_until(lambda: server.log().count("certificate in force") == 2, 10), "the new certificate was not seen"
    stalled.connection.sock.settimeout(15 * SLOW)
    try:
        assert not stalled.connection.sock.recv(100).startswith(b"HTTP/1.1 200")
    except OSError:
        pass
    cpu, began = server.cpu_seconds(), time.monotonic()
    time.sleep(1)
    assert (server.cpu_seconds() - cpu) / (time.monotonic() - began) < 0.1 * SLOW
    assert server.grew_less(before, 8192)
    assert server.stop() == 0
