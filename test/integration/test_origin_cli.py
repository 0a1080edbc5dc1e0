# SPDX-License-Identifier: Apache-2.0
"""The origin's own command line starts the server, too: its users change the image alone."""
import json
import os
import re
import subprocess
import time

import pytest

from lib import reviews
from lib.pods import container, pod
from lib.server import PROGRAM, ROOT, SLOW, free_ports


def argv(server, extra=(), dashes="-", equals=False):
    pairs = [("port", str(server.port)), ("tlsCertFile", server.cert), ("tlsKeyFile", server.key),
             ("sidecarCfgFile", server.path("sidecar.yaml")), ("bitfusionClientConfig", server.path("catalogue.yaml"))]
    words = [PROGRAM]
    for name, value in pairs:
        words += [f"{dashes}{name}={value}"] if equals else [dashes + name, value]
    return words + list(extra)


@pytest.mark.parametrize("dashes,equals", [("-", False), ("-", True), ("--", False), ("--", True)])
def test_starts_and_mutates(fresh, dashes, equals):
    server = fresh(start=False)
    listeners = ["--listen-plain", f"127.0.0.1:{server.plain}", "--listen-admin", f"127.0.0.1:{server.admin}",
                 "--drain-delay", "0s"]
    server.start(argv(server, listeners, dashes, equals))
    got = server.review("/mutate", reviews.review(reviews.default_resources(pod())))
    assert got["allowed"] and got["pod"]["spec"]["containers"][0]["command"][1] == "run"
    assert server.stop() == 0


def test_glog_flags_of_old_manifests_are_no_error(fresh):
    """The origin's manifests carry -alsologtostderr, -v=4 and a literal 2>&1 among the arguments."""
    server = fresh(start=False)
    listeners = ["-alsologtostderr", "-v=4", "2>&1", "--listen-plain", f"127.0.0.1:{server.plain}",
                 "--listen-admin", f"127.0.0.1:{server.admin}"]
    server.start(argv(server, listeners))
    assert server.review("/mutate", reviews.review(reviews.default_resources(pod())))["pod"]


def check(*args, env=None):
    environment = {**os.environ, "TOTAL_GPU_MEMORY": "16000", **(env or {})}
    done = subprocess.run([PROGRAM, "serve", "--check", *args], capture_output=True, text=True, env=environment, timeout=30,
                          check=False)
    return done.returncode, done.stdout + done.stderr


def files(server):
    return ["--tls-cert", server.cert, "--tls-key", server.key, "--client-catalogue", server.path("catalogue.yaml"),
            "--sidecar-config", server.path("sidecar.yaml"), "--pool", server.path("pool.yaml")]


def test_check_is_content(fresh):
    server = fresh(start=False)
    status, out = check(*files(server))
    assert status == 0, out
    shown = subprocess.run([PROGRAM, "pool", "--pool", server.path("pool.yaml")], capture_output=True, text=True, timeout=30, check=True)
    megabytes = re.search(r"(\d+ MB) free, 0 claims", shown.stdout).group(1)
    assert out.rstrip().splitlines() and f", {megabytes}\n" in out, "one unit in both"


@pytest.mark.parametrize("name,text,words", [
    ("pool.yaml", "kind: GPUServer\nmetadata: {name: Bad_Name}\n", ["pool.yaml", "1"]),
    ("catalogue.yaml", "BitfusionClients:\n  - {BitfusionVersion: 450, OSVersion: x}\n", ["catalogue.yaml", "2"]),
    ("sidecar.yaml", "initContainers: {}\n", ["sidecar.yaml", "initContainers"]),
    ("catalogue.yaml", "bitfusionclients: []\n", ["catalogue.yaml", "BitfusionClients"]),
    ("sidecar.yaml", "initContainers: [\n", ["sidecar.yaml"])])
def test_check_names_file_line_and_path(fresh, name, text, words):
    server = fresh(start=False)
    with open(server.path(name), "w", encoding="utf-8") as f:
        f.write(text)
    status, out = check(*files(server))
    assert status != 0
    for word in words:
        assert word in out, out


def test_check_goes_on_after_the_first_wrong_file(fresh, tmp_path):
    """Each file that is wrong is named, by whom it was asked for, in one run."""
    server = fresh(start=False)
    config = tmp_path / "c.yaml"
    (tmp_path / "l").mkdir()
    (tmp_path / "l" / "a.yaml").write_text("kind: [\n")
    (tmp_path / "l" / "b.yaml").write_text("kind: Pod\n")
    config.write_text("apiVersion: poolgate.io/v1alpha1\nkind: Config\nclientCatalogue: b/nope\n"
                      "sidecarConfig: b/nor\nlaunchers: [l]\npool: pools\n"
                      f"tls:\n  cert: {server.cert}\n")
    status, out = check("--config", str(config), "--tls-key", "nokey")
    assert status == 3, out
    for words in (f"{config}:3: /clientCatalogue: cannot open {tmp_path}/b/nope: No such file or directory",
                  f"{config}:4: /sidecarConfig: cannot open {tmp_path}/b/nor: ", f"{tmp_path}/l/a.yaml:", f"{tmp_path}/l/b.yaml:1:",
                  f"{config}:6: /pool: cannot open {tmp_path}/pools: ", "flag --tls-key: cannot open nokey: "):
        assert words in out, (words, out)


@pytest.mark.parametrize("value,good", [("16G", True), ("16160Mi", True), ("16000", True), ("x", False), ("0", False), ("-1", False),
                                        ("1e30", False), ("16 G", False)])
def test_total_gpu_memory(fresh, value, good):
    server = fresh(start=False)
    status, out = check(*files(server), env={"TOTAL_GPU_MEMORY": value})
    assert (status == 0) == good, out
    assert good or "TOTAL_GPU_MEMORY" in out


def test_usage_errors_are_2(fresh):
    server = fresh(start=False)
    for args in (["serve", "--nonesuch"], ["nonesuch"], ["serve", "--listen", "nowhere"], ["serve", "--listen"]):
        done = subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 2 and done.stderr, (args, done)
    assert free_ports(1) and server


def test_port_in_use_is_said(fresh):
    first = fresh()
    second = fresh(start=False)
    second.port = first.port
    second.start(wait=False)
    assert second.process.wait(10) != 0
    assert str(first.port) in second.log()


@pytest.mark.parametrize("args", [["--help"], ["help"], ["--version"], ["serve", "--help"], ["inject", "--help"], ["pool", "--help"],
                                  ["certs", "--help"]])
def test_help(args):
    done = subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0 and done.stdout, done


def test_check_warns_of_an_init_container_that_restricted_refuses(fresh):
    """The origin's sidecar config runs as root: it stays as it is, and the operator is told."""
    server = fresh(start=False)
    status, out = check(*files(server))
    assert status == 0 and "populate" in out and "restricted" in out, out
    shipped = os.path.join(ROOT, "manifests/examples/sidecar.yaml")
    status, out = check(*[shipped if a.endswith("sidecar.yaml") else a for a in files(server)])
    assert status == 0 and "restricted" not in out, out


def test_secret_without_claim_is_a_setting(fresh):
    volume = {"name": "s", "secret": {"secretName": "bitfusion-client-secret-ca.crt"}}
    thief = reviews.stored(pod(container("c", ["sh"], {}), switch=None, volumes=[volume]))
    for value, allowed in (("true", False), ("false", True)):
        server = fresh(args=["--secret-without-claim", value])
        assert server.review("/validate", reviews.review(thief))["allowed"] is allowed


def test_no_pool_refuses_what_nobody_can_hold(fresh):
    """Without a pool nothing is free: said at once, instead of admitted for ever."""
    server = fresh(start=False)
    server.start([a for i, a in enumerate(server.argv()) if "--pool" not in (a, server.argv()[i - 1])])
    got = server.review("/mutate", reviews.review(reviews.default_resources(pod())))
    assert got["allowed"] and got["pod"]
    got = server.review("/validate", reviews.review(reviews.stored(got["pod"])))
    assert not got["allowed"] and got["reason"] == "NoServer", got


def test_first_reply_comes_soon_after_the_start(fresh):
    server = fresh(start=False)
    began = time.monotonic()
    server.start(wait=False)
    body = json.dumps(reviews.review(reviews.default_resources(pod()))).encode()
    while time.monotonic() - began < 5:
        try:
            assert server.new_client().request("POST", "/mutate", body)[0] == 200
            break
        except OSError:
            time.sleep(0.001)
    assert time.monotonic() - began < 0.5 * SLOW, "the goal is 20 ms; this is the alarm"
