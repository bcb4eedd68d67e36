"""The stream that `chiplog tail` writes to."""

from __future__ import annotations

import io

import pytest

from chiplog.commands.tail.output import Output


class Closed(io.StringIO):
    """A pipe whose reader is gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_broken_pipe_is_remembered() -> None:
    """The console sink does not see it; the next check raises."""
    out = Output(Closed())
    out.check()
    out.write("row\n")
    with pytest.raises(BrokenPipeError):
        out.check()


def test_only_a_terminal_is_wiped() -> None:
    """A file gets the last line and no escape sequences."""
    stream = io.StringIO()
    Output(stream).end("== finished\n")
    assert stream.getvalue() == "== finished\n"
