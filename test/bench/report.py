# SPDX-License-Identifier: Apache-2.0
"""What `make bench` says of its figures: tables, thresholds, the picture, and the marked part of docs/performance.md."""
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import time

import harness
import picture
import weather

DOCS = os.path.join(harness.ROOT, "docs")
PAGE = os.path.join(DOCS, "performance.md")
FOLDER = os.path.join(DOCS, "performance")
BEGIN, END = "<!-- make bench writes from here -->", "<!-- to here -->"
NAMES = {"nginx": "nginx, fixed reply", "nginx, short reply": "nginx, reply as short as validate's", "transport": "transport, fixed reply",
         "reader": "transport that reads the JSON, fixed reply",
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


def ratios(one, two):
    """A figure over another, round by round."""
    return [a / b for a, b in zip(one["rounds"], two["rounds"], strict=True)]


def ratio(r, size, server, connections, other, figure="cpu_us"):
    """The median of the ratios of a row's figure to another's; None when one is missing."""
    one, two = find(r, size, server, connections), find(r, size, other, connections)
    return statistics.median(ratios(one[figure], two[figure])) if one and two else None


def mark(rows):
    return " ~" if any(row.get("disturbed") for row in rows) else ""


def base_of(server):
    return "nginx, short reply" if server in ("validate", "nginx, short reply") else "nginx"


# ---- tables ----

def slow_client(row):
    """Was it wrk that could do no more?"""
    return row["connections"] > 1 and row["used"]["median"] < 0.95


def rate_table(r):
    lines = ["| review | server | c | CPU µs each (min–max) | × nginx (min–max) | 1000/s | p50 / p99 ms | RSS MB | errors |",
             "|---|---|---|---|---|---|---|---|---|"]
    for row in r["rate"]:
        cpu = row["cpu_us"]
        times = ratios(cpu, find(r, row["size"], base_of(row["server"]), row["connections"])["cpu_us"])
        lines.append(f"| {row['size']}, {row['bytes'] / 1000:.1f} KB | {NAMES[row['server']]} | {row['connections']} "
                     f"| {cpu['median']:.1f} ({cpu['min']:.1f}–{cpu['max']:.1f}){mark([row])} "
                     f"| {statistics.median(times):.2f} ({min(times):.2f}–{max(times):.2f}) "
                     f"| {row['rps']['median'] / 1000:.1f}{' >' if slow_client(row) else ''} "
                     f"| {row['p50_us']['median'] / 1000:.2f} / {row['p99_us']['median'] / 1000:.2f} "
                     f"| {row['rss_mb']['median']:.1f} | {row['errors']} |")
    return lines


def times_of(values, name, other="nginx"):
    """The same of handshakes and starts."""
    return statistics.median(ratios(values[name], values[other]))


def values_table(title, unit, values):
    lines = [f"| {title} | {unit} (min–max) | × nginx |", "|---|---|---|"]
    for name, v in values.items():
        lines.append(f"| {NAMES[name]} | {v['median']:.1f} ({v['min']:.1f}–{v['max']:.1f}){mark([v])} "
                     f"| {times_of(values, name):.2f} |")
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
    lines.append(f"{fit['at_us']:.1f} µs and {fit['us_per_kb']:.2f} µs for each KB; r² = {fit['r2']:.4f}{mark([fit])}")
    return lines


def weather_lines(r):
    """What was thrown away, and why."""
    seen = r["weather"]
    why = [f"{n} because {weather.WHY[name]}" for name, n in seen["disturbed"].items() if n]
    turns = [f"{name} {turn['disturbed']} of {turn['bursts']}" for name, turn in seen["servers"].items()]
    pieces = [f"{core['best']:.0f} µs (median {core['median']:.0f})" for core in seen["yardstick_us"].values()]
    return [f"{seen['rounds']} rounds, {seen['undisturbed']} undisturbed, {seen['thrown_away']} thrown away. {seen['bursts']} bursts, "
            f"{sum(seen['disturbed'].values())} disturbed{': ' if why else ''}{', '.join(why)}. By server: {', '.join(turns)}. "
            f"The yardstick's piece takes {' and '.join(pieces)} on the two cores."]


PARTS = {"rate": rate_table, "handshake": handshake_table, "start": start_table, "size": size_table}


# ---- thresholds ----

def over(r, size, server, other, connections, figure="cpu_us"):
    """All ratios at these numbers of connections that were measured, and the mark of disturbed ones."""
    rows = [row for row in (find(r, size, server, c) for c in connections) if row and find(r, size, other, row["connections"])]
    return [ratio(r, size, server, row["connections"], other, figure) for row in rows], mark(rows)


def at_most(what, limit, found, form="{:.2f}"):
    values, sign = found
    return (what, "≤ " + form.format(limit), values, form, bool(values) and max(values) <= limit, sign)


def at_least(what, limit, found, form="{:.1f}"):
    values, sign = found
    return (what, "≥ " + form.format(limit), values, form, bool(values) and min(values) >= limit, sign)


def judged(r):
    """(what, threshold, values, how to print them, reached, mark) for each threshold that was measured."""
    found = []
    for size, whole, floor, rate, wait in (("small", 2.0, 1.75, 8, 5), ("big", 2.0, 1.5, 13, 8)):
        for server in ("mutate", "validate"):
            found.append(at_most(f"{server}, {size}: CPU over nginx's, c = 8–64", whole, over(r, size, server, base_of(server), LOADED)))
        found.append(at_most(f"transport, {size}: CPU over nginx's, c = 8–64", 1.25, over(r, size, "transport", "nginx", LOADED)))
        found.append(at_most(f"mutate, {size}: CPU over that of a transport that reads the JSON, c = 8–64", floor,
                             over(r, size, "mutate", "reader", LOADED)))
        found.append(at_least(f"mutate, {size}: requests a second over Go's, c = 8–64", rate,
                              over(r, size, "mutate", "Go", LOADED, "rps")))
        found.append(at_least(f"mutate, {size}: Go's p99 over ours, c = 8", wait, over(r, size, "Go", "mutate", (8,), "p99_us")))
        found.append(at_most(f"mutate, {size}: resident memory over Go's, c = 64", 0.7, over(r, size, "mutate", "Go", (64,), "rss_mb")))
    found.append(at_most("mutate, small: CPU over nginx's, c = 1", 1.6, over(r, "small", "mutate", "nginx", (1,))))
    shake, start = r.get("handshake", {}), r.get("start", {})
    if shake:
        found.append(at_most("handshake: CPU over nginx's", 1.0, ([times_of(shake, "transport")], mark(shake.values()))))
    if "Go" in start:
        found.append(at_most("first reply after the start over Go's", 1.2, ([times_of(start, "mutate", "Go")], "")))
    if "size" in r:
        found.append(at_least("cost against body size is a line: r²", 0.99, ([r["size"]["r2"]], mark([r["size"]])), "{:.4f}"))
    return [row for row in found if row[2]]


def thresholds(r):
    lines = ["| Threshold | Asked | Measured | |", "|---|---|---|---|"]
    for what, limit, values, form, reached, sign in judged(r):
        low, high = form.format(min(values)), form.format(max(values))
        lines.append(f"| {what} | {limit} | {low if low == high else low + '–' + high}{sign} | {'reached' if reached else '**missed**'} |")
    return lines


# ---- files ----

def section(r):
    parts = ["Measured on " + machine_line(r) + f"; {r['seconds']} seconds.", "", *thresholds(r), "",
             "![CPU for each request](performance/bench.svg)", "", *rate_table(r), ""]
    parts += [*weather_lines(r), ""]
    if mark([*r["rate"], *r["handshake"].values(), r["size"]]):
        parts += ["~: too few rounds without a disturbed burst; shown are the least disturbed.", ""]
    if any(slow_client(row) for row in r["rate"]):
        parts += ["\\>: wrk could do no more, the server had part of its core left.", ""]
    for part in ("handshake", "start", "size"):
        parts += [*PARTS[part](r), ""]
    return "\n".join(parts)


def write(r, json_path, whole):
    """All figures as JSON; after a whole run the page and the picture, too."""
    # Lists of numbers on one line each.
    words = re.sub(r"\[([^][{}]*)\]", lambda found: f"[{' '.join(found[1].split())}]", json.dumps(r, indent=1, ensure_ascii=False))
    if json_path:
        os.makedirs(os.path.dirname(json_path) or ".", exist_ok=True)
        with open(json_path, "w", encoding="utf-8") as file:
            file.write(words)
    if not whole:
        return
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "bench.json"), "w", encoding="utf-8") as file:
        file.write(words + "\n")
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
