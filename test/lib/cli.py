# SPDX-License-Identifier: Apache-2.0
"""Runs poolgate's offline subcommands."""
import os
import subprocess

from .server import DEFAULT_CONFIG, PROGRAM


def run(*args, data=None, env=None, timeout=60):
    """(exit status, stdout bytes, stderr text)"""
    environment = {k: v for k, v in os.environ.items() if k != "TOTAL_GPU_MEMORY"}
    environment.update({"TOTAL_GPU_MEMORY": "16000", **(env or {})})
    done = subprocess.run([PROGRAM, *args], input=data, capture_output=True, env=environment, timeout=timeout, check=False)
    return done.returncode, done.stdout, done.stderr.decode("utf-8", "replace")


def profile_args(config=DEFAULT_CONFIG):
    return ["--client-catalogue", os.path.join(config, "catalogue.yaml"),
            "--sidecar-config", os.path.join(config, "sidecar.yaml")]


def inject(path_or_data, *args, config=DEFAULT_CONFIG):
    if isinstance(path_or_data, bytes):
        return run("inject", *profile_args(config), *args, "-", data=path_or_data)
    return run("inject", *profile_args(config), *args, path_or_data)


def uninject(data, *args):
    return run("uninject", *args, "-", data=data)
