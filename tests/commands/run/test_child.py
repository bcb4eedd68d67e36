"""A child process whose output passes through this one."""

from __future__ import annotations

import io
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from chiplog.commands.run.child import Child
from tests.support.waiting import wait_for


class Streams:
    """What is printed here, as bytes."""

    def __init__(self) -> None:
        self.out, self.err = io.BytesIO(), io.BytesIO()


def streams_of(monkeypatch: pytest.MonkeyPatch) -> Streams:
    """Not a fixture: pytest has streams of its own in every phase of a test."""
    made = Streams()
    for name, stream in (("stdout", made.out), ("stderr", made.err)):
        monkeypatch.setattr(sys, name, SimpleNamespace(buffer=stream))
    return made


def python(code: str, **environ: str) -> Child:
    return Child([sys.executable, "-c", code], {**os.environ, **environ})


def test_output_passes_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes of any kind, and all of them, on the stream to which they were written."""
    streams = streams_of(monkeypatch)
    made = python("import sys; sys.stdout.buffer.write(bytes(range(256)) * 4096); sys.stderr.write('problem')")
    assert made.wait() == 0
    assert streams.out.getvalue() == bytes(range(256)) * 4096 and streams.err.getvalue() == b"problem"


def test_a_line_passes_when_it_is_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Python would keep what it prints to a pipe; a value of the user's own is left alone."""
    streams = streams_of(monkeypatch)
    os.mkfifo(tmp_path / "go")
    made = python(f"print('early'); open({str(tmp_path / 'go')!r}).read()")
    wait_for(lambda: streams.out.getvalue() == b"early\n")
    (tmp_path / "go").write_text("")
    assert made.wait() == 0
    assert python("import os; print(os.environ['PYTHONUNBUFFERED'])", PYTHONUNBUFFERED="2").wait() == 0
    assert streams.out.getvalue() == b"early\n2\n"


@pytest.mark.parametrize(
    ("code", "returned"),
    [("raise SystemExit(7)", 7), ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL)],
)
def test_the_exit_code_is_that_of_the_command(code: str, returned: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative for a signal."""
    streams_of(monkeypatch)
    assert python(code).wait() == returned


class Unread(io.BytesIO):
    """A pipe whose reader has gone."""

    def write(self, data: object) -> int:
        raise BrokenPipeError


def test_output_that_nobody_reads_does_not_stop_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As after `| head`: it is read on, so that the command never waits for room."""
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=Unread()))
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(buffer=io.BytesIO()))
    made = python(f"print('x' * 1_000_000); open({str(tmp_path / 'done')!r}, 'w').close()")
    assert made.wait() == 0 and (tmp_path / "done").exists()
