# SPDX-License-Identifier: Apache-2.0
"""What `make sim-scale` found, as a picture and as tables: draw.py RESULT.json[,RESULT.json] PICTURE.svg [PAGE.md]. The first result is shown over the day,
all of them by replicas. The page's text between the two comments of "scale" is written anew."""
import json
import pathlib
import re
import sys
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
from picture import GAP, LEFT, PANEL, WIDTH, text  # noqa: E402  (the bench's own)

RIGHT = WIDTH - 20
BEGIN, END = "<!-- scale: written by make sim-scale WRITE=1 -->", "<!-- end -->"
DEMAND, OFFLINE, ONLINE, LEADER = "#e59866", "#48c9b0", "#1f618d", "#7fb3d5"


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else 0


def full(r):
    """The minutes in which more is asked for than there is."""
    return [minute for minute, demand in enumerate(r["demand"]) if demand > 1]


def chosen(r):
    """The run that the picture shows: three replicas, or the first."""
    return next((run for run in r["runs"] if run["replicas"] == 3), r["runs"][0])


def tens(values, of=10):
    return [values[i:i + of] for i in range(0, len(values), of)]


class Panel:
    """Axes: the day to the right, low to high upwards."""

    def __init__(self, top, low, high, title):
        self.top, self.low, self.high = top, low, high
        self.out = [text(LEFT, top - 10, title, size=13)]

    def x(self, hour):
        return LEFT + hour / 24 * (RIGHT - LEFT)

    def y(self, value):
        return self.top + PANEL - (value - self.low) / (self.high - self.low) * PANEL

    def ticks(self, values, form):
        for value in values:
            self.out.append(f'<line x1="{LEFT}" x2="{RIGHT}" y1="{self.y(value):.1f}" y2="{self.y(value):.1f}" stroke="#dddddd"/>')
            self.out.append(text(LEFT - 6, self.y(value) + 4, form(value), "end", 11))

    def hours(self):
        for hour in range(0, 25, 3):
            self.out.append(text(self.x(hour), self.top + PANEL + 16, f"{hour}:00", "middle", 11))

    def line(self, values, colour):
        points = " ".join(f"{self.x(24 * i / len(values)):.1f},{self.y(min(max(v, self.low), self.high)):.1f}" for i, v in enumerate(values))
        self.out.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{points}"/>')

    def bar(self, x, width, value, colour):
        self.out.append(f'<rect x="{x:.1f}" y="{self.y(value):.1f}" width="{width:.1f}" height="{self.y(0) - self.y(value):.1f}" fill="{colour}"/>')


def legend(top, entries):
    out, x = [], LEFT
    for label, colour in entries:
        out += [f'<rect x="{x}" y="{top}" width="12" height="12" fill="{colour}"/>', text(x + 16, top + 11, label)]
        x += 40 + 7 * len(label)
    return out


def load_panel(r, run, top):
    series = [[mean(part) for part in tens(values)] for values in (r["demand"], r["offline"], run["load"])]
    low = int(min(map(min, series)) * 20) / 20
    high = max(max(map(max, series)) + 0.01, 1.02)
    p = Panel(top, low, high, f"Load of {r['servers']:,} servers × 8 GPUs over the day, {run['replicas']} replicas")
    p.ticks([low + 0.05 * i for i in range(int((high - low) * 20) + 1)], lambda value: f"{100 * value:.0f} %")
    for values, colour in zip(series, (DEMAND, OFFLINE, ONLINE)):
        p.line(values, colour)
    p.hours()
    return p.out


def steps(most):
    """Up to six round values from 0 on."""
    unit = next(size * 10 ** power for power in range(-3, 9) for size in (1, 2, 5) if most / (size * 10 ** power) <= 6)
    return [i * unit for i in range(int(most / unit) + 1)]


def refusal_panel(r, run, top):
    online = [sum(part) for part in tens(run["refusals"])]
    offline = [sum(part) for part in tens(r["offline_refusals"])]
    most = max(max(online), max(offline), 1) * 1.05
    p = Panel(top, 0, most, "Pods refused in ten minutes")
    p.ticks(steps(most), lambda value: f"{value:,}")
    for i, value in enumerate(online):
        p.bar(p.x(i / 6), (RIGHT - LEFT) / 144 - 1, value, ONLINE)
    p.line(offline, OFFLINE)
    p.hours()
    return p.out


def rows_of(results):
    """Every run, with its pool."""
    return [(r, run) for r in sorted(results, key=lambda r: r["servers"]) for run in sorted(r["runs"], key=lambda run: run["replicas"])]


def conflict_panel(results, top):
    rows = rows_of(results)
    pairs = [(100 * run["conflicts"] / run["puts"], 100 * run["leader_conflicts"] / run["leader_puts"]) for _, run in rows]
    most = max(max(map(max, pairs)) * 1.2, 0.1)
    p = Panel(top, 0, most, "Writes that met a conflict, of 100, by the numbers of replicas and servers")
    p.ticks(steps(most), lambda value: f"{value:.2f}")
    group = (RIGHT - LEFT) / len(rows)
    for i, ((r, run), pair) in enumerate(zip(rows, pairs)):
        middle = LEFT + (i + 0.5) * group
        for value, colour, x in ((pair[0], ONLINE, middle - 32), (pair[1], LEADER, middle + 2)):
            p.bar(x, 30, value, colour)
            p.out.append(text(x + 15, p.y(value) - 4, f"{value:.2f}", "middle", 10))
        p.out.append(text(middle, top + PANEL + 16, f"{run['replicas']} at {r['servers']:,}", "middle"))
    return p.out


def picture(results):
    r = results[0]
    run, step = chosen(r), PANEL + GAP + 20
    height = 3 * step + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif">',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>']
    out += legend(10, (("asked for", DEMAND), ("all packed anew at every moment", OFFLINE), ("poolgate", ONLINE)))
    out += load_panel(r, run, 60)
    out += refusal_panel(r, run, 60 + step - 10)
    out += legend(40 + 2 * step - 5, (("claims, by reviews", ONLINE), ("ends and bindings, by the leader", LEADER)))
    out += conflict_panel(results, 80 + 2 * step - 5)
    return "\n".join([*out, "</svg>"]) + "\n"


def load_table(r, run):
    hours = full(r)
    at = {"Asked for, cut off at what there is": (None, [min(1, v) for v in r["demand"]]),
          "Everybody packed anew at every moment": (r["offline_refused"], r["offline"]),
          f"poolgate, {run['replicas']} replicas": (run["refused"], run["load"])}
    rows = ["| | Pods refused | Mean load of the day | While more is asked for than there is |", "|---|---|---|---|"]
    for name, (refused, load) in at.items():
        rows.append(f"| {name} | {'' if refused is None else f'{refused:,}'} | {100 * mean(load):.2f} % "
                    f"| {100 * mean(load[i] for i in hours):.2f} % |")
    return rows


def replica_table(results):
    rows = ["| Servers | Replicas | Reviews' writes | Conflicts | Decisions a pod | The leader's conflicts | Refused | Of these untrue | Decision, median, µs | That there is no room |",
            "|---|---|---|---|---|---|---|---|---|---|"]
    for r, run in rows_of(results):
        rows.append(f"| {r['servers']:,} | {run['replicas']} | {run['puts']:,} | {run['conflicts']:,} ({100 * run['conflicts'] / run['puts']:.2f} %) "
                    f"| {run['tries'] / run['admitted']:.4f} | {100 * run['leader_conflicts'] / run['leader_puts']:.2f} % "
                    f"| {run['refused']:,} ({100 * run['refused'] / r['pods']:.2f} %) | {run['untrue']:,} "
                    f"| {run['found_us']:.0f} | {run['none_us']:.0f} |")
    return rows


def words(r, run):
    hours = full(r)
    idle, load = mean(run["idle"][i] for i in hours), mean(run["load"][i] for i in hours)
    whole = sum(n for size, n in run["refused_by"].items() if "%" not in size)
    return (f"{r['servers']:,} servers with 8 GPUs of 32,510 MiB, {r['pods']:,} pods that come within the day and {r['standing']:,} that stand when it "
            f"begins; lives are the trace's × {r['stretch']:.3f}; seed {r['seed']}, watches lag by {r['watch_ms']} ms in the mean. More is asked for than there "
            f"is in {len(hours) / 60:.1f} hours of the day, at most {100 * max(r['demand']):.1f} %. In these {100 * (1 - load):.2f} % of the pool is "
            f"free: {100 * idle:.2f} % on GPUs that nobody uses, the rest beside pods on a part of one. "
            + (f"Of {run['refused']:,} refused pods {whole:,} asked for whole GPUs. {run['movable']:,} would have fitted if all who lived at that "
               f"moment were packed anew, which leaves {run['spare']:.1f} GPUs empty in the mean." if run["refused"] else ""))


def page(path, results):
    r = results[0]
    old = path.read_text(encoding="utf-8")
    run = chosen(r)
    new = "\n".join([BEGIN, textwrap.fill(words(r, run), 150), "", *load_table(r, run), "", *replica_table(results), END])
    written, n = re.subn(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: new, old, flags=re.S)
    if n != 1:
        sys.exit(f"{path}: found {n} places that begin with {BEGIN}, expected one")
    path.write_text(written, encoding="utf-8")


def main():
    results = []
    for path in sys.argv[1].split(","):
        with open(path, encoding="utf-8") as file:
            results.append(json.load(file))
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(picture(results))
    print(f"written: {sys.argv[2]}")
    for path in sys.argv[3:]:
        page(pathlib.Path(path), results)
        print(f"written: {path}")


if __name__ == "__main__":
    main()
