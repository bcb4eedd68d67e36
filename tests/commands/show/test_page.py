"""`chiplog show`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import chiplog
from chiplog.commands.show.page import MOST, page
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


def test_a_series_has_its_unit(tmp_path: Path) -> None:
    """The power of a GPU is in W, in a section of its own; without units there is no such column."""
    for gpu in (True, False):
        with chiplog.init("p", sinks="none", dir=tmp_path, compact=False) as run:
            run.log({"train/loss": 0.5}, step=0)
            if gpu:
                run.event("gpu", id=0, power=352_900)
        text = page(chiplog.read(run.dir), Screen(120, 30, colour=False, ascii=False))
        rows = [line.split() for line in text.splitlines()]
        assert any(row[:3] == ["gpu/0/power", "352.9", "W"] for row in rows) == gpu
        assert any(row[:3] == ["name", "last", "unit"] for row in rows) == gpu
        assert (["system"] in rows) == gpu


def test_many_gpus_do_not_push_the_metrics_of_the_training_out(tmp_path: Path) -> None:
    """They are sorted among themselves, and cut among themselves."""
    with chiplog.init("p", sinks="none", dir=tmp_path, compact=False) as run:
        run.log({"train/loss": 0.5, "train/zeta": 1.0}, step=0)
        for number in range(MOST + 1):
            run.event("gpu", id=number, power=1000)
    text = page(chiplog.read(run.dir), Screen(120, 30, colour=False, ascii=False))
    assert "train/zeta" in text and "and 1 more" in text


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


@pytest.mark.parametrize("compacted", [False, True])
def test_the_steps_of_an_attempt_are_its_lowest_and_highest(cli: Cli, tmp_path: Path, compacted: bool) -> None:
    """Whatever step was logged last."""
    with chiplog.init("p", id="r", dir=tmp_path, sinks="none") as run:
        for step in (*range(2, 10), 3):
            run.log({"loss": 1.0}, step=step)
    if compacted:
        assert cli("compact", str(run.dir))[0] == 0
    assert "2 to 9" in cli("show", str(run.dir))[1]
    (attempt,) = json.loads(cli("show", str(run.dir), "--json")[1])["attempts"]
    assert (attempt["first_step"], attempt["last_step"]) == (2, 9)


def test_matrices_are_listed(cli: Cli, tmp_path: Path) -> None:
    """With the shape and the step of the newest one."""
    with chiplog.init("p", id="r", dir=tmp_path, sinks="none") as run:
        for step in range(5):
            run.log({"moe/load": chiplog.Matrix([[1.0, 2.0, 3.0], [4.0, 5.0, step]])}, step=step)
    lines = [line.split() for line in cli("show", str(run.dir))[1].splitlines()]
    assert ["moe/load", "2", "×", "3", "4"] in lines
    assert json.loads(cli("show", str(run.dir), "--json")[1])["matrices"] == {"moe/load": {"shape": [2, 3], "step": 4}}


def test_tables_and_texts_are_listed(cli: Cli, tmp_path: Path) -> None:
    """On the page and as JSON: how many rows with which columns, and the newest text."""
    with chiplog.init("p", id="r", dir=tmp_path, sinks="none") as run:
        for step in range(3):
            run.table("samples", [{"prompt": "a", "n": step}, {"prompt": "b", "score": 1.0}], step=step)
            run.log({"note": f"text {step}"}, step=step)
    out = cli("show", str(run.dir))[1]
    lines = [line.split() for line in out.splitlines()]
    assert ["samples", "6", "2", "prompt,", "n,", "score"] in lines and ["note", "3", "2", "text", "2"] in lines
    data = json.loads(cli("show", str(run.dir), "--json")[1])
    assert data["tables"] == {"samples": {"rows": 6, "columns": ["prompt", "n", "score"], "step": 2}}
    assert data["texts"] == {"note": {"count": 3, "last": "text 2", "step": 2}}
