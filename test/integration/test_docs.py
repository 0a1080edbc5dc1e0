# SPDX-License-Identifier: Apache-2.0
"""Commands in the docs are run: every ```sh block below a line <!-- test --> must end with status 0, in one shell per
document, in a copy of the examples. <!-- test: TEXT --> also wants TEXT in what the block prints."""
import glob
import os
import re
import shutil
import subprocess

import pytest

from lib.server import PROGRAM, ROOT, free_ports, make_pair

BLOCK = re.compile(r"<!-- test(?:: (.*?))? -->\s*```sh\n(.*?)```", re.S)
DOCUMENTS = sorted(glob.glob(os.path.join(ROOT, "*.md")) + glob.glob(os.path.join(ROOT, "docs/*.md")))


def blocks(path):
    with open(path, encoding="utf-8") as f:
        return BLOCK.findall(f.read())


@pytest.mark.parametrize("path", [d for d in DOCUMENTS if blocks(d)], ids=lambda p: os.path.basename(str(p)))
def test_commands(path, tmp_path):
    shutil.copytree(os.path.join(ROOT, "manifests"), tmp_path / "manifests")
    shutil.copytree(os.path.join(ROOT, "test/golden/recorded"), tmp_path / "test/golden/recorded")
    (tmp_path / "bin").mkdir()
    os.symlink(PROGRAM, tmp_path / "bin/poolgate")  # as `make install` leaves it, and as `make` does
    (tmp_path / "build").mkdir()
    os.symlink(os.path.dirname(os.path.abspath(PROGRAM)), tmp_path / "build/release")
    make_pair(str(tmp_path), "tls")
    env = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "HOME": str(tmp_path)}
    for n, port in zip(("PORT", "PLAIN_PORT", "ADMIN_PORT"), free_ports(3)):
        env[n] = str(port)
    script, wants = ["set -eu"], []
    for i, (want, text) in enumerate(blocks(path)):
        script += [f"echo '@@{i}'", text.rstrip()]
        wants.append(want)
    # What a block leaves running in the background ends with the shell.
    script.insert(1, "trap 'for p in $(jobs -p); do kill $p; done; wait' EXIT")
    done = subprocess.run(["bash", "-c", "\n".join(script)], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    parts = re.split(r"^@@\d+$", done.stdout + done.stderr * 0, flags=re.M)[1:]
    for want, part in zip(wants, parts):
        assert not want or want in part, part


@pytest.mark.parametrize("command, page", [(c, c.replace("uninject", "inject")) for c in ("serve", "inject", "uninject", "pool", "explain", "plan", "report", "certs", "doctor")])
def test_manual_pages_name_every_flag(command, page):
    """A flag that `poolgate help COMMAND` names and its manual page does not, or the other way round."""
    done = subprocess.run([PROGRAM, "help", command], capture_output=True, text=True, timeout=20, check=True)
    named = set(re.findall(r"(?<![\w-])--([a-z][a-z-]+)", done.stdout)) - {"help"}
    with open(os.path.join(ROOT, f"docs/man/poolgate-{page}.1"), encoding="utf-8") as f:
        told = set(re.findall(r"\bFl -([a-z][a-z-]+)", f.read().replace("\\-", "-")))
    assert named <= told, named - told
    if page == command and command != "inject":
        assert told <= named, told - named


def links(path):
    with open(path, encoding="utf-8") as f:
        text = re.sub(r"```.*?```", "", f.read(), flags=re.S)
    return re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text)


def anchors(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    heads = re.findall(r"^#+ (.+)$", text, re.M)
    made = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads}
    return made | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: os.path.basename(str(p)))
def test_links_lead_somewhere(path):
    for target, anchor in links(path):
        if re.match(r"[a-z]+:", target):
            continue
        file = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
        assert os.path.exists(file), target
        if anchor and file.endswith(".md"):
            assert anchor in anchors(file), f"{target}#{anchor}"
