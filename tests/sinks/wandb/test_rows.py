"""Records as rows of W&B's history."""

from __future__ import annotations

from pathlib import Path

import pytest
import wandb

from chiplog.core.records import HistogramRecord, MatrixRecord, Step
from chiplog.sinks.wandb.rows import BINS, histogram, row


def test_a_matrix_is_a_table(tmp_path: Path) -> None:
    """A short row is filled up; numbers that JSON lacks are texts."""
    made = row(MatrixRecord(0, 2_000_000_000, "router", [[1, 2.5], ["nan"]], step=7), tmp_path)
    assert made is not None and (made["_timestamp"], made["step"]) == (2.0, 7)
    table = made["router"]
    assert isinstance(table, wandb.Table) and table.columns == ["0", "1"]
    assert table.data[0] == [1, 2.5] and table.data[1][1] is None


def test_a_matrix_that_is_nearly_all_gaps_is_not_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One row of 10,000 numbers and 10,000 empty rows would be a table of a hundred million cells."""
    ragged = MatrixRecord(0, 1, "ragged", [list(range(10_000)), *([] for _ in range(10_000))])
    assert row(ragged, tmp_path) is None
    assert "wandb: matrix 'ragged' is not sent: too ragged" in capsys.readouterr().err


def test_neighbouring_bins_are_joined_up_to_the_most_that_it_takes() -> None:
    """The counts stay complete."""
    made = histogram(HistogramRecord(0, 1, "weights", list(range(2001)), [1] * 2000))
    assert len(made.histogram) <= BINS and sum(made.histogram) == 2000
    assert (made.bins[0], made.bins[-1]) == (0, 2000)


def test_a_row_without_values_is_none(tmp_path: Path) -> None:
    assert row(Step(0, 1, 3, {}), tmp_path) is None
