"""Reports on the calls to a user's backend."""

from __future__ import annotations

from pathlib import Path

import pytest

from chiplog.sinks.adapters.backend_calls import Calls
from chiplog.sinks.delivery.call_report import CallReport
from chiplog.store.journal import cursors
from chiplog.store.layout import Segment


def test_skipped_calls_are_reported_once_and_counted_for_readers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each new count is saved, over all attempts."""
    for attempt, skipped in ((1, 2), (2, 3)):
        calls = Calls()
        report = CallReport(tmp_path, "mine", Segment(0, attempt, 0))
        report.update(calls, dict)
        for calls.skipped in range(1, skipped + 1):
            calls.why = "ValueError: no"
            report.update(calls, lambda: {"state": "ok", "skipped": calls.skipped})  # noqa: B023
    (status,) = cursors.backends(tmp_path)
    assert status.name == "mine" and status.health is not None and status.health.skipped == 5
    assert capsys.readouterr().err.count("rejected a call (ValueError: no)") == 2


def test_a_call_that_was_repeated_is_reported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing is saved for it."""
    calls = Calls()
    calls.retried = "OSError: away"
    report = CallReport(tmp_path, "mine", Segment(0, 1, 0))
    for _ in range(2):
        report.update(calls, dict)
    assert capsys.readouterr().err.count("raised OSError: away; it was retried") == 1
    assert cursors.backends(tmp_path) == []
