"""`chiplog compact`."""

from __future__ import annotations

from pathlib import Path

import pytest

import chiplog
from chiplog.sinks.shared.lease import Lease
from chiplog.store.journal import cursors
from tests.commands.conftest import Cli

SEGMENT = "r00000-a01-0000"


def test_a_finished_run_is_compacted(cli: Cli, path: Path) -> None:
    """A closed segment gets its part, and the sizes are said."""
    out = cli("compact")[1]
    assert f"tiny-lm/first  {SEGMENT}  " in out and "->" in out
    assert (path / "parts" / f"{SEGMENT}.points.parquet").exists()
    assert (path / "journal" / f"{SEGMENT}.jsonl").exists()


@pytest.mark.usefixtures("path")
def test_a_second_time_there_is_nothing_to_do(cli: Cli) -> None:
    """What is compacted stays as it is."""
    cli("compact")
    assert "nothing to compact" in cli("compact")[1]


def test_quiet_is_quiet(cli: Cli, path: Path) -> None:
    """`--quiet` does the work without a word."""
    assert cli("compact", "--quiet", path) == (0, "", "")
    assert (path / "parts").exists()


def test_a_segment_that_is_written_is_left_alone(cli: Cli) -> None:
    """The newest segment of a running attempt is not compacted."""
    run = chiplog.init(project="live", sinks="none")
    assert "nothing to compact" in cli("compact")[1]
    assert not (Path(run.dir) / "parts").exists()


def test_pruning_keeps_everything_readable(cli: Cli, path: Path) -> None:
    """A pruned journal is smaller, and reads the same."""
    before = cli("cat")[1]
    cli("compact", "--prune")
    assert [file.name for file in (path / "journal").glob("*.jsonl*")] == [f"{SEGMENT}.jsonl.zst"]
    assert cli("cat")[1] == before
    assert len(chiplog.read(path).series("train/loss")) == 50


def test_what_a_sink_still_needs_is_not_pruned(cli: Cli, path: Path) -> None:
    """A journal that a sink has not read to its end is kept, and said to be."""
    file = cursors.cursor_path(path, "csv")
    cursor = cursors.load(file)
    number, byte, seq = cursor.positions["r00000-a01"]
    cursor.positions["r00000-a01"] = (number, byte - 1, seq)
    cursors.save(file, cursor)
    assert "journal kept: not yet delivered to csv" in cli("compact", "--prune")[1]
    assert (path / "journal" / f"{SEGMENT}.jsonl").exists()


def test_a_torn_journal_is_not_pruned(cli: Cli, path: Path) -> None:
    """A journal with bytes its part does not cover is kept."""
    with (path / "journal" / f"{SEGMENT}.jsonl").open("ab") as file:
        file.write(b'{"log":"st')
    assert "journal kept: its part covers" in cli("compact", "--prune")[1]


def test_one_of_two_runs(cli: Cli, path: Path) -> None:
    """Only the runs that are named are compacted."""
    other = chiplog.init(project="other", id="second", sinks="none")
    other.finish()
    cli("compact", "second")
    assert (Path(other.dir) / "parts").exists() and not (path / "parts").exists()


def test_a_run_is_compacted_by_one_process_at_a_time(cli: Cli, path: Path) -> None:
    """A run that is resumed again and again does not have a crowd of them at its end."""
    lease = Lease(path / "parts" / "compact.lease")
    assert lease.hold()
    assert "another process is compacting" in cli("compact")[2]
    assert not list((path / "parts").glob("*.parquet"))
    lease.release()
    cli("compact")
    assert list((path / "parts").glob("*.parquet"))
    assert not (path / "parts" / "compact.lease").exists()
