# SPDX-License-Identifier: Apache-2.0
"""The completion for bash offers what the program's help names: every flag, and no flag or value that is refused."""
import os
import re
import subprocess

import pytest

from lib.server import PROGRAM, ROOT

COMPLETION = os.path.join(ROOT, "share/bash-completion/poolgate")
COMMANDS = ["serve", "inject", "uninject", "pool", "explain", "plan", "report", "hooks", "certs", "doctor", "completion"]
VERBS = {"pool": ["", "release"], "certs": ["init", "show", "renew"]}
PLACES = [[c, v] if v else [c] for c in COMMANDS for v in VERBS.get(c, [""])]


def run(*args, cwd=None):
    return subprocess.run([PROGRAM, *args], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20,
                          check=False)


def offered(folder, *words):
    """What is offered for the last of the words behind `poolgate`, in an empty folder."""
    script = 'source "$1"; shift; COMP_WORDS=(poolgate "$@"); COMP_CWORD=$#; _poolgate; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-uc", script, "bash", COMPLETION, *words], cwd=folder, capture_output=True, text=True,
                          timeout=20, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def long_flags(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))


def helped(command):
    done = run(command, "--help")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_commands_are_those_of_the_help(tmp_path):
    named = re.findall(r"^  ([a-z]+) ", run("--help").stdout, re.M)
    assert set(COMMANDS) < set(named)
    assert sorted(offered(tmp_path, "")) == sorted(named + ["--help", "--version"])
    assert offered(tmp_path, "version", "") == []
    assert sorted(offered(tmp_path, "help", "")) == sorted(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_long_flags_are_those_of_the_help(command, tmp_path):
    every = set()
    for verb in VERBS.get(command, [""]):
        every |= long_flags(" ".join(offered(tmp_path, command, *([verb] if verb else []), "-")))
    assert every == long_flags(helped(command)) | {"--help"}


@pytest.mark.parametrize("place", PLACES, ids=" ".join)
def test_each_flag_is_known_where_it_is_offered(place, tmp_path):
    flags = [w for w in offered(tmp_path, *place, "-") if w.startswith("-")]
    assert "--help" in flags
    for flag in flags:
        done = run(*place, flag, "x", cwd=tmp_path)
        assert not re.search(r"unknown (option|flag)|unrecognized|invalid option|belongs to release|go with", done.stderr), flag


def test_verbs(tmp_path):
    assert set(offered(tmp_path, "certs", "")) == {"init", "show", "renew", "--help"}
    assert "release" in offered(tmp_path, "pool", "")
    assert "release" not in offered(tmp_path, "pool", "release", "")
    assert offered(tmp_path, "certs", "re") == ["renew"]


@pytest.mark.parametrize("words, values", [
    (["inject", "-o"], ["yaml", "json", "patch", "diff"]),
    (["uninject", "--output"], ["yaml", "json", "patch", "diff"]),
    (["pool", "-o"], ["table", "json"]),
    (["plan", "-o"], ["text", "json"]),
    (["certs", "show", "--output"], ["table", "json"]),
    (["serve", "--log-format"], ["text", "json"]),
    (["serve", "--log-level"], ["error", "warn", "info", "debug"]),
    (["serve", "--secret-without-claim"], ["true", "false"]),
    (["serve", "--listen"], []),
], ids=lambda w: " ".join(w))
def test_values(words, values, tmp_path):
    assert offered(tmp_path, *words, "") == values
    assert offered(tmp_path, *words, "=") == values
    for value in values:
        refusal = run(*words, "wrong").stderr
        assert "wrong" in refusal
        assert run(*words, value).stderr != refusal.replace("wrong", value)


@pytest.mark.parametrize("words", [["inject", ""], ["inject", "-f", ""], ["plan", ""], ["certs", "show", ""], ["serve", "--config", "=", ""],
                                   ["serve", "--launchers", ""], ["certs", "init", "--dir", ""]], ids=" ".join)
def test_files(words, tmp_path):
    (tmp_path / "a file.yaml").touch()
    assert "file.yaml" in offered(tmp_path, *words)
    assert "file.yaml" not in offered(tmp_path, *words[:-1], "b")


# ---- the other shells, through `poolgate completion`

ASKED = [(["po"], ["pool"]), (["certs", ""], ["--help", "init", "renew", "show"]), (["pool", "-o", ""], ["json", "table"]), (["serve", "--log-fo"], ["--log-format"]),
         (["nothing", "zz"], [])]


def shell(argv, tmp_path):
    done = subprocess.run(argv, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False,
                          env={"PATH": f"{os.path.dirname(PROGRAM)}:{os.environ['PATH']}", "HOME": str(tmp_path)})
    assert done.returncode == 0 and done.stderr == "", done
    return done.stdout


def test_bash_gets_the_file_that_is_installed():
    with open(COMPLETION, encoding="utf-8") as f:
        assert run("completion", "bash").stdout == f.read()


@pytest.mark.parametrize("words, wanted", ASKED, ids=lambda w: " ".join(w))
def test_zsh(words, wanted, tmp_path):
    script = ('compdef() { }; compadd() { shift; print -l -- "$@" }; source <(poolgate completion zsh); words=(poolgate "$@"); '
              'CURRENT=$#words; _poolgate')
    assert sorted(shell(["zsh", "-fc", script, "zsh", *words], tmp_path).split()) == wanted


@pytest.mark.parametrize("words, wanted", ASKED, ids=lambda w: " ".join(w))
def test_fish(words, wanted, tmp_path):
    line = " ".join(["poolgate", *words])
    assert sorted(shell(["fish", "-c", f"poolgate completion fish | source; complete -C '{line}'"], tmp_path).split()) == wanted


def test_another_shell():
    done = run("completion", "tcsh")
    assert done.returncode == 2 and 'found "tcsh", expected bash, zsh or fish' in done.stderr
