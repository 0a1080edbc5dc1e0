# SPDX-License-Identifier: Apache-2.0
"""cli/usage/find_cluster: `poolgate inject --installed`, the settings of a cluster's Deployment. The real thing is in test/e2e; here is what can be wrong."""
import json
import os
import subprocess

import pytest

from lib import api
from lib.server import PROGRAM, ROOT

DEPLOYMENT, MAPS, the_cluster = api.DEPLOYMENT, api.MAPS, api.the_cluster
POD = os.path.join(ROOT, "manifests/examples/workload-1-vgg19.yaml")


def inject(tmp_path, objects, *words, program=PROGRAM):
    """Exit status, output, errors. Nothing may stay in $TMPDIR."""
    (tmp_path / "tmp").mkdir(exist_ok=True)
    with api.served(objects.get, tmp_path) as kubeconfig:
        done = subprocess.run([program, "inject", *words, "--kubeconfig", kubeconfig, "-o", "json", POD], timeout=30,
                              env={**os.environ, "TMPDIR": str(tmp_path / "tmp")}, capture_output=True, text=True, check=False)
    assert os.listdir(tmp_path / "tmp") == []
    return done.returncode, done.stdout, done.stderr


def test_the_settings_of_the_cluster_are_used(tmp_path):
    status, out, err = inject(tmp_path, the_cluster(), "--installed")
    assert status == 0, err
    plan = json.loads(json.loads(out)["metadata"]["annotations"]["poolgate.io/plan"])
    assert plan["totalMB"] == 8000 and plan["nodeResource"] is False
    assert "images.example" in out


def test_a_plugin_of_kubectl_needs_no_flag(tmp_path):
    os.symlink(PROGRAM, tmp_path / "kubectl-poolgate")
    status, out, err = inject(tmp_path, the_cluster(), program=str(tmp_path / "kubectl-poolgate"))
    assert status == 0 and "poolgate.io/plan" in out, err


def without(path, *keys):
    objects = the_cluster()
    at = objects[path]
    for key in keys[:-1]:
        at = at[key]
    del at[keys[-1]]
    return objects


def with_items():
    objects = the_cluster()
    objects[DEPLOYMENT]["spec"]["template"]["spec"]["volumes"][1]["configMap"]["items"] = [{"key": "a", "path": "b"}]
    return objects


def with_mount(path):
    objects = the_cluster()
    objects[DEPLOYMENT]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"][0]["mountPath"] = path
    return objects


def with_key(key):
    objects = the_cluster()
    objects[MAPS + "poolgate-config"]["data"][key] = "harmless"
    return objects


@pytest.mark.parametrize("objects, says", [
    ({}, "poolgate not found"), ({k: v for k, v in the_cluster().items() if "launchers" not in k}, "poolgate-launchers not found"),
    (without(DEPLOYMENT, "spec", "template", "spec", "containers"), 'no container "poolgate"'),
    (with_items(), "expected whole ConfigMaps"), (with_mount("/../../up"), "expected a plain path"), (with_mount("etc"), "expected a plain path"),
    (without(MAPS + "poolgate-config", "data", "poolgate.yaml"), "etc/poolgate/poolgate.yaml")])
def test_what_cannot_be_used_is_said(tmp_path, objects, says):
    status, out, err = inject(tmp_path, objects, "--installed")
    assert status == 3 and out == "" and says in err and err.count("\n") == 1, err


def test_keys_name_files_of_their_folder_alone(tmp_path):
    status, _, err = inject(tmp_path, with_key("../../../up"), "--installed")
    assert status == 0 and not os.path.exists(tmp_path / "up"), err
