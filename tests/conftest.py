"""What all tests share: no settings from outside, and no skipping on CI."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from chiplog.core import messages, run
from tests.support.packages import LEFT_OUT

# A background job may have been started with SIGINT ignored, and would hand that on to everything it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def own_world(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Every test begins without CHIPLOG_* variables and compaction, in a directory of its own, with nothing said yet."""
    for name in [name for name in os.environ if name.startswith("CHIPLOG_") and name != "CHIPLOG_FAULTS"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))  # not the user's own
    monkeypatch.setenv("CHIPLOG_COMPACT", "false")  # thousands of short runs would each be compacted
    monkeypatch.chdir(tmp_path)
    messages.forget()
    yield
    if run.current is not None:
        run.current.finish(timeout=5)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """On CI a skipped test is a failed one: there everything is installed that has a wheel for this Python."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    expected = hasattr(report, "wasxfail") or LEFT_OUT in str(report.longrepr)
    if report.skipped and os.environ.get("CI") == "true" and not expected:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and on CI nothing may be: {report.longrepr}"
