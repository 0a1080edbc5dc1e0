# SPDX-License-Identifier: Apache-2.0
"""How undisturbed the two cores are while something is measured on them. On a virtual machine other guests come and go within seconds:
the hypervisor takes time away (steal), or they run on the other half of a core and everything on ours takes up to half as long again,
which no clock of a process tells. So a fixed piece of integer work, the yardstick, is timed on each core before, in and after each
burst. What makes a burst disturbed is said here alone, the same for every server, and never by a figure that was measured."""
import bisect
import contextlib
import gzip
import hashlib
import os
import resource
import time

import peers

CORES = (peers.SERVER_CORE, peers.CLIENT_CORE)
# Above these a burst is disturbed; each is the worse core's. The page docs/performance.md names them.
LIMITS = {"steal": 0.01, "slow": 0.10, "others": 0.15}
WHY = {"steal": f"the hypervisor took more than {LIMITS['steal']:.0%} of a core",
       "slow": f"the yardstick took more than {LIMITS['slow']:.0%} longer than it can",
       "others": f"other programs took more than {LIMITS['others']:.0%} of a core"}
BLOCK, WARM_BLOCKS, BLOCKS = bytes(2000), 4, 32  # less than hashlib gives its lock away for; less than a tenth of a millisecond
AROUND, STEP_S = 4, 0.03  # pieces before and after a burst; time from one to the next in it
FIRST = 200
BEST_OF = 100  # the best is what one piece of so many is faster than: when time was stolen a clock may jump
WAIT_S = 0.5
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
STEAL = 7  # of a line of /proc/stat


def piece_us():
    """CPU time of one piece of work: what others run meanwhile on this core is not in it, what slows the core down is."""
    work = hashlib.blake2b()
    for _ in range(WARM_BLOCKS):
        work.update(BLOCK)
    began = time.thread_time_ns()
    for _ in range(BLOCKS):
        work.update(BLOCK)
    return (time.thread_time_ns() - began) / 1000


def busy_columns():
    """Of a line of /proc/stat what the clocks of processes tell, too: user, nice, system; irq and softirq where the kernel charges them
    to the program that they interrupt. Where that is unknown, less: then fewer bursts are found to be disturbed."""
    for path, read in (("/proc/config.gz", gzip.open), (f"/boot/config-{os.uname().release}", open)):
        with contextlib.suppress(OSError), read(path, "rt", encoding="utf-8") as file:
            return (0, 1, 2) if "CONFIG_IRQ_TIME_ACCOUNTING=y" in file.read() else (0, 1, 2, 5, 6)
    return 0, 1, 2


BUSY = busy_columns()


def taken():
    """(busy, stolen) seconds of each core since the machine's start."""
    found = {}
    with open("/proc/stat", encoding="ascii") as file:
        for line in file:
            name, *ticks = line.split()
            if name[3:].isdigit() and int(name[3:]) in CORES:
                found[int(name[3:])] = sum(int(ticks[n]) for n in BUSY) * TICK_S, int(ticks[STEAL]) * TICK_S
    return found


def children_s():
    """CPU seconds of all programs that were started from here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Weather:
    def __init__(self):
        self.cores = os.sched_getaffinity(0)
        self.pieces = {core: [] for core in CORES}  # sorted: all of the run
        self.bursts = []  # (what, what was seen) of each
        for _ in range(FIRST):
            self.measure()

    def measure(self):
        """A piece on each core: core: µs."""
        found = {}
        for core in CORES:
            os.sched_setaffinity(0, {core})
            found[core] = piece_us()
            bisect.insort(self.pieces[core], found[core])
        os.sched_setaffinity(0, self.cores)
        return found

    def best(self, core):
        return self.pieces[core][len(self.pieces[core]) // BEST_OF]

    def slow(self, pieces):
        """How much longer than the best these pieces took on the worse core: 0.1 is 10 %."""
        return max(sum(piece[core] for piece in pieces) / len(pieces) / self.best(core) for core in CORES) - 1

    def wait(self):
        """Until the yardstick says that nobody disturbs us, though not for long."""
        end = time.monotonic() + WAIT_S
        while self.slow([self.measure() for _ in range(AROUND)]) > LIMITS["slow"] and time.monotonic() < end:
            time.sleep(STEP_S)

    def begin(self):
        return Burst(self)

    def parts(self, seen):
        """What was seen over each limit: 1 is the limit."""
        values = dict(seen, slow=self.slow(seen["pieces"]))
        return {name: values[name] / limit for name, limit in LIMITS.items()}

    def excess(self, seen):
        """How disturbed a burst is: above 1 it is."""
        return max(self.parts(seen).values())

    def why(self, seen):
        """The name of the limit that it is farthest above, or ""."""
        parts = self.parts(seen)
        return max(parts, key=parts.get) if self.excess(seen) > 1 else ""

    def summary(self):
        """For the report: of all bursts, how many were disturbed, by what, and at whose turn."""
        why, turns = dict.fromkeys(LIMITS, 0), {}
        for what, seen in self.bursts:
            said = self.why(seen)
            why.update({said: why[said] + 1} if said else {})
            turn = turns.setdefault(what, [0, 0])
            turn[0] += 1
            turn[1] += bool(said)
        return {"bursts": len(self.bursts), "disturbed": why, "limits": LIMITS,
                "servers": {what: {"bursts": n, "disturbed": bad} for what, (n, bad) in turns.items()},
                "yardstick_us": {str(core): {"best": self.best(core), "median": self.pieces[core][len(self.pieces[core]) // 2]}
                                 for core in CORES}}


class Burst:
    """The weather from here to end()."""

    def __init__(self, weather):
        self.weather = weather
        weather.wait()
        self.pieces = [weather.measure() for _ in range(AROUND)]
        self.children, self.taken, self.began = children_s(), taken(), time.monotonic()

    def watch(self, seconds):
        """Let so many seconds go by."""
        end = time.monotonic() + seconds
        while time.monotonic() < end - STEP_S:
            time.sleep(STEP_S)
            self.pieces.append(self.weather.measure())
        time.sleep(max(end - time.monotonic(), 0))

    def end(self, what, server_s):
        """What was seen. server_s: the CPU seconds of the server meanwhile; the client has ended."""
        took, now = time.monotonic() - self.began, taken()
        ours = {peers.SERVER_CORE: server_s, peers.CLIENT_CORE: children_s() - self.children}
        self.pieces += [self.weather.measure() for _ in range(AROUND)]
        seen = {"steal": max(now[core][1] - self.taken[core][1] for core in CORES) / took,
                "others": max(now[core][0] - self.taken[core][0] - ours[core] for core in CORES) / took,
                "pieces": self.pieces}
        self.weather.bursts.append((what, seen))
        return seen
