# SPDX-License-Identifier: Apache-2.0
"""Rounds of bursts: what is compared is measured within seconds of each other, and again when it was disturbed (see weather.py).

A round has one burst of each server. Disturbed bursts are repeated in turn until none is left or the round's share of the time is over:
the time left by the undisturbed rounds that are lacking. A round in which one stayed disturbed is thrown away; for what has less than
three others in the end the least disturbed are taken, and it is marked. Ratios are made within a round, then their median is taken."""
import contextlib
import functools
import statistics
import time

CONNECTIONS = (1, 8, 25, 64)
SIZES = ("small", "big")
ROUNDS, LEAST_ROUNDS = 5, 3  # undisturbed ones that are wanted, and that suffice when the time is over
BURST_S, ROUND_S = 1, 30  # the latter: so far apart at most are bursts that are compared
FIGURES = ("cpu_us", "rps", "p50_us", "p99_us", "rss_mb", "used")


def spread(values):
    """A figure as it is reported. rounds: its values, in the order of the rounds, which all that is compared has in common."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "rounds": [round(v, 3) for v in values]}


class Rounds:
    """burst(): figures of one burst, and under "weather" what was seen meanwhile."""

    def __init__(self, sky, quick):
        self.sky, self.quick = sky, quick
        self.wanted, self.least = (1, 1) if quick else (ROUNDS, LEAST_ROUNDS)
        self.measured, self.undisturbed, self.thrown = 0, 0, 0

    def round(self, bursts, number, seconds):
        """name: what its burst gave, for name: burst. Rounds begin with another name each; repeats begin within so many seconds."""
        end, turn = time.monotonic() + min(seconds, ROUND_S), 0
        names = list(bursts)
        names = names[number % len(names):] + names[:number % len(names)]
        found = {name: bursts[name]() for name in names}
        while not self.quick and time.monotonic() < end:
            bad = [name for name in names if self.sky.why(found[name]["weather"])]
            if not bad:
                break
            name = bad[turn % len(bad)]
            found[name] = min(found[name], bursts[name](), key=lambda got: self.sky.excess(got["weather"]))
            turn += 1
        self.measured += 1
        return found

    def excess(self, found):
        """How disturbed the worst burst of a round is."""
        return max(self.sky.excess(got["weather"]) for got in found.values())

    def calm(self, rounds):
        return [found for found in rounds if self.excess(found) <= 1]

    def used(self, rounds):
        """(the rounds that count, are there disturbed ones among them?): if too few are undisturbed, the least disturbed."""
        good = self.calm(rounds)
        self.undisturbed += len(good)
        if len(good) < min(self.least, len(rounds)) or not good:
            good = sorted(rounds, key=self.excess)[:self.wanted]
        self.thrown += len(rounds) - len(good)
        return good, any(self.excess(found) > 1 for found in good)

    def until_calm(self, seconds, one):
        """Rounds one(number, seconds for it), until enough are undisturbed or the time is over: what used() says of them."""
        end, rounds = time.monotonic() + seconds, []
        while True:
            lacking, left = self.least - len(self.calm(rounds)), end - time.monotonic()
            if rounds and (lacking <= 0 or left <= 0 or self.quick):
                return self.used(rounds)
            rounds.append(one(len(rounds), left / lacking))

    def summary(self):
        return dict(self.sky.summary(), rounds=self.measured, undisturbed=self.undisturbed, thrown_away=self.thrown)


class Rate:
    """Requests with connections that stay open. bench knows the servers and the documents."""

    def __init__(self, bench, rounds, end):
        self.bench, self.rounds, self.end = bench, rounds, end
        self.found = {(size, c): [] for size in SIZES for c in CONNECTIONS}
        self.errors = {}

    def lacking(self):
        """(size, connections): how many undisturbed rounds it lacks. First all get the least number."""
        have = {key: len(self.rounds.calm(rounds)) for key, rounds in self.found.items()}
        goal = self.rounds.least if min(have.values()) < self.rounds.least else self.rounds.wanted
        return {key: goal - n for key, n in have.items() if n < goal}

    def left(self):
        return self.end - time.monotonic()

    def burst(self, size, name, peer, connections):
        got = self.bench.burst(name, f"{name}, {size}, {connections} connections", peer, connections=connections)
        self.errors[size, name, connections] = self.errors.get((size, name, connections), 0) + got["errors"]
        return got

    def visit(self, size, connections, number):
        """One round for each number of connections, over fresh processes that run side by side; idle ones cost nothing."""
        servers = self.bench.servers(size)
        with contextlib.ExitStack() as stack:
            up = {name: stack.enter_context(self.bench.start(size, name)) for name in servers}
            self.bench.warm_up(up)
            for c in connections:
                lacking, rounds = self.lacking(), self.found[size, c]
                if rounds and (self.left() <= 0 or (size, c) not in lacking):
                    continue
                bursts = {name: functools.partial(self.burst, size, name, peer, c) for name, peer in up.items() if c in servers[name][2]}
                rounds.append(self.rounds.round(bursts, number, self.left() / sum(lacking.values())))

    def run(self):
        number = 0
        while number == 0 or self.lacking() and self.left() > 0 and not self.rounds.quick:
            for size in SIZES if number % 2 == 0 else SIZES[::-1]:
                connections = [c for c in CONNECTIONS if (size, c) in self.lacking()]
                if connections and (number == 0 or self.left() > 0):
                    self.visit(size, connections, number)
                have = " ".join(f"{c}:{len(self.rounds.calm(self.found[size, c]))}/{len(self.found[size, c])}" for c in CONNECTIONS)
                print(f"{size}, undisturbed rounds of all, by connections: {have}; {self.left():.0f} s left", flush=True)
            number += 1
        return self.rows()

    def rows(self):
        rows = []
        for (size, c), rounds in self.found.items():
            used, disturbed = self.rounds.used(rounds)
            for name, (_, kind, connections) in self.bench.servers(size).items():
                if c in connections:
                    row = {"size": size, "server": name, "connections": c, "rounds": len(used), "discarded": len(rounds) - len(used),
                           "bytes": self.bench.documents[size, kind].bytes(), "errors": self.errors[size, name, c],
                           "disturbed": disturbed}
                    rows.append(row | {figure: spread([found[name][figure] for found in used]) for figure in FIGURES})
        order = list(self.bench.servers(SIZES[0]))
        return sorted(rows, key=lambda row: (SIZES.index(row["size"]), order.index(row["server"]), row["connections"]))
