# SPDX-License-Identifier: Apache-2.0
"""What docs/quickstart.md starts behind a gate: its ServerProfile, and what keeps a server that listens on all addresses to its own."""
import contextlib
import os
import shutil
import subprocess
import time

import pytest
import yaml
from world import GIB, GPUS, alive, servers

QUICKSTART = os.path.join(servers.ROOT, "manifests/examples/quickstart")


@pytest.fixture(name="library")
def fixture_library():
    """The library, built as its head says, where every account may read it."""
    place = os.path.join("/run" if os.access("/run", os.W_OK) else "/tmp", f"gpugate-test-bind-{os.getpid()}-{time.monotonic_ns()}")
    os.mkdir(place, 0o755)
    try:
        built = os.path.join(place, "libbind-address.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", built, os.path.join(QUICKSTART, "bind-address.c")], check=True)
        yield built
    finally:
        shutil.rmtree(place)


def test_its_profile(make, library):
    """Half a GPU, at an address of its own, by an account of its own, though the server would listen everywhere."""
    with open(os.path.join(QUICKSTART, "profile.yaml"), encoding="utf-8") as f:
        spec = yaml.safe_load(f)["spec"]
    env = {**spec["env"], "LD_PRELOAD": library}
    assert spec["env"]["LD_PRELOAD"].split()[0].endswith("/libbind-address.so")
    world = make("open", {"env": env, "linger": spec["linger"], **({"user": spec["user"]} if os.geteuid() == 0 else {})})
    pod, other = world.holder(), world.holder(gpus=((GPUS[0], 4 * GIB),))
    told, beside = pod.env(), other.env()
    assert told["env"]["CUDA_DEVICE_MEMORY_LIMIT"] == "8192m" and beside["env"]["CUDA_DEVICE_MEMORY_LIMIT"] == "4096m"
    assert told["env"]["BIND_ADDRESS"] != beside["env"]["BIND_ADDRESS"] and told["env"]["CUDA_VISIBLE_DEVICES"] == GPUS[0]
    assert os.geteuid() != 0 or {told["uid"], beside["uid"]} == {200000, 200001}
    assert alive(told["pid"]) and "listens on all addresses" not in world.gate.log()


def test_an_address_that_is_none(library):
    """It listens nowhere rather than everywhere; and where nobody says an address everything is as ever."""
    program = "import socket; s = socket.socket(); s.bind(('0.0.0.0', 0)); print(s.getsockname()[0])"
    for address, says in (("127.0.0.9", "127.0.0.9"), (None, "0.0.0.0"), ("x", None)):
        env = {**os.environ, "LD_PRELOAD": library, **({"BIND_ADDRESS": address} if address else {})}
        with contextlib.suppress(KeyError):
            env.pop("ASAN_OPTIONS")
        done = subprocess.run(["python3", "-c", program], env=env, capture_output=True, text=True, check=False)
        assert done.stdout.strip() == (says or "") and (done.returncode == 0) == bool(says), done.stderr
