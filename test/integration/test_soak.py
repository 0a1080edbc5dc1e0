# SPDX-License-Identifier: Apache-2.0
"""Eight clients and mixed reviews: no wrong answer, no crash, flat memory. SOAK sets how many reviews (100000 for a full
run); in the suite it is a short one."""
import json
import os
import threading

from lib import reviews
from lib.pods import ask, container, pod
from lib.server import SANITIZED, SLOW

REVIEWS = int(os.environ.get("SOAK", str(4000 // SLOW)))
RECORDED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden/recorded")
CLIENTS = 8


def mixed():
    """(path, body) of reviews whose answer does not depend on what others do."""
    out = []
    for name in sorted(os.listdir(RECORDED)):
        with open(os.path.join(RECORDED, name), "rb") as f:
            out.append(("/validate" if name.startswith("validate") else "/mutate", f.read()))
    pods = [pod(container(resources=ask(percent=str(p)), command=["python", f"{p}.py", "a b"]), switch=s, version=v)
            for p in (1, 50, 100, 101) for s in ("all", "injection", "no") for v in ("450", "999")]
    pods.append(pod(container(env=[{"name": f"V{i}", "value": "x" * 30} for i in range(800)])))
    out += [("/mutate", json.dumps(reviews.review(reviews.default_resources(p))).encode()) for p in pods]
    out += [("/mutate", b"{"), ("/validate", b'{"a":1,"a":2}'), ("/mutate", b"")]
    return out


def ask_raw(client, path, body):
    status, _, data = client.request("POST", path + "?timeout=10s", body)
    return status, data


def claim_cycle(server, client, i, wrong):
    """A pod is admitted, seen twice, and let go; both servers' capacity is enough for all clients at 10 %."""
    got = client.review("/mutate", reviews.review(reviews.default_resources(pod(
        container(resources=ask(percent="10")), name=f"soak-{i}"))))
    stored = reviews.stored(got["pod"])
    for _ in range(2):
        if not client.review("/validate", reviews.review(stored))["allowed"]:
            wrong.append(f"soak-{i} was refused")
    if not client.review("/validate", reviews.delete_review(stored, 0))["allowed"]:
        wrong.append(f"soak-{i}: DELETE refused")


def test_mixed_reviews(fresh, capfd):
    server = fresh()
    work = mixed()
    first = server.new_client()
    answers = [ask_raw(first, path, body) for path, body in work]
    wrong, sizes, lock = [], [], threading.Lock()
    done = [0]

    def one(k):
        client = server.new_client()
        try:
            for i in range(REVIEWS // CLIENTS):
                n = (i * 7 + k) % len(work)
                if i % 10 == 9:
                    claim_cycle(server, client, f"{k}-{i}", wrong)
                elif ask_raw(client, *work[n]) != answers[n]:
                    wrong.append(work[n][1][:80])
                with lock:
                    done[0] += 1
                    if done[0] % (REVIEWS // 20) == 0:
                        sizes.append(server.rss_kib())
        except Exception as error:  # pylint: disable=broad-except
            wrong.append(repr(error))
        client.close()

    threads = [threading.Thread(target=one, args=(k,)) for k in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with capfd.disabled():
        print(f"\n{REVIEWS} reviews of {CLIENTS} clients, {len(wrong)} wrong answers; resident KiB after each twentieth: {sizes}")
    assert not wrong, wrong[:5]
    assert server.alive()
    # a short run has hardly warmed up by a tenth of it
    warm = sizes[1] if REVIEWS >= 100000 else sizes[len(sizes) // 3]
    assert SANITIZED or sizes[-1] - warm < 1024, f"memory grows: {sizes}"
    assert "soak-" not in json.dumps(server.pool()), "claims stayed behind"
    assert server.stop() == 0
