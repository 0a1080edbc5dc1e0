#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy for bad networks: `proxy.py LISTEN:PORT TARGET:PORT`, in a process of its own so that the tests' threads do not slow
it down. Reads commands from its stdin, one a line, each answered by a line "ok":

    delay MS     hold every piece of data back for so long, in each direction
    cut          close all connections
    refuse       close all connections, and new ones at once
    accept       take new ones again
"""
import asyncio
import contextlib
import os
import subprocess
import sys
import threading

from host import start_time


class Proxy:
    """The API server once more, over a network as bad as a test wants; in a test: cluster.proxy."""

    def __init__(self, listen, target, journal, log):
        with open(log, "ab") as out:
            self.process = subprocess.Popen([sys.executable, "-B", os.path.abspath(__file__), listen, target], text=True,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=out, start_new_session=True)
        journal.add("process", self.process.pid, start_time(self.process.pid))
        self.lock = threading.Lock()
        assert self.process.stdout.readline() == "ok\n"

    def command(self, *words):
        with self.lock:
            self.process.stdin.write(" ".join(map(str, words)) + "\n")
            self.process.stdin.flush()
            assert self.process.stdout.readline() == "ok\n"

    def delay(self, ms):
        """Hold everything back for so long in each direction: a round trip takes twice that."""
        self.command("delay", ms)

    def cut(self):
        """Close all connections."""
        self.command("cut")

    @contextlib.contextmanager
    def refusing(self):
        """Close all connections and take no new ones inside the block."""
        self.command("refuse")
        try:
            yield
        finally:
            self.command("accept")


class Relay:
    def __init__(self, target):
        self.target, self.delay, self.refusing, self.writers = target, 0.0, False, set()

    async def pump(self, reader, writer):
        loop = asyncio.get_running_loop()
        queue = asyncio.Queue(1024)

        async def send():
            while True:
                due, data = await queue.get()
                if due > loop.time():
                    await asyncio.sleep(due - loop.time())
                if not data:
                    if writer.can_write_eof():
                        writer.write_eof()
                    return
                writer.write(data)
                await writer.drain()

        sender = asyncio.ensure_future(send())
        try:
            while True:
                data = await reader.read(65536)
                await queue.put((loop.time() + self.delay, data))
                if not data:
                    break
            await sender
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            sender.cancel()

    async def serve(self, reader, writer):
        if self.refusing:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self.target)
        except OSError:
            writer.transport.abort()
            return
        self.writers |= {writer, far_writer}
        try:
            await asyncio.gather(self.pump(reader, far_writer), self.pump(far_reader, writer))
        finally:
            self.writers -= {writer, far_writer}
            for w in (writer, far_writer):
                w.close()

    def command(self, words):
        if words[0] == "delay":
            self.delay = float(words[1]) / 1000
        else:
            self.refusing = words[0] == "refuse"
            if words[0] in ("cut", "refuse"):
                for w in list(self.writers):
                    w.transport.abort()


def address(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


async def main():
    relay = Relay(address(sys.argv[2]))
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await asyncio.start_server(relay.serve, *address(sys.argv[1]))
    print("ok", flush=True)
    while True:
        line = await reader.readline()
        if not line:  # the tests have ended
            return
        relay.command(line.decode().split())
        print("ok", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
