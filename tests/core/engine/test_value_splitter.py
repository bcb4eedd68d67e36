"""What becomes of a logged mapping."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import chiplog


def test_each_kind_of_value_finds_its_record(tmp_path: Path) -> None:
    """Numbers stay together; text and media are records of their own, with the same step."""
    with chiplog.init("p", dir=tmp_path, alerts=False) as run:
        run.log({"loss": 1.0, "note": "warm", "weights": chiplog.Histogram([1.0, 2.0]), "lr": 0.1}, step=3)
    stored = chiplog.read(run.dir)
    (row,), (text,), (histogram,) = (list(stored.records(kind)) for kind in ("step", "text", "histogram"))
    assert row.metrics == {"loss": 1.0, "lr": 0.1}  # type: ignore[union-attr]
    assert text.text == "warm" and histogram.name == "weights"  # type: ignore[union-attr]
    assert row.step == text.step == histogram.step == 3  # type: ignore[union-attr]


def test_a_list_of_arrays_has_a_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is stored as text, and the message says what keeps it whole."""
    with chiplog.init("p", dir=tmp_path, sinks="none") as run:
        run.log({"maps": [np.zeros((2, 2)), np.ones((2, 2))]})
    assert "or keep it whole in a Histogram, Matrix or Image" in capsys.readouterr().err


def test_a_value_without_a_class_costs_only_itself(tmp_path: Path) -> None:
    """The rest of the row is recorded, and what it raised stands for the value."""

    class Odd:
        @property
        def __class__(self) -> type:  # type: ignore[override]
            raise ValueError("no class")

    with chiplog.init("p", dir=tmp_path, sinks="none") as run:
        assert run.log({"a": 1.0, "odd": Odd(), "b": 2.0}, step=3) == {"a": 1.0, "b": 2.0}
    (record,) = chiplog.read(run.dir).records("text")
    assert record.name == "odd" and "no class" in record.text  # type: ignore[union-attr]
