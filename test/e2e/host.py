# SPDX-License-Identifier: Apache-2.0
"""What a cluster changes on its host, written down before it is done and undone exactly, also by the next run after a crash.

Each cluster takes a slot, a number: its addresses, its bridge and its cgroup are named by it, so that several clusters
may run on one machine. A slot's journal in /run says what must be undone.
"""
import errno
import fcntl
import glob
import json
import os
import shutil
import signal
import subprocess
import time

STATE = "/run/poolgate-e2e"
SLOTS = 32


def until(check, seconds, what, every=0.05):
    """Poll until check() is true and return what it said; AssertionError that names `what` after so many seconds."""
    end = time.monotonic() + seconds
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"{what() if callable(what) else what}: not within {seconds} s")
        time.sleep(every)


def run(*argv, check=True, data=None):
    """Run a command; its stdout as text."""
    done = subprocess.run(argv, input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          stdin=None if data is not None else subprocess.DEVNULL)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(argv)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def start_time(pid):
    """Tells a process from a later one with the same pid; None when there is none, or only a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            fields = f.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def kill(pid, started):
    if started is not None and start_time(pid) == started:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        until(lambda: start_time(pid) != started, 20, f"end of process {pid}", 0.01)


def cgroup_folders():
    """Every cgroup hierarchy in which containers are put: one for version 2, many for version 1, or both."""
    with open("/proc/self/mounts", encoding="utf-8") as f:
        mounts = [line.split() for line in f]
    return [m[1] for m in mounts if m[2] in ("cgroup", "cgroup2")]


def cgroup_is_v2():
    with open("/proc/self/mounts", encoding="utf-8") as f:
        return any(line.split()[1:3] == ["/sys/fs/cgroup", "cgroup2"] for line in f)


def make_cgroup(name):
    for folder in cgroup_folders():
        path = os.path.join(folder, name)
        os.makedirs(path, exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):  # version 1: empty in a new cgroup, and then nothing may enter
            if os.path.exists(os.path.join(path, file)):
                with open(os.path.join(folder, file), encoding="utf-8") as f:
                    value = f.read().strip()
                if value and not cgroup_is_v2():
                    with open(os.path.join(path, file), "w", encoding="utf-8") as f:
                        f.write(value)


def _cgroup_processes(name):
    pids = set()
    for folder in cgroup_folders():
        for path, _, _ in os.walk(os.path.join(folder, name)):
            try:
                with open(os.path.join(path, "cgroup.procs"), encoding="utf-8") as f:
                    pids.update(int(pid) for pid in f.read().split())
            except OSError:
                pass
    return pids


def _undo_cgroup(name):
    def gone():
        for pid in _cgroup_processes(name):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        left = False
        for folder in cgroup_folders():
            for path, _, _ in os.walk(os.path.join(folder, name), topdown=False):
                try:
                    os.rmdir(path)
                except FileNotFoundError:
                    pass
                except OSError:
                    left = True
        return not left

    until(gone, 20, f"removal of the cgroups {name}")


def mounts_under(folder):
    """Mount points in a folder, the deepest first."""
    with open("/proc/self/mounts", encoding="utf-8") as f:
        points = [line.split()[1].encode().decode("unicode_escape") for line in f]
    return [p for p in reversed(points) if p == folder or p.startswith(folder + "/")]


def _undo_folder(folder):
    # containerd's shims outlive it; each has the path of our socket among its arguments.
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                argv = f.read().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if "shim" in argv[0] and any(a.startswith(folder + "/") for a in argv):
            pid = int(path.split("/")[2])
            kill(pid, start_time(pid))
    # A killed shim leaves its socket where all of them have theirs.
    for path in glob.glob(f"{folder}/containerd/state/io.containerd.runtime.v2.task/*/*/address"):
        with open(path, encoding="utf-8") as f:
            socket = f.read().strip()
        if socket.startswith("unix:///run/containerd/s/") and os.path.exists(socket[len("unix://"):]):
            os.unlink(socket[len("unix://"):])
    for point in mounts_under(folder):
        run("umount", "-l", point, check=False)
    left = mounts_under(folder)
    if left:  # never remove files through a mount
        raise AssertionError(f"still mounted: {left}")
    shutil.rmtree(folder, ignore_errors=True)


def _undo_made(folder):
    """A folder that programs make where nobody can choose: sockets, links and empty folders of it go."""
    for path, _, files in os.walk(folder, topdown=False):
        for name in files:
            file = os.path.join(path, name)
            if os.path.islink(file) or not os.path.isfile(file):
                os.unlink(file)
        try:
            os.rmdir(path)
        except OSError as e:
            if e.errno != errno.ENOTEMPTY:
                raise


def _undo_cni(network):
    """The CNI library keeps results of our network, and of each sandbox's loopback, where all have theirs."""
    folder = "/var/lib/cni/results"
    for path in glob.glob(f"{folder}/{network}-*-eth0"):
        sandbox = os.path.basename(path)[len(network) + 1:-len("-eth0")]
        for file in (f"{folder}/cni-loopback-{sandbox}-lo", path):
            if os.path.exists(file):
                os.unlink(file)


def _undo_sysctl(path, value):
    with open(path, "w", encoding="utf-8") as f:
        f.write(value)


UNDO = {
    "process": kill,
    "cgroup": _undo_cgroup,
    "folder": _undo_folder,
    "made": _undo_made,
    "file": lambda path: run("rm", "-f", "--", path),
    "cni": _undo_cni,
    "sysctl": _undo_sysctl,
    "address": lambda address: run("ip", "addr", "del", address, "dev", "lo", check=False),
    "link": lambda name: run("ip", "link", "del", name, check=False),
}


class Journal:
    """What to undo, last first. An entry is written before its deed, so each undoing bears that there is nothing to undo."""

    def __init__(self, path):
        self.path = path
        self.entries = []
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                self.entries = [json.loads(line) for line in f if line.endswith("\n")]

    def add(self, kind, *args):
        assert kind in UNDO
        self.entries.append([kind, *args])
        with open(self.path, "a", encoding="utf-8") as f:
            f.write(json.dumps([kind, *args]) + "\n")

    def undo(self):
        """Undo everything; what could not be undone is raised at the end, in one message."""
        problems = []
        for kind, *args in reversed(self.entries):
            try:
                UNDO[kind](*args)
            except (OSError, AssertionError) as e:
                problems.append(f"{kind} {args}: {e}")
        self.entries = []
        if os.path.exists(self.path):
            os.unlink(self.path)
        if problems:
            raise AssertionError("could not be undone:\n" + "\n".join(problems))


class Slot:
    """A number that no other cluster on this machine has, and its journal."""

    def __init__(self):
        os.makedirs(STATE, exist_ok=True)
        used = run("ip", "-o", "addr") + run("ip", "route")
        for self.number in range(SLOTS):
            self._lock = open(f"{STATE}/{self.number}.lock", "w", encoding="utf-8")  # held for life
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._lock.close()
                continue
            self.journal = Journal(f"{STATE}/{self.number}.journal")
            if self.journal.entries:  # left by a run that was killed
                self.journal.undo()
                used = run("ip", "-o", "addr") + run("ip", "route")
            if not any(f" {net}.{self.number}." in used for net in ("10.96", "10.97", "10.244")):
                return
            self._lock.close()
        raise AssertionError("no free slot for a cluster on this machine")

    def release(self):
        self._lock.close()


def sweep():
    """Undo what killed runs have left in every slot that nobody holds."""
    for path in glob.glob(f"{STATE}/*.journal"):
        with open(path[:-len("journal")] + "lock", "w", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            Journal(path).undo()
