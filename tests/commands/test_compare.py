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
    for name, start in {"c.md": "# ", "c.html": "<!doctype html>"}.items():
        assert cli("compare", path, path, "-o", tmp_path / name)[0] == 0
        assert (tmp_path / name).read_text().startswith(start)
    code, _, err = cli("compare", path, path, "-o", tmp_path / "c.pdf")
    assert code == 2 and ".md or .html" in err
