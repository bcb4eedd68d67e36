"""What `chiplog report` can write: every name in the lists is written."""

from __future__ import annotations

from pathlib import Path

import pytest

import chiplog
from chiplog.core.errors import BadSetting
from chiplog.views.report.outputs import DATASETS, PICTURES, STAGES
from chiplog.views.report.write import finalize


@pytest.fixture
def stored() -> chiplog.Stored:
    with chiplog.init(project="p", sinks="none") as run:
        for step in range(5):
            run.log({"loss": 1.0 / (step + 1)}, step=step)
    return chiplog.read(run.dir)


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_writes_files(stored: chiplog.Stored, stage: str, tmp_path: Path) -> None:
    """By itself."""
    ending = finalize(stored, tmp_path / "out", stages=[stage])
    assert ending.trouble == {} and ending.made


@pytest.mark.parametrize("suffix", DATASETS)
def test_every_format_of_datasets_is_written(stored: chiplog.Stored, suffix: str, tmp_path: Path) -> None:
    """With its own suffix, and no other."""
    ending = finalize(stored, tmp_path / "out", stages=["data"], formats=[suffix])
    assert ending.trouble == {} and {path.suffix for path in ending.made} == {f".{suffix}"}


@pytest.mark.parametrize("suffix", PICTURES)
def test_every_format_of_pictures_is_written(stored: chiplog.Stored, suffix: str, tmp_path: Path) -> None:
    """With its own suffix, and no other."""
    ending = finalize(stored, tmp_path / "out", stages=["plots"], pictures=[suffix])
    assert ending.trouble == {} and {path.suffix for path in ending.made} == {f".{suffix}"}


def test_another_name_is_refused_with_the_list(stored: chiplog.Stored, tmp_path: Path) -> None:
    """Before anything is written."""
    with pytest.raises(BadSetting, match="png"):
        finalize(stored, tmp_path / "out", pictures=["jpg"])
    assert not (tmp_path / "out").exists()
