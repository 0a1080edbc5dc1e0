#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A server that computes on a GPU through the driver: cuda_server.py ADDRESS PORT. The first line of each connection says what it is asked.

    env     tell its pid
    take N  take N bytes more, and tell what the driver says: 0 when it has them
    rounds  tell how often it has filled its memory and waited for the GPU since it began, and the first error of the driver (0: none)
"""
import ctypes
import json
import os
import socket
import sys
import threading

BYTES = 64 << 20


class Gpu:
    """A context, and a thread that computes in it until the driver says no."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.context, self.rounds, self.error = ctypes.c_void_p(), 0, 0
        device, self.at = ctypes.c_int(), ctypes.c_uint64()
        for rc in (self.cuda.cuInit(0), self.cuda.cuDeviceGet(ctypes.byref(device), 0),
                   self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), device), self.take(BYTES, self.at)):
            self.error = self.error or rc
        threading.Thread(target=self.compute, daemon=True).start()

    def take(self, size, at=None):
        return self.cuda.cuCtxSetCurrent(self.context) or self.cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64() if at is None else at), ctypes.c_size_t(size))

    def compute(self):
        self.cuda.cuCtxSetCurrent(self.context)
        while not self.error:
            self.error = self.cuda.cuMemsetD32_v2(self.at, self.rounds & 0xffffffff, ctypes.c_size_t(BYTES // 4)) or self.cuda.cuCtxSynchronize()
            self.rounds += not self.error


def answer(gpu, word, *rest):
    if word == "env":
        return {"pid": os.getpid()}
    if word == "take":
        return {"says": gpu.take(int(rest[0]))}
    return {"rounds": gpu.rounds, "error": gpu.error}


def serve(c, gpu):
    with c, c.makefile("rw", encoding="ascii") as stream:
        if words := stream.readline().split():
            stream.write(json.dumps(answer(gpu, *words)) + "\n")
            stream.flush()
            c.shutdown(socket.SHUT_WR)
            c.recv(1)


def main():
    gpu = Gpu()
    with socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=64) as s:
        while True:
            threading.Thread(target=serve, args=(s.accept()[0], gpu), daemon=True).start()


main()
