"""Readers in another process."""

from __future__ import annotations

from pathlib import Path

import pytest

from chiplog.store.foreign import child_reader


@pytest.mark.parametrize(
    ("end", "words"),
    [("raise ValueError('too odd')", "ValueError: too odd"), ("import os; os.abort()", "ended with code -6")],
)
def test_a_child_that_fails_is_named_after_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, words: str
) -> None:
    """What it printed before is kept, even if it crashes; other output is ignored."""
    (tmp_path / "broken_reader.py").write_text(
        f"print('{{\"a\": 1}}', flush=True)\nprint('noise', flush=True)\n{end}\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    lines = child_reader.lines("broken_reader", ())
    assert next(lines) == {"a": 1}
    with pytest.raises(child_reader.ChildFailed, match=words):
        next(lines)


def test_a_child_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a time it is killed, and that is reported."""
    monkeypatch.setattr(child_reader, "PATIENCE", 0.3)
    (tmp_path / "slow_reader.py").write_text("import signal; signal.pause()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(child_reader.ChildFailed, match="ended with code -9"):
        list(child_reader.lines("slow_reader", ()))
