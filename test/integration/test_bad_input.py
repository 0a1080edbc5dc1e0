# SPDX-License-Identifier: Apache-2.0
"""webhook/main, bad input: each item has a status, a sentence, a line in the log, and leaves the server answering in the same memory."""
import json
import socket
import ssl
import time

import pytest

from lib import reviews
from lib.pods import ask, container, pod
from lib.server import SLOW

GOOD = reviews.review(reviews.default_resources(pod()))
TEXT = json.dumps(GOOD)
MIB = 1 << 20


def changed(**request):
    """The good review with members of its request set, or taken away (None)."""
    r = json.loads(TEXT)
    r["request"].update(request)
    r["request"] = {k: v for k, v in r["request"].items() if v is not None}
    return json.dumps(r).encode()


def pod_with(**spec):
    p = json.loads(TEXT)["request"]["object"]
    p["spec"].update(spec)
    p["spec"] = {k: v for k, v in p["spec"].items() if v is not None}
    return changed(object=p)


def nested(depth):
    return TEXT.replace('"status": {}', '"status": ' + "[" * depth + "]" * depth).encode()


UNREADABLE = {
    "empty": b"", "blank": b"  \n", "not-json": b"hello", "half": TEXT[:len(TEXT) // 2].encode(), "trailing": TEXT.encode() + b"x",
    "trailing-object": TEXT.encode() * 2, "duplicate": TEXT.replace('"uid"', '"uid": "a", "uid"', 1).encode(),
    "duplicate-escaped": TEXT.replace('"uid"', '"uid": "a", "\\u0075id"', 1).encode(),
    "nul-escape": TEXT.replace("train.py", "train\\u0000.py").encode(), "nul-byte": TEXT.encode() + b"\0",
    "nul-inside": TEXT.encode().replace(b"train.py", b"train\0.py"), "bad-utf8": TEXT.encode().replace(b"train", b"\xff\xfe"),
    "overlong-utf8": TEXT.encode().replace(b"train", b"\xc0\xaf"), "surrogate": TEXT.replace("train.py", "\\ud800").encode(),
    "bom": b"\xef\xbb\xbf" + TEXT.encode(), "utf16": TEXT.encode("utf-16"), "depth-65": nested(65), "depth-100000": nested(100000),
    "depth-open-only": b"[" * 100000, "3-mib-zeros": b"[" + b"0," * (3 * MIB // 2) + b"0]", "array": b"[]", "null": b"null",
    "string": b'"x"', "number": b"1", "leading-zero": TEXT.replace('"status": {}', '"status": 007').encode(),
    "nan": TEXT.replace('"status": {}', '"status": NaN').encode(), "single-quotes": TEXT.replace('"', "'").encode(),
    "control-character": TEXT.replace("train.py", "a\x01b").encode(), "no-request": json.dumps(
        {k: v for k, v in GOOD.items() if k != "request"}).encode(), "null-request": json.dumps({**GOOD, "request": None}).encode(),
    "request-array": json.dumps({**GOOD, "request": []}).encode(), "no-uid": changed(uid=None), "empty-uid": changed(uid=""),
    "uid-number": changed(uid=1), "version-v2": json.dumps({**GOOD, "apiVersion": "admission.k8s.io/v2"}).encode(),
    "no-version": json.dumps({k: v for k, v in GOOD.items() if k != "apiVersion"}).encode(),
    "other-kind-of-review": json.dumps({**GOOD, "kind": "ConversionReview"}).encode(),
    "operation-unknown": changed(operation="PATCH"), "operation-number": changed(operation=1),
    "object-string": changed(object="x"), "kind-string": changed(kind="Pod"), "dry-run-word": changed(dryRun="yes"),
    "namespace-number": changed(namespace=7), "response-instead": json.dumps({**GOOD, "request": None, "response": {}}).encode(),
}


def check_alive(server, before_kib):
    assert server.alive()
    got = server.review("/mutate", TEXT.encode())
    assert got["allowed"] and got["pod"]
    assert server.grew_less(before_kib, 40 * 1024), "memory stayed behind"


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
@pytest.mark.parametrize("name", sorted(UNREADABLE))
def test_unreadable(server, name, path):
    server.review("/mutate", TEXT.encode())
    before, at = server.rss_kib(), len(server.log())
    began = time.monotonic()
    status, headers, data = server.client.request("POST", path, UNREADABLE[name])
    took = time.monotonic() - began
    text = data.decode()
    assert status == 400, text
    assert headers["content-type"].startswith("text/plain")
    assert len(text.split()) >= 2 and len(text) < 1000, text
    assert took < 1 * SLOW
    if name == "empty":
        assert "Empty body" in text
    assert server.wait_log("\n", since=at), "nothing in the log"
    assert "400" in server.log()[at:] or text.strip()[:20] in server.log()[at:]
    check_alive(server, before)


def test_numbers_beyond_doubles(server):
    """1e400 is well-formed: refused as a value where it counts, of no interest elsewhere."""
    p = TEXT.replace('"bitfusion.io/gpu-amount": "1"', '"bitfusion.io/gpu-amount": 1e400').encode()
    status, _, data = server.client.request("POST", "/mutate", p)
    assert status == 400 or not json.loads(data)["response"]["allowed"]
    status, _, data = server.client.request("POST", "/mutate", TEXT.replace('"status": {}', '"status": 1e400').encode())
    assert status in (200, 400) and data


@pytest.mark.parametrize("kind", [None, "text/plain", "application/xml", "application/jsonx", "multipart/form-data", ""])
def test_content_type(server, kind):
    at = len(server.log())
    status, _, data = server.client.request("POST", "/mutate", TEXT.encode(), {"Content-Type": kind})
    assert status == 415 and b"application/json" in data
    assert server.wait_log("415", since=at)
    check_alive(server, server.rss_kib())


def room_in_the_log():
    """The transport writes ten sentences of its own a second at most."""
    time.sleep(1.1)


def test_path_and_method(server):
    room_in_the_log()
    at = len(server.log())
    status, _, data = server.client.request("POST", "/nowhere", TEXT.encode())
    assert status == 404 and data
    status, headers, data = server.client.request("GET", "/mutate")
    assert status == 405 and headers["allow"] == "POST" and data
    assert server.wait_log("404", since=at) and server.wait_log("405", since=at)


def raw_request(server, head, body, wait=8, close_early=False):
    """Bytes as they are; what came back."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", server.port), timeout=wait * SLOW) as raw:
        with context.wrap_socket(raw) as tls:
            got = b""
            try:
                tls.sendall(b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + head + b"\r\n" + body)
                if close_early:
                    return b""
                while b"\r\n\r\n" not in got:
                    piece = tls.recv(65536)
                    if not piece:
                        break
                    got += piece
            except OSError:
                pass
            return got


def test_too_big(server):
    """8 MiB are read, one byte more is not."""
    before = server.rss_kib()
    pad = TEXT.encode() + b" " * (8 * MIB - len(TEXT))
    assert server.new_client().request("POST", "/mutate", pad)[0] == 200
    room_in_the_log()
    at = len(server.log())
    got = raw_request(server, b"Content-Length: %d\r\n" % (8 * MIB + 1), b" " * (8 * MIB + 1))
    assert got.startswith(b"HTTP/1.1 413"), got[:200]
    assert server.wait_log("413", since=at)
    for head in (b"Content-Length: %d\r\nExpect: 100-continue\r\n" % (8 * MIB + 1), b"Content-Length: 99999999999\r\n",
                 b"Content-Length: 99999999999999999999\r\n"):
        got = raw_request(server, head, b"")
        assert got == b"" or got.split()[1] in (b"400", b"413"), got[:200]
    check_alive(server, before)


def chunks(data, size):
    return b"".join(b"%x\r\n%s\r\n" % (len(data[i:i + size]), data[i:i + size]) for i in range(0, len(data), size)) + b"0\r\n\r\n"


def test_chunked(server):
    """A chunked body is read like any other, within the same limit."""
    got = raw_request(server, b"Transfer-Encoding: chunked\r\n", chunks(TEXT.encode(), 100))
    assert got.startswith(b"HTTP/1.1 200") or got.startswith(b"HTTP/1.1 411"), got[:200]
    got = raw_request(server, b"Transfer-Encoding: chunked\r\n", chunks(b" " * (8 * MIB + 1), 65536))
    assert got == b"" or got.split()[1] in (b"413", b"411"), got[:200]
    got = raw_request(server, b"Transfer-Encoding: chunked\r\n", b"zz\r\n")
    assert got == b"" or got.startswith(b"HTTP/1.1 4")
    check_alive(server, server.rss_kib())


def test_content_length_lies(server):
    before = server.rss_kib()
    got = raw_request(server, b"Content-Length: 10\r\n", TEXT.encode())
    assert got.startswith(b"HTTP/1.1 400"), got[:200]
    for _ in range(5):
        raw_request(server, b"Content-Length: %d\r\n" % (len(TEXT) + 1000), TEXT.encode(), close_early=True)
    for head in (b"Content-Length: -1\r\n", b"Content-Length: x\r\n", b"Content-Length: 5\r\nContent-Length: 6\r\n"):
        got = raw_request(server, head, TEXT.encode())
        assert got == b"" or got.startswith(b"HTTP/1.1 4"), got[:200]
    check_alive(server, before)


UNCLEAR = {
    "two-lengths": b"Content-Length: %(n)d\r\nContent-Length: %(less)d\r\n", "same-twice": b"Content-Length: %(n)d\r\nContent-Length: %(n)d\r\n",
    "length-and-chunked": b"Content-Length: %(n)d\r\nTransfer-Encoding: chunked\r\n", "coded-twice":
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "gzip": b"Transfer-Encoding: gzip, chunked\r\n",
    "identity": b"Content-Length: %(n)d\r\nTransfer-Encoding: identity\r\n", "blank-in-name": b"Content-Length : %(n)d\r\n",
}


@pytest.mark.parametrize("name", sorted(UNCLEAR))
def test_where_the_body_ends(server, name):
    """Who stands between, a proxy or a logger, must not see another end of the body than we do: what was a body there would be a request
    here. Refused at once, and nothing more is read from the connection."""
    at = len(server.log())
    began = time.monotonic()
    head = UNCLEAR[name] % {b"n": len(TEXT), b"less": len(TEXT) - 5}
    got = raw_request(server, head, TEXT.encode() + b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
    assert got == b"" or got.startswith(b"HTTP/1.1 400") and got.count(b"HTTP/1.1") == 1, got[:400]
    assert time.monotonic() - began < 5 * SLOW, "it was waited for"
    assert "result=" not in server.log()[at:], "it was taken for a review"
    check_alive(server, server.rss_kib())


def test_big_headers(server):
    room_in_the_log()
    at = len(server.log())
    got = raw_request(server, b"".join(b"X-%d: %s\r\n" % (i, b"a" * 100) for i in range(2000)), b"")
    assert got == b"" or got.split()[1] in (b"431", b"413", b"400"), got[:100]
    assert server.wait_log("headers could not be read", since=at)
    assert "caBundle" not in server.log()[at:], "the certificate has nothing to do with it"
    got = raw_request(server, b"X: " + b"a" * 200000 + b"\r\n", b"")
    assert got == b"" or got.split()[1] in (b"431", b"413", b"400"), got[:100]
    check_alive(server, server.rss_kib())


MALFORMED_PODS = {
    "containers-missing": pod_with(containers=None), "containers-object": pod_with(containers={}),
    "containers-string": pod_with(containers="x"), "containers-null": changed(object={**GOOD["request"]["object"], "spec": {
        "containers": None}}), "container-number": pod_with(containers=[1]), "no-spec": changed(
            object={k: v for k, v in GOOD["request"]["object"].items() if k != "spec"}),
    "no-metadata": changed(object={k: v for k, v in GOOD["request"]["object"].items() if k != "metadata"}),
    "container-no-name": pod_with(containers=[{"image": "x", "command": ["a"], "resources": ask()}]),
    "command-string": pod_with(containers=[container(command=[])  | {"command": "python"}]),
    "command-numbers": pod_with(containers=[container() | {"command": ["a", 1]}]),
    "env-object": pod_with(containers=[container(env={})]), "env-no-name": pod_with(containers=[container(env=[{"value": "x"}])]),
    "resources-array": pod_with(containers=[container(resources=[1])]), "limits-string": pod_with(
        containers=[container(resources={"limits": "x"})]),
    "amount-object": pod_with(containers=[container(resources={"limits": {"bitfusion.io/gpu-amount": {}}})]),
    "init-containers-object": pod_with(initContainers={}), "volumes-string": pod_with(volumes="x"),
    "mounts-object": pod_with(containers=[container() | {"volumeMounts": {}}]),
    "containers-1000": pod_with(containers=[container(f"c{i}") for i in range(1000)]),
}


# Members that the API server has typed before it asks us, and that decide nothing here.
STRANGE_BESIDE = {"env-object", "env-no-name", "mounts-object", "volumes-string"}


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
@pytest.mark.parametrize("name", sorted(MALFORMED_PODS))
def test_malformed_pods(server, name, path):
    """A readable review of a pod that cannot be one: refused with a sentence, or left to the API server; never a fault."""
    at = len(server.log())
    status, _, data = server.client.request("POST", path, MALFORMED_PODS[name])
    if status == 200:
        response = json.loads(data)["response"]
        assert response["uid"] == GOOD["request"]["uid"]
        if not response["allowed"]:
            assert response["status"]["code"] in (403, 422) and response["status"]["reason"]
            assert len(response["status"]["message"].split()) > 3
            assert server.wait_log(GOOD["request"]["uid"], since=at)
        elif name not in STRANGE_BESIDE:
            assert "patch" not in response, "a pod that cannot be one was injected"
    else:
        assert status == 400 and len(data.split()) > 3, data
        assert server.wait_log("\n", since=at)
    check_alive(server, server.rss_kib())


def test_other_kinds(server):
    """Other kinds than Pod on /mutate are none of ours."""
    for kind in ({"group": "", "version": "v1", "kind": "ConfigMap"}, {"group": "policy", "version": "v1", "kind": "Eviction"}):
        body = changed(kind=kind, requestKind=kind, object={"kind": kind["kind"], "metadata": {"name": "x"}, "data": {"a": "b"}})
        got = server.review("/mutate", body)
        assert got["allowed"] and got["ops"] is None


def test_ten_thousand_variables(server):
    env = [{"name": f"V{i}", "value": "x" * 20} for i in range(10000)] + [{"name": "LD_LIBRARY_PATH", "value": "/own"}]
    review = reviews.review(reviews.default_resources(pod(container(env=env))))
    before, began = server.rss_kib(), time.monotonic()
    got = server.review("/mutate", review)
    assert time.monotonic() - began < 1 * SLOW
    assert got["pod"]["spec"]["containers"][0]["env"][-1]["value"].endswith("/lib/:/own")
    check_alive(server, before)


REFUSED = {
    "amount-0": pod(container(resources=ask("0"))), "percent-0": pod(container(resources=ask(percent="0"))),
    "percent-101": pod(container(resources=ask(percent="101"))), "memory-1Ei": pod(container(resources=ask(memory="1Ei"))),
    "num-conflict": pod(container(resources=ask("1", num="2"))), "unknown-client": pod(version="999"),
    "volume-collision": pod(volumes=[{"name": "client-dir", "emptyDir": {}}]),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refusals_are_logged(server, name):
    review = reviews.review(reviews.default_resources(REFUSED[name]))
    at = len(server.log())
    got = server.review("/mutate", review)
    assert not got["allowed"] and server.wait_log(review["request"]["uid"], since=at)
    line = next(line for line in server.log()[at:].splitlines() if review["request"]["uid"] in line)
    assert got["reason"] in line


def test_hostile_strings_stay_out_of_log_lines(server):
    """A stranger's newline or control character makes no log line of its own."""
    review = reviews.review(reviews.default_resources(pod(name="a\nlevel=error msg=forged \x1b[31m")), uid="u\n\x1b[2J-1")
    at = len(server.log())
    status, _, _ = server.client.request("POST", "/mutate", json.dumps(review).encode())
    assert status in (200, 400)
    assert server.wait_log("\n", since=at)
    time.sleep(0.1)
    assert "\x1b" not in server.log()[at:] and not any(
        line.startswith("level=error msg=forged") for line in server.log()[at:].splitlines())
