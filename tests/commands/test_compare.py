"""`chiplog compare`."""

from __future__ import annotations

from pathlib import Path

import chiplog

from .conftest import Cli


def test_two_runs_are_compared(cli: Cli, path: Path) -> None:
    """The table is about the named metric, with both runs in it."""
    with chiplog.init(project="tiny-lm", id="second", config={"lr": 1e-3}, sinks="none") as run:
        for step in range(50):
            run.log({"train/loss": 3.0 / (step + 1)}, step=step)
    code, out, _ = cli("compare", path, "second", "--metric", "train/loss")
    assert code == 0
    assert "train/loss" in out and "second" in out and "lr" in out


def test_the_ending_of_the_file_chooses_the_format(cli: Cli, path: Path, tmp_path: Path) -> None:
    """Markdown and HTML; anything else is a mistake that says so."""
    with chiplog.init(project="tiny-lm", id="second", sinks="none") as run:
        run.log({"train/loss": 3.0}, step=0)
    for name, start in {"c.md": "# ", "c.html": "<!doctype html>"}.items():
        assert cli("compare", path, run.dir, "-o", tmp_path / name)[0] == 0
        assert (tmp_path / name).read_text().startswith(start)
    code, _, err = cli("compare", path, run.dir, "-o", tmp_path / "c.pdf")
    assert code == 2 and ".md or .html" in err


def test_a_run_is_not_compared_with_itself(cli: Cli, path: Path) -> None:
    """Two words that mean the same run are a mistake."""
    code, out, err = cli("compare", "latest", "tiny-lm")
    assert (code, out) == (2, "") and "latest and tiny-lm name the run tiny-lm/first twice" in err, path
