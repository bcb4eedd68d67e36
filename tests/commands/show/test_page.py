"""`chiplog show`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import chiplog
from chiplog.commands.show.page import page
from chiplog.core.display import Screen
from tests.commands.conftest import Cli


def test_a_page_says_it_all(cli: Cli, path: Path) -> None:
    """Name, state, config, attempts, series, evals, alerts, sinks and files are on the page."""
    out = cli("show", "first")[1]
    assert out.startswith("tiny-lm/first  a try  finished\n")
    for word in (
        "model/dim  8",
        "0 to 49",
        "train/loss",
        "it is slow",
        "csv  up to date",
        "files/metrics.csv",
        str(path),
    ):
        assert word in out


@pytest.mark.parametrize("columns", [80, 120])
def test_no_line_is_too_wide(path: Path, columns: int) -> None:
    """The page keeps within the terminal."""
    text = page(chiplog.read(path), Screen(columns, 30, colour=False, ascii=False))
    assert max(map(len, text.splitlines())) <= columns


def test_steps_nobody_gave_are_the_same_after_compaction(cli: Cli, tmp_path: Path) -> None:
    """A run logged without steps has its first and last one on either side of it."""
    with chiplog.init("p", sinks="none", dir=tmp_path / "uncounted", compact=False) as run:
        for value in range(5):
            run.log({"x": value})

    def steps() -> str:
        (line,) = [line for line in cli("show", str(run.dir))[1].splitlines() if " 0 to 4 " in line]
        return line

    before = steps()
    cli("compact", "--quiet", str(run.dir))
    assert steps() == before


def test_damage_and_what_it_took_are_named(cli: Cli, path: Path) -> None:
    """A flipped byte is shown with its range, and the record it cost with its number."""
    journal = path / "journal" / "r00000-a01-0000.jsonl"
    data = bytearray(journal.read_bytes())
    at = data.index(b'"step":20')
    data[at + 8] ^= 1
    journal.write_bytes(data)
    out = " ".join(cli("show")[1].split())
    assert "! damage: r00000-a01-0000.jsonl: bytes " in out
    assert "1 records are lost: seq " in out


@pytest.mark.usefixtures("path")
def test_two_writers_are_called_so(cli: Cli) -> None:
    """Two launches that write one run at the same time are warned of."""
    script = (
        "import chiplog, sys; run = chiplog.init(project='p', id='both', sinks='none'); run.log({'x': 1}); "
        "print('go', flush=True); sys.stdin.read()"
    )
    others = [
        subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        for _ in range(2)
    ]
    for other in others:
        assert other.stdout is not None and other.stdout.readline() == b"go\n"
    assert "two writers: attempts 1 and 2" in cli("show", "both")[1]
    for other in others:
        other.communicate(b"", timeout=60)
    assert "two writers" in cli("show", "both")[1]


@pytest.mark.usefixtures("path")
def test_a_second_attempt_is_no_second_writer(cli: Cli) -> None:
    """A run that was resumed has two attempts and no warning."""
    with chiplog.init(project="tiny-lm", id="first", resume="must", sinks="none") as run:
        run.log({"train/loss": 1.0}, step=40)
    out = cli("show", "first")[1]
    assert "two writers" not in out
    assert "40 to 40" in out


def test_many_series_are_shortened(cli: Cli) -> None:
    """A run with hundreds of series shows some, and all when asked."""
    with chiplog.init(project="p", sinks="none") as run:
        run.log({f"m/{at:03d}": at for at in range(100)})
    assert "70 more: --all" in cli("show")[1]
    assert "m/099" in cli("show", "--all")[1]


def test_hostile_text_does_nothing(cli: Cli) -> None:
    """Escape sequences anywhere in a run reach the terminal as text."""
    bad = "\x1b[2J\u202e"
    with chiplog.init(project="p", name=bad, config={bad: bad}, tags=[bad], sinks="none") as run:
        run.log({bad: 1.0})
        run.eval({bad: 1.0})
        run.alert(bad, text=bad)
        os.utime(run.dir)
    out = cli("show")[1]
    assert "\x1b" not in out and "\u202e" not in out


def test_what_the_run_set_and_its_histograms_are_shown(cli: Cli, tmp_path: Path) -> None:
    """On the page and as JSON: values of the summary, and the newest histogram of each name as numbers and bars."""
    with chiplog.init("p", id="r", dir=tmp_path, sinks="none") as run:
        run.summary["best_acc"] = 0.9
        for step in range(2):
            run.log({"weights": chiplog.Histogram(counts=[1, 2, 3 + step], edges=[0, 1, 2, 3])}, step=step)
    out = cli("show", str(run.dir))[1]
    assert "summary\n  best_acc  0.9\n" in out
    assert [line.split() for line in out.splitlines() if "weights" in line] == [
        ["weights", "1", "7", "1.929", "0", "3", "▃▅█"]
    ]
    data = json.loads(cli("show", str(run.dir), "--json")[1])
    assert data["summary"] == {"best_acc": 0.9}
    assert data["histograms"]["weights"]["counts"] == [1, 2, 4] and data["histograms"]["weights"]["logged"] == 2
