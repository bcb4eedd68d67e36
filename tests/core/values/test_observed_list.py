"""The tags of a run: a list that reports changes."""

from __future__ import annotations

from chiplog.core.values.observed_list import ObservedList


def test_every_way_to_change_the_tags_is_reported() -> None:
    """As a list, as W&B's tuple, and as a set."""
    changes: list[list[str]] = []
    tags = ObservedList(["a"], lambda words: changes.append(list(words)))
    tags.append("b")
    tags += ("c",)
    tags.extend(["d"])
    tags.add("d")
    tags.remove("a")
    tags[0] = "e"
    assert changes == [["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"], ["b", "c", "d"], ["e", "c", "d"]]
    assert tags == ["e", "c", "d"] and tags == ("e", "c", "d")
