"""`sync_tensorboard`: what a script writes to TensorBoard is logged, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.scalar import summary_v2 as scalar_v2
from tensorboard.plugins.text import summary_v2 as text_v2
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from torch.utils.tensorboard import SummaryWriter

import chiplog
import chiplog.compat.wandb as wandb
from chiplog.compat.wandb.run import Run
from chiplog.core import records
from tests.support.tensorboard_points import load


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setattr(EventFileWriter, "add_event", EventFileWriter.add_event)  # and not wrapped afterwards
    yield wandb.init(id="run", sync_tensorboard=True)
    wandb.finish()


def history() -> list[dict[str, object]]:
    """The rows of the run, without W&B's own columns."""
    wandb.finish()
    return [
        {name: value for name, value in row.items() if not name.startswith("_") and value is not None}
        for row in wandb.Api().run("run").scan_history()
    ]


def write(folder: Path, *events: Event) -> None:
    writer = EventFileWriter(str(folder))
    for event in events:
        writer.add_event(event)
    writer.close()


@pytest.mark.usefixtures("run")
def test_values_of_one_step_are_one_row(tmp_path: Path) -> None:
    """With the step of TensorBoard beside them; the event file is as without chiplog."""
    with SummaryWriter(str(tmp_path / "logs")) as writer:
        for step in (0, 10, 20):
            writer.add_scalar("loss", 1.0 / (step + 1), step)
            writer.add_scalar("lr", 0.5, step)
    loaded = load(tmp_path / "logs")
    assert [(one.step, one.value) for one in loaded.Scalars("lr")] == [(0, 0.5), (10, 0.5), (20, 0.5)]
    assert history() == [
        {"loss": pytest.approx(1.0 / (step + 1)), "lr": 0.5, "global_step": step} for step in (0, 10, 20)
    ]


def test_rows_of_the_script_keep_their_own_steps(run: Run, tmp_path: Path) -> None:
    """Whatever is written in between."""
    with SummaryWriter(str(tmp_path / "logs")) as writer:
        run.log({"mine": 1})
        writer.add_scalar("loss", 1.0, 100)
        run.log({"mine": 2})
        writer.add_scalar("loss", 2.0, 200)
    rows = history()
    assert [row["mine"] for row in rows if "mine" in row] == [1, 2]
    assert [(row["loss"], row["global_step"]) for row in rows if "loss" in row] == [(1.0, 100), (2.0, 200)]


@pytest.mark.usefixtures("run")
def test_everything_that_has_a_place_is_logged(tmp_path: Path) -> None:
    """Text, histograms and images of torch; scalars and text that TensorFlow 2 writes as tensors."""
    with SummaryWriter(str(tmp_path / "logs")) as writer:
        writer.add_text("note", "two\nlines", 5)
        writer.add_histogram("weights", np.arange(100.0), 5, bins=10)
        writer.add_image("picture", np.zeros((3, 4, 4), np.uint8), 5)
    write(
        tmp_path / "tensors",
        Event(step=6, summary=scalar_v2.scalar_pb("tensor", 0.25)),
        Event(step=6, summary=text_v2.text_pb("words", "hello")),
    )
    rows = history()
    stored = chiplog.read("run")
    texts = {one.name: one.text for one in stored.records("text") if isinstance(one, records.TextRecord)}
    assert texts["note/text_summary"] == "two\nlines" and texts["words"] == "hello"
    (histogram,) = (one for one in stored.records("histogram") if isinstance(one, records.HistogramRecord))
    assert histogram.name == "weights" and sum(map(float, histogram.counts)) == 100
    (picture,) = (one for one in stored.records("file") if isinstance(one, records.File))
    assert picture.media == "image/png"
    assert [row["tensor"] for row in rows if "tensor" in row] == [0.25]


@pytest.mark.usefixtures("run")
def test_what_has_no_place_costs_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tensor of several numbers is left out; a damaged one is reported once, and the event file has both."""
    several = TensorProto(dtype=1, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=2)]), float_val=[1, 2])
    damaged = TensorProto(dtype=2, tensor_content=b"123")
    values = [Summary.Value(tag="x", simple_value=3.0), Summary.Value(tag="several", tensor=several)]
    write(
        tmp_path / "logs",
        Event(step=1, summary=Summary(value=values)),
        *(Event(step=2, summary=Summary(value=[Summary.Value(tag="damaged", tensor=damaged)])) for _ in range(3)),
    )
    assert history() == [{"x": 3.0, "global_step": 1}]
    assert capsys.readouterr().err.count("sync_tensorboard failed; training continues") == 1
    assert [one.value for one in load(tmp_path / "logs").Scalars("x")] == [3.0]


def test_each_run_is_followed_once_and_until_its_end(run: Run, tmp_path: Path) -> None:
    """However often a script asks; what is written later is not for it."""
    first = EventFileWriter.add_event
    with SummaryWriter(str(tmp_path / "logs")) as writer:
        writer.add_scalar("x", 1.0, 1)
        run.finish()
        writer.add_scalar("x", 2.0, 2)
        second = wandb.init(id="second", sync_tensorboard=True)
        writer.add_scalar("x", 3.0, 3)
        second.finish()
    assert EventFileWriter.add_event is first
    assert chiplog.read("run").series("x").values.tolist() == [1.0]
    assert chiplog.read("second").series("x").values.tolist() == [3.0]
