# SPDX-License-Identifier: Apache-2.0
"""golden.txt, computed once more from the description alone, in whole numbers and fractions: no compiler and no processor's arithmetic
between. If this breaks, probe/kernels/pattern.h or exact.h no longer say what they did, and reports of old and new programs differ."""
import os
import re
from fractions import Fraction

HERE = os.path.dirname(os.path.abspath(__file__))
MASK = (1 << 64) - 1
MASK32 = (1 << 32) - 1


def mix(value, bits):
    value = (value ^ bits) * 0x9fb21c651e98df25 & MASK
    return value ^ value >> 32


def start(lane, seed):
    return mix(mix(seed, 0x2545f4914f6cdd1d), lane)


def cell(index, seed):
    odd = MASK if index % 2 and seed >> 63 else 0
    x = index * 0x9e3779b97f4a7c15 + (seed & MASK >> 1) + 0x2545f4914f6cdd1d & MASK
    x ^= x >> 32
    x = x * 0xd6e8feb86659fd93 & MASK
    x ^= x >> 29
    high = x * 0xa0761d6478bd642f & MASK
    return x ^ odd, high ^ high >> 32 ^ odd


class Format:
    """A binary format; values are fractions that it can hold."""

    def __init__(self, digits, bias):
        self.digits, self.bias = digits, bias

    def exponent(self, value):
        power = value.numerator.bit_length() - value.denominator.bit_length()
        return power if Fraction(2) ** power <= value else power - 1

    def rounded(self, value):
        """To the nearest, ties to even. No value here is negative, zero or near the ends of the range."""
        unit = Fraction(2) ** (self.exponent(value) - self.digits)
        return round(value / unit) * unit

    def bits(self, value):
        power = self.exponent(value)
        return power + self.bias << self.digits | int(value / Fraction(2) ** (power - self.digits)) - (1 << self.digits)

    def chain(self, lane, steps, fold, seed, seeds):
        value = start(lane, seed)
        third = self.rounded(Fraction(4, 3))
        for _ in range(steps // fold):
            x, a = seeds(value)
            b = self.rounded(a * Fraction(3, 4) + Fraction(1, 64))
            kept = [0] * (self.digits // 23)
            for _ in range(fold // 2):
                x = self.keep(kept, self.rounded(x * third - a))
                x = self.keep(kept, self.rounded(x * Fraction(3, 4) + b))
            value = mix(value, self.bits(x))
            for part in kept:
                value = mix(value, 0 if fold == 512 else part)
        return value

    def keep(self, kept, x):
        """Into the sums of results, one for each 32 bits."""
        for i in range(len(kept)):
            kept[i] = kept[i] * 0x9e3779b1 + (self.bits(x) >> 32 * i & MASK32) & MASK32
        return x


SINGLE = Format(23, 127)
DOUBLE = Format(52, 1023)


def single_seeds(value):
    return 1 + Fraction(value >> 41, 1 << 23), Fraction((1 << 23) + (value >> 9 & 0x7fffff), 1 << 24)


def double_seeds(value):
    return 1 + Fraction(value >> 12, 1 << 52), Fraction((1 << 52) + (value & (1 << 52) - 1), 1 << 53)


def operands(key, right, operand, line, pair):
    w = (key & MASK32) + (((right * 4 + operand) * 16 + line) * 8 + pair) * 0x9e3779b1 & MASK32
    w = (w ^ w >> 15) * 0x85ebca77 & MASK32
    w ^= key >> 32
    w = (w ^ w >> 13) * 0xc2b2ae3d & MASK32
    w ^= w >> 16
    return [(h & 63) + (h >> 6 & 1) * 63 - 63 for h in (w, w >> 16)]


def matrix(key, right, operand, lines):
    return [[x for pair in range(8) for x in operands(key, right, operand, line, pair)] for line in range(lines)]


def tensor(warp, steps, fold, seed):
    first, total = start(warp, seed), 0
    folded = 0
    for n in range(steps // fold):
        if n % 8 == 0:
            key = mix(first, 0x632be59bd9b4e019 + n // 8)
            left = [matrix(key, 0, o, 16) for o in range(4)]
            right = [matrix(key, 1, o, 8) for o in range(4)]
            sums = [[0] * 8 for _ in range(16)]
            for step in range(16):  # the rest repeats them
                for row in range(16):
                    for column in range(8):
                        pairs = zip(left[step % 4][row], right[step // 4][column])
                        sums[row][column] += sum(a * b for a, b in pairs)
            assert max(abs(x) for row in sums for x in row) * (fold // 16) < 1 << 23
            folded = sum(fold // 16 * sums[r][c] * (mix(0x3c6ef372fe94f82b, r * 8 + c) | 1) for r in range(16) for c in range(8))
        total = total * 0xd1342543de82ef95 + folded & MASK
    return mix(first, total)


def golden():
    with open(os.path.join(HERE, "golden.txt"), encoding="ascii") as file:
        return file.read().splitlines()


def test_cells():
    found = [re.fullmatch(r"cell (\w+) of seed (\w+): (\w+) (\w+)", line) for line in golden()]
    found = [[int(x, 16) for x in m.groups()] for m in found if m]
    assert len(found) == 15
    for index, seed, low, high in found:
        assert cell(index, seed) == (low, high)


def test_chains():
    found = [re.fullmatch(r"lane (\w+) of seed (\w+): fma32 (\w+) (\w+) fma64 (\w+) mma16 (\w+)", line) for line in golden()]
    found = [[int(x, 16) for x in m.groups()] for m in found if m]
    assert len(found) == 15
    for lane, seed, single, slow, double, product in found[::3]:
        assert SINGLE.chain(lane, 4096, 64, seed, single_seeds) == single
        assert SINGLE.chain(lane, 4096, 512, seed, single_seeds) == slow
        assert DOUBLE.chain(lane, 4096, 64, seed, double_seeds) == double
        assert tensor(lane, 4096, 128, seed) == product
