"""Writes the journal of one rank of a launch."""

from __future__ import annotations

from pathlib import Path

import pytest

import chiplog


def one_rank(folder: Path, rank: int, launch: str, steps: range, value: float, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {"RANK": str(rank), "WORLD_SIZE": "8", "SLURM_JOB_ID": launch, "CHIPLOG_NO_REDUCE": "1"}.items():
        monkeypatch.setenv(name, text)
    with chiplog.init("p", sinks="none", dir=folder, ranks="all", id="run", compact=False) as run:
        for step in steps:
            run.log({"x": value, "y": True}, step=step)
        run.event("gpu", step=steps[0], id=0, power=rank)
        run.eval({"loss": float(rank)}, step=steps[0])
    return run.dir
