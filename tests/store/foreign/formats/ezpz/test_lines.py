"""ezpz's history as JSON Lines, in its own form and as chiplog's front end writes it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from chiplog.frontends import ezpz
from tests.support import foreign_stores
from tests.support.foreign_stores import lost, opened, values


def line(rank: int, **metrics: object) -> str:
    return json.dumps({"timestamp": 1.7e9, "rank": rank, "metrics": metrics, "aggregated": {}}) + "\n"


def test_updates_are_steps(tmp_path: Path) -> None:
    """The original has no step: updates are counted; rows of other ranks in the same file are named."""
    path = tmp_path / "20260101-000000.jsonl"
    path.write_text("".join(line(rank, **{"train/loss": 1 / (at + 1)}) for at in range(4) for rank in (0, 1)))
    with path.open("a") as file:
        file.write(line(0, odd=math.nan, note="hi") + line(0, cut=1)[:-9])
    (run,) = opened(path, tmp_path / "cache")
    assert values(run)["train/loss"] == [(at, 1 / (at + 1)) for at in range(4)] and math.isnan(values(run)["odd"][0][1])
    assert [text.text for text in run.records("text")] == ["hi"]  # type: ignore[union-attr]
    assert lost(run) == {"rows of other ranks": 4, "bytes of an unfinished line at the end": len(line(0, cut=1)) - 9}


def test_the_history_of_the_front_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has steps, which are kept."""
    monkeypatch.chdir(tmp_path)
    history = ezpz.History(jsonl_path=tmp_path / "out" / "metrics.jsonl", report_enabled=False)
    for step in range(5, 10):
        history.update({"train/loss": 1 / step, "train/iter": step}, step=step)
    history.finalize(outdir=tmp_path / "out", plot=False, save=False)
    (file,) = (tmp_path / "out").rglob("metrics.jsonl")
    (run,) = opened(file, tmp_path / "cache")
    assert values(run)["train/loss"] == [(step, 1 / step) for step in range(5, 10)]


def test_cuts_give_no_wrong_values(tmp_path: Path) -> None:
    """At any byte."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.jsonl").write_text("".join(line(0, **{"train/loss": 1 / (at + 1)}) for at in range(9)))
    (whole,) = opened(source, tmp_path / "cache")
    for number, copy in enumerate(foreign_stores.cuts(source, "a.jsonl", tmp_path)):
        for run in opened(copy, tmp_path / f"cache{number}"):
            foreign_stores.assert_part_of(values(run), values(whole))
