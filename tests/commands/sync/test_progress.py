"""The progress of a delivery."""

from __future__ import annotations

import pytest

from chiplog.commands.sync.progress import SyncProgress


def test_another_process_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    """While it delivers, the count is reported only now and then."""
    progress = SyncProgress("p/run")
    for _ in range(3):
        progress({"boat": {"held_by": "process 7", "state": "waiting", "delivered": 0, "lag_bytes": 2048}})
    assert capsys.readouterr().err == "p/run  process 7 is delivering to 'boat'; waiting for it\n"


def test_without_a_terminal_there_is_nothing_to_draw(capsys: pytest.CaptureFixture[str]) -> None:
    """A delivery of our own is reported at its end."""
    SyncProgress("p/run")({"boat": {"state": "open", "delivered": 3, "lag_bytes": 0}})
    assert capsys.readouterr().err == ""
