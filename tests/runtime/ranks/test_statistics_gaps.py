"""Gaps in the statistics across ranks."""

from __future__ import annotations

import pytest

from chiplog.runtime.ranks.statistics_gaps import Gaps


class Recorded:
    """A run that keeps its events."""

    def __init__(self) -> None:
        self.events: list[dict[str, object]] = []

    def event(self, name: str, /, step: int | float | None = None, **data: object) -> None:
        self.events.append({"name": name, "step": step, **data})


def test_a_gap_has_a_start_and_an_end(capsys: pytest.CaptureFixture[str]) -> None:
    """One at a time: what else goes wrong meanwhile is part of it."""
    gaps, run = Gaps(10.0, main=True), Recorded()
    gaps.run = run
    gaps.start("a rank has gone", 5)
    gaps.start("not all ranks came in time", 6)
    gaps.end(9)
    gaps.end(10)
    first, last = run.events
    assert (first["reason"], first["step"]) == ("a rank has gone", 5)
    assert (last["step"], last["until"]) == (5, 9)
    err = capsys.readouterr().err
    assert "stop at step 5: a rank has gone" in err and "are back" in err


def test_a_quiet_gap_is_reported_only_if_it_lasts(capsys: pytest.CaptureFixture[str]) -> None:
    """Ranks may finish one after the other."""
    for deadline, lines in ((60.0, 0), (-1.0, 1)):
        gaps = Gaps(deadline, main=True)
        gaps.run = Recorded()
        gaps.start("finished: rank 2", 3, quiet=True)
        gaps.report_if_long()
        gaps.report_if_long()
        assert capsys.readouterr().err.count("stop at step 3") == lines


def test_absent_ranks_are_recorded_until_they_are_back() -> None:
    """With the step at which the first of them was missing."""
    gaps, run = Gaps(2.0, main=True), Recorded()
    gaps.run = run
    gaps.record_absent({1}, 4)
    gaps.record_absent({1}, 5)
    gaps.record_absent({1, 3}, 6)
    gaps.record_absent(set(), 8)
    assert [event.get("reason") for event in run.events] == [
        "rank 1 did not log within 2 s",
        "rank 3 did not log within 2 s",
        None,
    ]
    assert (run.events[-1]["step"], run.events[-1]["until"]) == (4, 8)


def test_only_the_main_rank_records(capsys: pytest.CaptureFixture[str]) -> None:
    """The others know of the gap, too."""
    gaps, run = Gaps(2.0, main=False), Recorded()
    gaps.run = run
    gaps.start("a rank has gone", 5)
    assert gaps.open is not None and run.events == [] and capsys.readouterr().err == ""
