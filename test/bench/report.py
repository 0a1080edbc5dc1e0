# SPDX-License-Identifier: Apache-2.0
"""What `make bench` says of its figures: tables, thresholds, the picture, and the marked part of docs/performance.md."""
import json
import os
import platform
import re
import shutil
import subprocess
import time

import harness
import picture

DOCS = os.path.join(harness.ROOT, "docs")
PAGE = os.path.join(DOCS, "performance.md")
FOLDER = os.path.join(DOCS, "performance")
BEGIN, END = "<!-- make bench writes from here -->", "<!-- to here -->"
NAMES = {"nginx": "nginx, fixed reply", "nginx, short reply": "nginx, reply as short as validate's", "transport": "transport, fixed reply",
         "mutate": "poolgate mutate", "mutate, logged": "the same, a log line for each review", "validate": "poolgate validate",
         "Go": "Go webhook, mutate"}
LOADED = (8, 25, 64)


def first_line(*argv):
    if not shutil.which(argv[0]):
        return "none"
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return (done.stdout.splitlines() or ["?"])[0]


def field(path, name):
    with open(path, encoding="utf-8") as file:
        return next((line.split(":", 1)[1].strip().strip('"') for line in file if line.startswith(name)), "?")


def machine():
    with open("/etc/os-release", encoding="utf-8") as file:
        system = next((line.split("=", 1)[1].strip().strip('"') for line in file if line.startswith("PRETTY_NAME=")), "?")
    return {"date": time.strftime("%Y-%m-%d", time.gmtime()), "cpu": field("/proc/cpuinfo", "model name"),
            "cores": os.cpu_count(), "system": system, "kernel": platform.release(),
            "hypervisor": " hypervisor" in field("/proc/cpuinfo", "flags"), "load": round(os.getloadavg()[0], 2),
            "compiler": first_line("gcc", "--version"), "nginx": first_line("/usr/sbin/nginx", "-v").rsplit("/", 1)[-1],
            "go": first_line("go", "version").removeprefix("go version "), "wrk": first_line("wrk", "-v").split("[")[0].strip()}


def machine_line(r):
    return (f"{r['date']}: {r['cpu']}{', a virtual machine' if r['hypervisor'] else ''}, {r['cores']} cores; {r['system']}, "
            f"Linux {r['kernel']}; {r['compiler']}; nginx {r['nginx']}; {r['go']}; {r['wrk']}; load average at the start {r['load']}")


def find(r, size, server, connections):
    """The row, or None."""
    return next((row for row in r.get("rate", []) if (row["size"], row["server"], row["connections"]) == (size, server, connections)),
                None)


def ratio(r, size, server, connections, other, figure="cpu_us"):
    """A row's median over another's; None when one is missing."""
    one, two = find(r, size, server, connections), find(r, size, other, connections)
    return one[figure]["median"] / two[figure]["median"] if one and two else None


def base_of(server):
    return "nginx, short reply" if server in ("validate", "nginx, short reply") else "nginx"


# ---- tables ----

def slow_client(row):
    """Was it wrk that could do no more?"""
    return row["connections"] > 1 and row["used"]["median"] < 0.95


def rate_table(r):
    lines = ["| review | server | c | CPU µs each (min–max) | × nginx | 1000/s | p50 / p99 ms | RSS MB | errors |",
             "|---|---|---|---|---|---|---|---|---|"]
    for row in r["rate"]:
        cpu, times = row["cpu_us"], ratio(r, row["size"], row["server"], row["connections"], base_of(row["server"]))
        lines.append(f"| {row['size']}, {row['bytes'] / 1000:.1f} KB | {NAMES[row['server']]} | {row['connections']} "
                     f"| {cpu['median']:.1f} ({cpu['min']:.1f}–{cpu['max']:.1f}){' ~' if row['disturbed'] else ''} "
                     f"| {times:.2f} | {row['rps']['median'] / 1000:.1f}{' >' if slow_client(row) else ''} "
                     f"| {row['p50_us']['median'] / 1000:.2f} / {row['p99_us']['median'] / 1000:.2f} "
                     f"| {row['rss_mb']['median']:.1f} | {row['errors']} |")
    return lines


def values_table(title, unit, values):
    lines = [f"| {title} | {unit} (min–max) | × nginx |", "|---|---|---|"]
    for name, v in values.items():
        lines.append(f"| {NAMES[name]} | {v['median']:.1f} ({v['min']:.1f}–{v['max']:.1f}) "
                     f"| {v['median'] / values['nginx']['median']:.2f} |")
    return lines


def handshake_table(r):
    return values_table("a new connection, full handshake, one small review", "CPU µs", r["handshake"])


def start_table(r):
    return values_table("from fork to the first reply", "ms", r["start"])


def size_table(r):
    fit = r["size"]
    lines = ["| mutate, body of | CPU µs each (min–max) | the line says |", "|---|---|---|"]
    for row in fit["rows"]:
        lines.append(f"| {row['bytes'] / 1000:.1f} KB | {row['cpu_us']:.1f} ({row['min']:.1f}–{row['max']:.1f}) "
                     f"| {fit['at_us'] + fit['us_per_kb'] * row['bytes'] / 1000:.1f} |")
    lines.append("")
    lines.append(f"{fit['at_us']:.1f} µs and {fit['us_per_kb']:.2f} µs for each KB; r² = {fit['r2']:.4f}")
    return lines


PARTS = {"rate": rate_table, "handshake": handshake_table, "start": start_table, "size": size_table}


# ---- thresholds ----

def over(r, size, server, other, connections, figure="cpu_us"):
    """All ratios at these numbers of connections that were measured."""
    return [v for v in (ratio(r, size, server, c, other, figure) for c in connections) if v is not None]


def at_most(what, limit, values, form="{:.2f}"):
    return (what, "≤ " + form.format(limit), values, form, bool(values) and max(values) <= limit)


def at_least(what, limit, values, form="{:.1f}"):
    return (what, "≥ " + form.format(limit), values, form, bool(values) and min(values) >= limit)


def judged(r):
    """(what, threshold, values, how to print them, reached) for each threshold that was measured."""
    found = []
    for size, whole, rate, wait in (("small", 2.0, 8, 5), ("big", 2.4, 13, 8)):
        for server in ("mutate", "validate"):
            found.append(at_most(f"{server}, {size}: CPU over nginx's, c = 8–64", whole, over(r, size, server, base_of(server), LOADED)))
        found.append(at_most(f"transport, {size}: CPU over nginx's, c = 8–64", 1.25, over(r, size, "transport", "nginx", LOADED)))
        found.append(at_least(f"mutate, {size}: requests a second over Go's, c = 8–64", rate,
                              over(r, size, "mutate", "Go", LOADED, "rps")))
        found.append(at_least(f"mutate, {size}: Go's p99 over ours, c = 8", wait, over(r, size, "Go", "mutate", (8,), "p99_us")))
        found.append(at_most(f"mutate, {size}: resident memory over Go's, c = 64", 0.7, over(r, size, "mutate", "Go", (64,), "rss_mb")))
    found.append(at_most("mutate, small: CPU over nginx's, c = 1", 1.6, over(r, "small", "mutate", "nginx", (1,))))
    shake, start = r.get("handshake", {}), r.get("start", {})
    if shake:
        found.append(at_most("handshake: CPU over nginx's", 1.0, [shake["transport"]["median"] / shake["nginx"]["median"]]))
    if "Go" in start:
        found.append(at_most("first reply after the start over Go's", 1.2, [start["mutate"]["median"] / start["Go"]["median"]]))
    if "size" in r:
        found.append(at_least("cost against body size is a line: r²", 0.99, [r["size"]["r2"]], "{:.4f}"))
    return [row for row in found if row[2]]


def thresholds(r):
    lines = ["| Threshold | Asked | Measured | |", "|---|---|---|---|"]
    for what, limit, values, form, reached in judged(r):
        low, high = form.format(min(values)), form.format(max(values))
        lines.append(f"| {what} | {limit} | {low if low == high else low + '–' + high} | {'reached' if reached else '**missed**'} |")
    return lines


# ---- files ----

def section(r):
    parts = ["Measured on " + machine_line(r) + f"; {r['seconds']} seconds.", "", *thresholds(r), "",
             "![CPU for each request](performance/bench.svg)", "", *rate_table(r), ""]
    if any(row["disturbed"] for row in r["rate"]):
        parts += ["~: rounds differ by more than 15 %, or the server did not get its core.", ""]
    if any(slow_client(row) for row in r["rate"]):
        parts += ["\\>: wrk could do no more, the server had part of its core left.", ""]
    for part in ("handshake", "start", "size"):
        parts += [*PARTS[part](r), ""]
    return "\n".join(parts)


def write(r, json_path, whole):
    """All figures as JSON; after a whole run the page and the picture, too."""
    if json_path:
        os.makedirs(os.path.dirname(json_path) or ".", exist_ok=True)
        with open(json_path, "w", encoding="utf-8") as file:
            json.dump(r, file, indent=1, ensure_ascii=False)
    if not whole:
        return
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "bench.json"), "w", encoding="utf-8") as file:
        json.dump(r, file, indent=1, ensure_ascii=False)
        file.write("\n")
    with open(os.path.join(FOLDER, "bench.svg"), "w", encoding="utf-8") as file:
        file.write(picture.bars(r))
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    if BEGIN not in page or END not in page:
        raise SystemExit(f"docs/performance.md lost its marks: {BEGIN} and {END}")
    page = re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: f"{BEGIN}\n{section(r)}{END}", page, flags=re.S)
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(page)
    print("written: docs/performance/bench.json, docs/performance/bench.svg, docs/performance.md")
