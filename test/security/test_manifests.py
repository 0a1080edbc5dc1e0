# SPDX-License-Identifier: Apache-2.0
"""What kube-score has to say of every way to install: nothing but what exceptions.yaml explains, and nothing there that it no longer says.
Pod Security is tried on a real API server, in test/e2e/test_manifests.py, which `make security-test` runs these tests of: our own pods pass
`restricted`, those of the DaemonSets fail it by what their namespaces are for, and by that alone."""
import collections
import fnmatch
import json
import os
import subprocess

import pytest
import yaml

from lib.server import ROOT

HERE = os.path.dirname(os.path.abspath(__file__))
OVERLAYS = ["base", "overlays/secrets", "overlays/all-namespaces-secrets", "overlays/device-plugin"]
COMPONENTS = ["cert-manager", "monitoring", "gpuprobe", "gpugate"]
# What two of ours may have beside what all may: capabilities, and folders of the node.
CAPABILITIES = {"gpugate": ["CHOWN", "KILL", "SETGID", "SETUID"]}
FOLDERS = {"device-plugin": ["/var/lib/kubelet/plugins_registry"], "gpugate": ["/var/lib/gpugate"]}
OPTIONAL = ["container-seccomp-profile", "container-ports-check"]


def tool(script, *words):
    """A program that a build script makes; without it the test is skipped, with the line that says what is missing."""
    where = subprocess.run([os.path.join(ROOT, script), "--where"], stdout=subprocess.PIPE, check=True).stdout.decode().strip()
    if not os.path.exists(where) or (words and not os.path.exists(os.path.join(where, words[0]))):
        done = subprocess.run([os.path.join(ROOT, script), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            pytest.skip(done.stdout.decode().strip().splitlines()[-1])
    return os.path.join(where, words[0]) if words else where


@pytest.fixture(scope="module", name="renders")
def fixture_renders(tmp_path_factory):
    """name -> the manifests as kustomize makes them."""
    kubectl = tool("test/e2e/build", "kubectl")
    folders = {name: os.path.join(ROOT, "manifests", name) for name in OVERLAYS}
    for name in COMPONENTS:
        folder = tmp_path_factory.mktemp(name)
        with open(folder / "kustomization.yaml", "w", encoding="utf-8") as f:
            yaml.safe_dump({"resources": [os.path.relpath(os.path.join(ROOT, "manifests/base"), folder)],
                            "components": [os.path.relpath(os.path.join(ROOT, "manifests/components", name), folder)]}, f)
        folders["components/" + name] = str(folder)
    return {name: subprocess.run([kubectl, "kustomize", folder], stdout=subprocess.PIPE, check=True).stdout for name, folder in folders.items()}


def test_kube_score(renders):
    program = tool("test/security/build")
    with open(os.path.join(HERE, "exceptions.yaml"), encoding="utf-8") as f:
        exceptions = yaml.safe_load(f)
    used, wrong, checks = collections.Counter(), set(), 0
    for name, text in renders.items():
        done = subprocess.run([program, "score", "-", "-o", "json", "--kubernetes-version", "v1.36", "--disable-ignore-checks-annotations",
                               *[w for o in OPTIONAL for w in ("--enable-optional-test", o)]],
                              input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        assert done.stdout, f"{name}: {done.stderr.decode()}"
        for thing in json.loads(done.stdout):
            at = f"{thing['type_meta']['kind']}/{thing['object_meta']['name']}"
            for check in thing["checks"]:
                checks += not check["skipped"]
                if check["skipped"] or check["grade"] >= 10:
                    continue
                for said in {comment["summary"] for comment in check["comments"] or [{"summary": ""}]}:
                    excuse = [i for i, e in enumerate(exceptions) if fnmatch.fnmatch(at, e["object"]) and e["check"] == check["check"]["id"]
                              and said in e["says"]]
                    used.update(excuse)
                    if not excuse:
                        wrong.add(f"{at}: {check['check']['id']}: {said}")
    assert not wrong, "\n".join(sorted(wrong))
    assert [e for i, e in enumerate(exceptions) if not used[i]] == [], "explained, and not said any more"
    assert all(len(e["why"]) > 20 for e in exceptions)
    assert checks > 100, f"only {checks} checks were made"


def test_what_no_manifest_may_hold(renders):
    """Nobody is given everything, no pod the node's namespaces or more privileges, and no Secret is shipped but empty."""
    for name, text in renders.items():
        for obj in yaml.safe_load_all(text):
            at = f"{name}: {obj['kind']} {obj['metadata']['name']}"
            assert obj["kind"] != "Secret" or not {"data", "stringData"} & set(obj), at
            for rule in obj.get("rules") or [] if "Role" in obj["kind"] else []:
                assert "*" not in rule.get("verbs", []) + rule.get("resources", []) + rule.get("apiGroups", []), at
                assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"]), at
            if "roleRef" in obj:
                assert obj["roleRef"]["name"] not in ("cluster-admin", "admin", "edit"), at
                assert all(s["kind"] == "ServiceAccount" for s in obj["subjects"]), at
            spec = ((obj.get("spec") or {}).get("template") or {}).get("spec") if isinstance(obj.get("spec"), dict) else None
            if not spec:
                continue
            assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec), at
            for container in spec.get("initContainers", []) + spec["containers"]:
                context = container["securityContext"]
                assert context["allowPrivilegeEscalation"] is False and context["readOnlyRootFilesystem"] is True, at
                assert context["capabilities"]["drop"] == ["ALL"] and not context.get("privileged"), at
                assert context["capabilities"].get("add", []) == CAPABILITIES.get(obj["metadata"]["name"], []), at
                assert container["resources"]["limits"]["memory"], at
            assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, at
            paths = [v["hostPath"]["path"] for v in spec.get("volumes", []) if "hostPath" in v]
            assert paths == FOLDERS.get(obj["metadata"]["name"], []), at


def rules_on_unbounded_text(node, at=""):
    """Where a CEL rule sits on an int-or-string: API servers before 1.34 reckon with 3 MiB of text there, which is over their budget."""
    if isinstance(node, dict):
        if node.get("x-kubernetes-int-or-string") and "x-kubernetes-validations" in node:
            yield at
        for key, value in node.items():
            yield from rules_on_unbounded_text(value, f"{at}/{key}")
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from rules_on_unbounded_text(value, f"{at}/{i}")


def test_crd_is_within_the_budget_of_old_api_servers():
    """What `make crd-check` sees with the real validation, as far as it can be seen at once."""
    with open(os.path.join(ROOT, "manifests/base/crd.yaml"), encoding="utf-8") as f:
        assert not list(rules_on_unbounded_text(yaml.safe_load(f)))


def test_profiles_for_ranges_of_uids_are_the_examples_without_a_user():
    """components/uid-ranges replaces each profile that names a user, and changes nothing else in it; what else is shipped names none."""
    folder = os.path.join(ROOT, "manifests/components/uid-ranges")
    for name in os.listdir(os.path.join(ROOT, "manifests/examples/launchers")):
        with open(os.path.join(ROOT, "manifests/examples/launchers", name), encoding="utf-8") as f:
            lines = f.readlines()
        without = [line for line in lines if "runAsUser" not in line]
        assert os.path.exists(os.path.join(folder, name)) is (without != lines), name
        if without != lines:
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                assert f.readlines() == without, name
    for name in ("base/deployment.yaml", "examples/sidecar.yaml"):
        with open(os.path.join(ROOT, "manifests", name), encoding="utf-8") as f:
            assert "runAsUser" not in f.read(), name
