# SPDX-License-Identifier: Apache-2.0
"""The page with the pool as a person sees it: the real program, a real browser.

PICTURES=FOLDER writes the screenshots there that docs/operating.md shows (`make page-test PICTURES=docs/img`); the pods of the picture
are then given the 45 s after which a claim without a cluster counts as bound.
"""
import contextlib
import http.client
import json
import os
import subprocess
import time

import pytest

import browser
from lib import api, reviews, waiting
from lib.pods import ask, container, pod
from lib.server import PROGRAM, Server, SLOW, wait_until

PICTURES = os.environ.get("PICTURES")
STARTED_S = 46


def gpu_server(name, model, memory, count, **spec):
    spec = {"address": f"{name}.example:56001", "gpus": [{"model": model, "memory": memory, "count": count}], **spec}
    return {"apiVersion": "poolgate.io/v1alpha1", "kind": "GPUServer", "metadata": {"name": name}, "spec": spec}


POOL = [
    {**gpu_server("gpu-a100-01", "NVIDIA A100-SXM4-80GB", "81920Mi", 4), "metadata": {"name": "gpu-a100-01", "labels": {"zone": "lab"}}},
    gpu_server("gpu-l4-01", "NVIDIA L4", "23034Mi", 2, drain=True),
    {**gpu_server("gpu-v100-01", "Tesla V100-PCIE-16GB", "16160Mi", 4), "metadata": {"name": "gpu-v100-01", "labels": {"zone": "lab",
                                                                                                                "rack": "r3"}}},
    gpu_server("gpu-v100-02", "Tesla V100-PCIE-16GB", "16160Mi", 2),
]
# Chosen by somebody who wishes the operator ill; the API server would not take them, a server without one does.
HOSTILE = ["</title></td></svg><script>window.owned=1;document.title='owned'</script>", '"><img src=x onerror="window.owned=2">',
           "<svg/onload=window.owned=3>", "a\u202egpj.exe", "<style>*{display:none}</style>", "<base href=//evil.example/>", "&lt;b&gt;"]


def serve(documents):
    server = Server(start=False)
    with open(server.path("pool.yaml"), "w", encoding="utf-8") as f:
        f.write("\n---\n".join(json.dumps(d) for d in documents))
    server.start()
    return server


def admit(server, name, namespace="ml", filter=None, **kw):
    """A pod goes through both hooks, as a cluster would send it."""
    p = pod(container(resources=ask(**kw)), name=name, namespace=namespace, filter=filter)
    got = server.review("/mutate", reviews.review(reviews.default_resources(p)))
    if not got["allowed"]:
        return got
    return server.review("/validate", reviews.review(reviews.stored(got["pod"])))


def release(server, name, namespace="ml"):
    connection = http.client.HTTPConnection("127.0.0.1", server.admin, timeout=10 * SLOW)
    connection.request("POST", "/v1/release", json.dumps({"namespace": namespace, "name": name}), {"Content-Type": "application/json"})
    assert connection.getresponse().status == 200
    connection.close()


def populate(server):
    for i, (name, namespace, kw) in enumerate([
            ("train-resnet-0", "ml", {"percent": "50"}), ("train-resnet-1", "ml", {"percent": "50"}),
            ("notebook-0", "research", {"percent": "25"}), ("bert-large-7f9c", "research", {"amount": "2"}),
            ("inference-b", "prod", {"percent": "30"}), ("tune-lr-4", "research", {"memory": "6000M"})]):
        got = admit(server, name, namespace, filter="gpu.model=A100-SXM4-80GB" if i in (2, 3) else None, **kw)
        assert got["allowed"], got


@pytest.fixture(scope="module", name="server")
def fixture_server():
    with serve(POOL) as s:
        populate(s)
        yield s


@pytest.fixture(scope="module", name="b")
def fixture_browser():
    with browser.Browser() as b:
        yield b


def url(server):
    return f"http://127.0.0.1:{server.admin}/"


def asked(server):
    """All that the page may ask for, its own address apart."""
    return {url(server) + "v1/pool?servers=1&claims=1", url(server) + "v1/decisions"}


def open_clean(b, server, width=1200, path="", drawn=True):
    b.size(width, 800, phone=width < 500)
    b.dark(False)
    del b.complaints[:], b.requests[:], b.answered[:]
    b.open(url(server) + path)
    if drawn:
        assert b.wait("document.getElementById('live').textContent === 'live'"), b.complaints


def text(b):
    return b.eval("document.body.innerText")


def test_what_is_there_is_shown(server, b):
    open_clean(b, server)
    shown = text(b)
    for word in ("gpu-a100-01", "Tesla V100-PCIE-16GB", "draining", "train-resnet-0", "zone=lab", "patched", "claimed"):
        assert word in shown, word
    assert b.eval("document.querySelectorAll('article').length") == len(POOL)
    # Every claim has its piece of a bar, and says whose it is.
    titles = b.eval("[...document.querySelectorAll('article svg title')].map(t => t.textContent)")
    assert any(t.startswith("ml/train-resnet-0: 8.5 GB, ") for t in titles), titles
    assert len(titles) == 7
    widths = b.eval("[...document.querySelectorAll('article svg.bar')].map(s => [...s.querySelectorAll('rect')]"
                    ".reduce((n, r) => n + r.getBBox().width, 0) / s.clientWidth)")
    assert len(widths) == 12 and all(abs(w - 1) < 0.01 for w in widths), widths
    # Nothing but the page itself was asked for, and nothing went wrong.
    assert b.requests[0] == url(server) and set(b.requests[1:]) == asked(server) and not b.complaints, (b.requests, b.complaints)


def test_a_claim_appears_and_goes(server, b):
    """Without a reload: the script brings what is new, and the page stays where its reader is."""
    open_clean(b, server)
    b.eval("window.mark = 7, window.scrollTo(0, 200)")
    assert "comes-and-goes" not in text(b)
    assert admit(server, "comes-and-goes", amount="1")["allowed"]
    assert b.wait("document.querySelector('.claims').innerText.includes('comes-and-goes')", 20 * SLOW)
    assert "ml/comes-and-goes: " in "\n".join(b.eval("[...document.querySelectorAll('article title')].map(t => t.textContent)"))
    assert b.eval("document.getElementById('live').textContent") == "live"
    release(server, "comes-and-goes")
    assert b.wait("!document.querySelector('.claims').innerText.includes('comes-and-goes')", 20 * SLOW)
    # What was decided stays to be read.
    assert b.eval("document.querySelector('.decisions').innerText.includes('comes-and-goes')")
    assert b.eval("window.mark === 7 && window.scrollY === 200"), "the page was loaded anew, or jumped"
    assert set(b.requests) == {url(server), *asked(server)} and not b.complaints, b.complaints


def test_a_refusal_is_explained(server, b):
    assert admit(server, "too-big", amount="20")["reason"] == "NoCapacity"
    open_clean(b, server)
    row = b.eval("[...document.querySelectorAll('.decisions tr')].map(r => r.innerText).find(t => t.includes('too-big') && "
                 "t.includes('refused'))")
    assert "NoCapacity" in row and "asked 20 GPUs" in row and "ask for at most" in row


def test_hostile_names_are_shown_and_do_nothing(server, b):
    for i, name in enumerate(HOSTILE):
        got = admit(server, name, namespace=HOSTILE[i - 1], percent="1")
        assert got["allowed"], got
    # A refusal whose message holds what the pod says.
    bad = pod(container(name=HOSTILE[0], resources=ask(amount="<script>window.owned=4</script>")), name=HOSTILE[0])
    assert not server.review("/mutate", reviews.review(bad))["allowed"]
    open_clean(b, server)
    assert b.wait("document.getElementById('live').textContent === 'live'")
    for again in (False, True):
        if again:  # as the script brings it
            seen = len(b.requests)
            assert wait_until(lambda: len(b.requests) > seen, 20 * SLOW)
            time.sleep(0.5)
        shown = b.eval("document.querySelector('main').textContent")
        for name in HOSTILE:
            assert name.replace("\u202e", "\\u202e") in shown, name
        assert "\u202e" not in shown
        assert b.eval("window.owned") is None
        assert b.eval("document.title").startswith("poolgate: ")
        assert b.eval("document.querySelectorAll('script').length") == 1
        assert b.eval("document.querySelectorAll('main script, main style, img, base, iframe').length") == 0
        assert b.eval("document.querySelectorAll('article').length") == len(POOL)
    assert set(b.requests) == {url(server), *asked(server)} and not b.complaints, (b.requests, b.complaints)
    for i, name in enumerate(HOSTILE):
        release(server, name, HOSTILE[i - 1])


@contextlib.contextmanager
def follower(folder, pods):
    """A replica that does not lead, in front of an API server that shows these pods; None: that shows none to it."""
    def answer(path):
        if "watch=" in path:
            return api.FORBIDDEN
        if path.startswith(waiting.SERVERS):
            return waiting.listed("GPUServerList", [waiting.server("gpu-01", 2, [])])
        if path.startswith("/api/v1/pods"):
            return api.FORBIDDEN if pods is None else waiting.listed("PodList", pods)
        return None

    with api.served(answer, folder) as kubeconfig, Server(start=False) as s:
        argv = s.argv()
        at = argv.index("--pool")
        s.start([*argv[:at], *argv[at + 2:], "--kubeconfig", kubeconfig, "--namespace", "poolgate-system"])
        yield s


def told(pod, words, **annotations):
    pod["metadata"]["annotations"].update(annotations)
    pod["status"]["conditions"] = [{"type": "poolgate.io/Admitted", "status": "False", "reason": "NoCapacity", "message": words}]
    return pod


def waiting_rows(b):
    return b.eval("[...document.querySelectorAll('.waiting tbody tr')].map(r => r.innerText)")


def test_who_waits_is_shown(b, tmp_path):
    """On a replica that does not lead by age, each with what it was told last; none of their places is made up."""
    made = waiting.injected()
    with follower(tmp_path, [waiting.pod(made, "train-1", 2, waiting.GATE), told(waiting.pod(made, "train-0", 1, waiting.GATE),
                  "asked 2 GPUs with 100 % each; it is number 1 of 2 that wait", **{"poolgate.io/gang": "night"})]) as s:
        open_clean(b, s)
        rows = waiting_rows(b)
        assert len(rows) == 2, rows
        for word in ("ml/train-0", "of gang night", "2 GPUs with 100 % each", "it is number 1 of 2 that wait"):
            assert word in rows[0], rows
        assert "ml/train-1" in rows[1] and "It has not been told yet." in rows[1]
        assert "the replica that leads knows their order" in b.eval("document.querySelector('#waiting h2').innerText")
        # So it stands in a terminal, too.
        table = subprocess.run([PROGRAM, "pool", "--server", url(s)], capture_output=True, text=True, timeout=30 * SLOW, check=True).stdout
        lines = table[table.index("PLACE"):].splitlines()
        assert [line.split()[:3] for line in lines[1:3]] == [["-", "ml/train-0", "night"], ["-", "ml/train-1", "2026-01-01T00:02:00Z"]], table
        assert lines[1].endswith("it is number 1 of 2 that wait") and lines[-1].endswith("2 pods waiting"), table
        # As the leader tells it: the very document, with places.
        b.eval("""window.fetchReal = window.fetch; window.fetch = async (path, options) => { const got = await fetchReal(path, options);
            if (!path.startsWith('/v1/pool')) return got; const pool = await got.json(); pool.waiting.ordered = true;
            pool.waiting.pods.forEach((p, i) => p.place = i + 1); pool.waiting.total = 300; return new Response(JSON.stringify(pool)); }""")
        assert b.wait("document.querySelector('#waiting').innerText.includes('the first 2 of 300')", 20 * SLOW)
        assert [r.split()[0] for r in waiting_rows(b)] == ["1", "2"]
        assert "knows their order" not in text(b)
        assert not b.complaints, b.complaints


def test_nobody_waits(b, tmp_path, server):
    for pods, said in (([], "Nobody waits for GPUs."), (None, "This replica cannot tell now.")):
        with follower(tmp_path, pods) as s:
            open_clean(b, s)
            assert b.eval("document.querySelector('#waiting .none').innerText") == said
    # Without a cluster nobody ever does.
    open_clean(b, server)
    assert not b.eval("document.querySelector('#waiting')")


@pytest.mark.parametrize("width", (1200, 390, 320))
def test_hostile_pods_wait_and_do_nothing(b, tmp_path, width):
    made = waiting.injected()
    words = [*HOSTILE, "x" * 250]
    pods = [told(waiting.pod(made, name, i, waiting.GATE, namespace=words[i - 1]), words[i - 2], **{"poolgate.io/gang": words[i - 3]})
            for i, name in enumerate(words)]
    with follower(tmp_path, pods) as s:
        open_clean(b, s, width)
        rows = waiting_rows(b)
        assert len(rows) == len(words), rows
        shown = b.eval("document.querySelector('main').textContent")
        for name in HOSTILE:
            assert shown.count(name.replace("\u202e", "\\u202e")) >= 4, name
        assert "\u202e" not in shown and b.eval("window.owned") is None
        assert b.eval("document.querySelectorAll('main script, main style, img, base, iframe').length") == 0
        assert b.eval("document.documentElement.scrollWidth <= window.innerWidth"), "the page scrolls sideways"
        for dark in (False, True):
            b.dark(dark)
            assert b.eval(CONTRASTS)[0] >= 4.5, b.eval(CONTRASTS)
        assert not b.complaints, b.complaints


def test_the_policy_holds(server, b):
    """Were markup to slip through one day, it could not run, load or send."""
    open_clean(b, server)
    b.eval("document.body.insertAdjacentHTML('beforeend', '<p id=slip onclick=\"window.owned=1\" style=\"color:red\">x"
           "<img src=/v1/pool onerror=\"window.owned=1\"><iframe src=/v1/pool></iframe></p>')")
    b.eval("document.body.appendChild(Object.assign(document.createElement('script'), {textContent: 'window.owned = 1'}))")
    b.eval("document.getElementById('slip').click()")
    # Not even to this server under its other name.
    assert b.eval(f"fetch('http://localhost:{server.admin}/v1/pool').then(() => 'sent', () => 'kept')") == "kept"
    assert b.eval("new Promise(r => setTimeout(() => r(window.owned || 0), 500))") == 0
    assert b.eval("getComputedStyle(document.getElementById('slip')).color") != "rgb(255, 0, 0)"
    assert set(b.answered) == {url(server), *asked(server)}, b.answered
    assert sum("Content Security Policy" in c for c in b.complaints) >= 4, b.complaints


def test_nobody_elses_page_may_ask(server):
    """A web page whose name was made to lead here is refused, by the Host that its browser sends."""
    for path in ("/", "/v1/pool", "/v1/decisions"):
        for host, status in ((f"evil.example:{server.admin}", 421), (f"localhost:{server.admin}", 200)):
            connection = http.client.HTTPConnection("127.0.0.1", server.admin, timeout=10 * SLOW)
            connection.request("GET", path, headers={"Host": host})
            answer = connection.getresponse()
            assert answer.status == status, (path, host)
            answer.read()
            connection.close()


def test_without_javascript(server):
    """A sentence says where the same can be read."""
    with browser.Browser(javascript=False) as b:
        open_clean(b, server, drawn=False)
        assert "poolgate pool --server" in text(b)
        assert b.requests == [url(server)] and not b.complaints


@pytest.mark.parametrize("width", (390, 320))
def test_nothing_sticks_out_on_a_phone(server, b, width):
    long = "x" * 200 + "." + "y" * 50
    assert admit(server, long, percent="1")["allowed"]
    open_clean(b, server, width)
    assert b.eval("document.documentElement.scrollWidth <= window.innerWidth"), "the page scrolls sideways"
    out = b.eval("[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > window.innerWidth + 0.5)"
                 ".map(e => e.tagName + '.' + (e.className.baseVal ?? e.className)).slice(0, 5)")
    assert not out, out
    release(server, long)


# Text must stand out from what is behind it (WCAG 2: 4.5 to 1).
CONTRASTS = """(() => {
const parse = c => c.match(/[\\d.]+/g).map(Number);
const light = c => { const [r, g, b] = parse(c).slice(0, 3).map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  return .2126 * r + .7152 * g + .0722 * b; };
const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
  if (parse(c).length === 3 || parse(c)[3] > 0) return c; } return 'rgb(255, 255, 255)'; };
return [...document.querySelectorAll('body *')].filter(e => !e.closest('svg, script, style, noscript') &&
  [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())).map(e => {
  const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
  return [(a + .05) / (b + .05), e.tagName + '.' + e.className]; }).sort((x, y) => x[0] - y[0])[0]; })()"""


def test_light_and_dark(server, b):
    open_clean(b, server)
    light = b.eval("getComputedStyle(document.body).backgroundColor")
    assert b.eval(CONTRASTS)[0] >= 4.5, b.eval(CONTRASTS)
    b.dark(True)
    assert b.eval("getComputedStyle(document.body).backgroundColor") != light
    assert b.eval(CONTRASTS)[0] >= 4.5, b.eval(CONTRASTS)


def test_a_large_pool_stays_a_page(b):
    """A thousand servers: the page is bounded, the map has all, and the last server can be reached."""
    with serve([gpu_server(f"gpu-{i:04}", "V100", "16160Mi", 8) for i in range(1000)]) as s:
        began = time.monotonic()
        status, body = s.plain_get("/v1/pool?servers=1&claims=1", s.admin)
        assert status == 200 and len(body) < 700_000, len(body)
        assert time.monotonic() - began < 2 * SLOW
        open_clean(b, s)
        assert b.eval("document.querySelectorAll('article').length") == 48
        assert b.eval("document.querySelectorAll('.map rect').length") == 1000
        assert "1–48 of 1000" in text(b)
        assert b.eval("[...document.querySelectorAll('.map a')].pop().getAttribute('href')") == "?servers=21&claims=1#s999"
        open_clean(b, s, path="?servers=21&claims=1#s999")
        assert b.eval("document.querySelector('article:target h3').textContent") == "gpu-0999"
        for wrong in ("?servers=0", "?servers=-1", "?servers=x&claims=99999999999999999999", "?servers=1000"):
            assert s.plain_get("/v1/pool" + wrong, s.admin)[0] == 200, wrong


def test_a_server_that_is_gone_is_told(b):
    with serve(POOL[:1]) as s:
        open_clean(b, s)
        s.stop()
        assert b.wait("document.getElementById('live').className === 'bad'", 20 * SLOW)
        assert "this is how it was then" in b.eval("document.getElementById('live').textContent")
        assert "gpu-a100-01" in text(b)


def test_pictures(b, tmp_path):
    """Light, dark, phone. They are looked at by people; that something is on them is all that is held here."""
    folder = PICTURES or tmp_path
    os.makedirs(folder, exist_ok=True)
    with serve(POOL) as server:
        populate(server)
        time.sleep(STARTED_S if PICTURES else 0)
        assert admit(server, "eval-nightly", "prod", filter="gpu.model=A100-SXM4-80GB", percent="40")["allowed"]
        assert admit(server, "pretrain-xl", "research", amount="9")["reason"] == "NoCapacity"
        open_clean(b, server)
        height = b.eval("document.querySelectorAll('.decisions tbody tr')[5].getBoundingClientRect().bottom") + 1
        b.screenshot(os.path.join(folder, "page-light.png"), height)
        b.dark(True)
        b.screenshot(os.path.join(folder, "page-dark.png"), height)
        open_clean(b, server, 390)
        height = b.eval("document.querySelectorAll('article')[2].getBoundingClientRect().bottom") + 12
        b.screenshot(os.path.join(folder, "page-phone.png"), height)
    for name in ("light", "dark", "phone"):
        size = os.path.getsize(os.path.join(folder, f"page-{name}.png"))
        assert 20_000 < size < 400_000, f"{name}: {size} bytes"
