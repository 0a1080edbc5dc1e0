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


def known_keys(folder, path):
    """The keys that a map of the config file may have, as they are told where one is unknown; none where it is no map."""
    text = "{nonesuch: 1}"
    for key in reversed(path):
        text = "{%s: %s}" % (key, text)
    head = "apiVersion: poolgate.io/v1alpha1, kind: Config, "
    (folder / "poolgate.yaml").write_text("{" + head + text[1:])
    done = subprocess.run([PROGRAM, "serve", "--check", "--config", "poolgate.yaml"], cwd=folder, capture_output=True, text=True, timeout=20, check=False)
    known = re.search(r"/nonesuch: unknown key .*known keys: (.*)", done.stderr)
    return known.group(1).split(", ") if known else []


def test_configuration_names_every_key_and_flag(tmp_path):
    """A key or a flag of the server that docs/configuration.md does not name, or the other way round."""
    with open(os.path.join(ROOT, "docs/configuration.md"), encoding="utf-8") as f:
        page = f.read()
    maps, keys = [()], set()
    while maps:
        path = maps.pop()
        for key in known_keys(tmp_path, path):
            if known_keys(tmp_path, (*path, key)):
                maps.append((*path, key))
            else:
                keys.add(".".join((*path, key)))
    assert len(keys) > 45 and "cluster.tls.manage" in keys
    assert not {k for k in keys if f"`{k}`" not in page and f"`{k.removeprefix('cluster.')}`" not in page}
    table = page.split("| Key | Flag |")[1].split("\n\n")[0]
    help_text = subprocess.run([PROGRAM, "serve", "--help"], capture_output=True, text=True, timeout=20, check=True).stdout
    assert set(re.findall(r"`--([a-z-]+)", table)) == set(re.findall(r"^  --([a-z-]+)", help_text, re.M)) - {"help"}
    assert set(re.findall(r"^\| `([\w.]+)`", table, re.M)) <= keys | {"cluster"}


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
