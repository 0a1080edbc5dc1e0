# SPDX-License-Identifier: Apache-2.0
"""What is shipped with gpuprobe says what the programs say: manual pages, docs/gpuprobe.md, the completion for bash, the systemd unit."""
import os
import re
import shutil
import subprocess

import pytest

from lib.server import PROGRAM, ROOT

BUILD = os.path.dirname(PROGRAM)
# The whole of gpuprobe, over a runtime that is loaded: it is built without CUDA, too.
PROBE, SERVE = (os.path.join(BUILD, name) for name in ("gpuprobe-fake", "gpuprobe-serve"))
COMPLETION = os.path.join(ROOT, "share/bash-completion/gpuprobe")
COMMANDS = ["list", "verify", "stress", "bench", "compare", "serve"]

pytestmark = pytest.mark.skipif(not os.path.exists(PROBE), reason=f"{PROBE} is missing: `make fakes` builds it")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def run(program, *args, cwd=None):
    return subprocess.run([program, *args], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)


def helped(program, *command):
    done = run(program, *command, "--help")
    assert done.returncode == 0, done.stderr
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", done.stdout)) | {"--help"}


# ---- pages ----

@pytest.mark.parametrize("program, page", [(PROBE, "gpuprobe.1"), (SERVE, "gpuprobe-serve.8")], ids=["gpuprobe", "gpuprobe-serve"])
def test_manual_page_names_every_option(program, page):
    """An option of the help that the page lacks, or one that is no more; mdoc writes the first dash of two itself."""
    text = re.sub(r"^\.Bl .*\n", "", read("docs/man/" + page), flags=re.M).replace("\\-", "-")
    told = {"--" + w for w in re.findall(r"(?<=\s)-([a-z][a-z0-9-]*)", text)}
    assert told | {"--help"} == helped(program)


def test_docs_tell_every_code():
    """docs/gpuprobe.md says what to do about each code, and about none that does not exist."""
    codes = set(re.findall(r'\[CODE_\w+\] = \{\s*"([A-Z0-9_]+)"', read("probe/result/codes.c")))
    assert len(codes) > 40
    rows = read("docs/gpuprobe.md").split("## Codes")[1].split("\n## ")[0]
    told = {c for line in rows.splitlines() if line.startswith("| `") for c in re.findall(r"`([A-Z0-9_]+)`", line.split("|")[1])}
    assert told == codes, sorted(told ^ codes)


def test_docs_tell_every_check():
    """And in which runs it is required (R), optional (o) or left out, as the program has it."""
    checks = {name: tuple(needs.split(", ")) for name, needs in re.findall(
        r'\[CHECK_\w+\] = \{\s*"([a-z0-9_.]+)", "[^"]+",\s*\{([Rox, ]+)\}', read("probe/result/check.c"))}
    assert len(checks) == len(re.findall(r"\[CHECK_(?!COUNT)", read("probe/result/check.c")))
    told = {}
    for line in read("docs/gpuprobe.md").split("## What each check proves")[1].split("\n## ")[0].splitlines():
        cells = [c.strip() for c in line.split("|")]
        if line.startswith("| `"):
            needs = tuple({"–": "x", "`--free`": "o"}.get(c, c) for c in cells[2:7])
            told.update({name: needs for name in re.findall(r"`([^`]+)`", cells[1])})
    assert told == checks, sorted(set(told.items()) ^ set(checks.items()))


def test_third_party_notice_is_of_what_is_fetched():
    """docs/third-party.md names the runtime that tools/cuda.txt pins, and where its licence goes."""
    wheel, version = re.search(r"^(nvidia-cuda-runtime-cu12)==(\S+)", read("tools/cuda.txt"), re.M).groups()
    row = next(line for line in read("docs/third-party.md").splitlines() if "libcudart_static.a" in line)
    assert f"`{wheel}`" in row and f"| {version} |" in row
    name = re.search(r"^CUDA_LICENCE_NAME = (\S+)", read("mk/install.mk"), re.M).group(1)
    assert f"share/doc/gpuprobe/{name}" in row


# ---- completion ----

def offered(folder, *words, program="gpuprobe"):
    """What is offered for the last of the words behind the program's name, in an empty folder."""
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _gpuprobe; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-uc", script, "bash", COMPLETION, program, *words], cwd=folder, capture_output=True, text=True,
                          timeout=20, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_commands_are_those_of_the_help(tmp_path):
    named = re.findall(r"^  ([a-z]+) ", run(PROBE, "--help").stdout, re.M)
    assert named == COMMANDS
    assert [w for w in offered(tmp_path, "") if not w.startswith("-")] == COMMANDS
    assert offered(tmp_path, "s") == ["stress", "serve"]


def test_long_flags_are_those_of_the_help(tmp_path):
    every = set()
    for command in COMMANDS[:-2]:
        every |= set(offered(tmp_path, command, "-"))
    assert every == helped(PROBE)
    assert set(offered(tmp_path, "compare", "-")) == helped(PROBE, "compare")
    assert set(offered(tmp_path, "serve", "-")) == set(offered(tmp_path, "-", program="gpuprobe-serve")) == helped(SERVE)


@pytest.mark.parametrize("place", [[], *([c] for c in COMMANDS)], ids=lambda p: " ".join(p) or "none")
def test_each_flag_is_known_where_it_is_offered(place, tmp_path):
    for flag in (w for w in offered(tmp_path, *place, "-") if w not in ("--help", "--version")):
        done = run(PROBE, *place, flag, "x", cwd=tmp_path)
        assert done.returncode != 0
        assert not re.search(r"unknown option|belongs to|none of --", done.stderr), (flag, done.stderr)


@pytest.mark.parametrize("words, values", [(["verify", "--progress"], ["auto", "always", "never"]), (["--gpu"], []),
                                           (["serve", "--listen"], []), (["compare"], ["a-file.json"]), (["bench", "--save-reference"], ["a-file.json"]),
                                           (["--json", "="], ["a-file.json"])], ids=lambda w: " ".join(w))
def test_values(words, values, tmp_path):
    (tmp_path / "a-file.json").touch()
    assert offered(tmp_path, *words, "") == values
    if "=" not in words:
        assert offered(tmp_path, *words, "=") == values
        assert offered(tmp_path, *words, "=", "a") == [v for v in values if v.startswith("a")]


# ---- the unit ----

@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze on this machine")
def test_unit_is_valid(tmp_path):
    """As systemd reads it: no unknown setting, no value that it does not take, a program that is there."""
    unit = tmp_path / "gpuprobe.service"
    text = read("share/systemd/gpuprobe.service")
    assert text.count("/usr/bin/gpuprobe-serve ") == 1
    # Pages of the manual and kill need not be on a machine that builds.
    text = re.sub(r"^(Documentation|ExecReload)=.*\n", "", text.replace("/usr/bin/gpuprobe-serve", SERVE), flags=re.M)
    unit.write_text(text)
    done = run("systemd-analyze", "verify", "--recursive-errors=no", str(unit))
    said = [line for line in done.stderr.splitlines() if "gpuprobe" in line]
    assert said == [] and "Unknown" not in done.stderr, done.stderr


def test_unit_passes_options_that_exist():
    start = re.search(r"^ExecStart=(.*(?:\\\n.*)*)", read("share/systemd/gpuprobe.service"), re.M).group(1)
    used = set(re.findall(r"(?<![\w-])--[a-z-]+", start))
    assert used and used <= helped(SERVE)
    args = re.findall(r"--[a-z-]+", read("manifests/components/gpuprobe/daemonset.yaml").split("args:")[1].split("env:")[0])
    assert args and set(args) <= helped(SERVE)
