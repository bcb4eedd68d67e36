"""Messages on stderr: one line each, and never an exception."""

from __future__ import annotations

import sys

import pytest

from chiplog.core import messages


def test_a_message_is_printed_once_per_key(capsys: pytest.CaptureFixture[str]) -> None:
    """Until the keys are forgotten."""
    messages.once("key", "first")
    messages.once("key", "second")
    messages.forget()
    messages.once("key", "third")
    assert capsys.readouterr().err == "chiplog: first\nchiplog: third\n"


def test_control_characters_are_visible(capsys: pytest.CaptureFixture[str]) -> None:
    """A name from a run cannot move the cursor."""
    messages.say("a\x1b[2J\nb\u202e")
    assert capsys.readouterr().err == "chiplog: a\\x1b[2J\\x0ab\\u202e\n"


def test_a_broken_stderr_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any object may stand for stderr."""
    monkeypatch.setattr(sys, "stderr", object())
    messages.say("nobody reads this")


def test_a_reason_is_new_once_per_sink_and_run() -> None:
    """Another sink may report the same reason."""
    assert messages.first_reason("run", "csv", "full") and not messages.first_reason("run", "csv", "full")
    assert messages.first_reason("run", "jsonl", "full")
