"""`chiplog doctor`."""

from __future__ import annotations

import ast
import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from chiplog import integrations
from chiplog.store.journal import cursors

from .conftest import Cli

SEGMENT = "r00000-a01-0000"


@pytest.fixture
def sound(path: Path) -> Path:
    """A run with nothing wrong."""
    path.chmod(0o700)
    return path


@pytest.mark.usefixtures("sound")
def test_a_sound_run_is_well(cli: Cli) -> None:
    """A finished run has no problems, and the exit code says so."""
    code, out, _ = cli("doctor", "latest")
    assert (code, out.splitlines()[0]) == (0, "no problems found")
    for word in ("chiplog 0.", "numpy", "file system", "free", "none damaged", "sink 'csv': up to date"):
        assert word in out


def test_without_a_run_the_place_is_looked_at(cli: Cli) -> None:
    """`chiplog doctor` alone works where there is no run yet."""
    code, out, _ = cli("doctor")
    assert code == 0 and "the first run creates it" in out


def test_damage_is_named_by_its_bytes(cli: Cli, sound: Path) -> None:
    """A flipped byte is a problem with a range, and the record it took is missing."""
    journal = sound / "journal" / f"{SEGMENT}.jsonl"
    data = bytearray(journal.read_bytes())
    start = data.index(b'{"log":"step"')
    data[start + 20] ^= 1
    journal.write_bytes(data)
    code, out, _ = cli("doctor", "latest")
    assert code == 1
    assert f"journal/{SEGMENT}.jsonl: bytes {start}-" in out
    assert "1 records are missing: seq " in out


def test_a_torn_end_is_found(cli: Cli, sound: Path) -> None:
    """An unfinished last line of a run that is over is a problem."""
    with (sound / "journal" / f"{SEGMENT}.jsonl").open("ab") as file:
        file.write(b'{"log":"st')
    code, out, _ = cli("doctor", "latest")
    assert code == 1 and "the last line is torn" in out


def test_leftovers_are_found(cli: Cli, sound: Path) -> None:
    """A file that was never published is a problem; the reserve of a run that was killed is not."""
    reserve, aside = sound / "journal" / "r00000.reserve", sound / "parts" / ".x.parquet.0123abcd"
    aside.parent.mkdir(mode=0o700)
    for file in (reserve, aside):
        file.touch(mode=0o600)
        os.utime(file, (0, 0))
    out = cli("doctor", "latest")[1]
    first, problem = out.splitlines()[:2]
    assert first == "1 problem found" and "bad" in problem and ".x.parquet.0123abcd" in problem
    assert "note  journal/r00000.reserve is space that was set aside" in out
    assert "rm runs/tiny-lm/first/parts/.x.parquet.0123abcd" in out


def test_others_may_not_look(cli: Cli, sound: Path) -> None:
    """A file that others can read is a problem, with the command that mends it."""
    (sound / "run.json").chmod(0o644)
    code, out, _ = cli("doctor", "latest")
    assert code == 1 and "other users can access first/run.json" in out and "chmod -R go=" in out


def test_a_sink_that_is_behind(cli: Cli, sound: Path) -> None:
    """What a sink of a finished run has not got is a problem."""
    file = cursors.cursor_path(sound, "csv")
    cursor = cursors.load(file)
    number, byte, seq = cursor.positions["r00000-a01"]
    cursor.positions["r00000-a01"] = (number, byte - 100, seq)
    cursors.save(file, cursor)
    code, out, _ = cli("doctor", "latest")
    assert code == 1 and "sink 'csv' has not received the last 100 B" in out


def test_a_part_of_something_else(cli: Cli, sound: Path) -> None:
    """A part that says more than its journal holds does not match."""
    cli("compact")
    journal = sound / "journal" / f"{SEGMENT}.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-2]))
    code, out, _ = cli("doctor", "latest")
    assert code == 1 and f"parts/{SEGMENT} covers" in out


def test_a_part_that_is_broken(cli: Cli, sound: Path) -> None:
    """A part that is not Parquet is a problem, with what to do."""
    cli("compact")
    (sound / "parts" / f"{SEGMENT}.points.parquet").write_bytes(b"nothing")
    code, out, _ = cli("doctor", "latest")
    assert code == 1 and "cannot be read" in out and "chiplog compact" in out


def test_frameworks_that_are_installed_are_listed_with_the_line_for_each(cli: Cli) -> None:
    """Every integration has one: its docstring begins with it."""
    _, out, _ = cli("doctor")
    words = " ".join(out.split())
    assert (
        "transformers 5" in words and '`import chiplog.integrations.transformers`, then `report_to="chiplog"`' in words
    )
    assert "MLflow 3" in words and "`MLFLOW_TRACKING_URI=chiplog:///runs`" in words
    assert "`chiplog run --as wandb -- COMMAND`" in words
    assert "deepspeed" not in words.lower() or find_spec("deepspeed") is not None
    for file in Path(integrations.__file__).parent.glob("[a-z]*.py"):
        framework, colon, how = (ast.get_docstring(ast.parse(file.read_text())) or "").partition(": ")
        assert framework and colon and how.strip(), file.name
