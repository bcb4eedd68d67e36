"""`chiplog sync` beside another process that delivers: it names that one, waits, and says how it ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import chiplog
from chiplog.cli import main
from chiplog.commands.sync import progress, verb


def test_a_relay_that_still_delivers_is_named_and_waited_for(
    tmp_path: Path, boat: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """One that gets nowhere is given up with a message and an exit code; one that comes to an end completes the run."""
    boat.weather("hang")
    run = chiplog.init("test", sinks={"boat": {"path": str(boat.path)}}, dir=tmp_path / "runs", id="run")
    run.log({"loss": 1.0}, step=1)
    assert not run.finish(timeout=3)
    capfd.readouterr()
    monkeypatch.setattr(verb, "PATIENCE", 2.0)
    monkeypatch.setattr(progress, "REPORT", 0.5)
    assert main(["sync", str(run.dir)]) == 2
    out, err = capfd.readouterr()
    lines = err.splitlines()
    assert lines[0].startswith("test/run  the relay process ") and lines[0].endswith(
        " is delivering to 'boat'; waiting for it"
    )
    assert any("boat 0 records, " in line and "to go" in line for line in lines[1:])
    assert out.startswith("test/run  boat: the relay process ") and "is still delivering, with " in out
    assert "gave up after 2 s. Run `chiplog sync` again when it has ended" in out
    boat.weather(None)
    monkeypatch.setattr(verb, "PATIENCE", 60.0)
    assert main(["sync", str(run.dir)]) == 0
    assert capfd.readouterr().out == "test/run  boat: complete\n"
    assert boat.cargo == [(1, {"loss": 1.0})]
