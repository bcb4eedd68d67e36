"""The list of stored runs, as it prints."""

from __future__ import annotations

from pathlib import Path

import chiplog
from chiplog.store.runs.run_list import SHOWN, RunList
from tests.core.run.begun import begin


def test_a_list_of_runs_prints_one_run_per_line(tmp_path: Path) -> None:
    """With the position to index it by; an empty one is short."""
    assert repr(RunList()) == "<0 runs>"
    for number in range(2):
        begin(tmp_path, id=f"run-{number}").finish()
    lines = repr(chiplog.runs(tmp_path)).splitlines()
    assert lines[0] == "<2 runs"
    assert [line.split()[0] for line in lines[1:]] == ["0", "1"]
    assert "run-1" in lines[2]


def test_the_newest_of_many_are_shown(tmp_path: Path) -> None:
    """And the number of the others."""
    begin(tmp_path, id="only").finish()
    (run,) = chiplog.runs(tmp_path)
    lines = repr(RunList([run] * (SHOWN + 3))).splitlines()
    assert lines[1].strip() == "… 3 older" and len(lines) == SHOWN + 2
    assert [line.split()[0] for line in (lines[2], lines[-1])] == ["3", str(SHOWN + 2)]
