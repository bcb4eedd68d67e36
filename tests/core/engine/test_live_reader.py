"""A run that reads its own journal."""

from __future__ import annotations

from pathlib import Path

import chiplog


def test_a_live_run_shows_its_summary_and_spans(tmp_path: Path) -> None:
    """Up to the last call; what was set by hand wins."""
    with chiplog.init("p", dir=tmp_path, alerts=False) as run:
        run.log({"loss": 1.0}, step=1)
        with run.span("load"):
            pass
        assert run.summary["loss"] == 1.0 and [one.name for one in run.spans()] == ["load"]
        run.summary["loss"] = 0.1
        run.log({"loss": 2.0}, step=2)
        assert run.summary["loss"] == 0.1
