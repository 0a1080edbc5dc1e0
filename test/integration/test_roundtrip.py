# SPDX-License-Identifier: Apache-2.0
"""A handful of what `make inject-roundtrip` does: every manifest written by hand and a few of each generated kind."""
import roundtrip
from lib import manifests


def test_only_the_place_changes_and_uninject_brings_it_back():
    every = roundtrip.by_hand() + manifests.made(7, 40)
    assert roundtrip.run(every) == []


def test_what_goes_wrong_is_seen(monkeypatch):
    """A comment that is lost, a line outside of the place, another tree, other bytes at the end."""
    (m,) = (m for m in roundtrip.by_hand() if m.name == "comments.yaml")
    monkeypatch.setattr(m, "data", m.data.replace(b"# behind\n      # above", b"# c1c\n      # c2c"))
    read = roundtrip.read_all
    for old, new, says in ((b"# c2c", b"", "c2c"), (b"image: local/train:1 #", b"image:  local/train:1 #", "is gone"), (b"name: t", b"name: u", "the tree")):
        monkeypatch.setattr(roundtrip, "read_all", lambda *args, old=old, new=new: [data.replace(old, new) for data in read(*args)])
        wrong = roundtrip.run([m])
        assert any(says in what for _, what in wrong) and (m.name, "other bytes after uninject") in wrong, (says, wrong)
