"""Runs that ended without compaction are compacted while the page is open."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chiplog.store import layout
from chiplog.store.runs.summary_cache import SummaryCache
from chiplog.views.web import compactor
from chiplog.views.web.compactor import Compactor
from tests.support.waiting import wait_for
from tests.views.web import stores


def test_runs_that_ended_are_compacted_in_another_process(tmp_path: Path) -> None:
    """Once: what is compacted starts nothing."""
    stores.simple(tmp_path, "one")
    summaries = SummaryCache(tmp_path)
    summaries.refresh()
    (run,) = layout.find_runs(tmp_path)
    assert not layout.has_part(run, layout.segments(run)[0])
    at_work = Compactor(summaries, os.environ)
    at_work.look()
    wait_for(lambda: layout.has_part(run, layout.segments(run)[0]), 60)
    assert at_work._process is not None and at_work._process.wait(60) == 0
    again = Compactor(summaries, os.environ)
    again.look()
    assert again._process is None


def test_runs_of_others_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that this user may not write, which root always may."""
    stores.simple(tmp_path, "one")
    summaries = SummaryCache(tmp_path)
    summaries.refresh()
    monkeypatch.setattr(compactor.os, "access", lambda path, mode: False)
    at_work = Compactor(summaries, os.environ)
    at_work.look()
    assert at_work._process is None
    at_work.stop()
