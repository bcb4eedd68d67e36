"""Event files of torch, of TensorFlow 2 and of our own sink, against TensorBoard's own reader."""

from __future__ import annotations

import math
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

from chiplog.core import records
from tests.support import foreign_stores
from tests.support.foreign_stores import lost, opened, values


def torch_run(folder: Path, steps: int = 20) -> Path:
    writer = SummaryWriter(str(folder))
    for step in range(steps):
        writer.add_scalar("train/loss", 4 / (step + 1), step, walltime=1.7e9 + step)
        writer.add_scalar("train/größe <b>", math.nan if step == 3 else math.inf if step == 4 else step, step)
    writer.add_text("note", "two\nlines", 5)
    writer.add_histogram("weights", np.arange(100.0), 5, bins=10)
    writer.add_image("picture", np.zeros((3, 4, 4), np.uint8), 5)
    writer.close()
    return folder


def theirs(folder: Path) -> foreign_stores.Values:
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0, "histograms": 0})
    accumulator.Reload()
    return {
        tag: sorted([(one.step, one.value) for one in accumulator.Scalars(tag)], key=repr)
        for tag in accumulator.Tags()["scalars"]
    }


def test_scalars_are_those_of_tensorboard(tmp_path: Path) -> None:
    """Every scalar of torch comes over with its step, its bits and its time."""
    folder = torch_run(tmp_path / "logs" / "first")
    (run,) = opened(tmp_path / "logs", tmp_path / "cache")
    assert repr(values(run)) == repr(theirs(folder))
    assert run.series("train/loss").times.tolist() == [int(1.7e9 + step) * 10**9 for step in range(20)]
    assert (run.project, run.name, lost(run)) == ("logs", "first", {})


def test_text_histograms_and_images_come_over(tmp_path: Path) -> None:
    """Whatever torch writes beside scalars becomes records of its kind."""
    torch_run(tmp_path / "run")
    (run,) = opened(tmp_path / "run", tmp_path / "cache")
    (text,) = run.records("text")
    assert isinstance(text, records.TextRecord) and (text.name, text.text, text.step) == ("note", "two\nlines", 5)
    (histogram,) = run.records("histogram")
    assert isinstance(histogram, records.HistogramRecord)
    counts, edges = np.histogram(np.arange(100.0), 10)
    assert (histogram.counts, histogram.edges) == (counts.tolist(), edges.tolist())
    (picture,) = run.records("file")
    assert isinstance(picture, records.File) and picture.media == "image/png"
    assert (run.path / picture.path).read_bytes().startswith(b"\x89PNG")


def test_a_restart_hides_what_it_purges(tmp_path: Path) -> None:
    """A second file with `purge_step` is another attempt: TensorBoard's view by default, all points on request."""
    folder = tmp_path / "run"
    for purge, steps, value in ((None, range(10), 1.0), (6, range(8, 12), 2.0)):
        writer = SummaryWriter(str(folder), purge_step=purge, filename_suffix=f".{value:.0f}")
        for step in steps:
            writer.add_scalar("x", value, step)
        writer.close()
    (run,) = opened(folder, tmp_path / "cache")
    assert values(run) == theirs(folder)
    assert len(run.series("x", attempt=1)) == 10


def test_a_growing_file_is_read_from_where_it_was(tmp_path: Path) -> None:
    """Opening again adds what is new, once; a file that does not grow any more costs nothing."""
    writer = SummaryWriter(str(tmp_path / "run"))
    for count in range(1, 4):
        writer.add_scalar("x", count, count)
        writer.flush()
        (run,) = opened(tmp_path / "run", tmp_path / "cache")
        assert values(run) == {"x": [(step, float(step)) for step in range(1, count + 1)]}
        assert run.state == "running"
    writer.close()
    for path in (tmp_path / "run").iterdir():
        os.utime(path, (1.7e9, 1.7e9))
    (run,) = opened(tmp_path / "run", tmp_path / "cache")
    assert run.state == "ended" and len(run.series("x")) == 3


def test_a_cut_file_shows_what_it_holds(tmp_path: Path) -> None:
    """Cut at any byte, a file gives the points before it, and no others."""
    folder = torch_run(tmp_path / "run", 6)
    (file,) = (path.name for path in folder.iterdir())
    whole = values(opened(folder, tmp_path / "cache")[0])
    for copy in foreign_stores.cuts(folder, file, tmp_path):
        for run in opened(copy, tmp_path / "cache"):
            foreign_stores.assert_part_of(values(run), whole)


def test_a_flipped_bit_costs_its_record_and_is_named(tmp_path: Path) -> None:
    """A bit that is wrong never becomes a value; all other records are read, and the damage is counted."""
    folder = torch_run(tmp_path / "run", 6)
    (file,) = (path.name for path in folder.iterdir())
    whole = values(opened(folder, tmp_path / "cache")[0])
    total = sum(map(len, whole.values()))
    for copy in foreign_stores.flips(folder, file, tmp_path):
        for run in opened(copy, tmp_path / "cache"):
            some = values(run)
            foreign_stores.assert_part_of(some, whole)
            assert sum(map(len, some.values())) >= total - 1
            assert any("damaged" in reason or "unfinished" in reason for reason in lost(run))


@pytest.mark.parametrize("name", ["../../../x", "a\x00b\x1b[31m", "<script>", "x" * 70_000, "files/../../y"])
def test_hostile_tags_are_only_names(tmp_path: Path, name: str) -> None:
    """A tag is never a path: its image stays inside the run, its series keeps its name."""
    folder = tmp_path / "run"
    with SummaryWriter(str(folder)) as writer:
        writer.add_scalar(name, 1.0, 1)
        writer.add_image(name, np.zeros((3, 2, 2), np.uint8), 1)
    (run,) = opened(folder, tmp_path / "cache")
    assert run.names() == [name]
    (picture,) = run.records("file")
    assert isinstance(picture, records.File)
    assert (run.path / picture.path).resolve().is_relative_to(run.path.resolve() / "files")


def test_a_file_that_only_has_the_name_is_not_taken(tmp_path: Path) -> None:
    """Formats look at the bytes, not at the name alone."""
    (tmp_path / "events.out.tfevents.1").write_bytes(b"not events at all, only text")
    assert opened(tmp_path, tmp_path / "cache") == []


def test_two_copies_of_a_run_are_one(tmp_path: Path) -> None:
    """The identity of a run is in its files: a copy elsewhere is the same run."""
    folder = torch_run(tmp_path / "a" / "run", 2)
    shutil.copytree(folder, tmp_path / "b" / "run")
    runs: list[Any] = opened(tmp_path / "a", tmp_path / "cache") + opened(tmp_path / "b", tmp_path / "cache")
    assert runs[0].id == runs[1].id
