# SPDX-License-Identifier: Apache-2.0
"""`poolgate hooks`: the webhook configurations with the Secrets of one's own profiles."""
import os
import re
import subprocess

import yaml

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


def test_with_policies(tmp_path):
    """What kustomize makes of the base and the component, with one's own Secrets."""
    with open(os.path.join(ROOT, "manifests/base/config/poolgate.yaml"), encoding="utf-8") as f:
        config = yaml.safe_load(f)
    path = tmp_path / "own.yaml"
    path.write_text(PROFILE)
    config["cluster"]["policies"]["enabled"] = True
    (tmp_path / "poolgate.yaml").write_text(yaml.safe_dump({"apiVersion": config["apiVersion"], "kind": "Config", "launchers": ["own.yaml"],
                                                           "cluster": config["cluster"]}))
    status, out, err = hooks("--config", str(tmp_path / "poolgate.yaml"))
    assert (status, err) == (0, "")
    got = list(yaml.safe_load_all(out))
    with open(BASE, encoding="utf-8") as f:
        want = list(yaml.safe_load_all(f.read().replace(SHIPPED, "['a-token', 'z.token']")))
    for document, name in zip(want, ("mutating", "validating")):
        for hook in component(name, SHIPPED, "['a-token', 'z.token']"):
            if "clientConfig" in hook:
                document["webhooks"].append(hook)
            else:
                next(base for base in document["webhooks"] if base["name"] == hook["name"])["namespaceSelector"] = hook["namespaceSelector"]
    assert got == want


def component(name, *replaced):
    with open(os.path.join(ROOT, f"manifests/components/policies/{name}.yaml"), encoding="utf-8") as f:
        return yaml.safe_load(f.read().replace(*replaced) if replaced else f)["webhooks"]


def expressions(hook):
    return {c["name"]: " ".join(c["expression"].split()) for c in hook["matchConditions"]}


def test_no_namespace_has_two_hooks_or_none():
    """Beside policies each hook of the base is for namespaces without the label, and one of the component, that hears of all that the base's hears
    of, by its own path, for those with it."""
    with open(BASE, encoding="utf-8") as f:
        base = {hook["name"]: hook for document in yaml.safe_load_all(f) for hook in document["webhooks"]}
    hooks_of = {hook["name"]: hook for name in ("mutating", "validating") for hook in component(name)}
    for name, hook in base.items():
        both = hooks_of[name], hooks_of[name.replace(".", "-policy.", 1)]
        for got, operator in zip(both, ("DoesNotExist", "Exists")):
            assert got["namespaceSelector"]["matchExpressions"] == hook["namespaceSelector"]["matchExpressions"] + [
                {"key": "poolgate.io/policy", "operator": operator}], name
        assert both[1]["clientConfig"]["service"]["path"] == hook["clientConfig"]["service"]["path"] + "-policy"
        for member in ("rules", "failurePolicy", "sideEffects", "timeoutSeconds"):
            assert both[1][member] == hook[member]
        for condition, text in expressions(hook).items():
            ours = expressions(both[1])[condition]
            for said in re.split(r" (?:\|\||\?|:) ", text.replace("(", " ").replace(")", " ")):
                assert " ".join(said.split()) in " ".join(ours.replace("(", " ").replace(")", " ").split()), (name, said)


def test_the_hooks_hear_of_every_key_that_a_policy_accepts():
    with open(os.path.join(ROOT, "manifests/components/policies/crd.yaml"), encoding="utf-8") as f:
        spec = yaml.safe_load(f)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    keys = "[" + ", ".join(f"'{key}'" for key in spec["properties"]["accepts"]["items"]["enum"]) + "]"
    for name in ("mutating", "validating"):
        assert all(any(keys in c["expression"] for c in hook["matchConditions"]) for hook in component(name) if "clientConfig" in hook)


def test_what_cannot_be_read(tmp_path):
    status, out, err = hooks("--launchers", str(tmp_path / "none"))
    assert (status, out) == (3, "") and "flag --launchers" in err and err.count("\n") == 1
    status, out, err = hooks("--launcher", "x")
    assert (status, out) == (2, "") and "did you mean --launchers" in err
