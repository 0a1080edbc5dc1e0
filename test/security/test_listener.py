# SPDX-License-Identifier: Apache-2.0
"""The TLS listener, tried with the command lines of two other TLS libraries: what docs/security.md says of it. Bad records and OpenSSL's
renegotiation are in test/faults/test_clients.py, client certificates in test/integration/test_client_ca.py."""
import json
import re
import subprocess
import time

import pytest

from lib import reviews
from lib.pods import pod
from lib.server import SLOW

BODY = json.dumps(reviews.review(reviews.default_resources(pod()))).encode()
AEAD = ["AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305"]
TLS13 = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"]


def works(server):
    got = server.new_client().review("/mutate", BODY)
    assert got["allowed"] and got["pod"]


def s_client(server, *options):
    """What `openssl s_client` says of a connection that it closes at once."""
    return subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", *options], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30 * SLOW, check=False).stdout.decode("utf-8", "replace")


def cipher(server, *options):
    """The cipher that was agreed on, or None."""
    said = s_client(server, *options)
    assert "CONNECTED" in said, said
    found = re.search(r"Cipher is (\S+)", said)
    return None if not found or found.group(1) == "(NONE)" else found.group(1)


def gnutls(server, priority, *options, lines=b""):
    """(exit status, what `gnutls-cli` says); lines are typed half a second after the handshake has begun."""
    client = subprocess.Popen(["gnutls-cli", "--insecure", "-p", str(server.port), "127.0.0.1", "--priority", priority, *options],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        if lines:
            time.sleep(0.5)
        said = client.communicate(lines, timeout=30 * SLOW)[0]
    finally:
        client.kill()
        client.wait()
    return client.returncode, said.decode("utf-8", "replace")


def accepted(server, option, ciphers, *options):
    """Which of the ciphers it agrees on, in its own order: each that it chose is not offered again."""
    found = []
    while ciphers:
        chosen = cipher(server, *options, option, ":".join(ciphers) + (":@SECLEVEL=0" if option == "-cipher" else ""))
        if chosen is None:
            break
        found.append(chosen)
        ciphers = [c for c in ciphers if c != chosen]
    return found


def test_versions(server):
    """1.2 and 1.3. For the older ones both clients are told to allow everything, so that it is the server that refuses."""
    for version in ("-tls1", "-tls1_1"):
        assert cipher(server, version, "-cipher", "ALL:@SECLEVEL=0") is None, version
    for version in ("-tls1_2", "-tls1_3"):
        assert cipher(server, version), version
    for version, taken in (("TLS1.0", False), ("TLS1.1", False), ("TLS1.2", True), ("TLS1.3", True)):
        status, said = gnutls(server, f"NORMAL:-VERS-ALL:+VERS-{version}")
        assert "Connecting to" in said and ("Handshake was completed" in said) == taken, f"{version}: {status}\n{said}"
    works(server)


def every_cipher():
    """All names that this OpenSSL can offer with TLS 1.2, those without encryption or authentication among them."""
    said = subprocess.run(["openssl", "ciphers", "-s", "-tls1_2", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"], stdout=subprocess.PIPE, check=True)
    return said.stdout.decode().strip().split(":")


def test_ciphers(server):
    """Three, authenticated and with forward secrecy, in this order whatever the client prefers."""
    assert accepted(server, "-cipher", every_cipher()[::-1], "-tls1_2") == [f"ECDHE-ECDSA-{name}" for name in AEAD]
    assert accepted(server, "-ciphersuites", TLS13[::-1] + ["TLS_AES_128_CCM_SHA256", "TLS_AES_128_CCM_8_SHA256"], "-tls1_3") == TLS13


def test_ciphers_with_an_rsa_key(rsa_server):
    """Nor does an RSA key bring back exchanges that could be read afterwards, or that oracles have broken."""
    assert accepted(rsa_server, "-cipher", every_cipher()[::-1], "-tls1_2") == [f"ECDHE-RSA-{name}" for name in AEAD]
    status, said = gnutls(rsa_server, "NORMAL:-VERS-ALL:+VERS-TLS1.2:-KX-ALL:+RSA")
    assert status != 0 and "Handshake was completed" not in said, said
    works(rsa_server)


@pytest.mark.parametrize("which", ["server", "rsa_server"])
def test_no_sha1_signature(which, request):
    server = request.getfixturevalue(which)
    assert cipher(server, "-tls1_2", "-cipher", "ALL:@SECLEVEL=0", "-sigalgs", "RSA+SHA1:ECDSA+SHA1") is None
    assert cipher(server, "-tls1_2", "-sigalgs", "RSA-PSS+SHA256:ECDSA+SHA256")


def test_groups(server):
    for group in ("X25519", "P-256", "P-384", "P-521"):
        assert cipher(server, "-groups", group, "-tls1_3"), group
    for group in ("ffdhe2048", "X448"):
        assert cipher(server, "-groups", group, "-tls1_3") is None, group


def test_extras(server):
    """HTTP/1.1 is the only protocol; nothing is compressed, resumed or sent early."""
    said = s_client(server, "-alpn", "h2,http/1.1")
    assert "ALPN protocol: http/1.1" in said and "Compression: NONE" in said, said
    said = s_client(server, "-alpn", "h2")
    assert "No ALPN negotiated" in said, said
    said = s_client(server, "-tls1_2", "-reconnect")
    assert said.count("New, TLSv1.2") >= 2 and "Reused" not in said, said
    said = s_client(server, "-tls1_2")
    assert "Secure Renegotiation IS supported" in said and "Extended master secret: yes" in said
    assert "New Session Ticket" not in s_client(server, "-tls1_3", "-msg")


def test_gnutls_does_not_renegotiate(server):
    """A client that begins another handshake in TLS 1.2 loses the connection."""
    status, said = gnutls(server, "NORMAL:-VERS-ALL:+VERS-TLS1.2", "--rehandshake", lines=b"\n")
    assert "Handshake was completed" in said, said
    assert "ReHandshake has failed" in said and "ReHandshake was completed" not in said, f"{status}\n{said}"
    works(server)


def test_survey(server):
    """GnuTLS' own survey of what a server can be talked into."""
    said = subprocess.run(["gnutls-cli-debug", "-p", str(server.port), "127.0.0.1"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=90 * SLOW, check=True).stdout.decode()
    answers = dict(re.findall(r"^ *(\S.*?)\.\.\. (.*)$", said, re.M))
    for text, wanted in (("for safe renegotiation (RFC5746) support", "yes"), ("for ext master secret (RFC7627) support", "yes"),
                         ("for heartbeat (RFC6520) support", "no"), ("for anonymous authentication support", "no"),
                         ("for RSA key exchange support", "no"), ("for ephemeral Diffie-Hellman support", "no"),
                         ("for ephemeral EC Diffie-Hellman support", "yes"), ("for AES-CBC cipher (RFC3268) support", "no"),
                         ("for 3DES-CBC cipher (RFC2246) support", "no"), ("for ARCFOUR 128 cipher (RFC2246) support", "no"),
                         ("for SHA1 MAC support", "no"), ("for MD5 MAC support", "no"),
                         ("whether the server supports session resumption", "no")):
        assert answers.get(text) == wanted, f"{text}: {answers.get(text)}\n{said}"
    works(server)
