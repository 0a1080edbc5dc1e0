# SPDX-License-Identifier: Apache-2.0
"""What the kubelet and a launcher make of a container: variables, argv, and the program that is really started."""
import re

SYNTAX = re.compile(r"\$(\$|\(([^()]*)\))")


def expand(text, mapping):
    """$(NAME) and $$ as k8s.io/kubernetes/third_party/forked/golang/expansion does it: an unknown name stays as it is."""
    out, i = [], 0
    while i < len(text):
        if text[i] != "$" or i + 1 == len(text):
            out.append(text[i])
            i += 1
            continue
        following = text[i + 1]
        if following == "$":
            out.append("$")
            i += 2
        elif following == "(":
            end = text.find(")", i + 2)
            if end < 0:
                out.append("$(")
                i += 2
                continue
            name = text[i + 2:end]
            out.append(mapping[name] if name in mapping else f"$({name})")
            i = end + 1
        else:
            out.append("$" + following)
            i += 2
    return "".join(out)


def environment(container):
    """The variables in their final values: later entries win, earlier ones can be named. A valueFrom gives a value that
    shows where it came from."""
    env = {}
    for entry in container.get("env") or []:
        if "valueFrom" in entry:
            env[entry["name"]] = f"<{sorted(entry['valueFrom'].items())!r}>"
        else:
            env[entry["name"]] = expand(entry.get("value") or "", env)
    return env


def argv(container):
    """The words that are started, for a container that has a command; args alone are None (the image decides)."""
    env = environment(container)
    command = container.get("command") or []
    if not command:
        return None
    return [expand(w, env) for w in command + (container.get("args") or [])]


def strip_launcher(words, options):
    """A launcher that drops its own options up to "--" and starts the rest: (its options, the program's argv). options maps
    an option to the number of its values. Raises ValueError for words that such a launcher would not understand."""
    own, i = [], 1
    if len(words) < 2 or words[1] != "run":
        raise ValueError(f"no `run` behind {words[:1]}")
    i = 2
    while i < len(words) and words[i] != "--":
        if words[i] not in options:
            raise ValueError(f"the launcher does not know {words[i]!r}")
        n = options[words[i]]
        own.append(tuple(words[i:i + 1 + n]))
        i += 1 + n
    if i >= len(words):
        raise ValueError("no -- in the launcher's words")
    return own, words[i + 1:]


BITFUSION = {"-n": 1, "-p": 1, "-m": 1, "--filter": 1}
