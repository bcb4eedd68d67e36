"""Changes of the config, the summary, the name and the tags of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import chiplog
from tests.core.run.begun import begin


def test_a_change_is_recorded_once_and_passed_on_as_recorded(tmp_path: Path) -> None:
    """Plain and without secrets; a change to nothing is not recorded."""
    passed: list[tuple[str, Mapping[str, object]]] = []
    with begin(tmp_path, config={"lr": 0.1}) as run:
        run.engine.changes.listeners.append(lambda name, data: passed.append((name, data)))
        run.config.update(lr=0.2, path=Path("data"), api_key="secret-value")
        run.engine.changes.write("config", {})
    assert [name for name, _ in passed] == ["config"]
    assert passed[0][1]["lr"] == 0.2 and passed[0][1]["path"] == "data"
    assert passed[0][1]["api_key"] != "secret-value"
    changes = [one.data for one in chiplog.read(run.dir).records("event") if one.name == "config"]
    assert changes[1:] == [passed[0][1]]


def test_a_value_that_cannot_be_plain_does_not_stop_training(tmp_path: Path) -> None:
    """It is reported, and the next change is recorded."""

    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    with begin(tmp_path) as run:
        run.config["odd"] = Hostile()
        run.config["lr"] = 0.5
    assert chiplog.read(run.dir).config["lr"] == 0.5
