#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Plays nvidia-cuda-mps-control: one command of its standard input, in the folder that it finds its daemon by. There `clients` has those of the
server whose pid is in `server`, `mode` says how it answers (well, late, fails, hangs, refuses WORD, elsewhere: its server's number is another's here), `asked`
is what it was asked, and `heard` is whom it was told to end, with whether the client lived then."""
import os
import sys
import time

FOLDER = os.environ["CUDA_MPS_PIPE_DIRECTORY"]
# The last two as that of driver 580 says them.
REFUSALS = {"get_server_list": "error 805 CUDA_ERROR_MPS_CONNECTION_FAILED", "get_client_list": "Server {} not found",
            "terminate_client": "Invalid process {1}!\n1"}


def read(name):
    with open(os.path.join(FOLDER, name), encoding="ascii") as f:
        return f.read()


def main():
    word, *pids = sys.stdin.readline().split()
    mode = read("mode")
    with open(os.path.join(FOLDER, "asked"), "a", encoding="ascii") as f:
        f.write(word + "\n")
    if mode == "fails":
        sys.exit("Cannot find MPS control daemon process")
    if mode == "late" and word == "get_server_list":
        time.sleep(4)
    if mode == "hangs":
        time.sleep(600)
    if word == "terminate_client":
        with open(os.path.join(FOLDER, "heard"), "a", encoding="ascii") as f:
            f.write(" ".join([word, *pids, str(os.path.exists(f"/proc/{pids[1]}"))]) + "\n")
    if mode == f"refuses {word}":
        print(REFUSALS[word].format(*pids))
    elif word == "get_server_list":
        print(os.getpid() if mode == "elsewhere" else read("server"))
    elif word == "get_client_list":
        print(read("clients"))
    else:
        print(0)


main()
