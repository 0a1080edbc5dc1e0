# SPDX-License-Identifier: Apache-2.0
"""Could one machine, doing one thing after the other, have answered as all replicas together did? Of each GPU: a claim takes bytes and
succeeds if they fit, its end frees them, and a refusal is right while there is no room. Each happens at some moment between its call and its
answer; checked is whether moments can be chosen so that every answer is right (Wing and Gong, 1993; just in time, as Lowe, 2017, has it).

    check(4000, [take("a", 3000, 0, 2), refused(2000, 1, 3), end("a", 5, 7)])      None, or what cannot be
"""
import bisect
import collections

NEVER = float("inf")
Op = collections.namedtuple("Op", "kind who bytes called answered")


def take(who, size, called, answered=NEVER):
    """Without an answer it may have happened at any time since, or never."""
    return Op("take", who, size, called, answered)


def end(who, called, answered=NEVER):
    return Op("end", who, 0, called, answered)


def refused(size, called, answered):
    return Op("refused", None, size, called, answered)


class _Gpu:
    """What may be the case, each a pair: who holds, and which of the open operations have happened."""

    def __init__(self, size, sizes):
        self.size, self.sizes, self.open = size, sizes, set()
        self.cases = {(frozenset(), frozenset())}

    def _settled(self, held, done):
        """A refusal changes nothing: it happens as soon as it is right."""
        free = self.size - sum(self.sizes[who] for who in held)
        return held, done | {i for i, op in self.open if op.kind == "refused" and op.bytes > free}

    def _next(self, case):
        held, done = case
        free = self.size - sum(self.sizes[who] for who in held)
        for i, op in self.open:
            if i in done:
                continue
            if op.kind == "take" and op.who not in held and op.bytes <= free:
                yield self._settled(held | {op.who}, done | {i})
            elif op.kind == "end" and op.who in held:
                yield self._settled(held - {op.who}, done | {i})

    def call(self, i, op):
        self.open.add((i, op))
        self.cases = {self._settled(*case) for case in self.cases}

    def answer(self, i, op):
        """Only cases in which it has happened go on. False: there is none."""
        found, seen, todo = set(), set(self.cases), list(self.cases)
        while todo:
            case = todo.pop()
            if i in case[1]:
                found.add((case[0], case[1] - {i}))
                continue
            for one in self._next(case):
                if one not in seen:
                    seen.add(one)
                    todo.append(one)
        self.open.discard((i, op))
        self.cases = found
        return bool(found)


def check(size, ops):
    """None if this history of a GPU of so many bytes is linearizable; else the first operation whose answer cannot be, in words."""
    gpu = _Gpu(size, {op.who: op.bytes for op in ops if op.kind == "take"})
    events = [(op.called, 0, i) for i, op in enumerate(ops)] + [(op.answered, 1, i) for i, op in enumerate(ops) if op.answered < NEVER]
    for at, answered, i in sorted(events):
        held = sorted({tuple(sorted(h)) for h, _ in gpu.cases})
        if not answered:
            gpu.call(i, ops[i])
        elif not gpu.answer(i, ops[i]):
            return f"{ops[i].kind} of {ops[i].bytes} bytes by {ops[i].who}, called at {ops[i].called} and answered at {at}, " \
                   f"could at no moment be right: the GPU has {size} bytes, and held by then may be {held[:4]}"
    return None


class History:
    """The life of a pool, from outside: creates of pods, each with when it was sent, when it was answered and how, and every version of every
    GPUServer with when it was seen."""

    def __init__(self):
        self.creates = []  # (name, sent, answered, uid, or None: full, or "": anything else)
        self.first, self.gone, self.deletes, self.memory, self.held, self.names = {}, {}, {}, {}, {}, {}

    def created(self, name, sent, answered, uid):
        self.creates.append((name, sent, answered, uid))

    def deleted(self, uid, sent):
        """A pod's end was asked for."""
        self.deletes.setdefault(uid, sent)

    def server(self, seen, server):
        """A version of a GPUServer, as the API server has it."""
        name, status = server["metadata"]["name"], server.get("status") or {}
        self.memory.update({(name, g["id"]): g["memory"] for g in status.get("gpus", [])})
        now = {c["uid"]: c for c in status.get("claims", [])}
        for uid, claim in now.items():
            self.first.setdefault((uid, name), seen)
            self.names[uid] = claim["name"]
            self.held[uid, name] = [(g["id"], g["bytes"]) for g in claim["gpus"]]
        for uid, where in self.first:
            if where == name and uid not in now:
                self.gone.setdefault((uid, name), seen)

    def _take(self, uid, seen):
        """Between what a claim was taken: while its create ran; where none was answered with its uid, since the first of its name that may
        have been it."""
        for _, sent, answered, of in self.creates:
            if of == uid:
                return sent, min(seen, answered)
        return min((c[1] for c in self.creates if c[0] == self.names[uid] and c[3] == ""), default=0), seen

    def operations(self, need):
        """{(server, GPU): operations}. need(memory): what a refused pod would have taken of such a GPU; its refusal says that of every one."""
        ops = {gpu: [] for gpu in self.memory}
        for (uid, name), seen in self.first.items():
            sent, answered = self._take(uid, seen)
            for gpu, size in self.held[uid, name]:
                ops[name, gpu].append(take(uid, size, sent, answered))
                if (uid, name) in self.gone:
                    ops[name, gpu].append(end(uid, self.deletes.get(uid, sent), self.gone[uid, name]))
        for _, sent, answered, uid in self.creates:
            if uid is None:
                for gpu, memory in self.memory.items():
                    ops[gpu].append(refused(need(memory), sent, answered))
        return ops

    def check(self, need):
        """How many operations there were; AssertionError with the first GPU whose history cannot be, or the first refusal during which the
        whole pool cannot have been full at any one moment."""
        ops = self.operations(need)
        for gpu, its in ops.items():
            wrong = check(self.memory[gpu], its)
            assert wrong is None, f"GPU {gpu[1]} of {gpu[0]}: {wrong}"
        lives = {gpu: _lives(its) for gpu, its in ops.items()}
        starts = sorted(life[0] for those in lives.values() for life in those)
        for name, sent, answered, uid in self.creates:
            if uid is None:
                moments = [sent, *starts[bisect.bisect_right(starts, sent):bisect.bisect_right(starts, answered)]]
                assert any(all(_room(self.memory[gpu], lives[gpu], at) < need(self.memory[gpu]) for gpu in lives) for at in moments), \
                    f"{name}, sent at {sent}, was refused at {answered}: the GPUs can have been full one after the other, and never all at once"
        return sum(map(len, ops.values()))


def _lives(ops):
    """(since, until, bytes) of each claim, as long as it can have been."""
    ends = {op.who: op.answered for op in ops if op.kind == "end"}
    return [(op.called, ends.get(op.who, NEVER), op.bytes) for op in ops if op.kind == "take"]


def _room(memory, lives, at):
    return memory - sum(size for since, until, size in lives if since <= at <= until)
