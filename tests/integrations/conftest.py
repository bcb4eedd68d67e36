"""Integrations are tested with the frameworks' own packages, whose warnings are theirs."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is printed for every row."""
    monkeypatch.setenv("CHIPLOG_SINKS", "none")
