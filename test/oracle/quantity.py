# SPDX-License-Identifier: Apache-2.0
"""Kubernetes quantities and what a container asks for, in exact fractions. Written from the contract, not from the C code."""
import math
import re
from dataclasses import dataclass
from fractions import Fraction

AMOUNT, NUM = "bitfusion.io/gpu-amount", "bitfusion.io/gpu-num"
PERCENT, MEMORY = "bitfusion.io/gpu-percent", "bitfusion.io/gpu-memory"
UNITS = "bitfusion.io/gpu"
ASKED = (AMOUNT, NUM, PERCENT, MEMORY)
AMOUNT_MAX = 10000

SUFFIX = {"": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)}
for power, letter in enumerate("kMGTPE", 1):
    SUFFIX[letter] = Fraction(1000**power)
for power, letter in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1):
    SUFFIX[letter] = Fraction(1024**power)
FORM = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)\Z")


class Refusal(Exception):
    """A refusal: the words that a good message holds."""

    def __init__(self, *words, code=None, reason=None):
        super().__init__(" ".join(words))
        self.words, self.code, self.reason = words, code, reason


def parse(text):
    if isinstance(text, Fraction):
        return text
    match = FORM.match(str(text))
    if not match:
        raise Refusal(str(text), code=422)
    sign, digits, exponent, suffix = match.groups()
    value = Fraction(digits if not digits.endswith(".") else digits[:-1])
    value *= Fraction(10) ** int(exponent[1:]) if exponent else SUFFIX[suffix or ""]
    return -value if sign == "-" else value


@dataclass
class Request:
    amount: int
    percent: int  # 0 when by memory
    memory_mb: int  # 0 when by percent
    units: int
    warned: bool = False


def asked(container):
    resources = container.get("resources") or {}
    return any(k in (resources.get(side) or {}) for side in ("limits", "requests") for k in ASKED)


def value_of(container, name):
    """The value in limits and requests alike, or None; different ones are refused."""
    resources = container.get("resources") or {}
    limit = (resources.get("limits") or {}).get(name)
    request = (resources.get("requests") or {}).get(name)
    if limit is not None and request is not None and parse(limit) != parse(request):
        raise Refusal(name, code=422)
    return limit if limit is not None else request


def whole(text, name, low, high):
    value = parse(text)
    if value.denominator != 1 or not low <= value <= high:
        raise Refusal(name, code=422)
    return int(value)


def read_request(container, total_mb):
    """None when it asks for nothing."""
    if not asked(container):
        return None
    amount_text, num_text = value_of(container, AMOUNT), value_of(container, NUM)
    if amount_text is None and num_text is None:
        raise Refusal(AMOUNT, code=422)
    amounts = {whole(t, n, 1, AMOUNT_MAX) for t, n in ((amount_text, AMOUNT), (num_text, NUM)) if t is not None}
    if len(amounts) > 1:
        raise Refusal(NUM, AMOUNT, code=422)
    amount = amounts.pop()
    percent_text, memory_text = value_of(container, PERCENT), value_of(container, MEMORY)
    percent = 100
    if percent_text is not None:
        percent = math.ceil(parse(percent_text))
        if not 1 <= percent <= 100 or parse(percent_text) <= 0:
            raise Refusal(PERCENT, code=422)
    if memory_text is None:
        return Request(amount, percent, 0, percent * amount)
    if total_mb == 0:
        raise Refusal("TOTAL_GPU_MEMORY", code=422)
    megabytes = math.ceil(parse(memory_text)) // 1_000_000
    if not 0 < megabytes <= total_mb:
        raise Refusal(MEMORY, code=422)
    units = -(-megabytes * amount * 100 // total_mb)
    return Request(amount, 0, megabytes, units, percent_text is not None)
