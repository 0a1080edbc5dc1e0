# SPDX-License-Identifier: Apache-2.0
"""Reviews of pods whose images are looked at, by a running server: the I/O thread goes on meanwhile, and no registry takes a review's time."""
import base64
import copy
import json
import signal
import threading
import time

import jsonpatch
import pytest

from lib import cli, pods, reviews
from lib.server import SANITIZED, SLOW, wait_until
from registry import MANIFEST, Answer, Trap
from test_registry import PLAN, program_of


def a_pod(registry, image="team/train:1", **more):
    return pods.pod(pods.container(command=None, image=f"{registry.host}/{image}", **more))


@pytest.fixture(name="serve")
def fixture_serve(registry, fresh):
    def make(**how):
        return fresh(args=["--config", registry.write_config(), *how.pop("args", [])], env=registry.environment(), **how)
    return make


def refused_for(answer):
    assert (answer["allowed"], answer["code"], answer["reason"]) == (False, 403, "ImageUnknown"), answer
    return answer["message"]


def test_a_pod_from_its_create_to_its_end(registry, serve):
    """Injected, admitted with a claim, injected again by the user's own manifest, and given back as it was."""
    registry.image(["/entry", "$(X) $"], ["a"])
    server = serve()
    pod = reviews.default_resources(a_pod(registry, args=["b c"]))
    answer = server.review("/mutate", reviews.review(pod))
    assert answer["allowed"], answer
    after = answer["pod"]
    assert program_of(after) == (["/entry", "$(X) $"], ["b c"])
    created = copy.deepcopy(after)
    created["metadata"]["uid"] = reviews.new_uid()
    assert server.review("/validate", reviews.review(created))["allowed"]
    assert server.pool()["servers"][0]["claims"]
    again = copy.deepcopy(pod)
    again["metadata"]["uid"] = created["metadata"]["uid"]
    answer = server.review("/mutate", reviews.review(again, operation="UPDATE", old=created))
    assert answer["pod"] == created
    changed = copy.deepcopy(again)
    changed["spec"]["containers"][0]["args"] = ["other"]
    answer = server.review("/mutate", reviews.review(changed, operation="UPDATE", old=created))
    assert answer["allowed"] and "command" not in answer["pod"]["spec"]["containers"][0]
    status, out, err = cli.uninject(json.dumps(after).encode())
    assert status == 0, err
    assert json.loads(out) == pod


def test_another_hook_may_wrap_it_once_more(registry, serve):
    registry.image(["/entry"])
    server = serve()
    pod = reviews.default_resources(a_pod(registry))
    after = server.review("/mutate", reviews.review(pod))["pod"]
    main = after["spec"]["containers"][0]
    main["command"], main["args"] = ["/sidecar"], main["command"]
    after["metadata"]["uid"] = pod["metadata"]["uid"] = reviews.new_uid()
    assert server.review("/validate", reviews.review(after))["allowed"]
    status, _, data = server.client.request("POST", "/mutate", json.dumps(reviews.review(pod, operation="UPDATE", old=after)).encode())
    assert status == 200
    assert jsonpatch.apply_patch(pod, json.loads(base64.b64decode(json.loads(data)["response"]["patch"]))) == after


def test_it_is_asked_once(registry, serve):
    registry.image(["python"])
    server = serve()
    first = server.review("/mutate", reviews.review(a_pod(registry)))
    n = len(registry.requests)
    registry.image(["other"])
    assert server.review("/mutate", reviews.review(a_pod(registry)))["pod"] == first["pod"]
    assert n == 2 and len(registry.requests) == n


def test_what_needs_no_registry_asks_none(registry, serve):
    """Nor a worker."""
    server = serve()
    before = server.metric("poolgate_http_deferred")
    for pod in (pods.pod(), pods.pod(pods.container(command=None, image=f"{registry.host}/a"), switch=None),
                pods.pod(pods.container(command=None, image=f"{registry.host}/a"), switch="injection")):
        assert server.review("/mutate", reviews.review(pod))["allowed"]
    answer = server.review("/mutate", reviews.review(pods.pod(pods.container(command=None, image="elsewhere.example/a"))))
    assert not answer["allowed"] and "no command" in answer["message"]
    assert server.metric("poolgate_http_deferred") == before
    assert registry.requests == [] and registry.looked_up() == []


def test_others_go_on_meanwhile(registry, serve):
    """A registry that is silent for a while takes one worker. The I/O thread answers, and so does the other worker."""
    registry.image(["python"])
    go = threading.Event()
    registry.hooks.append(lambda *_: go.wait(20) and None)
    server = serve()
    got = []
    waiting = threading.Thread(target=lambda: got.append(server.new_client().review("/mutate", reviews.review(a_pod(registry)))))
    waiting.start()
    assert wait_until(lambda: registry.requests, 10)
    start = time.monotonic()
    for _ in range(20):
        assert server.review("/mutate", reviews.review(pods.pod()))["allowed"]
    assert "too many images" in refused_for(server.review("/mutate", reviews.review(a_pod(registry, "team/other:1"))))
    took = time.monotonic() - start
    assert not got
    go.set()
    waiting.join()
    assert got[0]["allowed"], got
    assert took < 2 * SLOW


@pytest.mark.parametrize("how", ["silent", "drop-by-drop", "no-handshake", "no-name"])
def test_a_slow_registry_leaves_time_to_say_so(registry, fresh, how):
    """Three quarters of the review's time, then the refusal: the API server still hears it."""
    over = threading.Event()
    quiet = Trap(("127.0.0.3", registry.port), keep=True)

    def drops():
        while not over.wait(0.05):
            yield b" "

    if how == "silent":
        registry.hooks.append(lambda *_: over.wait(20) and None)
    elif how == "drop-by-drop":
        registry.hooks.append(lambda *_: Answer(content_type=MANIFEST, pieces=drops()))
    elif how == "no-name":
        registry.names["registry.example"] = ["slow"]
    else:
        registry.names["registry.example"] = ["127.0.0.3"]
    config = registry.write_config(registry.settings(addresses=["127.0.0.1", "127.0.0.3"]))
    server = fresh(args=["--config", config], env=registry.environment())
    body = json.dumps(reviews.review(a_pod(registry))).encode()
    start = time.monotonic()
    status, _, data = server.client.request("POST", "/mutate?timeout=2s", body)
    took = time.monotonic() - start
    over.set()
    quiet.close()
    assert status == 200
    answer = json.loads(data)["response"]
    assert answer["status"]["reason"] == "ImageUnknown" and "did not answer in time" in answer["status"]["message"], answer
    assert 0.7 < took < 2


def test_documents_take_bounded_memory(registry, serve):
    """Eight questions at one time, each with twelve platforms of the longest documents that are read: a replica lives on 384 MiB."""
    pad = "x" * 500_000
    parts = [(*registry.manifest(registry.config(["python"], pad=pad, n=i), annotations={"pad": pad}), "linux", "amd64") for i in range(12)]
    for i in range(8):
        registry.index(parts, tag=str(i), annotations={"pad": pad})
    server = serve(args=["--workers", "16"])
    before = server.rss_kib("VmHWM")
    got = []
    threads = [threading.Thread(target=lambda i=i: got.append(
        server.new_client().review("/mutate?timeout=30s", reviews.review(a_pod(registry, f"team/train:{i}"))))) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(got) == 8 and all(answer["allowed"] for answer in got), got
    assert SANITIZED or server.rss_kib("VmHWM") - before < 48 * 1024


def test_settings_change_while_it_runs(registry, serve):
    registry.image(["python"])
    server = serve()
    path = registry.write_config({"host": "ghcr.io"})
    server.signal(signal.SIGHUP)
    assert wait_until(lambda: "no command" in server.review("/mutate", reviews.review(a_pod(registry)))["message"] or "", 10)
    assert path == registry.write_config()
    server.signal(signal.SIGHUP)
    assert wait_until(lambda: server.review("/mutate", reviews.review(a_pod(registry)))["allowed"], 10)


def test_workloads_are_not_looked_at(registry, serve):
    """Their templates lack the account's imagePullSecrets: a warning could be wrong. That it has no command is none."""
    server = serve()
    template = a_pod(registry)
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "ml"}, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": template["metadata"], "spec": template["spec"]}}}
    answer = server.review("/validate", reviews.review(deployment))
    assert answer["allowed"] and not answer["warnings"], answer
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "elsewhere.example/a"
    assert "no command" in " ".join(server.review("/validate", reviews.review(deployment))["warnings"])
    assert registry.requests == [] and registry.looked_up() == []


def test_two_containers_of_one_image(registry, serve):
    registry.image(["python"])
    server = serve()
    image = f"{registry.host}/team/train:1"
    pod = pods.pod(pods.container("a", None, image=image), pods.container("b", None, image=image))
    after = server.review("/mutate", reviews.review(pod))["pod"]
    assert [c["command"][-1] for c in after["spec"]["containers"]] == ["python", "python"]
    assert {c["image"]["words"] for c in json.loads(after["metadata"]["annotations"][PLAN])["containers"]} == {1}
    assert len(registry.requests) == 2


def test_check_says_what_is_in_force(registry):
    config = registry.write_config(registry.settings(), {"host": "docker.io", "tokens": ["auth.docker.io"]})
    args = ["serve", *cli.profile_args(), "--config", config, "--check", "--tls-cert", "x", "--tls-key", "x"]
    _, out, _ = cli.run(*args)
    assert f"registry            {registry.host}, tokens from tokens.example:{registry.port}, blobs from blobs.example:{registry.port}" in out.decode()
    assert "registry            docker.io, tokens from auth.docker.io\n" in out.decode()
    status, _, err = cli.run(*args, "--workers", "0")
    assert status == 3 and "reviews wait for registries" in err


WRONG = {
    "a-url": ({"host": "https://ghcr.io"}, "/registries/0/host"),
    "capitals": ({"host": "GHCR.io"}, "/registries/0/host"),
    "default-port": ({"host": "ghcr.io:443"}, "/registries/0/host"),
    "a-path": ({"host": "ghcr.io/team"}, "/registries/0/host"),
    "a-pattern": ({"host": "*.example.com"}, "/registries/0/host"),
    "none": ({}, "/registries/0"),
    "token-pattern": ({"host": "a", "tokens": ["*"]}, "/registries/0/tokens/0"),
    "range": ({"host": "a", "addresses": ["10.0.0.0/40"]}, "/registries/0/addresses/0"),
    "name-as-range": ({"host": "a", "addresses": ["localhost"]}, "/registries/0/addresses/0"),
    "unknown": ({"host": "a", "insecure": True}, "insecure"),
}


@pytest.mark.parametrize("case", sorted(WRONG))
def test_wrong_settings(registry, case):
    entry, where = WRONG[case]
    status, _, err = cli.run("inject", *cli.profile_args(), "--config", registry.write_config(entry), "-", data=b"")
    assert status == 3 and where in err, err


@pytest.mark.parametrize("flag", ["", "https://ghcr.io", "GHCR.io", "ghcr.io,", "ghcr.io,*"])
def test_wrong_flags(registry, flag):
    status, _, err = cli.run("inject", *cli.profile_args(), "--registry", flag, "-", data=b"")
    assert status == 2 and "--registry" in err, err
