# SPDX-License-Identifier: Apache-2.0
"""webhook/main: what is wrong with a command line is said as every subcommand says it, and every help shows how it is used."""
import os
import re
import shutil
import subprocess

import pytest

from lib import cli
from lib.server import PROGRAM, ROOT


@pytest.mark.parametrize("words, says", [
    (["servee"], 'unknown command "servee", did you mean serve?'), (["xyzzy"], "expected one of: serve inject"),
    (["pool", "--servr"], "unknown option --servr (did you mean --server?); `poolgate pool --help` tells more"),
    (["pool", "-o", "yaml"], '-o takes table or json, found "yaml"'), (["doctor", "-o=yaml"], '-o takes table or json, found "yaml"'),
    (["explain", "train-0"], 'found "train-0", expected NAMESPACE/POD'), (["explain", "a/b", "-o", "yaml"], '-o takes text or json, found "yaml"'),
    (["explain", "a/b", "c"], 'unexpected word "c"'), (["explain"], 'found "", expected NAMESPACE/POD'),
    (["plan", "-o", "table"], '-o takes text or json, found "table"'), (["plan", "--pooll", "x"], "unknown option --pooll (did you mean --pool?)"),
    (["plan", "-", "-f", "-"], "standard input is named more than once"), (["plan", "-n", "A"], '--namespace takes a namespace\'s name, found "A"'),
    (["plan", "--kubeconfig", "x", "--pool", "y"], "--kubeconfig and --pool exclude each other"),
    (["inject", "--client", "x"], "ambiguous option --client (--client-catalogue, --client-shell);"),
    (["doctor", "--namespace="], '--namespace takes a namespace\'s name, found ""'),
    (["certs", "init", "--dir", "x", "--service="], "--service takes a Service's name, 1 to 63 of a-z, 0-9 and '-', found \"\""),
    (["certs", "init", "--dir", "x", "--namespace="], "--namespace takes a namespace's name, 1 to 63 of a-z, 0-9 and '-', found \"\""),
    (["certs", "init", "--d=1"], "ambiguous option --d=1 (--dir, --dns, --dev, --days);"),
    (["inject", "-x"], "unknown option -x;"), (["inject", "--verbose=3"], "--verbose=3 takes no value;"),
    (["inject", "-f"], "-f needs a value;"), (["certs", "show", "--dirr"], "unknown option --dirr (did you mean --dir?);"),
    (["serve", "--listn", "x"], "unknown flag --listn, did you mean --listen?"),
    (["serve", "--drain-delay", "5"], 'found "5", did you mean 5s?'),
    (["serve", "--check", "--listen", "foo:80"], 'found "foo:80", expected ADDR:PORT')])
def test_command_lines_are_answered_in_one_voice(words, says):
    """One line on standard error, with what was probably meant; exit status 2."""
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 2 and done.stdout == ""
    assert says in done.stderr and done.stderr.startswith("poolgate") and done.stderr.count("\n") == 1, done.stderr


def test_the_settings_of_a_cluster_are_checked_outside_it(tmp_path):
    """As shipped: the certificate is a Secret's there, and no file."""
    config = tmp_path / "poolgate" / "poolgate.yaml"
    shutil.copytree(os.path.join(ROOT, "manifests/base/config"), config.parent)
    shutil.copytree(os.path.join(ROOT, "manifests/base/poolgate-launchers"), tmp_path / "poolgate-launchers")
    done = subprocess.run([PROGRAM, "serve", "--check", "--config", config], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0 and "null" not in done.stderr, done.stderr
    assert re.search(r"^certificate +of the Secret poolgate-tls of the cluster", done.stdout, re.M), done.stdout


@pytest.mark.parametrize("command", ["serve", "inject", "uninject", "pool", "explain", "plan", "report", "hooks", "certs", "doctor", "completion"])
def test_help_ends_in_examples(command):
    done = subprocess.run([PROGRAM, command, "--help"], capture_output=True, text=True, timeout=20, check=True)
    assert [line[:11] for line in done.stdout.splitlines()[-3:]][0] == "Examples:", done.stdout


@pytest.mark.parametrize("option", ["--file", "--filename", "--fil", "--filen", "--f", "-f"])
def test_an_option_may_be_cut_short(tmp_path, option):
    """--file and --filename are one option, so what both begin with means it."""
    (tmp_path / "a.yaml").write_text("kind: ConfigMap\nmetadata: {name: a}\n")
    status, out, err = cli.run("inject", *cli.profile_args(cli.DEFAULT_CONFIG), option, str(tmp_path / "a.yaml"))
    assert status == 0 and b"name: a" in out, err


def test_a_folder_is_injected(tmp_path):
    (tmp_path / "b.yaml").write_text("kind: ConfigMap\nmetadata: {name: b}\n")
    (tmp_path / "a.json").write_text('{"kind": "ConfigMap", "metadata": {"name": "a"}}')
    (tmp_path / "read.me").write_text("no manifest")
    status, out, err = cli.inject(str(tmp_path))
    assert status == 0 and out.index(b'"a"') < out.index(b"name: b"), err
    (tmp_path / "none").mkdir()
    status, out, err = cli.inject(str(tmp_path / "none"))
    assert (status, out) == (3, b"") and "no *.yaml, *.yml or *.json in this folder" in err
