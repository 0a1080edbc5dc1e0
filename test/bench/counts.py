# SPDX-License-Identifier: Apache-2.0
"""What can be counted on any machine, however busy: instructions (callgrind) and system calls (strace) of the whole server for each
request, as the difference between a long and a short run."""
import concurrent.futures
import os
import re
import signal
import socket
import ssl
import subprocess

import harness
import payload
import peers

FEW, MANY = 200, 1200
CALLS_FEW, CALLS_MANY = 50, 350
# What decides which code the libraries choose, as far as valgrind passes it on.
CPU_FLAGS = ("aes", "avx2", "bmi2", "pclmulqdq", "sha_ni", "ssse3")


def difference(run, few, many):
    """(run(many) - run(few)) for each request; both at once, two cores are there."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        less, more = pool.map(run, (few, many))
    return {key: (more[key] - less.get(key, 0)) / (many - few) for key in more}


# ---- requests ----

def post_whole(sock, path, body):
    """One request, handed to the server in one piece, as few clients send it but the same each time."""
    head = (f"POST {path}?timeout=30s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    sock.sendall(head + body)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
    reply = b""
    while b"\r\n\r\n" not in reply:
        reply += some(sock)
    head, _, rest = reply.partition(b"\r\n\r\n")
    length = int(re.search(rb"(?i)content-length: (\d+)", head).group(1))
    while len(rest) < length:
        rest += some(sock)
    if not head.startswith(b"HTTP/1.1 200 ") or b'"allowed":true' not in rest:
        raise SystemExit(f"{path} answered {head.splitlines()[0].decode()}: {rest[:300].decode('utf-8', 'replace')}")


def post_all(port, path, bodies, count):
    """count of the bodies in rotation over one kept TLS connection; all must be allowed."""
    with tls_context().wrap_socket(socket.create_connection(("127.0.0.1", port), 120)) as sock:
        for i in range(count):
            post_whole(sock, path, bodies[i % len(bodies)])


def some(sock):
    data = sock.recv(65536)
    if not data:
        raise SystemExit("the server closed the connection")
    return data


def tls_context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


# ---- instructions ----

def instructions(path, bodies):
    """For each request of documents in rotation over one kept TLS connection."""
    def run(requests):
        with harness.new_server() as server:
            out = os.path.join(server.dir, "callgrind.out")
            server.start(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *server.argv()], wait=False)
            server.wait_ready(120)
            post_all(server.port, path, bodies, requests)
            server.stop(seconds=120)
            with open(out, encoding="utf-8") as file:
                return {"all": int(re.search(r"^(?:totals|summary): (\d+)", file.read(), re.M).group(1))}
    return difference(run, FEW, MANY)["all"]


def documents():
    """(small or big, path): the bodies."""
    found = {}
    for name, reviews in (("small", payload.small()), ("big", payload.big())):
        found[name, "/mutate"] = [payload.go_json(r) for r in reviews]
        with harness.new_server() as server:
            server.start()
            connection = harness.connect(server.port)
            patches = harness.patches(connection, reviews)
            connection.close()
        found[name, "/validate"] = [payload.go_json(r) for r in payload.validate_reviews(reviews, patches)]
    return found


# ---- system calls ----

def system_calls(path, bodies):
    """By name, for each request of one connection."""
    def run(requests):
        with harness.new_server() as server:
            out = os.path.join(server.dir, "strace.out")
            server.start(["strace", "-f", "-c", "-S", "name", "-o", out, *server.argv()], wait=False)
            server.wait_ready(60)
            try:
                post_all(server.port, path, bodies, requests)
            finally:
                # strace would let it live.
                for pid in peers.children(server.process.pid):
                    os.kill(pid, signal.SIGTERM)
            server.process.wait(60)
            with open(out, encoding="utf-8") as file:
                # "% time, seconds, usecs/call, calls, [errors,] name"
                rows = [line.split() for line in file if re.match(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+\d+", line)]
            return {row[-1]: int(row[3]) for row in rows if row[-1] != "total"}
    return difference(run, CALLS_FEW, CALLS_MANY)


# ---- what the counts hang on ----

def output(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout


def made_with():
    """The compiler and the libraries of the program, and the CPU, as far as they decide what is counted."""
    program = harness.test_server.PROGRAM
    compiler = re.search(r"\]\s+(\S.*)", output("readelf", "-p", ".comment", program))
    found = {"compiler": compiler.group(1) if compiler else "?"}
    for package in ("libc6", "libgnutls30", "libmicrohttpd12", "libnettle8"):
        found[package] = output("dpkg-query", "-W", "-f", "${Version}", package) or "?"
    with open("/proc/cpuinfo", encoding="ascii") as file:
        flags = next((line.split(":")[1].split() for line in file if line.startswith("flags")), [])
    found["cpu"] = " ".join(flag for flag in CPU_FLAGS if flag in flags)
    return found
