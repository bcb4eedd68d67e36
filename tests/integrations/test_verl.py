"""The backend for verl, with a copy of its class `Tracking`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.framework_runs import stored_runs
from tests.support.framework_stubs import integration, tracking


def verl(monkeypatch: pytest.MonkeyPatch, **names: Any) -> Any:
    return integration("verl", monkeypatch, verl={}, verl__utils={}, verl__utils__tracking=names)


def test_the_backend_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """`chiplog` among others; rows, the configuration and the exit code; without the name, nothing."""
    tracker = tracking()
    verl(monkeypatch, Tracking=tracker)._install()  # twice
    one = tracker("grpo", "first", ["console", "chiplog"], {"lr": 0.1})
    one.log({"val/acc@8": 0.5, "none": None}, step=3)
    one.finish(exit_code=2)
    one.finish()
    other = tracker("grpo", "second")
    other.log({"a": 1.0}, step=1)
    assert other.logger == {} and one.finished == 0
    [run] = stored_runs("grpo")
    assert (run.name, run.state, run.config["lr"]) == ("first", "failed", 0.1)
    assert run.series("val/acc@8").steps.tolist() == [3] and run.attempts[-1].finish.reason == "exit code 2"


def test_other_versions(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the list of backends, and with other arguments, a line each."""
    integration = verl(monkeypatch, Tracking=type("Tracking", (), {}))
    for _ in range(2):
        integration.ChiplogTracking("p", "e").log()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and all("chiplog works with 0.9" in line for line in lines)
