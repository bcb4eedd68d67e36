"""JSON Lines and arrays of several trainers."""

from __future__ import annotations

import json
import math
from pathlib import Path

from tests.support import foreign_stores
from tests.support.foreign_stores import lost, opened, values


def test_json_lines(tmp_path: Path) -> None:
    """Numbers by name with their steps, fractions too, and their times; nested ones by path; texts as texts."""
    rows = [
        {"step": 1, "loss": 0.5, "timestamp": 1.7e9, "eval": {"acc": 1}, "note": "hi"},
        {"step": 1.5, "loss": float("nan"), "timestamp": 1.7e9 + 1, "big": 2**60 + 1},
    ]
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (run,) = opened(path, tmp_path / "cache")
    assert run.series("loss").steps.tolist() == [1.0, 1.5] and math.isnan(run.series("loss").values[1])
    assert run.series("loss").times.astype("int64").tolist() == [int(1.7e18), int(1.7e18) + 10**9]
    assert values(run)["eval/acc"] == [(1.0, 1.0)] and run.series("big").exact == [2**60 + 1]
    assert [text.text for text in run.records("text")] == ["hi"]  # type: ignore[union-attr]


def test_verl_and_ray(tmp_path: Path) -> None:
    """verl wraps the metrics; Ray has a config beside the rows, and writes them a second time as CSV."""
    (tmp_path / "verl").mkdir()
    (tmp_path / "verl" / "run.jsonl").write_text('{"step": 3, "data": {"actor/kl@1": 0.25}}\n')
    trial = tmp_path / "ray" / "trial_0"
    trial.mkdir(parents=True)
    row = {"training_iteration": 1, "timestamp": 1700000000, "loss": 2.0, "config": {"lr": 1}, "done": False}
    (trial / "result.json").write_text(json.dumps(row) + "\n" + json.dumps({**row, "training_iteration": 2}) + "\n")
    (trial / "progress.csv").write_text("training_iteration,loss\n1,2.0\n2,2.0\n")
    (trial / "params.json").write_text('{"lr": 0.1}')
    runs = {run.name: run for run in opened(tmp_path, tmp_path.parent / f"{tmp_path.name}-cache")}
    assert set(runs) == {"run", "trial_0"}
    assert values(runs["run"]) == {"actor/kl@1": [(3, 0.25)]}
    assert values(runs["trial_0"])["loss"] == [(1, 2.0), (2, 2.0)] and runs["trial_0"].config == {"lr": 0.1}


def test_an_array_that_grows(tmp_path: Path) -> None:
    """A file that is written whole each time adds its new rows; another history is another attempt."""
    path = tmp_path / "history.json"
    for rows, attempts in (
        ([{"step": 0, "loss": 3.0}], 1),
        ([{"step": 0, "loss": 3.0}, {"step": 1, "loss": 2.0}], 1),
        ([{"step": 0, "loss": 9.0}], 2),
    ):
        path.write_text(json.dumps(rows))
        (run,) = opened(path, tmp_path / "cache")
        assert values(run)["loss"] == [(row["step"], row["loss"]) for row in rows]
        assert len(run.attempts) == attempts


def test_damaged_lines_are_named(tmp_path: Path) -> None:
    """Every other line is read."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"step": 1, "a": 1}\n{"step": 2, "a"\n[1]\n\xff\xfe\n{"step": 3, "a": 3}\n{"step": 4, "a": 4')
    (run,) = opened(path, tmp_path / "cache")
    assert values(run) == {"a": [(1, 1.0), (3, 3.0)]}
    assert lost(run) == {"lines that are not rows": 3, "bytes of an unfinished line at the end": 18}


def test_cuts_give_no_wrong_values(tmp_path: Path) -> None:
    """At every byte."""
    folder = tmp_path / "logs"
    folder.mkdir()
    text = "".join(json.dumps({"step": step, "loss": 1.25 / (step + 3)}) + "\n" for step in range(3))
    (folder / "metrics.jsonl").write_text(text)
    whole = values(opened(folder, tmp_path / "cache")[0])
    for copy in foreign_stores.cuts(folder, "metrics.jsonl", tmp_path, len(text)):
        for run in opened(copy, tmp_path / "cache"):
            foreign_stores.assert_part_of(values(run), whole)


def test_other_json_is_left_alone(tmp_path: Path) -> None:
    """Configs, deep nesting, and our own journals."""
    (tmp_path / "config.json").write_text('{"step": 1, "lr": 2}')
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "journal.jsonl").write_text('{"log":"step","seq":1,"time":2,"step":3,"metrics":{"a":1}}\n')
    assert opened(tmp_path, tmp_path.parent / f"{tmp_path.name}-cache") == []
