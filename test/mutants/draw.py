# SPDX-License-Identifier: Apache-2.0
"""Mutants of C sources: one small thing is changed in one line, and some test must notice."""
import os
import random
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# What is replaced by what, and what that is called. None: the next number.
OPERATORS = [(r" < ", " <= ", "bound loosened"), (r" <= ", " < ", "bound tightened"), (r" > ", " >= ", "bound loosened"),
             (r" >= ", " > ", "bound tightened"), (r" == ", " != ", "comparison turned"), (r" != ", " == ", "comparison turned"),
             (r" && ", " || ", "or for and"), (r" \|\| ", " && ", "and for or"), (r" \+ ", " - ", "minus for plus"),
             (r" - ", " + ", "plus for minus"), (r" \+= ", " -= ", "minus for plus"), (r"\breturn false;", "return true;", "result turned"),
             (r"\breturn true;", "return false;", "result turned"), (r"!(?=[\w(])", "", "not forgotten"),
             (r"(?<=^)(\t+)if \([^;{]*\)$", r"\1if (0)", "guard dropped"),
             # Success is 0, an error is negative: 1 would be neither.
             (r"\breturn 0;", "return -1;", "another number"), (r"(?<![\w.])(?!(?<=\breturn )0;)\d+(?![\w.])", None, "another number"),
             # LeakSanitizer and ThreadSanitizer look for what is not given back, or not held; a line in the log is a text; and no test can read
             # memory that was to be wiped, nor see that a mutex of zeros was not made one.
             (r"^(\t+)(?:\(void\))?(?!log_|va_end|explicit_bzero|mac_wipe|\w*mutex_(?:init|lock)\(|\w*(?:release|free|free_\w+|close|unlock|destroy)\()"
              r"[a-z]\w*\([^;{}]*\);$", r"\1;", "call dropped")]

# What changes nothing but the memory that is asked for: sizes of arrays that are declared here, of allocations, of lists that grow and of
# texts; and zeros that stand for all of a struct.
SIZES = re.compile(r"^\t+(?:static |const |unsigned |struct |enum )*\w+ [^=(]*\[[^\]]*\]|= \{\d+\}|\b(?:arena_\w+|[mc]alloc|realloc|buf_init|take|longer)\(.*"
                   r"|snprintf\([^,]*, \d+,|\b(?:cap|room)\w* = .* \? \d \* .* : \d+;")
# How much of a word a message shows is a text.
SHOWN = re.compile(r"\blen > (\d+) \? \1 : ")

# What begins a function, in front of its brace.
NAMED = re.compile(r"(?:__attribute__\(\(.*?\)\) )?[a-z](?:[\w *]|__attribute__\(\(.*?\)\))*?\b((?!__attribute__)\w+)\(")


class Mutant:
    """One changed line of a file; `number` counts from 1, `function` is empty in data of the whole file."""

    def __init__(self, file, number, function, old, new, what):
        self.file, self.number, self.function, self.old, self.new, self.what = file, number, function, old, new, what

    def __str__(self):
        return f"{self.file}:{self.number}: {self.function}: {self.what}: {self.old.strip()} -> {self.new.strip()}"

    def key(self):
        """Says which it is for as long as the line stands in its function, wherever it moves."""
        return f"{self.file}: {self.function}: {self.old.strip()} -> {self.new.strip()}"

    def apply(self, text):
        lines = text.split("\n")
        assert lines[self.number - 1] == self.old
        lines[self.number - 1] = self.new
        return "\n".join(lines)


def masked(text):
    """The text with comments, strings and characters as blanks, so that places in it stay where they are."""
    def blank(found):
        return re.sub(r"[^\n]", " ", found.group())
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.DOTALL)


def mutants_of(file, text, operators=tuple(OPERATORS)):
    """Every mutant of a source."""
    depth, named, function = 0, "", ""
    for number, (line, code) in enumerate(zip(text.split("\n"), masked(text).split("\n")), 1):
        inside, depth = depth > 0, depth + code.count("{") - code.count("}")
        if not inside and (found := NAMED.match(code)):
            named = found.group(1)
        if not inside:
            function = named if code.startswith("{") else ""
        if not inside or code.lstrip().startswith(("#", "case ", "static const ")):
            continue
        sizes, shown = ([found.span() for found in pattern.finditer(code)] for pattern in (SIZES, SHOWN))
        for pattern, to, what in operators:
            for found in re.finditer(pattern, code.rstrip()):
                unseen = shown + (sizes if what in ("another number", "minus for plus", "plus for minus") else [])
                if any(a <= found.start() < b for a, b in unseen):
                    continue
                change = str(int(found.group()) + 1) if to is None and not found.group().startswith("0x") else to
                if change is not None:
                    change = found.expand(change) if "\\" in change else change
                    yield Mutant(file, number, function, line, line[:found.start()] + change + line[found.end():], what)


def drawn(files, n, seed, operators=tuple(OPERATORS)):
    """n of all mutants of these files (all where there are fewer), in an order drawn, too: the first of them are as fair a sample."""
    every = []
    for file in files:
        with open(os.path.join(ROOT, file), encoding="utf-8") as f:
            every += mutants_of(file, f.read(), operators)
    chosen = random.Random(seed).sample(range(len(every)), min(n, len(every)))
    return [every[i] for i in chosen], len(every)


def known(path):
    """{key: why} of the lines "KEY | WHY"."""
    found = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                key, _, why = line.strip().rpartition(" | ")
                found[key] = why
    return found
