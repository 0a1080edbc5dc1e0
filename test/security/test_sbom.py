# SPDX-License-Identifier: Apache-2.0
"""The lists of what is in the images (SPDX 2.3), made here from the programs that were built, by the tool that makes the images: they follow
the format's own rules, and every file has the name, the package, the sums and the licence that the list says. That a finished image's layers are
these files is test/image/run's to show."""
import glob
import hashlib
import json
import os
import re
import subprocess

import pytest

from lib.server import PROGRAM, ROOT

BUILD = os.path.dirname(PROGRAM)
# As mk/image.mk, mk/probe-image.mk, mk/deviceplugin.mk and mk/gate.mk say it.
IMAGES = {
    "poolgate": (["poolgate"], ["libcurl-gnutls.so.4", "libgcc_s.so.1"], []),
    "gpuprobe": (["gpuprobe-serve", "gpuprobe"], ["libgcc_s.so.1"],
                 ["libcuda.so.1", "libnvidia-ml.so.1", "libcudart.so.11", "libcudart.so.12", "libcudart.so.13"]),
    "gpugate": (["gpugate"], [], ["libcuda.so.1", "libnvidia-ml.so.1"]),
    "poolgate-device-plugin": (["poolgate-device-plugin"], ["libgcc_s.so.1"], ["libcurl-gnutls.so.4"]),
}
ID = re.compile(r"SPDXRef-[A-Za-z0-9.-]+$")
DOCUMENT = {"spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo", "packages", "files", "relationships"}
PACKAGE = {"SPDXID", "name", "versionInfo", "downloadLocation", "filesAnalyzed", "packageVerificationCode", "licenseConcluded",
           "licenseDeclared", "licenseInfoFromFiles", "copyrightText"}
FILE = {"SPDXID", "fileName", "fileTypes", "checksums", "licenseConcluded", "licenseInfoInFiles", "copyrightText"}
# Of SPDX's list, those that Debian's packages here have.
KNOWN = {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "curl", "ISC", "MIT", "Zlib", "GPL-1.0-only", "GPL-1.0-or-later", "GPL-2.0-only",
         "GPL-2.0-or-later", "GPL-3.0-only", "GPL-3.0-or-later", "LGPL-2.0-only", "LGPL-2.0-or-later", "LGPL-2.1-only", "LGPL-2.1-or-later",
         "LGPL-3.0-only", "LGPL-3.0-or-later"}


def sums(path):
    with open(path, "rb") as f:
        data = f.read()
    return {"SHA1": hashlib.sha1(data).hexdigest(), "SHA256": hashlib.sha256(data).hexdigest()}


@pytest.fixture(scope="module", params=list(IMAGES), name="made")
def fixture_made(request, tmp_path_factory):
    """(name, root of the files, the list in it)."""
    name = request.param
    programs, load, host = IMAGES[name]
    there = [os.path.join(BUILD, p) for p in programs if os.path.exists(os.path.join(BUILD, p))]
    assert there, f"{programs[0]} was not built"
    root = tmp_path_factory.mktemp(name) / "rootfs"
    words = [w for p in there for w in ("--program", p)] + [w for n in load for w in ("--load", n)] + [w for n in host for w in ("--host", n)]
    if len(there) > 1:
        licences = glob.glob(os.path.join(ROOT, "build/cuda/licenses/*cuda_runtime*")) + ["/usr/share/common-licenses/Apache-2.0"]
        words += ["--static", f"cuda-cudart=12.9={licences[0]}"]
    subprocess.run([os.path.join(ROOT, "tools/rootfs"), "--name", name, "--version", "1.2.3", "--out", str(root), *words], check=True)
    with open(root / f"usr/share/{name}/sbom.spdx.json", encoding="utf-8") as f:
        return name, str(root), json.load(f)


def test_format(made):
    """What SPDX 2.3 asks of a document, of each package, file and relationship; identifiers are unique and lead somewhere."""
    name, _, sbom = made
    assert DOCUMENT <= set(sbom) and sbom["spdxVersion"] == "SPDX-2.3" and sbom["dataLicense"] == "CC0-1.0"
    assert sbom["SPDXID"] == "SPDXRef-DOCUMENT" and re.match(r"[a-z]+:", sbom["documentNamespace"]) and "#" not in sbom["documentNamespace"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", sbom["creationInfo"]["created"])
    assert all(re.match(r"(Tool|Organization|Person): \S", c) for c in sbom["creationInfo"]["creators"])
    ids = [sbom["SPDXID"]] + [x["SPDXID"] for x in sbom["packages"] + sbom["files"]]
    assert len(ids) == len(set(ids)) and all(ID.match(i) for i in ids)
    assert all(PACKAGE <= set(p) for p in sbom["packages"]) and all(FILE <= set(f) for f in sbom["files"])
    for file in sbom["files"]:
        assert file["fileName"].startswith("./") and set(file["fileTypes"]) <= {"BINARY", "TEXT"}
        assert {c["algorithm"] for c in file["checksums"]} == {"SHA1", "SHA256"}
    for relation in sbom["relationships"]:
        assert {relation["spdxElementId"], relation["relatedSpdxElement"]} <= set(ids)
        assert relation["relationshipType"] in ("DESCRIBES", "CONTAINS", "STATIC_LINK")
    described = [r["relatedSpdxElement"] for r in sbom["relationships"] if r["relationshipType"] == "DESCRIBES"]
    assert described == [f"SPDXRef-Package-{name}"]
    assert sbom["packages"][0]["versionInfo"] == "1.2.3" and sbom["packages"][0]["name"] == name


def test_files(made):
    """Every file is listed, with its sums, in one package; the packages' verification codes are over these."""
    name, root, sbom = made
    itself = f"usr/share/{name}/sbom.spdx.json"
    there = {"./" + os.path.relpath(os.path.join(folder, n), root) for folder, _, names in os.walk(root) for n in names} - {"./" + itself}
    assert {f["fileName"] for f in sbom["files"]} == there
    by_id = {}
    for file in sbom["files"]:
        real = sums(os.path.join(root, file["fileName"]))
        assert {c["algorithm"]: c["checksumValue"] for c in file["checksums"]} == real, file["fileName"]
        by_id[file["SPDXID"]] = real["SHA1"]
    held = {}
    for relation in sbom["relationships"]:
        if relation["relationshipType"] == "CONTAINS" and relation["relatedSpdxElement"] in by_id:
            held.setdefault(relation["spdxElementId"], []).append(by_id[relation["relatedSpdxElement"]])
    assert sorted(s for of in held.values() for s in of) == sorted(by_id.values()), "a file in two packages, or in none"
    for package in sbom["packages"]:
        code = hashlib.sha1("".join(sorted(held[package["SPDXID"]])).encode()).hexdigest()
        assert package["packageVerificationCode"]["packageVerificationCodeValue"] == code, package["name"]


def test_versions_and_licences(made):
    """Packages of the system have the version that is installed, and a licence that SPDX knows or a file that says it."""
    _, root, sbom = made
    for package in sbom["packages"][1:]:
        if "sourceInfo" in package:
            installed = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package["name"]], stdout=subprocess.PIPE, check=True)
            assert package["versionInfo"] == installed.stdout.decode(), package["name"]
            locator = package["externalRefs"][0]["referenceLocator"]
            assert locator.startswith("pkg:deb/debian/" + package["name"].replace("+", "%2B") + "@")
        assert os.path.getsize(os.path.join(root, "usr/share/doc", package["name"], "copyright")) > 100, package["name"]
        if package["licenseDeclared"] == "NOASSERTION":
            assert f"/usr/share/doc/{package['name']}/copyright" in package["licenseComments"]
        else:
            assert set(re.split(r" (?:AND|OR) ", package["licenseDeclared"])) <= KNOWN, package["licenseDeclared"]
    assert sbom["packages"][0]["licenseDeclared"] == "Apache-2.0"
