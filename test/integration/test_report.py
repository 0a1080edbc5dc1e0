# SPDX-License-Identifier: Apache-2.0
"""`poolgate report`: what was used, from stored days and open periods, each counted once; against a server that shows such objects."""
import csv
import io
import json
import subprocess

import pytest

from lib import api
from lib.server import PROGRAM
from lib.waiting import SERVERS, listed, server

USAGES = "/apis/poolgate.io/v1alpha1/gpuusages"
NAMESPACES = "/api/v1/namespaces"
GB_HOUR = 10**9 * 3600
DAYS = ["--from", "2026-01-01", "--to", "2026-02-01"]


def closed(day, rows, at="00:00:00", capacity=100 * GB_HOUR, free=50 * GB_HOUR):
    lines = "".join(f" {ns} {gb * GB_HOUR} {hours * 3600} {model}\n" for ns, gb, hours, model in rows)
    return f"closed 2026-01-{day:02}T00:00:00Z 2026-01-{day + 1:02}T{at}Z {capacity} {free} {GB_HOUR} 0\n{lines}"


def usage(name, *periods):
    return {"apiVersion": "poolgate.io/v1alpha1", "kind": "GPUUsage", "metadata": {"name": name, "resourceVersion": "1"},
            "periods": [{"server": server, "uid": uid, "usage": text} for server, uid, text in periods]}


def report(tmp_path, servers, usages, *words, namespaces=(), forbidden=()):
    def answer(path):
        if any(path.startswith(f) for f in forbidden):
            return api.FORBIDDEN
        for prefix, kind, items in ((SERVERS, "GPUServerList", servers), (USAGES, "GPUUsageList", usages),
                                    (NAMESPACES, "NamespaceList", namespaces)):
            if path.startswith(prefix) and items is not None:
                return listed(kind, items)
        return None

    with api.served(answer, tmp_path) as kubeconfig:
        done = subprocess.run([PROGRAM, "report", *words, "--kubeconfig", kubeconfig], timeout=30, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def rows(tmp_path, servers, usages, *words, **more):
    status, out, err = report(tmp_path, servers, usages, "-o", "json", *words, **more)
    assert (status, err) == (0, "")
    return {r["name"]: (int(r["gpuSeconds"]) // 3600, int(r["byteSeconds"]) / GB_HOUR) for r in json.loads(out)["rows"]}


DAY5 = closed(5, [("*", 1, 1, "*"), ("art", 2, 3, "V100"), ("ml", 20, 10, "Tesla T4"), ("ml", 10, 2, "V100")])
STORED = [usage("2026-01-05-aaaa", ("gpu-01", "u1", DAY5), ("gpu-02", "u2", closed(5, [("ml", 7, 7, "V100")]))),
          # stored again by another leader, which saw another set
          usage("2026-01-05-bbbb", ("gpu-01", "u1", DAY5)),
          # before and behind what is asked for in most tests
          usage("2025-12-31-cccc", ("gpu-01", "u1", closed(5, [("old", 1, 1, "V100")]).replace("2026-01-05", "2025-12-31"))),
          usage("2026-02-01-dddd", ("gpu-01", "u1", closed(5, [("new", 1, 1, "V100")]).replace("2026-01", "2026-02").replace("02-05", "02-01")))]


def test_by_namespace(tmp_path):
    status, out, err = report(tmp_path, [], STORED, *DAYS)
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "NAMESPACE       GPU-HOURS        GB-HOURS   USED-GB-HOURS  KNOWN",
        "ml                  19.00           37.00               -      -",
        "art                  3.00            2.00               -      -",
        "*                    1.00            1.00               -      -",
        "The pool had 200.00 GB-hours; nobody held 100.00 of GPUs that took claims and 2.00 of others; 0.00 were held beyond."]


def test_what_was_used(tmp_path):
    """As far as gates have told it, beside days of which nobody knows; nothing is a number, and not unknown."""
    told = closed(6, [("art", 4, 4, "V100"), ("idle", 3, 2, "V100"), ("ml", 10, 1, "V100")])
    for ns, gb, used, known in (("art", 4, 5, 2), ("idle", 3, 0, 3), ("ml", 10, 7.5, 10)):
        told = told.replace(f" {ns} {gb * GB_HOUR} ", f" {ns} {gb * GB_HOUR}/{int(used * GB_HOUR)}/{known * GB_HOUR} ")
    objects = [usage("2026-01-06-aaaa", ("gpu-01", "u1", told)), *STORED]
    _, out, _ = report(tmp_path, [], objects, *DAYS)
    assert out.splitlines()[1:5] == [
        "ml                  20.00           47.00            7.50    21%",
        "art                  7.00            6.00            5.00    33%",
        "idle                 2.00            3.00            0.00   100%",
        "*                    1.00            1.00               -      -"]
    _, out, _ = report(tmp_path, [], objects, "-o", "csv", *DAYS)
    assert list(csv.DictReader(io.StringIO(out)))[1:] == [
        {"namespace": name, "gpuSeconds": str(3600 * hours), "byteSeconds": str(gb * GB_HOUR), "usedByteSeconds": used,
         "knownByteSeconds": str(known * GB_HOUR)}
        for name, hours, gb, used, known in (("art", 7, 6, str(5 * GB_HOUR), 2), ("idle", 2, 3, "0", 3), ("*", 1, 1, "", 0))]
    _, out, _ = report(tmp_path, [], objects, "-o", "json", *DAYS)
    assert {r["name"]: (r["usedByteSeconds"], r["knownByteSeconds"]) for r in json.loads(out)["rows"]} == {
        "ml": (str(int(7.5 * GB_HOUR)), str(10 * GB_HOUR)), "art": (str(5 * GB_HOUR), str(2 * GB_HOUR)), "idle": ("0", str(3 * GB_HOUR)), "*": (None, "0")}


def test_what_is_used_until_now(tmp_path):
    """What a gate has told last counts for as long as it says, and not until now."""
    one = server("gpu-01", 1, [("p", "gpu-0", 4000)])
    one["status"]["claims"][0].update(used=10**9, usedUntil="2026-01-06T01:00:00Z")
    one["status"]["usage"] = "open 2026-01-06T00:00:00Z 2026-01-06T00:00:00Z 0 0 0 0\n"
    _, out, _ = report(tmp_path, [one], [], "-o", "json", "--from", "2026-01-06", "--to", "2126-01-01")
    [row] = json.loads(out)["rows"]
    assert (int(row["usedByteSeconds"]) / GB_HOUR, int(row["knownByteSeconds"]) / GB_HOUR) == (1, 4) and int(row["byteSeconds"]) > 24 * 4 * GB_HOUR


@pytest.mark.parametrize("by, expected", [
    ("model", {"V100": (12, 19.0), "Tesla T4": (10, 20.0), "*": (1, 1.0)}),
    ("server", {"gpu-01": (16, 33.0), "gpu-02": (7, 7.0)})])
def test_by_others(tmp_path, by, expected):
    assert rows(tmp_path, [], STORED, "--by", by, *DAYS) == expected


def test_by_the_policy_of_today(tmp_path):
    namespaces = [{"metadata": {"name": "ml", "labels": {"poolgate.io/policy": "big"}}}, {"metadata": {"name": "other"}}]
    assert rows(tmp_path, [], STORED, "--by", "policy", *DAYS, namespaces=namespaces) == {"big": (19, 37.0), "-": (3, 2.0), "*": (1, 1.0)}


def test_what_is_not_stored_yet(tmp_path):
    """What a server still has counts with it; what is stored already counts once, though it is still there."""
    one, two = server("gpu-01", 1, []), server("gpu-02", 1, [("p", "gpu-0", 4000)])
    one["metadata"]["uid"], two["metadata"]["uid"] = "u1", "u2"
    one["status"]["usage"] = DAY5 + "open 2026-01-06T00:00:00Z 2026-01-06T00:00:00Z 0 0 0 0\n"
    two["status"]["usage"] = closed(6, [("ml", 3, 3, "V100")])
    assert rows(tmp_path, [one, two], STORED, "--to", "2026-01-06", "--from", "2026-01-05") == {"ml": (19, 37.0), "art": (3, 2.0), "*": (1, 1.0)}
    assert rows(tmp_path, [one, two], STORED, "--from", "2026-01-06", "--to", "2026-01-07") == {"ml": (3, 3.0)}


def test_what_is_open_counts_until_now(tmp_path):
    one = server("gpu-01", 1, [("p", "gpu-0", 4000)])
    one["status"]["usage"] = "open 2026-01-06T00:00:00Z 2026-01-06T00:00:00Z 0 0 0 0\n"
    [(name, (hours, gb))] = rows(tmp_path, [one], [], "--from", "2026-01-06", "--to", "2126-01-01").items()
    assert name == "ml" and hours > 24 and abs(gb - 4 * hours) < 8


def test_csv_is_exact(tmp_path):
    model = 'V"1,0\x1b'
    text = closed(5, [("ml", 1, 1, "=x"), ("ml", 2, 1, model)]).replace(str(GB_HOUR) + " 3600 =x", str(3 * 10**30 + 1) + " 3600 =x")
    _, out, _ = report(tmp_path, [], [usage("x", ("s", "u", text))], "-o", "csv", "--by", "model", *DAYS)
    assert list(csv.reader(io.StringIO(out))) == [
        ["model", "gpuSeconds", "byteSeconds", "usedByteSeconds", "knownByteSeconds"], ["'=x", "3600", str(3 * 10**30 + 1), "", "0"],
        [model, "3600", str(2 * GB_HOUR), "", "0"]]
    _, out, _ = report(tmp_path, [], [usage("x", ("s", "u", text))], "--by", "model", *DAYS)
    assert "\x1b" not in out and 'V"1,0?' in out


def test_what_cannot_be_read_is_told(tmp_path):
    one = server("gpu-01", 1, [])
    one["status"]["usage"] = "of another version"
    _, out, _ = report(tmp_path, [one], [usage("x", ("s", "u", "of another version")), STORED[0]], *DAYS)
    assert out.endswith("\n2 records could not be read and are not in this.\n") and "ml " in out


@pytest.mark.parametrize("forbidden, by, status", [(SERVERS, "server", 3), (USAGES, "server", 3), (NAMESPACES, "policy", 3),
                                                   (NAMESPACES, "namespace", 0)])
def test_rights(tmp_path, forbidden, by, status):
    assert report(tmp_path, [], [], "--by", by, forbidden=[forbidden])[0] == status


def test_objects_of_other_days_are_not_read(tmp_path):
    """A year of them is large: the name says the day."""
    broken = usage("2025-12-31-aaaa", ("s", "u", "what nobody reads"))
    assert "could not be read" not in report(tmp_path, [], [broken, STORED[0]], *DAYS)[1]
    assert "1 records" in report(tmp_path, [], [broken, STORED[0]], "--from", "2025-12-31", "--to", "2026-01-01")[1]


def test_without_the_component(tmp_path):
    status, out, err = report(tmp_path, [], None)
    assert (status, out) == (3, "") and "components/usage" in err


@pytest.mark.parametrize("words, says", [
    (["--by", "team"], "--by takes"), (["-o", "yaml"], "-o takes"), (["--from", "2026-13-01"], "expected a day"),
    (["--to", "tomorrow"], "expected a day"), (["--from", "2026-02-01", "--to", "2026-02-01"], "not before"), (["x"], "unexpected word"),
    (["--since", "x"], "unknown option"), (["--by"], "needs a value")])
def test_usage(tmp_path, words, says):
    done = subprocess.run([PROGRAM, "report", *words], timeout=30, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and says in done.stderr and "--help" in done.stderr
