"""`chiplog tail --console`."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

import chiplog
from chiplog.core import records
from tests.commands.conftest import Cli
from tests.views.web import stores


def test_the_last_lines_once(cli: Cli) -> None:
    """As many as asked for; the line that was never ended too."""
    run = chiplog.init("p", id="said", sinks="none", capture=True)
    for number in range(30):
        print(f"line {number}")
    print("and", end="")
    run.finish()
    code, out, _ = cli("tail", "said", "--console", "--once", "-n", "3")
    assert code == 0
    assert out.splitlines()[-4:] == ["line 28", "line 29", "and", "== finished"]
    code, out, _ = cli("tail", "said", "--console", "-n", "100")
    assert [line for line in out.splitlines() if line.startswith("line")] == [f"line {number}" for number in range(30)]


def test_a_run_without_capture_says_how(cli: Cli) -> None:
    """Nothing was kept, and it need not stay so."""
    chiplog.init("p", id="silent", sinks="none").finish()
    code, out, _ = cli("tail", "silent", "--console", "--once")
    assert code == 0 and "CHIPLOG_CAPTURE=1" in out


def test_lines_are_followed_as_they_come() -> None:
    """Until the run ends, in another process."""
    run = chiplog.init("p", id="now", sinks="none", capture=True)
    print("before")
    words = [sys.executable, "-m", "chiplog", "tail", "now", "--console"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        run.flush()
        assert process.stdout.readline() == "before\n"
        print("in between")
        assert process.stdout.readline() == "in between\n"
        run.finish()
        assert process.stdout.readline() == "== finished\n"
        assert process.wait(10) == 0


def test_ranks_are_named_where_there_are_several(cli: Cli) -> None:
    """In the order of time."""
    path = stores.make_run(Path("runs"), "p", "ranks")
    for rank in (0, 1):
        journal = stores.Journal(path, rank=rank, world=2)
        journal.add(records.ConsoleRecord, lines=[f"a of {rank}", f"b of {rank}"], times=[10 + rank, 20 + rank])
        journal.finish()
    code, out, _ = cli("tail", "ranks", "--console", "--once", "-n", "3")
    assert code == 0
    assert out.splitlines() == ["[1] a of 1", "[0] b of 0", "[1] b of 1", "== finished"]


EVIL = "\x1b]0;x\x07\x1b]52;c;eA==\x07\x1b[2J\x1bP1$r\x1b\\\x9b31m\u202e\x1b[31mred\x1b[0m\rover"


@pytest.mark.parametrize("terminal", [False, True])
def test_a_terminal_gets_colour_and_no_other_escape(terminal: bool) -> None:
    """And where there is no terminal, not even that."""
    path = stores.make_run(Path("runs"), "p", "evil")
    journal = stores.Journal(path)
    journal.add(records.ConsoleRecord, lines=[EVIL, EVIL], times=[1, 2], open=[1])
    journal.finish()
    words = [sys.executable, "-m", "chiplog", "tail", "evil", "--console"]
    seen = (
        shown_on_a_terminal(words)
        if terminal
        else subprocess.run(words, capture_output=True, check=True).stdout.decode()
    )
    assert "red" in seen and "== finished" in seen
    allowed = r"\x1b\[31m|\x1b\[0m|\r\x1b\[K|\r\n|\n" if terminal else r"\n"
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202e]", re.sub(allowed, "", seen))
    assert ("\x1b[31mred" in seen) == terminal


def shown_on_a_terminal(words: list[str]) -> str:
    ours, theirs = pty.openpty()
    environ = {**os.environ, "TERM": "xterm"}
    environ.pop("NO_COLOR", None)
    process = subprocess.Popen(words, stdout=theirs, env=environ)
    os.close(theirs)
    seen = b""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if not select.select([ours], [], [], 1)[0]:
            continue
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        seen += piece
    assert process.wait(10) == 0
    os.close(ours)
    return seen.decode()
