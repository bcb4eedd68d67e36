"""What `init` accepts, and the ways to find or join a run."""

from __future__ import annotations

import argparse
import dataclasses
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import chiplog
from chiplog.core.errors import BadSetting, RunNotFound, UnknownSink, Unwritable
from tests.core.run.begun import begin


def test_config_comes_from_anything_and_is_redacted_on_disk(tmp_path: Path) -> None:
    """A dict, a namespace or a dataclass; secrets stay in memory."""

    @dataclasses.dataclass
    class Options:
        lr: float = 0.1

    assert begin(tmp_path, config=Options()).config == {"lr": 0.1}
    assert begin(tmp_path, config=argparse.Namespace(lr=0.2)).config == {"lr": 0.2}
    run = begin(tmp_path, config={"lr": 0.3, "api_key": "abc", "net": {"heads": 8}})
    assert run.config["api_key"] == "abc" and run.config.lr == 0.3
    run.config["batch"] = 32
    run.config.update(lr=0.4)
    assert chiplog.read(run.dir).config == {"lr": 0.4, "api_key": "[redacted]", "net": {"heads": 8}, "batch": 32}
    with pytest.raises(BadSetting, match="config is a mapping"):
        begin(tmp_path, config=5)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"sinks": "csvv"}, UnknownSink, ["csvv", "console, csv, jsonl, json, tensorboard, memory"]),
        ({"durability": "never"}, BadSetting, ["'process', 'relaxed', 'disk'"]),
        ({"nonsense": 1}, BadSetting, ["nonsense", "project"]),
    ],
)
def test_a_mistake_at_the_door_fails_there(
    tmp_path: Path, settings: dict[str, object], error: type[Exception], words: list[str]
) -> None:
    """With the value in the message, and the choices."""
    with pytest.raises(error) as raised:
        begin(tmp_path, **settings)
    assert all(word in str(raised.value) for word in words)
    assert not list(tmp_path.rglob("*.jsonl"))


def test_an_unwritable_place_is_told_at_once(tmp_path: Path) -> None:
    """With the way out."""
    (tmp_path / "file").write_text("")
    with pytest.raises(Unwritable, match=r"init\(dir=\.\.\.\) or CHIPLOG_DIR"):
        begin(tmp_path / "file")


def test_the_module_speaks_to_the_current_run(tmp_path: Path) -> None:
    """`chiplog.log`, `chiplog.run` and `chiplog.finish`."""
    chiplog.core.run.previous = None
    with pytest.raises(chiplog.ChiplogError, match=r"chiplog\.init"):
        chiplog.log({"x": 1})
    run = begin(tmp_path)
    assert chiplog.run is run
    chiplog.log({"x": 1.0})
    assert chiplog.finish() and chiplog.run is None
    assert chiplog.finish()
    chiplog.log({"x": 2.0})
    assert len(chiplog.read(run.dir).series("x")) == 1


def test_a_pickled_run_is_inert_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And says how to open a journal of its own."""
    run = begin(tmp_path)
    copy = pickle.loads(pickle.dumps(run))
    copy.log({"x": 1.0})
    assert "chiplog.attach" in capsys.readouterr().err
    assert chiplog.read(run.dir).names() == []


def test_attach_opens_a_journal_of_ones_own_in_a_run(tmp_path: Path) -> None:
    """Of the same launch, so that nobody hides anybody."""
    run = begin(tmp_path)
    run.log({"x": 1.0}, step=0)
    chiplog.core.run.current = None
    worker = chiplog.attach(run.dir)
    worker.log({"x": 2.0}, step=0)
    worker.finish()
    run.finish()
    assert chiplog.read(run.dir).series("x").values.tolist() == [1.0, 2.0]
    with pytest.raises(RunNotFound):
        chiplog.attach(tmp_path / "nowhere")


def test_the_environment_is_gathered_and_kept(tmp_path: Path) -> None:
    """Command, versions and host; also for a run that ends at once."""
    with begin(tmp_path) as run:
        pass
    environment = chiplog.read(run.dir).environment
    assert environment["host"] == os.uname().nodename and environment["packages"]["numpy"] == np.__version__


def test_the_config_is_a_dict_to_everybody_else(tmp_path: Path) -> None:
    """It can be pickled into a checkpoint, and all ways of changing it are recorded."""
    run = begin(tmp_path, config={"lr": 0.1})
    run.config.setdefault("batch", 8)
    run.config |= {"depth": 3}
    run.config.update(argparse.Namespace(width=4), allow_val_change=True)
    copy = pickle.loads(pickle.dumps(run.config))
    assert type(copy) is dict and copy == {"lr": 0.1, "batch": 8, "depth": 3, "width": 4}
    assert chiplog.read(run.dir).config == copy


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"sinks": 5}, "console,csv"), ({"smooth": 2.0}, "smooth"), ({"reduce": "often"}, "every=N")],
)
def test_more_mistakes_at_the_door(tmp_path: Path, settings: dict[str, object], words: str) -> None:
    """Each says what was given and what can be."""
    with pytest.raises(BadSetting, match=words):
        begin(tmp_path, **settings)


def test_a_second_run_ends_the_first_and_nothing_is_lost_silently(tmp_path: Path) -> None:
    """`init` says why and what to do; the first refused record is reported, and the exit has their number."""
    script = (
        "import chiplog\n"
        "first = chiplog.init(id='first', sinks='none')\n"
        "second = chiplog.init(id='second', sinks='none')\n"
        "for step in range(12):\n"
        "    first.log({'loss': 1.0}, step=step)\n"
        "    second.log({'loss': 1.0}, step=step)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    ended, refused, total = done.stderr.splitlines()
    assert ended == (
        "chiplog: finished run first, which was still open, because it was the current run; "
        "init(beside=True) starts a run and leaves the current one open"
    )
    assert refused.startswith("chiplog: run first: the run has finished; what is logged here is not kept")
    assert total == "chiplog: run first: 12 records were not kept: the run has finished"


def test_a_run_beside_the_current_one_leaves_it_open(tmp_path: Path) -> None:
    """Each keeps what is logged to it; `chiplog.log` writes to the current one, and ending one does not end the other."""
    current = begin(tmp_path, id="current")
    trials = [begin(tmp_path, id=f"trial-{n}", beside=True) for n in range(2)]
    assert chiplog.run is current
    for step in range(3):
        chiplog.log({"loss": 1.0}, step=step)
        for trial in trials:
            trial.log({"loss": 2.0}, step=step)
    assert trials[0].finish() and chiplog.run is current and not current.inert and not trials[1].inert
    trials[1].log({"loss": 2.0}, step=3)
    assert trials[1].finish() and current.finish()
    read = {path.name: chiplog.read(path).series("loss").values.tolist() for path in (tmp_path / "p").iterdir()}
    assert read == {"current": [1.0] * 3, "trial-0": [2.0] * 3, "trial-1": [2.0] * 4}
