"""The search for the runs of other trackers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chiplog.core.records import Plain, Step
from chiplog.store.foreign import registry
from chiplog.store.foreign.cached_runs import refresh
from chiplog.store.foreign.formats import csv_files
from chiplog.store.foreign.protocol import About, Folder, ForeignRun, Item, Losses
from chiplog.store.reader import Stored
from tests.support.foreign_stores import lost, opened, values


def _format(run: ForeignRun | None) -> Any:
    def find(_: Folder) -> list[ForeignRun]:
        if run is None:
            raise UnicodeError("a name that nobody expected")
        return [run]

    return SimpleNamespace(NAME="odd", find=find)


def _run(path: Path, about: Callable[[Plain], About], error: Exception | None = None) -> ForeignRun:
    def read(_: Plain, __: Losses) -> Iterator[Item]:
        yield Step(0, 10**9, 1, {"loss": 0.5})
        if error is not None:
            raise error

    return ForeignRun("odd", "odd:1", path, (path,), about, read)


def _opened(tmp_path: Path, odd: Any, monkeypatch: pytest.MonkeyPatch) -> list[Stored]:
    """The runs of a folder with a CSV file, and of an odd format."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "metrics.csv").write_text("step,loss\n1,2\n")
    monkeypatch.setattr(registry, "FORMATS", (odd, csv_files))
    return opened(source, tmp_path / "cache")


def test_a_format_that_raises_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named, with the folder."""
    (run,) = _opened(tmp_path, _format(None), monkeypatch)
    assert values(run) == {"loss": [(1, 2)]}
    assert "files of odd in" in capsys.readouterr().err


def test_a_run_that_cannot_be_described_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under a name of ours, next to the others."""

    def about(_: Plain) -> About:
        raise ZeroDivisionError

    runs = _opened(tmp_path, _format(_run(tmp_path, about)), monkeypatch)
    assert {run.project for run in runs} == {"odd", tmp_path.name}
    assert "what describes the run cannot be read" in capsys.readouterr().err


def test_odd_facts_are_texts_and_times_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their types are in the source."""
    odd: Any = About(project=["p"], id=None, name=5, created="x", ended=10**400)  # type: ignore[arg-type]
    runs = _opened(tmp_path, _format(_run(tmp_path, lambda _: odd)), monkeypatch)
    assert {run.project for run in runs} == {"['p']", tmp_path.name}


@pytest.mark.parametrize("error", [RecursionError(), MemoryError(), ArithmeticError("x"), Exception("x")])
def test_an_error_in_the_middle_costs_the_rest_of_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """What was read before is there, and the loss is named."""
    run = _run(tmp_path, lambda _: About("odd", "one"), error)
    odd, plain = _opened(tmp_path, _format(run), monkeypatch)
    assert values(odd) == {"loss": [(1, 0.5)]} and values(plain) == {"loss": [(1, 2)]}
    assert any("the rest could not be read" in reason for reason in lost(odd))


def test_a_run_that_cannot_be_written_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its cached run is kept for the next time, if it has one."""
    monkeypatch.setattr("chiplog.store.foreign.conversion.place_of", _raises)
    (tmp_path / "metrics.csv").write_text("step,loss\n1,2\n")
    assert refresh(tmp_path, tmp_path / "cache") is not None
    assert "cannot be converted: OSError: no space" in capsys.readouterr().err


def _raises(*_: object) -> Path:
    raise OSError("no space")
