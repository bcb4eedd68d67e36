"""`chiplog report` and `chiplog compare`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import chiplog

from .conftest import Cli


def test_a_report_is_written_with_the_run(cli: Cli, path: Path) -> None:
    """The files are named, with their size."""
    code, out, _ = cli("report", "latest", "--only", "report,data")
    assert code == 0 and "report.html" in out and "train.h5" in out
    assert (path / "files" / "report.md").read_text().startswith("# Run a try")


@pytest.mark.usefixtures("path")
def test_formats_and_places_may_be_chosen(cli: Cli, tmp_path: Path) -> None:
    code, _, _ = cli("report", "latest", "-o", tmp_path / "out", "--data", "csv,nc", "--pictures", "svg")
    made = {str(one.relative_to(tmp_path / "out")) for one in (tmp_path / "out").rglob("*") if one.is_file()}
    assert code == 0 and {"train.csv", "eval.nc", "plots/mplot/train/loss.svg", "plots/tplot/train/loss.txt"} <= made


def test_a_run_that_cannot_be_written_needs_another_directory(
    cli: Cli, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error suggests `-o`, which works."""
    monkeypatch.setattr("os.access", lambda _, mode: not mode & os.W_OK)
    code, out, err = cli("report", "latest", "--only", "text")
    assert (code, out) == (2, "") and f"{path.name}/files cannot be written; choose another directory" in err
    assert err.count("\n") == 1 and "-o DIR" in err
    code, out, _ = cli("report", "latest", "--only", "text", "-o", tmp_path / "out")
    assert code == 0 and out.endswith(" files (3 text plots)\n")


@pytest.mark.usefixtures("path")
def test_text_plots_are_shown_when_asked(cli: Cli, tmp_path: Path) -> None:
    out = cli("report", "latest", "-o", tmp_path / "out", "--only", "text", "--show")[1]
    assert "train/loss histogram" in out and "\x1b" not in out


@pytest.mark.usefixtures("path")
def test_a_stage_that_fails_is_an_error_at_the_end(cli: Cli, tmp_path: Path) -> None:
    """The rest is there."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "plots").write_text("in the way")
    code, out, err = cli("report", "latest", "-o", tmp_path / "out", "--only", "text,report")
    assert code == 1 and "could not write text plots" in err and "report.html" in out


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("words", [("--pictures", "gif"), ("--data", "xlsx"), ("--only", "plot")])
def test_a_format_that_does_not_exist_is_an_error(cli: Cli, words: tuple[str, str]) -> None:
    """The message lists the choices, and nothing is written."""
    code, _, err = cli("report", "latest", *words)
    assert code == 2 and f"{words[1]!r} is not one of: " in err


def test_runs_are_compared(cli: Cli, path: Path, tmp_path: Path) -> None:
    """On the terminal, as Markdown and as HTML."""
    with chiplog.init(project="tiny-lm", id="second", config={"lr": 1e-3}, sinks="none") as run:
        for step in range(40):
            run.log({"train/loss": 9.0 / (step + 1)}, step=step)
    out = cli("compare", "first", "second")[1]
    assert "At equal step" in out and "train/loss" in out and "0.001" in out
    for name, sign in (("c.md", "# a try vs. second"), ("c.html", "<svg")):
        assert cli("compare", "first", "second", "--metric", "train/*", "-o", tmp_path / name)[0] == 0
        assert sign in (tmp_path / name).read_text()
    assert cli("compare", "first", "second", "-o", "c.pdf")[0] == 2
    assert cli("compare", "first")[0] == 2


@pytest.mark.usefixtures("path")
def test_datasets_are_exported(cli: Cli, tmp_path: Path) -> None:
    """One file for each group."""
    code, out, _ = cli("export", "latest", "--to", "h5", "-o", tmp_path / "out")
    assert (
        code == 0
        and {one.name for one in (tmp_path / "out").iterdir()} == {"train.h5", "eval.h5"}
        and "train.h5" in out
    )
