"""`chiplog tail`."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

import chiplog
from tests.commands.conftest import Cli


@pytest.fixture
def following() -> Iterator[subprocess.Popen[str]]:
    """A run that goes on, and `chiplog tail` on it in another process."""
    run = chiplog.init(project="live", id="now", sinks="none")
    run.log({"train/loss": 2.0}, step=0)
    words = [sys.executable, "-m", "chiplog", "tail", "now"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


@pytest.mark.usefixtures("path")
def test_the_last_records_once(cli: Cli) -> None:
    """`--once -n 3` shows the last three and ends."""
    code, out, _ = cli("tail", "--once", "-n", "3")
    assert code == 0
    lines = out.splitlines()
    assert "49" in lines[0]
    assert "it is slow" in lines[-2]
    assert lines[-1] == "== finished"


@pytest.mark.usefixtures("path")
def test_a_finished_run_ends_at_once(cli: Cli) -> None:
    """Following a finished run shows its end and returns."""
    assert cli("tail", "first")[1].splitlines()[-1] == "== finished"
    assert cli("tail", "-f", "first") == cli("tail", "first")  # as tail(1) has it


def test_a_live_run_is_followed_to_its_end(following: subprocess.Popen[str]) -> None:
    """What is logged while `tail` runs is printed, and it ends with the run."""
    assert following.stdout is not None
    assert "2.0" in following.stdout.readline()
    chiplog.log({"train/loss": 1.25}, step=1)
    assert "1.25" in following.stdout.readline()
    chiplog.finish()
    out, err = following.communicate(timeout=30)
    assert out.splitlines()[-1] == "== finished"
    assert (following.returncode, err) == (0, "")


def test_an_interrupt_ends_it_quietly(following: subprocess.Popen[str]) -> None:
    """Ctrl-C gives exit code 130 and no traceback."""
    assert following.stdout is not None
    following.stdout.readline()
    following.send_signal(signal.SIGINT)
    _, err = following.communicate(timeout=30)
    assert (following.returncode, err) == (130, "")


def test_a_reader_that_goes_away_ends_it(following: subprocess.Popen[str]) -> None:
    """`chiplog tail | head` does not follow for nobody."""
    assert following.stdout is not None and following.stderr is not None
    following.stdout.readline()
    following.stdout.close()
    deadline = time.monotonic() + 30
    step = 1
    while following.poll() is None and time.monotonic() < deadline:
        chiplog.log({"train/loss": 1.0}, step=step)
        step += 1
        try:
            following.wait(timeout=0.05)
        except subprocess.TimeoutExpired:
            pass
    assert following.returncode == 141
    assert following.stderr.read() == ""


def test_hostile_text_does_nothing(cli: Cli) -> None:
    """Escape sequences in names and alerts reach the terminal as text."""
    with chiplog.init(project="p", sinks="none") as run:
        run.log({"\x1b[2J": 1.0})
        run.alert("\x1b]0;owned\x07")
    assert "\x1b" not in cli("tail", "--once")[1]


def test_the_gap_of_an_eval_is_that_of_the_live_console(cli: Cli, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """It is to the loss of its step, even if `tail` does not show that step."""
    with chiplog.init(project="gaps", id="falling", sinks="console") as run:
        for step in range(10):
            run.log({"train/loss": 4.0 / (step + 1)}, step=step)
        run.eval({"loss": 0.5}, step=9)
    live = [line for line in capsysbinary.readouterr().out.decode().splitlines() if line.startswith(">> eval")]
    assert "gap +0.1000" in live[0]
    for count in ("1", "2", "20"):
        lines = cli("tail", "falling", "--once", "-n", count)[1].splitlines()
        assert [line for line in lines if line.startswith(">> eval")] == live
