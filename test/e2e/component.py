# SPDX-License-Identifier: Apache-2.0
"""One program of a cluster: started, watched, stopped, paused, killed and started again by its pid."""
import contextlib
import os
import signal
import subprocess

from host import start_time, until


class Component:
    """argv may be a function: it is asked at each start. ready() is polled after the start."""

    def __init__(self, name, argv, log, journal, ready=None, env=None, cwd=None):
        self.name, self.argv, self.log_path, self.journal = name, argv, log, journal
        self.ready, self.cwd = ready, cwd
        # Proxies of the environment would also apply to webhook calls.
        self.env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        self.env.update(env or {})
        self.process = None
        self.extra = []

    def start(self, extra=None, wait=True, seconds=60):
        """Start it; extra arguments, if given, are kept for later starts too."""
        assert not self.alive(), f"{self.name} runs already"
        if extra is not None:
            self.extra = list(extra)
        argv = self.argv() if callable(self.argv) else self.argv
        with open(self.log_path, "ab") as log:
            # A session of its own: Ctrl-C reaches the tests alone, which then stop things in order.
            self.process = subprocess.Popen([*argv, *self.extra], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=self.env, cwd=self.cwd, start_new_session=True)
        self.journal.add("process", self.process.pid, start_time(self.process.pid))
        if wait:
            self.wait_ready(seconds)
        return self

    def wait_ready(self, seconds=60):
        """Until ready() says so. Somebody else's server may answer: ours must be alive before and after."""
        def check():
            self.must_live()
            return (self.ready is None or self.ready()) and self.alive()

        until(check, seconds, lambda: f"{self.name} is not ready\n{self.log()[-2000:]}")

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def must_live(self):
        assert self.alive(), f"{self.name} ended with {self.process and self.process.returncode}\n{self.log()[-3000:]}"

    @property
    def pid(self):
        return self.process.pid

    def send(self, number):
        self.process.send_signal(number)

    def stop(self, sig=signal.SIGTERM, seconds=90):
        """End it and return its exit status."""
        if self.alive():
            self.resume()
            self.send(sig)
            self.process.wait(seconds)
        return self.process.returncode if self.process else None

    def kill(self):
        """kill -9"""
        return self.stop(signal.SIGKILL)

    def restart(self, sig=signal.SIGTERM, extra=None, wait=True):
        self.stop(sig)
        self.start(extra, wait)

    def pause(self):
        """SIGSTOP: it neither answers nor closes its connections."""
        self.send(signal.SIGSTOP)

    def resume(self):
        self.send(signal.SIGCONT)

    @contextlib.contextmanager
    def paused(self):
        """with etcd.paused(): time.sleep(5)"""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def log(self):
        try:
            with open(self.log_path, "rb") as f:
                return f.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""
