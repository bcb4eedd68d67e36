"""The state that rules carry from one attempt to the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from chiplog.store.runs import rule_state


def test_each_rank_has_its_own_state(tmp_path: Path) -> None:
    """The next attempt starts with what was saved last."""
    rule_state.save(tmp_path, 0, {"spikes": {"mean": 1.0}})
    rule_state.save(tmp_path, 1, {"spikes": {"mean": 2.0}})
    rule_state.save(tmp_path, 0, {"spikes": {"mean": 3.0}})
    assert rule_state.load(tmp_path, 0) == {"spikes": {"mean": 3.0}}
    assert rule_state.load(tmp_path, 1) == {"spikes": {"mean": 2.0}}


@pytest.mark.parametrize("data", [b"", b"[1, 2]", b'{"a"'])
def test_a_damaged_file_is_an_empty_state(tmp_path: Path, data: bytes) -> None:
    """It only costs a warm-up."""
    rule_state.save(tmp_path, 0, {})
    (file,) = (tmp_path / "baselines").iterdir()
    file.write_bytes(data)
    assert rule_state.load(tmp_path, 0) == {}


def test_a_failed_save_is_ignored(tmp_path: Path) -> None:
    """The run may just have been deleted."""
    rule_state.save(tmp_path / "gone", 0, {"a": 1})
    assert not (tmp_path / "gone").exists()
