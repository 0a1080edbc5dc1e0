# SPDX-License-Identifier: Apache-2.0
"""integration: `poolgate certs` as an operator runs it; openssl is the second opinion."""

import datetime
import json
import os
import resource
import shutil
import signal
import stat
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
POOLGATE = os.environ.get("POOLGATE", str(ROOT / "build/release/poolgate"))
SERVICE = "poolgate.poolgate-system.svc"
FILES = ["ca.crt", "ca.key", "tls.crt", "tls.key"]


def certs(*args, **kwargs):
    return subprocess.run(
        [POOLGATE, "certs", *map(str, args)],
        capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, **kwargs)


def ok(*args):
    done = certs(*args)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def show(directory):
    return json.loads(ok("show", "--dir", directory, "-o", "json"))["certificates"]


def contents(directory):
    return {p.name: p.read_bytes() for p in Path(directory).iterdir()}


@pytest.fixture
def openssl():
    path = shutil.which("openssl")
    if path is None:
        assert not os.environ.get("CI"), "openssl is not installed"
        pytest.skip("openssl is not installed")

    def run(*args):
        return subprocess.run([path, *map(str, args)], capture_output=True, text=True, timeout=60)
    return run


@pytest.fixture
def pki(tmp_path):
    directory = tmp_path / "pki"
    ok("init", "--dir", directory, "--dev")
    return directory


# ---- init

def test_init_writes_four_files(tmp_path):
    directory = tmp_path / "a" / "b"
    old = os.umask(0)
    try:
        out = ok("init", "--dir", directory)
    finally:
        os.umask(old)
    assert SERVICE in out
    assert sorted(p.name for p in directory.iterdir()) == FILES
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in directory.iterdir()}
    assert modes == {"ca.crt": 0o644, "ca.key": 0o600, "tls.crt": 0o644, "tls.key": 0o600}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert "PRIVATE" not in out
    ca, tls = show(directory)
    assert tls["names"] == ["DNS:" + SERVICE]
    assert ca["maySign"] == ["DNS:" + SERVICE, "not IP:0.0.0.0/0", "not IP:::/0"]


def test_init_names(tmp_path):
    ok("init", "--dir", tmp_path, "--service", "gate", "--namespace", "gpu", "--dns", "Gate.Example",
       "--ip", "10.0.0.7", "--ip", "fd00::7", "--days", "30", "--ca-days", "60")
    ca, tls = show(tmp_path)
    assert tls["names"] == ["DNS:gate.example", "IP:10.0.0.7", "IP:fd00::7", "DNS:gate.gpu.svc"]
    assert (tls["daysLeft"], ca["daysLeft"]) in [(30, 60), (29, 59)]


def test_init_dev_and_no_service(tmp_path):
    ok("init", "--dir", tmp_path / "dev", "--dev")
    assert show(tmp_path / "dev")[1]["names"] == [
        "DNS:" + SERVICE, "DNS:localhost", "IP:127.0.0.1", "IP:::1"]
    ok("init", "--dir", tmp_path / "one", "--no-service", "--ip", "127.0.0.1")
    assert show(tmp_path / "one")[1]["names"] == ["IP:127.0.0.1"]


def test_init_never_overwrites(pki):
    before = contents(pki)
    done = certs("init", "--dir", pki)
    assert done.returncode == 1
    assert "exists" in done.stderr and "--force" in done.stderr
    assert contents(pki) == before


@pytest.mark.parametrize("name", FILES)
def test_init_refuses_for_one_file(tmp_path, name):
    (tmp_path / name).write_text("mine")
    assert certs("init", "--dir", tmp_path).returncode == 1
    assert contents(tmp_path) == {name: b"mine"}


def test_init_force(pki):
    os.chmod(pki / "tls.key", 0o644)
    before = contents(pki)
    ok("init", "--dir", pki, "--force")
    after = contents(pki)
    assert sorted(after) == FILES
    assert all(after[n] != before[n] for n in FILES)
    assert stat.S_IMODE((pki / "tls.key").stat().st_mode) == 0o600
    assert [c["keyMatches"] for c in show(pki)] == [True, True]


# ---- what others say of it

def test_openssl_agrees(pki, openssl):
    done = openssl("verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", pki / "ca.crt",
                   "-verify_hostname", SERVICE, pki / "tls.crt")
    assert done.returncode == 0, done.stderr
    done = openssl("verify", "-CAfile", pki / "ca.crt", "-verify_ip", "::1", pki / "tls.crt")
    assert done.returncode == 0, done.stderr
    done = openssl("verify", "-CAfile", pki / "ca.crt", "-verify_hostname", "other.svc", pki / "tls.crt")
    assert done.returncode != 0
    text = openssl("x509", "-in", pki / "tls.crt", "-noout", "-text").stdout
    assert "Version: 3" in text and "CA:FALSE" in text and "TLS Web Server Authentication" in text
    assert "NIST CURVE: P-256" in text
    assert openssl("pkey", "-in", pki / "tls.key", "-noout", "-check").returncode == 0
    sha = openssl("x509", "-in", pki / "tls.crt", "-noout", "-fingerprint", "-sha256").stdout
    assert sha.strip().split("=")[1] == show(pki)[1]["sha256"]


def sign(openssl, pki, out, san, days="5"):
    """A certificate made by somebody who has stolen ca.key."""
    key = out.with_suffix(".key")
    csr = out.with_suffix(".csr")
    ext = out.with_suffix(".ext")
    ext.write_text(f"subjectAltName={san}\nbasicConstraints=critical,CA:FALSE\n"
                   "keyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\n"
                   "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n")
    assert openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                   "-keyout", key, "-subj", "/O=x", "-out", csr).returncode == 0
    done = openssl("x509", "-req", "-in", csr, "-CA", pki / "ca.crt", "-CAkey", pki / "ca.key",
                   "-set_serial", "7", "-days", days, "-extfile", ext, "-out", out)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("san,good", [
    ("DNS:" + SERVICE, True), ("IP:127.0.0.1", True), ("DNS:localhost,IP:::1", True),
    ("DNS:kubernetes.default.svc", False), ("DNS:poolgate-system.svc", False),
    ("IP:10.96.0.1", False), ("IP:::2", False), ("DNS:localhost,DNS:evil.example", False)])
def test_ca_may_sign_only_this(pki, tmp_path, openssl, san, good):
    cert = tmp_path / "forged.crt"
    sign(openssl, pki, cert, san)
    done = openssl("verify", "-purpose", "sslserver", "-CAfile", pki / "ca.crt", cert)
    assert (done.returncode == 0) == good, done.stdout + done.stderr
    if not good:
        assert "permitted subtree" in done.stderr
    # and a TLS server that shows it in place of ours is seen by `show`
    shutil.copy(cert, pki / "tls.crt")
    assert show(pki)[1]["signedByCA"] is good


def test_ca_signs_no_ca_and_no_client(pki, openssl):
    assert openssl("verify", "-purpose", "sslclient", "-CAfile", pki / "ca.crt",
                   pki / "tls.crt").returncode != 0
    text = openssl("x509", "-in", pki / "ca.crt", "-noout", "-text").stdout
    assert "CA:TRUE, pathlen:0" in text and "Certificate Sign, CRL Sign" in text


# ---- show

def test_show_table(pki):
    out = ok("show", "--dir", pki)
    for word in ["subject", "names", "may sign", "valid from", "valid until", "days left", "SHA-256",
                 "key matches  yes", "by ca.crt    yes", "ECDSA P-256", "IP:127.0.0.1/32"]:
        assert word in out, word


def test_show_wrong_key_and_wrong_ca(pki, tmp_path):
    other = tmp_path / "other"
    ok("init", "--dir", other)
    shutil.copy(other / "tls.key", pki / "tls.key")
    shutil.copy(other / "ca.crt", pki / "ca.crt")
    ca, tls = show(pki)
    assert (ca["keyMatches"], tls["keyMatches"], tls["signedByCA"]) == (False, False, False)
    out = ok("show", "--dir", pki)
    assert "key matches  NO: the private key belongs to another certificate" in out
    assert "by ca.crt    NO: " in out


def test_show_without_keys(pki):
    for name in ["ca.key", "tls.key", "ca.crt"]:
        (pki / name).unlink()
    (tls,) = show(pki)
    assert tls["keyMatches"] is None and tls["signedByCA"] is None
    assert "key matches" not in ok("show", "--dir", pki)


def test_show_files_and_bundles(pki, tmp_path):
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes((pki / "tls.crt").read_bytes() + b"text\n" + (pki / "ca.crt").read_bytes())
    found = json.loads(ok("show", bundle, pki / "ca.crt", "-o", "json"))["certificates"]
    assert [c["ca"] for c in found] == [False, True, True]
    assert [c["file"] for c in found] == [str(bundle), str(bundle), str(pki / "ca.crt")]
    assert datetime.datetime.fromisoformat(found[0]["notAfter"].replace("Z", "+00:00"))


def test_show_expired(pki, tmp_path, openssl):
    cert = tmp_path / "old.crt"
    sign(openssl, pki, cert, "DNS:localhost", days="-1")
    assert "EXPIRED" in ok("show", cert)
    (info,) = json.loads(ok("show", cert, "-o", "json"))["certificates"]
    assert info["expired"] is True and info["daysLeft"] < 0


def test_show_escapes(pki, tmp_path, openssl):
    """Neither a certificate's names nor a file's name reach the terminal as they are."""
    cert = tmp_path / "x\x1b[31m\xff.crt"
    key = tmp_path / "k"
    done = openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                   "-keyout", key, "-utf8", "-subj", "/CN=a\x1b]0;x\x07\n\u202eb", "-out", cert,
                   "-addext", "subjectAltName=DNS:a\x1b[2Jb")
    assert done.returncode == 0, done.stderr
    out = ok("show", cert)
    assert all(c == "\n" or " " <= c <= "~" for c in out), repr(out)
    (info,) = json.loads(ok("show", cert, "-o", "json"))["certificates"]
    text = json.dumps(info)
    assert "\\u001b" not in text and "1B" in info["subject"] and "1B" in info["file"]
    missing = certs("show", tmp_path / "no\x1b[31m")
    assert missing.returncode == 3 and "\x1b" not in missing.stderr


def test_show_unreadable(pki, tmp_path):
    (tmp_path / "junk").write_bytes(b"\x00\xff junk")
    (tmp_path / "torn").write_bytes((pki / "tls.crt").read_bytes()[:300])
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    big = tmp_path / "big"
    with open(big, "wb") as f:
        f.truncate(2 << 20)
    for bad in ["junk", "torn", "empty", "pipe", "big", "none", "."]:
        done = certs("show", tmp_path / bad)
        assert done.returncode == 3, bad
        assert str(tmp_path / bad) in done.stderr and done.stdout == ""
    # what can be shown is shown
    done = certs("show", tmp_path / "junk", pki / "ca.crt")
    assert done.returncode == 3 and "poolgate CA" in done.stdout
    done = certs("show", "--dir", tmp_path)
    assert done.returncode == 3 and "neither ca.crt nor tls.crt" in done.stderr


def test_show_to_full_device(pki):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([POOLGATE, "certs", "show", "--dir", str(pki)], stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 3 and "could not be written" in done.stderr


# ---- renew

def test_renew_not_due(pki):
    before = contents(pki)
    assert "not due" in ok("renew", "--dir", pki)
    assert "not due" in ok("renew", "--dir", pki, "--within-days", "300")
    assert contents(pki) == before


@pytest.mark.parametrize("option", [["--force"], ["--within-days", "366"]])
def test_renew(pki, openssl, option):
    before, names = contents(pki), show(pki)[1]["names"]
    assert "renewed" in ok("renew", "--dir", pki, *option)
    after = contents(pki)
    assert sorted(after) == FILES
    assert [n for n in FILES if after[n] != before[n]] == ["tls.crt", "tls.key"]
    assert stat.S_IMODE((pki / "tls.key").stat().st_mode) == 0o600
    tls = show(pki)[1]
    assert tls["names"] == names and tls["keyMatches"] and tls["signedByCA"]
    assert tls["daysLeft"] in (364, 365)
    assert openssl("verify", "-CAfile", pki / "ca.crt", pki / "tls.crt").returncode == 0


def test_renew_expired_pair(pki, tmp_path, openssl):
    """Two thirds of its life are over, all of it: renewed with its names, and valid again."""
    cert = tmp_path / "old.crt"
    sign(openssl, pki, cert, "DNS:localhost,IP:127.0.0.1", days="-1")
    shutil.copy(cert, pki / "tls.crt")
    shutil.copy(cert.with_suffix(".key"), pki / "tls.key")
    assert show(pki)[1]["expired"]
    assert "two thirds" in ok("renew", "--dir", pki, "--days", "20")
    tls = show(pki)[1]
    assert tls["names"] == ["DNS:localhost", "IP:127.0.0.1"]
    assert not tls["expired"] and tls["signedByCA"] and tls["keyMatches"]


def test_renew_mends_a_torn_pair(pki):
    (pki / "tls.key").unlink()
    assert "tls.key does not belong" in ok("renew", "--dir", pki)
    assert show(pki)[1]["keyMatches"]


def test_renew_never_outlives_the_ca(tmp_path):
    ok("init", "--dir", tmp_path, "--ca-days", "10")
    ok("renew", "--dir", tmp_path, "--force", "--days", "100")
    ca, tls = show(tmp_path)
    assert tls["notAfter"] == ca["notAfter"]


def test_renew_refused(pki, tmp_path, openssl):
    other = tmp_path / "other"
    ok("init", "--dir", other)
    # another CA's pair
    saved = contents(pki)
    for name in ["ca.crt", "ca.key"]:
        shutil.copy(other / name, pki / name)
    done = certs("renew", "--dir", pki)
    assert done.returncode == 1 and "not signed by ca.crt" in done.stderr
    # forced, the names still must be the CA's own
    done = certs("renew", "--dir", pki, "--force")
    assert done.returncode == 1 and "permitted" in done.stderr
    # key and certificate of the CA do not belong together
    (pki / "ca.crt").write_bytes(saved["ca.crt"])
    done = certs("renew", "--dir", pki, "--force")
    assert done.returncode == 1 and "does not belong" in done.stderr
    assert (pki / "tls.crt").read_bytes() == saved["tls.crt"]


@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "tls.crt"])
def test_renew_unreadable(pki, name):
    before = contents(pki)
    (pki / name).write_bytes(before[name][:100])
    assert certs("renew", "--dir", pki, "--force").returncode == 3
    (pki / name).unlink()
    done = certs("renew", "--dir", pki, "--force")
    assert done.returncode == 3 and name in done.stderr
    assert (pki / "tls.key").read_bytes() == before["tls.key"]


# ---- places that cannot be written

def test_below_a_file(tmp_path):
    (tmp_path / "file").touch()
    done = certs("init", "--dir", tmp_path / "file" / "dir")
    assert done.returncode == 3 and "Not a directory" in done.stderr
    assert certs("init", "--dir", tmp_path / "file").returncode == 3
    assert certs("init", "--dir", "/dev/full").returncode == 3


def test_directory_in_the_way(tmp_path):
    (tmp_path / "tls.crt").mkdir()
    done = certs("init", "--dir", tmp_path, "--force")
    assert done.returncode == 3 and "is a directory" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["tls.crt"]


def test_nothing_can_be_made_there():
    """/proc takes no directory, not even root's."""
    done = certs("init", "--dir", "/proc/poolgate")
    assert done.returncode == 3 and "/proc/poolgate: cannot be made" in done.stderr


@pytest.mark.parametrize("limit", [0, 300, 700])
def test_full_disk(pki, limit):
    """A file size limit stands for a full disk: nothing changes, nothing is left behind."""
    before = contents(pki)

    def full():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    for args in [("init", "--force"), ("renew", "--force")]:
        done = certs(*args, "--dir", pki, preexec_fn=full, restore_signals=False)
        assert done.returncode == 3, done.stdout
        assert "cannot be written" in done.stderr
        assert contents(pki) == before


# ---- usage

@pytest.mark.parametrize("args,says", [
    ([], "verb is missing"), (["mint"], "unknown verb"), (["init"], "--dir is missing"),
    (["init", "--dir"], "needs a value"), (["init", "--dir", "x", "--bogus"], "unknown option --bogus"),
    (["init", "--dir", "x", "y"], "unexpected"), (["init", "--dir", "x", "--dns", "10.0.0.1"], "use --ip"),
    (["init", "--dir", "x", "--dns", "*.svc"], "one server"), (["init", "--dir", "x", "--dns", "a\x1bb"], "a?b"),
    (["init", "--dir", "x", "--ip", "localhost"], "not an IP address"),
    (["init", "--dir", "x", "--service", "a.b"], "Service"), (["init", "--dir", "x", "--days", "0"], "days"),
    (["init", "--dir", "x", "--days", "1e3"], "days"), (["init", "--dir", "x", "--ca-days", "36501"], "days"),
    (["init", "--dir", "x", "--days", "20", "--ca-days", "10"], "longer than"),
    (["init", "--dir", "x", "--no-service"], "no names"),
    (["init", "--dir", "x", "--no-service", "--namespace", "y"], "excludes"),
    (["show"], "missing"), (["show", "--dir", "x", "y"], "exclude"), (["show", "-o", "yaml", "x"], "json"),
    (["show", "-o"], "needs a value"), (["renew"], "--dir is missing"),
    (["renew", "--dir", "x", "--force", "--within-days", "3"], "exclude"),
    (["renew", "--dir", "x", "--within-days", "-1"], "days")])
def test_usage(tmp_path, args, says):
    done = certs(*args, cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and done.stderr.endswith("--help` tells more\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("args", [["--help"], ["init", "--help"], ["show", "-h"], ["renew", "--help"]])
def test_help(args):
    out = ok(*args)
    assert "--within-days" in out and "Exit codes" in out
