"""The semantic fuzzer of other trackers' files: whole and hostile ones are listed and imported like any others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chiplog.store.foreign import registry
from tests.faults.hostile_stores import fuzz, stores

FULL = os.environ.get("CHIPLOG_FAULTS") == "full"


def test_no_value_in_a_file_of_another_tracker_breaks_a_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No exception, no control character, whatever a file says; other seeds for an hour when full."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    findings = fuzz(3600, int.from_bytes(os.urandom(4), "big")) if FULL else fuzz(60, most=5)
    assert not findings, "\n".join(findings[:20])
    assert findings.commands >= 4


def test_every_format_is_among_the_files(tmp_path: Path) -> None:
    """A new format joins the fuzzer, unless its own package reads it, in another process."""
    stores(tmp_path)
    assert {run.format for run in registry.find(tmp_path)} == set(registry.names()) - {"aim"}
