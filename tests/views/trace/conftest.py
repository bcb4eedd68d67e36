"""A run with spans on a device, counters and an alert."""

from __future__ import annotations

from pathlib import Path

import pytest

import chiplog


@pytest.fixture
def stored(tmp_path: Path) -> chiplog.Stored:
    with chiplog.init("p", id="run", sinks="none", dir=tmp_path / "runs", strict=True) as run:
        for step in range(3):
            run.log({"train/loss": 1.0, "train/other": 2.0}, step=step)
            with run.span("outer", tags={"k": step}), run.span("inner", devices="tpu0") as span:
                span.async_end(1)
        run.alert("spike")
    return chiplog.read(run.dir)
