# SPDX-License-Identifier: Apache-2.0
"""What goes into packages fits the programs: a manual page and a completion for each, settings that the program accepts, units that name
what is installed."""
import glob
import json
import os
import re
import shutil
import subprocess

import pytest

from lib.server import PROGRAM, ROOT

PLUGIN = os.path.join(os.path.dirname(PROGRAM), "poolgate-device-plugin")
GATE = os.path.join(os.path.dirname(PROGRAM), "gpugate")
PROGRAMS = ["poolgate", "gpuprobe", "gpuprobe-serve", "poolgate-device-plugin", "gpugate"]
COMPLETION = os.path.join(ROOT, "share/bash-completion/poolgate-device-plugin")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def completed(program, folder, *words):
    """What bash offers for the last word once the program's own completion was loaded by name, as bash-completion does."""
    path = f"share/bash-completion/{program}"
    if not os.path.exists(os.path.join(ROOT, path)):
        assert program in re.search(r"^COMPLETED_ALSO = (.*)$", read("mk/install.mk"), re.M).group(1).split()
        path = "share/bash-completion/gpuprobe"
    script = ('source "$1"; shift; spec=$(complete -p "$1"); spec=${spec#*-F }; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
              '${spec%% *}; printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "-uc", script, "bash", os.path.join(ROOT, path), program, *words], cwd=folder, capture_output=True, text=True,
                          timeout=20, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_has_a_page_and_a_completion(program, tmp_path):
    assert glob.glob(os.path.join(ROOT, f"docs/man/{program}.[18]"))
    assert completed(program, tmp_path, "-")


def test_every_command_has_a_page():
    done = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, timeout=20, check=True)
    commands = set(re.findall(r"^  ([a-z]+) ", done.stdout, re.M)) - {"help", "version", "completion", "hooks"}  # which poolgate(1) tells
    pages = " ".join(read(p) for p in glob.glob(os.path.join(ROOT, "docs/man/poolgate-*.1")))
    assert {c for c in commands if f".Nm poolgate-{c}" not in pages} == set()


# ---- the device plugin's completion ----

def test_flags_of_the_plugin_are_those_of_its_help(tmp_path):
    done = subprocess.run([PLUGIN, "--help"], capture_output=True, text=True, timeout=20, check=True)
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", done.stdout))
    assert set(completed("poolgate-device-plugin", tmp_path, "--")) == flags


@pytest.mark.parametrize("words, values", [
    (["--log-format", ""], ["text", "json"]), (["--log-level", "=", "w"], ["warn"]), (["--units", ""], []), (["--env", "="], []),
    (["--kubeconfig", ""], ["file"]), (["--mo"], ["--mount"]), (["--units", "5", "--st"], ["--status"])])
def test_values_of_the_plugin(words, values, tmp_path):
    (tmp_path / "file").touch()
    assert completed("poolgate-device-plugin", tmp_path, *words) == values


# ---- gpugate's completion, page and unit ----

def gate_flags():
    """{command: its flags}, as the help tells; check takes what connect takes."""
    text = subprocess.run([GATE, "--help"], capture_output=True, text=True, timeout=20, check=True).stdout
    parts = re.split(r"^(serve|connect|check|gpus|each)[,:]", text, flags=re.M)
    flags = {name: {f"--{w}" for w in re.findall(r"(?<![\w-])--([a-z][a-z-]*)", part)} for name, part in zip(parts[1::2], parts[2::2])}
    return {name: flags[name] | flags["each"] for name in ("serve", "connect", "gpus")} | {"check": flags["connect"] | flags["each"]}


def test_flags_of_the_gate_are_those_of_its_help(tmp_path):
    every = gate_flags()
    assert "--profile" in every["serve"] and "--key" in every["serve"] and "--ca" in every["connect"]
    for command, flags in every.items():
        assert set(completed("gpugate", tmp_path, command, "--")) == flags | {"--help"}, command
        for flag in flags:
            done = subprocess.run([GATE, command, flag], capture_output=True, text=True, timeout=20, check=False)
            assert done.returncode == 2 and f"a value is missing after {flag}" in done.stderr, done
    page = read("docs/man/gpugate.1").replace("\\-", "-")
    assert set().union(*every.values()) == {f"-{w}" for w in re.findall(r"Fl (-[a-z][a-z-]*)", page)} - {"--help", "--version"}


@pytest.mark.parametrize("words, values", [
    ([""], ["serve", "connect", "check", "gpus", "--help", "--version"]), (["connect", "--log-format", "=", ""], ["text", "json"]),
    (["serve", "--cert", ""], ["file"]), (["serve", "--away", ""], [])])
def test_values_of_the_gate(words, values, tmp_path):
    (tmp_path / "file").touch()
    assert completed("gpugate", tmp_path, *words) == values


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze on this machine")
def test_unit_of_the_gate_is_valid(tmp_path):
    text = read("share/systemd/gpugate.service")
    start = re.search(r"^ExecStart=(.*(?:\\\n.*)*)", text, re.M)[1]
    assert set(re.findall(r"(?<![\w-])--[a-z-]+", start)) <= gate_flags()["serve"]
    args = re.findall(r"--[a-z-]+", read("manifests/components/gpugate/daemonset.yaml").split("args:")[1].split("env:")[0])
    assert args and set(args) <= gate_flags()["serve"]
    # Both ways give it the same rights.
    bounds = re.search(r"^CapabilityBoundingSet=(.*)$", text, re.M)[1].replace("CAP_", "").split()
    assert f"add: [{', '.join(bounds)}]" in read("manifests/components/gpugate/daemonset.yaml")
    unit = tmp_path / "gpugate.service"
    unit.write_text(re.sub(r"^Documentation=.*\n", "", text.replace("/usr/bin/gpugate", GATE), flags=re.M))
    done = subprocess.run(["systemd-analyze", "verify", "--recursive-errors=no", unit], capture_output=True, text=True, timeout=20, check=False)
    assert "gpugate" not in done.stderr and "Unknown" not in done.stderr, done.stderr


# ---- the packages' files ----

def test_the_packaged_settings_start_a_server(tmp_path):
    """`--check` with the settings and examples where debian/poolgate.install puts them, and with certificates as the unit makes them."""
    etc, tls = tmp_path / "etc", tmp_path / "tls"
    for line in read("packaging/debian/poolgate.install").splitlines():
        source, _, target = line.partition(" etc/poolgate")
        if target or line.endswith(" etc/poolgate"):
            (etc / target.strip("/")).mkdir(parents=True, exist_ok=True)
            for path in glob.glob(os.path.join(ROOT, source)):
                (etc / target.strip("/") / os.path.basename(path)).write_text(read(path), encoding="utf-8")
    text = (etc / "poolgate.yaml").read_text(encoding="utf-8").replace("/var/lib/poolgate/tls", str(tls))
    (etc / "poolgate.yaml").write_text(text, encoding="utf-8")
    subprocess.run([PROGRAM, "certs", "init", "--dev", "--dir", tls], capture_output=True, timeout=20, check=True)
    done = subprocess.run([PROGRAM, "serve", "--config", etc / "poolgate.yaml", "--check"], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("unit", ["poolgate", "gpuprobe", "gpugate"])
def test_units_run_what_the_packages_hold(unit):
    held = read(f"packaging/debian/{unit}.install").splitlines()
    assert f"lib/systemd/system/{unit}.service" in held
    for path in set(re.findall(r"/(usr/bin/[\w-]+)", read(f"share/systemd/{unit}.service"))):
        assert path in held, path


def test_one_version():
    version = re.search(r"^VERSION = (.*)$", read("Makefile"), re.M).group(1)
    assert read("packaging/debian/changelog").startswith(f"poolgate ({version}) ")


def test_the_example_of_thresholds_is_that_of_the_docs():
    text = read("share/examples/thresholds.json")
    assert json.loads(text)["schema"] == "gpuprobe.thresholds/1"
    assert text in read("docs/gpuprobe.md")
