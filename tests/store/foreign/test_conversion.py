"""Conversions that are cut off, continued, split into segments, or in each other's way."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from torch.utils.tensorboard import SummaryWriter

import chiplog
from chiplog.core.records import Plain
from chiplog.store.foreign import conversion, registry, run_writer, tfrecords
from chiplog.store.foreign.protocol import ForeignRun, Item, Losses
from chiplog.store.reader import Stored
from tests.support.foreign_stores import values

STEPS = 400


@pytest.fixture
def source(tmp_path: Path) -> ForeignRun:
    with SummaryWriter(str(tmp_path / "logs" / "run")) as writer:
        for step in range(STEPS):
            writer.add_scalar("x", step / 3, step)
            writer.add_scalar("y", -step, step)
    for path in (tmp_path / "logs" / "run").iterdir():
        os.utime(path, (1.7e9, 1.7e9))
    (run,) = registry.find(tmp_path / "logs")
    return run


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks, segments and saved positions as small as a test needs."""
    monkeypatch.setattr(tfrecords, "CHUNK", 2000)
    monkeypatch.setattr(run_writer, "LARGEST", 20_000)
    monkeypatch.setattr(run_writer, "WORTHWHILE", 1000)
    monkeypatch.setattr(conversion, "SAVED_EVERY", 3000)


def whole() -> dict[str, list[tuple[float, float]]]:
    return {
        "x": sorted([(step, float.fromhex((step / 3).hex())) for step in range(STEPS)], key=repr),
        "y": sorted([(step, float(-step)) for step in range(STEPS)], key=repr),
    }


def rounded(run: Stored) -> dict[str, list[tuple[float, float]]]:
    return {name: [(step, round(value, 3)) for step, value in pairs] for name, pairs in values(run).items()}


@pytest.mark.usefixtures("small_pieces")
def test_segments_and_parts_hold_every_point_once(source: ForeignRun, tmp_path: Path) -> None:
    """A long source becomes several segments, each with its part, as those of a live run."""
    done = conversion.convert(source, tmp_path / "runs")
    run = Stored(done.run)
    assert len(list((done.run / "journal").glob("*.jsonl"))) > 2
    assert list((done.run / "parts").glob("*.points.parquet"))
    assert (done.points, run.damage, run.missing) == (2 * STEPS, [], {})
    with_parts = rounded(run)
    for part in (done.run / "parts").iterdir():
        part.unlink()
    assert rounded(Stored(done.run)) == with_parts
    assert [step for step, _ in with_parts["x"]] == [step for step, _ in whole()["x"]]


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("after", [1, 5, 9, 14, 20])
def test_a_conversion_that_was_cut_off_is_continued(source: ForeignRun, tmp_path: Path, after: int) -> None:
    """Whenever the process dies, the next conversion ends with every point once."""

    def dying(position: Plain, losses: Losses) -> Iterator[Item]:
        for number, item in enumerate(source.read(position, losses)):
            if number == after:
                raise KeyboardInterrupt
            yield item

    with pytest.raises(KeyboardInterrupt):
        conversion.convert(replace(source, read=dying), tmp_path / "runs")
    conversion.convert(source, tmp_path / "runs")
    (run,) = chiplog.runs(tmp_path / "runs")
    assert (run.damage, run.missing) == ([], {})
    assert {name: len(pairs) for name, pairs in values(run).items()} == {"x": STEPS, "y": STEPS}


def test_a_run_of_ours_with_the_same_id_is_not_touched(source: ForeignRun, tmp_path: Path) -> None:
    """An import never writes into a run that did not come from the same source."""
    about = source.about(None)
    with chiplog.init(about.project, id=about.id, dir=tmp_path / "runs", sinks="none") as run:
        run.log({"mine": 1})
    done = conversion.convert(source, tmp_path / "runs")
    assert done.run != run.dir
    assert chiplog.read(run.dir).names() == ["mine"]
    again = conversion.convert(source, tmp_path / "runs")
    assert (again.run, again.points, again.new) == (done.run, 0, False)


def test_what_a_format_did_not_foresee_is_named(source: ForeignRun, tmp_path: Path) -> None:
    """An error in the middle keeps what came before it, and is reported with the run."""

    def broken(position: Plain, losses: Losses) -> Iterator[Item]:
        yield from source.read(position, losses)
        raise LookupError("odd")

    done = conversion.convert(replace(source, read=broken), tmp_path / "runs")
    assert done.points == 2 * STEPS and done.lost == {"the rest could not be read: LookupError: odd": 1}


def test_a_file_that_was_touched_is_not_running(tmp_path: Path) -> None:
    """The times of its rows say when it ended and how long it took, and goodput is a share of that."""
    rows = "".join(f"{step},{1.0 / (step + 1)},{1_700_000_000 + 10 * step}\n" for step in range(20))
    (tmp_path / "old.csv").write_text(f"step,loss,timestamp\n{rows}")
    (source,) = registry.find(tmp_path / "old.csv")
    run = Stored(conversion.convert(source, tmp_path / "runs").run)
    assert run.state == "ended" and [one.seconds(time.time_ns()) for one in run.attempts] == [190.0]
    assert run.goodput().wall == 190.0


def test_a_file_with_rows_of_now_is_running(tmp_path: Path) -> None:
    """Until nothing has come for a minute."""
    (tmp_path / "new.csv").write_text(f"step,loss,timestamp\n0,1.0,{time.time() - 5}\n")
    (source,) = registry.find(tmp_path / "new.csv")
    assert Stored(conversion.convert(source, tmp_path / "runs").run).state == "running"
