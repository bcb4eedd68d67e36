"""The wrapped monitor of DeepSpeed, with a copy of its class."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.support.framework_runs import stored_runs
from tests.support.framework_stubs import Ranks, integration, monitor_master

CONFIG = SimpleNamespace(enabled=False)


def test_the_monitor_is_on_and_its_events_are_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row per step, on the first process; the other monitors get everything."""
    ranks, master = Ranks(), monitor_master()
    modules = {"deepspeed__monitor__monitor": {"MonitorMaster": master, "dist": ranks}}
    deepspeed = integration("deepspeed", monkeypatch, deepspeed={}, deepspeed__monitor={}, **modules)
    deepspeed._install()  # twice
    monitor = master(CONFIG)
    assert monitor.enabled
    for step in (8, 16):
        monitor.write_events([("Train/Samples/lr", 0.1, step), ("Train/Samples/train_loss", float("nan"), step)])
    ranks.rank = 1
    monitor.write_events([("Train/Samples/lr", 0.2, 24)])
    [run] = stored_runs()
    assert run.series("Train/Samples/lr").steps.tolist() == [8, 16] and len(monitor.written) == 5


def test_other_versions(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Events of another shape, and no such class: a line each, and training goes on."""
    master = monitor_master()
    modules = {"deepspeed__monitor__monitor": {"MonitorMaster": master, "dist": Ranks()}}
    deepspeed = integration("deepspeed", monkeypatch, deepspeed={"__version__": "9"}, deepspeed__monitor={}, **modules)
    for _ in range(2):
        master(CONFIG).write_events([3])
    monkeypatch.delattr(deepspeed.monitor, "MonitorMaster")
    deepspeed._install()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and all("DeepSpeed 9 is installed, and chiplog works with" in line for line in lines)
