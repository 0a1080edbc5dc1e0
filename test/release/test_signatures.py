# SPDX-License-Identifier: Apache-2.0
"""tools/sign, and what docs/release.md tells users to verify with, over the release in $RELEASE; on a machine whose network is cut
(`unshare --net`) but for its own loopback, on which a registry of images runs. POOLGATE_COSIGN and POOLGATE_HELM, which has crane, say where the
programs are."""
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tarfile

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [p for p in (os.path.join(ROOT, "test/e2e"),) if p not in sys.path]

from host import until  # noqa: E402

RELEASE, VERSION = os.environ["RELEASE"], os.environ["VERSION"]
if "POOLGATE_COSIGN" not in os.environ:
    pytest.skip("without cosign: make release-test builds it", allow_module_level=True)
COSIGN, CRANE = os.environ["POOLGATE_COSIGN"], os.path.join(os.environ["POOLGATE_HELM"], "crane")
SUMS, BUNDLE = "SHA256SUMS", "SHA256SUMS.sigstore.json"


def run(*argv, check=True, cwd=None):
    # Nothing of the public services' keys that an earlier run may have left.
    env = {**os.environ, "COSIGN_PASSWORD": "of the test", "PATH": os.path.dirname(COSIGN) + ":" + os.environ["PATH"], "TUF_ROOT": "/nonexistent"}
    done = subprocess.run(argv, env=env, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 or not check, f"{argv}\n{done.stdout}{done.stderr}"
    return done


def test_the_network_is_cut():
    assert [name for _, name in socket.if_nameindex()] == ["lo"]


@pytest.fixture(scope="module", name="keys")
def fixture_keys(tmp_path_factory):
    """Two pairs: ours, and somebody else's."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("ours", "other"):
        run(COSIGN, "generate-key-pair", "--output-key-prefix", name, cwd=folder)
    return folder


@pytest.fixture(name="signed")
def fixture_signed(tmp_path, keys):
    """A copy of the release, signed with our key."""
    folder = tmp_path / "release"
    shutil.copytree(RELEASE, folder, ignore=shutil.ignore_patterns(BUNDLE))
    run(os.path.join(ROOT, "tools/sign"), keys / "ours.key", folder)
    return folder


def verified(keys, folder, key="ours.pub"):
    """As docs/release.md says it."""
    done = run(COSIGN, "verify-blob", "--key", keys / key, "--bundle", BUNDLE, "--insecure-ignore-tlog", SUMS, check=False, cwd=folder)
    return done.returncode == 0 and run("sha256sum", "--check", "--quiet", "--strict", SUMS, check=False, cwd=folder).returncode == 0


def test_a_signed_release(keys, signed):
    assert verified(keys, signed)
    assert not verified(keys, signed, "other.pub")


def test_a_file_that_is_not_what_was_signed(keys, signed):
    with open(signed / "crds.yaml", "ab") as f:
        f.write(b"\n")
    assert not verified(keys, signed)
    assert run(os.path.join(ROOT, "tools/sign"), keys / "ours.key", signed, check=False).returncode != 0, "wrong sums are not signed"
    # Nor does a sum that was made right again help.
    lines = (signed / SUMS).read_text(encoding="utf-8").splitlines()
    new = run("sha256sum", "crds.yaml", cwd=signed).stdout.strip()
    (signed / SUMS).write_text("\n".join(new if line.endswith("  crds.yaml") else line for line in lines) + "\n", encoding="utf-8")
    run("sha256sum", "--check", "--quiet", "--strict", SUMS, cwd=signed)
    assert not verified(keys, signed)


def test_signed_again_by_another(keys, signed):
    run(os.path.join(ROOT, "tools/sign"), keys / "other.key", signed)
    assert verified(keys, signed, "other.pub") and not verified(keys, signed)


@contextlib.contextmanager
def registry():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with subprocess.Popen([CRANE, "registry", "serve", "--address", f"127.0.0.1:{port}"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as one:
        try:
            until(lambda: one.poll() is None and not socket.socket().connect_ex(("127.0.0.1", port)), 20, "the registry")
            yield f"127.0.0.1:{port}"
        finally:
            one.terminate()


def test_signed_images(keys, signed, tmp_path):
    """All of images.txt are pushed, one is pushed and not signed: each has its own signature and no other's."""
    with registry() as at:
        lines = [line.split() for line in (signed / "images.txt").read_text(encoding="utf-8").splitlines()]
        titles = {name.split("/")[-1].split(":")[0]: digest for name, digest in lines}
        for title, digest in titles.items():
            with tarfile.open(next(signed.glob(f"{title}-{VERSION}-linux-*.oci.tar"))) as tar:
                tar.extractall(tmp_path / title)
            pushed = run(CRANE, "push", tmp_path / title, f"{at}/{title}:{VERSION}").stdout.strip()
            assert pushed == f"{at}/{title}@{digest}", "the registry's digest is that of images.txt"
        (signed / "images.txt").write_text("".join(f"{at}/{t}:{VERSION} {d}\n" for t, d in titles.items()), encoding="utf-8")

        def holds(title, key="ours.pub"):
            return run(COSIGN, "verify", "--key", keys / key, "--insecure-ignore-tlog", f"{at}/{title}@{titles[title]}", check=False).returncode == 0

        assert not any(holds(t) for t in titles), "nothing is signed yet"
        run(os.path.join(ROOT, "tools/sign"), keys / "ours.key", signed, "images")
        assert all(holds(t) for t in titles) and not any(holds(t, "other.pub") for t in titles)
        # Another image under a signed one's name.
        run(CRANE, "mutate", "--entrypoint", "/bin/other", "-t", f"{at}/poolgate:{VERSION}", f"{at}/poolgate@{titles['poolgate']}")
        moved = run(CRANE, "digest", f"{at}/poolgate:{VERSION}").stdout.strip()
        assert moved != titles["poolgate"]
        assert run(COSIGN, "verify", "--key", keys / "ours.pub", "--insecure-ignore-tlog", f"{at}/poolgate:{VERSION}", check=False).returncode != 0
