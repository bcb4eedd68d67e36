"""Optuna's journal, written by its client."""

from __future__ import annotations

from pathlib import Path

from tests.store.foreign.formats.optuna import cases
from tests.support import foreign_stores
from tests.support.foreign_data import copied
from tests.support.foreign_stores import opened, values

SOURCE = "optuna-5.0.0/journal.log"


def test_a_journal_that_grows_adds_what_is_new(tmp_path: Path) -> None:
    """Opened while a worker writes it; a last line without its end waits."""
    source = copied(SOURCE, tmp_path)
    lines = source.read_bytes().splitlines(keepends=True)
    for count in (5, 12, len(lines)):
        source.write_bytes(b"".join(lines[:count]) + (lines[count][:20] if count < len(lines) else b""))
        trials = cases.by_number(opened(source, tmp_path / "cache"))
    assert repr(values(trials[1])) == repr(cases.reported(1)) and len(trials[1].attempts) == 1


def test_a_damaged_line_is_left_out_and_counted(tmp_path: Path) -> None:
    """The other operations are applied."""
    source = copied(SOURCE, tmp_path)
    data = source.read_bytes()
    source.write_bytes(data.replace(b'"step":2,"intermediate', b'"step":2,#"intermediate', 1))
    trials = cases.by_number(opened(source, tmp_path / "cache"))
    assert [step for step, _ in values(trials[0])["value"]] == [0, 1, 3, 4]
    assert foreign_stores.lost(trials[0]) == {"operations that are damaged": 1}
