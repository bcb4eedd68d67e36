"""The sinks of a run that a stand-in starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from chiplog.compat.shared.quiet_sinks import quiet_sinks


def test_nothing_is_printed_unless_it_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a variable or a settings file; None leaves the choice to the settings."""
    monkeypatch.chdir(tmp_path)
    assert quiet_sinks({}) == "none"
    assert quiet_sinks({"CHIPLOG_SINKS": "console"}) is None
    (tmp_path / "chiplog.toml").write_text('sinks = "csv"\n')
    assert quiet_sinks({}) is None
