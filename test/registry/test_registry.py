# SPDX-License-Identifier: Apache-2.0
"""What images start, from registries that mean well and from those that do not: no credential goes where it is not for, and no inner address is
connected to."""
import base64
import itertools
import json
import time

import pytest
import yaml

from lib import cli, pods
from registry import CONFIG, INDEX, MANIFEST, Answer, digest, dump

LAUNCHER_END = "--"
LOGIN = "robot:s3cret"
BASIC = "Basic " + base64.b64encode(LOGIN.encode()).decode()
PLAN = "poolgate.io/plan"


def a_pod(registry, image="team/train:1", host=None, command=None, spec=None, **container):
    main = {"name": "main", "image": f"{host or registry.host}/{image}", "resources": pods.ask(), **container}
    if command is not None:
        main["command"] = command
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {pods.SWITCH: "all", pods.OS: "ubuntu20", pods.VERSION: "450"}},
            "spec": {"containers": [main], **(spec or {})}}


def inject(registry, pod, login=None, login_host=None, config=None, flag=None):
    """(exit status, the pod, what was said)"""
    status, out, err = cli.run("inject", *cli.profile_args(), "--config", config or registry.write_config(), "--registry", flag or registry.host, "-",
                               data=yaml.safe_dump(pod).encode(), env=registry.environment(login, login_host))
    return status, yaml.safe_load(out) if status == 0 else None, err


def program_of(pod):
    """What the launcher starts: the words behind its own, as the kubelet gives them, and then args."""
    main = pod["spec"]["containers"][0]
    command = main["command"]
    behind = command[command.index(LAUNCHER_END) + 1:]
    assert all(word.count("$") % 2 == 0 for word in behind)
    return [word.replace("$$", "$") for word in behind], main.get("args", [])


def refused(registry, pod, *words, **how):
    status, _, err = inject(registry, pod, **how)
    assert status == 1, err
    for word in words:
        assert word in err, err
    assert "write the image's ENTRYPOINT here as command" in err
    return err


# ---- images that mean well ----

@pytest.mark.parametrize("entrypoint, cmd, args, program", [
    (["python", "train.py"], None, None, ["python", "train.py"]),
    (["python"], ["train.py", "--all"], None, ["python", "train.py", "--all"]),
    (["python"], ["train.py"], ["other.py"], ["python"]),
    (["/bin/sh", "-c", "exec python train.py $MODE $(cat x) $$"], None, None, ["/bin/sh", "-c", "exec python train.py $MODE $(cat x) $$"]),
    (None, ["python3"], None, ["python3"]),
    ([""], ["python3"], None, ["python3"]),
    ([], ["python3", "", "a b", "$"], None, ["python3", "", "a b", "$"]),
], ids=["entrypoint", "entrypoint-and-cmd", "pod-args", "shell-form", "cmd-alone", "empty-entrypoint", "odd-words"])
def test_the_program_gets_its_own_words(registry, entrypoint, cmd, args, program):
    where = registry.image(entrypoint, cmd)
    before = a_pod(registry, **({"args": args} if args else {}))
    status, after, err = inject(registry, before)
    assert status == 0, err
    assert program_of(after) == (program, args or [])
    plan = json.loads(after["metadata"]["annotations"][PLAN])
    assert plan["containers"][0]["image"] == {"digest": where[0], "words": len(program)}
    assert registry.credentials() == set()
    status, out, err = cli.uninject(yaml.safe_dump(after).encode())
    assert status == 0, err
    assert yaml.safe_load(out) == before


def test_twice_is_once(registry):
    registry.image(["python"])
    _, once, _ = inject(registry, a_pod(registry))
    status, twice, err = inject(registry, once)
    assert status == 0, err
    assert twice == once


def test_a_command_needs_no_registry(registry):
    status, after, err = inject(registry, a_pod(registry, command=["python"]))
    assert status == 0, err
    assert "image" not in json.loads(after["metadata"]["annotations"][PLAN])["containers"][0]
    assert registry.requests == [] and registry.looked_up() == []


def test_by_digest(registry):
    where, _ = registry.image(["python"])
    status, after, err = inject(registry, a_pod(registry, f"team/train@{where}"))
    assert status == 0, err
    assert program_of(after)[0] == ["python"]


def test_no_program_at_all(registry):
    registry.image()
    status, _, err = inject(registry, a_pod(registry))
    assert status == 1 and "neither ENTRYPOINT nor CMD" in err


def test_args_without_an_entrypoint(registry):
    registry.image(None, ["python"])
    status, _, err = inject(registry, a_pod(registry, args=["sh"]))
    assert status == 1 and "write the args as command" in err


@pytest.mark.parametrize("entrypoint, args", [(["/usr/bin/bitfusion", "run", "-n", "9", "python"], None), (["/bin/sh", "-c"], ["bitfusion run -n 9 python"])])
def test_an_image_that_starts_the_launcher(registry, entrypoint, args):
    registry.image(entrypoint)
    status, _, err = inject(registry, a_pod(registry, **({"args": args} if args else {})))
    assert status == 1 and "starts the launcher" in err


# ---- platforms ----

def platforms(registry, **by_arch):
    return [(*registry.manifest(registry.config(words, arch=arch)), "linux", arch) for arch, words in by_arch.items()]


ATTESTATION = {"mediaType": MANIFEST, "digest": "sha256:" + "0" * 64, "size": 9, "platform": {"os": "unknown", "architecture": "unknown"},
               "annotations": {"vnd.docker.reference.type": "attestation-manifest"}}


def test_platforms_that_agree(registry):
    windows = {"mediaType": MANIFEST, "digest": "sha256:" + "1" * 64, "size": 9, "platform": {"os": "windows", "architecture": "amd64"}}
    registry.index([*platforms(registry, amd64=["python"], arm64=["python"]), ATTESTATION, windows])
    status, after, err = inject(registry, a_pod(registry))
    assert status == 0, err
    assert program_of(after)[0] == ["python"]


AFFINITY = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
    {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}]}}}}


@pytest.mark.parametrize("spec", [{"nodeSelector": {"kubernetes.io/arch": "amd64"}}, AFFINITY], ids=["selector", "affinity"])
def test_platforms_that_disagree(registry, spec):
    registry.index(platforms(registry, amd64=["python-x86"], arm64=["python-arm"]))
    refused(registry, a_pod(registry), "something else on each of the platforms", "kubernetes.io/arch")
    status, after, err = inject(registry, a_pod(registry, spec=spec))
    assert status == 0, err
    assert program_of(after)[0] == ["python-x86"]


def test_as_many_platforms_as_may_be(registry):
    """Each is read by itself: together their documents are longer than one question's may be."""
    same, other = ((*registry.manifest(registry.config([word], history=["x" * 450000])), "linux", "amd64") for word in ("python", "pytorn"))
    registry.index([same] * 12)
    status, after, err = inject(registry, a_pod(registry))
    assert status == 0, err
    assert program_of(after)[0] == ["python"]
    registry.index([same] * 11 + [other])
    refused(registry, a_pod(registry), "something else on each of the platforms")
    registry.index([same] * 13)
    refused(registry, a_pod(registry), "too many of the platforms")


def test_an_image_for_windows(registry):
    registry.image(["python"], os_name="windows")
    refused(registry, a_pod(registry), "no image for Linux")


def test_an_index_without_our_platform(registry):
    registry.index(platforms(registry, s390x=["python"]))
    refused(registry, a_pod(registry, spec=AFFINITY), "no image for Linux on the nodes")


# ---- who may be asked ----

@pytest.mark.parametrize("host", ["registry.example.evil.example:{port}", "registry.example", "other.example:{port}", "registry.exampl:{port}"])
def test_a_host_that_was_not_named(registry, host):
    """A host of which an allowed one is the beginning, or that has another port, is another host."""
    registry.image(["python"])
    status, _, err = inject(registry, a_pod(registry, host=host.format(port=registry.port)), login=LOGIN)
    assert status == 1 and "only known to the image" in err and "cannot be asked" not in err, err
    assert registry.requests == [] and registry.looked_up() == []


def test_nothing_is_asked_without_the_flag(registry):
    registry.image(["python"])
    status, _, err = cli.run("inject", *cli.profile_args(), "--config", registry.write_config(), "-", data=yaml.safe_dump(a_pod(registry)).encode(),
                             env=registry.environment())
    assert status == 1 and "no command" in err
    assert registry.requests == [] and registry.looked_up() == []


def test_an_inner_address_must_be_named(registry):
    registry.image(["python"])
    refused(registry, a_pod(registry), "address that may not be asked", config=registry.write_config(registry.settings(addresses=[])))
    assert registry.requests == []


@pytest.mark.parametrize("address", ["127.0.0.2", "::1", "::ffff:127.0.0.2", "169.254.169.254", "10.0.0.1", "0.0.0.0", "64:ff9b::7f00:2", "fd00::1"])
def test_a_registry_whose_name_leads_inside(registry, address):
    registry.names["registry.example"] = [address]
    refused(registry, a_pod(registry), "address that may not be asked")


def test_a_name_that_changes_between_look_ups(registry):
    """It stands for the registry first and for an inner address then. It is looked up once for one connection, and that very address is judged."""
    registry.image(["python"])
    registry.names["registry.example"] = ["127.0.0.1", "127.0.0.2"]
    status, _, err = inject(registry, a_pod(registry))
    assert status == 0, err
    assert registry.looked_up().count(("registry.example", "127.0.0.1")) == 1
    registry.names["registry.example"] = ["127.0.0.2", "127.0.0.1"]
    refused(registry, a_pod(registry), "address that may not be asked")


def test_no_proxy(registry):
    registry.image(["python"])
    proxy = f"http://127.0.0.2:{registry.port}"
    env = {**registry.environment(), "https_proxy": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": proxy}
    status, _, err = cli.run("inject", *cli.profile_args(), "--config", registry.write_config(), "--registry", registry.host, "-",
                             data=yaml.safe_dump(a_pod(registry)).encode(), env=env)
    assert status == 0, err


def test_another_ca(registry, tmp_path):
    from lib.server import Authority
    registry.image(["python"])
    refused(registry, a_pod(registry), "certificate", config=registry.write_config(registry.settings(ca=Authority(tmp_path, "other").cert)), login=LOGIN)
    assert registry.requests == []


# ---- credentials ----

def test_a_token_for_the_registry_alone(registry):
    """The login goes to who gives out tokens, the token to the registry, and to where the blob lies goes neither. What is asked for is to read."""
    registry.login = LOGIN
    config = registry.config(["python"])
    registry.manifest(config, tag="1")
    registry.paths[f"/v2/team/train/blobs/{digest(config)}"] = Answer(307, headers={"Location": f"https://blobs.example:{registry.port}/b?sig=x"})
    registry.hooks.append(lambda host, path, _: Answer(body=config) if host == "blobs.example" else None)
    status, after, err = inject(registry, a_pod(registry), login=LOGIN)
    assert status == 0, err
    assert program_of(after)[0] == ["python"]
    assert registry.credentials() == {("tokens.example", BASIC), ("registry.example", "Bearer the-token")}
    token = [path for host, path, _ in registry.requests if host == "tokens.example"]
    assert token == ["/token?service=s&scope=repository%3Ateam%2Ftrain%3Apull"]


def test_basic_is_for_the_registry(registry):
    registry.image(["python"])
    registry.hooks.append(lambda host, path, h: Answer(401, headers={"WWW-Authenticate": "Basic realm=\"r\""}) if h.get("Authorization") != BASIC else None)
    status, _, err = inject(registry, a_pod(registry), login=LOGIN)
    assert status == 0, err
    assert registry.credentials() == {("registry.example", BASIC)}
    refused(registry, a_pod(registry), "without a credential")


@pytest.mark.parametrize("key", ["registry.example", "https://{host}.evil.example", "evil.example/{host}", "*.example:{port}", "{host}/other", "{host}/team/tr"])
def test_credentials_of_others_stay(registry, key):
    registry.login = LOGIN
    registry.image(["python"])
    refused(registry, a_pod(registry), "without a credential", login=LOGIN, login_host=key.format(host=registry.host, port=registry.port))
    assert registry.credentials() == set()


@pytest.mark.parametrize("key", ["https://{host}/v2/", "{host}/team", "{host}/team/train"])
def test_credentials_of_a_part(registry, key):
    registry.login = LOGIN
    registry.image(["python"])
    assert inject(registry, a_pod(registry), login=LOGIN, login_host=key.format(host=registry.host))[0] == 0


def test_a_wrong_credential(registry):
    registry.login = LOGIN
    registry.image(["python"])
    refused(registry, a_pod(registry), "refuses the pod's credential", login="robot:other")
    assert "Bearer the-token" not in {c for _, c in registry.credentials()}


REALMS = {
    "inner": ("https://inner.example:{port}/token", "has not listed"),
    "inner-address": ("https://127.0.0.2:{port}/token", "has not listed"),
    "loopback": ("https://127.0.0.1:{port}/token", "has not listed"),
    "metadata": ("https://169.254.169.254/token", "has not listed"),
    "prefix": ("https://tokens.example:{port}.evil.example/token", "no https URL"),
    "user": ("https://tokens.example:{port}@inner.example:{port}/token", "no https URL"),
    "user-of-ours": ("https://u:p@tokens.example:{port}/token", "no https URL"),
    "other-port": ("https://tokens.example/token", "has not listed"),
    "backslash": ("https://inner.example:{port}\\\\@tokens.example:{port}/token", "no https URL"),
    "plain": ("http://tokens.example:{port}/token", "no https URL"),
    "file": ("file:///etc/passwd", "no https URL"),
    "gopher": ("gopher://127.0.0.2:{port}/x", "no https URL"),
    "escaped": ("https://tokens.example%00.inner.example:{port}/token", "no https URL"),
    "line": ("https://tokens.example:{port}/token\x0bX: y", "no https URL"),
    "empty": ("", "no https URL"),
    "scope": ("https://tokens.example:{port}/token?scope=repository%3Aother%3Apush%2Cpull", "query of its own"),
    "account": ("https://tokens.example:{port}/token?", "query of its own"),
    "dot": ("https://tokens.example.:{port}/token", "no https URL"),
    "zero-port": ("https://tokens.example:0{port}/token", "no https URL"),
    "six": ("https://[::1]:{port}/token", "no https URL"),
    "six-mapped": ("https://[::ffff:127.0.0.1]:{port}/token", "no https URL"),
}


@pytest.mark.parametrize("realm", sorted(REALMS))
def test_realms(registry, realm):
    registry.login, registry.realm = LOGIN, REALMS[realm][0].format(port=registry.port)
    registry.image(["python"])
    refused(registry, a_pod(registry), REALMS[realm][1], login=LOGIN)
    assert registry.credentials() == set()
    assert {name for name, _ in registry.looked_up()} <= {"registry.example"}


def test_a_listed_realm_that_leads_inside(registry):
    registry.login = LOGIN
    registry.names["tokens.example"] = ["127.0.0.2"]
    refused(registry, a_pod(registry), "address that may not be asked", login=LOGIN)
    assert registry.credentials() == set()


def test_a_realm_that_redirects(registry):
    registry.login = LOGIN
    registry.hooks.append(lambda host, *_: Answer(302, headers={"Location": f"https://inner.example:{registry.port}/"}) if host == "tokens.example" else None)
    refused(registry, a_pod(registry), "HTTP 302", login=LOGIN)


@pytest.mark.parametrize("token", [{"token": "a\r\nX-Other: b"}, {"token": ""}, {"token": 7}, {}, {"token": "x" * 20000}, []])
def test_tokens_that_are_none(registry, token):
    registry.login = LOGIN
    registry.hooks.append(lambda host, *_: Answer(body=dump(token)) if host == "tokens.example" else None)
    refused(registry, a_pod(registry), login=LOGIN)
    assert registry.credentials() == {("tokens.example", BASIC)}


@pytest.mark.parametrize("challenge", ["Digest realm=x", "Bearer", "Bearer realm=\"unfinished", "", "Negotiate"])
def test_challenges_that_are_none(registry, challenge):
    registry.hooks.append(lambda *_: Answer(401, headers={"WWW-Authenticate": challenge}))
    refused(registry, a_pod(registry), login=LOGIN)
    assert registry.credentials() == set()


# ---- redirects ----

LOCATIONS = {
    "inner": ("https://inner.example:{port}/b", "address that may not be asked"),
    "inner-address": ("https://127.0.0.2:{port}/b", "address that may not be asked"),
    "inner-number": ("https://2130706434:{port}/b", "address that may not be asked"),
    "inner-six": ("https://six.example:{port}/b", "address that may not be asked"),
    "named-address-of-a-host-that-is-not": ("https://twice.example:{port}/b", "address that may not be asked"),
    "metadata": ("https://169.254.169.254/latest", "address that may not be asked"),
    "dot": ("https://blobs.example.:{port}/b", "no https URL"),
    "six-literal": ("https://[::ffff:127.0.0.2]:{port}/b", "no https URL"),
    "plain": ("http://127.0.0.2:{port}/b", "no https URL"),
    "file": ("file:///etc/passwd", "no https URL"),
    "user": ("https://blobs.example:{port}@inner.example:{port}/b", "no https URL"),
    "scheme-relative": ("//inner.example:{port}/b", "no https URL"),
    "none": (None, "no https URL"),
}


@pytest.mark.parametrize("where", sorted(LOCATIONS))
def test_redirects(registry, where):
    registry.login = LOGIN
    registry.names["six.example"] = ["::ffff:127.0.0.2"]
    config = registry.config(["python"])
    registry.manifest(config, tag="1")
    location = LOCATIONS[where][0]
    headers = {"Location": location.format(port=registry.port)} if location else {}
    registry.paths[f"/v2/team/train/blobs/{digest(config)}"] = Answer(307, headers=headers)
    refused(registry, a_pod(registry), LOCATIONS[where][1], login=LOGIN)
    assert registry.credentials() == {("tokens.example", BASIC), ("registry.example", "Bearer the-token")}


def test_redirects_without_end(registry):
    registry.hooks.append(lambda host, path, _: Answer(302, headers={"Location": path + "x"}) if "/blobs/" in path else None)
    registry.image(["python"])
    refused(registry, a_pod(registry), "again and again")
    assert sum("/blobs/" in path for _, path, _ in registry.requests) == 4


def test_redirects_of_blobs_lead_to_storage(registry):
    """Another host of the registry, which has an inner address for its own purpose, is no place for blobs or tags."""
    config = registry.config(["python"])
    registry.manifest(config, tag="1")
    registry.paths[f"/v2/team/train/blobs/{digest(config)}"] = Answer(307, headers={"Location": f"https://tokens.example:{registry.port}/b"})
    refused(registry, a_pod(registry), "address that may not be asked")
    assert {host for host, *_ in registry.requests} == {"registry.example"}


# ---- redirects of manifests: what a tag stands for is the registry's to say, and theirs whom the operator named ----

MIRROR = "mirror.example"


def mirrored(registry, where="manifests/1", host=MIRROR, status=307):
    """The registry sends for this to the mirror, which has everything; the mirror's settings."""
    mine = registry.paths.get(f"/v2/team/train/{where}")
    registry.paths[f"/v2/team/train/{where}"] = Answer(status, headers={"Location": f"https://{host}:{registry.port}/mirrored/{where}"})
    registry.paths[f"/mirrored/{where}"] = mine
    return registry.write_config(registry.settings(manifests=[f"{MIRROR}:{registry.port}"]))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_tag_at_a_host_that_is_named(registry, status):
    registry.login = LOGIN
    where, _ = registry.image(["python"])
    status, after, err = inject(registry, a_pod(registry), login=LOGIN, config=mirrored(registry, status=status))
    assert status == 0, err
    assert program_of(after)[0] == ["python"]
    assert json.loads(after["metadata"]["annotations"][PLAN])["containers"][0]["image"]["digest"] == where
    there = [headers for host, _, headers in registry.requests if host == MIRROR]
    assert len(there) == 1 and MANIFEST in there[0]["Accept"]
    assert registry.credentials() == {("tokens.example", BASIC), ("registry.example", "Bearer the-token")}


def test_a_tag_at_a_host_that_is_not_named(registry):
    registry.image(["python"])
    mirrored(registry)
    refused(registry, a_pod(registry), f"it sends for a manifest to mirror.example:{registry.port}, which the operator has not listed for it (manifests)",
            config=registry.write_config())
    assert {name for name, _ in registry.looked_up()} == {"registry.example"}


@pytest.mark.parametrize("key", ["tokens", "storage"])
def test_hosts_for_something_else_say_nothing_of_tags(registry, key):
    registry.image(["python"])
    mirrored(registry)
    refused(registry, a_pod(registry), "has not listed", config=registry.write_config(registry.settings(**{key: [f"{MIRROR}:{registry.port}"]})))


def test_a_tag_elsewhere_at_the_registry_itself(registry):
    registry.image(["python"])
    mirrored(registry)
    registry.paths["/v2/team/train/manifests/1"].headers["Location"] = "/mirrored/manifests/1"
    assert inject(registry, a_pod(registry))[0] == 0


def test_a_digest_needs_no_name_but_an_address(registry):
    """Whoever has the bytes that it names may have them: only who may be connected to is asked. Here nobody is public."""
    where, _ = registry.image(["python"])
    config = mirrored(registry, f"manifests/{where}")
    assert inject(registry, a_pod(registry, f"team/train@{where}"), config=config)[0] == 0
    refused(registry, a_pod(registry, f"team/train@{where}"), "address that may not be asked", config=registry.write_config())
    registry.paths[f"/mirrored/manifests/{where}"] = registry.paths[f"/v2/team/train/manifests/{registry.image(['other'])[0]}"]
    refused(registry, a_pod(registry, f"team/train@{where}"), "other bytes than the digest names", config=mirrored(registry))


def test_platforms_at_a_mirror(registry):
    parts = platforms(registry, amd64=["python"], arm64=["python"])
    registry.index(parts)
    for part in parts:
        config = mirrored(registry, f"manifests/{part[0]}")
    assert inject(registry, a_pod(registry), config=config)[0] == 0


@pytest.mark.parametrize("where", sorted(LOCATIONS))
def test_redirects_of_manifests(registry, where):
    """Named or not, by tag and by digest."""
    registry.names["six.example"] = ["::ffff:127.0.0.2"]
    digest_of, _ = registry.image(["python"])
    location, word = LOCATIONS[where]
    headers = {"Location": location.format(port=registry.port)} if location else {}
    for name in ("1", digest_of):
        registry.paths[f"/v2/team/train/manifests/{name}"] = Answer(302, headers=headers)
    refused(registry, a_pod(registry, f"team/train@{digest_of}"), word, login=LOGIN)
    refused(registry, a_pod(registry), "has not listed" if "address" in word else word, login=LOGIN)
    assert registry.credentials() == set()


@pytest.mark.parametrize("address", ["127.0.0.2", "::ffff:127.0.0.2", "169.254.169.254"])
def test_a_named_host_that_leads_inside(registry, address):
    registry.image(["python"])
    registry.names[MIRROR] = [address]
    refused(registry, a_pod(registry), "address that may not be asked", config=mirrored(registry))


def test_a_named_host_that_sends_on(registry):
    """Each hop is judged as the first."""
    registry.image(["python"])
    config = mirrored(registry)
    registry.paths["/mirrored/manifests/1"] = Answer(302, headers={"Location": f"https://inner.example:{registry.port}/m"})
    refused(registry, a_pod(registry), "inner.example", "has not listed", config=config)
    registry.paths["/mirrored/manifests/1"] = Answer(302, headers={"Location": f"https://{MIRROR}:{registry.port}/mirrored/manifests/1"})
    registry.requests.clear()
    refused(registry, a_pod(registry), "it sends for a manifest elsewhere again and again", config=config)
    assert [host for host, *_ in registry.requests] == ["registry.example"] + [MIRROR] * 3


def test_a_named_host_that_wants_a_credential(registry):
    registry.image(["python"])
    config = mirrored(registry)
    registry.paths["/mirrored/manifests/1"] = Answer(401, headers={"WWW-Authenticate": "Basic realm=\"r\""})
    refused(registry, a_pod(registry), "refuses the pod's credential", login=LOGIN, config=config)
    assert registry.credentials() == set()


def test_a_named_host_with_another_ca(registry, tmp_path):
    from lib.server import Authority
    registry.image(["python"])
    mirrored(registry)
    refused(registry, a_pod(registry), "certificate",
            config=registry.write_config(registry.settings(ca=Authority(tmp_path, "other").cert, manifests=[f"{MIRROR}:{registry.port}"])))


# ---- bytes ----

def endless(piece=b" " * 65536):
    return itertools.repeat(piece)


def slowly(data, pause=0.05):
    for byte in data:
        time.sleep(pause)
        yield bytes([byte])


def test_bytes_that_the_digest_does_not_name(registry):
    other = registry.image(["other"], tag="2")[0]
    registry.image(["python"])
    registry.paths[f"/v2/team/train/manifests/{other}"] = registry.paths["/v2/team/train/manifests/1"]
    refused(registry, a_pod(registry, f"team/train@{other}"), "other bytes than the digest names")
    registry.paths["/v2/team/train/manifests/1"].headers["Docker-Content-Digest"] = other
    refused(registry, a_pod(registry), "other bytes than its digest names")


def test_a_configuration_that_the_digest_does_not_name(registry):
    config = registry.config(["python"])
    registry.manifest(config, tag="1")
    registry.paths[f"/v2/team/train/blobs/{digest(config)}"] = Answer(body=config.replace(b"python", b"pyth0n"))
    refused(registry, a_pod(registry), "other bytes than the digest names")


def test_an_index_that_lies(registry):
    arm = registry.manifest(registry.config(["python"], arch="arm64"))
    registry.index([(*arm, "linux", "amd64")])
    refused(registry, a_pod(registry), "another platform than the image's configuration")
    registry.index([(arm[0], arm[1] + 1, "linux", "arm64")])
    refused(registry, a_pod(registry), "another number of bytes")
    registry.index([{"mediaType": MANIFEST, "digest": "sha256:short", "size": 3, "platform": {"os": "linux", "architecture": "amd64"}}])
    refused(registry, a_pod(registry), "without digest")
    inner = registry.index([(*arm, "linux", "arm64")], tag=None)
    registry.index([(*inner, "linux", "arm64")])
    refused(registry, a_pod(registry), "another index")


@pytest.mark.parametrize("lie", [
    {"annotations": {"vnd.docker.reference.type": "attestation-manifest"}}, {"artifactType": "application/x"}])
def test_an_image_that_calls_itself_none(registry, lie):
    """A container runtime looks at the platform alone, and takes the first."""
    other = registry.manifest(registry.config(["other"]))
    named = {"mediaType": MANIFEST, "digest": other[0], "size": other[1], "platform": {"os": "linux", "architecture": "amd64"}, **lie}
    registry.index([named, *platforms(registry, amd64=["python"])])
    refused(registry, a_pod(registry), "something else")


@pytest.mark.parametrize("where", ["manifest", "index"])
def test_documents_that_say_it_twice(registry, where):
    """Container runtimes are written in Go, whose reader takes "Config" for "config", and the last one counts."""
    other = registry.config(["other"])
    registry.blob(other)
    if where == "manifest":
        registry.manifest(registry.config(["python"]), tag="1", Config={"mediaType": CONFIG, "digest": digest(other), "size": len(other)})
    else:
        evil = registry.manifest(other)
        registry.index(platforms(registry, amd64=["python"]), Manifests=[
            {"mediaType": MANIFEST, "digest": evil[0], "size": evil[1], "platform": {"os": "linux", "architecture": "amd64"}}])
    refused(registry, a_pod(registry), "cannot be read")


def test_a_descriptor_that_says_it_twice(registry):
    good, evil = registry.manifest(registry.config(["python"])), registry.manifest(registry.config(["other"]))
    for more in ({"Digest": evil[0]}, {"Platform": {"os": "linux", "architecture": "arm64"}}):
        registry.index([{"mediaType": MANIFEST, "digest": good[0], "size": good[1], "platform": {"os": "linux", "architecture": "amd64"}, **more}])
        refused(registry, a_pod(registry), "cannot be read")


@pytest.mark.parametrize("content_type", ["text/html", "application/json", None, "application/vnd.docker.distribution.manifest.v1+prettyjws", INDEX])
def test_wrong_content_types(registry, content_type):
    registry.image(["python"])
    registry.paths["/v2/team/train/manifests/1"].headers["Content-Type"] = content_type
    if content_type is None:
        del registry.paths["/v2/team/train/manifests/1"].headers["Content-Type"]
    refused(registry, a_pod(registry), "content type")


def test_a_document_that_is_two(registry):
    registry.manifest(registry.config(["python"]), tag="1", manifests=[])
    refused(registry, a_pod(registry), "not what its content type says")


def test_no_container_image(registry):
    registry.manifest(dump({"name": "chart"}), tag="1", config_type="application/vnd.cncf.helm.config.v1+json")
    refused(registry, a_pod(registry), "no container image")


BOMBS = {
    "endless-manifest": lambda: Answer(content_type=MANIFEST, pieces=endless()),
    "endless-head": lambda: Answer(content_type=MANIFEST, headers={f"X-{i}": "y" * 1000 for i in range(90)}),
    "promised": lambda: Answer(content_type=MANIFEST, body=b"{", length=1 << 40),
    "deep": lambda: Answer(content_type=MANIFEST, body=b"[" * 500000),
    "wide": lambda: Answer(content_type=MANIFEST, body=b"[" + b"0," * 400000 + b"0]"),
    "aliases": lambda: Answer(content_type=MANIFEST, body=b'{"config":1,"config":2}'),
    "empty": lambda: Answer(content_type=MANIFEST),
    "gzip": lambda: Answer(content_type=MANIFEST, headers={"Content-Encoding": "gzip"}, body=b"\x1f\x8b" + b"\0" * 100),
    "nul": lambda: Answer(content_type=MANIFEST, body=b'{"a":"\\u0000"}'),
}


@pytest.mark.parametrize("bomb", sorted(BOMBS))
def test_bombs(registry, bomb):
    registry.paths["/v2/team/train/manifests/1"] = BOMBS[bomb]()
    start = time.monotonic()
    refused(registry, a_pod(registry))
    assert time.monotonic() - start < 15


def test_a_head_that_begins_again_and_again(registry):
    """Lines that look like the first of a head do not make it shorter."""
    lines = {f"{'HTTP/' if i % 9 == 0 else 'X-'}{i}": "y" * 1000 for i in range(90)}
    registry.paths["/v2/team/train/manifests/1"] = Answer(content_type=MANIFEST, headers=lines)
    refused(registry, a_pod(registry), "over 16384 bytes")


def test_all_logins_together_ask_so_often(registry):
    """What one image may cost does not grow with the credentials that are tried for it."""
    parts = [(*registry.manifest(registry.config(["python"], n=i)), "linux", "amd64") for i in range(12)]
    registry.index(parts)
    folder = registry.write_login(LOGIN)
    auth = {"auth": base64.b64encode(LOGIN.encode()).decode()}
    env = registry.environment(LOGIN)
    with open(f"{folder}/config.json", "w", encoding="utf-8") as f:
        json.dump({"auths": {registry.host: auth, f"{registry.host}/team": auth, f"{registry.host}/team/train": auth}}, f)
    last = [path for path in registry.paths if "/blobs/" in path][-1]
    registry.paths[last] = Answer(403)
    status, _, err = cli.run("inject", *cli.profile_args(), "--config", registry.write_config(), "--registry", registry.host, "-",
                             data=yaml.safe_dump(a_pod(registry)).encode(), env=env)
    assert status == 1 and "too often" in err, err
    assert len(registry.requests) == 48


def test_a_configuration_that_never_ends(registry):
    config = registry.config(["python"])
    registry.manifest(config, tag="1")
    registry.paths[f"/v2/team/train/blobs/{digest(config)}"] = Answer(pieces=endless())
    refused(registry, a_pod(registry), "over 524288 bytes")


@pytest.mark.parametrize("config", [
    {"Entrypoint": "python"}, {"Entrypoint": [1]}, {"Cmd": {"a": 1}}, {"entrypoint": ["python"]}, {"Entrypoint": ["x" * 40000]},
    {"Entrypoint": ["x"] * 2000}])
def test_configurations_that_are_none(registry, config):
    registry.manifest(dump({"architecture": "amd64", "os": "linux", "config": config}), tag="1")
    refused(registry, a_pod(registry), "its")


def test_too_many_platforms(registry):
    part = registry.manifest(registry.config(["python"]))
    registry.index([(*part, "linux", "amd64")] * 500)
    refused(registry, a_pod(registry), "too many of the platforms")
    assert len(registry.requests) == 1
