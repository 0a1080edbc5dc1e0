# SPDX-License-Identifier: Apache-2.0
"""The checker of linear.py sees what cannot be, and nothing else."""
import itertools
import os
import random
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from linear import NEVER, History, Op, check, end, refused, take  # noqa: E402

CAN_BE = {
    "one after the other": [take("a", 4, 0, 1), end("a", 2, 3), take("b", 4, 4, 5)],
    "both at once, and they fit": [take("a", 2, 0, 9), take("b", 2, 0, 9)],
    "a taken place is freed just in time": [take("a", 4, 0, 1), end("a", 2, 6), take("b", 4, 5, 7)],
    "refused while it is full": [take("a", 3, 0, 1), refused(2, 2, 3)],
    "refused before the place is free": [take("a", 4, 0, 1), end("a", 2, 8), refused(1, 3, 9), take("b", 4, 3, 10)],
    "refused by what was taken at the same time": [refused(2, 0, 5), take("a", 4, 1, 6), end("a", 2, 7)],
    "never answered, and it happened": [take("a", 4, 0), refused(1, 5, 6)],
    "never answered, and it did not happen": [take("a", 4, 0), take("b", 4, 5, 6)],
    "never answered, and it happened late": [take("a", 4, 0), take("b", 4, 5, 6), end("b", 7, 8), refused(1, 9, 10)],
    "full between two others": [take("a", 2, 0, 1), take("b", 2, 0, 10), end("b", 0, 10), refused(2, 4, 5)],
}
CANNOT_BE = {
    "twice the bytes": [take("a", 3, 0, 1), take("b", 3, 2, 3)],
    "twice the bytes at once": [take("a", 3, 0, 9), take("b", 3, 0, 9)],
    "more than there is": [take("a", 5, 0, 1)],
    "refused although it is empty": [refused(1, 0, 1)],
    "refused after the end": [take("a", 4, 0, 1), end("a", 2, 3), refused(1, 4, 5)],
    "refused before anything": [refused(2, 0, 1), take("a", 4, 2, 3)],
    "refused for want of what there is": [take("a", 2, 0, 1), refused(2, 2, 3)],
    "taken before the place is free": [take("a", 4, 0, 1), take("b", 4, 2, 3), end("a", 4, 5)],
    "the end of nothing": [end("a", 0, 1)],
    "full twice, by one that was not answered": [take("a", 4, 0), refused(1, 5, 6), take("b", 4, 7, 8)],
}


@pytest.mark.parametrize("name", sorted(CAN_BE))
def test_what_can_be(name):
    assert check(4, CAN_BE[name]) is None


@pytest.mark.parametrize("name", sorted(CANNOT_BE))
def test_what_cannot_be(name):
    assert "could at no moment be right" in check(4, CANNOT_BE[name])


def by_trying(size, ops):
    """Every order of every choice of what happened: is one of them right?"""
    must = [i for i, op in enumerate(ops) if op.answered < NEVER]
    may = [i for i, op in enumerate(ops) if op.answered == NEVER]
    for n in range(len(may) + 1):
        for more in itertools.combinations(may, n):
            if any(right(size, [ops[i] for i in order]) for order in itertools.permutations(must + list(more))):
                return True
    return False


def right(size, ops):
    held = {}
    for i, op in enumerate(ops):
        if any(later.answered < op.called for later in ops[i + 1:]):
            return False
        room = size - sum(held.values())
        if op.kind == "refused" and op.bytes <= room or op.kind == "take" and (op.bytes > room or op.who in held) or \
                op.kind == "end" and op.who not in held:
            return False
        if op.kind == "take":
            held[op.who] = op.bytes
        elif op.kind == "end":
            del held[op.who]
    return True


def test_the_same_as_by_trying():
    """Small histories by chance, each judged both ways; many can be, and many cannot."""
    chance, verdicts = random.Random(1), {True: 0, False: 0}
    for _ in range(1500):
        ops, who = [], iter("abcdef")
        for _ in range(chance.randint(2, 5)):
            called = chance.randint(0, 8)
            answered = called + chance.randint(1, 6) if chance.random() < 0.8 else NEVER
            taken = [op.who for op in ops if op.kind == "take" and not any(o.kind == "end" and o.who == op.who for o in ops)]
            kind = chance.choice(["take", "take", "refused", "end"])
            if kind == "end" and taken:
                ops.append(end(chance.choice(taken), called, answered))
            elif kind == "refused":
                ops.append(refused(chance.randint(1, 4), called, called + chance.randint(1, 6)))
            else:
                ops.append(take(next(who), chance.randint(1, 4), called, answered))
        want = by_trying(4, ops)
        verdicts[want] += 1
        assert (check(4, ops) is None) == want, ops
    assert min(verdicts.values()) > 300, verdicts


def server(*claims, name="gpu-a"):
    """One with one GPU of 4 bytes, and claims: (uid, name, bytes)."""
    return {"metadata": {"name": name}, "status": {"gpus": [{"id": "gpu-0", "memory": 4}], "claims": [
        {"uid": uid, "name": name, "gpus": [{"id": "gpu-0", "bytes": n}]} for uid, name, n in claims]}}


def history(second_sent):
    """Two pods that take the whole GPU, one after the other; the second is created before the first has ended, or after it."""
    h = History()
    h.created("p", 1, 2, "u1")
    h.server(0, server())
    h.server(3, server(("u1", "p", 4)))
    h.deleted("u1", 5)
    h.created("q", second_sent, second_sent + 0.5, None)
    h.server(7, server())
    h.created("q", 8, 9, "u2")
    h.server(10, server(("u2", "q", 4)))
    return h


def test_history():
    h = history(5.5)
    assert h.operations(lambda memory: memory // 2) == {("gpu-a", "gpu-0"): [
        take("u1", 4, 1, 2), end("u1", 5, 7), take("u2", 4, 8, 9), refused(2, 5.5, 6)]}
    assert h.check(lambda memory: memory // 2) == 4
    with pytest.raises(AssertionError, match="GPU gpu-0 of gpu-a: refused of 2 bytes"):
        history(7.1).check(lambda memory: memory // 2)


def test_create_without_an_answer():
    """Its claim was seen: it was taken since the first create of its name that may have done it."""
    h = History()
    h.created("p", 0, 0.5, None)
    h.created("p", 1, 2, "")
    h.created("p", 2, 2.5, "")
    h.server(3, server(("u1", "p", 4)))
    assert h.operations(lambda memory: 0)["gpu-a", "gpu-0"] == [Op("take", "u1", 4, 1, 3), refused(0, 0, 0.5)]


@pytest.mark.parametrize("since", [6, 3])
def test_refusal_while_one_gpu_is_always_free(since):
    """gpu-a is full until 5, gpu-b from 6 on, or from 3 on: a refusal from 1 to 9 is right on each of them, and once on both."""
    h = History()
    h.created("p", 0, 0.5, "u1")
    h.created("q", since, since + 1, "u2")
    h.created("r", 1, 9, None)
    h.server(0, server(name="gpu-b"))
    h.server(1, server(("u1", "p", 4)))
    h.deleted("u1", 4)
    h.server(5, server())
    h.server(8, server(("u2", "q", 4), name="gpu-b"))
    if since < 5:
        assert h.check(lambda memory: 1) == 5
        return
    with pytest.raises(AssertionError, match="r, sent at 1, was refused at 9: .* never all at once"):
        h.check(lambda memory: 1)
