# SPDX-License-Identifier: Apache-2.0
"""The picture of `make bench`: CPU for each request as bars, one panel per review size, and the cost against the body's size."""
import math

WIDTH, LEFT, PANEL, GAP, BAR = 900, 60, 240, 60, 11
CONNECTIONS = (1, 8, 25, 64)
SERIES = (("nginx", "nginx, fixed reply", "#8a8a8a"), ("transport", "transport, fixed reply", "#7fb3d5"),
          ("mutate", "poolgate mutate", "#1f618d"), ("validate", "poolgate validate", "#48c9b0"), ("Go", "Go webhook, mutate", "#e59866"))


def text(x, y, words, anchor="start", size=12):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-size="{size}">{words}</text>'


def ticks(most):
    """Powers of ten and their halves' neighbours, up to the highest value."""
    found, unit = [], 1
    while unit <= most * 10:
        found += [unit * n for n in (1, 2, 5)]
        unit *= 10
    return found


class Axis:
    """A logarithmic axis from low to high over so many pixels, upwards from `at`."""

    def __init__(self, low, high, at, pixels):
        self.low, self.scale, self.at = math.log(low), pixels / (math.log(high) - math.log(low)), at

    def __call__(self, value):
        return self.at - (math.log(value) - self.low) * self.scale


def panel(r, size, top):
    rows = {(row["server"], row["connections"]): row["cpu_us"] for row in r["rate"] if row["size"] == size}
    values = [v for row in rows.values() for v in (row["min"], row["max"])]
    low, high = min(values) * 0.6, max(values) * 1.3
    axis = Axis(low, high, top + PANEL, PANEL)
    out = [text(LEFT, top - 10, f"CPU µs for each request, {size} reviews (scale: logarithmic)", size=13)]
    for value in ticks(high):
        if low < value < high:
            out.append(f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{axis(value):.1f}" y2="{axis(value):.1f}" stroke="#dddddd"/>')
            out.append(text(LEFT - 6, axis(value) + 4, value, "end", 11))
    group = (WIDTH - LEFT - 20) / len(CONNECTIONS)
    for number, connections in enumerate(CONNECTIONS):
        x = LEFT + number * group + 12
        for server, _, colour in SERIES:
            cpu = rows.get((server, connections))
            if not cpu:
                continue
            y = axis(cpu["median"])
            out.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{BAR * 2}" height="{top + PANEL - y:.1f}" fill="{colour}"/>')
            out.append(f'<line x1="{x + BAR:.1f}" x2="{x + BAR:.1f}" y1="{axis(cpu["min"]):.1f}" y2="{axis(cpu["max"]):.1f}" '
                       'stroke="#222222"/>')
            out.append(text(x + BAR, y - 4, f"{cpu['median']:.0f}", "middle", 10))
            x += BAR * 2 + 12
        out.append(text(LEFT + number * group + group / 2, top + PANEL + 16, f"{connections} connections", "middle"))
    return out


def line_panel(r, top):
    rows = r["size"]["rows"]
    kb = [row["bytes"] / 1000 for row in rows]
    up = Axis(min(row["cpu_us"] for row in rows) * 0.6, max(row["cpu_us"] for row in rows) * 1.5, top + PANEL, PANEL)
    right = Axis(min(kb) * 0.8, max(kb) * 1.3, 0, WIDTH - LEFT - 20)
    out = [text(LEFT, top - 10, f"CPU µs against the body's size in KB, mutate: {r['size']['at_us']:.0f} + {r['size']['us_per_kb']:.2f} "
                f"for each KB, r² = {r['size']['r2']:.4f} (scales: logarithmic)", size=13)]
    steps = [min(kb) * (max(kb) / min(kb)) ** (n / 60) for n in range(61)]
    line = [(LEFT - right(x), up(max(r["size"]["at_us"] + r["size"]["us_per_kb"] * x, 0.1))) for x in steps]
    out.append('<polyline fill="none" stroke="#e59866" points="' + " ".join(f"{x:.1f},{y:.1f}" for x, y in line) + '"/>')
    for x, row in zip(kb, rows):
        out.append(f'<circle cx="{LEFT - right(x):.1f}" cy="{up(row["cpu_us"]):.1f}" r="4" fill="#1f618d"/>')
        out.append(text(LEFT - right(x), up(row["cpu_us"]) - 8, f"{row['cpu_us']:.0f}", "middle", 10))
        out.append(text(LEFT - right(x), top + PANEL + 16, f"{x:.0f}", "middle", 11))
    return out


def bars(r):
    """The whole picture as SVG."""
    height = 3 * (PANEL + GAP) + 70
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif">',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>']
    x = LEFT
    for _, label, colour in SERIES:
        out.append(f'<rect x="{x}" y="12" width="12" height="12" fill="{colour}"/>')
        out.append(text(x + 16, 23, label))
        x += 40 + 7 * len(label)
    for number, size in enumerate(("small", "big")):
        out += panel(r, size, 70 + number * (PANEL + GAP))
    out += line_panel(r, 70 + 2 * (PANEL + GAP))
    return "\n".join([*out, "</svg>"]) + "\n"
