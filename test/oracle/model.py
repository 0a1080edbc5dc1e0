# SPDX-License-Identifier: Apache-2.0
"""What the mutating hook must do to a pod, by the contract: an independent model. It speaks of meanings (the argv that is
started, the variables in force), so that every right patch passes and no wrong one does."""
import copy
import math
import os.path
import re
from dataclasses import dataclass, field

from . import kubelet
from .quantity import ASKED, UNITS, Refusal, asked, parse, read_request

SWITCH, STATUS = "auto-management/bitfusion", "auto-management/status"
OS, VERSION, FILTER = "bitfusion-client/os", "bitfusion-client/version", "bitfusion-client/filter"
PLAN, LABEL, MIRROR = "poolgate.io/plan", "poolgate.io/injected", "kubernetes.io/config.mirror"
LIBRARY_PATH = "LD_LIBRARY_PATH"
FULL = {"y", "yes", "true", "on", "all"}
SHELLS = {"sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"}
BLANKS = " \t\n\r\f\v"


@dataclass
class Expect:
    """Untouched when pod is None; `wraps` are the names of the containers with launcher words in front."""
    refusal: Refusal = None
    pod: dict = None
    warns: bool = False
    requests: dict = field(default_factory=dict)
    argv: dict = field(default_factory=dict)
    library_path: dict = field(default_factory=dict)


def filter_words(text):
    """Words between blanks; a value in double quotes may hold blanks."""
    words = re.findall(rf'[^={BLANKS}]*="[^"]*"(?=[{BLANKS}]|$)|[^{BLANKS}]+', text)
    return [re.sub(r'^([^=]*=)"([^"]*)"$', r"\1\2", word) for word in words]


def starts_launcher(command):
    """Does this command start the launcher by itself: its first word, or that of its shell's script or of its one string?"""
    if not command:
        return False
    words = list(command)
    if len(words) == 1 and any(b in words[0] for b in BLANKS):
        words = words[0].split()
    elif os.path.basename(words[0]) in SHELLS and len(words) > 2 and words[1].startswith("-") and words[1].endswith("c"):
        words = words[2].split()
    return bool(words) and os.path.basename(words[0]) == "bitfusion"


def launcher_words(client, request, filters):
    words = [client.binary, "run", "-n", str(request.amount)]
    if request.memory_mb:
        words += ["-m", str(request.memory_mb)]
    else:
        words += ["-p", f"{request.percent // 100}.{request.percent % 100:02d}0000"]
    for token in filters:
        words += ["--filter", token]
    return words + ["--"]


def shell_line(container):
    """The one string that holds blanks, or None."""
    command = container.get("command") or []
    return command[0] if len(command) == 1 and any(b in command[0] for b in BLANKS) else None


def expected_argv(container, client, request, filters, shell):
    """What the kubelet must start."""
    command = container.get("command") or []
    if not command:
        raise Refusal("command")
    if starts_launcher(command):
        return kubelet.argv(container)
    line = shell_line(container)
    words = launcher_words(client, request, filters)
    if line is None:
        return words + kubelet.argv(container)
    if container.get("args"):
        raise Refusal("command", "args")
    return words + [shell, "-c", kubelet.expand(line, kubelet.environment(container))]


def expected_library_path(container, client):
    own = kubelet.environment(container).get(LIBRARY_PATH)
    parts = [client.library_path] + [p for p in (own or "").split(":") if p]
    return ":".join(parts)


def init_resources(containers):
    """cpu and memory of an injected init container: the maximum over the app containers, a request never above its limit."""
    best = {"limits": {}, "requests": {}}
    for container in containers:
        resources = container.get("resources") or {}
        for side in ("limits", "requests"):
            for name in ("cpu", "memory"):
                text = (resources.get(side) or {}).get(name)
                if text is not None and parse(text) > best[side].get(name, Fraction_0):
                    best[side][name] = parse(text)
    for name, limit in best["limits"].items():
        if name in best["requests"]:
            best["requests"][name] = min(best["requests"][name], limit)
    return {side: values for side, values in best.items() if values}


Fraction_0 = parse("0")


def collisions(pod, targets, profile):
    ours = {v["name"] for v in profile.volumes}
    for volume in pod["spec"].get("volumes") or []:
        if volume["name"] in ours:
            raise Refusal(volume["name"])
    paths = {m["mountPath"].rstrip("/") for m in profile.mounts}
    for container in targets:
        for mount in container.get("volumeMounts") or []:
            if mount["mountPath"].rstrip("/") in paths:
                raise Refusal(mount["mountPath"].rstrip("/"))


def switch_of(pod):
    value = (pod["metadata"].get("annotations") or {}).get(SWITCH, "")
    value = value.lower()
    return "full" if value in FULL else "injection" if value == "injection" else None


def is_windows(pod):
    spec = pod["spec"]
    return ((spec.get("os") or {}).get("name") == "windows"
            or (spec.get("nodeSelector") or {}).get("kubernetes.io/os") == "windows")


def mutate(review, profile):
    """The expected outcome of a CREATE review for a pod of the Bitfusion profile that was not injected before."""
    request = review["request"]
    pod = request["object"]
    notes = pod["metadata"].get("annotations") or {}
    mode = switch_of(pod)
    namespace = request.get("namespace") or pod["metadata"].get("namespace")
    if mode is None or namespace in ("kube-system", "kube-public") or MIRROR in notes:
        return Expect()
    if notes.get(STATUS, "").lower() == "injected" and PLAN not in notes:
        return Expect()
    spec = pod["spec"]
    everyone = (spec.get("initContainers") or []) + spec["containers"]
    targets = [c for c in everyone if asked(c)]
    if not targets:
        return Expect(warns=True)
    if is_windows(pod):
        return Expect(refusal=Refusal("Windows"))
    if not notes.get(OS) or not notes.get(VERSION):
        return Expect(warns=True)
    client = profile.clients.get((notes[OS], notes[VERSION]))
    try:
        if client is None:
            raise Refusal("Could not find Bitfusion client info")
        return inject(pod, targets, client, profile, mode, filter_words(notes.get(FILTER, "")))
    except Refusal as refusal:
        return Expect(refusal=refusal)


def inject(pod, targets, client, profile, mode, filters):
    collisions(pod, targets, profile)
    taken = {c["name"] for c in (pod["spec"].get("initContainers") or []) + pod["spec"]["containers"]}
    for init in client.inits:
        if init["name"] in taken:
            raise Refusal(init["name"])
    result = Expect(pod=copy.deepcopy(pod))
    result.warns = any(t.split("=")[0] not in profile.known_filters for t in filters)
    for container in targets:
        request = read_request(container, profile.total_mb)
        result.requests[container["name"]] = request
        result.warns = result.warns or request.warned
        result.library_path[container["name"]] = expected_library_path(container, client)
        if mode == "full":
            result.argv[container["name"]] = expected_argv(container, client, request, filters, profile.shell)
        else:
            result.argv[container["name"]] = kubelet.argv(container)
    spec = result.pod["spec"]
    for container in (spec.get("initContainers") or []) + spec["containers"]:
        if container["name"] not in result.requests:
            continue
        resources = container["resources"]
        for side in ("limits", "requests"):
            kept = {k: v for k, v in (resources.get(side) or {}).items() if k not in ASKED}
            kept[UNITS] = str(result.requests[container["name"]].units)
            resources[side] = kept
        container["volumeMounts"] = (container.get("volumeMounts") or []) + copy.deepcopy(profile.mounts)
    spec["volumes"] = (spec.get("volumes") or []) + copy.deepcopy(profile.volumes)
    ours = copy.deepcopy(client.inits)
    for init in ours:
        init["resources"] = init_resources(pod["spec"]["containers"])
    spec["initContainers"] = ours + (spec.get("initContainers") or [])
    result.pod["metadata"].setdefault("annotations", {})[STATUS] = "injected"
    result.pod["metadata"].setdefault("labels", {})[LABEL] = "true"
    return result
