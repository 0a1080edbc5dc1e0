# SPDX-License-Identifier: Apache-2.0
"""edge/metrics/process, the metrics: what they say after known reviews, in the text and in a real Prometheus that scrapes the running program; that nobody
can make new series; that the dashboard's and the alerts' queries find what they ask for.

PICTURES=FOLDER draws the dashboard's panels from what Prometheus recorded during half a minute of load (`make metrics-test
PICTURES=docs/img`); that needs the browser of `make page-test`.
"""
import glob
import json
import os
import re
import threading
import time
import uuid

import pytest
import yaml

from lib import reviews
from lib.pods import ask, container, pod
from lib.server import ROOT, Server, SLOW
from prometheus import Prometheus, promtool

PICTURES = os.environ.get("PICTURES")
MONITORING = os.path.join(ROOT, "manifests/components/monitoring")
POOL = """
apiVersion: poolgate.io/v1alpha1
kind: GPUServer
metadata: {name: gpu-01}
spec: {address: "10.0.0.1:56001", gpus: [{model: V100, memory: 16000M, count: 4}]}
---
apiVersion: poolgate.io/v1alpha1
kind: GPUServer
metadata: {name: gpu-02}
spec: {address: "10.0.0.2:56001", drain: true, gpus: [{model: T4, memory: 15000M, count: 2}]}
---
apiVersion: poolgate.io/v1alpha1
kind: GPUServer
metadata: {name: gpu-03}
spec: {address: "10.0.0.3:56001", gpus: [{model: A100, memory: 80000M, count: 2}]}
"""


def dashboard():
    with open(os.path.join(MONITORING, "dashboard.json"), encoding="utf-8") as f:
        return json.load(f)


def rules():
    with open(os.path.join(MONITORING, "rules.yaml"), encoding="utf-8") as f:
        return [r for g in yaml.safe_load(f)["spec"]["groups"] for r in g["rules"]]


def serve(pool=POOL):
    server = Server(start=False)
    with open(server.path("pool.yaml"), "w", encoding="utf-8") as f:
        f.write(pool)
    server.start()
    return server


def admit(server, name, client=None, **kw):
    """Through both hooks; the last answer and the pod."""
    client = client or server.client
    got = client.review("/mutate", reviews.review(reviews.default_resources(pod(container(resources=ask(**kw)), name=name))))
    if not got["allowed"]:
        return got, None
    p = reviews.stored(got["pod"])
    return client.review("/validate", reviews.review(p)), p


def end(server, p, client=None):
    gone = reviews.review(None, "DELETE", old=p, options={"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "gracePeriodSeconds": 0})
    assert (client or server).review("/validate", gone)["allowed"]


def traffic(server):
    """Known reviews: 5 claims of which 1 ends, 1 refusal for want of room, 1 for a wrong value, 1 forged pod, 1 that is unreadable."""
    pods = [admit(server, f"p{i}", percent="50")[1] for i in range(4)] + [admit(server, "p4", amount="2")[1]]
    end(server, pods[0])
    assert admit(server, "big", amount="99")[0]["reason"] == "NoCapacity"
    assert not admit(server, "wrong", amount="0")[0]["allowed"]
    forged = pod(container(resources=ask()), name="forged")
    assert server.review("/validate", reviews.review(forged))["reason"] == "NotInjected"
    assert server.client.request("POST", "/validate?timeout=5s", b'{"kind":')[0] == 400


@pytest.fixture(scope="module", name="server")
def fixture_server():
    with serve() as s:
        traffic(s)
        yield s


@pytest.fixture(scope="module", name="prometheus")
def fixture_prometheus(server):
    with Prometheus([f"127.0.0.1:{server.plain}"]) as p:
        p.wait("up", lambda r: r and r[0][1] == 1, 60 * SLOW)
        yield p


def series(text):
    return {line.rsplit(" ", 1)[0] for line in text.splitlines() if not line.startswith("#")}


def names(text):
    return set(re.findall(r"^# TYPE (\S+)", text, re.M))


# ---- the text ----

def test_promtool_has_nothing_to_say(server):
    status, said = promtool("check", "metrics", text=server.plain_get("/metrics")[1])
    assert status == 0 and said == "", said


def test_what_they_count(server):
    got = server.metrics()
    want = {
        'poolgate_reviews_total{hook="mutate",result="patched",operation="CREATE"}': 6,
        'poolgate_reviews_total{hook="mutate",result="refused",operation="CREATE"}': 1,
        'poolgate_reviews_total{hook="validate",result="claimed",operation="CREATE"}': 5,
        'poolgate_reviews_total{hook="validate",result="refused",operation="CREATE"}': 2,
        'poolgate_reviews_total{hook="validate",result="untouched",operation="DELETE"}': 1,
        'poolgate_reviews_total{hook="validate",result="unreadable",operation="none"}': 1,
        'poolgate_refusals_total{hook="mutate",reason="Invalid"}': 1,
        'poolgate_refusals_total{hook="validate",reason="NoCapacity"}': 1,
        'poolgate_refusals_total{hook="validate",reason="NotInjected"}': 1,
        'poolgate_refusals_total{hook="validate",reason="other"}': 0,
        'poolgate_claims{state="pending"}': 4, 'poolgate_claims{state="bound"}': 0,
        'poolgate_claims_ended_total{why="released"}': 1, 'poolgate_claims_ended_total{why="unsent"}': 0,
        'poolgate_pool_bytes{server="gpu-02",state="drained"}': 30e9, 'poolgate_pool_bytes{server="gpu-02",state="free"}': 0,
        'poolgate_review_duration_seconds_count{hook="mutate"}': 7, 'poolgate_review_duration_seconds_count{hook="validate"}': 9,
        'poolgate_review_stage_seconds_count{hook="validate",stage="claim"}': 6,
        'poolgate_review_stage_seconds_count{hook="mutate",stage="claim"}': 0,
        'poolgate_http_replies_total{class="2xx"}': 15, 'poolgate_http_replies_total{class="4xx"}': 1,
        'poolgate_reload_ok{what="config"}': 1, 'poolgate_reload_ok{what="pool"}': 1, 'poolgate_reload_ok{what="certificate"}': 1,
        'poolgate_http_connections': 1, 'poolgate_leader': 0,
    }
    assert {k: got.get(k) for k in want} == want
    now = time.time()
    assert 29 * 86400 < got["poolgate_certificate_not_after_seconds"] - now < 31 * 86400
    assert 0 <= now - got['poolgate_reload_success_timestamp_seconds{what="pool"}'] < 300
    assert [v for k, v in got.items() if k.startswith("poolgate_build_info{version=\"")] == [1]
    for server_name, total in (("gpu-01", 64e9), ("gpu-02", 30e9), ("gpu-03", 160e9)):
        parts = [v for k, v in got.items() if k.startswith(f'poolgate_pool_bytes{{server="{server_name}"')]
        assert sum(parts) == total == got[f'poolgate_pool_memory_bytes{{server="{server_name}"}}']


def test_the_process_is_this_one(server):
    got = server.metrics()
    assert abs(got["process_resident_memory_bytes"] / 1024 - server.rss_kib()) < 2048
    assert got["process_open_fds"] >= len(os.listdir(f"/proc/{server.process.pid}/fd")) - 2
    assert got["process_cpu_seconds_total"] <= server.cpu_seconds() + 0.01
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as f:
        assert got["process_threads"] == int(re.search(r"^Threads:\s+(\d+)", f.read(), re.M).group(1))
    began = time.time() - float(open("/proc/uptime", encoding="ascii").read().split()[0])
    with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as f:
        began += int(f.read().rsplit(")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")
    assert abs(got["process_start_time_seconds"] - began) < 2
    assert server.metrics()["process_start_time_seconds"] == got["process_start_time_seconds"], "it moves"


def test_nobody_makes_new_series(server):
    """Names, namespaces, kinds, messages, paths: none of them is a label, whatever strangers send."""
    before = series(server.plain_get("/metrics")[1])
    for i in range(50):
        p = pod(container(name=f"c{i}", resources=ask(amount="99")), name=f"stranger-{i}", namespace=f"space-{i}",
                annotations={"poolgate.io/plan": f'{{"reason":"R{i}"}}'})
        server.review("/mutate", reviews.review(p))
        server.review("/validate", reviews.review(p))
    for i in range(5):
        server.client.request("POST", "/validate?timeout=5s", json.dumps({"kind": f"K{i}"}).encode())
        server.plain_get(f"/nowhere/{uuid.uuid4()}")
    after = series(server.plain_get("/metrics")[1])
    assert after == before
    assert len(after) < 500


def test_a_claim_that_ends_is_counted(server):
    before = server.metrics()
    got, p = admit(server, "stays", percent="1")
    assert got["allowed"]
    assert server.metrics()['poolgate_claims{state="pending"}'] == before['poolgate_claims{state="pending"}'] + 1
    end(server, p)
    now = server.metrics()
    assert now['poolgate_claims_ended_total{why="released"}'] == before['poolgate_claims_ended_total{why="released"}'] + 1
    assert now['poolgate_claims{state="pending"}'] == before['poolgate_claims{state="pending"}']


def test_a_wrong_pool_is_told():
    """The gauge falls, the error is counted, the time of the last good load stays; and back."""
    with serve() as s:
        before = s.metrics()
        with open(s.path("pool.yaml"), "a", encoding="utf-8") as f:
            f.write("\n---\nkind: Nonsense\n")
        s.signal(1)
        assert s.wait_log("reload failed", 10)
        now = s.metrics()
        assert now['poolgate_reload_ok{what="pool"}'] == 0
        assert now['poolgate_reload_errors_total{what="pool"}'] == before['poolgate_reload_errors_total{what="pool"}'] + 1
        stamp = 'poolgate_reload_success_timestamp_seconds{what="pool"}'
        assert now[stamp] == before[stamp]
        assert now['poolgate_reload_ok{what="config"}'] == 1


# ---- what is written down ----

def reasons_in_sources():
    found = set()
    for path in glob.glob(os.path.join(ROOT, "webhook/**/*.[ch]"), recursive=True):
        with open(path, encoding="utf-8") as f:
            found |= set(re.findall(r'err_reason\([^;"]*?ERR_\w+,\s*"(\w+)"', f.read()))
    return found


def test_every_reason_has_its_series(server):
    """A new reason that the table of metrics does not know would hide in "other"."""
    known = set(re.findall(r'poolgate_refusals_total\{hook="mutate",reason="(\w+)"\}', server.plain_get("/metrics")[1]))
    found = reasons_in_sources()
    assert len(found) > 15 and found <= known, found - known


def test_the_docs_name_every_metric(server):
    with open(os.path.join(ROOT, "docs/configuration.md"), encoding="utf-8") as f:
        said = {n for n in re.findall(r"`((?:poolgate|process)_\w+)(?:\{[^`]*\})?`", f.read())}
    assert said == names(server.plain_get("/metrics")[1])


# ---- a real Prometheus ----

def test_prometheus_reads_it(server, prometheus):
    found = prometheus.wait('poolgate_claims{state="pending"}')
    assert found[0][0]["job"] == "poolgate"
    assert prometheus.value('poolgate_refusals_total{hook="validate",reason="NoCapacity"}') >= 1
    assert prometheus.value("count(poolgate_build_info)") == 1
    assert prometheus.value('sum(poolgate_pool_bytes)') == 254e9
    targets = prometheus.ask("targets")["activeTargets"]
    assert len(targets) == 1 and not targets[0]["lastError"]
    # As many series as the text has, beside those of the scrape itself.
    text = series(server.plain_get("/metrics")[1])
    assert prometheus.value('scrape_samples_scraped') == len(text)


def expressions(panel):
    for t in panel.get("targets", []):
        yield t["expr"].replace("$__rate_interval", "10s").replace("$job", ".*")


# What these show does not happen all the time, or is of the listener of usage, which a server without a cluster has not.
QUIET = {"Refusals by reason", "Reviews", "Where the time goes", "GPUs promised, by namespace", "Memory promised, by namespace", "What became of the pool",
         "Memory used of what is promised, by namespace"}


def usage_metrics():
    """{name: its labels} of webhook/edge/admin/usage_page.c."""
    with open(os.path.join(ROOT, "webhook/edge/admin/usage_page.c"), encoding="utf-8") as f:
        text = f.read()
    return re.findall(r'"(poolgate_usage_\w+)"', text), re.findall(r'SLICE\("(\w+)"\)', text)


def test_the_dashboard_names_usage_as_it_is():
    """In its row of usage: metrics and labels that there are."""
    found, labels = usage_metrics()
    assert len(found) == 5
    used = set()
    for panel in dashboard()["panels"]:
        for expression in expressions(panel):
            mine = set(re.findall(r"poolgate_usage_(?!stores)\w+", expression))
            used |= mine
            for by in re.findall(r"by \(([^)]*)\)", expression) if mine else []:
                assert set(by.split(", ")) <= set(labels), expression
    assert used == set(found)
    with open(os.path.join(ROOT, "docs/operating.md"), encoding="utf-8") as f:
        said = re.findall(r"^\| `(poolgate_usage_\w+)\{([\w,]+)\}`", f.read(), re.M)
    assert {name for name, _ in said} == set(found) and {label for _, by in said for label in by.split(",")} == set(labels) - {"Bearer"}


def test_every_query_of_the_dashboard_answers(server, prometheus):
    panels = [p for p in dashboard()["panels"] if p["type"] != "row"]
    assert len(panels) >= 15
    admit(server, "for-the-dashboard", amount="99")
    prometheus.wait("rate(poolgate_reviews_total[10s]) > 0", seconds=30 * SLOW)
    for panel in panels:
        for expression in expressions(panel):
            assert prometheus.query(expression) or panel["title"] in QUIET, f"{panel['title']}: {expression}"


def test_every_query_of_the_alerts_is_about_what_there_is(server, prometheus):
    """The name, and each label that is asked for by value, of every selector."""
    text = server.plain_get("/metrics")[1]
    known, lines = names(text), series(text)
    for rule in rules():
        prometheus.query(rule["expr"])
        for name, labels in re.findall(r"\b((?:poolgate|process)_\w+)(?:\{([^}]*)\})?", rule["expr"]):
            assert re.sub("_(bucket|sum|count)$", "", name) in known or name in known, f"{rule['alert']}: {name}"
            for label in re.findall(r'\w+="[^"]*"', labels or ""):
                assert any(s.startswith(name + "{") and label in s for s in lines), f"{rule['alert']}: {name}{{{label}}}"


def test_the_dashboard_is_one(prometheus):
    """What Grafana needs to show it: ids that differ, a grid without overlaps, panels that say where their data come from."""
    d = dashboard()
    panels = d["panels"]
    assert d["uid"] == "poolgate" and len({p["id"] for p in panels}) == len(panels)
    cells = set()
    for p in panels:
        g = p["gridPos"]
        mine = {(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])}
        assert g["x"] + g["w"] <= 24 and not mine & cells, p["title"]
        cells |= mine
        if p["type"] != "row":
            assert p["datasource"]["uid"] == "${datasource}" and p["targets"] and p["fieldConfig"]["defaults"]["unit"]
    assert {v["name"] for v in d["templating"]["list"]} == {"datasource", "job"}


def pictures():
    """Half a minute of load from four clients, while the pool is changed and a wrong one is tried; then every panel is drawn."""
    import random
    import draw
    seconds = 40
    with serve() as s, Prometheus([f"127.0.0.1:{s.plain}"]) as p:
        p.wait("up", lambda r: r and r[0][1] == 1, 60)
        began = time.time()

        def client(seed):
            rng, held, mine = random.Random(seed), [], s.new_client()
            while time.time() - began < seconds:
                wish = rng.choice([{"percent": "20"}, {"percent": "50"}, {"amount": "1"}, {"amount": "1"}, {"amount": "3"}])
                got, its = admit(s, f"w{seed}-{rng.randrange(10**9)}", mine, **wish)
                if got["allowed"]:
                    held.append(its)
                if rng.random() < 0.05:
                    mine.review("/validate", reviews.review(pod(container(resources=ask()), name="forged")))
                if len(held) > 4 or (held and rng.random() < 0.3):
                    end(s, held.pop(0), mine)
                time.sleep(rng.random() * (0.3 if 12 < time.time() - began < 26 else 0.9))
            mine.close()

        clients = [threading.Thread(target=client, args=(i,)) for i in range(4)]
        for c in clients:
            c.start()
        time.sleep(20)
        with open(s.path("pool.yaml"), "w", encoding="utf-8") as f:
            f.write(POOL.replace("drain: true, ", ""))
        s.signal(1)
        for c in clients:
            c.join()
        os.makedirs(PICTURES, exist_ok=True)
        draw.dashboard(dashboard(), p, began + 2, began + seconds, os.path.join(PICTURES, "dashboard.png"))


# A test only where pictures are asked for, so that nothing is skipped elsewhere.
if PICTURES:
    test_pictures = pictures
