"""Missing records in words."""

from __future__ import annotations

from chiplog.commands.shared.seq_ranges import seq_ranges


def test_ranges_are_counted_and_listed() -> None:
    """A range of one record is a single number."""
    assert seq_ranges([(3, 3), (17, 20)], "are lost") == "5 records are lost: seq 3, 17-20"


def test_many_ranges_are_cut() -> None:
    """All are counted, some are listed."""
    ranges = [(at, at) for at in range(0, 30, 2)]
    assert seq_ranges(ranges, "are missing", most=2) == "15 records are missing: seq 0, 2 and 13 more ranges"
