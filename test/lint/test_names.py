# SPDX-License-Identifier: Apache-2.0
"""The names of the images: what is built, what the manifests ask for and what the documents say is the same, of this version."""
import os
import re
import subprocess

import pytest
import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NAMES = {"IMAGE": ("base", "deployment.yaml"), "DEVICE_IMAGE": ("components/device-plugin", "daemonset.yaml"),
         "PROBE_IMAGE": ("components/gpuprobe", "daemonset.yaml"), "GATE_IMAGE": ("components/gpugate", "daemonset.yaml")}


@pytest.fixture(scope="module", name="make")
def fixture_make():
    """What make calls them, and VERSION."""
    names = [*NAMES, "VERSION"]
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    said = subprocess.run(["make", "--no-print-directory", "--eval", f"show: ; @echo {' '.join(f'$({n})' for n in names)}", "show"],
                          cwd=ROOT, env=env, check=True, capture_output=True, text=True).stdout
    return dict(zip(names, said.split(), strict=True))


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as f:
        return f.read()


@pytest.mark.parametrize("variable", NAMES)
def test_what_is_built_is_what_is_asked_for(make, variable):
    folder, workload = NAMES[variable]
    image, = yaml.safe_load(read("manifests", folder, "kustomization.yaml"))["images"]
    assert make[variable] == f"{image['newName']}:{make['VERSION']}" == f"{image['newName']}:{image['newTag']}"
    # kustomize changes what has this name, and says nothing where none has.
    assert re.findall(r"^ *image: (.*)$", read("manifests", folder, workload), re.MULTILINE) == [image["name"]]


def test_documents_name_what_is_built(make):
    names = {make[v] for v in NAMES}
    said = {name for page in os.listdir(os.path.join(ROOT, "docs")) if page.endswith(".md")
            for name in re.findall(r"\blocalhost/[a-z-]+:[\w.]+", read("docs", page))}
    assert said and said <= names
