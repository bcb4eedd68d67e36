"""The first events of a run."""

from __future__ import annotations

from pathlib import Path

import chiplog
from chiplog.runtime.process import start_events
from chiplog.store import manifest


def test_a_run_starts_with_its_config_and_environment(tmp_path: Path) -> None:
    """Both are events, and in the manifest."""
    with chiplog.init("p", dir=tmp_path, config={"lr": 0.1}, alerts=False) as run:
        pass
    events = {record.name: record.data for record in chiplog.read(run.dir).records("event")}  # type: ignore[union-attr]
    assert events["config"] == {"lr": 0.1} and "python" in str(events["environment"])
    about = manifest.load(run.dir)
    assert about.config == {"lr": 0.1} and about.environment == events["environment"]


def test_the_script_is_an_absolute_path() -> None:
    """Or empty, as in an interactive session."""
    assert start_events.script() == "" or Path(start_events.script()).is_absolute()
