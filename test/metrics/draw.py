# SPDX-License-Identifier: Apache-2.0
"""The dashboard's panels as a picture for the docs: their queries are answered by a real Prometheus, and drawn as plain SVG, since
Grafana is not among Debian's packages. Titles, units, stacking, colours, places come from the dashboard; the rest is like Grafana's, not
it."""
import html
import math
import os
import tempfile

from browser import Browser

PALETTE = ("#73bf69", "#f2cc0c", "#8ab8ff", "#ff9830", "#f2495c", "#5794f2", "#b877d9", "#705da0")
NAMED = {"green": "#4caf50", "red": "#d9534f", "orange": "#e0912f"}
STYLE = """
*{box-sizing:border-box}
body{margin:0;padding:14px;width:1400px;background:#f4f5f5;color:#24292e;font:12px/1.35 "DejaVu Sans",sans-serif}
main{display:grid;grid-template-columns:repeat(24,1fr);grid-auto-rows:27px;gap:6px}
section{background:#fff;border:1px solid #e0e3e6;border-radius:3px;padding:6px 8px;overflow:hidden}
h2{margin:0 0 2px;font-size:12px}
.row{background:none;border:0;padding:6px 2px;font-size:13px}
.stat b{display:block;text-align:center;font-size:27px;line-height:62px}
ul{display:flex;flex-wrap:wrap;gap:0 12px;margin:0;padding:0;list-style:none;font-size:11px;white-space:nowrap}
i{display:inline-block;width:12px;height:4px;margin-right:5px;vertical-align:middle}
text{font-size:10px;fill:#6a737d}
.gauge{display:grid;grid-template-columns:70px 1fr 60px;gap:8px 8px;align-items:center;margin-top:14px}
.gauge p{height:22px;margin:0;background:#eef0f2}
.gauge i{display:block;height:100%;margin:0}
"""
LEFT, HEAD, FOOT = 52, 8, 16


def words(value, unit):
    if value is None or math.isnan(value):
        return "–"
    if unit in ("decbytes", "bytes"):
        base, names = (1000, ("B", "kB", "MB", "GB", "TB")) if unit == "decbytes" else (1024, ("B", "KiB", "MiB", "GiB", "TiB"))
        for name in names:
            if abs(value) < base or name == names[-1]:
                return f"{value:.3g} {name}"
            value /= base
    if unit == "s":
        for size, name in ((86400, "days"), (3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms")):
            if abs(value) >= size:
                return f"{value / size:.3g} {name}"
        return f"{value * 1e6:.3g} µs" if value else "0"
    return {"percentunit": f"{value * 100:.3g} %", "ops": f"{value:.3g}/s", "reqps": f"{value:.3g}/s"}.get(unit, f"{value:.6g}")


def legend(template, labels):
    for name, value in labels.items():
        template = template.replace("{{" + name + "}}", value)
    return template


def colour(panel, name, i):
    for o in panel["fieldConfig"]["overrides"]:
        if o["matcher"]["options"] == name:
            return o["properties"][0]["value"]["fixedColor"]
    return PALETTE[i % len(PALETTE)]


def series(panel, prometheus, start, end):
    found = []
    for t in panel["targets"]:
        for labels, points in prometheus.range(expression(t), start, end, 1):
            found.append((legend(t["legendFormat"], labels), dict(points)))
    if panel["fieldConfig"]["overrides"]:
        order = [o["matcher"]["options"] for o in panel["fieldConfig"]["overrides"]]
        found.sort(key=lambda s: order.index(s[0]) if s[0] in order else 99)
    return found


def expression(target):
    return target["expr"].replace("$__rate_interval", "5s").replace("$job", ".*")


def nice(top):
    if top <= 0:
        return 1
    size = 10 ** math.floor(math.log10(top))
    return next(size * f for f in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if size * f >= top)


def timeseries(panel, prometheus, start, end, width, height):
    lines = series(panel, prometheus, start, end)
    stacked = panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "normal"
    unit = panel["fieldConfig"]["defaults"]["unit"]
    times = sorted({t for _, points in lines for t in points})
    floor, drawn = {t: 0.0 for t in times}, []
    for name, points in lines:
        values = {t: v for t, v in points.items() if not math.isnan(v)}
        if stacked:
            values = {t: floor[t] + values.get(t, 0) for t in times}
            drawn.append((name, values, dict(floor)))
            floor = dict(values)
        else:
            drawn.append((name, values, None))
    top = nice(max((v for _, values, _ in drawn for v in values.values()), default=1))

    def x(t):
        return LEFT + (t - start) / (end - start) * (width - LEFT - 4)

    def y(v):
        return HEAD + (1 - v / top) * (height - FOOT - HEAD)

    out = [f'<svg width="{width}" height="{height}">']
    for k in range(5):
        level = y(top * k / 4)
        out.append(f'<line x1="{LEFT}" x2="{width}" y1="{level:.1f}" y2="{level:.1f}" stroke="#e6e9ec"/>'
                   f'<text x="{LEFT - 5}" y="{level + 3:.1f}" text-anchor="end">{words(top * k / 4, unit)}</text>')
    for k in range(0, int(end - start) + 1, 10):
        out.append(f'<text x="{x(start + k):.1f}" y="{height - 3}" text-anchor="middle">{k} s</text>')
    for i, (name, values, below) in enumerate(drawn):
        if not values:
            continue
        c = colour(panel, name, i)
        path = " ".join(f"{x(t):.1f},{y(values[t]):.1f}" for t in sorted(values))
        if below is not None:
            back = " ".join(f"{x(t):.1f},{y(below[t]):.1f}" for t in sorted(values, reverse=True))
            out.append(f'<polygon points="{path} {back}" fill="{c}" fill-opacity=".7"/>')
        out.append(f'<polyline points="{path}" fill="none" stroke="{c}" stroke-width="1.3"/>')
    keys = "".join(f'<li><i style="background:{colour(panel, n, i)}"></i>{html.escape(n)}</li>' for i, (n, _, _) in enumerate(drawn))
    return "".join(out) + f"</svg><ul>{keys}</ul>"


def step(panel, value):
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    name = [s["color"] for s in steps if s["value"] is None or value >= s["value"]][-1]
    return NAMED.get(name, name)


def stat(panel, prometheus, end):
    found = prometheus.ask("query", query=expression(panel["targets"][0]), time=end)["result"]
    value = float(found[0]["value"][1]) if found else None
    c = step(panel, value) if value is not None else "#6a737d"
    return f'<b style="color:{c}">{words(value, panel["fieldConfig"]["defaults"]["unit"])}</b>'


def gauge(panel, prometheus, end):
    rows = []
    for r in prometheus.ask("query", query=expression(panel["targets"][0]), time=end)["result"]:
        value = float(r["value"][1])
        name = html.escape(legend(panel["targets"][0]["legendFormat"], r["metric"]))
        rows.append(f'<span>{name}</span><p><i style="width:{min(100, value * 100):.1f}%;background:{step(panel, value)}"></i></p>'
                    f'<span>{words(value, panel["fieldConfig"]["defaults"]["unit"])}</span>')
    return f'<div class="gauge">{"".join(rows)}</div>'


def dashboard(board, prometheus, start, end, path):
    parts = [f"<!doctype html><meta charset=utf-8><style>{STYLE}</style><main>"]
    for panel in board["panels"]:
        g = panel["gridPos"]
        place = f'grid-area:{g["y"] + 1}/{g["x"] + 1}/span {g["h"]}/span {g["w"]}'
        width, height = int(g["w"] * 57.4 - 24), int(g["h"] * 33 - 66)
        body = {"row": lambda: "", "stat": lambda p=panel: stat(p, prometheus, end), "bargauge": lambda p=panel: gauge(p, prometheus, end),
                "timeseries": lambda p=panel, w=width, h=height: timeseries(p, prometheus, start, end, w, h)}[panel["type"]]()
        parts.append(f'<section class="{panel["type"]}" style="{place}"><h2>{html.escape(panel["title"])}</h2>{body}</section>')
    with tempfile.TemporaryDirectory(prefix="poolgate-draw-") as folder:
        page = os.path.join(folder, "dashboard.html")
        with open(page, "w", encoding="utf-8") as f:
            f.write("".join(parts) + "</main>")
        with Browser() as b:
            b.size(1400, 900)
            b.open("file://" + page)
            b.screenshot(path)
