"""Spans on the current run."""

from __future__ import annotations

from pathlib import Path

import chiplog


def test_spans_go_to_the_current_run(tmp_path: Path) -> None:
    """And nowhere without one."""
    with chiplog.span("before"):
        pass
    with chiplog.init("p", dir=tmp_path, alerts=False) as run, chiplog.span("inside"):
        pass
    assert [one.name for one in chiplog.read(run.dir).spans()] == ["inside"]
