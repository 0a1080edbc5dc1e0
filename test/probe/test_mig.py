# SPDX-License-Identifier: Apache-2.0
"""GPUs that are divided into instances (MIG). CUDA shows a process one instance and nothing beside it; NVML knows them all, and each
gets a worker of its own. If this breaks, all but the first are offered unverified, or counted as missing."""
import os
import signal

import pytest

import test_serve
import world
from test_serve import reasons
from world import World

fixture_serve = test_serve.fixture_serve


def instance(gpu, number, profile="1g.18gb", **more):
    """What CUDA shows of an instance; the fake NVML's UUIDs count both from 1 on."""
    return {"name": f"NVIDIA H200 MIG {profile}", "uuid": uuid(gpu, number), "pci": f"0000:{0x0f + gpu:02x}:00.0",
            "memory_clock_mhz": 0, **more}


def uuid(gpu, number):
    return f"MIG-00000000-0000-0000-0000-0000000000{gpu}{number}"


def whole(gpu, **more):
    return {"uuid": f"GPU-00000000-0000-0000-0000-{gpu:012x}", "pci": f"0000:{0x0f + gpu:02x}:00.0", **more}


@pytest.fixture(name="w")
def fixture_w(tmp_path):
    return World(tmp_path)


def test_two(w):
    """Each has its own capacity and verdict; facts of the card are the card's; PCI counts one."""
    done = w.run("verify", "--expect-gpus", "2", devices=[instance(1, 1), instance(1, 2, "2g.35gb", memory_mib=3072)],
                 nvml="gpus=1\n0.instances=2\n")
    assert done.status == 0 and done.codes() == [], done.stderr
    first, second = done.report["gpus"]
    assert [g["uuid"] for g in (first, second)] == [uuid(1, 1), uuid(1, 2)] and first["mig"] is second["mig"] is True
    assert first["pci"] == second["pci"] == "0000:10:00.0"
    assert (first["memory_total_bytes"] >> 20, second["memory_total_bytes"] >> 20) == (2048, 3072)
    assert second["name"] == "NVIDIA H200 MIG 2g.35gb"
    assert done.report["counts"] == {"expected": 2, "pci": 1, "nvml": 1, "cuda": 2}
    for gpu in (0, 1):
        assert done.check("mem.pattern", gpu)["status"] == "pass" and done.check("nvml.ecc", gpu)["status"] == "pass"
        assert done.check("bench.mem_read", gpu)["basis"] == "none", "neither clocks nor another profile say what to expect"
        assert done.check("bench.h2d", gpu)["basis"] == "none", "they share the link"


def test_three_and_one_is_unfit(w):
    done = w.run("verify", devices=[instance(1, 1), instance(1, 2), instance(1, 3, wrong={"kernel": "gp_fma32"})],
                 nvml="gpus=1\n0.instances=3\n")
    assert done.status == 1 and done.fit() == [True, True, False]
    assert (2, "COMPUTE_ERRORS") in done.codes() and "2 of 3 GPUs fit" in done.stderr


@pytest.mark.parametrize("command", ["list", "verify"])
def test_one_is_missing(w, command):
    """NVML knows it, CUDA does not show it to who asks for it."""
    done = w.run(command, devices=[instance(1, 1), instance(1, 2)], nvml="gpus=1\n0.instances=3\n")
    assert done.status == 1 and done.fit() == [True, True, False]
    assert (2, "GPU_MISSING") in done.codes() and uuid(1, 3) in "".join(done.stderr.split())
    assert done.report["gpus"][2]["uuid"] == uuid(1, 3)


def test_fewer_than_expected(w):
    done = w.run("verify", "--expect-gpus", "3", devices=[instance(1, 1), instance(1, 2)], nvml="gpus=1\n0.instances=2\n")
    assert done.status == 1 and (None, "GPU_MISSING") in done.codes() and "2 of 3 GPUs are there" in " ".join(done.stderr.split())


def test_one_hangs(w):
    """It costs its deadline; the others have their verdicts."""
    done = w.run("verify", "--timeout", "3s", devices=[instance(1, 1), instance(1, 2)], nvml="gpus=1\n0.instances=2\n",
                 calls=[{"call": "cudaMemGetInfo", "device": 1, "worker": True, "hang": True}])
    assert done.status == 4 and done.check("mem.pattern")["status"] == "pass" and done.fit() == [True, False]


def test_the_card_is_ill(w):
    """What NVML says of the card counts for each of its instances."""
    done = w.run("list", devices=[instance(1, 1), instance(1, 2)], nvml="gpus=1\n0.instances=2\n0.remap_pending=1\n")
    assert done.status == 1 and done.codes() == [(0, "REMAP_PENDING"), (1, "REMAP_PENDING")]


def test_somebody_computes_on_one(w):
    """Processes are the instance's own: the neighbour is measured."""
    done = w.run("verify", devices=[instance(1, 1), instance(1, 2)], nvml="gpus=1\n0.instances=2\n0.processes=1\n0.instance2.processes=1\n")
    assert done.check("bench.mem_read", 0)["status"] == "pass" and done.check("bench.mem_read", 1)["reason"] == "busy"
    assert done.fit() == [True, False]


def test_whole_gpus_beside_instances(tmp_path):
    """CUDA shows none of them to a process that does not name it."""
    w = World(tmp_path, gpus=3)
    done = w.run("verify", devices=[whole(1), instance(2, 1), instance(2, 2), whole(3, wrong={})], nvml="gpus=3\n1.instances=2\n")
    assert done.status == 1 and done.report["counts"]["cuda"] == 4
    found = {g["uuid"]: (g["mig"], g["fit"], g["name"]) for g in done.report["gpus"]}
    assert found == {uuid(2, 1): (True, True, "NVIDIA H200 MIG 1g.18gb"), uuid(2, 2): (True, True, "NVIDIA H200 MIG 1g.18gb"),
                     whole(1)["uuid"]: (False, True, "NVIDIA H200"), whole(3)["uuid"]: (False, False, "NVIDIA H200")}


def test_divided_into_nothing(tmp_path):
    """MIG is on and nobody made an instance: CUDA cannot use that GPU."""
    done = World(tmp_path, gpus=2).run("verify", devices=[whole(1)], nvml="gpus=2\n1.mig=1\n")
    assert done.status == 1 and (1, "MIG_MODE") in done.codes() and done.fit() == [True, False]


def test_slower_than_its_like(w):
    """Instances of one profile are peers."""
    done = w.run("verify", devices=[instance(1, 1), instance(1, 2, memory_clock_mhz=3201, speed={"read": 0.01}), instance(1, 3)],
                 nvml="gpus=1\n0.instances=3\n")
    assert done.status == 1 and done.check("bench.mem_read", 1)["basis"] == "peers" and (1, "SLOWER_THAN_PEERS") in done.codes()


def test_without_nvml(w):
    """Then only the one that CUDA shows is known."""
    done = w.run("verify", devices=[instance(1, 1), instance(1, 2)])
    assert done.status == 0 and [g["uuid"] for g in done.report["gpus"]] == [uuid(1, 1)]


def test_a_runtime_that_calls_it_by_its_card(w):
    """Some runtimes give an instance the UUID of its GPU: NVML's counts."""
    both = [instance(1, i, says_uuid="GPU-00000000-0000-0000-0000-000000000001") for i in (1, 2)]
    done = w.run("verify", devices=both, nvml="gpus=1\n0.instances=2\n")
    assert done.status == 0 and [g["uuid"] for g in done.report["gpus"]] == [uuid(1, 1), uuid(1, 2)], done.stderr
    done = w.run("verify", devices=both[:1])
    assert done.status == 0 and len(done.report["gpus"]) == 1, "without NVML nobody asks for it by a name that it does not have"


def test_selection(w):
    both = [instance(1, 1), instance(1, 2, wrong={})]
    done = w.run("verify", "--gpu", uuid(1, 1), devices=both, nvml="gpus=1\n0.instances=2\n")
    assert done.status == 0 and [g["uuid"] for g in done.report["gpus"]] == [uuid(1, 1)]
    done = w.run("verify", "--gpu", uuid(1, 2), devices=both, nvml="gpus=1\n0.instances=2\n")
    assert done.status == 1 and [g["uuid"] for g in done.report["gpus"]] == [uuid(1, 2)]


@pytest.mark.parametrize("visible, seen", [(uuid(1, 2), [2]), (uuid(1, 1) + "," + uuid(1, 3), [1, 3]), ("0", [1])])
def test_hidden_on_purpose(w, visible, seen):
    done = w.run("verify", devices=[instance(1, i) for i in (1, 2, 3)], nvml="gpus=1\n0.instances=3\n",
                 env={"CUDA_VISIBLE_DEVICES": visible})
    assert done.status == 0 and [g["uuid"] for g in done.report["gpus"]] == [uuid(1, i) for i in seen], done.stderr


def test_in_process(w):
    """One process sees one of them: the other is not verified, and not fit."""
    done = w.run("verify", "--in-process", devices=[instance(1, 1), instance(1, 2)], nvml="gpus=1\n0.instances=2\n")
    assert done.status == 4 and done.fit() == [True, False] and (1, "NOT_RUN") in done.codes()


def test_older_nvml(w):
    """It knows no instances: what CUDA shows is all there is."""
    done = w.run("verify", "--nvml", os.path.join(world.FAKES, "libnvidia-ml-old.so"), devices=[instance(1, 1)], nvml="gpus=1\n")
    assert done.status == 0, done.stderr


# ---- gpuprobe-serve ----

def test_instances(serve):
    """MIG: each instance has a line and a verdict of its own in the inventory; what is the card's takes all of them out."""
    devices = [instance(1, i, memory_mib=1024 * i) for i in (1, 2)]
    s = serve(devices=devices, nvml_at_first="gpus=1\n0.instances=2\n")
    found = s.until("ready")
    assert [(g["uuid"], g["mig"], g["fit"]) for g in found["gpus"]] == [(d["uuid"], True, True) for d in devices]
    assert found["capacity"]["gpus_total"] == 2 and found["capacity"]["percent_total"] == 200
    assert [g["memory_total_mib"] for g in found["gpus"]] == [1024, 2048]
    assert [g["parent_uuid"] for g in found["gpus"]] == ["GPU-00000000-0000-0000-0000-0000000000a0"] * 2, "as the fake NVML calls it"
    s.change([devices[0], {**devices[1], "flips": [{"offset": 1 << 20, "bit": 3, "kind": "stuck1"}]}])
    s.process.send_signal(signal.SIGHUP)
    found = s.until("degraded")
    assert [g["fit"] for g in found["gpus"]] == [True, False] and "MEMORY_ERRORS" in reasons(found, 1)
    s.tell("gpus=1\n0.instances=2\n0.remap_failed=1\n")
    found = s.until("unfit")
    assert all("REMAP_FAILED" in reasons(found, i) for i in (0, 1))


def test_an_instance_goes(serve):
    """Somebody took it away: it is missing, the other one stays."""
    devices = [instance(1, 1), instance(1, 2)]
    s = serve(devices=devices, nvml_at_first="gpus=1\n0.instances=2\n")
    s.until("ready")
    s.change(devices[:1])
    s.tell("gpus=1\n0.instances=1\n")
    found = s.until("degraded")
    assert [g["fit"] for g in found["gpus"]] == [True, False] and "GPU_MISSING" in reasons(found, 1)
