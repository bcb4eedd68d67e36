"""The summaries of all runs under a directory."""

from __future__ import annotations

from pathlib import Path

import chiplog
from chiplog.store.runs.summary_cache import SummaryCache


def test_values_from_long_before_the_end_are_found(tmp_path: Path) -> None:
    """Of a live run too, once; they stay while the end of the run is read again, and in the cache."""
    root, cache = tmp_path / "runs", tmp_path / "cache"
    with chiplog.init("p", id="r", dir=root, sinks="none", alerts=False, compact=False) as run:
        run.eval({"loss": 0.25}, step=0)
        many = {f"layers/{at}/norm": 0.5 for at in range(400)}
        for step in range(200):
            run.log({"train/loss": 1.0, **many}, step=step)
        summaries = SummaryCache(root, cache)
        summaries.refresh()
        assert "eval/loss" not in summaries.entries()[0].values
        version = summaries.version
        assert summaries.complete(60) and summaries.version > version
        assert summaries.entries()[0].values["eval/loss"] == 0.25
        assert not summaries.complete(60)
        run.log({"train/loss": 2.0}, step=200)
        assert summaries.refresh()
        assert {"eval/loss": 0.25, "train/loss": 2.0}.items() <= summaries.entries()[0].values.items()
    summaries.refresh()
    summaries.save()
    again = SummaryCache(root, cache)
    again.refresh()
    assert again.entries()[0].values["eval/loss"] == 0.25


def test_looking_for_old_values_ends_in_time(tmp_path: Path) -> None:
    """With no time, nothing is read; a run that cannot be read is left alone."""
    for name in ("a", "b"):
        chiplog.init("p", id=name, dir=tmp_path, sinks="none").finish()
    (tmp_path / "p" / "a" / "run.json").write_text("{")
    summaries = SummaryCache(tmp_path)
    summaries.refresh()
    assert not summaries.complete(0)
    assert not any(entry.whole for entry in summaries.entries())
    summaries.complete(60)
    assert next(entry for entry in summaries.entries() if entry.id == "b").whole
