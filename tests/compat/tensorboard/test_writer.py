"""`SummaryWriter`: the same script with torch's class and with ours."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chiplog
from chiplog.compat.tensorboard import SummaryWriter
from chiplog.store.reader import Stored

torch = pytest.importorskip("torch")
original = pytest.importorskip("torch.utils.tensorboard")


def script(writer: Any) -> None:
    """What training scripts do with a writer."""
    with writer:
        for step in range(5):
            writer.add_scalar("train/loss", torch.tensor(1.0 / (step + 1)), step)
            writer.add_scalar("odd", float("nan") if step == 2 else np.float32(step), global_step=step * 10)
            writer.add_scalars("acc", {"top1": 0.1 * step, "top5": 0.2 * step}, step)
        writer.add_text("note", "some *text*", 3)
        writer.add_histogram("weights", torch.linspace(-1, 1, 100), 4)
        writer.add_image("picture", torch.rand(3, 8, 8), 4)
        writer.add_images("pictures", np.zeros((2, 8, 8, 3), "uint8"), 4, dataformats="NHWC")
        writer.add_audio("sound", torch.zeros(1, 400), 4, sample_rate=8000)
        writer.add_pr_curve("curve", np.array([1, 0, 1]), np.array([0.9, 0.4, 0.3]), 4)
        writer.flush()


def recorded(root: Path) -> Stored:
    """The only run of a directory."""
    (run,) = chiplog.runs(root)
    return run


def test_a_script_has_the_same_scalars_as_with_torch(tmp_path: Path) -> None:
    """Value by value, at the same steps; with the event files, if they are asked for."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    script(original.SummaryWriter(tmp_path / "theirs"))
    script(SummaryWriter(tmp_path / "ours", dir=tmp_path / "runs", event_files=True))
    run = recorded(tmp_path / "runs")
    for folder in ("theirs", "ours"):
        events = EventAccumulator(str(tmp_path / folder)).Reload()
        for tag in ("train/loss", "odd"):
            series = run.series(tag)
            assert [(one.step, np.float32(one.value).tobytes()) for one in events.Scalars(tag)] == [
                (step, np.float32(value).tobytes()) for step, value in zip(series.steps, series.values, strict=True)
            ]
    assert run.series("acc/top5").values.tolist() == pytest.approx([0, 0.2, 0.4, 0.6, 0.8])
    assert run.name == str(tmp_path / "ours") and run.state == "finished"


def test_pictures_sound_text_and_curves_are_kept(tmp_path: Path) -> None:
    """Each as what chiplog has for it."""
    script(SummaryWriter("exp/1", dir=tmp_path))
    run = recorded(tmp_path)
    files = {one.name: one for one in run.records("file") if not one.path.startswith("files/environment")}
    assert {name: one.media for name, one in files.items()} == {
        "picture": "image/png", "pictures": "image/png", "sound": "audio/wav",
    }  # fmt: skip
    assert all((run.path / one.path).stat().st_size == one.size for one in files.values())
    (text,) = run.records("text")
    (histogram,) = run.records("histogram")
    assert (text.name, text.text, text.step) == ("note", "some *text*", 3)
    assert sum(histogram.counts) == 100 and histogram.min == -1 and histogram.max == 1
    rows = [row for table in run.records("table") for row in table.rows]
    assert len(rows) == 127 and rows[0]["recall"] == 1 and rows[0]["precision"] == pytest.approx(2 / 3)


def test_calls_without_a_step_are_counted(tmp_path: Path) -> None:
    """By tag; and hyperparameters are the config."""
    with SummaryWriter(dir=tmp_path) as writer:
        for value in (3.0, 2.0, 1.0):
            writer.add_scalar("loss", value)
        writer.add_scalar("other", 5.0)
        writer.add_hparams({"lr": 0.1, "layers": 2}, {"best": 0.5})
    run = recorded(tmp_path)
    assert run.series("loss").steps.tolist() == [0, 1, 2] and run.series("other").steps.tolist() == [0]
    assert run.config == {"lr": 0.1, "layers": 2} and run.series("best").values.tolist() == [0.5]


def test_the_current_run_is_used_and_stays_open(tmp_path: Path) -> None:
    """A script that has a run wants one, not two."""
    with chiplog.init("p", id="mine", dir=tmp_path, sinks="none") as run:
        writer = SummaryWriter("logs")
        assert writer.run is run and writer.get_logdir() == "logs"
        writer.add_scalar("loss", 1.0, 7)
        writer.close()
        assert not run.inert
        run.log({"loss": 2.0}, step=8)
    assert recorded(tmp_path).series("loss").steps.tolist() == [7, 8]


def test_writers_beside_each_other_have_a_run_each(tmp_path: Path) -> None:
    """One of which goes on after its end."""
    train, test = (SummaryWriter(f"logs/{name}", dir=tmp_path) for name in ("train", "test"))
    train.add_scalar("loss", 1.0, 0)
    test.add_scalar("loss", 3.0, 0)
    train.close()
    train.add_scalar("loss", 0.5, 1)
    train.close()
    test.close()
    first, second = (
        next(run for run in chiplog.runs(tmp_path) if run.name == f"logs/{name}") for name in ("train", "test")
    )
    assert first.series("loss").values.tolist() == [1.0, 0.5] and len(first.attempts) == 2
    assert second.series("loss").values.tolist() == [3.0]


def test_nothing_raises_into_training(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Not odd values, shapes that do not fit, nor what has no place in a run; each is said once."""
    with SummaryWriter(dir=tmp_path) as writer:
        for _ in range(2):
            writer.add_scalar("loss", object(), 1)
            writer.add_scalar("loss", None, "step")
            writer.add_scalars("a", None, 1)  # type: ignore[arg-type]
            writer.add_image("i", torch.zeros(3, 3), 1)
            writer.add_video("v", "nothing", 1)
            writer.add_histogram("h", [], 1)
            writer.add_graph(torch.nn.Linear(1, 1), torch.zeros(1))
            with writer.use_metadata(global_step=3):
                writer.add_scalar("t", 1.0, 2, walltime=5.0)
        with pytest.raises(AttributeError, match="add_something"):
            writer.add_something  # noqa: B018
    said = capfd.readouterr().err
    assert said.count("add_graph is accepted and not kept") == said.count("walltime= is accepted") == 1
    assert "dataformats 'CHW' do not fit" in said
    (tmp_path / "file").touch()
    nowhere = SummaryWriter(dir=tmp_path / "file" / "x", nonsense=1)
    nowhere.add_scalar("loss", 1.0, 1)
    nowhere.close()
    assert "nothing is kept" in capfd.readouterr().err


@pytest.mark.parametrize("package", ["torch.utils.tensorboard", "tensorboardX"])
def test_calls_have_the_shape_of_the_originals(package: str) -> None:
    """Every public method is there, and takes the arguments that torch's takes, by the same names."""
    theirs = import_module(package).SummaryWriter
    for name, method in inspect.getmembers(theirs, inspect.isfunction):
        if name.startswith("_"):
            continue
        ours = inspect.getattr_static(SummaryWriter, name, None)
        if ours is None:
            assert callable(getattr(SummaryWriter.__new__(SummaryWriter), name)), name
        elif package.startswith("torch") and name != "add_scalar":
            mine = inspect.signature(ours).parameters
            assert [key for key in inspect.signature(method).parameters if key not in mine] == [], name


def test_importing_it_imports_neither_torch_nor_tensorboard() -> None:
    """They are needed for event files only."""
    script = "import sys, chiplog.compat.tensorboard; print({'torch', 'tensorboard'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
