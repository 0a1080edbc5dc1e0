# SPDX-License-Identifier: Apache-2.0
"""gpuprobe over the fakes: a scenario for the CUDA runtime, one for NVML, a sysfs of its own.

    w = World(tmp_path, gpus=8)
    done = w.run("verify", devices=[{"count": 8}], nvml="gpus=8\\n3.remap_failed=1\\n")
    done.status, done.report, done.text, done.stderr
"""
import json
import os
import signal
import subprocess
import time

from lib import probe_schema

BUILD = os.path.abspath(os.environ.get("PROBE_BUILD") or os.path.dirname(os.environ.get("POOLGATE", "build/release/poolgate")))
PROBE = os.path.join(BUILD, "gpuprobe-fake")
FAKES = os.path.join(BUILD, "test/probe")
CUDART = os.path.join(FAKES, "libcudart-fake.so")
# A small GPU, so that the fake's arithmetic in C is soon done. Fits the peak that its clocks promise.
SMALL = {"name": "NVIDIA H200", "sms": 1, "memory_mib": 2048}


class Done:
    """What a run printed. report: the JSON, held to its schema; None when there is none."""

    def __init__(self, status, stdout, stderr, seconds, json_asked):
        self.status, self.stdout, self.stderr, self.seconds = status, stdout, stderr, seconds
        self.report = None
        if json_asked and stdout.strip():
            self.report = probe_schema.loads(stdout)
            assert not probe_schema.problems(self.report), probe_schema.problems(self.report)
            assert self.report["exit_code"] == status, (self.report["exit_code"], status)

    def check(self, name, gpu=0):
        """A GPU's result of this check, or None."""
        row = [g for g in self.report["gpus"] if g["index"] == gpu][0]
        return next((c for c in row["checks"] if c["id"] == name), None)

    def fit(self):
        return [g["fit"] for g in self.report["gpus"]]

    def codes(self):
        """All that is wrong: (gpu or None, code)."""
        found = [(e["gpu"], e["code"]) for e in self.report["errors"]]
        for g in self.report["gpus"]:
            found += [(g["index"], c["code"]) for c in g["checks"] if c["status"] in ("fail", "error", "warn")]
        return found


class World:
    def __init__(self, folder, gpus=1, local=True):
        self.folder = str(folder)
        self.root = os.path.join(self.folder, "root")
        os.makedirs(os.path.join(self.root, "sys/bus/pci/devices"))
        self.env = {"PATH": os.environ["PATH"], "GPUPROBE_ROOT": self.root}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
            if name in os.environ:
                self.env[name] = os.environ[name]
        if "ASAN_OPTIONS" in self.env:
            # Workers are killed at any time, also in the middle of the look for leaks at their end; the unit tests look for them.
            self.env["ASAN_OPTIONS"] += ":detect_leaks=0"
        for i in range(gpus if local else 0):
            self.pci(f"0000:{0x10 + i:02x}:00.0")

    def pci(self, name, config=b"\xde\x10\x30\x23" + bytes(60), **files):
        """A GPU in sysfs."""
        folder = os.path.join(self.root, "sys/bus/pci/devices", name)
        os.makedirs(folder)
        values = {"vendor": "0x10de\n", "class": "0x030200\n", "numa_node": "0\n", "current_link_width": "16\n", "max_link_width": "16\n",
                  "current_link_speed": "32.0 GT/s PCIe\n", "max_link_speed": "32.0 GT/s PCIe\n", **files}
        for file, text in values.items():
            with open(os.path.join(folder, file), "w", encoding="ascii") as f:
                f.write(text)
        with open(os.path.join(folder, "config"), "wb") as f:
            f.write(config)

    def kernel_log(self, *lines):
        os.makedirs(os.path.join(self.root, "dev"), exist_ok=True)
        with open(os.path.join(self.root, "dev/kmsg"), "w", encoding="ascii") as f:
            f.write("".join(line + "\n" for line in lines))

    def start(self, *args, devices=None, nvml=None, env=None, json_asked=True, cudart=CUDART, stdout=subprocess.PIPE,
              shell=None, **scenario):
        """The process, running. devices: each on top of SMALL. shell: what bash does with the words, "$@"."""
        if devices is None:
            devices = [{}]
        path = os.path.join(self.folder, f"scenario-{time.monotonic_ns()}.json")
        with open(path, "w", encoding="ascii") as f:
            json.dump({"devices": [{**SMALL, **d} for d in devices], **scenario}, f)
        words = [PROBE, *args, "--cudart", cudart, "--seed", "7"]
        own = {**self.env, "GPUPROBE_FAKE": path, **(env or {})}
        if nvml is None:
            words.append("--no-nvml")
        else:
            own["GPUPROBE_FAKE_NVML"] = os.path.join(self.folder, "nvml.txt")
            with open(own["GPUPROBE_FAKE_NVML"], "w", encoding="ascii") as f:
                f.write(nvml)
            if "--nvml" not in args:
                words += ["--nvml", os.path.join(FAKES, "libnvidia-ml-fake.so")]
        if json_asked:
            words.append("--json")
        if shell:
            words = ["/bin/bash", "-c", shell, "bash", *words]
        return subprocess.Popen(words, env=own, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE)

    def run(self, *args, json_asked=True, seconds=120, **kw):
        began = time.monotonic()
        process = self.start(*args, json_asked=json_asked, **kw)
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            raise
        return Done(process.returncode, (out or b"").decode(), err.decode(), time.monotonic() - began, json_asked)
