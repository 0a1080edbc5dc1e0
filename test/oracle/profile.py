# SPDX-License-Identifier: Apache-2.0
"""The Bitfusion profile as the origin's two files describe it, read anew."""
import copy
import os
from dataclasses import dataclass, field

import yaml


@dataclass
class Client:
    binary: str
    library_path: str
    inits: list


@dataclass
class Profile:
    clients: dict
    volumes: list
    mounts: list
    shell: str = "sh"
    total_mb: int = 16000
    known_filters: set = field(default_factory=set)


def library_root(path):
    """What stands for BITFUSION_CLIENT_OPT_PATH: the path before /opt/bitfusion, and all below /opt/bitfusion."""
    return path[:path.index("/opt/bitfusion")] + "/opt/bitfusion/*"


def load(folder, total_mb=16000):
    with open(os.path.join(folder, "catalogue.yaml"), encoding="utf-8") as f:
        catalogue = yaml.safe_load(f)
    with open(os.path.join(folder, "sidecar.yaml"), encoding="utf-8") as f:
        sidecar = yaml.safe_load(f)
    clients = {}
    for row in catalogue["BitfusionClients"]:
        inits = copy.deepcopy(sidecar.get("initContainers") or [])
        for init in inits:
            command = init.get("command") or []
            if len(command) > 2:
                command[2] = command[2].replace("BITFUSION_CLIENT_OPT_PATH", library_root(row["EnvVariable"]), 1)
        clients[row["OSVersion"], row["BitfusionVersion"]] = Client(row["BinaryPath"], row["EnvVariable"], inits)
    mounts = sidecar["containers"][0].get("volumeMounts") or [] if sidecar.get("containers") else []
    known = {"server.name", "server.addr", "gpu.model"}
    pool = os.path.join(folder, "pool.yaml")
    if os.path.exists(pool):
        with open(pool, encoding="utf-8") as f:
            for server in yaml.safe_load_all(f):
                known |= set((server or {}).get("metadata", {}).get("labels") or {})
    shell = "sh"
    if os.path.exists(os.path.join(folder, "shell")):
        with open(os.path.join(folder, "shell"), encoding="utf-8") as f:
            shell = f.read().strip()
    return Profile(clients, sidecar.get("volumes") or [], mounts, shell, total_mb=total_mb, known_filters=known)
