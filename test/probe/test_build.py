# SPDX-License-Identifier: Apache-2.0
"""probe/kernels/compile: what was built with CUDA, on a machine without a GPU: `make probe-check`. PROBE_BUILD is the build folder, CUDA_HOME the toolkit.

If a cubin is for another architecture than its place in the table says, GPUs of that kind get an error 209 at best; if the program needs
more libraries than it may, it does not start where it should say what is missing."""
import json
import os
import re
import shutil
import struct
import subprocess
import time

import pytest

BUILD = os.path.abspath(os.environ.get("PROBE_BUILD", "build/release"))
CUDA = os.path.abspath(os.environ.get("CUDA_HOME", "build/cuda"))
ARCHS = [50, 60, 61, 70, 75, 80, 86, 89, 90, 100, 103, 120]
KERNELS = {"gp_fill", "gp_check", "gp_read", "gp_copy", "gp_fma32", "gp_fma64", "gp_mma16", "gp_smem", "gp_nop"}
SIZE_MOST = 4 << 20
# The C library alone. (gpuprobe-serve, which needs more, is a program of its own.)
MAY_NEED = re.compile(r"(libc|libm|ld-linux-x86-64)\.so\.\d")


def images():
    """{"75" or "p120": its bytes}, from the generated file."""
    with open(os.path.join(BUILD, "probe/kernels/images.c"), encoding="ascii") as file:
        text = file.read()
    found = re.findall(r"image_(p?\d+)\[\][^{]*\{([^}]*)\}", text)
    return {arch: bytes(int(n) for n in numbers.replace("\n", "").replace("\t", "").split(",") if n) for arch, numbers in found}


def symbols(elf):
    """The names of an ELF file's sections and symbols, all string tables together: enough to find kernels by name."""
    return set(re.findall(rb"\.text\.(\w+)\0", elf))


def architecture_of(cubin):
    """From the ELF header's flags: their lowest byte, from version 8 of the ABI on the second."""
    assert cubin[:4] == b"\x7fELF" and cubin[4] == 2
    machine, = struct.unpack_from("<H", cubin, 18)
    flags, = struct.unpack_from("<I", cubin, 48)
    assert machine == 190  # EM_CUDA
    return flags >> 8 & 0xff if cubin[8] >= 8 else flags & 0xff


@pytest.fixture(scope="module", name="built")
def built_images():
    return images()


def test_each_image_is_for_its_architecture(built):
    assert [a for a in built if a[0] != "p"] == [str(a) for a in ARCHS]
    for arch in ARCHS:
        assert architecture_of(built[str(arch)]) == arch


def test_each_image_has_all_kernels(built):
    for arch in ARCHS:
        missing = KERNELS - {name.decode() for name in symbols(built[str(arch)])}
        assert missing == (set() if arch >= 70 else {"gp_mma16"})


def test_ptx_is_of_the_newest_and_ends_with_a_zero(built):
    ptx = built["p120"]
    assert re.search(rb"^\.target sm_120\b", ptx, re.M) and ptx[-1] == 0
    assert {n.decode() for n in re.findall(rb"\.entry (\w+)\(", ptx)} == KERNELS
    # What is not written as fma must not be fused, and nothing else may be contracted.
    assert not re.search(rb"\b(mul|add|sub|mad)\.f(32|64)\b|\bfma\.rz|\.ftz\b|\.approx\b", ptx)


def programs():
    names = ["gpuprobe", "gpuprobe-shared", "test/probe/rt_hello", "test/probe/rt_hello-shared"]
    return [n for n in names if os.path.exists(os.path.join(BUILD, n))]


def needed(program):
    done = subprocess.run(["readelf", "-dW", program], stdout=subprocess.PIPE, check=True, text=True)
    assert "RPATH" not in done.stdout and "RUNPATH" not in done.stdout
    return re.findall(r"\(NEEDED\).*\[([^\]]+)\]", done.stdout)


@pytest.mark.parametrize("name", programs())
def test_needs_no_more_than_it_may(name):
    program = os.path.join(BUILD, name)
    libraries = needed(program)
    if name.endswith("-shared"):
        assert "libcudart.so.12" in libraries
        libraries.remove("libcudart.so.12")
    assert [n for n in libraries if not MAY_NEED.fullmatch(n)] == []


@pytest.mark.parametrize("name", programs())
def test_is_small(name, tmp_path):
    stripped = shutil.copy(os.path.join(BUILD, name), tmp_path / "program")
    subprocess.run(["strip", stripped], check=True)
    assert os.path.getsize(stripped) <= SIZE_MOST


def run(name, *args, **env):
    """(status, standard output, seconds)"""
    began = time.monotonic()
    done = subprocess.run([os.path.join(BUILD, name), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          env={**os.environ, **env}, timeout=60)
    return done.returncode, done.stdout, time.monotonic() - began


def driver_is_there():
    return os.path.exists("/proc/driver/nvidia/version")


def test_the_linked_runtime_says_that_there_is_no_driver():
    if driver_is_there():
        pytest.skip("this machine has a driver")
    for name, link in (("test/probe/rt_hello", "static"), ("test/probe/rt_hello-shared", "shared")):
        status, out, seconds = run(name, LD_LIBRARY_PATH=os.path.join(CUDA, "lib64"))
        said = json.loads(out)
        assert (status, said["link"], said["driver"], said["error"], said["count"]) == (3, link, 0, 35, -1)
        assert said["runtime"] // 1000 >= 12 and said["images"][-1] == "compute_120"
        assert seconds < 1


@pytest.mark.parametrize("preload", [True, False])
def test_the_fake_takes_the_place_of_the_shared_runtime(preload, tmp_path):
    (tmp_path / "scenario.json").write_text('{"devices": [{"count": 8}]}')
    fake = os.path.join(BUILD, "test/probe/libcudart-fake.so")
    env = {"GPUPROBE_FAKE": str(tmp_path / "scenario.json")}
    if preload:
        env.update(LD_PRELOAD=fake, LD_LIBRARY_PATH=os.path.join(CUDA, "lib64"))
    else:
        shutil.copy(fake, tmp_path / "libcudart.so.12")
        env.update(LD_LIBRARY_PATH=str(tmp_path))
    status, out, _ = run("test/probe/rt_hello-shared", **env)
    said = json.loads(out)
    assert (status, said["count"], said["driver"]) == (0, 8, 12090)


@pytest.mark.parametrize("name", ["gpuprobe", "gpuprobe-shared"])
def test_version_and_report_name_the_images(name, tmp_path):
    """The report over the fake, which takes any of them, says what --version says."""
    if name not in programs():
        pytest.skip("no gpuprobe")
    names = [f"sm_{a}" for a in ARCHS] + ["compute_120"]
    env = {"LD_LIBRARY_PATH": os.path.join(CUDA, "lib64"), "GPUPROBE_FAKE": str(tmp_path / "scenario.json"), "GPUPROBE_ROOT": str(tmp_path)}
    (tmp_path / "scenario.json").write_text('{"devices": [{}]}')
    _, out, _ = run(name, "--version", **env)
    assert re.search(r"^kernels: (.*)$", out, re.M).group(1).split() == names
    status, out, _ = run(name, "list", "--json", "--no-nvml", "--cudart", os.path.join(BUILD, "test/probe/libcudart-fake.so"), **env)
    assert status == 0 and json.loads(out)["build"]["archs"] == names


def test_gpu_check_says_that_there_is_no_gpu():
    """One line, and a status of its own."""
    if "gpuprobe" not in programs() or driver_is_there():
        pytest.skip("no gpuprobe, or a driver")
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu_check")
    done = subprocess.run([script, "--build", BUILD], capture_output=True, text=True, check=False, timeout=60,
                          env={**os.environ, "CUDA_HOME": CUDA})
    assert done.returncode == 3 and done.stdout == "" and done.stderr.count("\n") == 1
    assert "NO_DRIVER" in done.stderr and "on a server with a GPU" in done.stderr


def test_the_program_says_that_there_is_no_driver():
    if "gpuprobe" not in programs() or driver_is_there():
        pytest.skip("no gpuprobe, or a driver")
    status, out, seconds = run("gpuprobe", "verify", "--json")
    report = json.loads(out)
    assert status == report["exit_code"] == 3
    assert [e["code"] for e in report["errors"]] == ["NO_DRIVER"]
    assert report["build"]["archs"] == [f"sm_{a}" for a in ARCHS] + ["compute_120"], "the architectures of the embedded images"
    assert seconds < 1
