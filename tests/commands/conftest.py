"""A run to look at, and the command line in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import chiplog
from chiplog.cli import main

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run `chiplog` with these words; gives the exit code, stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "100")

    def call(*words: str | Path) -> tuple[int, str, str]:
        capsysbinary.readouterr()
        code = main([str(word) for word in words])
        out, err = capsysbinary.readouterr()
        return code, out.decode(), err.decode()

    return call


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A finished run of 50 steps in `runs`."""
    with chiplog.init(
        project="tiny-lm", id="first", name="a try", config={"lr": 3e-4, "model": {"dim": 8}}, sinks="csv"
    ) as run:
        for step in range(50):
            run.log({"train/loss": 2.0 / (step + 1), "train/tokens": 16384 * step}, step=step)
        run.eval({"loss": 0.5}, step=49)
        run.alert("it is slow", level="warn", text="very")
    return tmp_path / "runs" / "tiny-lm" / "first"
