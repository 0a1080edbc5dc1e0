# SPDX-License-Identifier: Apache-2.0
"""bench.p2p: copies between each pair of GPUs that have peer access. If this breaks, a server whose links change data passes, or one
whose links cannot be measured fails."""
import re

import pytest

from world import World

PEER = {"peers": True}


def bench(folder, devices, *args, **kw):
    return World(folder, gpus=len(devices)).run("bench", *args, devices=devices, **kw)


def links(done):
    return {(li["from"], li["to"]): li for li in done.report["links"]}


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_each_pair_both_ways(tmp_path, n):
    done = bench(tmp_path, [PEER] * n, nvml=f"gpus={n}\n")
    assert done.status == 0, done.stderr
    found = links(done)
    assert set(found) == {(a, b) for a in range(n) for b in range(n) if a != b}
    assert len(done.report["links"]) == n * (n - 1), "none twice"
    for link in found.values():
        assert link["status"] == "pass" and link["errors"] == 0 and 4.9e10 < link["value"] <= 5e10
    for gpu in range(n):
        result = done.check("bench.p2p", gpu)
        assert (result["status"], result["basis"], result["unit"], result["errors"]) == ("pass", "peers", "B/s", 0)
    assert re.search(r"^GPU +0 +- +50\.0", done.stderr, re.M)


def test_no_gpu_is_in_two_pairs_at_once(tmp_path):
    """Its rate would be shared. Four GPUs in three rounds: each copy takes a while, and so rounds can be told apart."""
    done = bench(tmp_path, [PEER] * 4, calls=[{"call": "cudaDeviceEnablePeerAccess", "sleep_s": 0.2}])
    assert done.status == 0
    order = [(li["from"], li["to"]) for li in done.report["links"]]
    for n in range(0, 12, 4):
        a, _, b, _ = order[n:n + 4]
        assert len(set(a + b)) == 4, "the pairs of a round have no GPU in common"


def test_changed_on_the_way(tmp_path):
    """Both ends of the link are named; the third GPU is fit."""
    done = bench(tmp_path, [{**PEER, "peer_wrong": {"peer": 2, "offset": 1 << 20, "bit": 77, "times": 1}}, PEER, PEER])
    assert done.status == 1 and done.fit() == [False, True, False]
    found = links(done)
    assert found[(0, 2)]["code"] == "LINK_ERRORS" and found[(0, 2)]["errors"] == 1
    assert all(li["status"] == "pass" for pair, li in found.items() if pair != (0, 2))
    for gpu in (0, 2):
        record, = done.check("bench.p2p", gpu)["memory_errors"]
        assert record["offset"] == 1 << 20 and int(record["xor"], 16) == 1 << 77
    assert "from GPU 0 to GPU 2" in " ".join(done.stderr.split()) and "FAIL" in done.stderr


def test_memory_that_changes_them(tmp_path):
    """A stuck bit where they arrive is seen, too."""
    done = bench(tmp_path, [PEER, {**PEER, "flips": [{"offset": 1 << 20, "bit": 3, "kind": "stuck1"}]}])
    assert done.status == 1 and links(done)[(0, 1)]["code"] == "LINK_ERRORS"


def test_without_peer_access(tmp_path):
    done = bench(tmp_path, [PEER, {}, PEER])
    assert done.status == 0
    found = links(done)
    assert found[(0, 1)]["reason"] == found[(1, 2)]["reason"] == "no_peer_access" and found[(0, 1)]["value"] is None
    assert found[(0, 2)]["status"] == "pass"
    assert done.check("bench.p2p", 1)["reason"] == "no_peer_access" and done.check("bench.p2p", 0)["status"] == "pass"
    assert re.search(r"Skipped \(no_peer_access\): bench\.p2p", done.stderr)


def test_access_that_is_refused_after_all(tmp_path):
    done = bench(tmp_path, [PEER] * 2, calls=[{"call": "cudaDeviceEnablePeerAccess", "error": 217}])
    assert done.status == 0 and done.check("bench.p2p")["reason"] == "no_peer_access"


@pytest.mark.parametrize("devices, args, reason", [
    ([PEER], (), "one_gpu"),
    ([PEER, {**PEER, "cc": "8.0", "name": "NVIDIA A100"}], (), "different_gpus"),
    ([PEER] * 2, ("--remote",), "remote"),
    ([{**PEER, "name": "NVIDIA H200 MIG 1g.18gb", "uuid": "MIG-1"}], (), "mig"),
])
def test_not_measured(tmp_path, devices, args, reason):
    done = bench(tmp_path, devices, *args)
    assert done.check("bench.p2p")["reason"] == reason and done.check("bench.p2p")["status"] == "skip"


def test_somebody_computes_on_one(tmp_path):
    done = bench(tmp_path, [PEER] * 3, nvml="gpus=3\n1.processes=1\n")
    assert set(links(done)) == {(0, 2), (2, 0)}
    assert done.check("bench.p2p", 1)["reason"] == "busy" and done.check("bench.p2p", 0)["status"] == "pass"


def test_slow_one_way(tmp_path):
    """A warning, and no more; a file of thresholds may say more."""
    devices = [PEER, {**PEER, "speed": {"p2p": 0.6}}, PEER]
    done = bench(tmp_path / "a", devices)
    assert done.status == 0 and done.codes() == [(1, "SLOWER_THAN_PEERS")]
    assert 0.55 < done.check("bench.p2p", 1)["ratio"] < 0.65
    (tmp_path / "t.json").write_text('{"schema": "gpuprobe.thresholds/1", "checks": {"bench.p2p": {"warn_below": 0.9, "fail_below": 0.8}}}')
    done = bench(tmp_path / "b", devices, "--thresholds", str(tmp_path / "t.json"))
    assert done.status == 1 and done.fit() == [True, False, True]


def test_a_lost_context(tmp_path):
    """What it says stands with both GPUs; nothing is known of the way back."""
    done = bench(tmp_path, [PEER] * 2, calls=[{"call": "cudaEventElapsedTime", "error": 719, "process": 3}])
    assert done.status == 1 and done.check("bench.p2p")["code"] == "KERNEL_FAULT"
    assert links(done)[(1, 0)]["reason"] == "not_run" and done.fit() == [False, False]


def test_a_hang_costs_its_deadline(tmp_path):
    """One pair hangs: its GPUs are in no further pair, all else stands."""
    devices = [PEER] * 4
    done = bench(tmp_path, devices, calls=[{"call": "cudaMemcpyAsync", "device": 1, "process": 2, "hang": True}], seconds=200)
    found = links(done)
    hung = {pair for pair, li in found.items() if li.get("code") == "HANG"}
    assert done.status == 1 and done.report["complete"] is True and len(hung) == 2 and all(1 in pair for pair in hung), found
    other = next(a for a, b in hung if b == 1)
    rest = {0, 2, 3} - {other}
    assert all(found[(a, b)]["status"] == "pass" for a in rest for b in rest if a != b)
    assert {pair for pair, li in found.items() if li.get("reason") == "not_run"} == {
        p for a in (1, other) for b in rest for p in ((a, b), (b, a))}
    assert {done.check("bench.p2p", g)["status"] for g in rest} == {"skip"}, "links that were not tried are no pass"
    assert [done.check("bench.mem_read", g)["status"] for g in range(4)] == ["pass"] * 4
    assert done.fit() == [g in rest for g in range(4)] and done.seconds < 100


def test_a_worker_dies(tmp_path):
    done = bench(tmp_path, [PEER] * 2, calls=[{"call": "cudaDeviceEnablePeerAccess", "signal": 9}])
    assert links(done)[(0, 1)]["code"] == "WORKER_DIED" and done.check("bench.p2p")["status"] == "error"
    assert done.status == 0 and done.report["gpus"][0]["health"] == "warn", "it says nothing of the GPUs, and the check is optional"


def test_in_process(tmp_path):
    done = bench(tmp_path, [PEER] * 3, "--in-process")
    assert done.status == 0 and len(links(done)) == 6 and done.check("bench.p2p", 2)["status"] == "pass"


def test_whole_gpus_beside_instances(tmp_path):
    """CUDA shows both to a process that names both."""
    whole = [{**PEER, "uuid": f"GPU-00000000-0000-0000-0000-{g:012x}", "pci": f"0000:{0x0f + g:02x}:00.0"} for g in (1, 3)]
    instance = {"name": "NVIDIA H200 MIG 1g.18gb", "uuid": "MIG-00000000-0000-0000-0000-000000000021", "pci": "0000:11:00.0"}
    done = World(tmp_path, gpus=3).run("bench", devices=[whole[0], instance, whole[1]], nvml="gpus=3\n1.instances=1\n")
    assert done.status == 0, done.stderr
    assert set(links(done)) == {(1, 2), (2, 1)} and done.check("bench.p2p", 0)["reason"] == "mig"
    assert done.check("bench.p2p", 1)["status"] == "pass"
