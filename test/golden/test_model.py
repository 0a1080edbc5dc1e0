# SPDX-License-Identifier: Apache-2.0
"""Random pods, the same ones in every run: the server and the independent model must come to the same pod or both refuse;
applied twice is applied once; what was injected is admitted. MODEL_PODS sets how many, MODEL_SEED which."""
import os
import random
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [p for p in (HERE, os.path.dirname(HERE)) if p not in sys.path]

from lib import reviews, server  # noqa: E402
from lib.pods import ask, container, pod  # noqa: E402
from oracle import compare, kubelet, model, profile  # noqa: E402

PODS = int(os.environ.get("MODEL_PODS", str(600 // server.SLOW)))
WORDS = ["python", "train.py", "-n", "--", "-c", "sh", "bash", "", " ", "a b", "$(A)", "$$(A)", "$", "$$", "$(B) $$x", "it's",
         '"', "\\", "\n", "ü", "模", "🙂", "bitfusion", "/usr/bin/bitfusion", "bitfusion run", "run", "-p", "0.5", "x=y", "\t",
         "a\nb", "=", "#", "{}", "null", "true", "0644", "&", "é", "~1", "/"]
AMOUNTS = ["1", "1", "1", "2", "3", "1e0", "1000m", "0", "1.5", "-1", "9"]
PERCENTS = [None, None, "50", "100", "1", "12500m", "33.3", "0", "101", "5e1"]
MEMORIES = [None, None, None, None, "4G", "8Gi", "1M", "16000M", "16001M", "999999", "2.5G", "1e9"]


def words(rng, low, high):
    return [rng.choice(WORDS) for _ in range(rng.randint(low, high))]


def variables(rng):
    env = [{"name": n, "value": "".join(words(rng, 0, 2))} for n in rng.sample(["A", "B", "C", "HOME"], rng.randint(0, 3))]
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        value = rng.choice(["/own/lib", "/a:/b", "/a/", "$(A)/lib", ":/a", "", "/a::/b"])
        entry = {"name": "LD_LIBRARY_PATH", "value": value}
        if rng.random() < 0.2:
            entry = {"name": "LD_LIBRARY_PATH", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}
        env.insert(rng.randint(0, len(env)), entry)
    return env


def resources(rng, asks):
    r = ask(rng.choice(AMOUNTS), rng.choice(PERCENTS), rng.choice(MEMORIES)) if asks else {"limits": {}}
    for name, values in (("cpu", ["1", "500m", "0.25"]), ("memory", ["1Gi", "512Mi", "1e9"])):
        if rng.random() < 0.5:
            r["limits"][name] = rng.choice(values)
        elif rng.random() < 0.3:
            r.setdefault("requests", {})[name] = rng.choice(values)
    if not r["limits"]:
        del r["limits"]
    return r


def random_container(rng, name):
    more = {}
    if rng.random() < 0.6:
        more["args"] = words(rng, 0, 4)
    if rng.random() < 0.6:
        more["env"] = variables(rng)
    command = None if rng.random() < 0.04 else words(rng, 1, 6)
    return container(name, command, resources(rng, rng.random() < 0.7), **more)


def random_pod(rng, i):
    kw = {"switch": rng.choice(["all", "all", "yes", "ON", "injection", "no"]), "name": f"p{i}"}
    if rng.random() < 0.4:
        kw["filter"] = " ".join(rng.choice(["zone=lab", "x=$(A)", "gpu.model=K80", "server.name=gpu-01", "k=$$", "a='b'"])
                                for _ in range(rng.randint(1, 3)))
    if rng.random() < 0.4:
        kw["inits"] = [random_container(rng, f"i{k}") for k in range(rng.randint(1, 2))]
        if rng.random() < 0.5:
            kw["inits"][0]["restartPolicy"] = "Always"
    if rng.random() < 0.3:
        kw["labels"] = {"app": "x"}
    return pod(*[random_container(rng, f"c{k}") for k in range(rng.randint(1, 3))], **kw)


def own_launcher(user):
    everyone = user["spec"].get("initContainers", []) + user["spec"]["containers"]
    return any(model.asked(c) and model.starts_launcher(c.get("command")) for c in everyone)


@pytest.fixture(scope="module", name="one")
def fixture_one():
    with server.Server() as running:
        yield running
        assert running.stop() == 0


def check(one, review, want, i):
    got = one.review("/mutate", review)
    user = review["request"]["object"]
    if want.refusal:
        assert not got["allowed"], f"pod {i}: the model refuses ({want.refusal}): {user}"
        return None
    assert got["allowed"], f"pod {i}: {got['message']}: {user}"
    assert (got["pod"] is None) == (want.pod is None), f"pod {i}: {user}"
    if got["pod"] is not None:
        found = compare.differences(got["pod"], user, want)
        assert not found, f"pod {i}: {found}: {user}"
    return got["pod"]


def test_random_pods(one):
    facts = profile.load(server.DEFAULT_CONFIG)
    rng = random.Random(int(os.environ.get("MODEL_SEED", "20240229")))
    injected = refused = 0
    for i in range(PODS):
        review = reviews.review(reviews.default_resources(random_pod(rng, i)))
        if own_launcher(review["request"]["object"]):
            one.review("/mutate", review)  # its options are another test's: here the reply must be well-formed
            continue
        after = check(one, review, model.mutate(review, facts), i)
        if after is None:
            refused += 1
            continue
        injected += 1
        again = one.review("/mutate", reviews.review(after))
        assert again["allowed"] and again["ops"] is None, f"pod {i}: not the same twice: {again}"
        stored = reviews.stored(after)
        verdict = one.review("/validate", reviews.review(stored))
        assert verdict["allowed"] or verdict["reason"] in ("NoCapacity", "NoServer"), f"pod {i}: {verdict}: {stored}"
        if verdict["allowed"]:
            one.review("/validate", reviews.delete_review(stored, 0))
    assert injected > PODS // 20 and refused > PODS // 20
    assert one.pool()["summary"]["claims"] == 0


def test_the_model_itself_strips_what_it_wraps():
    """A launcher that drops its own words gives back the argv, whatever it holds."""
    rng = random.Random(7)
    client = profile.load(server.DEFAULT_CONFIG).clients["ubuntu20", "450"]
    request = model.read_request({"resources": ask("2", "50")}, 16000)
    for _ in range(500):
        c = {"command": words(rng, 1, 5), "args": words(rng, 0, 3), "env": [{"name": "A", "value": "1"}]}
        if model.starts_launcher(c["command"]) or model.shell_line(c) is not None:
            continue
        argv = model.expected_argv(c, client, request, ["k=v", "k=$x"], "sh")
        own, program = kubelet.strip_launcher(argv, kubelet.BITFUSION)
        assert program == kubelet.argv(c) and ("-n", "2") in own and ("-p", "0.500000") in own
