# SPDX-License-Identifier: Apache-2.0
"""gpuprobe-serve over the fakes: what it answers, to whom, and what it notices. If this breaks, poolgate places claims on GPUs that are
broken, or on none."""
import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import time

import pytest

import world
from lib.server import SLOW, Authority, make_pair, openssl
from world import World

SERVE = os.path.join(world.BUILD, "gpuprobe-serve")
TOKEN = "a-token-of-the-pool"
UUID = "GPU-00000000-0000-0000-0000-0000000000a%d"


class Serve:
    """gpuprobe-serve in a World, with files for its scenario and NVML that may change while it runs."""

    def __init__(self, w, *args, tls=True, token=TOKEN, gpus=1, nvml=True, nvml_at_first=None, devices=None, **scenario):
        self.w = w
        self.scenario_file, self.nvml_file = os.path.join(w.folder, "serve.json"), os.path.join(w.folder, "serve-nvml.txt")
        self.token_file, self.log_file = os.path.join(w.folder, "token"), os.path.join(w.folder, "log")
        self.change(devices or [{}] * gpus, **scenario)
        self.tell(nvml_at_first or f"gpus={gpus}\n")
        words = [SERVE, "--listen", "127.0.0.1:0", "--cudart", world.CUDART, "--look-every", "200ms", "--list-every", "300ms",
                 "--stale-after", "5s", "--server", "gpu-01", "--seed", "7", *args]
        words += ["--nvml", os.path.join(world.FAKES, "libnvidia-ml-fake.so")] if nvml else ["--no-nvml"]
        if tls:
            self.cert, self.key = make_pair(w.folder)
            words += ["--tls-cert", self.cert, "--tls-key", self.key]
        if token:
            with open(self.token_file, "w", encoding="ascii") as f:
                f.write(token + "\n")
            words += ["--token-file", self.token_file]
        self.tls, self.token = tls, token
        env = {**w.env, "GPUPROBE": world.PROBE, "GPUPROBE_FAKE": self.scenario_file, "GPUPROBE_FAKE_NVML": self.nvml_file}
        with open(self.log_file, "wb") as log:
            self.process = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=w.folder)
        try:
            self.port = int(self.wait(lambda: re.search(r'serving .* port=(\d+)$', self.log(), re.M)).group(1))
        except BaseException:
            self.close()
            raise

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def change(self, devices, **scenario):
        """Another scenario for processes that start from now on."""
        scenario["devices"] = [{**world.SMALL, "uuid": UUID % i, **d} for i, d in enumerate(devices)]
        with open(self.scenario_file + ".new", "w", encoding="ascii") as f:
            json.dump(scenario, f)
        os.rename(self.scenario_file + ".new", self.scenario_file)

    def tell(self, nvml):
        with open(self.nvml_file + ".new", "w", encoding="ascii") as f:
            f.write(nvml + "".join(f"{i}.uuid={UUID % i}\n" for i in range(8)))
        os.rename(self.nvml_file + ".new", self.nvml_file)

    def log(self):
        with open(self.log_file, encoding="utf-8") as f:
            return f.read()

    def wait(self, what, seconds=20):
        """The first true result of what()."""
        end = time.monotonic() + seconds * SLOW
        while not (found := what()):
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < end, self.log()
            time.sleep(0.02)
        return found

    def context(self):
        context = ssl.create_default_context(cafile=self.cert)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    def get(self, path, token=True, method="GET", headers=None, client=None):
        """(status, headers, body). client: the certificate and key that it shows."""
        context = self.context() if self.tls else None
        if client:
            context.load_cert_chain(*client)
        c = http.client.HTTPSConnection("localhost", self.port, timeout=20 * SLOW, context=context) if self.tls else \
            http.client.HTTPConnection("127.0.0.1", self.port, timeout=20 * SLOW)
        headers = dict(headers or {})
        if token and self.token:
            headers["Authorization"] = "Bearer " + (token if isinstance(token, str) else self.token)
        c.request(method, path, headers=headers)
        r = c.getresponse()
        body = r.read().decode()
        c.close()
        return r.status, dict(r.getheaders()), body

    def inventory(self):
        status, _, body = self.get("/v1/inventory")
        assert status == 200, body
        found = json.loads(body)
        assert found["schema"] == "gpuprobe.inventory/1"
        return found

    def until(self, state, seconds=20):
        """The first inventory with this state."""
        return self.wait(lambda: (i := self.inventory())["state"] == state and i, seconds)

    def children(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as f:
            return f.read().split()


@pytest.fixture(name="serve")
def fixture_serve(tmp_path):
    made = []

    def make(*args, gpus=1, **kw):
        s = Serve(World(tmp_path, gpus=gpus), *args, gpus=gpus, **kw)
        made.append(s)
        return s

    yield make
    for s in made:
        s.close()


def reasons(inventory, gpu):
    return " ".join(inventory["gpus"][gpu]["reasons"])


def test_what_it_answers(serve):
    s = serve(gpus=2)
    found = s.until("ready")
    assert found["server"] == "gpu-01" and found["driver_version"] == "580.159.04" and found["cuda"] == 12090
    assert [g["uuid"] for g in found["gpus"]] == [UUID % 0, UUID % 1]
    assert [g["parent_uuid"] for g in found["gpus"]] == [None, None]
    assert found["gpus"][0]["fit"] and found["gpus"][0]["reasons"] == [] and found["gpus"][0]["health"] == "ok"
    assert found["gpus"][0]["memory_total_bytes"] == 2048 << 20 and found["gpus"][0]["memory_source"] == "cuda"
    assert found["capacity"]["gpus_fit"] == 2 and found["capacity"]["percent_total"] == 200
    assert found["age_s"] <= found["stale_after_s"] == 5
    status, _, body = s.get("/v1/report")
    assert status == 200 and json.loads(body)["verdict"] == "pass"
    assert not world.probe_schema.problems(json.loads(body))
    assert s.get("/readyz", token=False)[0] == 200 and s.get("/healthz", token=False)[0] == 200
    assert s.get("/nothing")[0] == 404 and s.get("/v1/inventory", method="DELETE")[0] == 405
    tag = s.get("/v1/inventory")[1]["ETag"]
    assert s.get("/v1/inventory", headers={"If-None-Match": tag})[0] in (200, 304)


def test_metrics(serve):
    s = serve("--expect-gpus", "2", gpus=2)
    s.until("ready")
    status, headers, body = s.get("/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain")
    seen, typed = set(), set()
    for line in body.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:]
            assert kind == "gauge" and name not in typed and not name.endswith("_total")
            typed.add(name)
        elif not line.startswith("# HELP "):
            sample = re.fullmatch(r'([a-z_]+)((?:\{[a-z_]+="[^"\\]*"(?:,[a-z_]+="[^"\\]*")*\})?) (-?[0-9.e+-]+)', line)
            assert sample and sample.group(1) in typed, line
            assert sample.group(1, 2) not in seen, f"twice: {line}"
            seen.add(sample.group(1, 2))
    for line in ("gpuprobe_up 1", "gpuprobe_expected_gpus 2", f'gpuprobe_gpu_fit{{uuid="{UUID % 1}"}} 1',
                 f'gpuprobe_check_status{{uuid="{UUID % 0}",check="mem.pattern",status="pass"}} 1',
                 f'gpuprobe_check_status{{uuid="{UUID % 0}",check="mem.pattern",status="fail"}} 0',
                 f'gpuprobe_memory_errors{{uuid="{UUID % 0}"}} 0'):
        assert line in body.splitlines(), line
    assert re.search(r'^gpuprobe_bandwidth_bytes_per_second\{.*path="bench.mem_read"\} \d{13}$', body, re.M)


def test_who_may_ask(serve):
    s = serve()
    for path in ("/v1/inventory", "/v1/report", "/metrics"):
        for token in (False, "another-token-of-the-pool", TOKEN + "x", TOKEN[:-1]):
            status, headers, body = s.get(path, token=token)
            assert status == 401 and headers["WWW-Authenticate"] == "Bearer" and TOKEN not in body
    assert s.get("/v1/inventory")[0] == 200
    assert s.get("/v1/inventory", token=False, headers={"Authorization": "bearer " + TOKEN})[0] == 200
    assert s.get("/v1/inventory", token=False, headers={"Authorization": "Basic " + TOKEN})[0] == 401
    assert TOKEN not in s.log()


def test_client_certificate(serve, tmp_path):
    """The TLS library lets every client through; who may ask is decided behind it, for all but the health paths, and with the token."""
    ca, other = Authority(tmp_path, "pool"), Authority(tmp_path, "other")
    right, stranger, late = ca.client("poolgate"), ca.client("somebody"), ca.client("poolgate", days=-1)
    with open(tmp_path / "client-ca.crt", "w", encoding="ascii") as f:
        f.write(ca.text())
    s = serve("--client-ca", "client-ca.crt", "--client-name", "poolgate")
    s.wait(lambda: s.get("/readyz", token=False)[0] == 200)
    for path in ("/v1/inventory", "/v1/report", "/metrics"):
        assert s.get(path, client=right)[0] == 200
        assert s.get(path, token=False, client=right)[0] == 401
        for client, words in ((None, "is asked for"), (stranger, "common name"), (late, "expired"), (other.client("poolgate"), "no CA"),
                              (ca.client("poolgate", usage="serverAuth"), "extended key usage")):
            status, _, body = s.get(path, client=client)
            assert status == 403 and words in body, (words, status, body)
    assert s.get("/nothing")[0] == 403 and s.get("/nothing", client=right)[0] == 404
    assert s.get("/healthz", token=False)[0] == 200
    assert "(somebody): the client certificate's common name" in s.log()
    # other CAs, and a file that is none
    with open(tmp_path / "client-ca.crt", "w", encoding="ascii") as f:
        f.write(other.text())
    s.process.send_signal(signal.SIGHUP)
    s.wait(lambda: s.get("/metrics", client=other.client("poolgate"))[0] == 200)
    assert s.get("/metrics", client=right)[0] == 403
    with open(tmp_path / "client-ca.crt", "w", encoding="ascii") as f:
        f.write("nothing\n")
    s.process.send_signal(signal.SIGHUP)
    s.wait(lambda: "client CA: the one in force stays" in s.log())
    assert s.get("/metrics", client=other.client("poolgate"))[0] == 200


def test_plain_http_reaches_nobody(serve):
    s = serve()
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=20 * SLOW)
    with pytest.raises((http.client.HTTPException, OSError)):
        c.request("GET", "/v1/inventory")
        c.getresponse()
    done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{s.port}", "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"],
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=30 * SLOW, check=False)
    assert done.returncode != 0 and b"Cipher is (NONE)" in done.stdout
    assert s.get("/healthz")[0] == 200


def test_plain_http_on_loopback(serve):
    s = serve(tls=False, token=None)
    s.until("ready")
    assert s.get("/v1/inventory")[0] == 200


def test_certificate_and_token_are_read_again(serve):
    """New files are in force at the next SIGHUP or ten seconds later; files that cannot be read change nothing."""
    s = serve()
    before = ssl.get_server_certificate(("127.0.0.1", s.port))
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3", "-subj", "/CN=new",
            "-addext", "subjectAltName=DNS:localhost", "-keyout", s.key, "-out", s.cert)
    with open(s.token_file, "w", encoding="ascii") as f:
        f.write("the-next-token\n")
    s.process.send_signal(signal.SIGHUP)
    s.wait(lambda: ssl.get_server_certificate(("127.0.0.1", s.port)) != before)
    s.wait(lambda: s.get("/v1/inventory", token="the-next-token")[0] == 200)
    assert s.get("/v1/inventory", token=TOKEN)[0] == 401
    with open(s.token_file, "w", encoding="ascii") as f:
        f.write("\n")
    s.process.send_signal(signal.SIGHUP)
    s.wait(lambda: "token: the one in force stays" in s.log())
    assert s.get("/v1/inventory", token="the-next-token")[0] == 200 and s.get("/v1/inventory", token="")[0] == 401


@pytest.mark.parametrize("line, code", [("1.ecc_uncorrected=3", "ECC_UNCORRECTABLE"), ("1.remap_failed=1", "REMAP_FAILED"),
                                        ("1.lost=1", "GPU_MISSING")])
def test_a_gpu_goes_bad(serve, line, code):
    """Within one look of NVML: no longer fit, and why."""
    s = serve(gpus=2)
    s.until("ready")
    # NVML has looked since CUDA showed them: it calls all memory free, CUDA does not; counters are compared with that look
    s.wait(lambda: all(g["memory_free_mib"] == g["memory_total_mib"] for g in s.inventory()["gpus"]))
    s.tell("gpus=2\n" + line + "\n")
    found = s.until("degraded")
    assert [g["fit"] for g in found["gpus"]] == [True, False]
    assert code in reasons(found, 1) and found["gpus"][1]["health"] == "fail" and found["gpus"][1]["percent_free"] == 0
    assert found["capacity"]["gpus_fit"] == 1 and found["capacity"]["percent_total"] == 100
    assert f'gpuprobe_gpu_fit{{uuid="{UUID % 1}"}} 0' in s.get("/metrics")[2]


def test_a_gpu_vanishes(serve):
    s = serve(gpus=2)
    s.until("ready")
    s.change([{}])
    s.tell("gpus=1\n")
    found = s.until("degraded")
    assert [g["fit"] for g in found["gpus"]] == [True, False] and "GPU_MISSING" in reasons(found, 1)


@pytest.mark.parametrize("nvml", [True, False])
def test_the_driver_goes(serve, nvml):
    """No GPU can be used, whatever was found before."""
    s = serve(nvml=nvml)
    s.until("ready")
    s.change([{}], init=999)
    found = s.until("unfit")
    assert not found["gpus"][0]["fit"] and "INIT_FAILED" in found["trouble"]
    assert s.get("/readyz", token=False)[0] == 503


def test_sighup_verifies_anew(serve):
    """Memory that breaks is found by the next verify alone."""
    s = serve()
    s.until("ready")
    s.change([{"flips": [{"offset": 1 << 20, "bit": 3, "kind": "stuck1"}]}])
    s.process.send_signal(signal.SIGHUP)
    found = s.until("unfit")
    assert "MEMORY_ERRORS" in reasons(found, 0)
    assert json.loads(s.get("/v1/report")[2])["verdict"] == "fail"
    assert re.search(r"^gpuprobe_memory_errors\{[^}]*\} [1-9]\d*$", s.get("/metrics")[2], re.M)
    time.sleep(1)
    assert s.inventory()["state"] == "unfit", "lists that find it in order take nothing back"
    s.change([{}])
    s.process.send_signal(signal.SIGHUP)
    s.until("ready")


def test_bad_from_the_start(serve):
    s = serve(gpus=2, devices=[{}, {"speed": {"read": 0.5}}])
    found = s.until("degraded")
    assert [g["fit"] for g in found["gpus"]] == [True, False] and "SLOW" in reasons(found, 1)


def test_busy_keeps_its_verdict(serve):
    """A GPU that somebody computes on is left alone; one that never was verified is not fit until it could be."""
    s = serve(gpus=2)
    s.until("ready")
    s.tell("gpus=2\n1.processes=1\n1.utilization_percent=90\n")
    s.wait(lambda: s.inventory()["gpus"][1]["processes"] == 1)
    before = s.inventory()["gpus"]
    s.change([{"wrong": {}}, {}])
    s.process.send_signal(signal.SIGHUP)
    found = s.until("degraded")
    assert [g["fit"] for g in found["gpus"]] == [False, True]
    assert found["gpus"][1]["verified_at"] == before[1]["verified_at"]


def test_busy_at_the_start(serve):
    """Not fit while nothing is known of it; verified when it is idle, without being asked."""
    s = serve(nvml_at_first="gpus=1\nprocesses=1\n")
    s.wait(lambda: "verified" in s.log())
    found = s.inventory()
    assert found["state"] == "unfit" and not found["gpus"][0]["fit"]
    s.tell("gpus=1\n")
    s.until("ready")


def test_stale_news_are_no_news(serve):
    """When no look is answered any more, nothing is known: age says so, state says so."""
    s = serve("--stale-after", "1s")
    s.until("ready")
    s.change([{}], calls=[{"call": "cudaGetDeviceCount", "hang": True}])
    s.tell("gpus=1\ninit=999\n")
    found = s.until("unknown")
    assert found["age_s"] > found["stale_after_s"]
    assert s.get("/readyz", token=False)[0] == 503 and "gpuprobe_up 0" in s.get("/metrics")[2]


def test_ends_at_once(serve):
    """Also in the middle of looks and of a verify that hang."""
    s = serve(calls=[{"call": "cudaMemGetInfo", "worker": True, "hang": True}])
    s.wait(s.children)
    began = time.monotonic()
    s.process.send_signal(signal.SIGTERM)
    assert s.process.wait(20 * SLOW) == 0
    assert time.monotonic() - began < 4 * SLOW
    assert " info ended" in s.log()


def test_holds_nothing_between_looks(serve):
    """No worker, no zombie: a context would keep exclusive clients out, and look like somebody's leftover."""
    s = serve("--look-every", "1s", "--list-every", "1s")
    s.until("ready")
    s.wait(lambda: not s.children())
    with open(f"/proc/{s.process.pid}/maps", encoding="utf-8") as f:
        maps = f.read()
    assert "cudart" not in maps and "nvidia" not in maps
    time.sleep(2.5)
    s.wait(lambda: not s.children())


@pytest.mark.parametrize("args, words", [
    (("--listen", "0.0.0.0:0"), "loopback"),
    (("--listen", "127.0.0.1:0", "--tls-cert", "a.crt"), "go together"),
    (("--listen", "127.0.0.1:0", "--tls-cert", "a.crt", "--tls-key", "a.key"), "a.crt"),
    (("--listen", "127.0.0.1:0", "--token-file", "nothing"), "nothing"),
    (("--listen", "127.0.0.1:0", "--client-ca", "ca.crt"), "--client-ca needs --tls-cert"),
    (("--listen", "127.0.0.1:0", "--tls-cert", "a.crt", "--tls-key", "a.key", "--client-name", "x"), "--client-name needs --client-ca"),
    (("--listen", "127.0.0.1:0", "--look-every", "1"), "--look-every"),
    (("--listen", "127.0.0.1:0", "--stale-after", "1s"), "--stale-after"),
    (("--listen", "127.0.0.1:0", "--nonsense"), "--nonsense"),
    (("--listen", "127.0.0.1:0", "stress"), "no other command"),
    (("--listen", "nowhere"), "nowhere"),
])
def test_wrong_usage(tmp_path, args, words):
    done = subprocess.run([SERVE, *args], capture_output=True, cwd=tmp_path, timeout=30 * SLOW, check=False, stdin=subprocess.DEVNULL,
                          env={"GPUPROBE": world.PROBE, "PATH": os.environ["PATH"]})
    assert done.returncode == 2 and words in done.stderr.decode(), done.stderr


def test_serve_is_a_word_of_gpuprobe(tmp_path):
    """gpuprobe serve is gpuprobe-serve in the same folder."""
    done = subprocess.run([world.PROBE, "serve", "--help"], capture_output=True, cwd=tmp_path, timeout=30 * SLOW, check=False)
    assert done.returncode == 0 and b"--tls-cert" in done.stdout
