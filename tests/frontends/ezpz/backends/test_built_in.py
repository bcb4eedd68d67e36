"""The built-in backends of a tracker."""

from __future__ import annotations

from pathlib import Path

import pytest

from chiplog.frontends.ezpz.backends.built_in import CSVBackend


def test_a_csv_backend_has_a_run_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts with the first row."""
    monkeypatch.chdir(tmp_path)
    backend = CSVBackend(outdir=tmp_path / "out", rank=0)
    assert not (tmp_path / "out").exists()
    backend.log({"loss": 1.0}, step=3)
    backend.finish()
    header, row = (tmp_path / "out" / "metrics.csv").read_text().splitlines()
    values = dict(zip(header.split(","), row.split(","), strict=True))
    assert values["loss"] == "1.0" and values["step"] == "3"


def test_another_rank_accepts_everything_and_writes_nothing(tmp_path: Path) -> None:
    """No run is started."""
    backend = CSVBackend(outdir=tmp_path / "out", rank=1)
    backend.log({"loss": 1.0})
    backend.log_config({"lr": 0.1})
    backend.finish()
    assert list(tmp_path.iterdir()) == []
