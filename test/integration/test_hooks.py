# SPDX-License-Identifier: Apache-2.0
"""`poolgate hooks`: the webhook configurations with the Secrets of one's own profiles."""
import os
import subprocess

from lib.server import PROGRAM, ROOT

BASE = os.path.join(ROOT, "manifests/base/webhooks.yaml")
SHIPPED = "['bitfusion-client-secret-ca.crt', 'bitfusion-client-secret-client.yml', 'bitfusion-client-secret-servers.conf', 'juice-token']"
PROFILE = """apiVersion: poolgate.io/v1alpha1
kind: LauncherProfile
metadata: {name: own}
spec:
  kind: env
  secrets: [z.token, a-token, a-token, "it's none"]
  env: [{name: A, value: "{amount}"}]
"""


def hooks(*flags):
    done = subprocess.run([PROGRAM, "hooks", *flags], capture_output=True, text=True, timeout=20, check=False)
    return done.returncode, done.stdout, done.stderr


def test_the_base_is_what_the_shipped_profiles_need():
    with open(BASE, encoding="utf-8") as f:
        assert hooks("--config", os.path.join(ROOT, "manifests/base/config/poolgate.yaml")) == (0, f.read(), "")


def test_profiles_of_ones_own(tmp_path):
    """Each name once, sorted, and none that no Secret can have, which would end the expression's text."""
    path = tmp_path / "own.yaml"
    path.write_text(PROFILE)
    with open(BASE, encoding="utf-8") as f:
        base = f.read()
    assert base.count(SHIPPED) == 8
    assert hooks("--launchers", str(path)) == (0, base.replace(SHIPPED, "['a-token', 'z.token']"), "")


def test_what_cannot_be_read(tmp_path):
    status, out, err = hooks("--launchers", str(tmp_path / "none"))
    assert (status, out) == (3, "") and "flag --launchers" in err and err.count("\n") == 1
    status, out, err = hooks("--launcher", "x")
    assert (status, out) == (2, "") and "did you mean --launchers" in err
