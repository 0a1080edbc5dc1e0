# SPDX-License-Identifier: Apache-2.0
"""What `make release` left in a folder ($RELEASE) for a version ($VERSION): each thing is there, says the version and is what the others say."""
import glob
import hashlib
import json
import os
import re
import subprocess
import tarfile

import pytest
import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
RELEASE, VERSION = os.environ["RELEASE"], os.environ["VERSION"]
ARCH = subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True).stdout.strip()
IMAGES = [line.split()[0] for line in open(os.path.join(RELEASE, "images.txt"), encoding="utf-8")]


def at(name):
    return os.path.join(RELEASE, name)


def read(name):
    with open(at(name), encoding="utf-8") as f:
        return f.read()


def sha256(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def documents(text):
    return [d for d in yaml.safe_load_all(text) if d]


def objects(text):
    """By what the API server knows them by; a List is its items."""
    return {(d["kind"], d["metadata"].get("namespace", ""), d["metadata"]["name"]): d for d in documents(text)}


def test_sums_name_every_file_and_hold():
    sums = dict(reversed(line.split("  ")) for line in read("SHA256SUMS").splitlines())
    assert set(sums) == set(os.listdir(RELEASE)) - {"SHA256SUMS", "SHA256SUMS.sigstore.json"}
    assert {name: sha256(at(name)) for name in sums} == sums


def test_all_is_there():
    titles = {name.split("/")[-1].split(":")[0] for name in IMAGES}
    assert {"poolgate", "poolgate-device-plugin", "gpugate"} <= titles
    overlays = [os.path.basename(d) for d in glob.glob(os.path.join(ROOT, "manifests/overlays/*"))]
    want = {f"poolgate-{VERSION}.tar.gz", f"poolgate-{VERSION}-linux-{ARCH}.tar.gz", f"kubectl-poolgate-{VERSION}-linux-{ARCH}.tar.gz",
            f"poolgate-{VERSION}.tgz", "poolgate.yaml", "install.yaml", "crds.yaml", "images.txt", "RELEASE-NOTES.md", "SHA256SUMS",
            *(f"{t}-{VERSION}-linux-{ARCH}.oci.tar" for t in titles), *(f"{t}-{VERSION}.spdx.json" for t in titles),
            *(f"install-{o}.yaml" for o in overlays), *(f"{p}_{VERSION}_{ARCH}.deb" for p in ("poolgate", "gpuprobe", "poolgate-device-plugin", "gpugate"))}
    assert want <= set(os.listdir(RELEASE))
    assert all(f"_{VERSION}_{ARCH}." in n for n in os.listdir(RELEASE) if n.endswith((".deb", ".ddeb")))


def test_programs_say_the_version(tmp_path):
    subprocess.run(["tar", "-xzf", at(f"poolgate-{VERSION}-linux-{ARCH}.tar.gz"), "-C", tmp_path], check=True)
    subprocess.run(["tar", "-xzf", at(f"kubectl-poolgate-{VERSION}-linux-{ARCH}.tar.gz"), "-C", tmp_path], check=True)
    programs = [tmp_path / f"poolgate-{VERSION}/bin/{p}" for p in ("poolgate", "gpuprobe-serve", "poolgate-device-plugin", "gpugate")]
    for program in [*programs, tmp_path / "kubectl-poolgate"]:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True, timeout=20).stdout
        assert said.split()[-1] == VERSION, program
    assert (tmp_path / f"poolgate-{VERSION}/LICENSE").exists() and (tmp_path / "LICENSE").exists()


def test_the_source_is_the_commit_with_the_version():
    with tarfile.open(at(f"poolgate-{VERSION}.tar.gz")) as tar:
        names = {n.split("/", 1)[1] for n in tar.getnames() if "/" in n}
        text = tar.extractfile(f"poolgate-{VERSION}/CHANGELOG.md").read().decode()
        makefile = tar.extractfile(f"poolgate-{VERSION}/Makefile").read().decode()
    tracked = subprocess.run(["git", "-C", ROOT, "ls-tree", "-r", "--name-only", os.environ.get("REV") or "HEAD"], check=True, capture_output=True,
                             text=True).stdout.splitlines()
    assert set(tracked) <= names and not any(n.startswith((".git/", "build/")) for n in names)
    assert f"\nVERSION = {VERSION}\n" in makefile and re.search(rf"^## {re.escape(VERSION)}\b", text, re.M)
    notes = re.split(r"^## .*\n", text, flags=re.M)[1]
    assert read("RELEASE-NOTES.md").strip() == notes.strip()


def test_images_are_the_digests_that_are_named():
    for line in read("images.txt").splitlines():
        name, digest = line.split()
        title = name.split("/")[-1].split(":")[0]
        assert name.endswith(f":{VERSION}")
        with tarfile.open(at(f"{title}-{VERSION}-linux-{ARCH}.oci.tar")) as tar:
            index = json.load(tar.extractfile("./index.json"))
        assert [m["digest"] for m in index["manifests"]] == [digest]
        sbom = json.loads(read(f"{title}-{VERSION}.spdx.json"))
        assert sbom["spdxVersion"].startswith("SPDX-") and VERSION in json.dumps(sbom["packages"])


def test_manifests_ask_for_the_images():
    for path in glob.glob(at("install*.yaml")):
        asked = set(re.findall(r"^ *(?:- )?image: (\S+)$", read(os.path.basename(path)), re.M))
        assert asked and {a for a in asked if "/poolgate" in a} <= set(IMAGES), path
    base, crds = objects(read("install.yaml")), objects(read("crds.yaml"))
    assert set(crds) <= set(base) and all(kind == "CustomResourceDefinition" for kind, _, _ in crds)


def test_the_chart_holds_what_the_trees_does(tmp_path):
    subprocess.run(["tar", "-xzf", at(f"poolgate-{VERSION}.tgz"), "-C", tmp_path], check=True)
    chart = yaml.safe_load((tmp_path / "poolgate/Chart.yaml").read_text(encoding="utf-8"))
    assert chart["version"] == chart["appVersion"] == VERSION
    assert not [p for p in tmp_path.rglob("*") if p.is_symlink()]
    assert (tmp_path / "poolgate/files/base/deployment.yaml").exists() and not list(tmp_path.glob("poolgate/files/overlays/*/kustomization.yaml"))
    if "POOLGATE_HELM" not in os.environ:
        pytest.skip("without Helm: make helm-check builds it")
    program = os.path.join(os.environ["POOLGATE_HELM"], "helm")
    ways = [["--set", "secrets.enabled=true", "--set", "devicePlugin.enabled=true", "--set", "gpuprobe.enabled=true", "--set", "monitoring.enabled=true"], []]
    for flags in ways:
        texts = [subprocess.run([program, "template", "poolgate", c, "-n", "poolgate-system", "--include-crds", *flags], check=True,
                                capture_output=True, text=True).stdout.replace(VERSION, "V") for c in (at(f"poolgate-{VERSION}.tgz"), tmp_path / "poolgate")]
        assert texts[0] == texts[1] and len(objects(texts[0])) > 10


def test_the_plugins_manifest_is_krews():
    manifest = yaml.safe_load(read("poolgate.yaml"))
    platform, = manifest["spec"]["platforms"]
    assert manifest["spec"]["version"] == f"v{VERSION}" and platform["selector"]["matchLabels"] == {"os": "linux", "arch": ARCH}
    archive = platform["uri"].rsplit("/", 1)[1]
    assert platform["sha256"] == sha256(at(archive))
    with tarfile.open(at(archive)) as tar:
        assert f"./{platform['bin']}" in tar.getnames()
    assert "@" not in read("poolgate.yaml")


def test_krew_takes_the_manifest(tmp_path):
    """As its index does: the name, the fields, the selectors."""
    if "KREW_VALIDATE" not in os.environ:
        pytest.skip("without krew's validate-krew-manifest: test/release/krew builds it, with Go")
    (tmp_path / "poolgate.yaml").write_text(read("poolgate.yaml"), encoding="utf-8")
    done = subprocess.run([os.environ["KREW_VALIDATE"], "-manifest", tmp_path / "poolgate.yaml", "-skip-install"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    bad = read("poolgate.yaml").replace(f"version: v{VERSION}", "version: one")
    (tmp_path / "poolgate.yaml").write_text(bad, encoding="utf-8")
    done = subprocess.run([os.environ["KREW_VALIDATE"], "-manifest", tmp_path / "poolgate.yaml", "-skip-install"], capture_output=True, text=True, check=False)
    assert done.returncode != 0, "a validation that takes anything shows nothing"
