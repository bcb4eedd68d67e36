"""Rows as JSON Lines."""

from __future__ import annotations

import json
import math
from pathlib import Path

from chiplog.core.records import Alert, Eval, MatrixRecord, Step, TextRecord
from chiplog.frontends.ezpz.output.jsonl import RowLines

SECOND = 1_000_000_000


def written(path: Path, *records: object) -> list[dict[str, object]]:
    sink = RowLines(path, rank=2)
    sink.write(records)  # type: ignore[arg-type]
    sink.close()
    return [json.loads(line, parse_constant=lambda word: 1 / 0) for line in path.read_text().splitlines()]


def test_a_row_is_a_line(tmp_path: Path) -> None:
    """With its time in seconds, its rank and its step; records that have no values have none."""
    lines = written(tmp_path / "x.jsonl", Step(0, 3 * SECOND // 2, 7, {"loss": 0.5}), Alert(1, 0, "slow"))
    assert lines == [{"timestamp": 1.5, "rank": 2, "step": 7, "metrics": {"loss": 0.5}}]


def test_statistics_across_ranks_are_there_once_more(tmp_path: Path) -> None:
    """Those of a metric that is in the row; a name that only looks like one is a metric."""
    (line,) = written(tmp_path / "x.jsonl", Step(0, 0, 0, {"a": 1.0, "a/mean": 2.0, "b/mean": 3.0}))
    assert line["aggregated"] == {"a/mean": 2.0} and line["metrics"] == {"a": 1.0, "a/mean": 2.0, "b/mean": 3.0}


def test_every_line_is_strict_json(tmp_path: Path) -> None:
    """NaN, infinities, integers of any size, lone surrogates, a name that says null."""
    rows = ({"x": math.nan, "y": -math.inf}, {"n": 10**50}, {"\ud800": 1.0}, {"null": 1.0})
    lines = written(tmp_path / "x.jsonl", *(Step(0, 0, 0, dict(row)) for row in rows))
    assert lines[0]["metrics"] == {"x": "nan", "y": "-inf"}
    assert lines[1]["metrics"] == {"n": 10**50} and lines[3]["metrics"] == {"null": 1.0} and len(lines) == 4


def test_vectors_matrices_texts_and_evals_have_lines(tmp_path: Path) -> None:
    lines = written(
        tmp_path / "x.jsonl",
        MatrixRecord(0, 0, "v", [[1, 2]], 1),
        MatrixRecord(1, 0, "m", [[1], [2]], 1),
        TextRecord(2, 0, "t", "words", 1),
        Eval(3, 0, 1, {"loss": 2.0}),
    )
    assert [line["metrics"] for line in lines] == [{"v": [1, 2]}, {"m": [[1], [2]]}, {"t": "words"}, {"eval/loss": 2.0}]
