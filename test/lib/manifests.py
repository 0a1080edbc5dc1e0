# SPDX-License-Identifier: Apache-2.0
"""Manifests of every style, made from a seed: what people's files look like, and what they should not look like but may."""
import json
import random
import re

import yaml

PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./@-]*( [A-Za-z]+)*$")
WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


class Raw(str):
    """A value as it is spelled."""


class Named(dict):
    """A map with an anchor."""
    anchor = ""


class Manifest:
    def __init__(self, name, data, exact=True, shared=False, lost=()):
        self.name, self.data = name, data
        self.exact = exact    # uninject gives these bytes back
        self.shared = shared  # aliases or merge keys are at the place
        self.lost = set(lost)  # comments that go with a value


class Writer:
    """One document. Every comment has a number, so that each can be looked for."""

    def __init__(self, rng, comments):
        self.rng, self.comments = rng, comments
        self.step = rng.choice([2, 2, 2, 4, 3])
        self.seq = rng.choice([0, 0, self.step, 2])
        self.dash = rng.choice([1, 1, 1, 3])
        self.flow = rng.choice([0, 0.1, 0.4])
        self.busy = rng.choice([0, 0.1, 0.35])  # comments, empty lines
        self.quotes = rng.choice([0, 0, 0.3])
        self.trailing = rng.choice([0, 0, 0.1])
        self.exact, self.shared, self.lost, self.out = True, False, set(), []

    def chance(self, p):
        return self.rng.random() < p

    def comment(self):
        self.comments.append(f"c{len(self.comments)}c")
        return "# " + self.comments[-1]

    def end(self, lost=False):
        """What may stand behind a value on its line."""
        if self.chance(self.busy):
            said = self.rng.choice([" ", "  ", "\t"]) + self.comment()
            if lost:
                self.lost.add(self.comments[-1])
                self.exact = False
            return said
        if self.chance(self.trailing):
            self.exact = self.exact and not lost
            return self.rng.choice([" ", "\t", "   "])
        return ""

    def above(self, column):
        if self.chance(self.busy):
            return [self.rng.choice(["", " " * column + self.comment(), "  " + self.comment(), ""])]
        return []

    def text(self, s, flow=False):
        if isinstance(s, Raw):
            return str(s)
        if not isinstance(s, str):
            return {None: "null", True: "true", False: "false"}.get(s, str(s)) if not isinstance(s, (int, float)) or isinstance(s, bool) else str(s)
        if PLAIN.match(s) and s.lower() not in WORDS and (s.startswith("bitfusion.io/") or not self.chance(self.quotes)):
            return s
        if self.chance(0.5) and "\n" not in s and "\t" not in s:
            return "'" + s.replace("'", "''") + "'"
        return json.dumps(s, ensure_ascii=self.chance(0.3) and all(ord(c) < 0x10000 for c in s))

    def inline(self, v):
        if isinstance(v, dict):
            return (f"&{v.anchor} " if isinstance(v, Named) else "") + "{" + self.pad(", ".join(f"{self.text(k, True)}: {self.inline(x)}" for k, x in v.items())) + "}"
        if isinstance(v, list):
            return "[" + self.pad(", ".join(self.inline(x) for x in v)) + "]"
        return self.text(v, True)

    def pad(self, s):
        return f" {s} " if s and self.chance(0.2) else s

    def lines(self, v, column):
        """Brackets on several lines: what follows the key, and the lines below."""
        units = [f"{self.text(k)}: {self.inline(x)}" for k, x in v.items()] if isinstance(v, dict) else [self.inline(x) for x in v]
        start, stop = "{}" if isinstance(v, dict) else "[]"
        second = [self.is_second(v, k) for k in v]
        return [start] + [" " * (column + 2) + u + ("," if i + 1 < len(units) else "") + self.end(second[i])
                          for i, u in enumerate(units)] + [" " * column + stop]

    def is_second(self, v, key):
        """Of what asks for GPUs the first becomes what is given, with its comment; the others go."""
        asked = [k for k in v if str(k).startswith("bitfusion.io/gpu-")] if isinstance(v, dict) else []
        return key in asked[1:]

    def scalar_lines(self, s, column):
        """Strings of several lines, and long ones folded."""
        pad = " " * (column + self.step)
        if s.endswith("\n\n") or s[:1] in " \n\t":
            return None
        if "\n" in s:
            mark = "|" if s.endswith("\n") else "|-"
            return [mark] + [pad + line if line else "" for line in s.rstrip("\n").split("\n")]
        words = s.split(" ")
        if len(words) > 6 and all(words):
            half = len(words) // 2
            return [">-", pad + " ".join(words[:half]), pad + " ".join(words[half:])]
        return None

    def member(self, head, v, column, below, second=False):
        """`head` is "key:" or a dash with blanks; below: how far blocks under it are indented."""
        if isinstance(v, Named):
            self.out.append(f"{head} &{v.anchor}" + self.end())
            self.block(dict(v), column + self.step)
            return
        if isinstance(v, (dict, list)) and v and not self.chance(self.flow):
            if head.endswith(":"):
                self.out.append(head + self.end())
                self.block(v, column + (self.step if isinstance(v, dict) else below))
            else:
                at = len(self.out)
                self.block(v, len(head))
                self.out[at] = head + self.out[at].lstrip(" ")
            return
        gap = "" if head.endswith(" ") else " "
        several = None
        if isinstance(v, (dict, list)) and v and self.chance(0.3):
            several = self.lines(v, column)
        elif isinstance(v, str) and not isinstance(v, Raw):
            several = self.scalar_lines(v, column)
        if several:
            self.out += [head + gap + several[0]] + several[1:]
        else:
            self.out.append(head + gap + self.inline(v) + self.end(second))

    def block(self, v, column):
        first = True
        for unit in v.items() if isinstance(v, dict) else v:
            second = isinstance(v, dict) and self.is_second(v, unit[0])
            if not first:
                self.out += self.above(column)
                self.exact = self.exact and not (second and self.out[-1].strip()[:13] != "bitfusion.io/")
            first = False
            if isinstance(v, dict):
                self.member(" " * column + self.text(unit[0]) + ":", unit[1], column, self.seq, second)
            else:
                self.member(" " * column + "-" + " " * self.dash, unit, column, 0)

    def document(self, v):
        self.block(v, 0)
        return self.out


def asks(rng, writer):
    """What asks for GPUs, side by side and in the plan's order, in a map with other resources."""
    ask = {"bitfusion.io/gpu-amount": rng.choice([1, 1, 2])}
    if rng.random() < 0.4:
        ask[rng.choice(["bitfusion.io/gpu-percent", "bitfusion.io/gpu-memory"])] = 50
        if "bitfusion.io/gpu-memory" in ask:
            ask["bitfusion.io/gpu-memory"] = Raw(rng.choice(["4000Mi", "4G"]))
    if rng.random() < 0.1:
        ask["bitfusion.io/gpu-amount"] = Raw(rng.choice(["'1'", "+1", "0x1", '"1"']))
        writer.exact = writer.exact and ask["bitfusion.io/gpu-amount"] == '"1"'
    others = rng.choice([[], ["cpu"], ["memory"], ["cpu", "memory"]])
    pairs = [(k, rng.choice([Raw("2"), Raw("'500m'"), "4Gi"])) for k in others]
    at = rng.randint(0, len(pairs))
    return dict(pairs[:at] + list(ask.items()) + pairs[at:])


def pod_spec(rng, writer):
    containers = []
    for i in range(rng.choice([1, 1, 2])):
        c = {"name": f"c{i}", "image": rng.choice(["local/train:1", "r.example/a/b@sha256:00", "x"])}
        c["command"] = rng.choice([["python", "train.py"], ["python"], ["/bin/sh", "-c"], ["a b", "-x", "it's", "#no", "yes", "é模"]])
        if rng.random() < 0.6:
            c["args"] = rng.choice([["set -e\n\techo 'a'\n\n  python x.py # not a comment\n"], ["--name", "a: b", "{}", ""],
                                    ["one two three four five six seven eight nine ten"], ["last\nline"], []])
        if rng.random() < 0.5:
            c["env"] = [{"name": "A", "value": "b c"}, {"name": "N", "value": Raw('"0644"')}][:rng.randint(1, 2)]
            if rng.random() < 0.4:
                c["env"].insert(rng.randint(0, len(c["env"])), {"name": "LD_LIBRARY_PATH", "value": Raw("/usr/lib")})
        limits = asks(rng, writer)
        c["resources"] = {"limits": limits}
        if rng.random() < 0.3:
            c["resources"]["requests"] = {"cpu": Raw("1")}
        if rng.random() < 0.4:
            c["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        if rng.random() < 0.3:
            c["securityContext"] = {"capabilities": {"drop": ["ALL"]}, "runAsUser": Raw(rng.choice(["1000", "0x3E8", "01750"]))}
        order = list(c.items())
        if rng.random() < 0.3:
            rng.shuffle(order)
        containers.append(dict(order))
    if rng.random() < 0.3:
        containers.append({"name": "side", "image": "y", "env": []})
    spec = {"containers": containers}
    if rng.random() < 0.5:
        spec["volumes"] = rng.choice([[{"name": "data", "emptyDir": {}}], [{"name": "s", "secret": {"secretName": "t", "defaultMode": Raw("0400")}}]])
        for c in containers:
            if "volumeMounts" in c and spec["volumes"][0]["name"] != "data":
                del c["volumeMounts"]
    else:
        for c in containers:
            c.pop("volumeMounts", None)
    if rng.random() < 0.2:
        spec["initContainers"] = [{"name": "init", "image": "z", "command": ["true"]}]
    for key, value in (("nodeSelector", {"disk": "ssd"}), ("restartPolicy", "Never"), ("tolerations", [{"key": "a", "operator": "Exists"}])):
        if rng.random() < 0.4:
            spec = {key: value, **spec} if rng.random() < 0.5 else {**spec, key: value}
    return spec


def metadata(rng, name):
    pairs = [("bitfusion-client/os", "ubuntu20"), ("bitfusion-client/version", Raw('"450"')), ("auto-management/bitfusion", Raw('"all"')),
             ("note", "a long text that somebody has written and that some tool has folded at some width")]
    rng.shuffle(pairs)
    meta = {"annotations": dict(pairs)}
    if name:
        meta["name"] = name
    if rng.random() < 0.5:
        meta["labels"] = rng.choice([{"app": "x"}, {"app": "x", "tier": "no"}, {}])
    return dict(rng.sample(list(meta.items()), len(meta)))


def share(rng, writer, spec):
    """What a manifest says once and means twice. Returns what must stand in front of it."""
    first = spec["containers"][0]
    what = Named(first["resources"] if rng.random() < 0.5 else {"image": "shared", "resources": first["resources"]})
    what.anchor = rng.choice(["r", "a-b"])
    writer.exact, writer.shared = False, True
    if "image" in what:
        spec["containers"].append({Raw("<<"): Raw("*" + what.anchor), "name": "merged", "command": ["python"]})
        return {"x-common": what}
    first["resources"] = what
    spec["containers"].append({"name": "again", "image": "z", "command": ["python"], "resources": Raw("*" + what.anchor)})
    return {}


def workload(rng, writer, i, sharing=0.0):
    pod = {"metadata": metadata(rng, ""), "spec": pod_spec(rng, writer)}
    front = share(rng, writer, pod["spec"]) if rng.random() < sharing else {}
    return {**front, **objects(rng, i, pod)}


def objects(rng, i, pod):
    kind = rng.choice(["Pod", "Pod", "Deployment", "Job", "CronJob", "StatefulSet", "List", "RayCluster"])
    head = {"apiVersion": "v1", "kind": kind}
    if kind == "Pod":
        return {**head, "metadata": metadata(rng, f"p{i}"), "spec": pod["spec"]}
    if kind == "List":
        return {**head, "items": [{"apiVersion": "v1", "kind": "Pod", **pod, "metadata": metadata(rng, f"l{i}")},
                                  {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}]}
    head["apiVersion"] = {"Deployment": "apps/v1", "StatefulSet": "apps/v1", "RayCluster": "ray.io/v1"}.get(kind, "batch/v1")
    head["metadata"] = {"name": f"w{i}"}
    if kind == "CronJob":
        return {**head, "spec": {"schedule": "1 2 * * *", "jobTemplate": {"spec": {"template": pod}}}}
    if kind == "RayCluster":
        return {**head, "spec": {"workerGroupSpecs": [{"replicas": 1, "template": pod}]}}
    return {**head, "spec": {"template": pod, "replicas": Raw("0x2")} if rng.random() < 0.5 else {"replicas": 1, "template": pod}}


OTHERS = [
    "kind: ConfigMap\nmetadata: &m {name: a, labels: {x: &x 'y'}}\nother: *m\ndata:\n  k: |+\n    text: [\n\n    # no comment\n\n  l: *x\n",
    "kind: Secret\nmetadata:\n    name:   b   \n? explicit\n: - 0o17\n  -   1e3\n  - ~\t\ndata: {a: !!binary AAAA, \"b\": 'c''d', <<: {e: f}}\n",
    "kind: ConfigMap\ndata:\n  \"tab\\tin\": \"a\tb\"\n  folded: >\n    one\n    two\n\n     three\n\n  plain: several\n    lines of\n    text\n", "# nothing\n", ""]


def yaml_file(rng, name):
    comments, docs, exact, shared, lost = [], [], True, False, set()
    eol = rng.choice(["\n", "\n", "\n", "\r\n"])
    for i in range(rng.choice([1, 1, 1, 2])):
        if rng.random() < 0.25:
            docs.append(rng.choice(OTHERS))
        writer = Writer(rng, comments)
        lines = writer.document(workload(rng, writer, i, 0.15))
        docs.append("\n".join(lines) + "\n")
        exact, shared = exact and writer.exact, shared or writer.shared
        lost |= writer.lost
    text = rng.choice(["", "---\n", "%YAML 1.1\n---\n", "# " + "first\n"]) + docs[0]
    for above, doc in zip(docs, docs[1:]):
        text += rng.choice(["---\n", "...\n---\n", "--- # next\n"] if ":" in above else ["---\n"]) + doc
    text += rng.choice(["", "", "...\n" if ":" in docs[-1] else "", "# end\n", "\n\n"])
    if rng.random() < 0.15:
        text = text.rstrip("\n")
    data = text.replace("\n", eol).encode()
    return Manifest(name + ".yaml", (b"\xef\xbb\xbf" if rng.random() < 0.08 else b"") + data, exact, shared, lost)


def plain(value):
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, Raw):
        return value.strip("'\"") if value[:1] in "'\"" else yaml.safe_load(value)
    return value


def json_file(rng, name):
    writer = Writer(rng, [])
    value = plain(workload(rng, writer, 0))
    indent = rng.choice([None, 2, 4, "\t", 1])
    text = json.dumps(value, indent=indent, ensure_ascii=rng.random() < 0.5, separators=(",", ":") if indent is None and rng.random() < 0.5 else None)
    return Manifest(name + ".json", (text + rng.choice(["", "\n"])).encode(), '"bitfusion.io/gpu-amount": "' not in text.replace('":"', '": "') or
                    re.search(r'gpu-amount": ?"1"', text) is not None)


def made(seed, count):
    """`count` manifests, the same for the same seed; one in six is JSON."""
    rng = random.Random(seed)
    return [(json_file if i % 6 == 5 else yaml_file)(rng, f"made-{i:03}") for i in range(count)]
