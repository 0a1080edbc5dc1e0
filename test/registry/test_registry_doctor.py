# SPDX-License-Identifier: Apache-2.0
"""What `poolgate doctor` says of the registries that the replicas' settings name: it asks them as a replica would, and says what to do. The API server is
played, and knows nothing but the settings."""
import pytest
import yaml

from lib import api, cli
from registry import Answer, Trap


def doctor(registry, tmp_path, *entries, ca=True, mounts=(), **more):
    """The lines about registries, of a cluster whose settings have these."""
    entries = list(entries or [registry.settings(ca="registry-ca.pem", **more)])
    objects = api.the_cluster()
    data = objects[api.MAPS + "poolgate-config"]["data"]
    data["poolgate.yaml"] = yaml.safe_dump({**yaml.safe_load(data["poolgate.yaml"]), "registries": entries})
    if ca:
        with open(registry.authority.cert, encoding="ascii") as f:
            data["registry-ca.pem"] = f.read()
    objects[api.DEPLOYMENT]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] += [{"mountPath": m} for m in mounts]
    objects["/version"] = {"major": "1", "minor": "36"}
    with api.served(objects.get, tmp_path) as kubeconfig:
        _, out, err = cli.run("doctor", "--kubeconfig", kubeconfig, env=registry.environment())
    assert not err, err
    found = [line for line in out.decode().splitlines() if " registries: " in line]
    assert found, out
    return found


def a_challenge(realm):
    return Answer(401, headers={"WWW-Authenticate": f'Bearer realm="{realm}",service="s"'})


def test_all_is_well(registry, tmp_path):
    registry.paths["/v2/"] = a_challenge(registry.realm)
    assert doctor(registry, tmp_path) == [
        "ok           registries: 1 of 1 answer with a certificate that is trusted, and want no credentials for others (asked from here)"]
    assert [(host, path) for host, path, _ in registry.requests] == [("registry.example", "/v2/")]
    assert registry.credentials() == set()


@pytest.mark.parametrize("answer", [Answer(200, b"{}"), Answer(401, headers={"WWW-Authenticate": "Basic realm=\"r\""})], ids=["open", "basic"])
def test_other_starts(registry, tmp_path, answer):
    registry.paths["/v2/"] = answer
    assert doctor(registry, tmp_path)[0].startswith("ok ")


def test_a_start_that_lies_elsewhere(registry, tmp_path):
    registry.paths["/v2/"] = Answer(307, headers={"Location": f"https://mirror.example:{registry.port}/start"})
    registry.paths["/start"] = Answer(200, b"{}")
    assert doctor(registry, tmp_path, manifests=[f"mirror.example:{registry.port}"])[0].startswith("ok ")
    line = doctor(registry, tmp_path)[0]
    assert "mirror.example" in line and "name that host in manifests" in line


def test_cas_that_are_mounted(registry, tmp_path):
    found = doctor(registry, tmp_path, {"host": "ghcr.io"}, mounts=["/etc/ssl/certs"])
    assert "ghcr.io: Could not resolve host" in found[0] and "mend it: have the name resolve" in found[0]


TROUBLES = {
    "name": ({"host": "nobody.example"}, "Could not resolve host", "have the name resolve where poolgate runs"),
    "address": ({"addresses": []}, "an address that may not be asked", "name it in the registry's addresses"),
    "inner": ({"host": "inner.example:{port}"}, "an address that may not be asked", "name it in the registry's addresses"),
    "port": ({"host": "registry.example:{closed}"}, "Failed to connect", "see that it runs"),
    "silent": ({"host": "registry.example:{quiet}"}, "did not answer in time", "see that it runs"),
    "host-of-the-certificate": ({"host": "other.example:{port}"}, "certificate", "name that file as the registry's ca"),
    "realm": ({"tokens": []}, "sends for a token to tokens.example:{port}", "name it in the registry's tokens"),
    "another": ({}, "it answers HTTP 404 at /v2/", "write the registry's host into poolgate.yaml as it stands in images' names"),
}


@pytest.mark.parametrize("trouble", sorted(TROUBLES))
def test_troubles(registry, tmp_path, trouble):
    more, word, mend = TROUBLES[trouble]
    quiet, closed = Trap(("127.0.0.1", 0), keep=True), Trap(("127.0.0.1", 0))
    closed.close()
    ports = {"port": registry.port, "quiet": quiet.port, "closed": closed.port}
    if trouble != "another":
        registry.paths["/v2/"] = a_challenge(registry.realm)
    registry.names["other.example"] = ["127.0.0.1"]
    found = doctor(registry, tmp_path, **{k: v.format(**ports) if isinstance(v, str) else v for k, v in more.items()})
    quiet.close()
    assert len(found) == 1 and found[0].startswith("wrong "), found
    assert word.format(**ports) in found[0] and f"mend it: {mend}" in found[0].replace("if that inner address is meant, ", "").replace(
        "put the CA that has signed for it into the ConfigMap poolgate-config, and ", "").replace("if that host may have the pods' credentials, ", "")
    assert registry.credentials() == set()


def test_a_ca_that_is_not_there(registry, tmp_path):
    line = doctor(registry, tmp_path, ca=False)[0]
    assert "its ca registry-ca.pem is not in ConfigMap poolgate-config" in line and "mend it: put that file beside poolgate.yaml" in line
    assert registry.requests == []


def test_an_image_without_cas(registry, tmp_path):
    line = doctor(registry, tmp_path, {"host": "registry.example"})[0]
    assert "has no ca, and the image of poolgate has no CA certificates" in line and "mend it: put the CA" in line


def test_one_after_the_other(registry, tmp_path):
    registry.paths["/v2/"] = a_challenge(registry.realm)
    found = doctor(registry, tmp_path, registry.settings(ca="registry-ca.pem"), registry.settings(ca="registry-ca.pem", host="nobody.example"))
    assert len(found) == 1 and "nobody.example" in found[0]
