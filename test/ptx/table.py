#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The faults of faults.txt, and the table of them in docs/gpuprobe.md.

    test/ptx/table.py          write it between its markers
    test/ptx/table.py --check  exit status 1 when what stands there is not what faults.txt says
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "../../docs/gpuprobe.md")
BEGIN, END = "<!-- planted faults: made by test/ptx/table.py -->", "<!-- end of planted faults -->"
OUTCOMES = ("fit", "missed", "unseen")


class Fault:
    """One line. outcome: fit, found, missed or unseen; check: who finds it; why: the reason of the last two; times: how often it is
    planted, times_found: how many of them are found."""

    def __init__(self, kind, about, line):
        parts = [p.strip() for p in line.split("|")]
        if len(parts) != 4:
            raise ValueError(f"faults.txt: expected name | planted | smallest | expected: {line}")
        name, planted, self.smallest, expected = parts
        self.kind, self.about = kind, about
        self.slow, self.name = name.startswith("~"), name.lstrip("~")
        self.command, _, self.planted = planted.rpartition("::")
        self.command, self.planted = self.command.strip(), self.planted.strip()
        times = re.search(r"x(\d+)$", self.name)
        self.times = int(times.group(1)) if times else 1
        word, _, self.why = expected.partition(": ")
        self.check, _, count = word.partition(" ")
        self.outcome = word if word in OUTCOMES else "found"
        self.times_found = int(count) if count else self.times
        if self.outcome in ("missed", "unseen") and not self.why:
            raise ValueError(f"faults.txt: {self.name}: {self.outcome} wants a reason")


def read(path):
    """All faults of the file."""
    faults, kind, about = [], "", ""
    with open(path, encoding="utf-8") as file:
        for line in file:
            heading = re.fullmatch(r"\[(.*)\] (.*)\n", line)
            if heading:
                kind, about = heading.groups()
            elif line.strip() and not line.startswith("#"):
                faults.append(Fault(kind, about, line))
    names = [f.name for f in faults]
    doubles = {n for n in names if names.count(n) > 1}
    if doubles:
        raise ValueError(f"faults.txt: twice: {' '.join(sorted(doubles))}")
    return faults


SIZES = ("bit", "read", "store", "op", "cell", "com", "count", "lane", "thread", "warp", "part", "block", "SM", "run")


def size_of(text):
    """For sorting: "1 bit" before "1 lane of 1 SM" before "half"."""
    return not text.startswith("1 "), next((i for i, word in enumerate(SIZES) if word in text), len(SIZES))


def cell(words):
    return "; ".join(dict.fromkeys(words)) or "–"


def rows(faults):
    yield "| Planted | How many | Found | By | Smallest that is found | Not found, and why |"
    yield "|---|---|---|---|---|---|"
    for kind in dict.fromkeys(f.kind for f in faults):
        of = [f for f in faults if f.kind == kind and f.outcome != "fit"]
        if not of:
            continue
        found = [f for f in of if f.outcome == "found" and f.times_found]
        planted, seen = sum(f.times for f in of), sum(f.times_found for f in of if f.outcome == "found")
        smallest = sorted((f.smallest for f in found), key=size_of)[:1]
        misses = [f"{f.times - f.times_found} of {f.times} `{f.name}`" for f in of if f.outcome == "found" and f.times_found < f.times]
        misses += [f"`{f.name}`: {f.why}" + (" *" if f.outcome == "missed" else "") for f in of if f.outcome in ("missed", "unseen")]
        yield f"| {kind}: {of[0].about} | {planted} | {seen} | {cell('`' + f.check + '`' for f in found)} | {cell(smallest)} | {cell(misses)} |"


def page(faults):
    missed, unseen = (sum(f.outcome == word for f in faults) for word in ("missed", "unseen"))
    planted = [f for f in faults if f.outcome != "fit"]
    part = sum(f.outcome == "found" and f.times_found < f.times for f in planted)
    found = len(planted) - missed - unseen - part
    text = f"{len(planted)} faults of {len({f.kind for f in planted})} kinds: {found} are found, {unseen} cannot be seen"
    text += f", {part} are not found everywhere" if part else ""
    text += f", {missed} are missed and to be mended (\\*)." if missed else "."
    return text + " Those whose name ends in xN were planted N times, at places drawn.\n\n" + "\n".join(rows(faults))


def main():
    with open(PAGE, encoding="utf-8") as file:
        old = file.read()
    if BEGIN not in old or END not in old:
        sys.exit(f"docs/gpuprobe.md has no place for the table: {BEGIN} … {END}")
    before, after = old.split(BEGIN)[0], old.split(END)[1]
    new = f"{before}{BEGIN}\n{page(read(os.path.join(HERE, 'faults.txt')))}\n{END}{after}"
    if "--check" not in sys.argv:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(new)
    elif new != old:
        sys.exit("docs/gpuprobe.md: the table of planted faults is not what test/ptx/faults.txt says; run test/ptx/table.py")


if __name__ == "__main__":
    main()
