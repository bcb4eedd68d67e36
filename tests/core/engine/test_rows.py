"""A row on its way: stages, journal, rules."""

from __future__ import annotations

import pytest

from chiplog.core.clock import RunClock
from chiplog.core.engine.recorder import Recorder
from chiplog.core.engine.rows import RowWriter
from chiplog.core.engine.rules import Alerts, CarriedState, Rules
from chiplog.core.records import Row, Step
from chiplog.core.values.row_pieces import WIDEST
from tests.support.journals import Kept


def make(stages: list[object], rules: list[object]) -> tuple[RowWriter, Kept]:
    journal = Kept()
    recorder = Recorder("run", journal, RunClock())
    made = Rules(rules, Alerts(recorder), recorder)  # type: ignore[arg-type]
    return RowWriter(recorder, stages, made, CarriedState(())), journal  # type: ignore[arg-type]


def test_stages_see_a_row_before_it_is_written_and_rules_after() -> None:
    """Each stage gets what the one before made; the rule gets the last."""
    seen: list[Row] = []

    def double(row: Row, step: float) -> Row:
        return {**row, "twice": row["x"] * 2}  # type: ignore[operator]

    rows, journal = make([double], [lambda row, step: seen.append(row)])
    assert rows.write({"x": 2}, 7, True) == {"x": 2, "twice": 4}
    assert [(one.step, one.metrics, one.auto) for one in journal.records if isinstance(one, Step)] == [
        (7, {"x": 2, "twice": 4}, True)
    ]
    assert seen == [{"x": 2, "twice": 4}]


def test_a_stage_that_raises_costs_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    """It is reported by name."""

    def broken(row: Row, step: float) -> Row:
        raise ZeroDivisionError("none left")

    rows, journal = make([broken], [])
    assert rows.write({"x": 1}, 0) == {"x": 1} and len(journal.records) == 1
    assert "stage broken: ZeroDivisionError: none left" in capsys.readouterr().err


def test_a_wide_row_is_several_records_of_one_step() -> None:
    """All of it is there."""
    rows, journal = make([], [])
    rows.write({f"m{at}": at for at in range(WIDEST + 1)}, 3)
    assert [len(one.metrics) for one in journal.records if isinstance(one, Step)] == [WIDEST, 1]
