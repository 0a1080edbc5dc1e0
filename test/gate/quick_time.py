# SPDX-License-Identifier: Apache-2.0
"""Time of a program that goes on quicker where a test says so (test/faults/clock.c). A program with sanitizers takes no library before theirs: its
time is everybody's, and is waited for."""
import os
import struct
import time

from world import servers

CLOCK = os.path.join(os.path.dirname(servers.PROGRAM), "test/faults/clock.so")


class Time:
    """The file by which programs that were started with env() share a time."""

    def __init__(self, path, clock=CLOCK):
        self.path, self.clock, self.passed = path, clock, 0
        with open(path, "wb") as f:
            f.write(struct.pack("=qq", 0, 0))
        os.chmod(path, 0o666)

    def env(self):
        return {} if servers.SANITIZED else {"LD_PRELOAD": self.clock, "FAULT_TIME": self.path}

    def wrap(self):
        """For a World, whose gate it is then the time of."""
        return "env", *(f"{k}={v}" for k, v in self.env().items())

    def goes_on(self, seconds):
        if servers.SANITIZED:
            time.sleep(seconds)
        self.passed += seconds
        with open(self.path, "r+b") as f:
            f.write(struct.pack("=q", self.passed))

    def sleeps_until(self):
        """Of the one program that waits for signals: in seconds of its time; 0: it does not wait."""
        with open(self.path, "rb") as f:
            return struct.unpack("=qq", f.read(16))[1] / 1e6
