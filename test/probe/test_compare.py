# SPDX-License-Identifier: Apache-2.0
"""`gpuprobe compare`: two reports of bench side by side. If this breaks, a user takes remote GPUs for programs that they do not suit, or
does not take them for those that they do. Golden files: compare/; UPDATE=1 writes them anew."""
import copy
import json
import os
import subprocess

import pytest

from world import PROBE, World

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "compare")
LOCAL, REMOTE = (os.path.join(HERE, f"{name}.json") for name in ("local", "remote"))


def compare(*args):
    done = subprocess.run([PROBE, "compare", *args], capture_output=True, text=True, timeout=20, check=False)
    return done.returncode, done.stdout, done.stderr


def load(file):
    with open(file, encoding="ascii") as f:
        return json.load(f)


def changed(folder, name, change):
    """A copy of a report, changed."""
    report = load(REMOTE if name == "remote" else LOCAL)
    change(report)
    to = folder / f"{name}.json"
    to.write_text(json.dumps(report))
    return str(to)


@pytest.mark.parametrize("form", ["table", "json"])
def test_golden(form):
    status, out, err = compare(LOCAL, REMOTE, "-o", form)
    assert (status, err) == (0, "")
    file = os.path.join(HERE, f"expected.{form}")
    if os.environ.get("UPDATE"):
        with open(file, "w", encoding="ascii") as f:
            f.write(out)
    with open(file, encoding="ascii") as f:
        assert out == f.read()


def test_the_rule():
    """As docs/gpuprobe.md says it, from the figures in the files."""
    _, out, _ = compare(LOCAL, REMOTE, "--output=json")
    gpu, = json.loads(out)["gpus"]
    wait, copied = 1.1e-4 - 6.5e-6, (1.5e-2 - 6.3e-4) / (32 << 20)
    takes = {"long steps": 1 + wait / 0.1 + 1e8 * copied, "short steps": 1 + wait / 5e-3 + 1e8 * copied,
             "tiny steps": 1 + wait / 1e-4 + 1e7 * copied, "much data": 1 + wait / 1e-2 + 5e9 * copied}
    assert {k["name"]: k["a_second_takes_seconds"] for k in gpu["kinds"]} == pytest.approx(takes)
    assert [k["verdict"] for k in gpu["kinds"]] == ["fit", "fit", "unfit", "unfit"]
    assert gpu["at_most_a_tenth_slower"] == pytest.approx(
        {"seconds_between_waits": wait / 0.1, "kernel_seconds": 4.2e-6 / 1.1, "copied_bytes_per_second": 0.1 / copied})
    slower = {m["id"]: m["times_slower"] for m in gpu["measures"]}
    assert slower["bench.launch"] == pytest.approx(2) and slower["bench.mem_read"] == pytest.approx(4.4 / 4.3)
    assert slower["bench.tensor"] is None, "what failed is no measure"


def test_a_launch_that_is_slower_than_the_kernels(tmp_path):
    """Kernels of 5 us wait for launches of 20 us: four times as long."""
    def slow(report):
        report["gpus"][0]["checks"][0]["value"] = 2e-5
    _, out, _ = compare(LOCAL, changed(tmp_path, "remote", slow), "-o", "json")
    kinds = {k["name"]: k["a_second_takes_seconds"] for k in json.loads(out)["gpus"][0]["kinds"]}
    before = json.loads(compare(LOCAL, REMOTE, "-o", "json")[1])["gpus"][0]["kinds"]
    assert kinds["tiny steps"] == pytest.approx({k["name"]: k["a_second_takes_seconds"] for k in before}["tiny steps"] + 3)


@pytest.mark.parametrize("name, change, said", [
    ("remote", lambda r: r["gpus"][0].update(name="NVIDIA L4"), 'GPU 0: another model: "NVIDIA H200" in LOCAL, "NVIDIA L4" in REMOTE'),
    ("remote", lambda r: r["gpus"][0].update(location="local"), "GPU 0: REMOTE was made where the GPU is"),
    ("local", lambda r: r["gpus"][0].update(location="remote"), "GPU 0: LOCAL was made through a remote-GPU client"),
    ("local", lambda r: r.update(complete=False), "LOCAL was ended early"),
    ("remote", lambda r: r["gpus"][0]["checks"].pop(0), "GPU 0: REMOTE has no bench.launch"),
])
def test_warnings(tmp_path, name, change, said):
    files = {"local": LOCAL, "remote": REMOTE, name: changed(tmp_path, name, change)}
    status, out, err = compare(files["local"], files["remote"])
    assert status == 0 and "SLOWER" in out and said in err, err


@pytest.mark.parametrize("change, said", [
    (lambda r: r.update(schema="gpuprobe.report/2"), '/schema: found "gpuprobe.report/2", expected "gpuprobe.report/1"'),
    (lambda r: r.pop("schema"), '/schema: found nothing, expected "gpuprobe.report/1"'),
    (lambda r: r.update(command="verify"), '/command: found "verify", expected "bench"'),
    (lambda r: r.update(gpus=[]), "it has no GPU"),
    (lambda r: r.update(gpus={}), "/gpus"),
    (lambda r: r["gpus"][0].update(location="elsewhere"), "/gpus/0/location"),
    (lambda r: r["gpus"][0].update(checks=3), "/gpus/0/checks"),
    (lambda r: r["gpus"][0]["checks"][1].update(value="fast"), "/gpus/0/checks/1/value"),
    (lambda r: r["gpus"][0]["checks"][1].pop("id"), "/gpus/0/checks/1/id"),
])
def test_no_report_of_bench(tmp_path, change, said):
    file = changed(tmp_path, "local", change)
    status, out, err = compare(file, REMOTE)
    assert (status, out) == (2, "") and file in err and said in err, err


@pytest.mark.parametrize("args, said", [
    ([], "expected two reports"), ([LOCAL], "expected two reports"), ([LOCAL, REMOTE, LOCAL], "found 3"), ([LOCAL, REMOTE, "-o", "xml"], '"xml"'),
    ([LOCAL, REMOTE, "--fast"], "--fast"), ([LOCAL, REMOTE, "-o"], "-o needs a value"), ([LOCAL, "/nowhere.json"], "/nowhere.json"),
    ([LOCAL, "/etc/hostname"], "/etc/hostname: "),
])
def test_wrong_usage(args, said):
    status, out, err = compare(*args)
    assert (status, out) == (2, "") and said in err, err


def test_nothing_in_both(tmp_path):
    file = changed(tmp_path, "remote", lambda r: r["gpus"][0].update(checks=[]))
    status, out, err = compare(LOCAL, file)
    assert (status, out) == (4, "") and "nothing was measured in both" in err


def test_each_gpu_finds_its_own(tmp_path):
    """By UUID, else by model; not by its place in the list."""
    def two(report):
        second = copy.deepcopy(report["gpus"][0])
        second.update(uuid="GPU-2", name="NVIDIA L4", index=1)
        report["gpus"].insert(0, second)
    file = changed(tmp_path, "local", two)
    gpu, = json.loads(compare(file, REMOTE, "-o", "json")[1])["gpus"]
    assert gpu["local"] == "NVIDIA L4", "the UUID is the GPU, whatever its name"
    other = changed(tmp_path, "remote", lambda r: r["gpus"][0].update(uuid=None))
    gpu, = json.loads(compare(file, other, "-o", "json")[1])["gpus"]
    assert gpu["local"] == "NVIDIA H200"


def test_help_ends_in_examples():
    status, out, _ = compare("--help")
    assert status == 0 and out.splitlines()[-3] == "Examples:" and all(len(line) <= 100 for line in out.splitlines())


def test_what_bench_writes(tmp_path):
    """Over the stand-in runtime: bench's own reports, the second one as from a pod whose launches take 2 ms longer."""
    for name, more in (("local", {}), ("remote", {"calls": [{"call": "cudaStreamSynchronize", "sleep_s": 0.002, "kernel": "gp_nop"}]})):
        folder = tmp_path / name
        folder.mkdir()
        done = World(folder, local=name == "local").run("bench", **more)
        assert done.status == 0, done.stderr
        (tmp_path / f"{name}.json").write_text(json.dumps(done.report))
    status, out, err = compare(str(tmp_path / "local.json"), str(tmp_path / "remote.json"), "-o", "json")
    assert (status, err) == (0, "")
    gpu, = json.loads(out)["gpus"]
    assert all(m["local"] > 0 and m["remote"] > 0 for m in gpu["measures"]), gpu["measures"]
    assert gpu["at_most_a_tenth_slower"]["seconds_between_waits"] > 0.01 and gpu["kinds"][2]["verdict"] == "unfit"
