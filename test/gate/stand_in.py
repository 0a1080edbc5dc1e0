#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A remote-GPU server that computes nothing: stand_in.py ADDRESS PORT MODE. The first line of each connection says what it shall do with it.

    env     tell who it is: environment, account, rights, process group
    sum     read to the end, then tell how many bytes there were, and their digest
    echo    send everything back, and end when the other side does; so do PRI, with which HTTP/2 begins, and HEAD
    sink    read to the end, then tell that
    pour N  send N bytes, then end
    hide    leave a grandchild in a session of its own, which nothing but a parent's parent finds, and tell its pid
    heir    the same, and it has the server's socket still
    take N  leave a child that has N bytes of the GPU (test/probe/fake_present.h), and tell its pid
    run     leave a process that goes on as its own child again and again, so that no pid of it lives long; TERM is passed over
    die     end the whole server
MODE: up; late (listens after a second), never (does not listen), exit (ends at once), open (listens on all addresses), deaf (TERM is passed over),
polite (leaves at TERM by itself), hung (listens, and takes nobody). A socket that it is given it takes instead of opening one.
"""
import fcntl
import hashlib
import json
import os
import signal
import socket
import sys
import threading
import time

PIECE = 1 << 18
CONTEXT = 500 << 20


def tell_env():
    with open("/proc/self/status", encoding="ascii") as f:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    return json.dumps({"env": dict(os.environ), "uid": os.getuid(), "gids": os.getgroups(), "pid": os.getpid(), "group": os.getpgrp(),
                       "no_new_privs": status["NoNewPrivs"], "fds": sorted(int(n) for n in os.listdir("/proc/self/fd"))}).encode() + b"\n"


def hide(heir=False):
    """A grandchild, through a child that ends: its parent is whoever takes up orphans."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            os.setsid()
            os.write(writer, b"%d\n" % os.getpid())
            if not heir:
                os.closerange(0, 256)
            time.sleep(600)
        os._exit(0)
    os.waitpid(child, 0)
    return os.read(reader, 32)


def take(size):
    """As a server does that forks for each connection. It is told when the child has them."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        fd = os.open(os.path.join(os.environ["FAKE_GPU"], str(os.getpid())), os.O_RDWR | os.O_CREAT, 0o644)
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.write(fd, b"%020d\n" % (CONTEXT + size))
        os.write(writer, b"%d\n" % os.getpid())
        time.sleep(600)
        os._exit(0)
    os.close(writer)
    return os.read(reader, 32)


def run():
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.closerange(0, 256)
        while True:
            if os.fork():
                os._exit(0)


def serve(c):
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    word = b""
    while not word.endswith(b"\n"):
        byte = c.recv(1)
        if not byte:
            return
        word += byte
    word, *rest = word.split()
    word = b"echo" if word in (b"PRI", b"HEAD") else word
    if word == b"env":
        c.sendall(tell_env())
    elif word == b"hide":
        c.sendall(hide())
    elif word == b"heir":
        c.sendall(hide(heir=True))
    elif word == b"take":
        c.sendall(take(int(rest[0])))
    elif word == b"run":
        run()
    elif word == b"die":
        os._exit(3)
    elif word == b"pour":
        left, zeroes = int(rest[0]), bytes(PIECE)
        while left > 0:
            left -= c.send(zeroes[:min(left, PIECE)])
    else:
        digest, n = hashlib.sha256(), 0
        while piece := c.recv(PIECE):
            n += len(piece)
            if word == b"echo":
                c.sendall(piece)
            elif word == b"sum":
                digest.update(piece)
        if word != b"echo":
            c.sendall(b"%d %s\n" % (n, digest.hexdigest().encode()))
    c.shutdown(socket.SHUT_WR)
    while c.recv(PIECE):
        pass


def guarded(c):
    with c:
        try:
            serve(c)
        except OSError:
            pass


def main():
    address, port, mode = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if mode == "exit":
        sys.exit(5)
    if mode == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mode == "polite":
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if mode == "never":
        time.sleep(600)
    if mode == "late":
        time.sleep(1)
    given = mode != "open" and os.environ.get("LISTEN_PID") == str(os.getpid()) and os.environ["LISTEN_FDS"] == "1"
    with socket.socket(fileno=3 if given else None) as s:
        if not given:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("0.0.0.0" if mode == "open" else address, port))
            s.listen(0 if mode == "hung" else 1024)
        if mode == "hung":
            time.sleep(600)
        while True:
            threading.Thread(target=guarded, args=(s.accept()[0],), daemon=True).start()


main()
