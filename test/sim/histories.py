# SPDX-License-Identifier: Apache-2.0
"""What counts of an API server's answers when two are compared: codes, reasons, names, uids and versions as they relate to each other, and
what a write does to metadata, spec and status. Times, messages and what only one kind of server fills in do not count."""
import bisect
import json

import linear


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
    return _numbered([[what, _answer(code, text)] for what, code, text in answers])


def _numbered(found):
    versions, uids = set(), {}

    def note(key, value):
        if key == "resourceVersion":
            versions.add(int(value))
        if key == "uid":
            uids.setdefault(value, f"u{len(uids) + 1}")
        return value

    _everywhere(found, note)
    ranks = sorted(versions)

    def name(key, value):
        if key == "uid":
            return uids[value]
        return bisect.bisect_right(ranks, int(value)) if key in ("resourceVersion", "at") else value

    return _everywhere(found, name)


# ---- a history: requests and what was answered, recorded, and played to somebody else ----


def recorded(sent, answers, lives, statuses):
    """The lines of a file: [[method, path, body], answer] of each request, with uids and versions numbered; before them what
    linear.History is told: creates, deletes and versions with their times, and what each status holds."""
    uids = {u: {"uid": u} for u in [*(c[3] for c in lives["creates"]), *lives["deletes"]] if u}
    found = _numbered([[s, _answer(code, text)] for s, (_, code, text) in zip(sent, answers)] + [[statuses, uids]])
    statuses, uids = found.pop()
    head = {"creates": [[name, a, b, uids[u]["uid"] if u else u] for name, a, b, u in lives["creates"]],
            "deletes": {uids[u]["uid"]: at for u, at in lives["deletes"].items()}, "versions": lives["versions"], "statuses": statuses}
    return [head, *_without_repeats(found)]


def _without_repeats(found):
    """Of reads that show what the one before of the same path showed, the first."""
    last, kept = {}, []
    for request, answer in found:
        if request[0] != "GET" or last.get(request[1]) != answer:
            kept.append([request, answer])
        last[request[1]] = answer
    return kept


def lives(lines):
    """What linear.History is told by a recorded history."""
    head, told = lines[0], linear.History()
    for one in head["creates"]:
        told.created(*one)
    for uid, at in head["deletes"].items():
        told.deleted(uid, at)
    for at, name, status in head["versions"]:
        told.server(at, {"metadata": {"name": name}, "status": head["statuses"].get(status, {})})
    return told


class _Names:
    """What the one who answers now calls the uids and versions of the history: learnt where both speak of the same."""

    def __init__(self):
        self.uids, self.versions, self.was_uid, self.was_version = {}, {}, {}, {}

    def learn(self, was, now):
        if "uid" in was and "uid" in now and was["uid"] not in self.uids and now["uid"] not in self.was_uid:
            self.uids[was["uid"]], self.was_uid[now["uid"]] = now["uid"], was["uid"]
        if "uid" in was and "uid" in now and was["resourceVersion"] not in self.versions and now["resourceVersion"] not in self.was_version:
            self.versions[was["resourceVersion"]], self.was_version[now["resourceVersion"]] = now["resourceVersion"], was["resourceVersion"]

    def theirs(self, key, value):
        return self.uids.get(value, value) if key == "uid" else str(self.versions.get(value, 0)) if key == "resourceVersion" else value

    def ours(self, key, value):
        if key == "at":
            return max((was for now, was in self.was_version.items() if now <= value), default=0)
        return self.was_uid.get(value, value) if key == "uid" else self.was_version.get(value, -value) if key == "resourceVersion" else value


def play(lines, api):
    """Ask api what was asked then, with the uids and versions that it gives itself: [what, was, now] of each request."""
    names, found = _Names(), []
    for (method, path, body), was in lines[1:]:
        now = _answer(*api(method, path, _everywhere(body, names.theirs)))
        names.learn(was, now)
        for one, other in zip(was.get("items", []), now.get("items", [])):
            names.learn(one, other)
        for (_, one), (_, other) in zip(was.get("events", []), now.get("events", [])):
            names.learn(one, other)
        found.append([f"{method} {path}", was, _everywhere(now, names.ours)])
    return found


def write(path, lines):
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def read(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]
