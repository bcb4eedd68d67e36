"""`chiplog watch --once`, and where there is no terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.conftest import Cli


def test_once_prints_a_picture(cli: Cli, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a run, or of the list; no escape where nobody sees colours."""
    monkeypatch.setenv("LINES", "30")
    code, out, _ = cli("watch", "first", "--once")
    assert code == 0 and "train/loss  0.04" in out and "\x1b" not in out
    code, out, _ = cli("watch", "--once")
    assert code == 0 and "a try" in out and "finished" in out
    code, out, _ = cli("watch", "first", "--once", "--panel", "alerts")
    assert code == 0 and "it is slow" in out


def test_without_a_terminal_it_says_what_to_do(cli: Cli, path: Path) -> None:
    """Instead of filling a pipe with pictures."""
    code, _, err = cli("watch")
    assert code == 2 and "--once" in err
