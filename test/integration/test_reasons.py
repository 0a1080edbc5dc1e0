# SPDX-License-Identifier: Apache-2.0
"""Every word that a refusal, a condition or an Event gives as its reason has its anchor in the docs, and the docs anchor no word that
the program does not say."""
import glob
import os
import re

from lib.server import ROOT

# Of refusals without a word of their own (answer_refuse).
FALLBACK = {"Invalid", "Forbidden"}
# Handed on from the API server's own answer (kube.c): no words of ours.
FORWARDED = {"reason"}
WORD = r'"[A-Z][A-Za-z]+"'
SAID = re.compile(
    r"err_reason\(\s*[^,;]+,\s*\w+,\s*(\"\w+\"|\w+)"   # a refusal
    r"|\bfinish\(\s*&?b,\s*(\"\w+\")"                 # placement_refusal.c: a refusal put together
    r"|\bwarn_pod\(\s*c,\s*h,\s*(\"\w+\")"            # adopt.c: an Event
    r"|\btell\(\s*c,\s*h,\s*(\"\w+\")"                # claims_unstarted.c: an Event
    r"|\b(?:lost|over) [?] (\"\w+\") : (\"\w+\")"       # claims_place.c, gate_kind.c: one of two Events
    r"|[.]reason = (\"\w+\"|[A-Z][A-Z_]+)")            # a condition, an Event
DEFINED = re.compile(r"#define ([A-Z][A-Z_]+) (" + WORD + ")")


def sources():
    return sorted(glob.glob(os.path.join(ROOT, "webhook/**/*.[ch]"), recursive=True))


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def codes():
    """Every reason word that the sources say."""
    texts = [read(p) for p in sources()]
    names = {m[0]: m[1].strip('"') for t in texts for m in DEFINED.findall(t)}
    found = set()
    for text in texts:
        for groups in SAID.findall(text):
            for word in filter(None, groups):
                if word.startswith('"'):
                    found.add(word.strip('"'))
                elif word not in FORWARDED:
                    found.add(names[word])
    # Those that conditions get from a struct's initializer.
    found |= {v for k, v in names.items() if k.startswith(("FRESH_", "UNIQUE_", "LINGERING_", "UNSTARTED_", "TIES_KEEPS", "GUARDED_"))}
    return found | FALLBACK


def refusals():
    """Those that end in an answer to a review."""
    found = set(FALLBACK)
    for text in [read(p) for p in sources()]:
        found |= set(re.findall(r'err_reason\(\s*[^,;]+,\s*ERR_REFUSED,\s*"(\w+)"', text))
        found |= set(re.findall(r'\bfinish\(\s*&?b,\s*"(\w+)"', text))
    return found


def anchors():
    return {a for p in glob.glob(os.path.join(ROOT, "docs/*.md")) for a in re.findall(r'<a id="([^"]+)"></a>', read(p))}


def test_the_search_finds_words():
    assert {"NoCapacity", "NotInjected", "PlanMismatch", "ClaimAdopted", "ProbeStale", "TakesClaims", "SecretNotOurs"} <= codes()
    assert len(codes()) > 35


def test_every_code_has_an_anchor():
    assert sorted(c for c in codes() if c.lower() not in anchors()) == []


def test_every_anchor_is_of_a_code():
    """An anchor of one lower-case word is that of a reason."""
    words = {a for a in anchors() if re.fullmatch(r"[a-z]+", a)}
    assert sorted(words - {c.lower() for c in codes()}) == []


def test_metrics_count_every_refusal_by_name():
    """A reason that the table lacks would be counted as "other"."""
    text = read(os.path.join(ROOT, "webhook/edge/metrics/metrics.c"))
    table = set(re.findall(r'"(\w+)"', re.search(r"reasons\[\] = \{(.*?)\}", text, re.S)[1]))
    assert table - {"other"} == refusals()


def test_each_code_is_named_beside_its_anchor():
    texts = "\n".join(read(p) for p in glob.glob(os.path.join(ROOT, "docs/*.md")))
    for code in codes():
        line = next(x for x in texts.splitlines() if f'id="{code.lower()}"' in x)
        assert code in line, line


def test_conditions_and_events_use_words_as_kubernetes_takes_them():
    for code in codes():
        assert re.fullmatch(r"[A-Z][A-Za-z]{2,30}", code), code
