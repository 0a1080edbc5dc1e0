# SPDX-License-Identifier: Apache-2.0
"""What counts of an API server's answers when two are compared: codes, reasons, names, uids and versions as they relate to each other, and
what a write does to metadata, spec and status. Times, messages and what only one kind of server fills in do not count."""
import bisect
import json


def _object(obj):
    meta = obj.get("metadata", {})
    found = {"kind": obj["kind"], "name": meta.get("name"), "uid": meta.get("uid"), "resourceVersion": int(meta.get("resourceVersion") or 0)}
    for key in ("generation", "deletionGracePeriodSeconds", "finalizers", "labels"):
        if meta.get(key):
            found[key] = meta[key]
    if meta.get("deletionTimestamp"):
        found["deleting"] = True
    if obj["kind"] == "Pod":
        found["phase"] = obj.get("status", {}).get("phase")
    else:
        found.update({key: obj[key] for key in ("spec", "status") if key in obj})
    return found


def _answer(code, text):
    """An answer, with uids and versions as they are."""
    if text[:1] != "{":
        return {"code": code}
    lines = text.strip().splitlines()
    if len(lines) > 1 or '"object":' in lines[0][:40]:
        return {"code": code, "events": [[e["type"], _status(e["object"]) if e["type"] == "ERROR" else _object(e["object"])]
                                         for e in map(json.loads, lines) if e["type"] != "BOOKMARK"]}
    obj = json.loads(text)
    if obj.get("kind") == "Status":
        return {"code": code, **_status(obj)}
    if "items" in obj:
        kind = obj["kind"][:-len("List")]
        return {"code": code, "more": bool(obj["metadata"].get("continue")), "at": int(obj["metadata"]["resourceVersion"]),
                "items": [_object({"kind": kind, **o}) for o in obj["items"]]}
    return {"code": code, **_object(obj)}


def _status(obj):
    return {key: obj[key] for key in ("reason",) if obj.get(key)}


def _everywhere(value, change):
    if isinstance(value, dict):
        return {k: change(k, _everywhere(v, change)) for k, v in value.items()}
    return [_everywhere(v, change) for v in value] if isinstance(value, list) else value


def comparable(answers):
    """Of (what, status, text) of each request: what counts. Versions are numbered from 1 on as they rise, and uids as they appear; a list's is
    the version of the newest object that it can know."""
    found = [[what, _answer(code, text)] for what, code, text in answers]
    versions, uids = set(), {}

    def note(key, value):
        if key == "resourceVersion":
            versions.add(value)
        if key == "uid":
            uids.setdefault(value, f"u{len(uids) + 1}")
        return value

    _everywhere(found, note)
    ranks = sorted(versions)

    def name(key, value):
        if key == "uid":
            return uids[value]
        return bisect.bisect_right(ranks, value) if key in ("resourceVersion", "at") else value

    return _everywhere(found, name)


def write(path, lines):
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def read(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]
