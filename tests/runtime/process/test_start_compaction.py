"""Compaction in another process."""

from __future__ import annotations

from pathlib import Path

import pytest

import chiplog
from chiplog.core.background import subprocesses
from chiplog.runtime.process import start_compaction


def test_only_a_large_journal_is_compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small one is read as fast without it."""
    started: list[tuple[str, ...]] = []
    monkeypatch.setattr(subprocesses, "start", lambda *args, **_: started.append(args))
    with chiplog.init("p", dir=tmp_path, alerts=False) as run:
        run.log({"loss": 1.0})
    start_compaction.compact_beside(run.dir, {})
    assert started == []
    monkeypatch.setattr(start_compaction, "FROM", 10)
    start_compaction.compact_beside(run.dir, {})
    assert started == [("chiplog", "compact", "--quiet", str(run.dir))]
